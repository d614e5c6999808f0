"""Which ops depend on which: rule tables, evaluated over a body.

A rule names a set of producers, a set of consumers, conditions on the pair, and the kind and
distance of the edge. Tables are plain tuples, so a schedule extends them (``rules + (mine,)``)
or replaces them, and ``str(rule)`` reads as a sentence. Example, the second double-buffer rule:

    COMPUTE -> COMPUTE FLOW d=0: same stage and subtile; producer in half 0; different halves

Rules are evaluated in order; for each rule producers in body order, and for each producer
consumers in body order. No rule makes an op depend on itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.graph import DepEdge, DepKind
from pipeloom.reference.ops import KOffsetKind, OpDesc, OpRole


@dataclass(frozen=True, slots=True)
class PlacedOp:
    """An op with its index and half, as conditions see it."""

    index: int
    """The op's index in the body."""
    op: OpDesc
    """The op."""
    half: int
    """The half of the body it stands in: 0 or 1."""


@dataclass(frozen=True, slots=True)
class Selector:
    """The ops one end of a rule ranges over."""

    role: OpRole
    """The role they have."""
    carried: bool | None = None
    """True for loop-carried ops alone (those whose subtile equals the configuration's selector),
    False for the others; None for both."""
    nth: int | None = None
    """The n-th op of the role alone, from 0; None for all."""

    def __str__(self) -> str:
        text = {True: "carried ", False: "non-carried ", None: ""}[self.carried] + self.role.name
        return text if self.nth is None else f"{text}[{self.nth}]"

    def select(self, body: Sequence[PlacedOp], config: PipelineConfig) -> list[PlacedOp]:
        """The matching ops, in body order.

        Args:
            body: The ops with their places.
            config: The pipeline's shape.
        """
        found = [p for p in body if p.op.role is self.role]
        if self.carried is not None:
            selector = config.loop_carried.selector
            found = [p for p in found if (p.op.subtile == selector) is self.carried]
        if self.nth is not None:
            found = found[self.nth : self.nth + 1]
        return found


@dataclass(frozen=True, slots=True)
class Condition:
    """A named test on a producer and a consumer."""

    text: str
    """The test in words."""
    holds: Callable[[PlacedOp, PlacedOp, PipelineConfig], bool]
    """Whether a producer and a consumer pass it, under a configuration."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class EdgeRule:
    """A row of a rule table: an edge from each producer to each consumer for which every condition
    holds.
    """

    producer: Selector
    """Which ops come first."""
    consumer: Selector
    """Which ops must follow."""
    kind: DepKind
    """Why they must follow."""
    distance: int = 0
    """How many iterations later the consumer runs."""
    when: tuple[Condition, ...] = ()
    """What must hold of the two; all of them."""
    first_match: bool = False
    """Whether each producer has an edge to its first consumer only."""
    unless_prev: int | None = None
    """The distance where the producer is not a K_PREV load, if it differs from ``distance``."""

    def __str__(self) -> str:
        distance = f"d={self.distance}"
        if self.unless_prev is not None:
            distance += f" from a K_PREV load, else d={self.unless_prev}"
        where = "; ".join(str(c) for c in self.when)
        first = "; first match only" if self.first_match else ""
        head = f"{self.producer} -> {self.consumer} {self.kind.name} {distance}"
        return f"{head}: {where}{first}" if where or first else head

    def edges(self, body: Sequence[PlacedOp], config: PipelineConfig) -> list[DepEdge]:
        """The edges this rule finds, in the order stated at the top of this module.

        Args:
            body: The ops with their places.
            config: The pipeline's shape.
        """
        found: list[DepEdge] = []
        consumers = self.consumer.select(body, config)
        for producer in self.producer.select(body, config):
            distance = self.distance
            if self.unless_prev is not None and producer.op.k_offset is not KOffsetKind.K_PREV:
                distance = self.unless_prev
            for consumer in consumers:
                if producer.index == consumer.index:
                    continue
                for condition in self.when:
                    if not condition.holds(producer, consumer, config):
                        break
                else:
                    found.append(DepEdge(producer.index, consumer.index, self.kind, distance))
                    if self.first_match:
                        break
        return found


SAME_HALF = Condition("same half", lambda p, c, _: p.half == c.half)
OTHER_HALF = Condition("different halves", lambda p, c, _: p.half != c.half)
PRODUCER_IN_HALF_0 = Condition("producer in half 0", lambda p, c, _: p.half == 0)
PRODUCER_IN_HALF_1 = Condition("producer in half 1", lambda p, c, _: p.half == 1)
IN_HALF_OF_STAGE = Condition(
    "consumer in the half of the producer's stage", lambda p, c, _: c.half == min(p.op.stage, 1)
)
FRAGMENT_MATCHES = Condition(
    "the MMA's row or column is the fragment's subtile",
    lambda p, c, config: config.compute_match_key(c.op, p.op.channel) == p.op.subtile,
)
SAME_GRID_CELL = Condition(
    "same stage and subtile",
    lambda p, c, _: p.op.stage == c.op.stage and p.op.subtile == c.op.subtile,
)
SAME_BUFFER = Condition(
    "same channel and stage",
    lambda p, c, _: p.op.channel == c.op.channel and p.op.stage == c.op.stage,
)
SAME_SUBTILE = Condition("same subtile", lambda p, c, _: p.op.subtile == c.op.subtile)
CONSUMER_NOT_PREV = Condition(
    "the load is not K_PREV", lambda p, c, _: c.op.k_offset is not KOffsetKind.K_PREV
)

_LOAD = Selector(OpRole.GLOBAL_LOAD)
_STORE = Selector(OpRole.SHARED_STORE)
_FRAGMENT = Selector(OpRole.FRAGMENT_LOAD)
_COMPUTE = Selector(OpRole.COMPUTE)
_CARRIED_FRAGMENT = Selector(OpRole.FRAGMENT_LOAD, carried=True)
_LOCAL_FRAGMENT = Selector(OpRole.FRAGMENT_LOAD, carried=False)
_CARRIED_COMPUTE = Selector(OpRole.COMPUTE, carried=True)
_LOCAL_COMPUTE = Selector(OpRole.COMPUTE, carried=False)
_FIRST_SYNC = Selector(OpRole.SYNC, nth=0)
_SECOND_SYNC = Selector(OpRole.SYNC, nth=1)

_DOUBLE_BUFFER_RULES = (
    EdgeRule(_FRAGMENT, _COMPUTE, DepKind.FLOW, 0, (SAME_HALF, IN_HALF_OF_STAGE, FRAGMENT_MATCHES)),
    EdgeRule(_COMPUTE, _COMPUTE, DepKind.FLOW, 0, (SAME_GRID_CELL, PRODUCER_IN_HALF_0, OTHER_HALF)),
    EdgeRule(_COMPUTE, _COMPUTE, DepKind.FLOW, 1, (SAME_GRID_CELL, PRODUCER_IN_HALF_1, OTHER_HALF)),
    EdgeRule(_LOAD, _FRAGMENT, DepKind.FLOW, 0, (SAME_BUFFER,), unless_prev=1),
    EdgeRule(_FRAGMENT, _LOAD, DepKind.ANTI, 0, (SAME_BUFFER, CONSUMER_NOT_PREV)),
)

_SINGLE_BUFFER_RULES = (
    EdgeRule(_LOCAL_FRAGMENT, _LOCAL_COMPUTE, DepKind.FLOW, 0, (SAME_SUBTILE,), first_match=True),
    EdgeRule(_FIRST_SYNC, _STORE, DepKind.FLOW),
    EdgeRule(_STORE, _SECOND_SYNC, DepKind.FLOW),
    EdgeRule(_SECOND_SYNC, _CARRIED_FRAGMENT, DepKind.FLOW),
    EdgeRule(_LOCAL_FRAGMENT, _FIRST_SYNC, DepKind.ANTI),
    EdgeRule(_CARRIED_FRAGMENT, _CARRIED_COMPUTE, DepKind.FLOW, 1),
    EdgeRule(_LOAD, _STORE, DepKind.FLOW, 1),
    EdgeRule(_CARRIED_FRAGMENT, _STORE, DepKind.ANTI, 1),
)


def double_buffer_edge_rules() -> tuple[EdgeRule, ...]:
    """The rules for depth >= 2."""
    return _DOUBLE_BUFFER_RULES


def single_buffer_edge_rules() -> tuple[EdgeRule, ...]:
    """The rules for depth 1."""
    return _SINGLE_BUFFER_RULES


def default_edge_rules(config: PipelineConfig) -> tuple[EdgeRule, ...]:
    """The rules that fit the pipeline's depth."""
    return double_buffer_edge_rules() if config.depth >= 2 else single_buffer_edge_rules()


def derive_edges_from_ops(
    ops: Sequence[OpDesc], config: PipelineConfig, rules: Sequence[EdgeRule] | None = None
) -> list[DepEdge]:
    """Evaluate ``rules`` (the default ones for the depth) over a body.

    Args:
        ops: The body.
        config: The pipeline's shape.
        rules: The rule table; the default ones for the pipeline's depth unless given.
    """
    half = len(ops) // 2
    body = [PlacedOp(i, op, 0 if i < half else 1) for i, op in enumerate(ops)]
    table = default_edge_rules(config) if rules is None else rules
    return [edge for rule in table for edge in rule.edges(body, config)]


def is_cross_stage(ops: Sequence[OpDesc], index: int) -> bool:
    """Whether op ``index`` is a subtile-0 fragment of the stage its partition does not own."""
    op = ops[index]
    if op.role is not OpRole.FRAGMENT_LOAD or op.subtile != 0:
        return False
    return op.stage != _partition(ops, index)


def _partition(ops: Sequence[OpDesc], index: int) -> int:
    return 0 if index < len(ops) // 2 else 1


def filter_spurious_cross_stage_flow(
    ops: Sequence[OpDesc], edges: Sequence[DepEdge]
) -> list[DepEdge]:
    """Drop FLOW edges from a cross-stage fragment to an MMA of its own partition.

    Such a fragment is for the other partition; the generic rules cannot know that.

    Args:
        ops: The body.
        edges: Its edges.
    """
    return [
        e
        for e in edges
        if not (
            e.kind is DepKind.FLOW
            and is_cross_stage(ops, e.producer)
            and ops[e.consumer].role is OpRole.COMPUTE
            and _partition(ops, e.consumer) == _partition(ops, e.producer)
        )
    ]


def derive_cross_stage_rotation_edges(ops: Sequence[OpDesc]) -> list[DepEdge]:
    """The edges of register rotation.

    A cross-stage fragment feeds the matching MMAs of the other partition (FLOW, one iteration
    later when it sits in partition 1), and must not overwrite the register before the matching
    MMAs of its own partition have read it (ANTI).

    Args:
        ops: The body.
    """
    edges: list[DepEdge] = []
    for i, fragment in enumerate(ops):
        if not is_cross_stage(ops, i):
            continue
        mine = _partition(ops, i)
        for j, mma in enumerate(ops):
            if mma.role is not OpRole.COMPUTE:
                continue
            key = mma.stage if fragment.channel == 0 else mma.subtile
            if key != 0:
                continue
            if _partition(ops, j) != mine:
                edges.append(DepEdge(i, j, DepKind.FLOW, 0 if mine == 0 else 1))
            else:
                edges.append(DepEdge(j, i, DepKind.ANTI, 0))
    return edges
