"""The dependence graph of one loop body: pure data, never schedules itself.

``LoopBody`` pairs the ops with their edges. Within one iteration only edges of distance 0 order
ops; edges of distance d >= 1 tie an op to a later iteration. All times are in cycles of the
target's cost model:

    ASAP(i)  = max over d=0 predecessors p of ASAP(p) + latency(p), 0 for a source
    ALAP(i)  = L - tail(i), where tail(i) = latency(i) + max tail of d=0 successors
    slack(i) = ALAP(i) - ASAP(i);  L = longest path = max ASAP(i) + latency(i)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

from pipeloom.checks import check_instance, check_int
from pipeloom.dependence_times import DependenceTimes
from pipeloom.errors import GraphError
from pipeloom.reference.ops import OpDesc, OpTag


class DepKind(IntEnum):
    """Why a consumer must follow its producer."""

    FLOW = 0
    """It reads what the producer wrote."""
    ANTI = 1
    """It overwrites what the producer read."""
    OUTPUT = 2
    """It overwrites what the producer wrote."""


@dataclass(frozen=True, slots=True)
class DepEdge:
    """A dependence of one op on another, in the same iteration or a later one."""

    producer: int
    """The op that comes first, by its index in the body."""
    consumer: int
    """The op that must follow, by its index in the body."""
    kind: DepKind = DepKind.FLOW
    """Why it must follow."""
    loop_distance: int = 0
    """How many iterations later the consumer runs; 0 orders ops of one iteration."""

    def __post_init__(self) -> None:
        check_int("DepEdge", "producer", self.producer, 0)
        check_int("DepEdge", "consumer", self.consumer, 0)
        check_int("DepEdge", "loop_distance", self.loop_distance, 0)
        check_instance("DepEdge", "kind", self.kind, DepKind)


def describe_op(op: OpDesc, index: int | None = None) -> str:
    """An op in words, as error messages and tables show it: ``#3 COMPUTE(stage 0, sub 1)``."""
    if op.is_framework:
        name = OpTag(op.tag).name.lower()
        text = f"{name}({op.wait_value})" if "WAIT" in OpTag(op.tag).name else name
    else:
        channel = {0: " A", 1: " B"}.get(op.channel, "")
        role = op.role.name if op.role.name != "NONE" else f"tag {op.tag}"
        text = f"{role}{channel}(stage {op.stage}, sub {op.subtile})"
    return text if index is None else f"#{index} {text}"


@dataclass(frozen=True)
class LoopBody(DependenceTimes):
    """Ops and their dependences: the graph of one iteration.

    Guarantees: every edge joins ops of the body, an op depends on itself only across iterations,
    and the edges of distance 0 form no cycle, so ``topological`` orders all ops.
    """

    ops: tuple[OpDesc, ...]
    """The ops, numbered from 0."""
    edges: tuple[DepEdge, ...] = field(default=())
    """What must follow what."""

    def __init__(self, ops: Iterable[OpDesc], edges: Iterable[DepEdge] = ()) -> None:
        object.__setattr__(self, "ops", tuple(ops))
        object.__setattr__(self, "edges", tuple(edges))
        self._check_kinds()
        self._check_bounds()
        if len(self.topological) < len(self.ops):
            raise self._cycle_error()

    def __len__(self) -> int:
        return len(self.ops)

    def _check_kinds(self) -> None:
        for number, op in enumerate(self.ops):
            if not isinstance(op, OpDesc):
                check_instance("LoopBody", f"ops[{number}]", op, OpDesc)
        for number, edge in enumerate(self.edges):
            if not isinstance(edge, DepEdge):
                check_instance("LoopBody", f"edges[{number}]", edge, DepEdge)

    def _check_bounds(self) -> None:
        n = len(self.ops)
        for number, edge in enumerate(self.edges):
            for end in ("producer", "consumer"):
                index = getattr(edge, end)
                if index >= n:
                    raise GraphError(
                        f"edge {number} ({edge.producer} -> {edge.consumer}): {end} {index} "
                        f"is not an op of this body",
                        hint=f"the body has {n} ops, numbered 0 to {n - 1}",
                        field=f"edges[{number}].{end}",
                    )
            if edge.producer == edge.consumer and edge.loop_distance == 0:
                op = describe_op(self.ops[edge.producer], edge.producer)
                raise GraphError(
                    f"edge {number}: {op} depends on itself in the same iteration",
                    hint="a self-dependence needs loop_distance >= 1",
                    field=f"edges[{number}]",
                )

    def _cycle_error(self) -> GraphError:
        placed = set(self.topological)
        node = next(i for i in range(len(self.ops)) if i not in placed)
        trail: list[int] = []
        while node not in trail:
            trail.append(node)
            node = next(p for p in self.predecessors[node] if p not in placed)
        cycle = [*trail[trail.index(node) :], node][::-1]
        words = " -> ".join(describe_op(self.ops[i], i) for i in cycle)
        return GraphError(
            f"dependences of distance 0 form a cycle: {words}",
            hint="no order can satisfy it; give one of these edges loop_distance >= 1",
            field="edges",
        )

    @cached_property
    def latencies(self) -> tuple[int, ...]:
        """Cycles from the start of each op to its result."""
        return tuple(op.latency for op in self.ops)

    def within(self) -> Iterator[tuple[int, int]]:
        """Producer and consumer of every edge of distance 0."""
        return ((e.producer, e.consumer) for e in self.edges if e.loop_distance == 0)

    def violations(self, order: Sequence[int]) -> tuple[DepEdge, ...]:
        """The d=0 edges whose consumer ``order`` places before its producer.

        Args:
            order: Op indices in the order in question.
        """
        position = {op: at for at, op in enumerate(order)}
        return tuple(
            e
            for e in self.edges
            if e.loop_distance == 0 and position[e.consumer] < position[e.producer]
        )
