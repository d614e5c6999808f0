"""Matrix products: ``operand`` tiles to an ``accumulator`` tile, one MFMA per block and step of K.

The matrix instruction gets the operand of the result's columns first: its result is then the
transposed block, in which four consecutive registers of a lane are four consecutive columns.
"""

from __future__ import annotations

from pipeloom.machine.target import WAVE_LANES
from pipeloom.program import Access, Work
from pipeloom.program.tiles import Box
from pipeloom.write.chips import MatrixShape
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.tiles import RegisterTile

MATRIX_TYPES = {
    ("gfx942", "bf16"): "bf16",
    ("gfx942", "fp16"): "fp16",
    ("gfx942", "fp8_fnuz"): "fp8",
    ("gfx950", "bf16"): "bf16",
    ("gfx950", "fp16"): "fp16",
    ("gfx950", "fp8"): "fp8",
}
"""Element type -> the matrix instructions of a chip: CDNA3's 8-bit types are FNUZ, CDNA4's OCP."""


def plan_matmul(context: Context, work: Work) -> Write:
    """All MFMAs of a part; K outermost, so that neighbours add to different accumulators."""
    node = context.program.meaning[work.node]
    target = work.accumulates[0] if work.accumulates else work.writes[0]
    result = _tile(context, target, work, "accumulator")
    operands = [(a, _tile(context, a, work, "operand")) for a in work.reads[: len(node.uses)]]
    start = target if work.accumulates else None
    if node.init is not None and not work.accumulates:
        start = work.reads[len(node.uses)]
        _tile(context, start, work, "accumulator")
    column = node.type.dims[-1]
    last = context.program.meaning[node.uses[1]].type.dims
    if column not in last:
        operands.reverse()
    (left, rows_tile), (right, columns_tile) = operands
    shape = _shape(context, work, rows_tile, columns_tile, result)
    boxes = [context.register_box(a, work) for a in (left, right, target)]
    begin = None if start is None else context.register_box(start, work)
    plan = _blocks(context, work, shape, (rows_tile, columns_tile, result), boxes)

    def emit(code: Code) -> None:
        a, b, c = context.registers(left), context.registers(right), context.registers(target)
        source = None if start is None else context.registers(start)
        shift = 0
        if begin is not None and start is not None and start is not target:
            shift = _first(context, start, begin) - _first(context, target, boxes[2])
        for at, (i, j, k) in enumerate(plan.steps):
            into = c.part(plan.result(i, j), shape.accumulator_registers)
            addend: Register | int = into
            if at < plan.blocks:
                addend = (
                    0
                    if source is None
                    else source.part(plan.result(i, j) + shift, shape.accumulator_registers)
                )
            code(
                shape.mnemonic,
                into,
                b.part(plan.column(j, k), plan.words),
                a.part(plan.row(i, k), plan.words),
                addend,
            )

    return emit


def _first(context: Context, access: Access, box: Box) -> int:
    return context.tiles[access.resource].slots_in(box, access.resource)[0]


class _Plan:
    """Which registers the MFMAs of a part take."""

    def __init__(
        self, shape: MatrixShape, tiles: tuple[RegisterTile, ...], boxes: list[Box], size: int
    ) -> None:
        side, result = shape.side, tiles[2]
        (left, right, into) = boxes
        self.words = side * shape.depth * size // WAVE_LANES // 4
        self._per_row = [
            t.resource.type.shape[-1] * size * side // WAVE_LANES // 4 for t in tiles[:2]
        ]
        self._starts = [
            box[-2][0] // side * per + box[-1][0] * size * side // WAVE_LANES // 4
            for box, per in zip((left, right), self._per_row, strict=True)
        ]
        self._columns = result.resource.type.shape[-1] // side
        self._corner = (into[-2][0] // side, into[-1][0] // side)
        self._count = shape.accumulator_registers
        m, n = (left[-2][1] - left[-2][0]) // side, (right[-2][1] - right[-2][0]) // side
        depth = (left[-1][1] - left[-1][0]) // shape.depth
        self.blocks = m * n
        self.steps = [(i, j, k) for k in range(depth) for i in range(m) for j in range(n)]

    def row(self, i: int, k: int) -> int:
        return self._starts[0] + i * self._per_row[0] + k * self.words

    def column(self, j: int, k: int) -> int:
        return self._starts[1] + j * self._per_row[1] + k * self.words

    def result(self, i: int, j: int) -> int:
        row, column = self._corner[0] + i, self._corner[1] + j
        return (row * self._columns + column) * self._count


def _blocks(
    context: Context,
    work: Work,
    shape: MatrixShape,
    tiles: tuple[RegisterTile, RegisterTile, RegisterTile],
    boxes: list[Box],
) -> _Plan:
    (left, right, into) = boxes
    size = tiles[0].resource.type.dtype.bits // 8
    side, span = shape.side, max(shape.depth, tiles[0].run_bytes * shape.lane_blocks // size)
    extents = [[q - p for p, q in box[-2:]] for box in boxes]
    corners = [p for box in boxes for p, _ in box[-2:]]
    even = (
        extents[0][1] == extents[1][1]
        and [extents[0][0], extents[1][0]] == extents[2]
        and not any(size_ % side for size_ in extents[2])
        and not extents[0][1] % span
        and not any(p % side for p in corners[::2])
        and not into[-1][0] % side
        and not (left[-1][0] % span or right[-1][0] % span)
    )
    if not even:
        raise EmitError(
            f"{work.label} multiplies {left} by {right} into {into}, which is no whole number of "
            f"{side}x{side} blocks and steps of {span} along K",
            hint="cut parts at blocks of the matrix instruction and runs of 16 bytes per lane",
            field=work.label,
        )
    return _Plan(shape, tiles, boxes, size)


def _tile(context: Context, access: Access, work: Work, kind: str) -> RegisterTile:
    tile = context.tile(access, work)
    if tile.kind != kind:
        raise EmitError(
            f"{work.label} multiplies with {access.resource}, whose layout is {tile.kind!r}",
            hint=f"a matrix product takes {kind!r} there",
            field=access.resource,
        )
    return tile


def _shape(
    context: Context, work: Work, left: RegisterTile, right: RegisterTile, result: RegisterTile
) -> MatrixShape:
    layouts = [t.resource.layout for t in (left, right, result)]
    assert layouts[0] is not None
    assert layouts[1] is not None
    assert layouts[2] is not None
    dtype = left.resource.type.dtype
    chip = context.chip
    same = (
        right.resource.type.dtype == dtype
        and layouts[0] == layouts[1]
        and layouts[2]["side"] == layouts[0]["side"]
        and left.run_bytes == right.run_bytes
    )
    kind = MATRIX_TYPES.get((chip.name, dtype.name))
    if not same or kind is None or result.resource.type.dtype.name != "f32":
        known = sorted(name for arch, name in MATRIX_TYPES if arch == chip.name)
        raise EmitError(
            f"{work.label} multiplies {dtype} by {right.resource.type.dtype} to "
            f"{result.resource.type.dtype}, which {chip.name} has no matrix instruction for",
            hint=f"both operands of one type and layout, out of {', '.join(known)}, summed in f32",
            field=work.label,
        )
    side, depth = layouts[0]["side"], layouts[0]["depth"]
    if (kind, side, side, depth) not in chip.matrix:
        known = [f"{m}x{n}x{k}" for t, m, n, k in chip.matrix if t == kind]
        raise EmitError(
            f"{chip.name} has no {side}x{side}x{depth} matrix instruction for {dtype}",
            hint=f"it has: {', '.join(known)}",
            field=work.label,
        )
    return chip.matrix[kind, side, side, depth]
