"""Values within ranges that make an error small: coordinate descent, coarse or fine.

The model is a simulator: whole numbers, steps and plateaus, no derivatives. So values are tried one
constant after the other, at a few points of its range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Range = tuple[str, float, float]
"""A constant's name, and between which values it is looked for."""
Values = tuple[tuple[str, float], ...]
"""A value for each constant, in a fixed order: a key for what was computed."""
Cost = Callable[[Values], float]

_LEAST = 1e-9
"""What counts as better."""


def middle(low: float, high: float) -> float:
    """Of a range; whole numbers stay whole."""
    return (low + high) // 2


def points(low: float, high: float, count: int) -> tuple[float, ...]:
    """So many values from low to high, at least a step of 1 apart."""
    if count == 3:
        return low, middle(low, high), high
    found = [low + (high - low) * n / (count - 1) for n in range(count)]
    return tuple(dict.fromkeys(float(round(value)) for value in found))


def descend(
    cost: Cost, start: Mapping[str, float], ranges: Sequence[Range], count: int = 3, passes: int = 2
) -> tuple[dict[str, float], float]:
    """The best values found and their cost, from ``start`` on; constants in the order given."""
    values = dict(start)
    best = cost(tuple(values.items()))
    for _ in range(passes):
        before = dict(values)
        for name, low, high in ranges:
            for candidate in points(low, high, count):
                trial = {**values, name: candidate}
                found = cost(tuple(trial.items()))
                if found < best - _LEAST:
                    best, values = found, trial
        if values == before:
            break
    return values, best


def around(one: Range, values: Mapping[str, float], share: float) -> Range:
    """The part of a range within a share of it on either side of a value."""
    name, low, high = one
    reach = share * (high - low)
    return name, max(low, values[name] - reach), min(high, values[name] + reach)


def refine(
    cost: Cost, start: Mapping[str, float], ranges: Sequence[Range], count: int = 9
) -> tuple[dict[str, float], float]:
    """The same, then again between the neighbours of what was found."""
    values, _ = descend(cost, start, ranges, count)
    near = [around(one, values, 1 / (count - 1)) for one in ranges]
    return descend(cost, values, near, count)
