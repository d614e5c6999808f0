"""Matrix products: ``operand`` tiles to an ``accumulator`` tile, one MFMA per block and step of K.

The matrix instruction gets the operand of the result's columns first: its result is then the
transposed block, in which four consecutive registers of a lane are four consecutive columns. With
block scales it takes, of each operand, a register with the scale of the lane's row and block of K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.dtypes import FP4, DType
from pipeloom.machine.matrix_ops import F8F6F4, MatrixOp, summed_in
from pipeloom.program import Access, Work
from pipeloom.program.tiles import Box, Range
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import OPCODES, Register
from pipeloom.write.lower.context import Context, place_name
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.register_tiles import WORD_BITS, RegisterTile, k_axis, row_axis

NAMES = {
    "bf16": "bf16",
    "fp16": "f16",
    "fp8": "fp8",
    "bf8": "bf8",
    "fp8_fnuz": "fp8",
    "bf8_fnuz": "bf8",
    "fp4": "fp4",
    "i8": "i8",
    "f32": "f32",
}
"""Element type -> what the assembler calls it in the names of matrix instructions."""
FORMATS = {narrow.dtype: code for code, narrow in enumerate(F8F6F4)}
"""cbsz and blgp of the f8f6f4 instructions."""
OPERAND_SELECT = ("op_sel", "op_sel_hi")
TOLD = (FP4,)
"""Types that only those instructions take. Their format is an operand, so a type of one's own with
the same bits is multiplied as well; what 8 bits mean depends on the chip, and goes by name."""


def plan_matmul(context: Context, work: Work) -> Write:
    """All MFMAs of a part; K outermost, so that neighbours add to different accumulators."""
    meaning = context.program.meaning
    node = meaning[work.node]
    target = work.accumulates[0] if work.accumulates else work.writes[0]
    result = _tile(context, target, work, "accumulator")
    start = target if work.accumulates else None
    if node.init is not None and not work.accumulates:
        start = work.reads[len(node.uses)]
        _tile(context, start, work, "accumulator")
    by_lane = node.type.dims[row_axis(result.resource)]
    pairs = [
        (access, _tile(context, access, work, "operand", "accumulator"))
        for access in work.reads[:2]
    ]
    for name, (_, tile) in zip(node.uses, pairs, strict=False):
        dims = meaning[name].type.dims
        if dims[k_axis(tile.resource)] in node.type.dims:
            raise EmitError(
                f"{work.label} sums along {dims[k_axis(tile.resource)]!r} of "
                f"{tile.resource.name}, which its result has",
                hint="let the layout's axis be that of the dimension that is summed",
                field=work.label,
            )
    scales = [
        _Scales(context, access, _tile(context, access, work, "scales"), work)
        for access in work.reads[2 : len(node.uses)]
    ]
    if by_lane not in meaning[node.uses[0]].type.dims:
        pairs.reverse()
        scales.reverse()
    (left, rows), (right, columns) = pairs
    op, mnemonic, formats = _instruction(context, work, rows, columns, result, bool(scales))
    boxes = [context.register_box(a, work) for a in (left, right, target)]
    begin = target if start is None else start
    plan = _Plan(work, op, (rows, columns, result), boxes)
    if context.register_box(begin, work) != boxes[2]:
        raise EmitError(
            f"{work.label} starts from another box of {begin.resource} than it writes",
            hint="let the value to which a product is added lie like its result",
            field=work.label,
        )

    count = op.result_registers
    place = place_name(target.resource, target.copy)
    fresh = {
        (i, j)
        for i, j, k in plan.steps
        if k == 0
        and (
            start is None
            or (start is target and context.starts.take(place, plan.result(i, j), count))
        )
    }

    inputs = [
        _Input(context, access, tile, plan.words)
        for access, tile in ((left, rows), (right, columns))
    ]

    def emit(code: Code) -> None:
        c = context.registers(target)
        for one in inputs:
            one.begin()
        for i, j, k in plan.steps:
            into = c.part(plan.result(i, j), count)
            addend: Register | int = into
            if k == 0:
                addend = context.registers(begin).part(plan.result(i, j), count)
                if (i, j) in fresh:
                    addend = 0
            second = inputs[0].words(code, plan.row(i, k))
            first = inputs[1].words(code, plan.column(j, k))
            found = [s.code(n, k) for s, n in zip(reversed(scales), (j, i), strict=False)]
            more, picked = [word for word, _ in found], _picked([byte for _, byte in found])
            code(mnemonic, into, first, second, addend, *more, modifiers=[*picked, *formats])

    return emit


class _Scales:
    """The registers of an operand's block scales, by block of rows and step of K."""

    def __init__(self, context: Context, access: Access, tile: RegisterTile, work: Work) -> None:
        self._context, self._access = context, access
        assert tile.resource.layout is not None
        self._side, self._depth = (tile.resource.layout[name] for name in ("side", "depth"))
        rows, deep = context.register_box(access, work)
        self._corner, self._pack = (rows[0], deep[0]), tile.pack
        corners = tile.coordinates[:, 0].tolist()
        self._slots = {(row, k): slot for slot, (row, k) in enumerate(corners)}

    def code(self, block: int, step: int) -> tuple[Register, int]:
        """Of a block of rows and a step of K of the part: the register, and which byte of it."""
        row, k = self._corner
        slot = self._slots[row + self._side * block, k + self._depth * step]
        register, byte = divmod(slot, self._pack)
        return self._context.registers(self._access).part(register), byte


def _picked(codes: Sequence[int]) -> list[str]:
    """Which byte of each register with scales is meant, its bits in two modifiers."""
    bits = {
        name: [*(byte >> bit & 1 for byte in codes), 0] for bit, name in enumerate(OPERAND_SELECT)
    }
    return [f"{name}:{found}".replace(" ", "") for name, found in bits.items() if codes]


class _Input:
    """The registers of an operand, packed first where every element has one of its own."""

    def __init__(self, context: Context, access: Access, tile: RegisterTile, words: int) -> None:
        self._context, self._access, self._count = context, access, words
        self._pack = WORD_BITS // tile.resource.type.dtype.bits if tile.pack == 1 else 1
        self._place = ""
        if self._pack > 1:
            self._place = context.frame.scratch(f"packed {access.resource}", words, 2)
        self._held: int | None = None

    def begin(self) -> None:
        """At the start of a step, nothing is packed."""
        self._held = None

    def words(self, code: Code, first: int) -> Register:
        """The words from ``first`` on, as the matrix unit takes them."""
        registers = self._context.registers(self._access)
        if self._pack == 1:
            return registers.part(first, self._count)
        packed = self._context.frame[self._place]
        if self._held != first:
            self._held = first
            bits = WORD_BITS // self._pack
            for word in range(self._count):
                into, at = packed.part(word), (first + word) * self._pack
                low = registers.part(at)
                for element in range(1, self._pack):
                    part = registers.part(at + element)
                    code("v_lshl_or_b32", into, part, bits * element, low)
                    low = into
        return packed


class _Plan:
    """Which registers the MFMAs of a part take."""

    def __init__(
        self,
        work: Work,
        op: MatrixOp,
        tiles: tuple[RegisterTile, RegisterTile, RegisterTile],
        boxes: list[Box],
    ) -> None:
        side, result = op.m, tiles[2]
        bits = tiles[0].resource.type.dtype.bits
        span = max(op.k, tiles[0].run_bytes * 8 * WAVE_LANES // side // bits)
        ranges = [
            (box[row_axis(t.resource)], box[k_axis(t.resource)])
            for t, box in zip(tiles, boxes, strict=True)
        ]
        self._check(work, side, span, ranges, boxes)
        self.words = side * op.k * bits // WAVE_LANES // WORD_BITS
        shapes = [t.resource.type.shape for t in tiles]
        per_k = bits * side / WAVE_LANES / WORD_BITS
        self._per_row = [
            int(whole[k_axis(t.resource)] * per_k)
            for t, whole in zip(tiles[:2], shapes[:2], strict=True)
        ]
        self._starts = [
            rows[0] // side * per + int(deep[0] * per_k)
            for (rows, deep), per in zip(ranges[:2], self._per_row, strict=True)
        ]
        self._columns = shapes[2][k_axis(result.resource)] // side
        self._corner = (ranges[2][0][0] // side, ranges[2][1][0] // side)
        self._count = op.result_registers
        m, n = ((rows[1] - rows[0]) // side for rows, _ in ranges[:2])
        depth = (ranges[0][1][1] - ranges[0][1][0]) // op.k
        self.steps = [(i, j, k) for k in range(depth) for i in range(m) for j in range(n)]

    def _check(
        self,
        work: Work,
        side: int,
        span: int,
        ranges: Sequence[tuple[Range, Range]],
        boxes: list[Box],
    ) -> None:
        (rows, deep), (columns, other), (down, across) = ranges
        lengths = [q - p for p, q in (rows, columns, down, across)]
        even = (
            lengths[:2] == lengths[2:]
            and deep[1] - deep[0] == other[1] - other[0]
            and not any(x % side for r in (rows, columns, down, across) for x in r)
            and not any(x % span for r in (deep, other) for x in r)
        )
        if not even:
            raise EmitError(
                f"{work.label} multiplies {boxes[0]} by {boxes[1]} into {boxes[2]}, which is no "
                f"whole number of {side}x{side} blocks and steps of {span} along K",
                hint="cut parts at blocks of the matrix instruction and runs of a lane",
                field=work.label,
            )

    def row(self, i: int, k: int) -> int:
        """First register of the operand whose rows go by lane."""
        return self._starts[0] + i * self._per_row[0] + k * self.words

    def column(self, j: int, k: int) -> int:
        """First register of the other."""
        return self._starts[1] + j * self._per_row[1] + k * self.words

    def result(self, i: int, j: int) -> int:
        """First register of a block of the result."""
        row, column = self._corner[0] + i, self._corner[1] + j
        return (row * self._columns + column) * self._count


def _tile(context: Context, access: Access, work: Work, *kinds: str) -> RegisterTile:
    tile = context.tile(access, work)
    if tile.kind not in kinds:
        raise EmitError(
            f"{work.label} multiplies with {access.resource}, whose layout is {tile.kind!r}",
            hint=f"a matrix product takes {' or '.join(kinds)} there",
            field=access.resource,
        )
    return tile


def _assembler_name(dtype: DType) -> str | None:
    """What the assembler calls a type, None where it has no word for it."""
    alike = (known.name for known in TOLD if replace(dtype, name=known.name) == known)
    return NAMES.get(dtype.name) or next(alike, None)


def _instruction(
    context: Context,
    work: Work,
    left: RegisterTile,
    right: RegisterTile,
    result: RegisterTile,
    scaled: bool,
) -> tuple[MatrixOp, str, list[str]]:
    """The matrix instruction, its name and formats; raises ``EmitError`` where there is none."""
    target = context.target
    dtypes = [t.resource.type.dtype for t in (left, right)]
    types = [dtype.name for dtype in dtypes]
    names = [name for dtype in dtypes if (name := _assembler_name(dtype)) is not None]
    numbers = [dict(t.resource.layout.numbers) for t in (left, right, result) if t.resource.layout]
    sides = {n["side"] for n in numbers}
    depths = {n["depth"] for n in numbers if "depth" in n}
    known = [op for op in target.matrix_ops if op.multiplies(*types, scaled=scaled)]
    if (
        not known
        or len(names) < len(types)
        or left.run_bytes != right.run_bytes
        or len(sides) != 1
        or len(depths) != 1
        or result.resource.type.dtype != summed_in(dtypes[0])
    ):
        takes = sorted(filter(target.multiplies, NAMES))
        raise EmitError(
            f"{work.label} multiplies {types[0]} by {types[1]} to "
            f"{result.resource.type.dtype}, which {target.arch} has no matrix instruction for",
            hint=f"operands out of {', '.join(takes)}, 8-bit ones with each other and others with "
            "their own type, in one order of K, summed in f32, or in i32 if they are i8",
            field=work.label,
        )
    side, depth = sides.pop(), depths.pop()
    # The instruction takes the operand of the result's columns first.
    second, first = names
    for op in known:
        sums = summed_in(dtypes[0])
        stem = f"v_mfma_{'scale_' if scaled else ''}{sums}_{op.m}x{op.n}x{op.k}"
        if (op.m, op.n, op.k) != (side, side, depth):
            continue
        if f"{stem}_f8f6f4" in OPCODES and first in FORMATS:
            chosen = {"cbsz": FORMATS[first], "blgp": FORMATS[second]}
            narrow = " fp4" if first == "fp4" else ""
            formats = [f"{name}:{n}" for name, n in chosen.items() if n]
            return op, f"{stem}_f8f6f4{narrow}", formats
        for suffix in (first, f"{first}_{second}"):
            if f"{stem}_{suffix}" in OPCODES:
                return op, f"{stem}_{suffix}", []
    raise EmitError(
        f"{target.arch} has no {side}x{side}x{depth} matrix instruction for {types[0]}",
        hint=f"it has: {', '.join(f'{op.m}x{op.n}x{op.k}' for op in known)}",
        field=work.label,
    )
