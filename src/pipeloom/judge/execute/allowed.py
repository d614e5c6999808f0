"""What a kernel may store: bounds for each element, from the very data that it runs on.

Sums of numbers on one grid that fit their type come out the same in any order, so most results are
one number. Others lie between two: sums that are rounded, and what the transcendental unit gives,
which is within one unit of the last place (CDNA3 ISA, 6.2), three such instructions in a division.
Where a sum may overflow in some order, it may be anything, NaN too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.judge.execute.enclosure import Bounds, Enclosure
from pipeloom.program import VOCABULARY, Meaning, Node, Region, Vocabulary
from pipeloom.program.added_outputs import HELD, bounds_of, widened
from pipeloom.program.block_values import evaluate_block
from pipeloom.program.evaluate import evaluate
from pipeloom.program.vocabulary import SMALLEST

NEAR = 2.0**-21
"""What functions of the chip may be off by, relative to the result."""


ENDS = np.dtype([(name, np.float64) for name in ("low", "high")])


class _BoundsOfBlock:
    """The bounds of a workgroup's outputs."""

    def held(self, output: Node) -> np.dtype[Any]:
        """The ends of what it may be; with what else a sum of it takes."""
        return HELD if output.adds else ENDS

    def __call__(
        self,
        scalars: Mapping[str, float],
        ops: Vocabulary,
        meaning: Meaning,
        tiles: Mapping[str, Sequence[Array]],
        trips: int,
    ) -> Mapping[str, list[Array]]:
        found: dict[str, list[Array]] = {node.name: [] for node in meaning.outputs}
        enclosure = Enclosure(meaning, ops, NEAR, SMALLEST)

        def look(region: Region, values: Mapping[str, Array]) -> None:
            ranges = enclosure.follow(region, values)
            for node in meaning.outputs:
                if node.region is region:
                    found[node.name].append(_laid(node, ranges[node.name], values[node.name]))

        with np.errstate(all="ignore"):
            evaluate_block(meaning, tiles, trips, scalars, ops, look, wide=True)
        return found


def _laid(node: Node, bounds: Bounds, value: Array) -> Array:
    pair = np.zeros(np.shape(value), ENDS)
    pair["low"], pair["high"] = bounds.low, bounds.high
    return bounds_of(pair["low"], pair["high"]) if node.adds else pair


def allowed(
    meaning: Meaning,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float] | None = None,
    ops: Vocabulary = VOCABULARY,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """The least and the most that each element of the outputs may be, for whole arrays.

    Args as those of ``evaluate``; fields ``low`` and ``high`` of structured arrays.
    """
    found = evaluate(meaning, arrays, scalars, ops, sizes, _BoundsOfBlock())
    for node in meaning.outputs:
        if node.adds:
            widened(found[node.name])
    return found


@dataclass(frozen=True, slots=True)
class BoundsCheck:
    """What the comparison of an output with its bounds found."""

    wrong: int
    """Elements outside of their bounds."""
    worst: float
    """The largest error, relative to the bounds."""
    unbounded: int
    """Elements that may be as large as may be: nothing can be said of those."""
    size: int
    """All elements."""

    @property
    def empty(self) -> bool:
        """Whether no element could have been wrong, though there are some."""
        return self.size == self.unbounded > 0


def outside(got: Array, expected: Array, bounds: Any = None) -> BoundsCheck:
    """Which elements lie outside of their bounds; without bounds they must be equal."""
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if bounds is None:
        return BoundsCheck(int((~same).sum()), float((~same).any()), 0, same.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        anything = Bounds(bounds["low"], bounds["high"]).anything
        inside = same | anything | ((got >= bounds["low"]) & (got <= bounds["high"]))
        reach = np.maximum(bounds["high"] - expected, expected - bounds["low"])
        error = np.abs(got.astype(np.float64) - expected) / reach
    error = np.where(same, 0.0, np.where(np.isfinite(error), error, np.where(inside, 1.0, np.inf)))
    worst = float(error.max(initial=0.0))
    endless = np.isinf(bounds["low"]) | np.isinf(bounds["high"])
    unbounded = endless & (bounds["low"] < bounds["high"])
    return BoundsCheck(int((~inside).sum()), worst, int(unbounded.sum()), same.size)
