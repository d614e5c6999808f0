"""In which order the waves run, where barriers leave it open.

Within one barrier segment an order is a permutation: each wave runs to its next barrier in turn.
The wave that comes *last* is the dangerous one. When it starts its segment, all others have
finished theirs, while its own loads and reads from the segment before were in flight throughout.
With timing ``worst``, the orders ``wave_last(waves, w)`` for all w together show every pair of
accesses that waits and barriers leave unordered:

    Let X of wave v be issued in v's segment i and retired in r, Y of wave w in i' and r'. They
    are unordered iff r >= i' and r' >= i. Take i <= i' and let v run last. If i < i', Y issues
    while X is in flight: poison. If i = i', X issues after Y: in flight if r' > i', else Y came
    wholly first; and with w last X comes first. One of the two is not the order that was meant.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.checks import nearest
from pipeloom.errors import ConfigError

ORDERS = ("forward", "reverse", "random")
Order = str | Sequence[int]
"""``forward``, ``reverse``, ``random``, or a permutation of the waves."""


def wave_last(waves: int, wave: int) -> tuple[int, ...]:
    """All waves upwards, with ``wave`` last."""
    return (*(w for w in range(waves) if w != wave), wave)


def adversarial_orders(waves: int) -> tuple[tuple[int, ...], ...]:
    """One order per wave, with that wave last; see the module's text for why these suffice."""
    return tuple(wave_last(waves, wave) for wave in reversed(range(waves)))


def permutation(order: Order, waves: int) -> tuple[int, ...] | None:
    """The permutation that ``order`` means; ``None`` for random."""
    if isinstance(order, str):
        if order not in ORDERS:
            raise ConfigError(
                f"unknown order {order!r}",
                hint=f"{nearest(order, ORDERS)}, or a permutation of the {waves} waves",
                field="execute.order",
            )
        if order == "random":
            return None
        return tuple(range(waves)) if order == "forward" else tuple(reversed(range(waves)))
    chosen = tuple(order)
    if sorted(chosen) != list(range(waves)):
        raise ConfigError(
            f"order {chosen} is not a permutation of the waves 0 to {waves - 1}",
            hint="name every wave exactly once",
            field="execute.order",
        )
    return chosen
