"""Against an independent formula: M MFMAs of 32 cycles and N independent VALU in one wave.

The optimum is 32 M + 4 max(0, N - 6 M): six VALU hide under each MFMA, the rest cost four cycles
each (GT mfma_coissue_scheduling). No interleaving may beat it, and the even one must reach it.
"""

from __future__ import annotations

from itertools import combinations

import pytest

from pipeloom.judge.simulate import WaveOp, WaveProgram, simulate_programs, simulate_stream
from pipeloom.machine.gfx950 import GFX950

# The MFMAs of 32 cycles, one per chip at least; the formula needs nothing else.
NAMES = [("gfx950", "32x32x16_f16"), ("gfx950", "16x16x128_fp8"), ("gfx942", "32x32x8_f16"),
         ("gfx942", "32x32x16_fp8")]  # fmt: skip
MFMA = WaveOp.mfma(GFX950.matrix_op("32x32x16_f16"))
VALU = WaveOp.valu()


def optimum(mfmas: int, valus: int) -> int:
    return 32 * mfmas + 4 * max(0, valus - 6 * mfmas)


def cycles(instructions: tuple[WaveOp, ...]) -> int:
    program = WaveProgram(simd=0, loop=(), prologue=instructions)
    return simulate_programs((program,), GFX950, 0).total_cycles


def even_interleaving(mfmas: int, valus: int) -> tuple[WaveOp, ...]:
    """Every MFMA is followed by its share of the VALU; shares differ by at most one."""
    order: list[WaveOp] = []
    for index in range(mfmas):
        share = (index + 1) * valus // mfmas - index * valus // mfmas
        order += [MFMA, *[VALU] * share]
    return tuple(order)


@pytest.mark.parametrize("mfmas", range(1, 9))
@pytest.mark.parametrize("valus", range(0, 64, 3))
def test_the_even_interleaving_reaches_the_optimum(mfmas: int, valus: int) -> None:
    assert cycles(even_interleaving(mfmas, valus)) == optimum(mfmas, valus)


@pytest.mark.parametrize(("arch", "mfma"), NAMES)
@pytest.mark.parametrize("mfmas", [1, 2, 3, 5, 8, 13, 21])
def test_a_loop_of_it_takes_the_optimum_every_iteration(arch: str, mfma: str, mfmas: int) -> None:
    for valus in (0, 1, *range(5, 8 * mfmas + 12, 7), 6 * mfmas, 6 * mfmas + 1):
        words = ["M" if i.matrix_op else "V" for i in even_interleaving(mfmas, valus)]
        trace = simulate_stream(" ".join(words), arch=arch, mfma=mfma, simds=1, iterations=9)
        assert trace.steady_cycles_per_iteration == optimum(mfmas, valus), valus


@pytest.mark.parametrize(
    ("mfmas", "valus"), [(1, 3), (1, 7), (1, 9), (2, 4), (2, 8), (3, 5), (3, 7), (4, 4), (2, 13)]
)
def test_no_interleaving_beats_the_optimum(mfmas: int, valus: int) -> None:
    length = mfmas + valus
    best = min(
        cycles(tuple(MFMA if i in places else VALU for i in range(length)))
        for places in map(set, combinations(range(length), mfmas))
    )
    assert best == optimum(mfmas, valus)


def test_without_mfmas_every_valu_costs_four_cycles() -> None:
    program = WaveProgram(simd=0, loop=(), prologue=(VALU,) * 10)
    trace = simulate_programs((program,), GFX950, 0)
    assert trace.events[-1].free == 40
