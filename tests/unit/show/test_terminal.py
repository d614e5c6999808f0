"""Terminal tables: complete, in issue order, and never split inside a label."""

from __future__ import annotations

import io
import re

import pytest
from pipeloom.show.labels import Labels
from rich.console import Console, RenderableType

from pipeloom import CompiledSchedule, Phase, build_schedule
from pipeloom.show.terminal import graph_dot, render_graph, render_schedule


def text(renderable: RenderableType, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(renderable)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(output, str)
    return output


@pytest.fixture(params=["ping_pong", "four_wave", "single_buffer"])
def compiled(request: pytest.FixtureRequest) -> CompiledSchedule:
    return build_schedule(request.param)


@pytest.mark.parametrize("width", [60, 120, 400])
def test_every_entry_is_shown_in_issue_order(compiled: CompiledSchedule, width: int) -> None:
    labels = Labels(compiled)
    output = text(render_schedule(compiled), width)
    pattern = re.compile("|".join(sorted({re.escape(w) for w in WORDS}, key=len, reverse=True)))
    for phase in Phase:
        start = output.index(f"{phase.name.lower()}: {len(compiled.phase(phase))} entries")
        end = min(
            output.find(mark, start + 1) % (len(output) + 1)
            for mark in ("kernel: ", "epilogue: ", "synchronisation")
        )
        shown = pattern.findall(output[start:end].split("entries", 1)[1])
        expected = [w for e in compiled.phase(phase) for w in pattern.findall(labels.of(e.op))]
        assert shown == expected


WORDS = [
    "load",
    "frag",
    "mma",
    "store",
    "barrier",
    "fence",
    "vmcnt",
    "lgkmcnt",
    "prio",
    "ds_read",
    "ds_write",
    "vmem_read",
    "mfma",
]


def test_summary_shows_the_counts(compiled: CompiledSchedule) -> None:
    output = text(render_schedule(compiled))
    counts = compiled.counts(Phase.KERNEL)
    numbers = [counts.entries, counts.wait_vm, counts.wait_lgkm, counts.coalesced_waits]
    numbers += [counts.barriers, counts.fences]
    row = next(line for line in output.splitlines() if line.split()[:1] == ["kernel"])
    assert [int(n) for n in row.split()[1:]] == numbers


def test_headline_and_notes() -> None:
    output = text(render_schedule(build_schedule("ping_pong", ["omit_mma_set_prio=true"])))
    assert output.startswith(
        "ping_pong  no tile: 4 + 4 vmcnt entries per load; depth 2, 24 ops, order csp: "
        "makespan 420 cycles"
    )
    assert "note: omit_mma_set_prio has no effect" in output


def test_graph_table(compiled: CompiledSchedule) -> None:
    body, labels = compiled.loop_body, Labels(compiled)
    output = text(render_graph(body, labels))
    rows = [line.split() for line in output.splitlines()]
    for i in range(len(body)):
        assert any(row[:1] == [str(i)] for row in rows)
    assert f"{len(body.edges)} edges" in output
    assert f"{body.longest_path} cycles" in output


def test_dot_has_every_node_and_edge(compiled: CompiledSchedule) -> None:
    body = compiled.loop_body
    dot = graph_dot(body, Labels(compiled))
    assert dot.startswith("digraph body {")
    assert dot.endswith("}\n")
    assert len(re.findall(r"^  n\d+ \[label=", dot, re.M)) == len(body)
    assert len(re.findall(r"^  n\d+ -> n\d+ ", dot, re.M)) == len(body.edges)
    assert dot.count("style=dashed") == sum(e.kind == 1 for e in body.edges)
    assert dot.count("constraint=false") == sum(e.loop_distance > 0 for e in body.edges)
