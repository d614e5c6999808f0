"""Emitted kernels on the machine model: the right lines, the right counts, the cycles they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom import ConfigError
from pipeloom.drive.kernel_files import KernelFile, Start
from pipeloom.drive.programs import simulate
from pipeloom.drive.timing_files import time_start
from pipeloom.drive.trial import Launchable
from pipeloom.judge.emulate import decode_kernel
from pipeloom.judge.simulate import Kind, WaveOp
from pipeloom.judge.simulate.issued import wave_programs
from pipeloom.machine.chips import target_for
from pipeloom.machine.mnemonics import Pipe
from pipeloom.machine_code import emitted_programs, simulate_emitted, walk_wave
from pipeloom.machine_code.emitted import _arguments
from pipeloom.machine_code.lowering import lower_line, read_line
from pipeloom.program import Barrier
from pipeloom.write import EmitError
from pipeloom.write.code import Code
from pipeloom.write.isa import Opcode, instruction, sgpr, vgpr
from tests.unit.write.kernels import Shape, built_program, run

PAGE = Path(__file__).parents[3] / "docs" / "performance-model.md"
GFX950 = target_for("gfx950")
BF16 = (256, 256, 64, 16, 32)
FP8 = (256, 256, 128, 16, 128)
SMALL = {
    "ping_pong": (128, 128, 64, 16, 32),
    "four_wave": (64, 64, 64, 16, 32),
    "single_buffer": (64, 64, 64, 16, 32),
}
OF_THE_SCHEDULE = (
    Kind.MFMA,
    Kind.LDS_READ,
    Kind.LDS_WRITE,
    Kind.GLOBAL_TO_LDS,
    Kind.GLOBAL_TO_VGPR,
    Kind.WAIT,
    Kind.BARRIER,
    Kind.SET_PRIO,
    Kind.BRANCH,
)


def _counts(instructions: tuple[WaveOp, ...]) -> dict[Kind, int]:
    issued = Counter(i.kind for i in instructions)
    return {kind: issued[kind] for kind in OF_THE_SCHEDULE}


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "k_tiles", "trips"),
    [
        ("ping_pong", "bf16", BF16, 32, 15),
        ("four_wave", "fp8", FP8, 32, 15),
        ("single_buffer", "bf16", (128, 128, 64, 16, 32), 32, 30),
        ("gemm_tile", "bf16", BF16, 33, 5),
    ],
)
def test_the_loop_issues_what_the_program_lowers_to(
    built: Callable[..., Launchable],
    name: str,
    dtype: str,
    shape: Shape,
    k_tiles: int,
    trips: int,
) -> None:
    """And costs about as much: wait states and offsets, that the program does not know, more; less
    where the counting of the loop is hidden."""
    program, emitted = built_program(name, dtype, shape), built(name, dtype, shape).emitted
    programs, counted = emitted_programs(emitted, GFX950, k_tiles)
    assert counted == trips
    for real, model in zip(programs, wave_programs(program), strict=True):
        assert (real.simd, real.group) == (model.simd, model.group)
        assert _counts(real.loop) == _counts(model.loop)
        sync = [i.kind for i in real.prologue if i.kind is Kind.BARRIER]
        assert sync == [i.kind for i in model.prologue if i.kind is Kind.BARRIER]
        mfmas = [i.matrix_op for i in real.loop if i.kind is Kind.MFMA]
        assert mfmas == [i.matrix_op for i in model.loop if i.kind is Kind.MFMA]
    cycles = simulate_emitted(emitted).steady_cycles_per_iteration
    expected = simulate(program).steady_cycles_per_iteration
    assert 0.995 * expected <= cycles <= 1.05 * expected
    row = f"| {name} | {dtype} | {expected:.0f} | {cycles:.0f} |"
    assert row in PAGE.read_text("utf-8"), row


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("k_tiles", [2, 4, 8])
def test_the_walk_is_the_emulators(
    built: Callable[..., Launchable], name: str, k_tiles: int
) -> None:
    """The emulator runs the assembled code; both execute equally many instructions."""
    ready = built(name, "bf16", SMALL[name])
    emitted = ready.emitted
    bm, bn, bk = SMALL[name][:3]
    trips = (k_tiles * bk - emitted.k_min) // emitted.k_step
    ran = run(ready, bm, bn, trips, spare={"out": 0})
    programs, trips = emitted_programs(emitted, GFX950, k_tiles)
    walked = sum(len(p.prologue) + trips * len(p.loop) + len(p.epilogue) for p in programs)
    assert ran.ok
    # What the assembler puts before a loop to align it, the waves of its group run once if they
    # enter.
    gaps = sum(i.pc not in ready.line_map for i in decode_kernel(ready.kernel.code))
    missed = ran.executed - walked - emitted.waves
    assert 0 <= missed <= (gaps * emitted.waves if trips else 0), "the s_endpgm, and the padding"


@pytest.mark.parametrize("name", SMALL)
def test_the_code_object_takes_the_cycles_of_the_text(
    built: Callable[..., Launchable], name: str
) -> None:
    """Two ways to one stream: scalars walked over lines, and an emulated run of machine code."""
    ready = built(name, "bf16", SMALL[name])
    words = _arguments(ready.emitted, 8)
    args: list[Any] = [
        np.zeros(1 << 17, np.uint16) if argument.size == 8 else words[argument.offset]
        for argument in ready.emitted.arguments
    ]
    block = (64 * ready.emitted.waves,)
    found = time_start(KernelFile(ready.kernel, b""), Start((1, 1), block, args, 0)).main
    walked = simulate_emitted(ready.emitted)
    assert found.cycles == walked.steady_cycles_per_iteration
    assert found.trace.limiting_unit() == walked.limiting_unit()
    mine, theirs = (trace.programs[0].loop for trace in (found.trace, walked))
    assert [i.kind for i in mine] == [i.kind for i in theirs]
    assert [i.live for i in mine] == [i.live for i in theirs]


def test_every_wave_stores_its_share_of_the_tile(built: Callable[..., Launchable]) -> None:
    emitted = built("ping_pong", "bf16", SMALL["ping_pong"]).emitted
    trace = simulate_emitted(emitted, k_tiles=4)
    stores = [
        instruction
        for program in trace.programs
        for instruction in program.epilogue
        if instruction.kind is Kind.GLOBAL_STORE
    ]
    assert sum(store.bytes for store in stores) == 128 * 128 * 2


def test_instructions_lead_back_to_steps(built: Callable[..., Launchable]) -> None:
    program = built_program("ping_pong", "bf16", SMALL["ping_pong"])
    emitted = built("ping_pong", "bf16", SMALL["ping_pong"]).emitted
    programs, _ = emitted_programs(emitted, GFX950, 4)
    steps = program.groups[0].sections[1].steps
    for real in programs[0].loop:
        if real.kind is Kind.BARRIER:
            assert real.entry is not None
            assert isinstance(steps[real.entry], Barrier)
    served = {i.entry for i in programs[0].loop if i.kind is Kind.MFMA}
    assert served == {
        slot for slot, step in enumerate(steps) if getattr(step, "label", "").startswith("mma")
    }


def test_the_same_kernel_gives_the_same_trace(built: Callable[..., Launchable]) -> None:
    emitted = built("four_wave", "bf16", SMALL["four_wave"]).emitted
    first, second = (simulate_emitted(emitted, k_tiles=6, jitter=0.4, seed=2) for _ in range(2))
    assert first.events == second.events


def test_k_tiles_that_the_kernel_cannot_sum_are_refused(built: Callable[..., Launchable]) -> None:
    emitted = built("four_wave", "bf16", SMALL["four_wave"]).emitted
    with pytest.raises(EmitError, match="the size along 'k' is 192"):
        simulate_emitted(emitted, k_tiles=3)


def test_a_branch_on_an_unknown_value_is_refused(built: Callable[..., Launchable]) -> None:
    emitted = built("four_wave", "bf16", SMALL["four_wave"]).emitted
    with pytest.raises(ConfigError, match=r"'s_cbranch_scc1 .*' depends on a value") as caught:
        simulate_emitted(emitted, arguments={})
    assert caught.value.hint == "pass the kernel's arguments, as 32-bit words by byte offset"


def test_a_branch_follows_the_wave_number() -> None:
    code = Code()
    code("v_lshrrev_b32", vgpr(1), 6, vgpr(0))
    code("v_readfirstlane_b32", sgpr(4), vgpr(1))
    code("s_bfe_u32", sgpr(5), sgpr(4), 1 | 1 << 16)
    code("s_cmp_eq_u32", sgpr(5), 1)
    code("s_cbranch_scc0", "past")
    code("s_barrier")
    code.label("past")
    code("s_endpgm")
    barriers = [
        sum(step.instruction.opcode.name == "s_barrier" for step in path.prologue)
        for path in (walk_wave(code.lines, wave, {}) for wave in range(8))
    ]
    assert barriers == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize(("first", "second"), [(2, 5), (5, 2)])
def test_of_two_loops_the_longer_one_is_the_loop(first: int, second: int) -> None:
    code = Code()
    for name, trips in (("first", first), ("second", second)):
        code("s_mov_b32", sgpr(8), trips)
        code.label(name)
        code("s_sub_i32", sgpr(8), sgpr(8), 1)
        code("s_cmp_lg_u32", sgpr(8), 0)
        code("s_cbranch_scc1", name)
    path = walk_wave(code.lines, 0, {})
    assert len(path.iterations) == 5
    lines = [len(path.prologue), len(path.epilogue)]
    assert lines == ([1, 1 + 3 * second] if first > second else [1 + 3 * first + 1, 0])


def test_an_instruction_without_a_model_is_refused() -> None:
    image = Opcode("image_load", Pipe.MEMORY, ("v1", "v1", "s4", "si1"))
    line = instruction(image, vgpr(0), vgpr(1), sgpr(4, 4), 0)
    with pytest.raises(ConfigError, match="does not model 'image_load"):
        lower_line(read_line(line), GFX950)


@pytest.mark.parametrize(
    ("left", "right", "name", "taken"),
    [
        (-1, 1, "s_cmp_lt_i32", True),
        (-1, 1, "s_cmp_lt_u32", False),
        (3, 3, "s_cmp_ge_u32", True),
        (3, 4, "s_cmp_lg_u32", True),
    ],
)
def test_compares_know_signs(left: int, right: int, name: str, taken: bool) -> None:
    code = Code()
    code("s_mov_b32", sgpr(8), left)
    code(name, sgpr(8), right)
    code("s_cbranch_scc1", "end")
    code("s_barrier")
    code.label("end")
    path = walk_wave(code.lines, 0, {})
    assert path.prologue[2].jumped is taken
    assert len(path.prologue) == (3 if taken else 4)
