"""The four-wave matmul: one group of four waves, 2 by 2, in step.

Each wave takes one slice of *both* halves of A and B (wave = 2*wm + wn), so every half is read by
every wave. There is no stagger and no barrier but those of the schedule: what orders a prologue
load before the loop must stand in the entries.
"""

from __future__ import annotations

from pipeloom.reference.kernels.double_buffer import DoubleBufferKernel
from pipeloom.reference.kernels.interface import Part


class FourWaveKernel(DoubleBufferKernel):
    """Four waves, 2 x 2, no stagger."""

    name = "four_wave"
    waves = 4
    groups = ((0, 1, 2, 3),)

    def fragment_source(self, operand: str, quadrant: int, wave: int) -> tuple[int, Part]:
        """Half ``quadrant``: the wave's wm-th (A) or wn-th (B) slice of it."""
        wm, wn = divmod(wave, 2)
        return quadrant, Part(wm if operand == "A" else wn, 2)
