"""Rows of a program, and what must follow what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import build_schedule
from pipeloom.drive.programs import as_program
from pipeloom.program import Barrier, Fence, Priority, Program, Wait, Work
from pipeloom.show.dependence_graph import ANTI, FLOW, KINDS, Graph, GraphEdge, GraphNode, graph_of
from pipeloom.show.step_rows import STYLES, label_of, listing, role_of, waves_text
from tests.unit.show.programs import producer_consumer, straight, two_loops


def words(program: Program) -> set[str]:
    graph, _ = graph_of(program, listing(program))
    names = [op.label + op.offset for op in graph.ops]
    return {
        f"{names[e.producer]} -> {names[e.consumer]} {KINDS[e.kind]} {e.distance}"
        for e in graph.edges
    }


def test_groups_that_do_the_same_share_their_rows() -> None:
    program = as_program(build_schedule("ping_pong"))
    rows = listing(program)
    assert rows.waves == (tuple(range(8)),)
    assert rows.title(0) == ""
    own = [row for row in rows.rows if row.waves]
    assert [(row.label, row.waves) for row in own] == [
        ("barrier (stagger)", "waves 4-7"),
        ("barrier (closing)", "waves 0-3"),
    ]
    for number, group in enumerate(program.groups):
        for section, slot, step in group.steps():
            row = rows.rows[rows.at[number, section.name, slot]]
            assert row.label == label_of(step)


def test_groups_with_other_work_have_rows_of_their_own() -> None:
    rows = listing(producer_consumer())
    assert rows.waves == ((0,), (1, 2, 3, 4))
    assert rows.name(0) == "fill[0] of wave 0"
    assert not any(row.waves for row in rows.rows)


def test_every_role_has_a_style() -> None:
    for program in (producer_consumer(), as_program(build_schedule("single_buffer"))):
        assert {row.role for row in listing(program).rows} <= set(STYLES)
    assert {row.role for row in listing(producer_consumer()).rows} == {
        "load",
        "lds_read",
        "matrix",
        "vector",
        "store",
        "wait",
        "barrier",
    }


def test_labels_and_waves() -> None:
    assert label_of(Wait("vmcnt", 3)) == "vmcnt(3)"
    assert label_of(Barrier("named")) == "barrier named"
    assert label_of(Barrier(label="stagger")) == "barrier (stagger)"
    assert label_of(Priority(1)) == "prio(1)"
    assert label_of(Fence()) == "fence"
    assert waves_text((3,)) == "wave 3"
    assert waves_text((6, 0, 1, 2)) == "waves 0-2, 6"


def test_the_graph_of_two_groups_goes_by_iterations() -> None:
    assert words(producer_consumer()) >= {
        "fetch A k+1 -> take A k+1 flow 0",
        "fetch A k+2 -> take A flow 1",
        "take A -> fetch A k+2 anti 0",
        "take A k+1 -> fetch A k+1 anti 1",
        "take A -> my product flow 0",
        "my product -> take A k+1 anti 0",
        "my product k+1 -> my product flow 1",
    }
    assert len(words(producer_consumer())) == 18


def test_without_a_loop_the_graph_is_of_everything() -> None:
    assert words(straight()) == {
        "fetch A -> take A flow 0",
        "fetch B -> take B flow 0",
        "take A -> my product flow 0",
        "take B -> my product flow 0",
        "my product -> my scaling flow 0",
        "my scaling -> put out flow 0",
    }


def test_every_loop_is_in_the_graph_and_rows_outside_stand_for_its_ops() -> None:
    program = two_loops()
    graph, ops = graph_of(program, listing(program))
    assert [op.label for op in graph.ops] == 2 * [
        "fetch A",
        "fetch B",
        "take A",
        "take B",
        "my product",
    ]
    assert ops[-2:] == (-1, -1)
    lifted = as_program(build_schedule("ping_pong"))
    rows = listing(lifted)
    graph, ops = graph_of(lifted, rows)
    assert len(graph.ops) == 24
    for row, op in zip(rows.rows, ops, strict=True):
        if op >= 0:
            assert graph.ops[op].label == row.label
        elif row.section.name != "store":
            assert row.role in ("wait", "barrier", "priority", "fence")


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_what_the_specification_says_of_flow_is_found(name: str) -> None:
    """Loads before their fragments, fragments before the products that use them."""
    found = words(as_program(build_schedule(name)))
    assert sum(" flow " in text for text in found) >= len(build_schedule(name).body)
    assert all(" -> load" in text for text in found if text.startswith("frag") and "anti" in text)


def test_times_are_those_of_the_longest_path() -> None:
    ops = (GraphNode("a", "load", 10), GraphNode("b", "load", 3), GraphNode("c", "matrix", 5))
    graph = Graph(ops, (GraphEdge(0, 2), GraphEdge(1, 2), GraphEdge(2, 0, ANTI, 1)))
    assert (graph.asap, graph.alap, graph.slack) == ((0, 0, 10), (0, 7, 10), (0, 7, 0))
    assert (graph.longest_path, graph.critical) == (15, (0, 2))
    timeless = Graph(tuple(op._replace(latency=0) for op in ops), graph.edges)
    assert (timeless.longest_path, timeless.critical) == (0, ())
    assert Graph((), ()).critical == ()


def test_dependences_that_form_a_circle_do_no_harm() -> None:
    ops = (GraphNode("a", "load", 1), GraphNode("b", "load", 1))
    graph = Graph(ops, (GraphEdge(0, 1, FLOW), GraphEdge(1, 0, FLOW)))
    assert graph.asap == (0, 0)


def test_a_merged_section_keeps_every_groups_slots() -> None:
    program = producer_consumer()
    consumer = program.groups[1]
    extra = tuple(
        replace(s, steps=(Priority(1), *s.steps)) if s.name == "steady" else s
        for s in consumer.sections
    )
    groups = (
        program.groups[0],
        replace(consumer, waves=(1, 2)),
        replace(consumer, waves=(3, 4), sections=extra),
    )
    rows = listing(replace(program, groups=groups))
    assert rows.waves == ((0,), (1, 2, 3, 4))
    assert rows.at[1, "steady", 0] == rows.at[2, "steady", 1]
    assert rows.rows[rows.at[2, "steady", 0]].waves == "waves 3-4"


def test_a_copy_is_told_by_what_it_copies() -> None:
    """A condition is a second read; a program from a file may lack an access, and is shown too."""
    program = straight()
    steps = [step for group in program.groups for _, _, step in group.steps()]
    copy = next(s for s in steps if isinstance(s, Work) and s.is_copy)
    role = role_of(program, copy)
    assert role in STYLES
    assert role_of(program, replace(copy, reads=(*copy.reads, copy.reads[0]))) == role
    assert role_of(program, replace(copy, writes=())) in STYLES
    assert role_of(program, replace(copy, reads=())) in STYLES
