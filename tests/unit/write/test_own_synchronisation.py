"""The synchronisation that kernels add to their schedule's, taken away line by line.

``weaken`` changes entries of the schedule. What a kernel adds around them (the wait for its
arguments, the barriers of the ping-pong's groups, every s_nop) is changed here in the machine code;
a wait or barrier becomes an ``s_nop 0``: no wait state is lost with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from pipeloom.drive.trial import Launchable, Trial
from pipeloom.judge.emulate import (
    DefectKind,
    Timing,
    check_hazards,
    decode_kernel,
    load_code_object,
)
from pipeloom.judge.emulate.wait_states import read_instructions
from pipeloom.judge.wait_states import judge
from pipeloom.machine.chips import target_for
from pipeloom.write.assemble import assemble_text
from tests.unit.write.kernels import run

pytestmark = pytest.mark.usefixtures("short_search")
S_NOP = 0xBF800000
LGKM_ONE = 0x100
GEMM = (64, 64, 32, 16, 16)
SHAPES = {
    "ping_pong": (128, 128, 64, 16, 32),
    "single_buffer": (64, 64, 64, 16, 32),
    "four_wave": (64, 64, 64, 16, 32),
}
ARGUMENTS = "s_waitcnt lgkmcnt(0)"


def word_at(ready: Launchable, pc: int) -> int:
    return int.from_bytes(ready.kernel.code[pc : pc + 4], "little")


def patched(ready: Launchable, pc: int, word: int) -> Launchable:
    code = ready.kernel.code
    changed = code[:pc] + word.to_bytes(4, "little") + code[pc + 4 :]
    return replace(ready, kernel=replace(ready.kernel, code=changed))


def own_lines(ready: Launchable) -> dict[str, int]:
    """What is written or what it is called -> pc, for waits and barriers of no schedule entry."""
    return {
        (source.entry or source.text.strip()).partition("] ")[2] or source.text.strip(): pc
        for pc, source in ready.line_map.items()
        if re.match(r"\s*s_(waitcnt|barrier)", source.text)
        and not re.search(r"\] (wait|barrier) ", source.entry or "")
    }


def trials(name: str, ready: Launchable) -> list[Trial]:
    bm, bn, *_ = SHAPES[name]
    return [
        run(ready, bm, bn, 1, seed=seed, timing=timing)
        for seed, timing in enumerate((Timing.RANDOM, Timing.LATE))
    ]


NOTICED = [
    # kernel, line, what remains of it (None: nothing), what a run says first
    ("ping_pong", ARGUMENTS, None, DefectKind.IN_FLIGHT_READ),
    ("ping_pong", "stagger", None, DefectKind.BARRIER_MISMATCH),
    ("ping_pong", "after the prologue", None, None),
    ("ping_pong", "closing", None, DefectKind.BARRIER_MISMATCH),
    ("single_buffer", ARGUMENTS, LGKM_ONE, DefectKind.IN_FLIGHT_READ),
    ("four_wave", ARGUMENTS, None, DefectKind.IN_FLIGHT_READ),
]


@pytest.mark.parametrize(("name", "line", "left", "kind"), NOTICED)
def test_own_synchronisation_is_missed_when_gone(
    built: Callable[..., Launchable],
    name: str,
    line: str,
    left: int | None,
    kind: DefectKind | None,
) -> None:
    ready = built(name, "bf16", SHAPES[name])
    pc = own_lines(ready)[line]
    word = S_NOP if left is None else word_at(ready, pc) | left
    noticed = [t for t in trials(name, patched(ready, pc, word)) if t.findings]
    assert noticed, "no run noticed"
    if kind is not None:
        assert all(trial.findings[0].kind is kind for trial in noticed)


def test_there_is_no_other_synchronisation_of_their_own(built: Callable[..., Launchable]) -> None:
    tested = {(name, line) for name, line, _, _ in NOTICED}
    for name, shape in SHAPES.items():
        own = own_lines(built(name, "bf16", shape))
        assert {(name, line) for line in own} == {t for t in tested if t[0] == name}


ALL = [("gemm_tile", "gfx942"), *((name, "gfx950") for name in SHAPES)]


@pytest.mark.parametrize(("name", "target"), ALL)
def test_each_s_nop_is_needed_by_the_judge_of_bytes(
    built: Callable[..., Launchable], name: str, target: str
) -> None:
    ready = built(name, "bf16", SHAPES.get(name, GEMM), target)
    assert check_hazards(ready.kernel) == ()
    program = read_instructions(decode_kernel(ready.kernel.code))
    # Those that only align the loop are written by the assembler and have no line of ours.
    written = [one.name == "s_nop" and one.place in ready.line_map for one in program]
    nops = [at for at, ours in enumerate(written) if ours]
    assert nops
    for at in nops:
        shorter = list(program)
        shorter[at] = replace(shorter[at], wait_states=shorter[at].wait_states - 1)
        assert judge(shorter, target_for(target)), hex(program[at].place)


@pytest.mark.parametrize(("name", "target"), ALL)
def test_a_run_reports_a_missing_s_nop(
    built: Callable[..., Launchable], name: str, target: str
) -> None:
    """The results are right all the same: the emulator's pipes have no latency."""
    ready = built(name, "bf16", SHAPES.get(name, GEMM), target)
    lines = ready.emitted.text.splitlines()
    last = max(at for at, line in enumerate(lines) if re.match(r"\s+s_nop", line))
    data = assemble_text("\n".join(lines[:last] + lines[last + 1 :]), target)
    changed = replace(ready, kernel=load_code_object(data).kernel(), line_map={})
    bm, bn, *_ = SHAPES.get(name, GEMM)
    trial = run(changed, bm, bn, 0)
    assert {finding.kind for finding in trial.findings} == {DefectKind.WAIT_STATES}
    assert not any(trial.wrong.values())
    assert not trial.ok
