"""Terminal tables: complete, in issue order, and never split inside a label."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console, RenderableType

from pipeloom import build_schedule
from pipeloom.drive.programs import as_program
from pipeloom.judge.simulate import simulate
from pipeloom.program import Program
from pipeloom.show.dependence_graph import ANTI, graph_of
from pipeloom.show.step_rows import counts, label_of, listing
from pipeloom.show.terminal import graph_dot, render_graph, render_program
from pipeloom.show.timeline import render_trace
from tests.unit.show.programs import producer_consumer, straight


def text(renderable: RenderableType, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(renderable)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(output, str)
    return output


@pytest.fixture(params=["ping_pong", "four_wave", "single_buffer", "two jobs", "once"])
def program(request: pytest.FixtureRequest) -> Program:
    own = {"two jobs": producer_consumer, "once": straight}
    name = str(request.param)
    return own[name]() if name in own else as_program(build_schedule(name))


@pytest.mark.parametrize("width", [60, 120, 400])
def test_every_step_is_shown_in_issue_order(program: Program, width: int) -> None:
    output = text(render_program(program), width).split("synchronisation")[0]
    rows = listing(program)
    words = " ".join(output.split())
    for first, _ in rows.sections():
        steps = steps_of(program, first.section.name, rows.waves[first.track])
        title = f"{first.section.name}: {steps} steps"
        waves = rows.title(first.track)
        assert (f"{waves}, {title}" if waves else title) in words
    labels = [label_of(row.step) for row in rows.rows]
    at = 0
    for label in labels:
        at = output.index(label, at) + len(label)


def steps_of(program: Program, section: str, waves: tuple[int, ...]) -> str:
    """How many steps of a section one of the waves has; groups may differ in barriers."""
    found = {
        len(part.steps)
        for group in program.groups
        for part in group.sections
        if part.name == section and group.waves[0] in waves
    }
    return " or ".join(map(str, sorted(found)))


def test_summary_shows_the_counts(program: Program) -> None:
    output = text(render_program(program)).split("synchronisation")[1]
    rows = listing(program)
    lines = output.splitlines()[2:]
    for line, (first, _) in zip(lines, rows.sections(), strict=False):
        c = counts(first.section)
        waits = [c.waits.get(name, 0) for name in ("vmcnt", "lgkmcnt")]
        numbers = [*waits, c.coalesced_waits, c.barriers, c.fences]
        assert first.section.name in line.split()
        assert [int(n) for n in line.split()[-5:]] == numbers
        assert f" {steps_of(program, first.section.name, rows.waves[first.track])} " in line


def test_headline_and_notes() -> None:
    compiled = build_schedule("ping_pong", ["omit_mma_set_prio=true"])
    output = text(render_program(as_program(compiled), tile="no tile"))
    assert output.startswith(
        "ping_pong  no tile; gfx950, 8 waves; order csp: 420 cycles (proved optimal)"
    )
    assert "note: omit_mma_set_prio has no effect" in output


def test_a_program_by_hand_says_what_it_is() -> None:
    output = text(render_program(producer_consumer()))
    assert output.startswith(
        "two jobs  64x64x32 bf16; gfx950, 5 waves; order by hand: 100 cycles (lower "
        "bound 90); waits and barriers derived"
    )
    assert "wave 0, steady: 10 steps, T times, advancing 2" in output
    assert "waves 1-4, drain: 5 steps, iterations from 2 * T" in output
    assert "note: written down" in output
    assert text(render_program(straight())).startswith("once  64x64x32 bf16; gfx950, 1 waves\n")


def test_steps_that_only_some_waves_have_name_them() -> None:
    output = text(render_program(as_program(build_schedule("ping_pong"))))
    assert "barrier (stagger) (waves 4-7)" in output
    assert "barrier (closing) (waves 0-3)" in output


def test_the_trace_of_a_program() -> None:
    output = text(render_trace(simulate(producer_consumer(), iterations=17), producer_consumer()))
    assert "per trip of 2 K tiles" in output
    assert "steady[0] of waves 1-4 barrier" in output
    once = text(render_trace(simulate(straight(), iterations=1), straight()))
    assert once.startswith("the loop does not run for 1 K tile")


def test_graph_table(program: Program) -> None:
    graph, _ = graph_of(program, listing(program))
    output = text(render_graph(graph))
    rows = [line.split() for line in output.splitlines()]
    for i in range(len(graph.ops)):
        assert any(row[:1] == [str(i)] for row in rows)
    assert f"{len(graph.edges)} edges" in output
    assert f"{graph.longest_path} cycles" in output


def test_dot_has_every_node_and_edge(program: Program) -> None:
    graph, _ = graph_of(program, listing(program))
    dot = graph_dot(graph)
    assert dot.startswith("digraph body {")
    assert dot.endswith("}\n")
    assert len(re.findall(r"^  n\d+ \[label=", dot, re.M)) == len(graph.ops)
    assert len(re.findall(r"^  n\d+ -> n\d+ ", dot, re.M)) == len(graph.edges)
    assert dot.count("style=dashed") == sum(e.kind == ANTI for e in graph.edges)
    assert dot.count("constraint=false") == sum(e.distance > 0 for e in graph.edges)
