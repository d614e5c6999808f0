"""A lifted schedule with its tile: what ``lift`` leaves abstract, so that a writer can write it.

``lift`` counts rows in units, because a schedule need not know its tile. Given the tile, a unit is
so many rows, a K tile so many elements, and register tiles lie as its matrix instruction wants.

    program = sized(lift(compiled), compiled.geometry, "bf16", "bf16")
    emitted = emit_program(program)

Where several groups of waves bring the same piece to LDS together, each brings its share of the
rows: a step of a program belongs to one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import DType, dtype_for
from pipeloom.program import (
    Access,
    Box,
    Group,
    Layout,
    Meaning,
    Node,
    NodeKind,
    Program,
    Resource,
    Section,
    Space,
    Step,
    TileType,
    Work,
)
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.staged import with_two_operands


def sized(
    program: Program,
    geometry: KernelGeometry,
    dtype: DType | str,
    out_dtype: DType | str,
) -> Program:
    """The program of a lifted GEMM schedule on a tile of this geometry and these types."""
    types = dtype_for(dtype), dtype_for(out_dtype)
    if len(program.meaning.inputs) == 1:
        return with_two_operands(program, geometry, *types)
    return _Sizes(program, geometry, *types).program()


class _Sizes:
    """Rows per unit of each dimension, applied to everything."""

    def __init__(
        self, program: Program, geometry: KernelGeometry, dtype: DType, out: DType
    ) -> None:
        self.source, self.geometry, self.dtype, self.out = program, geometry, dtype, out
        units: dict[str, int] = {}
        for node in program.meaning.inputs:
            units |= node.type.sizes
        whole = {"m": geometry.BM, "n": geometry.BN, "k": geometry.BK}
        if set(units) != set(whole) or any(whole[d] % units[d] for d in units):
            raise ConfigError(
                f"program {program.name!r} counts {units}, of which {whole} is no multiple",
                hint="give the geometry that the schedule was compiled for",
                field="geometry",
            )
        self.scale: Mapping[str, int] = {dim: whole[dim] // units[dim] for dim in units}

    def program(self) -> Program:
        source = self.source
        resources = tuple(self._resource(r) for r in source.resources)
        groups = tuple(
            Group(group.waves, tuple(self._section(number, s) for s in group.sections))
            for number, group in enumerate(source.groups)
        )
        return replace(source, meaning=self._meaning(), resources=resources, groups=groups)

    def _meaning(self) -> Meaning:
        meaning = self.source.meaning
        return Meaning(meaning.name, meaning.over, tuple(self._node(n) for n in meaning.nodes))

    def _node(self, node: Node) -> Node:
        kinds = {NodeKind.STREAM: self.dtype, NodeKind.OUTPUT: self.out}
        return replace(node, type=self._type(node.type, kinds.get(node.kind, node.type.dtype)))

    def _type(self, tile: TileType, dtype: DType) -> TileType:
        shape = tuple(s * self.scale[d] for d, s in zip(tile.dims, tile.shape, strict=True))
        return TileType(tile.dims, shape, dtype)

    def _resource(self, resource: Resource) -> Resource:
        sums = "k" not in resource.type.dims
        dtype = resource.type.dtype if sums else self.dtype
        layout: Layout | None = None
        if resource.space is not Space.LDS:
            side = ("side", self.geometry.MMA_M)
            depth = ("depth", self.geometry.MMA_K)
            layout = Layout("accumulator", (side,)) if sums else Layout("operand", (side, depth))
        return replace(resource, type=self._type(resource.type, dtype), layout=layout)

    # --- steps ------------------------------------------------------------------------------------

    def _section(self, group: int, section: Section) -> Section:
        return replace(section, steps=tuple(self._step(group, s) for s in section.steps))

    def _step(self, group: int, step: Step) -> Step:
        if not isinstance(step, Work):
            return step
        meaning = self.source.meaning
        node = meaning[step.node]
        dims = node.type.dims if step.is_copy else meaning.domain(node).dims
        changed = replace(
            step,
            parts=self._boxes(step.parts, dims),
            reads=tuple(self._access(a) for a in step.reads),
            writes=tuple(self._access(a) for a in step.writes),
            accumulates=tuple(self._access(a) for a in step.accumulates),
        )
        members = len(self.source.groups)
        if members > 1 and step.is_copy and step.writes[0].shared:
            changed = self._share(changed, group, members)
        return changed

    def _access(self, access: Access) -> Access:
        return replace(access, boxes=self._boxes(access.boxes, self._dims(access.resource)))

    def _dims(self, name: str) -> Sequence[str]:
        for resource in self.source.resources:
            if resource.name == name:
                return resource.type.dims
        return self.source.meaning[name].type.dims

    def _boxes(self, boxes: Sequence[Box], dims: Sequence[str]) -> tuple[Box, ...]:
        return tuple(
            tuple(
                (p * self.scale[d], q * self.scale[d]) for d, (p, q) in zip(dims, box, strict=True)
            )
            for box in boxes
        )

    def _share(self, step: Work, group: int, members: int) -> Work:
        """One group's share of a piece that all groups bring together: rows, in order."""

        def part(box: Box) -> Box:
            (start, stop), *rest = box
            length = (stop - start) // members
            return ((start + group * length, start + (group + 1) * length), *rest)

        def cut(boxes: Sequence[Box]) -> tuple[Box, ...]:
            return tuple(part(box) for box in boxes)

        return replace(
            step,
            parts=cut(step.parts),
            reads=tuple(replace(a, boxes=cut(a.boxes)) for a in step.reads),
            writes=tuple(replace(a, boxes=cut(a.boxes)) for a in step.writes),
        )
