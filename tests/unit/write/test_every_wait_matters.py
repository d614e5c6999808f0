"""A sample of weakened kernels: what the verifier calls unsafe, the emulator notices.

All weakenings of the shipped kernels: ``evidence/emit_evidence.py mutants``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evidence.weaken import weakenings
from pipeloom import compile_schedule, load_spec
from pipeloom.judge.verify import proves
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import OpTag
from pipeloom.reference.resync import synchronize
from pipeloom.write import emit_program
from tests.unit.write.kernels import Shape, program_of, ready, run, wave_through

SEEDS = 4


@pytest.mark.parametrize(
    ("name", "shape", "every", "first"),
    [
        ("ping_pong", (128, 128, 64, 16, 32), 12, 1),
        ("four_wave", (64, 64, 64, 16, 32), 8, 2),
        ("single_buffer", (64, 64, 64, 16, 32), 4, 3),
    ],
)
def test_sampled_weakenings_are_noticed(
    proved: Callable[..., CompiledSchedule], name: str, shape: Shape, every: int, first: int
) -> None:
    sample = list(weakenings(proved(name, "bf16", shape)))[first::every]
    programs = [(weakened.what, program_of(weakened.compiled, "bf16")) for weakened in sample]
    unsafe = [(what, p) for what, p in programs if not proves(p)]
    assert len(unsafe) >= max(4, len(sample) - 1)
    for what, program in unsafe:
        kernel = ready(emit_program(program, judge=wave_through))
        trials = (
            run(kernel, shape[0], shape[1], (1, 0, 2, 1)[seed], seed=seed) for seed in range(SEEDS)
        )
        noticed = next((trial for trial in trials if not trial.ok), None)
        assert noticed is not None, what
        assert noticed.findings, "a defect is reported, not only a wrong result"


def test_weakenings_that_rows_in_order_would_hide() -> None:
    """The command line's ping-pong, barriers kept: with rows in order in LDS, the loads in flight
    were of the other fragment, so only the proof objected."""
    tile = {"BM": 256, "BN": 256, "BK": 64, "MMA_K": 32, "elem_bytes": 2}
    raw = compile_schedule(load_spec({"schedule": "ping_pong", "geometry": tile}))
    compiled = synchronize(raw, reorder=True, keep_barriers=True)
    made = {weakened.what: weakened for weakened in weakenings(compiled)}
    program = program_of(made["kernel[28] wait_vm(8) loosened to 9"].compiled, "bf16")
    assert not proves(program)
    kernel = ready(emit_program(program, judge=wave_through))
    assert run(kernel, 256, 256, 1, seed=0).findings


def test_weakenings_change_one_entry(proved: Callable[..., CompiledSchedule]) -> None:
    compiled = proved("ping_pong", "bf16", (128, 128, 64, 16, 32))

    def sizes(schedule: CompiledSchedule) -> int:
        return len(schedule.prologue) + len(schedule.kernel) + len(schedule.epilogue)

    made = list(weakenings(compiled))
    entries = [*compiled.prologue, *compiled.kernel, *compiled.epilogue]
    waits = sum(entry.op.tag in (OpTag.WAIT_VM, OpTag.WAIT_LGKM) for entry in entries)
    barriers = sum(entry.op.tag == OpTag.BARRIER for entry in entries)
    assert len(made) == 2 * waits + barriers
    assert len({w.what for w in made}) == len(made)
    for weakened in made:
        gone = "deleted" in weakened.what
        assert sizes(compiled) - sizes(weakened.compiled) == gone
        for phase in (weakened.compiled.prologue, weakened.compiled.kernel):
            assert [entry.time_slot for entry in phase] == list(range(len(phase)))
