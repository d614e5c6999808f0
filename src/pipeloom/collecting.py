"""How often Python's cyclic collector looks through what is alive.

    with rarely_collected():
        search()

Programs, proofs and kernels are many small values that live long and form no cycles; with the
interpreter's own settings a quarter of a search goes to looking for cycles among them. Reference
counts free everything else as always.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (1_000_000, 20, 50)
"""New values between two looks; a search that asks for one every 700 needs as much memory."""


def collect_rarely() -> None:
    """For the rest of this process."""
    gc.set_threshold(*RARELY)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Inside alone; a collector that is off, or rarer already, stays so."""
    before = gc.get_threshold()
    if 0 < before[0] < RARELY[0]:
        collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
