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


class _Staged:
    def __init__(
        self, program: Program, geometry: KernelGeometry, dtype: DType, out: DType
    ) -> None:
        self.source, self.geometry, self.dtype, self.out = program, geometry, dtype, out
        (self.both,) = (node.name for node in program.meaning.inputs)
        self.steps = program.meaning[self.both].type.shape[0]
        self.rows = {"A": geometry.BM, "B": geometry.BN}
        self.along = {"A": "m", "B": "n"}
        self.waves = range(program.waves)

    def program(self) -> Program:
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
        resources = tuple(new for old in self.source.resources for new in self._resource(old))
        return replace(self.source, meaning=self._meaning(), resources=resources, groups=groups)

    # --- what there is ----------------------------------------------------------------------------

    def _type(self, operand: str, rows: int, depth: int) -> TileType:
        return TileType((self.along[operand], "k"), (rows, depth), self.dtype)

    def _meaning(self) -> Meaning:
        shape = self.geometry
        streams = [
            Node(name=x, kind=NodeKind.STREAM, type=self._type(x, rows, shape.BK))
            for x, rows in self.rows.items()
        ]
        sums = TileType(("m", "n"), (shape.BM, shape.BN), F32)
        return summed_meaning(self.source.meaning.name, streams, sums, self.out)

    def _resource(self, resource: Resource) -> Iterable[Resource]:
        shape = self.geometry
        if resource.name == SUMS:
            sizes = (shape.BM // WAVE_GRID[0], shape.BN // WAVE_GRID[1])
            held = TileType(("m", "n"), sizes, F32)
            yield replace(resource, type=held, layout=matrix_layout(shape, sums=True))
            return
        for x in self.rows:
            yield replace(
                resource,
                name=self._name(resource.name, x),
                type=self._resource_type(resource, x),
                layout=self._layout(resource),
            )

    def _resource_type(self, resource: Resource, operand: str) -> TileType:
        rows, depth = self.rows[operand], self.geometry.BK
        if resource.space is Space.LDS:
            return self._type(operand, rows, depth)
        if self._is_staging(resource):
            return self._type(operand, rows // len(self.waves), depth)
        share = WAVE_GRID[0] if operand == "A" else WAVE_GRID[1]
        return self._type(operand, rows // share, depth // self.steps)

    def _layout(self, resource: Resource) -> Layout | None:
        if resource.space is Space.LDS:
            return None
        if self._is_staging(resource):
            return Layout("lanes", (("vector", LOAD_BYTES * 8 // self.dtype.bits),))
        return matrix_layout(self.geometry, sums=False)

    def _is_staging(self, resource: Resource) -> bool:
        """Holds a K tile, where a fragment holds a K step."""
        return not resource.name.startswith(self.both)

    def _name(self, name: str, operand: str) -> str:
        """``A0`` of ``AB0``, ``A staging0`` of ``staging0``."""
        return name.replace(self.both, operand) if self.both in name else f"{operand} {name}"

    # --- steps ------------------------------------------------------------------------------------

    def _step(self, step: Step) -> Iterable[Step]:
        if not isinstance(step, Work):
            yield step
            return
        if step.node == self.both:
            for operand in self.rows:
                yield self._copy(step, operand)
            return
        boxes = tuple((self._share("A", w), self._share("B", w)) for w in self.waves)
        if step.is_copy:
            yield replace(step, parts=boxes, writes=(Access("out", boxes),))
            return
        (register,) = step.reads
        deep = self._depth(step.parts[0][0])
        yield replace(
            step,
            reads=tuple(Access(self._name(register.resource, x)) for x in self.rows),
            parts=tuple((*box, deep) for box in boxes),
        )

    def _copy(self, step: Work, operand: str) -> Work:
        (read,), (write,) = step.reads, step.writes
        from_lds = read.resource.startswith("LDS")
        deep = self._depth(step.parts[0][0])
        part = self._share if from_lds else self._run
        boxes: tuple[Box, ...] = tuple((part(operand, w), deep) for w in self.waves)
        shape = self.geometry
        loads, reads = {
            "A": (shape.vm_per_load_a, shape.lgkm_per_load_a),
            "B": (shape.vm_per_load_b, shape.lgkm_per_load_b),
        }[operand]
        entries = reads if from_lds else loads
        label = step.label.replace(self.both, operand)
        return replace(
            step,
            node=operand,
            label=label if label != step.label else f"{step.label} {operand}",
            reads=(self._access(read, operand, boxes),),
            writes=(self._access(write, operand, boxes),),
            parts=boxes,
            entries=entries,
            issues=tuple(replace(i, count=entries if i.bytes else i.count) for i in step.issues),
        )

    def _access(self, access: Access, operand: str, boxes: Sequence[Box]) -> Access:
        """Memory and LDS by boxes; registers whole."""
        memory = access.resource == self.both
        name = operand if memory else self._name(access.resource, operand)
        boxed = memory or access.resource.startswith("LDS")
        return replace(access, resource=name, boxes=tuple(boxes) if boxed else (), shared=False)

    def _depth(self, steps: Range) -> Range:
        size = self.geometry.BK // self.steps
        return steps[0] * size, steps[1] * size

    def _run(self, operand: str, wave: int) -> Range:
        """The rows that a wave brings to LDS."""
        size = self.rows[operand] // len(self.waves)
        return wave * size, (wave + 1) * size

    def _share(self, operand: str, wave: int) -> Range:
        """The rows or columns of a wave's sums."""
        along_n = WAVE_GRID[1]
        place = wave // along_n if operand == "A" else wave % along_n
        size = self.rows[operand] // (WAVE_GRID[0] if operand == "A" else along_n)
        return place * size, (place + 1) * size
