"""The ping-pong matmul: eight waves in two groups that take turns at memory and MMA.

Waves stand 2 along M by 4 along N: wave = 4*wm + wn. Group 0 is M row 0, group 1 is M row 1.
Group 1 executes one extra barrier inside the prologue (the stagger), so from there on it is one
barrier behind: while group 0 multiplies, group 1 loads. Group 0 makes up for it with one barrier
at the end.

Group 1 alone reads half 1 of A, and it reads late. That is why the schedule loads A(other stage,
sub 1) late, as the "completion" load.
"""

from __future__ import annotations

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels.double_buffer import DoubleBufferKernel
from pipeloom.reference.kernels.interface import Part, Step, WalkBuilder
from pipeloom.reference.ops import Phase

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

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[Step, ...]:
        """Prologue with the stagger, a barrier, the loop, the epilogue, group 0's last barrier.

        A ``warp_stagger_index`` past the prologue means no stagger: neither extra barrier is
        executed.
        """
        walk = WalkBuilder()
        prologue, at = compiled.prologue, compiled.warp_stagger_index
        staggered = at <= len(prologue)
        lags = self.group_of(wave) == 1
        walk.entries(prologue[:at], 0)
        if staggered and lags:
            walk.own_barrier("stagger", Phase.PROLOGUE, 0)
        walk.entries(prologue[at:], 0, first_slot=at)
        walk.own_barrier("after the prologue", Phase.PROLOGUE, 0)
        for trip in range(trips):
            walk.entries(compiled.kernel, 2 * (trip + 1), trip)
        walk.entries(compiled.epilogue, 2 * (trips + 1))
        if staggered and not lags:
            walk.own_barrier("closing", Phase.EPILOGUE, 2 * (trips + 1))
        return walk.done()
