"""What tests of commands ask for again and again is worked out once per process.

Dozens of them open the same few schedules to look at one option each, and most of their time went
into writing and simulating the same kernels. What writes and what simulates has tests of its own,
which do not use this.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import pytest

from pipeloom.drive import emitting, forms, opening, painting, programs, reporting, simulating

PLACES = (
    (emitting, "emit_any_size"),
    (reporting, "emit_any_size"),
    (programs, "emit_any_size"),
    (opening, "synchronize"),
    (forms, "simulate"),
    (painting, "simulate"),
    (simulating, "simulate"),
    (simulating, "simulate_emitted"),
    (painting, "simulate_emitted"),
)
"""Functions of values that do not change, by the name under which their users call them."""


class _Same:
    """A value without a hash, as itself; it is kept, so that no other can take its place."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _key(value: object) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return value


@cache
def _remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[Hashable, Any] = {}

    def call(*args: Any, **options: Any) -> Any:
        key = (*map(_key, args), *((name, _key(options[name])) for name in sorted(options)))
        if key not in known:
            known[key] = function(*args, **options)
        return known[key]

    return call


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in PLACES:
        monkeypatch.setattr(module, name, _remembered(getattr(module, name)))
