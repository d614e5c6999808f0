"""What only the end of a kernel needs may stay in flight for as many trips as there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

import pipeloom as pl
from pipeloom.judge.execute import execute
from pipeloom.judge.verify import Status, verify


@pytest.fixture(scope="module")
def program() -> pl.Program:
    """Consumers load the bias first, and nothing else; they wait for it after the loop."""
    loop = pl.Loop("biased", over="k")
    a = loop.stream("A", "bf16", m=32, k=32)
    b = loop.stream("B", "bf16", n=32, k=32)
    bias = loop.resident("bias", "f32", n=32)
    c = loop.carry("C", "f32", m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c + bias)
    roles = (pl.Producer(1), pl.Consumer(4))
    return pl.pipeline(
        loop, pl.target_for("gfx950"), groups=roles, depth=2, strategy=pl.Exact(work_limit=1.0)
    )


def _awaits_memory(step: pl.Step) -> bool:
    return isinstance(step, pl.Wait) and step.counter == "vmcnt"


def test_it_is_decided(program: pl.Program) -> None:
    loop = next(s for s in program.groups[1].sections if s.trips)
    assert not any(map(_awaits_memory, loop.steps))
    verdict = verify(program)
    assert verdict.proved
    assert verdict.coverage.repeats_from is not None


def test_the_wait_behind_the_loop_is_needed(program: pl.Program) -> None:
    def without(section: pl.Section) -> pl.Section:
        return replace(section, steps=tuple(s for s in section.steps if not _awaits_memory(s)))

    loads, computes = program.groups
    bare = replace(computes, sections=tuple(map(without, computes.sections)))
    broken = replace(program, groups=(loads, bare))
    verdict = verify(broken)
    assert verdict.status is not Status.PROVED
    assert any("bias" in str(finding.first) for finding in verdict.findings)
    assert not execute(broken, trips=3).correct
