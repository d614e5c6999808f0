"""A lifted schedule that stages A and B together, with the two operands and the tile it leaves out.

The single-buffered schedule has one op for both: a load brings a K tile of A and of B to staging
registers, a store copies it to LDS, a fragment is one K step of both. Here each such step becomes
one for A and one for B, in its place; waits and barriers stay where they are. Loads and stores are
shared out by rows, one run per wave; for the sums the waves stand in a ``WAVE_GRID``.

    load staging0                ->  load A staging0, load B staging0     16 bytes per lane
    store AB[0,0]                ->  store A[0,0], store B[0,0]
    frag AB[0,1]                 ->  frag A[0,1], frag B[0,1]     K step 1 of the wave's rows
    mma (0,1)                    ->  mma (0,1)                    K step 1 of its share
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipeloom.machine.dtypes import F32, DType
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.program import (
    Access,
    Box,
    Group,
    Layout,
    Meaning,
    Node,
    NodeKind,
    Program,
    Region,
    Resource,
    Space,
    Step,
    TileType,
    Work,
)
from pipeloom.program.tiles import Range
from pipeloom.reference.geometry import SINGLE_BUFFER_GRID as WAVE_GRID
from pipeloom.reference.geometry import KernelGeometry

SUMS = "C registers"


def summed_meaning(name: str, streams: Sequence[Node], sums: TileType, out: DType) -> Meaning:
    """Two operands: C += A x B^T. One: C += its sum."""
    op = "matmul" if sums.dims else "sum"
    uses = tuple(stream.name for stream in streams)
    stored = replace(sums, dtype=out)
    return Meaning(
        name,
        "k",
        (
            *streams,
            Node(name="C", kind=NodeKind.CARRY, type=sums, uses=("C.next",), start=0.0),
            Node(name="C.next", kind=NodeKind.OP, type=sums, op=op, uses=uses, init="C"),
            Node(name="out", kind=NodeKind.OUTPUT, type=stored, uses=("C",), region=Region.AFTER),
        ),
    )


def matrix_layout(geometry: KernelGeometry, *, sums: bool) -> Layout:
    """How the matrix instruction of a tile wants its sums, or its operands."""
    side = ("side", geometry.MMA_M)
    if sums:
        return Layout("accumulator", (side,))
    return Layout("operand", (side, ("depth", geometry.MMA_K)))


def with_two_operands(
    program: Program, geometry: KernelGeometry, dtype: DType, out: DType
) -> Program:
    """The program of a lifted schedule of one operand, on a tile of this geometry and types.

    It stays as it is where its waves do not stand in the grid, or its tile is not cut evenly by
    them or by its K steps, or does not say what its steps count.
    """
    (both,) = program.meaning.inputs
    waves, (along_m, along_n) = program.waves, WAVE_GRID
    left = (geometry.BM % waves, geometry.BN % waves, geometry.BK % both.type.shape[0])
    counts = (geometry.lgkm_per_load_a, geometry.lgkm_per_load_b)
    if waves != along_m * along_n or any(left) or not all(counts):
        return program
    return _Staged(program, geometry, dtype, out).program()


class _Side(NamedTuple):
    """One of the two operands; ``along`` waves share out its rows for the sums."""

    name: str
    dim: str
    rows: int
    along: int
    loads: int
    reads: int


class _Staged:
    def __init__(
        self, program: Program, geometry: KernelGeometry, dtype: DType, out: DType
    ) -> None:
        self.source, self.geometry, self.dtype, self.out = program, geometry, dtype, out
        (both,) = program.meaning.inputs
        self.both, self.steps = both.name, both.type.shape[0]
        self.waves = range(program.waves)
        shape, (m, n) = geometry, WAVE_GRID
        self.sides = (
            _Side("A", "m", shape.BM, m, shape.vm_per_load_a, shape.lgkm_per_load_a),
            _Side("B", "n", shape.BN, n, shape.vm_per_load_b, shape.lgkm_per_load_b),
        )

    def program(self) -> Program:
        shape = self.geometry
        groups = tuple(
            Group(
                group.waves,
                tuple(
                    replace(s, steps=tuple(new for old in s.steps for new in self._step(old)))
                    for s in group.sections
                ),
            )
            for group in self.source.groups
        )
        streams = [
            Node(name=side.name, kind=NodeKind.STREAM, type=self._type(side)) for side in self.sides
        ]
        sums = TileType(("m", "n"), (shape.BM, shape.BN), F32)
        return replace(
            self.source,
            meaning=summed_meaning(self.source.meaning.name, streams, sums, self.out),
            resources=tuple(new for old in self.source.resources for new in self._resource(old)),
            groups=groups,
        )

    def _type(self, side: _Side, cut: int = 1, steps: int = 1) -> TileType:
        sizes = (side.rows // cut, self.geometry.BK // steps)
        return TileType((side.dim, "k"), sizes, self.dtype)

    def _resource(self, resource: Resource) -> Iterable[Resource]:
        """Both parts of it: of LDS, of staging registers with a K tile, of a K step's fragment."""
        shape, (m, n) = self.geometry, WAVE_GRID
        if resource.name == SUMS:
            held = TileType(("m", "n"), (shape.BM // m, shape.BN // n), F32)
            return [replace(resource, type=held, layout=matrix_layout(shape, sums=True))]
        steps, layout = 1, None
        cuts = [1 for _ in self.sides]
        if resource.name.startswith(self.both):
            cuts, steps = [side.along for side in self.sides], self.steps
            layout = matrix_layout(shape, sums=False)
        elif resource.space is not Space.LDS:
            cuts = [len(self.waves) for _ in self.sides]
            layout = Layout("lanes", (("vector", LOAD_BYTES * 8 // self.dtype.bits),))
        return [
            replace(
                resource,
                name=self._name(resource.name, side),
                type=self._type(side, cut, steps),
                layout=layout,
            )
            for side, cut in zip(self.sides, cuts, strict=True)
        ]

    def _name(self, name: str, side: _Side) -> str:
        """``A0`` of ``AB0``, ``A staging0`` of ``staging0``."""
        return name.replace(self.both, side.name) if self.both in name else f"{side.name} {name}"

    # --- steps ------------------------------------------------------------------------------------

    def _step(self, step: Step) -> Iterable[Step]:
        if not isinstance(step, Work):
            return (step,)
        if step.node == self.both:
            return [self._copy(step, side) for side in self.sides]
        boxes = tuple(zip(*(self._shares(side) for side in self.sides), strict=True))
        if step.is_copy:
            return (replace(step, parts=boxes, writes=(Access("out", boxes),)),)
        (register,) = step.reads
        reads = tuple(Access(self._name(register.resource, side)) for side in self.sides)
        deep = self._depth(step)
        return (replace(step, reads=reads, parts=tuple((*box, deep) for box in boxes)),)

    def _copy(self, step: Work, side: _Side) -> Work:
        (read,), (write,) = step.reads, step.writes
        from_lds, deep = read.resource.startswith("LDS"), self._depth(step)
        rows = self._shares(side) if from_lds else self._cut(side, len(self.waves), self.waves)
        boxes: tuple[Box, ...] = tuple((part, deep) for part in rows)
        entries = side.reads if from_lds else side.loads
        label = step.label.replace(self.both, side.name)
        return replace(
            step,
            node=side.name,
            label=label if label != step.label else f"{step.label} {side.name}",
            reads=(self._access(read, side, boxes),),
            writes=(self._access(write, side, boxes),),
            parts=boxes,
            entries=entries,
            issues=tuple(replace(i, count=entries if i.bytes else i.count) for i in step.issues),
        )

    def _access(self, access: Access, side: _Side, boxes: tuple[Box, ...]) -> Access:
        """Memory and LDS by boxes; registers whole."""
        boxed = access.resource == self.both or access.resource.startswith("LDS")
        name = self._name(access.resource, side)
        return replace(access, resource=name, boxes=boxes if boxed else (), shared=False)

    def _depth(self, step: Work) -> Range:
        (first, last), size = step.parts[0][0], self.geometry.BK // self.steps
        return first * size, last * size

    def _shares(self, side: _Side) -> list[Range]:
        """The rows or columns of each wave's sums."""
        places = (divmod(wave, WAVE_GRID[1])[side.dim == "n"] for wave in self.waves)
        return self._cut(side, side.along, places)

    def _cut(self, side: _Side, count: int, places: Iterable[int]) -> list[Range]:
        size = side.rows // count
        return [(place * size, (place + 1) * size) for place in places]
