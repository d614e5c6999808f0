"""Where a block's part of an array ends: ``num_records`` of its descriptor, in bytes.

It counts from the base, which is the block's first element: whole rows of the first dimension, less
what the base has passed of a row. An array of no dimensions is one number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeloom.program.problem_spans import turns_of
from pipeloom.write.code import Code
from pipeloom.write.isa import Register
from pipeloom.write.lower.global_arrays import Array

if TYPE_CHECKING:
    from pipeloom.write.lower.memory import Memory


def end_descriptor(code: Code, memory: Memory, array: Array, buffer: Register) -> None:
    """Write the bytes from the base to the end into the descriptor.

    Args:
        code: Where the instructions go.
        memory: The scalars that describe global memory.
        array: An array whose base has been found.
        buffer: Its descriptor.
    """
    frame, meaning, placing = memory.frame, memory.meaning, memory.placing
    scratch = frame["scratch"]
    if not array.dims:
        code("s_mov_b32", buffer.part(2), array.element)
        return
    dim = array.dims[0]
    if array.is_scattered:
        code("s_mov_b32", scratch, frame[f"size {array.node.array_dims[0]}"])
    elif dim == array.over:
        turns = turns_of(meaning.span)  # of which each ends for itself
        code("s_mov_b32", scratch, frame[f"size {dim}" if turns else memory.reach])
    else:
        code("s_min_u32", scratch, memory.bound(dim), memory.tiles.get(dim, memory.bound(dim)))
        array.fill_blocks(code, scratch)
    code("s_mul_i32", buffer.part(2), *memory.counted(code, scratch, array.stride(0)))
    if placing.ragged and len(array.dims) > 1:
        # The last row ends with its last element, not with the leading dimension.
        row = memory.operand(array.stride(len(array.dims) - 2))
        code("s_sub_u32", buffer.part(2), buffer.part(2), row)
        extent = frame[_extent(memory, array, array.dims[-1])]
        code("s_mul_i32", scratch, *memory.counted(code, extent, array.stride(len(array.dims) - 1)))
        code("s_add_u32", buffer.part(2), buffer.part(2), scratch)
    for axis, dim in enumerate(array.dims):
        if axis > 0 and dim in meaning.grid and dim != array.over:
            # The base is past so much of the first row, and of what ends with the last one.
            origin = frame[f"origin {dim}"]
            code("s_mul_i32", scratch, *memory.counted(code, origin, array.stride(axis)))
            code("s_sub_u32", buffer.part(2), buffer.part(2), scratch)
            if placing.past_ends(meaning) and array.over in array.dims:
                # An array without an element ends before any block but the first.
                code("s_max_i32", buffer.part(2), buffer.part(2), 0)
    if placing.ragged and array.over in array.dims[1:] and not array.is_output:
        code("s_mul_i32", scratch, *memory.counted(code, frame["pad"], array.over_stride))
        code("s_add_u32", buffer.part(2), buffer.part(2), scratch)
    if placing.slices > 1 and array.over in array.dims[1:]:
        start = frame["slice start"]
        code("s_mul_i32", scratch, *memory.counted(code, start, array.over_stride))
        code("s_sub_u32", buffer.part(2), buffer.part(2), scratch)
    if placing.past_ends(meaning) and array.dims[1:][-1:] == (array.over,):
        # Rows without an element may still have a leading dimension, and nothing behind it.
        code("s_cmp_lg_u32", frame[f"size {array.over}"], 0)
        code("s_cselect_b32", buffer.part(2), buffer.part(2), 0)


def _extent(memory: Memory, array: Array, dim: str) -> str:
    """The scalar with an array's size along a dimension; outputs have the zeros too."""
    return memory.reach if array.is_output and dim == array.over else f"size {dim}"
