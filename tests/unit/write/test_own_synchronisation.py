"""The synchronisation that kernels add to their schedule's, taken away line by line.

``weaken`` changes entries of the schedule. What the emitter adds around them (the wait for the
arguments, the stagger of the ping-pong, the drain before the stores, every s_nop) is changed here
in the machine code; a wait or barrier becomes an ``s_nop 0``: no wait state is lost with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from pipeloom.drive.trial import Launchable, Trial, run_gemm
from pipeloom.judge.emulate import (
    FindingKind,
    Timing,
    check_hazards,
    decode_kernel,
    load_code_object,
)
from pipeloom.judge.emulate.wait_states import read_instructions
from pipeloom.judge.wait_states import Target, judge
from pipeloom.write.assemble import assemble_text

S_NOP = 0xBF800000
NO_LGKM, LGKM_ONE, NO_VM = 0xF00, 0x100, 0xC00F
SHAPES = {
    "ping_pong": (128, 128, 64, 16, 32),
    "single_buffer": (64, 64, 64, 16, 0),
    "four_wave": (128, 128, 64, 16, 32),
}
ARGUMENTS, DRAIN = "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0) lgkmcnt(0)"


def word_at(ready: Launchable, pc: int) -> int:
    return int.from_bytes(ready.kernel.code[pc : pc + 4], "little")


def patched(ready: Launchable, pc: int, word: int) -> Launchable:
    code = ready.kernel.code
    changed = code[:pc] + word.to_bytes(4, "little") + code[pc + 4 :]
    return replace(ready, kernel=replace(ready.kernel, code=changed))


def own_lines(ready: Launchable) -> dict[str, int]:
    """What is written or why it is there -> pc, for waits and barriers of no schedule entry."""
    return {
        source.entry or source.text.strip(): pc
        for pc, source in ready.line_map.items()
        if re.match(r"\s*s_(waitcnt|barrier)", source.text) and "[" not in (source.entry or "")
    }


def trials(name: str, ready: Launchable) -> list[Trial]:
    bm, bn, bk, *_ = SHAPES[name]
    return [
        run_gemm(ready.emitted, ready, M=bm, N=bn, K=bk * 4, seed=seed, timing=timing)
        for seed, timing in enumerate((Timing.RANDOM, Timing.LATE))
    ]


NOTICED = [
    # kernel, line, what remains of it (None: nothing), what a run says first
    ("ping_pong", ARGUMENTS, None, FindingKind.IN_FLIGHT_READ),
    ("ping_pong", ARGUMENTS, LGKM_ONE, FindingKind.IN_FLIGHT_READ),
    ("ping_pong", "prologue barrier (stagger)", None, FindingKind.BARRIER_MISMATCH),
    ("ping_pong", "prologue barrier (after the prologue)", None, None),
    ("ping_pong", "epilogue barrier (closing)", None, FindingKind.BARRIER_MISMATCH),
    ("single_buffer", ARGUMENTS, None, FindingKind.IN_FLIGHT_READ),
    ("single_buffer", ARGUMENTS, LGKM_ONE, FindingKind.IN_FLIGHT_READ),
    ("four_wave", ARGUMENTS, None, FindingKind.IN_FLIGHT_READ),
    ("four_wave", DRAIN, None, FindingKind.IN_FLIGHT_WRITE),
    ("four_wave", DRAIN, NO_LGKM, FindingKind.IN_FLIGHT_WRITE),
]


@pytest.mark.parametrize(("name", "line", "left", "kind"), NOTICED)
def test_own_synchronisation_is_missed_when_gone(
    built: Callable[..., Launchable],
    name: str,
    line: str,
    left: int | None,
    kind: FindingKind | None,
) -> None:
    ready = built(name, "bf16", SHAPES[name])
    pc = own_lines(ready)[line]
    word = S_NOP if left is None else word_at(ready, pc) | left
    noticed = [t for t in trials(name, patched(ready, pc, word)) if t.findings]
    assert noticed, "no run noticed"
    if kind is not None:
        assert all(trial.findings[0].kind is kind for trial in noticed)


@pytest.mark.parametrize(("name", "left"), [
    ("ping_pong", None), ("single_buffer", None), ("four_wave", NO_VM),
])  # fmt: skip
def test_the_drain_waits_for_what_the_schedule_left_open_only(
    built: Callable[..., Launchable], name: str, left: int | None
) -> None:
    """Ping-pong and single buffer have waited for all by then; four-wave's last reads are open.

    So their drains may go, and are kept for kernels whose schedules end otherwise.
    """
    ready = built(name, "bf16", SHAPES[name])
    pc = own_lines(ready)[DRAIN]
    word = S_NOP if left is None else word_at(ready, pc) | left
    assert all(trial.ok for trial in trials(name, patched(ready, pc, word)))


def test_there_is_no_other_synchronisation_of_their_own(built: Callable[..., Launchable]) -> None:
    tested = {(name, line) for name, line, _, _ in NOTICED} | {(name, DRAIN) for name in SHAPES}
    for name, shape in SHAPES.items():
        own = own_lines(built(name, "bf16", shape))
        assert {(name, line) for line in own} == {t for t in tested if t[0] == name}


ALL = [("single_buffer", "gfx942"), *((name, "gfx950") for name in SHAPES)]


@pytest.mark.parametrize(("name", "target"), ALL)
def test_each_s_nop_is_needed_by_the_judge_of_bytes(
    built: Callable[..., Launchable], name: str, target: str
) -> None:
    ready = built(name, "bf16", SHAPES[name], target)
    assert check_hazards(ready.kernel) == ()
    program = read_instructions(decode_kernel(ready.kernel.code))
    # Those that only align the loop are written by the assembler and have no line of ours.
    written = [one.name == "s_nop" and one.place in ready.line_map for one in program]
    nops = [at for at, ours in enumerate(written) if ours]
    assert nops
    for at in nops:
        shorter = list(program)
        shorter[at] = replace(shorter[at], wait_states=shorter[at].wait_states - 1)
        assert judge(shorter, Target(target)), hex(program[at].place)


@pytest.mark.parametrize(("name", "target"), ALL)
def test_a_run_reports_a_missing_s_nop(
    built: Callable[..., Launchable], name: str, target: str
) -> None:
    """The results are right all the same: the emulator's pipes have no latency."""
    ready = built(name, "bf16", SHAPES[name], target)
    lines = ready.emitted.text.splitlines()
    last = max(at for at, line in enumerate(lines) if re.match(r"\s+s_nop", line))
    data = assemble_text("\n".join(lines[:last] + lines[last + 1 :]), target)
    changed = replace(ready, kernel=load_code_object(data).kernel(), line_map={})
    bm, bn, bk, *_ = SHAPES[name]
    trial = run_gemm(ready.emitted, changed, M=bm, N=bn, K=bk * 2)
    assert {finding.kind for finding in trial.findings} == {FindingKind.WAIT_STATES}
    assert not trial.wrong
    assert not trial.ok
