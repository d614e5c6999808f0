"""Exporters: functions of a program, which holds all that they could want."""

from __future__ import annotations

import csv
import io

import pytest

import pipeloom as pl


def to_csv(program: pl.Program) -> str:
    """Every step as a row: waves, section, what it does, where it waits."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["waves", "section", "slot", "kind", "what", "counter", "number"])
    for group in program.groups:
        waves = " ".join(map(str, group.waves))
        for section, slot, step in group.steps():
            match step:
                case pl.Work():
                    what = ("work", step.label, step.counter or "", step.entries)
                case pl.Wait():
                    what = ("wait", "", step.counter, step.count)
                case pl.Barrier():
                    what = ("barrier", step.name, "", 0)
                case _:
                    what = (type(step).__name__.lower(), "", "", 0)
            rows.writerow([waves, section.name, slot, *what])
    return text.getvalue()


def to_dot(meaning: pl.Meaning) -> str:
    """What is computed from what; a carry's update is dashed."""
    lines = [f"digraph {meaning.name} {{"]
    for node in meaning.nodes:
        lines.append(f'  "{node.name}" [label="{node.name}\\n{node.type}"];')
        style = " [style=dashed]" if node.kind is pl.NodeKind.CARRY else ""
        lines += [f'  "{name}" -> "{node.name}"{style};' for name in node.operands]
    return "\n".join([*lines, "}"])


@pytest.fixture(scope="module")
def program() -> pl.Program:
    loop = pl.kernels.row_sum(256)
    return pl.pipeline(loop, pl.target_for("gfx950"), waves=1, depth=3)


def test_a_table_of_steps(program: pl.Program) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(program))))
    assert len(rows) == sum(len(s.steps) for g in program.groups for s in g.sections)
    loads = [r for r in rows if r["what"].startswith("load X") and r["section"] == "loop"]
    assert {r["counter"] for r in loads} == {"vmcnt"}
    assert any(r["kind"] == "wait" and int(r["number"]) > 0 for r in rows)


def test_a_file_gives_the_same(program: pl.Program) -> None:
    assert to_csv(pl.Program.from_json(program.to_json())) == to_csv(program)


def test_a_graph_of_the_meaning(program: pl.Program) -> None:
    lines = to_dot(program.meaning).splitlines()
    assert '  "X" -> "total.next";' in lines
    assert '  "total.next" -> "total" [style=dashed];' in lines


def test_schedules_are_programs_too() -> None:
    compiled = pl.compile_schedule(pl.DeclarativeSchedule(lgkm_a=8, lgkm_b=4))
    rows = list(csv.DictReader(io.StringIO(to_csv(pl.as_program(compiled)))))
    assert {r["waves"] for r in rows} == {"0 1 2 3", "4 5 6 7"}
    assert {r["kind"] for r in rows} >= {"work", "wait", "barrier"}
