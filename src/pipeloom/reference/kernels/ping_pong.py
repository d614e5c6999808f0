"""The ping-pong matmul: eight waves in two groups that take turns at memory and MMA.

Waves stand 2 along M by 4 along N: wave = 4*wm + wn. Group 0 is M row 0, group 1 is M row 1 and one
barrier behind: while group 0 multiplies, group 1 loads.

Group 1 alone reads half 1 of A, and it reads late. That is why the schedule loads A(other stage,
sub 1) late, as the "completion" load.
"""

from __future__ import annotations

from pipeloom.reference.kernels.double_buffer import DoubleBufferKernel
from pipeloom.reference.kernels.interface import Part

WAVES_ALONG_N = 4


class PingPongKernel(DoubleBufferKernel):
    """Eight waves, 2 x 4, staggered by one barrier."""

    name = "ping_pong"
    waves = 8
    groups = ((0, 1, 2, 3), (4, 5, 6, 7))

    def fragment_source(self, operand: str, quadrant: int, wave: int) -> tuple[int, Part]:
        """A: half wm, quadrant of its BM/2 rows. B: half wn//2, quadrant of its BN/4 columns."""
        wm, wn = divmod(wave, WAVES_ALONG_N)
        if operand == "A":
            return wm, Part(quadrant, 2)
        return wn // 2, Part(2 * (wn % 2) + quadrant, 4)
