"""Run a program as if every access were done at issue and all waves walked in step.

That needs no waits and no barriers, so it tells whether order, places, copies and parts are right
before anybody has synchronised them. Nothing is in a place until something is written there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.program import Access, NodeKind, Program, Region, Space, Work
from pipeloom.program.block_values import apply_node, place_tile
from pipeloom.program.tiles import Box, project
from pipeloom.program.vocabulary import VOCABULARY, Vocabulary

Array = NDArray[Any]


def run_in_step(
    program: Program,
    tiles: Mapping[str, Sequence[Array]],
    trips: int,
    scalars: Mapping[str, float] | None = None,
    ops: Vocabulary = VOCABULARY,
) -> dict[str, list[Array]]:
    """The outputs of one workgroup; elements nobody stored are NaN."""
    assert len(program.groups) == 1, "waves in step need one walk"
    return _Run(program, tiles, trips, scalars or {}, ops).outputs()


class _Run:
    def __init__(
        self,
        program: Program,
        tiles: Mapping[str, Sequence[Array]],
        trips: int,
        scalars: Mapping[str, float],
        ops: Vocabulary,
    ) -> None:
        self.program, self.tiles, self.scalars, self.ops = program, tiles, scalars, ops
        self.trips = {count.name: trips for count in program.trips}
        self.count = program.iterations.at(self.trips)
        self.stored: dict[str, list[Array]] = {}
        for node in program.meaning.outputs:
            number = self.count if node.region is Region.LOOP else 1
            self.stored[node.name] = [np.full(node.type.shape, np.nan) for _ in range(number)]
        self.places: dict[tuple[str, int], Array] = {}
        for resource in program.resources:
            start = np.nan if resource.start is None else resource.start
            for wave in range(1 if resource.space is Space.LDS else program.waves):
                shape = (resource.copies, *resource.type.shape)
                self.places[resource.name, wave] = np.full(shape, start, np.float32)

    def outputs(self) -> dict[str, list[Array]]:
        (group,) = self.program.groups
        for section in group.sections:
            for trip in range(self.trips[section.trips] if section.trips else 1):
                first = section.first.at(self.trips) + trip * section.advance
                for step in section.steps:
                    if isinstance(step, Work):
                        self.step(step, first, len(group.waves))
        return self.stored

    def step(self, step: Work, first: int, waves: int) -> None:
        iteration = None if step.iteration is None else first + step.iteration
        if step.iteration is not None:
            assert iteration is not None
            assert 0 <= iteration < self.count, f"{step.label} of iteration {iteration}"
        for wave in range(waves):
            if step.is_copy:
                value = self.get(step.reads[0], wave, iteration)
                self.put(step.writes[0], wave, iteration, value)
            else:
                self.compute(step, wave, iteration)

    def compute(self, step: Work, wave: int, iteration: int | None) -> None:
        meaning = self.program.meaning
        node = meaning[step.node]
        domain = meaning.domain(node)
        part = step.part(wave) or domain.whole
        names = [*node.uses]
        if node.init is not None and not step.accumulates:
            names.append(node.init)
        names += [n for n in (node.otherwise, node.when or step.when) if n is not None]
        values: dict[str, Array] = {}
        for name, access in zip(names, step.reads, strict=True):
            values[name] = self.get(access, wave, iteration, some=step.when is not None)
            shape = tuple(b - a for a, b in project(part, domain.dims, meaning[name].type.dims))
            assert values[name].shape == shape, f"{step.label} finds {values[name].shape} of {name}"
        if step.accumulates:
            assert node.init is not None
            values[node.init] = self.get(step.accumulates[0], wave, iteration)
        result = apply_node(meaning, node, values, self.ops)
        if node.when is not None and step.when is None:
            assert node.otherwise is not None
            taken = values[node.when]
            taken = taken.reshape(taken.shape + (1,) * (result.ndim - taken.ndim))
            result = np.where(taken != 0, result, values[node.otherwise])
        (target,) = step.writes + step.accumulates
        if step.when is not None:
            array, box = self.where(target, wave, iteration)
            taken = values[step.when]
            taken = taken.reshape(taken.shape + (1,) * (result.ndim - taken.ndim))
            assert not np.isnan(result[np.broadcast_to(taken != 0, result.shape)]).any(), step.label
            result = np.where(taken != 0, result, array[_slices(box, array)])
        self.put(target, wave, iteration, node.type.dtype.round(result))

    def get(self, access: Access, wave: int, iteration: int | None, some: bool = False) -> Array:
        """What lies there; ``some`` of it may never have been written, where nothing is done."""
        array, box = self.where(access, wave, iteration)
        found: Array = array[_slices(box, array)].copy()
        assert some or not np.isnan(found).any(), f"{access} is read before it is written"
        return found

    def put(self, access: Access, wave: int, iteration: int | None, value: Array) -> None:
        array, box = self.where(access, wave, iteration)
        array[_slices(box, array)] = value

    def where(self, access: Access, wave: int, iteration: int | None) -> tuple[Array, Box | None]:
        box, name = access.box(wave), access.resource
        if name in self.stored:
            loop = self.program.meaning[name].region is Region.LOOP
            return self.stored[name][(iteration or 0) if loop else 0], box
        if name in self.program.meaning and self.program.meaning[name].kind.is_input:
            node = self.program.meaning[name]
            if node.kind is NodeKind.CONSTANT:
                return np.full((), node.start), box
            if node.kind is NodeKind.SCALAR:
                return np.full((), self.scalars[name]), box
            if node.kind is NodeKind.LEFT:
                sizes = {d: s for n in self.program.meaning.nodes for d, s in n.type.sizes.items()}
                sizes[self.program.meaning.over] *= self.count
                return place_tile(self.program.meaning, node, sizes, {}, iteration or 0), box
            at = (iteration or 0) if node.kind is NodeKind.STREAM else 0
            return node.type.dtype.round(self.tiles[name][at]), box
        space = self.program.resource(name).space
        held = self.places[name, 0 if space is Space.LDS else wave]
        return held[access.copy, ...], box


def _slices(box: Box | None, array: Array) -> tuple[slice, ...]:
    if box is None:
        return tuple(slice(None) for _ in array.shape)
    return tuple(slice(a, b) for a, b in box)
