"""What the simulator refuses, and what it says then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeloom.drive.programs import simulate
from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.judge.simulate import (
    Kind,
    StreamError,
    WaveOp,
    WaveProgram,
    simulate_programs,
    simulate_stream,
)
from pipeloom.judge.simulate.bank_conflicts import bank_conflict
from pipeloom.machine.chips import target_for
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.reference.compiler import compile_schedule
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.schedules.ping_pong import DeclarativeSchedule

NAN, INF = float("nan"), float("inf")
DIGITS = "9" * 5000  # more than Python converts to an int

LOOP = WaveProgram(simd=0, loop=(WaveOp.salu(),))


@pytest.mark.parametrize(
    ("stream", "message", "position"),
    [
        ("M4 Q2", "unknown instruction 'Q2'", 3),
        ("M4 dfma", "unknown instruction 'dfma'", 3),
        ("M4 wx3", "unknown instruction 'wx3'", 3),
        ("MFMA", "unknown instruction 'FMA'", 1),
        ("M4R2 wv", "unknown instruction 'wv'", 5),
        ("wv(4", "unknown instruction", 0),
        ("wv64", "vmcnt cannot encode 64", 0),
        ("M wv4+wl(16)", "lgkmcnt cannot encode 16", 2),
        ("M N(16)", "s_nop cannot encode 16", 2),
        ("prio(4) M", "s_setprio cannot encode 4", 0),
        ("(M wl0) B", "needs a repeat count", 6),
        ("M4 -3", "unknown instruction '-3'", 3),
        ("(M V", "never closed", 0),
        ("M (V (R )x2", "never closed", 2),
        ("M V)x3", "closes nothing", 3),
        ("(M V) B", "needs a repeat count", 4),
        ("()x3", "an empty group", 0),
        ("wv1+wv2", "names wv twice", 0),
        ("", "has no instruction", 0),
        ("legend ||  ", "has no instruction", 11),
        ("w", "has no instruction", 1),
        ("M99999999", "longer than 1000000 instructions", 0),
        ("(M1000)x99999", "longer than 1000000 instructions", 6),
        (f"M{DIGITS}", "longer than 1000000 instructions", 0),
        (f"B{DIGITS}", "longer than 1000000 instructions", 0),
        (f"(M)x{DIGITS}", "longer than 1000000 instructions", 2),
        (f"M wv{DIGITS}", r"vmcnt cannot encode 9+\.\.\.", 2),
        (f"wv{DIGITS[:40]}", r"vmcnt cannot encode 9{40}(?!\.)", 0),
        (f"wv{DIGITS[:41]}", r"vmcnt cannot encode 9{40}\.\.\.", 0),
        (f"wl({DIGITS})", r"lgkmcnt cannot encode 9+\.\.\.", 0),
        (f"N({DIGITS})", r"s_nop cannot encode 9+\.\.\.", 0),
        (f"prio{DIGITS}", r"s_setprio cannot encode 9+\.\.\.", 0),
        ("M B(2)", r"unknown instruction 'B\(2\)'", 2),
        ("V M12(3)", r"unknown instruction 'M12\(3\)'", 2),
        ("branch3", "unknown instruction 'branch3'", 0),
        ("V M0", "a count of 0", 3),
        ("V B0", "a count of 0", 3),
        ("V (M)x0 B", "a count of 0", 6),
        ("M000", "a count of 0", 1),
    ],
)
def test_a_bad_stream_is_refused_with_its_position(
    stream: str, message: str, position: int
) -> None:
    with pytest.raises(StreamError, match=rf"character {position}: .*{message}") as caught:
        simulate_stream(stream)
    assert caught.value.position == position
    assert caught.value.hint


def test_the_hint_names_every_word_and_says_which_take_a_run_length() -> None:
    with pytest.raises(StreamError) as caught:
        simulate_stream("branch3")
    runs, others = str(caught.value.hint).split(", and ")
    assert (
        runs
        == "instructions are M m R T W G g V X P S N B, each with an optional run length as in M12"
    )
    assert others.split(";")[0] == "N(n), wv(n), wl(n), w, prio(n) and branch"


def test_the_excerpt_points_at_the_fault() -> None:
    with pytest.raises(StreamError) as caught:
        simulate_stream("M4 " * 20 + "Z " + "V " * 20)
    _, excerpt, pointer, *_ = str(caught.value).split("\n")
    assert excerpt[pointer.index("^")] == "Z"


# The type checker refuses these calls; callers without one make them all the same.
wrong: Callable[..., Any] = simulate_stream

CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: simulate_stream("M", arch="gfx90a"), "unknown architecture 'gfx90a'"),
    (lambda: simulate_stream("M", mfma="4x4x4"), "gfx950 has no MFMA '4x4x4'"),
    (lambda: simulate_stream("M", mfma="16x16x32_fp4"), "gfx950 has no MFMA '16x16x32_fp4'"),
    (lambda: simulate_stream("M", mfma="fast"), "gfx950 has no MFMA 'fast'"),
    (lambda: simulate_stream("M", mfma={"shape": "1x1x1"}), "gfx950 has no MFMA '1x1x1'"),
    (lambda: simulate_stream("M", mfma=2), "mfma = 2 cycles"),
    (lambda: simulate_stream("M", waves_per_simd=0), "waves_per_simd is 0, but must be between 1"),
    (lambda: simulate_stream("M", waves_per_simd=9), "waves_per_simd is 9, but must be between 1"),
    (lambda: simulate_stream("M", stagger=True), "stagger needs two wave groups"),
    (lambda: simulate_stream("M", stagger=True, waves_per_simd=2), "the stream has no barrier"),
    (lambda: simulate_stream("M", simds=5), "simds is 5, but must be between 1 and 4"),
    (lambda: simulate_stream("M", simds=0), "simds is 0, but must be between 1 and 4"),
    (lambda: simulate_stream("M", iterations=-1), "iterations is -1, but must be at least 0"),
    (lambda: simulate_stream("M100", iterations=10**6), "are more than the 20000000"),
    (lambda: simulate_stream("M", jitter=-0.1), "jitter is -0.1, but must be between 0 and 10"),
    (lambda: simulate_stream("R", lds_conflict=0.5), "lds_conflict is 0.5, but must be between 1"),
    (lambda: simulate_stream("M", lds_conflict=0), "lds_conflict is 0, but must be between 1"),
    (lambda: simulate_stream("R", lds_conflict=NAN), "lds_conflict is nan, but must be a finite"),
    (lambda: simulate_stream("R", lds_conflict=INF), "lds_conflict is inf, but must be a finite"),
    (lambda: simulate_stream("R", lds_conflict=1e308), "lds_conflict is 1e+308, but must be betw"),
    (lambda: WaveOp.lds_read(16, conflict=NAN), "conflict nan is not between 1 and 64"),
    (lambda: WaveOp.lds_read(16, conflict=INF), "conflict inf is not between 1 and 64"),
    (lambda: simulate_stream("M", jitter=NAN), "jitter is nan, but must be a finite number"),
    (lambda: wrong("M", jitter="1"), "jitter is '1', but must be a finite number"),
    (lambda: wrong("M", seed="1"), "seed is '1', but must be of type int"),
    (lambda: wrong("M", iterations=2.5), "iterations is 2.5, but must be an integer"),
    (lambda: wrong("M", iterations="3"), "iterations is '3', but must be an integer"),
    (lambda: wrong("M", iterations=None), "iterations is None, but must be an integer"),
    (lambda: wrong("M", waves_per_simd=2.0), "waves_per_simd is 2.0, but must be an integer"),
    (lambda: wrong("M", simds=2.0), "simds is 2.0, but must be an integer"),
    (lambda: wrong("M", mfma=16.0), "mfma = 16.0 cycles"),
    (lambda: wrong("M", mfma=True), "mfma = True cycles"),
    (lambda: wrong("M", mfma={}), "mfma = {} names neither the cycles nor the shape"),
    (lambda: wrong("M", mfma={"cycles": 16.0}), "mfma = 16.0 cycles"),
    (lambda: wrong("M", mfma=f"16x16x{DIGITS}"), "gfx950 has no MFMA '16x16x9999"),
    (lambda: wrong("M", arch=None), "unknown architecture None"),
    (lambda: wrong(None), "stream is None, but must be of type str"),
    (lambda: wrong("M", stagger="no"), "stagger is 'no', but must be True or False"),
    (lambda: simulate_programs([], GFX950, 1), "no waves to simulate"),
    (lambda: simulate_programs([WaveProgram(4, LOOP.loop)], GFX950, 1), "wave 0 is on SIMD 4"),
    (lambda: simulate_programs([LOOP, WaveProgram(0, ())], GFX950, 1), "wave 1 has no instr"),
    (lambda: simulate_programs([WaveProgram(0, (WaveOp(Kind.MFMA),))], GFX950, 1),
     "an MFMA without its matrix_op"),
    (lambda: WaveOp.wait(), "names neither vm nor lgkm"),
    (lambda: WaveOp.wait(vm=-1), "vm = -1 is negative"),
    (lambda: WaveOp.nop(-1), "amount = -1 is negative"),
    (lambda: WaveOp.lds_read(5), "5 bytes per lane"),
    (lambda: WaveOp.valu(Kind.SALU), "SALU is not a vector instruction"),
    (lambda: bank_conflict([0] * 63, 16, GFX950), "63 addresses for a wave"),
    (lambda: bank_conflict([-4] * 64, 16, GFX950), "LDS address -4 is negative"),
    (lambda: bank_conflict([0] * 64, 12, GFX950), "no bank conflicts are known for 12 bytes"),
    (lambda: target_for("H100"), "unknown architecture 'H100'"),
    (lambda: GFX942.matrix_op("16x16x32_f16"), "gfx942 has no MFMA '16x16x32_f16'"),
    (lambda: GFX950.with_value("warp_size", 32, "x"), "no machine constant 'warp_size'"),
    (lambda: GFX950.with_value("lds_latency", -1, "x"), "lds_latency = -1 is negative"),
    (lambda: GFX950.with_value("wave_lanes", 32, "x"), "gfx950 has waves of 32 lanes"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message for _, message in CALLS])
def test_bad_values_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call()
    assert message in str(caught.value)
    assert caught.value.hint, "every refusal says what would be legal"
    assert isinstance(caught.value, ScheduleError)


class _Tiled(DeclarativeSchedule):
    """A ping-pong of one's own: what its pipeline counts and its tile are stated apart."""

    def __init__(self, field: str = "vm_per_load_a", value: int = 2) -> None:
        super().__init__(lgkm_a=8, lgkm_b=4)
        self.changes: dict[str, Any] = {"vm_per_load_a": 2, "vm_per_load_b": 2, field: value}

    def config(self) -> PipelineConfig:
        return replace(super().config(), **self.changes)

    def geometry(self) -> KernelGeometry:
        return KernelGeometry.ping_pong(
            BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2
        )


@pytest.mark.parametrize(
    ("field", "value"), [("vm_per_load_a", 3), ("vm_per_load_b", 1), ("lgkm_per_load_b", 5)]
)
def test_counts_that_are_not_those_of_the_tile_name_both_fields(field: str, value: int) -> None:
    compiled = compile_schedule(_Tiled(field, value))
    with pytest.raises(ConfigError) as caught:
        simulate(compiled)
    assert f"PipelineConfig.{field} is {value}" in str(caught.value)
    assert f"KernelGeometry.{field} is" in str(caught.value)


def test_the_same_counts_in_both_are_simulated() -> None:
    assert simulate(compile_schedule(_Tiled())).total_cycles > 0


def test_an_mma_grid_that_does_not_divide_the_tile_names_both_fields() -> None:
    compiled = replace(compile_schedule(_Tiled()), config=replace(_Tiled().config(), m_mmas=3))
    with pytest.raises(ConfigError) as caught:
        simulate(compiled)
    assert "PipelineConfig.m_mmas is 3" in str(caught.value)
    assert "KernelGeometry.BM" in str(caught.value)
