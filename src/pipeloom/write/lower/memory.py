"""Global memory as a kernel sees it: arguments, block origins, buffer descriptors, byte offsets.

Each input and output is an array of the dimensions of its tile, in row-major order with a leading
dimension (the distance of neighbours along the last dimension but one, in codes: those of block
scales are counted as they lie). A buffer descriptor starts
at the block's first element; ``num_records`` ends after the last index of the first dimension, so
what lies past it reads as zero and is not written. Along other dimensions a lane that is past the
end gets an offset that the descriptor rejects.

The place along ``over`` stands in the scalar offset. Sizes along it are whole tiles, so it takes
no part in any check; where a launch may have any size (``Placing.ragged``), the descriptor starts
as many elements early as are missing, and the first loads leave those out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pipeloom.machine.dispatch import DIVISIBLE, TileOrder
from pipeloom.program import Meaning, Node, NodeKind
from pipeloom.write.addresses import BASE_HIGH, OUT_OF_RANGE, RAW_BUFFER, advance_base
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import VCC, Register, sgpr
from pipeloom.write.lower.columns import dealt
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.linear import LaneNumber, Table, lane_number, wave_part, write_number
from pipeloom.write.lower.templates import float_bits
from pipeloom.write.placing import Placing, divide
from pipeloom.write.text import Argument

Stride = str | int | Fraction
"""Bytes between neighbours: a number, the scalar that holds it, or of several in a byte a part."""
MAX_GRID = 3
DESCRIPTOR_ROOM = 2
"""Words of a descriptor that do not come from the argument."""
BATCHES = "batches"
"""The argument that says how many problems a launch computes."""
ARGUMENT_POINTER = 2
"""Scalar registers that hold it; the workgroup's ids follow."""


@dataclass(frozen=True, slots=True)
class Array:
    """One input or output."""

    node: Node
    over: str

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def dims(self) -> tuple[str, ...]:
        return self.node.type.dims

    @property
    def element(self) -> int:
        """Bytes of an element; 0 where two share one."""
        return self.node.type.dtype.bits // 8

    def elements_of(self, size: int) -> int:
        """Elements of so many bytes."""
        return size * 8 * self.node.type.dtype.covers // self.node.type.dtype.bits

    @property
    def is_output(self) -> bool:
        """Whether it is stored."""
        return self.node.kind is NodeKind.OUTPUT

    @property
    def has_pitch(self) -> bool:
        """Whether it takes a leading dimension."""
        return len(self.dims) > 1

    def stride(self, axis: int) -> Stride:
        """Bytes between neighbours along a dimension."""
        if axis < len(self.dims) - 1:
            return f"stride {self.name}.{axis}"
        size = Fraction(1, self.elements_of(1)) if self.elements_of(1) else self.element
        return int(size) if size.denominator == 1 else size

    @property
    def over_stride(self) -> Stride:
        """Bytes from one index along ``over`` to the next."""
        return self.stride(self.dims.index(self.over))


def arrays_of(meaning: Meaning) -> dict[str, Array]:
    """Every input and output; raises ``EmitError`` for a type that has no bytes of its own."""
    found = {}
    for node in (*meaning.inputs, *meaning.outputs):
        dtype = node.type.dtype
        kind, dims = node.kind, node.type.dims
        whole = dtype.bits in (8, 16, 32) and dtype.covers == 1
        part = kind is NodeKind.STREAM and dims[-1:] == (meaning.over,) and dtype.bits in (4, 8)
        if dtype.scale is not None or not dims or not (whole or part):
            raise EmitError(
                f"{node.name} is {node.type}, which kernels cannot load or store",
                hint="use elements of 8, 16 or 32 bits, block scales as a stream of their own; "
                "elements that share a byte follow each other along the loop",
                field=node.name,
            )
        found[node.name] = Array(node, meaning.over)
    return found


def dimensions(meaning: Meaning) -> tuple[str, ...]:
    """Every dimension of an input or output, in order of appearance."""
    nodes = (*meaning.inputs, *meaning.outputs)
    return (
        *dict.fromkeys(dim for node in nodes for dim in node.type.dims),
        *meaning.batch,
    )


def arguments_of(meaning: Meaning, placing: Placing) -> tuple[Argument, ...]:
    """Pointers of inputs and outputs, strides of batches, the size of each dimension, leading
    dimensions, scalars."""
    arrays = arrays_of(meaning)
    names = [(name, 8) for name in arrays]
    if placing.uses_z:
        names += [(f"bs_{name}", 8) for name in arrays]
    names += [(dim, 4) for dim in dimensions(meaning)]
    names += [(f"ld_{name}", 4) for name, array in arrays.items() if array.has_pitch]
    names += [(BATCHES, 4)] if placing.uses_z else []
    names += [(stride_name(a.name, dim), 4) for a in arrays.values() for dim in a.node.batch]
    names += [(n.name, 4) for n in meaning.nodes if n.kind is NodeKind.SCALAR]
    arguments, offset, seen = [], 0, set[str]()
    for name, size in names:
        if name in seen:
            raise EmitError(
                f"the kernel of {meaning.name!r} has two arguments called {name!r}",
                hint="give the array, the dimension or the scalar another name: arrays, sizes, "
                "ld_ARRAY, strides and scalars are arguments",
                field=name,
            )
        seen.add(name)
        arguments.append(Argument(name, offset, size, name in arrays))
        offset += size
    return tuple(arguments)


def stride_name(array: str, dim: str) -> str:
    """The argument that says, in elements, how far apart an array has neighbours of a batch."""
    return f"stride_{array}_{dim}"


class Memory:
    """The scalars that describe global memory, asked of a frame."""

    def __init__(self, meaning: Meaning, frame: Frame, placing: Placing) -> None:
        self.meaning = meaning
        self.frame = frame
        self.placing = placing
        placing.check(meaning)
        self.arrays = arrays_of(meaning)
        self.arguments = arguments_of(meaning, placing)
        self.dealt: frozenset[str] = frozenset()
        """Dimensions whose columns are dealt to matrix blocks (``columns``)."""
        self._offsets: dict[tuple[int, str], dict[tuple[LaneNumber, ...], str]] = {}
        if len(meaning.grid) + bool(meaning.batch) > MAX_GRID:
            raise EmitError(
                f"the outputs have {len(meaning.grid)} dimensions to share out: "
                f"{', '.join((*meaning.grid, *meaning.batch))}",
                hint=f"a launch has at most {MAX_GRID}, one of them for all of a batch",
                field="grid",
            )
        self.tiles = meaning.tile
        for array in self.arrays.values():
            frame.scalar(f"buffer {array.name}", 4, 4)
            for axis in range(len(array.dims) - 1):
                frame.scalar(f"stride {array.name}.{axis}")
        for dim in dimensions(meaning):
            frame.scalar(f"size {dim}")
        for dim in meaning.grid:
            frame.scalar(f"origin {dim}")
            frame.scalar(f"left {dim}")
        for dim in meaning.batch:
            frame.scalar(f"index {dim}")
            frame.work(0)
            frame.work(1)
        for array in self.arrays.values():
            for dim in array.node.batch[DESCRIPTOR_ROOM:]:
                frame.scalar(f"argument {stride_name(array.name, dim)}")
        for node in meaning.nodes:
            if node.kind is NodeKind.SCALAR:
                frame.scalar(f"argument {node.name}")
        if meaning.until is not None:
            frame.scalar("end")
        frame.scalar("scratch")
        frame.scalar("wide scratch", 2, 2)
        if placing.uses_z:
            frame.scalar("batch")
            frame.scalar(BATCHES)
            for name in self.arrays:
                frame.scalar(f"batch stride {name}", 2, 2)
        if placing.slices > 1:
            frame.scalar("slice start")
        if placing.slices > 1 or placing.ragged:
            frame.scalar("reach")
        if placing.ragged:
            frame.scalar("pad")
        if placing.order is not None:
            frame.work(0)
            frame.work(1)

    @property
    def ids(self) -> int:
        """Numbers of a workgroup that the kernel reads."""
        counted = len(self.meaning.grid) + bool(self.meaning.batch)
        return MAX_GRID if self.placing.uses_z else max(counted, 2)

    @property
    def reserved_scalars(self) -> int:
        """What the loader fills: argument pointer and workgroup ids."""
        return ARGUMENT_POINTER + self.ids

    @property
    def reach(self) -> str:
        """The scalar that says how far the loop goes, in elements."""
        if self.meaning.until is not None:
            return "end"
        moved = self.placing.slices > 1 or self.placing.ragged
        return "reach" if moved else f"size {self.meaning.over}"

    # --- setup ------------------------------------------------------------------------------------

    def load_arguments(self, code: Code, pointer: Register) -> None:
        """Start to load every argument to where it is needed."""
        code.comment("arguments: " + ", ".join(a.name for a in self.arguments))
        frame = self.frame
        for argument in self.arguments:
            name = argument.name
            if argument.is_pointer:
                place = frame[f"buffer {name}"].part(0, 2)
                code("s_load_dwordx2", place, pointer, argument.offset)
            elif argument.size == 8:
                place = frame[f"batch stride {name[3:]}"]
                code("s_load_dwordx2", place, pointer, argument.offset)
            else:
                code("s_load_dword", self._value(name), pointer, argument.offset)

    def _value(self, name: str) -> Register:
        if name in self.tiles or name in self.meaning.batch:
            return self.frame[f"size {name}"]
        for array in self.arrays.values():
            for dim in array.node.batch:
                if name == stride_name(array.name, dim):
                    return self._batch_stride(array, dim)
        if name == BATCHES and self.placing.uses_z:
            return self.frame[BATCHES]
        if name.startswith("ld_") and name[3:] in self.arrays:
            array = self.arrays[name[3:]]
            return self.frame[f"stride {array.name}.{len(array.dims) - 2}"]
        return self.frame[f"argument {name}"]

    def locate(self, code: Code, ids: Sequence[Register], inside: str) -> None:
        """Block origins, ``ids`` by dimension of the grid; a block outside the outputs ends here.

        The origin of a workgroup too many may not fit into 32 bits, and so is taken with its high
        half.
        """
        frame, scratch = self.frame, self.frame["scratch"]
        code.comment("where this block is, if it is inside")
        for number, (dim, group) in enumerate(zip(self.meaning.grid, ids, strict=True)):
            origin, size = frame[f"origin {dim}"], frame[f"size {dim}"]
            if dim == self.meaning.until:
                # Blocks near the end have most to do: they go first, so that none is left for last.
                turned = frame["wide scratch"].part(0)
                code("s_add_u32", turned, size, self.tiles[dim] - 1)
                self.quotient(code, turned, turned, self.tiles[dim])
                code("s_sub_u32", turned, turned, group)
                code("s_sub_u32", turned, turned, 1)
                group = turned
            code("s_mul_i32", origin, group, self.tiles[dim])
            code("s_mul_hi_u32", scratch, group, self.tiles[dim])
            code("s_min_u32", scratch, scratch, 1)
            code("s_sub_u32", scratch, 0, scratch)
            code("s_or_b32", scratch, scratch, origin)
            code("s_cmp_lt_u32", scratch, size)
            code("s_cbranch_scc1", f"{inside}_{number}")
            code("s_endpgm")
            code.label(f"{inside}_{number}")
            code("s_sub_u32", frame[f"left {dim}"], size, origin)
        if self.placing.order is not None:
            self._reorder(code, self.placing.order, ids, f"{inside}_placed")

    def _reorder(self, code: Code, order: TileOrder, ids: Sequence[Register], done: str) -> None:
        """The block that ``order`` has for this workgroup; ``TileOrder.place`` in instructions.

        What descriptors will fill is still free.
        """
        frame, (down, across) = self.frame, self.meaning.grid
        spare = [frame[f"buffer {name}"] for name in list(self.arrays)[:2]]
        rows, columns, total, number = (buffer.part(n) for buffer in spare for n in (2, 3))
        begin, high, scratch = *(frame["wide scratch"].part(n) for n in (0, 1)), frame["scratch"]
        row, column = frame[f"origin {down}"], frame[f"origin {across}"]
        one, two = frame[f"left {down}"], frame[f"left {across}"]
        chunk = order.xcds * order.per_xcd
        code.comment("which block that is, so that neighbours run on one XCD")
        for count, dim in ((rows, down), (columns, across)):
            code("s_sub_u32", scratch, frame[f"size {dim}"], 1)
            self.quotient(code, count, scratch, self.tiles[dim])
            code("s_add_u32", count, count, 1)
        code("s_mul_hi_u32", scratch, rows, columns)
        code("s_mul_i32", total, rows, columns)
        code("s_cmp_lg_u32", scratch, 0)
        code("s_cbranch_scc1", done)
        code("s_cmp_ge_u32", total, DIVISIBLE)
        code("s_cbranch_scc1", done)
        code("s_mul_i32", number, ids[0], columns)
        code("s_add_u32", number, number, ids[1])
        self.quotient(code, begin, number, chunk)
        code("s_mul_i32", begin, begin, chunk)
        code("s_sub_u32", number, number, begin)
        self.quotient(code, column, number, order.xcds)
        code("s_mul_i32", one, column, order.xcds)
        code("s_sub_u32", number, number, one)
        code("s_sub_u32", row, total, begin)
        code("s_min_u32", row, row, chunk)
        self.quotient(code, one, row, order.xcds)
        code("s_mul_i32", two, one, order.xcds)
        code("s_sub_u32", two, row, two)
        code("s_mul_i32", one, one, number)
        code("s_min_u32", two, two, number)
        for part in (column, one, two):
            code("s_add_u32", begin, begin, part)
        code("s_mov_b32", high, order.heights[0][1])
        for least, height in order.heights[1:]:
            code("s_cmp_ge_u32", total, least)
            code("s_cselect_b32", high, height, high)
        code("s_min_u32", high, high, rows)
        code("s_mul_i32", row, high, columns)
        self.divide(code, column, begin, row)
        code("s_mul_i32", one, column, row)
        code("s_sub_u32", begin, begin, one)
        code("s_mul_i32", row, column, high)
        code("s_sub_u32", one, rows, row)
        code("s_min_u32", one, one, high)
        self.divide(code, column, begin, one)
        code("s_mul_i32", one, one, column)
        code("s_sub_u32", begin, begin, one)
        code("s_add_u32", row, row, begin)
        for origin, dim in ((row, down), (column, across)):
            code("s_mul_i32", origin, origin, self.tiles[dim])
            code("s_sub_u32", frame[f"left {dim}"], frame[f"size {dim}"], origin)
        code.label(done)

    def divide(self, code: Code, result: Register, value: Register, divisor: Register) -> None:
        """``result = value // divisor``, of numbers below 2^21.

        As f32: trunc((n + 0.5) * rcp(d)) is exact, because the product errs by less than 2^-22 of
        itself and n + 0.5 over d is at least 0.5 / d from any integer.
        """
        quotient, rate = (self.frame[self.frame.work(n)] for n in (0, 1))
        code("v_mov_b32", rate, divisor)
        code("v_cvt_f32_u32", rate, rate)
        code("v_rcp_f32", rate, rate)
        code("v_mov_b32", quotient, value)
        code("v_cvt_f32_u32", quotient, quotient)
        code("v_add_f32", quotient, float_bits(0.5), quotient)
        code("v_mul_f32", quotient, quotient, rate)
        code("v_cvt_u32_f32", quotient, quotient)
        code("v_readfirstlane_b32", result, quotient)

    def choose_slice(self, code: Code, z: Register, tile: int, inside: str) -> None:
        """Which batch and which slice of the loop's dimension ``z`` is; one too many ends here."""
        frame, count = self.frame, self.placing.slices
        if not self.placing.uses_z:
            return
        code.comment("which problem" + (f", which of {count} slices" if count > 1 else ""))
        batch = frame["batch"]
        self.quotient(code, batch, z, count)
        code("s_cmp_lt_u32", batch, frame[BATCHES])
        code("s_cbranch_scc1", inside)
        code("s_endpgm")
        code.label(inside)
        if count == 1:
            return
        start, reach, scratch = frame["slice start"], frame["reach"], frame["scratch"]
        size = frame[f"size {self.meaning.over}"]
        code("s_mul_i32", scratch, batch, count)
        code("s_sub_u32", start, z, scratch)
        code("s_add_u32", reach, size, count * tile - 1)
        self.quotient(code, reach, reach, count * tile)
        code("s_mul_i32", reach, reach, tile)
        # From the end on, so that all slices end where a load does if the rows do.
        code("s_mul_i32", start, start, reach)
        code("s_min_u32", start, start, size)
        code("s_sub_u32", start, size, start)
        code("s_min_u32", reach, reach, start)
        code("s_sub_u32", start, start, reach)

    def choose_problem(self, code: Code, number: Register) -> None:
        """Which problem of the meaning's batch this is, and where its block ends."""
        if self.meaning.batch:
            self._batch_indices(code, number)
        if self.meaning.until is not None:
            self._find_end(code, self.meaning.until)

    def quotient(self, code: Code, result: Register, value: Register, number: int) -> None:
        """``result = value // number``, of values below 2^31."""
        before, factor, after = divide(number)
        if before or not factor:
            code("s_lshr_b32", result, value, before)
            value = result
        if factor:
            code("s_mul_hi_u32", result, value, factor)
            code("s_lshr_b32", result, result, after)

    def describe(self, code: Code) -> None:
        """A descriptor for every array."""
        for array in self.arrays.values():
            self._describe(code, array)

    def _batch_stride(self, array: Array, dim: str) -> Register:
        """Where the argument is until the descriptor is whole: in what is still free of that."""
        at = array.node.batch.index(dim)
        if at < DESCRIPTOR_ROOM:
            return self.frame[f"buffer {array.name}"].part(2 + at)
        return self.frame[f"argument {stride_name(array.name, dim)}"]

    def _batch_indices(self, code: Code, number: Register) -> None:
        """Which problem of the batch this is: the last dimension goes fastest."""
        frame = self.frame
        first, *others = self.meaning.batch
        code("s_mov_b32", frame[f"index {first}"], number)
        rest, scratch = frame[f"index {first}"], frame["scratch"]
        for dim in reversed(others):
            size, index = frame[f"size {dim}"], frame[f"index {dim}"]
            code("s_mov_b32", index, rest)
            self.divide(code, rest, rest, size)
            code("s_mul_i32", scratch, rest, size)
            code("s_sub_u32", index, index, scratch)

    def _find_end(self, code: Code, until: str) -> None:
        """Where less is left along ``over`` than behind the block's last element of ``until``."""
        frame, scratch = self.frame, self.frame["scratch"]
        code.comment(f"how far this block goes along {self.meaning.over}")
        code("s_sub_i32", scratch, frame[f"left {until}"], self.tiles[until])
        code("s_max_i32", scratch, scratch, 0)
        code("s_sub_i32", scratch, frame[f"size {self.meaning.over}"], scratch)
        code("s_max_i32", frame["end"], scratch, 0)

    def _describe(self, code: Code, array: Array) -> None:
        frame, scratch = self.frame, self.frame["scratch"]
        code.comment(f"buffer {array.name}: from this block's first element on")
        last = len(array.dims) - 1
        for axis in reversed(range(last)):
            stride = frame[f"stride {array.name}.{axis}"]
            if axis == last - 1:
                if array.element > 1:
                    code("s_lshl_b32", stride, stride, array.element.bit_length() - 1)
                elif not array.element:
                    code("s_lshr_b32", stride, stride, 1)
            else:
                below = frame[f"stride {array.name}.{axis + 1}"]
                code("s_mul_i32", stride, below, frame[f"size {array.dims[axis + 1]}"])
        buffer = frame[f"buffer {array.name}"]
        for axis, dim in enumerate(array.dims):
            if dim in self.meaning.grid and dim != array.over:
                step = self.operand(array.stride(axis))
                advance_base(code, buffer, frame[f"origin {dim}"], step, frame["wide scratch"])
        self._move_to_slice(code, array, buffer)
        for dim in array.node.batch:
            # Strides of elements may fill their 32 bits, so bytes are made of the index.
            index = frame[f"index {dim}"]
            if array.element > 1:
                code("s_lshl_b32", scratch, index, array.element.bit_length() - 1)
                index = scratch
            step = self._batch_stride(array, dim)
            advance_base(code, buffer, index, step, frame["wide scratch"])
        dim = array.dims[0]
        if dim == array.over:
            code("s_mov_b32", scratch, frame[self.reach])
        else:
            bound = "left" if dim in self.meaning.grid else "size"
            code("s_min_u32", scratch, frame[f"{bound} {dim}"], self.tiles[dim])
        code("s_mul_i32", buffer.part(2), scratch, self.operand(array.stride(0)))
        if self.placing.ragged and len(array.dims) > 1:
            # The last row ends with its last element, not with the leading dimension.
            row = self.operand(array.stride(len(array.dims) - 2))
            code("s_sub_u32", buffer.part(2), buffer.part(2), row)
            extent = frame[self._extent(array, array.dims[-1])]
            code("s_mul_i32", scratch, *self.counted(code, extent, array.stride(last)))
            code("s_add_u32", buffer.part(2), buffer.part(2), scratch)
        for axis, dim in enumerate(array.dims):
            if axis > 0 and dim in self.meaning.grid and dim != array.over:
                # The base is past so much of the first row, and of what ends with the last one.
                code("s_mul_i32", scratch, frame[f"origin {dim}"], self.operand(array.stride(axis)))
                code("s_sub_u32", buffer.part(2), buffer.part(2), scratch)
                if self.meaning.ragged and array.over in array.dims:
                    # An array without an element ends before any block but the first.
                    code("s_max_i32", buffer.part(2), buffer.part(2), 0)
        if self.placing.ragged and array.over in array.dims[1:] and not array.is_output:
            code("s_mul_i32", scratch, *self.counted(code, frame["pad"], array.over_stride))
            code("s_add_u32", buffer.part(2), buffer.part(2), scratch)
        if self.placing.slices > 1 and array.over in array.dims[1:]:
            start = frame["slice start"]
            code("s_mul_i32", scratch, *self.counted(code, start, array.over_stride))
            code("s_sub_u32", buffer.part(2), buffer.part(2), scratch)
        for name, scalar in self.placing.unless:
            if name == array.name:
                # Without the sign; the shift says whether anything is left.
                code("s_lshl_b32", scratch, frame[f"argument {scalar}"], 1)
                code("s_cselect_b32", buffer.part(2), buffer.part(2), 0)
        code("s_mov_b32", buffer.part(3), RAW_BUFFER)

    def _extent(self, array: Array, dim: str) -> str:
        """The scalar with an array's size along a dimension; outputs have the zeros too."""
        return self.reach if array.is_output and dim == array.over else f"size {dim}"

    def _move_to_slice(self, code: Code, array: Array, buffer: Register) -> None:
        """The base at the batch's array, the slice's first element, and before it by the pad."""
        frame, wide = self.frame, self.frame["wide scratch"]
        scratch, placing = frame["scratch"], self.placing
        if placing.uses_z:
            count, low, high = frame["batch"], wide.part(0), wide.part(1)
            if placing.slices > 1 and array.node.kind is NodeKind.OUTPUT:
                # A slice's sums are stored by themselves: slice after slice, batch after batch.
                count = sgpr(ARGUMENT_POINTER + MAX_GRID - 1)
            stride = frame[f"batch stride {array.name}"]
            code("s_mul_i32", scratch, count, max(array.element, 1))
            code("s_mul_i32", low, scratch, stride.part(0))
            code("s_mul_hi_u32", high, scratch, stride.part(0))
            code("s_mul_i32", scratch, scratch, stride.part(1))
            code("s_add_u32", high, high, scratch)
            if not array.element:
                code("s_lshr_b32", low, low, 1)
                code("s_lshl_b32", scratch, high, 31)
                code("s_or_b32", low, low, scratch)
                code("s_lshr_b32", high, high, 1)
            code("s_add_u32", buffer.part(0), buffer.part(0), low)
            code("s_addc_u32", buffer.part(1), buffer.part(1), high)
            code("s_and_b32", buffer.part(1), buffer.part(1), BASE_HIGH)
        if array.over not in array.dims or array.is_output:
            return
        if placing.slices > 1:
            start = self.counted(code, frame["slice start"], array.over_stride)
            advance_base(code, buffer, *start, wide)
        if placing.ragged:
            pad = self.counted(code, frame["pad"], array.over_stride)
            code("s_mul_i32", wide.part(0), *pad)
            code("s_mul_hi_u32", wide.part(1), *pad)
            code("s_sub_u32", buffer.part(0), buffer.part(0), wide.part(0))
            code("s_subb_u32", buffer.part(1), buffer.part(1), wide.part(1))
            code("s_and_b32", buffer.part(1), buffer.part(1), BASE_HIGH)

    def operand(self, value: Stride) -> Register | int:
        """A stride of whole bytes as an operand."""
        assert not isinstance(value, Fraction)
        return value if isinstance(value, int) else self.frame[value]

    def counted(
        self, code: Code, count: Register, stride: Stride
    ) -> tuple[Register, Register | int]:
        """Two factors that make bytes of a count; of parts of a byte, in ``scratch``."""
        if isinstance(stride, Fraction):
            code("s_lshr_b32", self.frame["scratch"], count, stride.denominator.bit_length() - 1)
            return self.frame["scratch"], 1
        return count, self.operand(stride)

    # --- offsets ----------------------------------------------------------------------------------

    def places(self, array: Array, tables: Sequence[Table]) -> list[Table]:
        """Where memory has what the program has at ``tables``, coordinates by dimension.

        Every address of an array is made of these: its columns may be dealt to matrix blocks.
        """
        return [
            dealt(table) if dim in self.dealt else table
            for dim, table in zip(array.dims, tables, strict=True)
        ]

    def offset(self, array: Array, tables: Sequence[Table], members: Sequence[int]) -> str:
        """A prepared register: the byte offset, from the block's first element, of each lane.

        ``tables`` are coordinates within the tile, by dimension.
        """
        frame = self.frame
        what = f"the place of a lane in {array.name}"
        numbers = [lane_number(table, what) for table in self.places(array, tables)]
        if array.node.kind is NodeKind.RESIDENT:
            numbers = [number.apart for number in numbers]
        key = ("offset", array.name, tuple(numbers))
        base = self._near(array, numbers)
        if base is not None:
            name, axis, moved = base
            return frame.prepared(
                key, f"offset {array.name}", self._moved(array, name, axis, moved)
            )
        waves = [wave_part(frame, members, number) for number in numbers]
        places = (frame.work(0), frame.work(1), frame.work(2))

        def make(code: Code, result: Register) -> None:
            coordinate, work, outside = (frame[name] for name in places)
            self.write_offset(code, array, numbers, waves, result, (coordinate, work, outside))

        name = frame.prepared(key, f"offset {array.name}", make)
        self._offsets.setdefault((frame.group, array.name), {})[tuple(numbers)] = name
        return name

    def _near(self, array: Array, numbers: Sequence[LaneNumber]) -> tuple[str, int, int] | None:
        """An offset that is some rows from this one in every lane: its name, the axis, how many.

        Only where the descriptor checks the end of every dimension, or nobody has to.
        """
        if any(axis > 0 and dim != array.over for axis, dim in enumerate(array.dims)):
            return None
        for known, name in self._offsets.get((self.frame.group, array.name), {}).items():
            apart = [axis for axis, number in enumerate(numbers) if number != known[axis]]
            if len(apart) != 1:
                continue
            (axis,) = apart
            here, there = numbers[axis], known[axis]
            moved = {a - b for a, b in zip(here.waves, there.waves, strict=True)}
            moved = {m + here.common - there.common for m in moved}
            alike = replace(here, waves=there.waves, common=there.common) == there
            alike = alike and not here.joined_by_xor
            if alike and len(moved) == 1:
                return name, axis, moved.pop()
        return None

    def _moved(
        self, array: Array, base: str, axis: int, rows: int
    ) -> Callable[[Code, Register], None]:
        stride = array.stride(axis)

        def make(code: Code, result: Register) -> None:
            distance: Register | int = 0 if isinstance(stride, str) else int(rows * stride)
            if isinstance(stride, str):
                distance = self.frame["scratch"]
                code("s_mul_i32", distance, self.frame[stride], rows)
            code("v_add_u32", result, distance, self.frame[base])

        return make

    def write_offset(
        self,
        code: Code,
        array: Array,
        numbers: Sequence[LaneNumber],
        waves: Sequence[str | int],
        result: Register,
        scratch: tuple[Register, Register, Register],
        skip_last: bool = False,
    ) -> None:
        """The sum of coordinates times strides; past the end of a dimension, out of range."""
        frame = self.frame
        coordinate, work, outside = scratch
        code("v_mov_b32", outside, OUT_OF_RANGE)
        started = False
        for axis, number in enumerate(numbers):
            if skip_last and axis == len(numbers) - 1:
                continue
            dim = array.dims[axis]
            guarded = axis > 0 and dim != array.over
            if number.is_constant and number.waves[0] == 0:
                continue
            write_number(code, frame, coordinate, number, waves[axis], work)
            self.scale(code, work, coordinate, array.stride(axis))
            if started:
                code("v_add_u32", result, work, result)
            else:
                code("v_mov_b32", result, work)
            started = True
            if guarded:
                code("v_cmp_gt_u32", VCC, self.bound(dim), coordinate)
                code("v_cndmask_b32", result, outside, result, VCC)
        if not started:
            code("v_mov_b32", result, 0)

    def bound(self, dim: str) -> Register:
        """Indices of the block along a dimension that exist."""
        return self.frame[f"{'left' if dim in self.meaning.grid else 'size'} {dim}"]

    def scale(self, code: Code, result: Register, value: Register, stride: Stride) -> None:
        """``result = value * stride``."""
        if isinstance(stride, str):
            code("v_mul_lo_u32", result, value, self.frame[stride])
        elif isinstance(stride, Fraction):
            code("v_lshrrev_b32", result, stride.denominator.bit_length() - 1, value)
        else:
            code("v_lshlrev_b32", result, stride.bit_length() - 1, value)
