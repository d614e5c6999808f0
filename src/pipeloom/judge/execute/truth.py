"""Inputs that hide nothing, and what the meaning makes of them.

Numbers stand for values here, so two values must not be told apart by luck. Every run takes three
sets of inputs at once: whole numbers of mixed sign; rising from iteration to iteration; falling.
A maximum that misses the newest tile shows with the second, one that misses the oldest with the
third, and conditions on either hold for some iterations and elements and not for others. What does
not change from tile to tile lies above all tiles in half of its elements, so that it never clamps
every maximum or minimum. Types of few values hold all of theirs, so that tiles of them differ too.
The last tiles of a meaning that masks go past the end of its arrays, one more with every seed,
where the program promises to mask. They are whole numbers so small that sums are exact in every
order; where a meaning has ops that are not exact (``exp2``, ``div``, ops of your own) they are
fractions small enough for those. Each element of an output is compared with what its own sums leave
open (``enclosure``), which mostly is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.errors import ConfigError
from pipeloom.judge.execute.enclosure import Bounds, Enclosure
from pipeloom.machine.dtypes import DType
from pipeloom.program import VOCABULARY, Meaning, Node, NodeKind, Region, Vocabulary
from pipeloom.program.block_values import evaluate_block, is_exact, place_tile

SETS = 3
SPREADS, STEPS = (24, 9, 4, 2), 6
"""Magnitudes are up to a spread, plus a STEPS-th of it per iteration where they rise or fall."""
FRACTION = 1 / 16
"""What inputs are multiplied with where a meaning is not exact."""
Tiles = Mapping[str, Sequence[Array]]


class Allowed(NamedTuple):
    """A value for every set, [*shape, set], and the least and largest that a program may have."""

    value: Array
    low: Array
    high: Array


@dataclass(eq=False)
class Truth:
    """Sets of inputs for ``iterations`` iterations; what the outputs and all nodes are by them.

    ``outputs`` are the meaning's own numbers, ``low`` and ``high`` what a program may store: they
    differ only where the order of a sum matters (``enclosure``).
    """

    meaning: Meaning
    iterations: int
    ops: Vocabulary
    sets: tuple[Tiles, ...]
    scalars: tuple[Mapping[str, float], ...]
    outputs: dict[str, Array] = field(init=False)
    low: dict[str, Array] = field(init=False)
    high: dict[str, Array] = field(init=False)
    exact: bool = field(init=False, default=True)
    _values: dict[str, list[Allowed]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        found = self._follow(self.meaning.outputs)
        self.outputs, self.low, self.high = {}, {}, {}
        for node in self.meaning.outputs:
            shape = (self.outputs_of(node), *node.type.shape, len(self.sets))
            allowed = found[node.name]
            for into, number in ((self.outputs, 0), (self.low, 1), (self.high, 2)):
                stacked = np.array([a[number] for a in allowed], np.float64).reshape(shape)
                into[node.name] = stacked

    @property
    def finite(self) -> bool:
        """Whether no output overflows: an infinity would be the same whatever went into it."""
        return not any(np.isinf(value).any() for value in self.outputs.values())

    def outputs_of(self, node: Node) -> int:
        """How many tiles an output has."""
        return self.iterations if node.region is Region.LOOP else 1

    def input(self, node: Node) -> Array:
        """All tiles of an input: [tile, *shape, set]."""
        if node.kind is NodeKind.CONSTANT:
            return np.full(
                (1, *node.type.shape, len(self.sets)), np.float32(node.start), np.float64
            )
        if node.kind is NodeKind.SCALAR:
            numbers = np.array([s[node.name] for s in self.scalars])
            return np.broadcast_to(numbers, (1, *node.type.shape, len(self.sets)))
        if node.kind.is_place:
            found = [self.value(node.name, i) for i in range(max(self.iterations, 1))]
            return np.stack([v.value for v in found if v is not None])
        count = self.iterations if node.kind is NodeKind.STREAM else 1
        shape = (count, *node.type.shape)
        tiles = [np.asarray(s[node.name][:count], np.float64).reshape(shape) for s in self.sets]
        return np.stack([np.asarray(node.type.dtype.round(t), np.float64) for t in tiles], -1)

    def value(self, name: str, iteration: int | None) -> Allowed | None:
        """What a node has at an iteration, and what it may be; None where it has no value."""
        if not self._values:
            self._values = self._follow(self.meaning.nodes)
        values = self._values[name]
        at = iteration or 0
        if self.meaning[name].region is not Region.LOOP:
            return values[0]
        if iteration is None:  # after the loop: a carry's last value
            at = len(values) - 1
        return values[at] if 0 <= at < len(values) else None

    def _follow(self, nodes: Sequence[Node]) -> dict[str, list[Allowed]]:
        """All values of these nodes; carries have one more, after the last iteration."""
        runs: list[dict[str, list[tuple[Array, Bounds]]]] = []
        for tiles, scalars in zip(self.sets, self.scalars, strict=True):
            seen: dict[str, list[tuple[Array, Bounds]]] = {n.name: [] for n in nodes}
            enclosure = Enclosure(self.meaning, self.ops)
            runs.append(seen)

            def look(
                region: Region,
                values: Mapping[str, Array],
                seen: dict[str, list[tuple[Array, Bounds]]] = seen,
                enclosure: Enclosure = enclosure,
            ) -> None:
                ranges = enclosure.follow(region, values)
                for n in nodes:
                    last = region is Region.AFTER and n.kind is NodeKind.CARRY
                    if n.region is region or last:
                        seen[n.name].append((values[n.name], ranges[n.name]))

            with np.errstate(all="ignore"):
                evaluate_block(
                    self.meaning, tiles, self.iterations, scalars, self.ops, look, wide=True
                )
            self.exact &= enclosure.exact
        return {
            name: [_together(at) for at in zip(*(run[name] for run in runs), strict=True)]
            for name in runs[0]
        }


def _together(found: Sequence[tuple[Array, Bounds]]) -> Allowed:
    """The values of all sets, [*shape, set]."""
    value, low, high = (
        np.stack([np.asarray(part, np.float64) for part in parts], -1)
        for parts in zip(*((v, r.low, r.high) for v, r in found), strict=True)
    )
    return Allowed(value, low, high)


def truth_for(
    meaning: Meaning,
    iterations: int,
    seed: int,
    ops: Vocabulary = VOCABULARY,
    arrays: Mapping[str, Any] | None = None,
    *,
    plain: int = 0,
) -> Truth:
    """Inputs of ``seed``, or the given ones: per input its tiles, per scalar its number.

    Nothing is past the end in the first ``plain`` iterations, nor with given inputs.
    """
    if arrays is not None:
        return _given(meaning, iterations, ops, arrays)
    ending = iterations - plain if meaning.until is None else 0
    key = (id(meaning), id(ops), iterations, seed, ending)
    found = _RECENT.get(key)
    if found is None:
        if len(_RECENT) >= _KEPT:
            _RECENT.clear()
        for spread in SPREADS:
            found = _random(meaning, iterations, ops, seed, spread, ending)
            if found.finite and (found.exact or not is_exact(meaning)):
                break
        assert found is not None
        _RECENT[key] = found
    return found


_KEPT = 64
_RECENT: dict[tuple[int, int, int, int, int], Truth] = {}
"""Kept because thousands of mutants share one meaning; an entry holds on to what its key names."""


def _random(
    meaning: Meaning, iterations: int, ops: Vocabulary, seed: int, spread: int, ending: int
) -> Truth:
    rng = np.random.default_rng(seed)
    sets: list[Tiles] = []
    scalars: list[Mapping[str, float]] = []
    for trend in range(SETS):
        tiles: dict[str, Sequence[Array]] = {}
        for node in meaning.inputs:
            count = iterations if node.kind is NodeKind.STREAM else 1
            size = (count, *node.type.shape)
            numbers = rng.integers(1, spread + 1, size).astype(np.float64)
            if trend == 0:
                numbers *= np.where(rng.random(size) < 0.5, -1, 1)
            elif count > 1:
                slope = np.arange(count) if trend == 1 else np.arange(count)[::-1]
                numbers += max(1, spread // STEPS) * slope.reshape(-1, *[1] * len(node.type.shape))
            elif node.kind is not NodeKind.STREAM:
                numbers += max(1, spread // STEPS) * iterations * (rng.random(size) < 0.5)
            tiles[node.name] = list(_held(numbers, node.type.dtype) * _unit(meaning, node))
        for node in meaning.nodes:
            counted = meaning.is_left(node.name, meaning.over) or node.along == meaning.over
            if ending > 0 and counted:
                tile = meaning.tile[meaning.over]
                past = (0, tile // 2, min((seed + 1) * tile, ending * tile) - 1)[trend]
                sizes = {meaning.over: iterations * tile - past}
                placed = [place_tile(meaning, node, sizes, {}, i) for i in range(iterations)]
                tiles[node.name] = placed
        sets.append(tiles)
        scalars.append(
            {
                n.name: float(rng.integers(1, min(8, spread + 1))) * _unit(meaning, n)
                for n in meaning.nodes
                if n.kind is NodeKind.SCALAR
            }
        )
    return Truth(meaning, iterations, ops, tuple(sets), tuple(scalars))


def _held(numbers: Array, dtype: DType) -> Array:
    """Whole numbers as a type holds them: those past what it tells apart begin anew."""
    most = min(2.0 ** (dtype.mantissa + 1), dtype.largest)
    sizes = np.abs(numbers)
    return np.where(sizes > most, (sizes - 1) % most + 1, sizes) * np.sign(numbers)


def _unit(meaning: Meaning, node: Node) -> float:
    """What whole numbers are multiplied with."""
    return 1.0 if is_exact(meaning) else max(FRACTION, node.type.dtype.smallest)


def _given(meaning: Meaning, iterations: int, ops: Vocabulary, arrays: Mapping[str, Any]) -> Truth:
    wanted = [
        n
        for n in meaning.nodes
        if n.kind.is_input and not n.kind.is_place and n.kind is not NodeKind.CONSTANT
    ]
    tiles: dict[str, Sequence[Array]] = {}
    scalars: dict[str, float] = {}
    for node in wanted:
        if node.name not in arrays:
            raise ConfigError(
                f"arrays lacks {node.name!r}, an input of {meaning.name}",
                hint=f"give all of: {', '.join(n.name for n in wanted)}",
                field=f"execute.arrays.{node.name}",
            )
        given = np.asarray(arrays[node.name], np.float64)
        if node.kind is NodeKind.SCALAR:
            scalars[node.name] = float(given)
            continue
        count = iterations if node.kind is NodeKind.STREAM else 1
        if given.shape[1:] != node.type.shape or len(given) < count:
            raise ConfigError(
                f"arrays[{node.name!r}] has shape {given.shape}, but must have tiles of "
                f"{node.type.shape}, {count} of them",
                hint="give one array per iteration; a single one for what does not change",
                field=f"execute.arrays.{node.name}",
            )
        tiles[node.name] = list(given)
    return Truth(meaning, iterations, ops, (tiles,), (scalars,))
