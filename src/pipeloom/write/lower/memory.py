"""Global memory as a kernel sees it: arguments, buffer descriptors, byte offsets.

A buffer descriptor starts at the block's first element (``block_place`` finds the block);
``num_records`` ends after the last index of the first dimension, so what lies past it reads as zero
and is not written. Along other dimensions a lane that is past the end gets an offset that the
descriptor rejects.

The place along ``over`` stands in the scalar offset. Sizes along it are whole tiles, so it takes
no part in any check; where a launch may have any size (``Placing.ragged``), the descriptor starts
as many elements early as are missing, and the first loads leave those out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from pipeloom.program import Meaning, NodeKind
from pipeloom.program.index_arrays import per_block
from pipeloom.program.problem_spans import BATCHES, turns_of
from pipeloom.write.addresses import BASE_HIGH, OUT_OF_RANGE, RAW_BUFFER, advance_base
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import VCC, Register, sgpr
from pipeloom.write.lower.array_ends import end_descriptor
from pipeloom.write.lower.columns import dealt
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.global_arrays import (
    Array,
    SharedRows,
    Stride,
    argument_dims,
    arguments_of,
    arrays_of,
    scalar_only,
    stride_name,
)
from pipeloom.write.lower.linear import LaneNumber, PlannedNumber, Table, lane_number
from pipeloom.write.lower.paged_arrays import HeldEntries, elsewhere
from pipeloom.write.placing import Placing

MAX_GRID = 3
DESCRIPTOR_ROOM = 2
"""Words of a descriptor that do not come from the argument."""
ARGUMENT_POINTER = 2
"""Scalar registers that hold it; the workgroup's ids follow."""


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
            if array.name in scalar_only(meaning):
                frame.first_scalar(f"buffer {array.name}", 2, 2)
            else:
                frame.scalar(f"buffer {array.name}", 4, 4)
            for axis in range(0 if array.is_mapped else len(array.dims) - 1):
                frame.scalar(f"stride {array.name}.{axis}")
        counted = {node.along for node in meaning.nodes}
        for dim in argument_dims(meaning):
            lasts = dim in counted or dim not in meaning.batch
            (frame.scalar if lasts else frame.first_scalar)(f"size {dim}")
        held = HeldEntries()
        self.mapped = {
            array.name: elsewhere(frame, meaning, array, self.begins_later, held)
            for array in self.arrays.values()
            if array.is_mapped
        }
        for dim in meaning.grid:
            frame.scalar(f"origin {dim}")
            frame.scalar(f"left {dim}")
        for name in per_block(meaning.nodes):
            frame.scalar(f"chosen {name}")
        for dim in meaning.batch:
            frame.first_scalar(f"index {dim}")
            frame.work(0)
            frame.work(1)
        for array in self.arrays.values():
            for at, dim in enumerate(array.node.outer):
                lasts = dim == turns_of(meaning.span)
                if lasts or at >= DESCRIPTOR_ROOM:
                    ask = frame.scalar if lasts else frame.first_scalar
                    ask(f"argument {stride_name(array.name, dim)}")
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
        if self.begins_later:
            frame.scalar("slice start")
        if self.begins_later or placing.ragged or turns_of(meaning.span):
            frame.scalar("reach")
        if placing.ragged:
            frame.scalar("pad")

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
    def begins_later(self) -> bool:
        """Whether a workgroup's part of the loop may begin behind the arrays' first element."""
        span, late = self.meaning.span, self.meaning.since is not None
        return self.placing.slices > 1 or late or (span is not None and bool(span.shares))

    @property
    def reach(self) -> str:
        """The scalar that says how far the loop goes, in elements."""
        if self.meaning.until is not None:
            return "end"
        moved = self.begins_later or self.placing.ragged or turns_of(self.meaning.span)
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
        if name in argument_dims(self.meaning):
            return self.frame[f"size {name}"]
        for array in self.arrays.values():
            for dim in array.node.outer:
                if name == stride_name(array.name, dim):
                    return self._batch_stride(array, dim)
        if name == BATCHES and self.placing.uses_z:
            return self.frame[BATCHES]
        if name.startswith("ld_") and name[3:] in self.arrays:
            array = self.arrays[name[3:]]
            if array.is_mapped:
                return self.frame[self.mapped[array.name].pitch]
            return self.frame[f"stride {array.name}.{len(array.dims) - 2}"]
        return self.frame[f"argument {name}"]

    def describe(self, code: Code) -> None:
        """A descriptor for every array, but for those that only the scalar unit reads."""
        for array in self.arrays.values():
            if array.name not in scalar_only(self.meaning):
                self._describe(code, array)

    def _batch_stride(self, array: Array, dim: str) -> Register:
        """Where the argument is until the descriptor is whole: in what is still free of that."""
        at = array.node.outer.index(dim)
        if at < DESCRIPTOR_ROOM and dim != turns_of(self.meaning.span):
            return self.frame[f"buffer {array.name}"].part(2 + at)
        return self.frame[f"argument {stride_name(array.name, dim)}"]

    def _describe(self, code: Code, array: Array) -> None:
        frame, scratch = self.frame, self.frame["scratch"]
        code.comment(f"buffer {array.name}: from this block's first element on")
        if array.is_mapped:
            self.mapped[array.name].locate(code)
            self._move_to_problem(code, array, frame[f"buffer {array.name}"])
            self.mapped[array.name].end(code)
            return
        last = len(array.dims) - 1
        for axis in reversed(range(last)):
            stride = frame[f"stride {array.name}.{axis}"]
            if array.blocks is not None:
                code("s_mul_i32", stride, frame[array.chunks], array.chunk_bytes)
            elif axis == last - 1:
                if array.element > 1:
                    code("s_lshl_b32", stride, stride, array.element.bit_length() - 1)
                elif not array.element:
                    code("s_lshr_b32", stride, stride, 1)
            else:
                below = frame[f"stride {array.name}.{axis + 1}"]
                code("s_mul_i32", stride, below, frame[f"size {array.dims[axis + 1]}"])
        buffer = frame[f"buffer {array.name}"]
        for axis, dim in enumerate(array.dims):
            here = axis > 0 or not array.is_scattered
            if here and dim in self.meaning.grid and dim != array.over:
                steps = self.counted(code, frame[f"origin {dim}"], array.stride(axis))
                advance_base(code, buffer, *steps, frame["wide scratch"])
        self._move_to_slice(code, array, buffer)
        self._move_to_problem(code, array, buffer)
        end_descriptor(code, self, array, buffer)
        for name, scalar in self.placing.unless:
            if name == array.name:
                # Without the sign; the shift says whether anything is left.
                code("s_lshl_b32", scratch, frame[f"argument {scalar}"], 1)
                code("s_cselect_b32", buffer.part(2), buffer.part(2), 0)
        code("s_mov_b32", buffer.part(3), RAW_BUFFER)

    def _move_to_problem(self, code: Code, array: Array, buffer: Register) -> None:
        """The base at this problem of the meaning's batch."""
        frame, scratch = self.frame, self.frame["scratch"]
        chosen = {one.dim: frame[f"chosen {one.index}"] for one in array.node.chosen}
        for dim in (d for d in array.node.outer if d != turns_of(self.meaning.span)):
            # Strides of elements may fill their 32 bits, so bytes are made of the index.
            index = chosen[dim] if dim in chosen else frame[f"index {dim}"]
            if array.element > 1:
                code("s_lshl_b32", scratch, index, array.element.bit_length() - 1)
                index = scratch
            step = self._batch_stride(array, dim)
            if not array.element:  # two elements are a byte, and strides are even
                code("s_lshr_b32", scratch, step, 1)
                step = scratch
            advance_base(code, buffer, index, step, frame["wide scratch"])

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
        added = array.node.adds and self.meaning.since is not None
        if array.over not in array.dims or (array.is_output and not added):
            return
        if self.begins_later:
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
        if isinstance(value, SharedRows):
            return self.frame[value.scalar]
        return value if isinstance(value, int) else self.frame[value]

    def counted(
        self, code: Code, count: Register, stride: Stride
    ) -> tuple[Register, Register | int]:
        """Two factors that make bytes of a count; ``scratch`` of parts of a byte, and of rows that
        are the same."""
        if isinstance(stride, SharedRows):
            code("s_lshr_b32", self.frame["scratch"], count, stride.shift)
            return self.frame["scratch"], self.frame[stride.scalar]
        if isinstance(stride, Fraction):
            code("s_lshr_b32", self.frame["scratch"], count, stride.denominator.bit_length() - 1)
            return self.frame["scratch"], 1
        return count, self.operand(stride)

    # --- offsets ----------------------------------------------------------------------------------

    def places(self, array: Array, tables: Sequence[Table]) -> list[Table]:
        """Where memory has what the program has at ``tables``, coordinates by dimension: columns
        may be dealt, a matrix may lie block by block, and elements that share a code lie where its
        first one does, also where waves share it."""
        if array.blocks is not None:
            return list(array.blocks.place(*tables))
        covers = array.node.type.dtype.covers
        if covers > 1:
            tables = [*tables[:-1], tables[-1] // covers * covers]
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
        planned = [PlannedNumber.of(frame, members, number) for number in numbers]
        for scratch in range(3):
            frame.work(scratch)

        def make(code: Code, result: Register) -> None:
            self._write_offset(code, array, planned, result)

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
            distance: Register | int = self.frame["scratch"]
            if isinstance(stride, SharedRows):
                code("s_mul_i32", distance, self.frame[stride.scalar], rows >> stride.shift)
            elif isinstance(stride, str):
                code("s_mul_i32", distance, self.frame[stride], rows)
            else:
                distance = int(rows * stride)
            code("v_add_u32", result, distance, self.frame[base])

        return make

    def _write_offset(
        self, code: Code, array: Array, planned: Sequence[PlannedNumber], result: Register
    ) -> None:
        """The sum of coordinates times strides; past the end of a dimension, out of range."""
        coordinate, work, outside = (self.frame[self.frame.work(n)] for n in range(3))
        code("v_mov_b32", outside, OUT_OF_RANGE)
        started = False
        for axis, one in enumerate(planned):
            dim = array.dims[axis]
            guarded = axis > 0 and dim != array.over
            if one.number.is_constant and one.number.waves[0] == 0:
                continue
            one.write(code, coordinate, work)
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

    def count(self, dim: str) -> str:
        """The scalar that holds the size along a dimension as f32."""
        frame, name = self.frame, f"count {dim}"
        if name not in frame.asked:
            frame.scalar(name)
            work = frame.work(0)

            def convert(code: Code) -> None:
                code("v_cvt_f32_u32", frame[work], frame[f"size {dim}"])
                code("v_readfirstlane_b32", frame[name], frame[work])

            frame.common.append(convert)
        return name

    def scale(self, code: Code, result: Register, value: Register, stride: Stride) -> None:
        """``result = value * stride``."""
        if isinstance(stride, str):
            code("v_mul_lo_u32", result, value, self.frame[stride])
        elif isinstance(stride, SharedRows):
            code("v_lshrrev_b32", result, stride.shift, value)
            code("v_mul_lo_u32", result, result, self.frame[stride.scalar])
        elif isinstance(stride, Fraction):
            code("v_lshrrev_b32", result, stride.denominator.bit_length() - 1, value)
        else:
            code("v_lshlrev_b32", result, stride.bit_length() - 1, value)
