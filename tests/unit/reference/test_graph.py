"""LoopBody on graphs worked by hand."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict
from itertools import pairwise

import pytest

from pipeloom import DepEdge, DepKind, GraphError, LoopBody, OpDesc, OpRole
from pipeloom.reference.graph import describe_op


def ops(*latencies: int) -> list[OpDesc]:
    return [OpDesc(tag, latency=latency) for tag, latency in enumerate(latencies)]


#     0 (10) ---> 1 (5) ---> 3 (2)
#       \-------> 2 (20) --/          4 (7) stands alone
DIAMOND = LoopBody(
    ops(10, 5, 20, 2, 7),
    [DepEdge(0, 1), DepEdge(0, 2, DepKind.ANTI), DepEdge(1, 3), DepEdge(2, 3)],
)


def test_edge_defaults() -> None:
    edge = {"producer": 1, "consumer": 2, "kind": DepKind.FLOW, "loop_distance": 0}
    assert asdict(DepEdge(1, 2)) == edge


def test_asap_alap_slack_and_longest_path() -> None:
    assert DIAMOND.asap == (0, 10, 10, 30, 0)
    assert DIAMOND.longest_path == 32
    assert DIAMOND.tails == (32, 7, 22, 2, 7)
    assert DIAMOND.alap == (0, 25, 10, 30, 25)
    assert DIAMOND.slack == (0, 15, 0, 0, 25)
    assert DIAMOND.critical_path == (0, 2, 3)


def test_neighbours_are_distinct_and_ascending() -> None:
    body = LoopBody(ops(1, 1, 1), [DepEdge(1, 2), DepEdge(0, 2), DepEdge(0, 2, DepKind.ANTI)])
    assert body.predecessors == ((), (), (0, 1))
    assert body.successors == ((2,), (2,), ())


def test_anti_edges_order_like_flow_edges() -> None:
    assert LoopBody(ops(4, 1), [DepEdge(0, 1, DepKind.ANTI)]).asap == (0, 4)


def test_edges_of_later_iterations_do_not_order_this_one() -> None:
    body = LoopBody(ops(4, 1), [DepEdge(0, 1, DepKind.FLOW, 1), DepEdge(1, 0, DepKind.FLOW, 2)])
    assert body.asap == (0, 0)
    assert body.longest_path == 4
    assert body.predecessors == ((), ())


def test_an_op_may_depend_on_itself_across_iterations() -> None:
    body = LoopBody(ops(4), [DepEdge(0, 0, DepKind.FLOW, 1)])
    assert body.longest_path == 4


def test_topological_order_runs_against_the_declaration_where_it_must() -> None:
    body = LoopBody(ops(1, 2, 3), [DepEdge(2, 1), DepEdge(1, 0)])
    assert body.topological == (2, 1, 0)
    assert body.asap == (5, 3, 0)


def test_violations_are_the_broken_edges_of_this_iteration() -> None:
    broken, kept, later = DepEdge(2, 0), DepEdge(0, 1), DepEdge(2, 1, DepKind.FLOW, 1)
    body = LoopBody(ops(1, 1, 1), [broken, kept, later])
    assert body.violations((0, 1, 2)) == (broken,)
    assert body.violations((2, 0, 1)) == ()


def test_empty_body() -> None:
    body = LoopBody([])
    assert len(body) == 0
    assert (body.longest_path, body.critical_path, body.asap, body.alap) == (0, (), (), ())


def test_bodies_are_values() -> None:
    assert LoopBody(ops(1)) == LoopBody(ops(1))
    assert LoopBody(ops(1)) != LoopBody(ops(2))
    with pytest.raises(FrozenInstanceError):
        DIAMOND.ops = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        (DepEdge(0, 9), r"edge 0 \(0 -> 9\): consumer 9 is not an op"),
        (DepEdge(9, 0), r"edge 0 \(9 -> 0\): producer 9 is not an op"),
        (DepEdge(1, 1), r"edge 0: #1 tag 1\(stage 0, sub 0\) depends on itself"),
    ],
)
def test_bounds_and_self_loops_name_the_edge(edge: DepEdge, message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        LoopBody(ops(1, 1), [edge])
    assert caught.value.hint
    assert (caught.value.field or "").startswith("edges[0]")


def test_a_cycle_names_its_ops_in_order_and_no_others() -> None:
    role = OpRole.COMPUTE
    body = [OpDesc(i, stage=i, role=role) for i in range(5)]
    edges = [DepEdge(0, 1), DepEdge(1, 2), DepEdge(2, 3), DepEdge(3, 1), DepEdge(3, 4)]
    with pytest.raises(GraphError, match="form a cycle") as caught:
        LoopBody(body, edges)
    message = caught.value.message
    named = [int(word[1:]) for word in message.replace(":", " ").split() if word[:1] == "#"]
    assert named[0] == named[-1]
    assert sorted(named[:-1]) == [1, 2, 3]
    steps = {(1, 2), (2, 3), (3, 1)}
    assert set(pairwise(named)) == steps
    assert "loop_distance >= 1" in str(caught.value)


def test_descriptions_of_ops() -> None:
    fragment = OpDesc(3, 1, 2, role=OpRole.FRAGMENT_LOAD, channel=1)
    assert describe_op(fragment) == "FRAGMENT_LOAD B(stage 1, sub 2)"
    assert describe_op(fragment, 7) == "#7 FRAGMENT_LOAD B(stage 1, sub 2)"
    assert describe_op(OpDesc(3)) == "tag 3(stage 0, sub 0)"
    assert describe_op(OpDesc.wait_vm(4)) == "wait_vm(4)"
    assert describe_op(OpDesc.barrier()) == "barrier"
