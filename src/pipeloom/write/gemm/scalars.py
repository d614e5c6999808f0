"""The scalar registers of a GEMM kernel, by name; the kernel's arguments and their offsets.

The loader fills s[0:1] (argument pointer), s2 and s3 (workgroup ids along N and M).
"""

from __future__ import annotations

from pipeloom.write.entry import Argument
from pipeloom.write.isa import sgpr

ARGUMENT_POINTER = sgpr(0, 2)
GROUP_N = sgpr(2)
GROUP_M = sgpr(3)
BUFFER = {"A": sgpr(4, 4), "B": sgpr(8, 4), "C": sgpr(12, 4)}
M, N, K = sgpr(16), sgpr(17), sgpr(18)
STRIDE = {"A": sgpr(19), "B": sgpr(20), "C": sgpr(21)}
"""Leading dimensions: elements as passed, bytes after setup."""
SIZES = sgpr(16, 4)
LAST_STRIDES = sgpr(20, 2)
WAVE = sgpr(22)
LOOP_OFFSET = sgpr(23)
LOOP_END = sgpr(24)
WAVE_GROUP = sgpr(25)
LDS_SLICE = sgpr(26)
"""Where in a run of loads this wave's 1024 bytes lie."""
TILE_OFFSET = sgpr(27)
"""Byte offset along K of the tile being loaded."""
FIRST_ROW = {"A": sgpr(28), "B": sgpr(29)}
"""Row of the block at which the wave's fragment 0 starts."""
LEFT = {"A": sgpr(30), "B": sgpr(31)}
"""Rows of the operand from this block's first to the matrix's last."""
SCRATCH = sgpr(32)
WIDE_SCRATCH = sgpr(34, 2)
ROUND = sgpr(36)
PACK = sgpr(37)
USED = 38

ARGUMENTS = (
    Argument("A", 0, 8, True),
    Argument("B", 8, 8, True),
    Argument("C", 16, 8, True),
    Argument("M", 24, 4, False),
    Argument("N", 28, 4, False),
    Argument("K", 32, 4, False),
    Argument("lda", 36, 4, False),
    Argument("ldb", 40, 4, False),
    Argument("ldc", 44, 4, False),
)
