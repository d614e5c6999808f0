"""Follow what is in flight along every path until nothing changes any more.

Work is counted, so that a hostile kernel ends in ``TooMuchWorkError`` after the same number of
steps on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from pipeloom.judge.emulate.traps import EmulateError
from pipeloom.judge.scan.in_flight import InFlight
from pipeloom.judge.scan.scanned_code import ScanStep

MOST_WORK = 6_000_000
"""Events that one kernel may take; the largest of AITER takes a tenth."""

Node = TypeVar("Node", bound=Hashable)


class TooMuchWorkError(EmulateError):
    """A kernel whose paths are too many."""


def apply(state: InFlight, step: ScanStep, bit: int, in_lds: bool) -> None:
    """One event."""
    if step.queues:
        state.issue(step.queues, bit, in_lds)
    elif step.wait is not None:
        state.wait(step.wait)
    elif step.barrier:
        state.barrier(in_lds)
    if step.other_lanes:
        state.mask()


Event = tuple[ScanStep, int, bool]
"""A step, the operation that it issues as a bit (0: none), whether other waves can meet it; of a
barrier, whether some waves are one ahead."""


def solve(
    first: Node,
    follow: Callable[[Node], Iterable[Node]],
    events: Callable[[Node], Sequence[Event]],
    rank: Callable[[Node], int],
) -> dict[Node, InFlight]:
    """What is in flight at the start of every node that can be reached."""
    found = {first: InFlight()}
    todo: list[tuple[int, int, Node]] = [(rank(first), 0, first)]
    waiting = {first}
    work = tick = 0
    while todo:
        _, _, node = heapq.heappop(todo)
        waiting.discard(node)
        state = found[node].copy()
        steps = events(node)
        work += len(steps) + 1
        if work > MOST_WORK:
            raise TooMuchWorkError(f"its paths take more than {MOST_WORK:,} steps to follow")
        for step, bit, in_lds in steps:
            apply(state, step, bit, in_lds)
        for target in follow(node):
            before = found.get(target)
            if before is None:
                found[target] = state.copy()
            elif not before.join(state):
                continue
            if target not in waiting:
                waiting.add(target)
                tick += 1
                heapq.heappush(todo, (rank(target), tick, target))
    return found
