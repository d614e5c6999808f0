"""CSP: the best order of one iteration, and the proof that it is.

Least makespan first, then least VGPR peak, over every order that keeps the d=0 edges and the
limits. The greedy order is hard to beat and costs nothing, so it goes first; where it meets the
lower bound there is nothing to search. Otherwise the target makespan is raised from the bound
until an order fits (each target below was proved impossible on the way), the registers are
lowered until none fits, and of the orders that remain the first in index order is taken, so that
the answer depends on nothing but the input:

    optimal_schedule_with_halves(body, OrderLimits(lds_contention_penalty=20)).certificate
    -> Certificate("csp", makespan=500, vgpr_peak=96, lower_bound=420, proved=True, nodes=111)

(ping-pong; greedy takes 560 cycles.) At a limit, or Ctrl-C, the best order so far comes back with
``proved=False`` and, as ``lower_bound``, the target that was being tried: no order is shorter.
Where only the last step is cut short, the optimum stays proved: the order is one of the best,
but perhaps not the first of them.

Why not CP-SAT: importing it takes longer than the 35 ms in which a schedule is to be compiled. The
one formulation that was tried, without registers or blocks, had no proof of the makespan of the
ping-pong above after 1.8 s (bound 440 of 500), where this search takes 3 ms for all of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

from pipeloom.errors import InternalError
from pipeloom.reference.compiled import Certificate
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.strategies.branch_and_bound import BodySearch
from pipeloom.reference.strategies.contract import (
    GaveUp,
    LimitReached,
    NodeBudget,
    Ordering,
    OrderLimits,
)
from pipeloom.reference.strategies.cost import OrderCost, lower_bound, order_cost
from pipeloom.reference.strategies.greedy import greedy_schedule, simple_greedy
from pipeloom.reference.strategies.infeasible import explain_infeasible, undecided
from pipeloom.reference.strategies.tables import NEVER, Tables, allowed_peak, can_become_blocks

DEFAULT_NODE_LIMIT = 60_000
"""Where the caller sets neither limit: some seconds for a body of 96 ops, and reproducible."""

_FIRST_EFFORT = 2_000
_PROBES_PER_OP = 8


def optimal_schedule(body: LoopBody, limits: OrderLimits | None = None) -> Ordering:
    """The best order of ``body`` as one sequence; ``limits.halves`` is taken as False.

    Raises ``OrderError`` where no order meets the limits.

    Args:
        body: The graph of one iteration.
        limits: What the order must respect; none unless given.
    """
    return _solve(body, replace(limits or OrderLimits(), halves=False))


def optimal_schedule_with_halves(body: LoopBody, limits: OrderLimits | None = None) -> Ordering:
    """The best order whose halves stay apart and can become blocks; ``limits.halves`` is True.

    Args:
        body: The graph of one iteration.
        limits: What the order must respect; none unless given.
    """
    return _solve(body, replace(limits or OrderLimits(), halves=True))


@dataclass(frozen=True, slots=True)
class CspStrategy:
    """CSP: exact search.

    A greedy order that meets the lower bound is taken even where it cannot become blocks; the
    program then refuses it by name. The recorded cases of the reference ask for that: there the
    reference lost the ops in silence.
    """

    fit_blocks: bool = False
    """Whether the search looks for an order that can become blocks in that case, too."""
    name: ClassVar[str] = "csp"
    """As the command line and certificates spell it."""
    summary: ClassVar[str] = "the shortest order, then the fewest VGPRs, with proof; exact search"
    """One line for ``pipeloom list``."""

    def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
        """The optimal order under ``limits``, or the best found within its node or time limit.

        Args:
            body: The graph of one iteration.
            limits: What the order must respect.
        """
        return _solve(body, limits, fit_blocks=self.fit_blocks)


def _solve(body: LoopBody, limits: OrderLimits, *, fit_blocks: bool = True) -> Ordering:
    greedy = greedy_schedule(body) if limits.halves else simple_greedy(body)
    cost = order_cost(body, greedy, **limits.model)
    bound = lower_bound(body, **limits.model)
    affordable = cost.vgpr_peak <= allowed_peak(limits)
    fits = not limits.halves or can_become_blocks(body, greedy)
    if affordable and cost.makespan == bound and (fits or not fit_blocks):
        return _ordering(greedy, cost, bound, proved=True, nodes=0)
    usable = affordable and fits
    return _Optimum(body, limits, bound, greedy if usable else None).ordering()


def _ordering(
    order: tuple[int, ...], cost: OrderCost, bound: int, *, proved: bool, nodes: int
) -> Ordering:
    return Ordering(
        order,
        Certificate(CspStrategy.name, cost.makespan, cost.vgpr_peak, bound, proved, nodes),
    )


class _Optimum:
    """One search, from its incumbent to the answer.

    The greedy order need not respect ``max_globals`` to be the incumbent: the program spreads
    the loads of an order over its blocks, so it is a fair answer where nothing beats it.
    """

    def __init__(
        self,
        body: LoopBody,
        limits: OrderLimits,
        bound: int,
        incumbent: tuple[int, ...] | None,
    ) -> None:
        self.body = body
        self.limits = limits
        self.bound = bound
        self.floor = bound
        self.budget = _budget(limits)
        self.search = BodySearch(Tables(body, limits), self.budget)
        self.found = False
        self.order = incumbent
        self.cost = order_cost(body, incumbent, **limits.model) if incumbent is not None else None

    def ordering(self) -> Ordering:
        """The optimum, or the best order within the node and time limits."""
        proved = interrupted = False
        try:
            if self.order is None:
                self._find_any()
            self._lower_makespan()
            self._lower_peak()
            proved = True
            self._take_first()
        except LimitReached:
            pass
        except KeyboardInterrupt:
            interrupted = True
            if self.order is None:
                raise
        if self.order is None or self.cost is None:
            raise undecided(self.limits, self.budget.nodes)
        bound = self.bound if proved else self.floor
        found = _ordering(self.order, self.cost, bound, proved=proved, nodes=self.budget.nodes)
        return replace(found, interrupted=interrupted)

    def _accept(self, order: tuple[int, ...]) -> OrderCost:
        cost = order_cost(self.body, order, **self.limits.model)
        self.found, self.order, self.cost = True, order, cost
        return cost

    def _find_any(self) -> None:
        """No incumbent: any order at all, to have an answer and a ceiling."""
        order, _ = self.search.find(NEVER - 1, allowed_peak(self.limits))
        if order is None:
            raise explain_infeasible(self.body, self.limits)
        self._accept(order)

    def _lower_makespan(self) -> None:
        """Raise the target from the lower bound until an order meets it.

        A target that resists is left for a while, to look for short orders from above: they end
        the climb early, and are what is returned if it does not end in time.
        """
        try:
            self._raise_floor(_FIRST_EFFORT)
        except GaveUp:
            self._probe()
            self._raise_floor(NEVER)

    def _raise_floor(self, effort: int) -> None:
        """Prove the targets impossible one by one, up to the makespan of the best order."""
        peak = allowed_peak(self.limits)
        while self.cost is not None and self.floor < self.cost.makespan:
            order, following = self.search.find(self.floor, peak, effort=effort)
            if order is not None:
                self._accept(order)
            else:
                self.floor = min(following, self.cost.makespan)

    def _probe(self) -> None:
        """Bisect between the floor and the best order, with little effort at each step."""
        peak, effort = allowed_peak(self.limits), _PROBES_PER_OP * len(self.body)
        assert self.cost is not None
        doubtful = self.floor
        while self.cost.makespan - doubtful > 1:
            target = (doubtful + self.cost.makespan) // 2
            try:
                order, following = self.search.find(target, peak, effort=effort)
            except GaveUp:
                doubtful = target
                continue
            if order is not None:
                self._accept(order)
            else:
                self.floor = doubtful = min(following, self.cost.makespan)

    def _lower_peak(self) -> None:
        """Ask for fewer registers at the optimal makespan until no order has them."""
        if not any(op.vgpr_kill for op in self.body.ops):
            return
        assert self.cost is not None
        while True:
            order, _ = self.search.find(self.cost.makespan, self.cost.vgpr_peak - 1)
            if order is None:
                return
            self._accept(order)

    def _take_first(self) -> None:
        """Of equally good orders the first in index order; the incumbent stands unbeaten."""
        if not self.found or self.order is None or self.cost is None:
            return
        makespan, peak = self.cost.makespan, self.cost.vgpr_peak
        for order in self.search.descend_to_first(self.order, makespan, peak):
            if self._accept(order) != OrderCost(makespan, peak):
                raise InternalError(f"CSP found {self.cost}, better than its proved optimum")


def _budget(limits: OrderLimits) -> NodeBudget:
    nodes = limits.node_limit
    if nodes is None and limits.time_limit is None:
        nodes = DEFAULT_NODE_LIMIT
    if limits.time_limit is None:
        return NodeBudget(nodes)
    return NodeBudget(nodes, time.monotonic() + limits.time_limit)
