"""What the emitter refuses, and what it says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from pipeloom import compile_schedule
from pipeloom.errors import InternalError
from pipeloom.judge.verify.schedules import Status
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules.four_wave import FourWaveSpec
from pipeloom.reference.schedules.ping_pong import PingPongSpec
from pipeloom.reference.schedules.single_buffer import SingleBufferSpec
from pipeloom.reference.schedules.spec_parts import GeometrySpec
from pipeloom.write import (
    AssemblyError,
    EmitError,
    GateError,
    RegisterLimitError,
    assemble,
    assemble_text,
    chip_for,
    default_geometry,
    emit_kernel,
    layout_for,
    single_buffer_geometry,
)
from pipeloom.write.gemm.tile import bit_weights
from pipeloom.write.isa import instruction, vgpr

TILE = GeometrySpec(BM=128, BN=128, BK=64, MMA_K=32, elem_bytes=2)


@pytest.fixture(scope="module")
def raw() -> CompiledSchedule:
    return compile_schedule(PingPongSpec(geometry=TILE).build())


@pytest.fixture(scope="module")
def proved(raw: CompiledSchedule) -> CompiledSchedule:
    return synchronize(raw)


@dataclass
class Story:
    text: str

    def describe(self) -> str:
        return self.text


@dataclass
class Fixed:
    status: Status
    findings: Sequence[Story]


def says(status: Status, *stories: str) -> object:
    def judge(compiled: CompiledSchedule, kernel: Kernel) -> Fixed:
        return Fixed(status, [Story(text) for text in stories])

    return judge


def test_a_race_is_never_emitted(proved: CompiledSchedule) -> None:
    judge = says(Status.RACE, "load A meets fragment A", "another")
    for allow in (False, True):
        with pytest.raises(GateError, match=r"is RACE.*load A meets fragment A \(and 1 more\)"):
            emit_kernel(proved, judge=judge, allow_timing=allow)  # type: ignore[arg-type]


def test_timing_needs_a_request(proved: CompiledSchedule) -> None:
    judge = says(Status.TIMING, "hidden by 180 cycles")
    with pytest.raises(GateError, match=r"is TIMING(.|\n)*--allow-timing"):
        emit_kernel(proved, judge=judge)  # type: ignore[arg-type]
    emitted = emit_kernel(proved, judge=judge, allow_timing=True)  # type: ignore[arg-type]
    assert emitted.status is Status.TIMING
    assert "TIMING" in emitted.text.splitlines()[0]


def test_the_real_verdicts_pass_the_same_gate(raw: CompiledSchedule) -> None:
    with pytest.raises(GateError, match="the ping_pong schedule is TIMING"):
        emit_kernel(raw)
    unsynchronised = compile_schedule(SingleBufferSpec().build())
    with pytest.raises(GateError, match="the single_buffer schedule is RACE"):
        emit_kernel(unsynchronised, allow_timing=True)


def test_k_must_fit_the_steps(proved: CompiledSchedule) -> None:
    emitted = emit_kernel(proved)
    emitted.check_problem(1, 1, 128)
    emitted.check_problem(1, 1, 384)
    for k in (0, 64, 192, 130):
        with pytest.raises(
            EmitError, match=f"K is {k}, but the schedule starts with 128 and steps"
        ):
            emitted.check_problem(128, 128, k)
    with pytest.raises(EmitError, match="M is 0"):
        emitted.check_problem(0, 128, 128)


def test_strides_are_checked(proved: CompiledSchedule) -> None:
    emitted = emit_kernel(proved)
    with pytest.raises(EmitError, match="lda is 100, shorter than a row of 128"):
        emitted.check_problem(8, 8, 128, lda=100)
    with pytest.raises(
        EmitError, match="lda is 132 elements of 2 bytes: rows of A are not 16-byte"
    ):
        emitted.check_problem(8, 8, 128, lda=132)
    with pytest.raises(EmitError, match="ldc is 4, shorter than a row of 8"):
        emitted.check_problem(8, 8, 128, ldc=4)


@pytest.mark.parametrize(
    ("sizes", "field", "message"),
    [
        # The kernel is 128 x 128 x 64 in bf16, C in f32: what fits, then one more.
        ({"M": 2**31 - 1}, None, ""),
        ({"M": 2**31}, "M", "M is 2147483648, but arguments are 32-bit"),
        ({"N": 2**31}, "N", "N is 2147483648, but arguments are 32-bit"),
        ({"K": 2**31}, "K", "K is 2147483648, but arguments are 32-bit"),
        ({"M": 1, "N": 1, "K": 2**30 - 128}, None, ""),
        ({"M": 1, "N": 1, "K": 2**30}, "K", "rows of 2147483648 bytes, but the loop counts less"),
        ({"M": 1, "lda": 2**31 - 8}, None, ""),
        ({"M": 1, "lda": 2**31}, "lda", "lda is 2147483648, but arguments are 32-bit"),
        ({"M": 128, "lda": 2**24 - 8}, None, ""),
        ({"M": 128, "lda": 2**24}, "lda", "128 rows of A in a block span 4294967296 bytes"),
        ({"M": 128, "K": 2**24}, "lda", "lda is 16777216: the 128 rows of A"),
        ({"M": 1, "N": 127, "ldb": 2**24}, None, ""),
        ({"M": 1, "N": 128, "ldb": 2**24}, "ldb", "128 rows of B in a block span"),
        ({"M": 1, "N": 128, "K": 2**24}, "ldb", "ldb is 16777216: the 128 rows of B"),
        ({"N": 2**22 - 1}, None, ""),
        ({"N": 2**22}, "ldc", "ldc is 4194304: the 128 rows of C in a block span"),
        ({"M": 1, "ldc": 2**22}, "ldc", "128 rows of C .* 2 GiB(.|\n)*keep ldc below 4194304"),
        ({"M": "a"}, "M", "M is 'a', which is no whole number"),
        ({"lda": 256.0}, "lda", "lda is 256.0, which is no whole number"),
    ],
    ids=str,
)
def test_sizes_that_32_bits_do_not_hold(
    proved: CompiledSchedule, sizes: dict[str, int], field: str | None, message: str
) -> None:
    emitted = emit_kernel(proved, out_dtype="f32")
    problem = {"M": 128, "N": 128, "K": 128, **sizes}
    if field is None:
        emitted.check_problem(**problem)
        return
    with pytest.raises(EmitError, match=message) as caught:
        emitted.check_problem(**problem)
    assert caught.value.field == field
    assert caught.value.hint


def test_targets_and_types(proved: CompiledSchedule) -> None:
    with pytest.raises(EmitError, match="target 'gfx1100' is not known"):
        emit_kernel(proved, target="gfx1100")
    with pytest.raises(EmitError, match="dtype 'f64' is not known"):
        emit_kernel(proved, dtype="f64", out_dtype="f32")
    with pytest.raises(EmitError, match="out_dtype 'int8' is not known"):
        emit_kernel(proved, out_dtype="int8")
    with pytest.raises(EmitError, match=r"elements of 2 byte\(s\), but fp8 has 1"):
        emit_kernel(proved, dtype="fp8")
    with pytest.raises(EmitError, match="accumulators is 'sgpr'"):
        emit_kernel(proved, accumulators="sgpr")
    with pytest.raises(EmitError, match="16 bytes per lane straight into LDS, but gfx942"):
        emit_kernel(proved, target="gfx942")


def test_a_schedule_without_shape_or_with_another(proved: CompiledSchedule) -> None:
    bare = synchronize(compile_schedule(PingPongSpec().build()))
    with pytest.raises(EmitError, match="compiled without a tile shape"):
        emit_kernel(bare)
    other = KernelGeometry.ping_pong(
        BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2
    )
    with pytest.raises(EmitError, match=r"takes 2 vmcnt entries per wave .* counts 1"):
        emit_kernel(proved, geometry=other)
    wrong = replace(other, MMA_K=64)
    with pytest.raises(EmitError, match=r"no 16x16x64 matrix(.|\n)*it has: 16x16x32, 32x32x16"):
        emit_kernel(proved, geometry=wrong)


def test_shallow_instructions_in_a_double_buffered_kernel() -> None:
    tile = GeometrySpec(BM=128, BN=128, BK=64, MMA_K=16, elem_bytes=2)
    compiled = synchronize(compile_schedule(PingPongSpec(geometry=tile).build()))
    with pytest.raises(EmitError, match=r"takes 8 bytes per lane(.|\n)*16x16x32, 32x32x16"):
        emit_kernel(compiled)


def test_waves_with_nothing_to_load() -> None:
    tile = GeometrySpec(BM=128, BN=128, BK=32, MMA_K=32, elem_bytes=2)
    compiled = synchronize(compile_schedule(PingPongSpec(geometry=tile).build()))
    with pytest.raises(EmitError, match="64 rows, but 8 waves bring 128 rows of 64 bytes at once"):
        emit_kernel(compiled)


def test_too_many_registers() -> None:
    tile = GeometrySpec(BM=256, BN=256, BK=64, MMA_K=32, elem_bytes=2)
    compiled = synchronize(compile_schedule(FourWaveSpec(geometry=tile).build()))
    with pytest.raises(RegisterLimitError, match=r"vector registers are needed.*accumulators 256"):
        emit_kernel(compiled, accumulators="vgpr")


def test_too_much_lds() -> None:
    compiled = synchronize(compile_schedule(SingleBufferSpec().build()))
    tile = single_buffer_geometry(chip_for("gfx942"), "bf16", BM=256, BN=512)
    with pytest.raises(RegisterLimitError, match="98304 bytes of LDS, but gfx942 has 65536"):
        emit_kernel(compiled, target="gfx942", geometry=tile)


def test_single_buffer_shapes() -> None:
    compiled = synchronize(compile_schedule(SingleBufferSpec().build()))
    chip = chip_for("gfx950")
    with pytest.raises(EmitError, match="BM = 48 does not give each of 2 waves a multiple of 16"):
        emit_kernel(compiled, geometry=single_buffer_geometry(chip, "bf16", BM=48))
    with pytest.raises(EmitError, match="BK = 128 in 2 K steps is 64 bytes a step"):
        emit_kernel(compiled, dtype="fp8", geometry=single_buffer_geometry(chip, "fp8", BK=128))
    with pytest.raises(EmitError, match="a row of the tile is 192 bytes of K"):
        emit_kernel(compiled, geometry=single_buffer_geometry(chip, "bf16", BK=96))


def test_an_unknown_schedule_needs_an_emitter(proved: CompiledSchedule) -> None:
    with pytest.raises(EmitError, match="no emitter is known for schedule 'mine'"):
        emit_kernel(replace(proved, schedule="mine"))


def test_rows_too_short_for_the_instruction() -> None:
    with pytest.raises(EmitError, match="needs a power of two of at least 64"):
        layout_for(chip_for("gfx950"), 32, 16)


def test_waves_must_stand_in_a_grid() -> None:
    assert bit_weights((0, 16, 32, 48), "rows") == (16, 32)
    with pytest.raises(EmitError, match="no sum over the bits of the wave number"):
        bit_weights((0, 16, 32, 40), "rows of A")


def test_a_diagnostic_names_our_line_and_the_entry(proved: CompiledSchedule) -> None:
    emitted = emit_kernel(proved)
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


def test_default_tiles_of_unknown_things() -> None:
    with pytest.raises(EmitError, match="no tile is known for schedule 'ping_pang'"):
        default_geometry("ping_pang", "gfx950", "bf16")
    for schedule in ("four_wave", "single_buffer"):
        with pytest.raises(EmitError, match="dtype 'f64' is not known"):
            default_geometry(schedule, "gfx950", "f64")
