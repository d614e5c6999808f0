"""The first order anyone would try: always the lowest-index op that is ready.

IDENTITY: the order the body was built in, taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeloom.errors import OrderError
from pipeloom.reference.compiled import Certificate
from pipeloom.reference.graph import LoopBody, describe_op
from pipeloom.reference.strategies.contract import Ordering, OrderLimits
from pipeloom.reference.strategies.cost import lower_bound, order_cost


def greedy_schedule(body: LoopBody) -> tuple[int, ...]:
    """For each half in turn, repeatedly the lowest-index ready op of that half.

    Args:
        body: The graph of one iteration.
    """
    half = len(body) // 2
    return _place(body, (range(half), range(half, len(body))))


def simple_greedy(body: LoopBody) -> tuple[int, ...]:
    """The same over all ops, with no halves.

    Args:
        body: The graph of one iteration.
    """
    return _place(body, (range(len(body)),))


def _place(body: LoopBody, groups: Iterable[range]) -> tuple[int, ...]:
    placed: set[int] = set()
    order: list[int] = []
    for group in groups:
        waiting = list(group)
        while waiting:
            ready = next(
                (i for i in waiting if all(p in placed for p in body.predecessors[i])), None
            )
            if ready is None:
                raise _blocked(body, waiting, placed)
            waiting.remove(ready)
            placed.add(ready)
            order.append(ready)
    return tuple(order)


def _blocked(body: LoopBody, waiting: list[int], placed: set[int]) -> OrderError:
    op = waiting[0]
    producer = next(p for p in body.predecessors[op] if p not in placed)
    return OrderError(
        f"{describe_op(body.ops[op], op)} is in the first half but depends on "
        f"{describe_op(body.ops[producer], producer)} of the second half in the same iteration",
        hint="give that edge loop_distance 1, or move one of the two ops to the other half",
        field="edges",
    )


class GreedyStrategy:
    """GREEDY: no search, dependences respected."""

    name = "greedy"
    summary = "the lowest-index ready op first, half by half; no search"

    def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
        """The greedy order, with its cost against the lower bound."""
        order = greedy_schedule(body) if limits.halves else simple_greedy(body)
        return certify(self.name, body, limits, order)


def certify(name: str, body: LoopBody, limits: OrderLimits, order: tuple[int, ...]) -> Ordering:
    """The certificate of an order found without search: proved only if it meets the bound."""
    cost, bound = order_cost(body, order, **limits.model), lower_bound(body, **limits.model)
    legal = not body.violations(order)
    proved = legal and cost.makespan == bound
    return Ordering(order, Certificate(name, cost.makespan, cost.vgpr_peak, bound, proved, 0))


class IdentityStrategy:
    """Keeps the declared order, even where it breaks the body's own d=0 edges.

    The specification's schedules rely on that; the verdict tells whether the result is safe.
    """

    name = "identity"
    summary = "the order the schedule declared, unchanged"

    def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
        """0, 1, 2, ..."""
        return certify(self.name, body, limits, tuple(range(len(body))))
