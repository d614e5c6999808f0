"""Inputs that hide nothing, and what the meaning makes of them.

Numbers stand for values here, so two values must not be told apart by luck. Every run takes three
sets of inputs at once: whole numbers of mixed sign; rising from iteration to iteration; falling.
A maximum that misses the newest tile shows with the second, one that misses the oldest with the
third, and conditions on either hold for some iterations and elements and not for others. What does
not change from tile to tile lies above all tiles in half of its elements, so that it never clamps
every maximum or minimum. The last tiles of a meaning that masks go past the end of its arrays, one
more with every seed, where the program promises to mask. They are whole numbers so small that sums
are exact in every order; where a meaning has ops that are not exact (``exp2``, ``div``, ops of your
own) they are fractions small enough for those, and outputs are compared to within rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.errors import ConfigError
from pipeloom.program import VOCABULARY, Meaning, Node, NodeKind, Region, Vocabulary
from pipeloom.program.evaluate import evaluate_block, is_exact, left_tile

Array = NDArray[Any]
SETS = 3
SPREADS, STEPS = (24, 9, 4, 2), 6
"""Magnitudes are up to a spread, plus a STEPS-th of it per iteration where they rise or fall."""
EXACT_BELOW = 2.0**23
"""Of whole numbers in f32, with a bit to spare for sums on the way; a smaller spread if above."""
FRACTION = 1 / 16
"""What inputs are multiplied with where a meaning is not exact."""
Tiles = Mapping[str, Sequence[Array]]


@dataclass(eq=False)
class Truth:
    """Sets of inputs for ``iterations`` iterations; what the outputs and all nodes are by them."""

    meaning: Meaning
    iterations: int
    ops: Vocabulary
    sets: tuple[Tiles, ...]
    scalars: tuple[Mapping[str, float], ...]
    outputs: dict[str, Array] = field(init=False)
    exact: bool = field(init=False)
    _values: dict[str, list[Array]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        largest = 0.0

        def look(region: Region, values: Mapping[str, Array]) -> None:
            nonlocal largest
            for node in self.meaning.nodes:
                if node.region is region and node.kind in (NodeKind.OP, NodeKind.CARRY):
                    largest = max(largest, float(np.abs(values[node.name]).max(initial=0)))

        whole = is_exact(self.meaning)
        with np.errstate(all="ignore"):
            found = [
                evaluate_block(
                    self.meaning, tiles, self.iterations, scalars, self.ops, look if whole else None
                )
                for tiles, scalars in zip(self.sets, self.scalars, strict=True)
            ]
        self.exact = whole and largest < EXACT_BELOW
        self.outputs = {}
        for node in self.meaning.outputs:
            shape = (self.outputs_of(node), *node.type.shape)
            stacked = [np.asarray(f[node.name], np.float64).reshape(shape) for f in found]
            self.outputs[node.name] = np.stack(stacked, -1)

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
        if node.kind is NodeKind.LEFT:
            found = [self.value(node.name, i) for i in range(max(self.iterations, 1))]
            return np.stack([v for v in found if v is not None])
        count = self.iterations if node.kind is NodeKind.STREAM else 1
        shape = (count, *node.type.shape)
        tiles = [np.asarray(s[node.name][:count], np.float64).reshape(shape) for s in self.sets]
        return np.stack([np.asarray(node.type.dtype.round(t), np.float64) for t in tiles], -1)

    def value(self, name: str, iteration: int | None) -> Array | None:
        """What a node has at an iteration, [*shape, set]; None where it has no value."""
        if not self._values:
            self._follow()
        values = self._values[name]
        at = iteration or 0
        if self.meaning[name].region is not Region.LOOP:
            return values[0]
        if iteration is None:  # after the loop: a carry's last value
            at = len(values) - 1
        return values[at] if 0 <= at < len(values) else None

    def _follow(self) -> None:
        """All values of all nodes; carries have one more, after the last iteration."""
        nodes = self.meaning.nodes
        runs: list[dict[str, list[Array]]] = []
        for tiles, scalars in zip(self.sets, self.scalars, strict=True):
            seen: dict[str, list[Array]] = {n.name: [] for n in nodes}
            runs.append(seen)

            def look(
                region: Region, values: Mapping[str, Array], seen: dict[str, list[Array]] = seen
            ) -> None:
                for n in nodes:
                    last = region is Region.AFTER and n.kind is NodeKind.CARRY
                    if n.region is region or last:
                        seen[n.name].append(values[n.name])

            with np.errstate(all="ignore"):
                evaluate_block(self.meaning, tiles, self.iterations, scalars, self.ops, look)
        for name in runs[0]:
            together = zip(*(run[name] for run in runs), strict=True)
            self._values[name] = [np.stack(v, -1).astype(np.float64) for v in together]


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
        for spread in SPREADS if is_exact(meaning) else SPREADS[:1]:
            found = _random(meaning, iterations, ops, seed, spread, ending)
            if found.exact:
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
    unit = 1.0 if is_exact(meaning) else FRACTION
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
            tiles[node.name] = list(numbers * unit)
        for node in meaning.nodes:
            if ending > 0 and meaning.is_left(node.name, meaning.over):
                (tile,) = node.type.shape
                past = (0, tile // 2, min((seed + 1) * tile, ending * tile) - 1)[trend]
                sizes = {meaning.over: iterations * tile - past}
                left = [left_tile(meaning, node, sizes, {}, i) for i in range(iterations)]
                tiles[node.name] = left
        sets.append(tiles)
        scalars.append(
            {
                n.name: float(rng.integers(1, min(8, spread + 1))) * unit
                for n in meaning.nodes
                if n.kind is NodeKind.SCALAR
            }
        )
    return Truth(meaning, iterations, ops, tuple(sets), tuple(scalars))


def _given(meaning: Meaning, iterations: int, ops: Vocabulary, arrays: Mapping[str, Any]) -> Truth:
    made = (NodeKind.CONSTANT, NodeKind.LEFT)
    wanted = [n for n in meaning.nodes if n.kind.is_input and n.kind not in made]
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
