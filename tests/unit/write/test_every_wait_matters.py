"""A sample of weakened kernels: what the verifier calls unsafe, the emulator notices.

All weakenings of the shipped kernels: ``evidence/emit_evidence.py mutants``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from evidence.weaken import weakenings
from pipeloom import compile_schedule, load_spec
from pipeloom.judge.verify import proves
from pipeloom.program import Barrier, Program, Wait
from pipeloom.reference.compiled import CompiledSchedule
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
    program = program_of(proved(name, "bf16", shape), "bf16")
    sample = list(weakenings(program))[first::every]
    unsafe = [weakened for weakened in sample if not proves(weakened.program)]
    assert len(unsafe) >= max(4, len(sample) - 1)
    for weakened in unsafe:
        kernel = ready(emit_program(weakened.program, judge=wave_through))
        trials = (
            run(kernel, shape[0], shape[1], (1, 0, 2, 1)[seed], seed=seed) for seed in range(SEEDS)
        )
        noticed = next((trial for trial in trials if not trial.ok), None)
        assert noticed is not None, weakened.what
        assert noticed.findings, "a defect is reported, not only a wrong result"


def test_weakenings_that_rows_in_order_would_hide() -> None:
    """The command line's ping-pong, barriers kept: with rows in order in LDS, the loads in flight
    were of the other fragment, so only the proof objected."""
    tile = {"BM": 256, "BN": 256, "BK": 64, "MMA_K": 32, "elem_bytes": 2}
    raw = compile_schedule(load_spec({"schedule": "ping_pong", "geometry": tile}))
    compiled = synchronize(raw, reorder=True, keep_barriers=True)
    made = {weakened.what: weakened for weakened in weakenings(program_of(compiled, "bf16"))}
    program = made["loop[28] vmcnt(8) loosened to 9"].program
    assert not proves(program)
    kernel = ready(emit_program(program, judge=wave_through))
    assert run(kernel, 256, 256, 1, seed=0).findings


def test_weakenings_change_one_step(proved: Callable[..., CompiledSchedule]) -> None:
    """In both groups, but for the stagger and what closes it, which one group has."""
    program = program_of(proved("ping_pong", "bf16", (128, 128, 64, 16, 32)), "bf16")

    def sizes(found: Program) -> list[int]:
        return [sum(1 for _ in group.steps()) for group in found.groups]

    steps = [step for group in program.groups for _, _, step in group.steps()]
    waits, barriers = (sum(isinstance(s, kind) for s in steps) for kind in (Wait, Barrier))
    made = list(weakenings(program))
    assert len({weakened.what for weakened in made}) == len(made)
    gone = Counter(
        tuple(was - now for was, now in zip(sizes(program), sizes(weakened.program), strict=True))
        for weakened in made
    )
    assert gone == {
        (0, 0): waits // 2,
        (1, 1): (waits + barriers) // 2 - 1,
        (0, 1): 1,
        (1, 0): 1,
    }
