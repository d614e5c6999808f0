"""What the writer refuses, and what it says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

import pipeloom as pl
from pipeloom import ConfigError, SpecError
from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.sources import Source
from pipeloom.errors import InternalError
from pipeloom.judge.verify import Status
from pipeloom.machine.chips import target_for
from pipeloom.program import Program
from pipeloom.write import (
    AssemblyError,
    EmitError,
    GateError,
    RegisterLimitError,
    assemble,
    assemble_text,
    emit_program,
    layout_for,
)
from pipeloom.write.isa import instruction, vgpr
from tests.unit.write.kernels import Shape, program_of, proved_schedule

TILE: Shape = (128, 128, 64, 16, 32)


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(proved_schedule("ping_pong", "bf16", TILE), "bf16", out="f32")


@pytest.fixture(scope="module")
def emitted(program: Program) -> pl.EmittedKernel:
    return emit_program(program)


@dataclass
class Story:
    text: str

    def describe(self) -> str:
        return self.text


@dataclass
class Fixed:
    status: Status
    findings: Sequence[Story]

    def __call__(self, program: Program) -> Fixed:
        return self


def test_a_race_is_never_emitted(program: Program) -> None:
    judge = Fixed(Status.RACE, [Story("load A meets fragment A"), Story("another")])
    for allow in (False, True):
        with pytest.raises(GateError, match=r"is RACE.*load A meets fragment A \(and 1 more\)"):
            emit_program(program, judge=judge, allow_timing=allow)


def test_timing_needs_a_request(program: Program) -> None:
    judge = Fixed(Status.TIMING, [Story("hidden by 180 cycles")])
    with pytest.raises(GateError, match=r"is TIMING(.|\n)*--allow-timing"):
        emit_program(program, judge=judge)
    made = emit_program(program, judge=judge, allow_timing=True)
    assert made.status is Status.TIMING
    assert "TIMING" in made.text.splitlines()[0]


def test_the_real_verdicts_pass_the_same_gate() -> None:
    tile = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}
    raw = pl.build_schedule({"schedule": "ping_pong", "geometry": tile})
    with pytest.raises(GateError, match="program 'ping_pong' is TIMING"):
        pl.emit(raw)
    unsynchronised = pl.build_schedule({"schedule": "single_buffer", "geometry": tile})
    with pytest.raises(GateError, match="program 'single_buffer' is RACE"):
        pl.emit(unsynchronised, allow_timing=True)


@pytest.mark.parametrize(
    ("sizes", "pitches", "field", "message"),
    [
        # The kernel is 128 x 128 x 64 in bf16, C in f32: what fits, then one more.
        ({"m": 65535 * 128}, {}, None, ""),
        ({"m": 2**31 - 1}, {}, "grid", "16777216 workgroups along y"),
        ({"m": 2**31}, {}, "m", "the size along 'm' is 2147483648"),
        ({"m": -1}, {}, "m", "the size along 'm' is -1"),
        ({"m": "a"}, {}, "m", "the size along 'm' is 'a'"),
        ({"k": 192}, {}, "k", r"computes 2 \+ 2 \* T iterations of 64"),
        ({}, {"A": 100}, "ld_A", "ld_A is 100, shorter than a row of 128"),
        ({}, {"A": 132}, "ld_A", "132 elements .*not 16-byte aligned"),
        ({"m": 128}, {"A": 2**23 - 8}, None, ""),
        ({"m": 128}, {"A": 2**23}, "ld_A", "touches of A,"),
        ({"n": 2**22 - 8}, {}, None, ""),
        ({"n": 2**22}, {}, "ld_out", "touches of out,"),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit(
    emitted: pl.EmittedKernel,
    sizes: dict[str, int],
    pitches: dict[str, int],
    field: str | None,
    message: str,
) -> None:
    problem = {"m": 128, "n": 128, "k": 128, **sizes}
    if field is None:
        emitted.launch.check(problem, pitches)
        return
    with pytest.raises(EmitError, match=message) as caught:
        emitted.launch.check(problem, pitches)
    assert caught.value.field == field
    assert caught.value.hint


def test_targets_and_types() -> None:
    with pytest.raises(ConfigError, match="unknown architecture 'gfx1100'"):
        pl.emit("ping_pong", target="gfx1100")
    with pytest.raises(SpecError, match="dtype 'f64' is not one"):
        pl.emit("ping_pong", dtype="f64")
    with pytest.raises(SpecError, match="16 bytes per lane straight to LDS, but gfx942"):
        pl.emit("ping_pong", target="gfx942")
    with pytest.raises(ConfigError, match="int7"):
        pl.emit("single_buffer", out_dtype="int7")
    with pytest.raises(ConfigError, match="leave dtype out"):
        pl.emit(pl.pipeline(pl.kernels.row_sum(), pl.target_for("gfx950"), 1), dtype="bf16")


def test_a_schedule_of_one_chip_for_another() -> None:
    compiled = replace(proved_schedule("ping_pong", "bf16", TILE), arch="gfx950")
    with pytest.raises(SpecError, match="was compiled for gfx950, but the target is gfx942"):
        emit(EmitJob(Source(compiled, arch="gfx942")))


def test_a_schedule_without_a_tile_or_with_another() -> None:
    with pytest.raises(SpecError, match="has no tile shape"):
        pl.emit(pl.build_schedule("ping_pong", sync="proven"))
    wrong = {"BM": 128, "BN": 128, "BK": 64, "MMA_K": 64, "elem_bytes": 2}
    compiled = pl.build_schedule({"schedule": "four_wave", "geometry": wrong})
    with pytest.raises(ConfigError, match="gfx950 has no MFMA '16x16x64_f16'"):
        pl.emit(compiled)


def test_too_much_lds() -> None:
    compiled = proved_schedule("single_buffer", "bf16", (256, 512, 64, 16, 16))
    with pytest.raises(RegisterLimitError, match="98304 bytes of LDS, but gfx942 has 65536"):
        emit_program(program_of(compiled, "bf16", "gfx942"))


def test_rows_too_short_for_the_instruction() -> None:
    with pytest.raises(EmitError, match="needs a power of two of at least 64"):
        layout_for(target_for("gfx950"), 32, 16)


def test_a_diagnostic_names_our_line_and_the_step(emitted: pl.EmittedKernel) -> None:
    number, source = next(
        (n, s) for n, s in emitted.line_map.items() if s.entry and "ds_read_b128" in s.text
    )
    lines = emitted.text.split("\n")
    lines[number - 1] = "  ds_read_b999 v0, v1"
    with pytest.raises(AssemblyError, match=f"line {number} ") as caught:
        assemble(replace(emitted, text="\n".join(lines)))
    assert caught.value.line == number
    assert caught.value.entry == source.entry
    assert source.entry
    assert source.entry in str(caught.value)


def test_an_instruction_that_the_target_lacks() -> None:
    text = "v_cvt_pk_bf16_f32 v0, v1, v2\ns_endpgm\n"
    assemble_text(text, "gfx950")
    with pytest.raises(AssemblyError, match=r"line 1: .*not supported on this GPU"):
        assemble_text(text, "gfx942")


def test_text_is_not_an_emitted_kernel() -> None:
    with pytest.raises(ConfigError, match="assemble_text takes text"):
        assemble("s_endpgm")  # type: ignore[arg-type]


def test_without_the_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AssemblyError, match=r"pip install 'pipeloom\[emit\]'"):
        assemble_text("s_endpgm\n", "gfx950")


def test_operands_that_do_not_fit_are_our_fault() -> None:
    with pytest.raises(InternalError, match="ds_read_b128 takes"):
        instruction("ds_read_b128", vgpr(0, 2), vgpr(4))
    with pytest.raises(InternalError, match="ds_read_b128 takes"):
        instruction("ds_read_b128", vgpr(1, 4), vgpr(8))
