"""Measured facts about the machine, each as a small loop whose cycles the fact predicts.

The constants of targets/ say what a number is; these say that the engine behaves so. A check is a
fact in words, a stream that shows it, and the range in which the model must come out: one number
where the fact is one, the source's range where it gives a range. Example: of a 32-cycle MFMA six
VALU hide, so ``(M V6)x8`` must take 32 cycles per MFMA and ``(M V7)x8`` 36.

Facts that no stream can show (who wins an arbitration, which load stalls first) are tested on
single events in tests/unit/judge/simulate/test_engine_timing.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.judge.simulate.run_stream import simulate_stream

ITERATIONS = 24


@dataclass(frozen=True, slots=True)
class FactCheck:
    """``low`` to ``high`` is what the fact predicts for the cycles of one iteration over ``per``.

    With ``over``, for the cycles by which ``stream`` takes longer than the stream ``over``.
    """

    fact: str
    stream: str
    low: float
    high: float
    per: int = 1
    arch: str = "gfx950"
    mfma: str | None = None
    waves_per_simd: int = 1
    simds: int | None = None
    stagger: bool = False
    conflict: float = 1.0
    over: str = ""

    def modelled(self) -> float:
        """What the simulator says."""
        cycles = self._cycles(self.stream)
        if self.over:
            cycles -= self._cycles(self.over)
        return cycles / self.per

    def holds(self) -> bool:
        """Whether the model is where the fact says."""
        return self.low - 1e-9 <= self.modelled() <= self.high + 1e-9

    def _cycles(self, stream: str) -> float:
        return simulate_stream(
            stream,
            arch=self.arch,
            mfma=self.mfma,
            waves_per_simd=self.waves_per_simd,
            simds=self.simds,
            stagger=self.stagger,
            lds_conflict=self.conflict,
            iterations=ITERATIONS,
        ).steady_cycles_per_iteration


_F16_32 = "32x32x16_f16"
_FP4_16 = "16x16x128_fp4_scaled"
_FP4_32 = "32x32x64_fp4_scaled"

FACT_CHECKS: tuple[FactCheck, ...] = (
    FactCheck("MFMA 16x16x32 back to back: 16, or 17 by another source", "M64", 16, 17, 64),
    FactCheck("two waves share one matrix unit", "M64", 16, 16, 128, waves_per_simd=2),
    FactCheck("6 VALU hide under 32 cycles", "(M V6)x8", 32, 32, 8, mfma=_F16_32),
    FactCheck("a seventh costs 4", "(M V7)x8", 36, 36, 8, mfma=_F16_32),
    FactCheck("3 v_exp hide under 32 cycles", "(M X3)x8", 32, 32, 8, mfma=_F16_32),
    FactCheck("a fourth costs 8", "(M X4)x8", 40, 40, 8, mfma=_F16_32),
    FactCheck("2 VALU hide under 16 cycles", "(M V2)x8", 16, 16, 8),
    FactCheck("a third costs 4", "(M V3)x8", 20, 20, 8),
    FactCheck("the same on gfx942", "(M V2)x8", 16, 16, 8, "gfx942"),
    FactCheck("packed f32 never hides", "(M P)x8", 36, 36, 8, mfma=_F16_32),
    FactCheck("a scaled 16x16x128 leaves one slot", "(M V)x8", 16, 16, 8, mfma=_FP4_16),
    FactCheck("and no second", "(M V2)x8", 20, 20, 8, mfma=_FP4_16),
    FactCheck("a scaled 32x32x64 leaves five", "(M V5)x8", 32, 32, 8, mfma=_FP4_32),
    FactCheck("and no sixth", "(M V6)x8", 36, 36, 8, mfma=_FP4_32),
    FactCheck("VALU takes 4", "V16", 4, 4, 16),
    FactCheck("v_exp takes 8", "X16", 8, 8, 16),
    FactCheck("VALU of two waves share the port", "V16", 4, 4, 32, waves_per_simd=2),
    FactCheck("a satisfied counted wait takes 4", "(wv1+wl1)x16", 4, 4, 16),
    FactCheck("s_nop stalls four times its immediate", "(N(4))x8", 16, 16, 8, over="N8"),
    FactCheck("ds_read_b128, four SIMDs: 16", "R32", 16, 16, 32),
    FactCheck("alone: 8", "R32", 8, 8, 32, simds=1),
    FactCheck("ds_read_b64, four SIMDs: 8", "T32", 8, 8, 32),
    FactCheck("ds_read_b128 on gfx942: 32", "R32", 32, 32, 32, "gfx942"),
    FactCheck("a 4-way conflict multiplies it", "R32", 64, 64, 32, conflict=4.0),
    FactCheck("unaligned: 16 times", "R32", 256, 256, 32, conflict=16.0),
    FactCheck("dependent LDS chain: 69", "R wl0", 69, 69, simds=1),
    FactCheck("ds_write_b128 on gfx942: about 20 issue cycles", "W8", 19, 21, 8, "gfx942", simds=1),
    FactCheck("23 lost per write in a loop", "(M16 W)x16", 20, 24, 16, "gfx942", over="M256"),
    FactCheck("a read hides in the same place", "(M16 R)x16", 0, 0, 16, "gfx942", over="M256"),
    FactCheck("plain global latency: 400 to 800", "G wv0", 400, 800, simds=1),
    FactCheck("32 KB at 44 to 48 KB per 1000 cycles", "M32 G8", 666, 728.5),
    FactCheck("64 KB hide under 2048 cycles", "(M8 G)x16", 2048, 2048),
    FactCheck("a barrier of a one-wave loop, with its waves' skew: 37 to 65",
              "(wl0 B M8 R4 M4 R4 M4)x8", 37, 65, 8, over="(wl0 M8 R4 M4 R4 M4)x8"),
    FactCheck("of two waves: about 1", "B8", 1, 1, 8, waves_per_simd=2, stagger=True),
    FactCheck("a ping-pong hides its memory clusters", "R8 G2 wl0 B M16 B", 512, 516,
              waves_per_simd=2, stagger=True),
)  # fmt: skip
