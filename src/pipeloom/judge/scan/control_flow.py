"""Straight runs of code, loops, and the first trip of a loop apart from the later ones.

What is in flight at a loop's head differs between the way in and the way round. Joined, neither is
certain; a defect that every later trip has would only be possible. So a place is visited in
*contexts*: for every loop around it, whether the loop has gone round since it was entered.

    head:  entered        context 0        what the prologue left in flight
           gone round     context 1        what the body left in flight
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeloom.judge.scan.scanned_code import ScanStep

MOST_CONTEXTS = 8
"""Of one block; with more loops around it, later trips are not told from first ones."""


@dataclass(frozen=True, slots=True)
class StraightRun:
    """Instructions that are executed one after the other, and the runs that may follow."""

    start: int
    end: int
    follows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CodePaths:
    """All runs that can be reached, by number; the first is where the kernel starts."""

    runs: tuple[StraightRun, ...]
    around: tuple[int, ...]
    """Per run, the loops around it as bits."""
    heads: dict[int, int]
    """Run -> the bit of the loop that it is the head of."""
    back: frozenset[tuple[int, int]]
    """(from, to) that go round a loop."""

    def follow(self, run: int, context: int) -> Iterator[tuple[int, int]]:
        """Where control may go from a run in a context."""
        for target in self.runs[run].follows:
            bit = self.heads.get(target, 0)
            after = context | bit if (run, target) in self.back else context & ~bit
            yield target, after & self.around[target]


def control_flow(steps: Sequence[ScanStep]) -> CodePaths:
    """The runs of a program."""
    starts = {0} | {t for step in steps for t in step.targets}
    starts |= {step.at + 1 for step in steps if step.targets or not step.falls}
    ordered = sorted(at for at in starts if at < len(steps))
    number = {at: n for n, at in enumerate(ordered)}
    every = []
    for start, end in zip(ordered, [*ordered[1:], len(steps)], strict=True):
        last = steps[end - 1]
        follows = [number[t] for t in last.targets]
        if last.falls and end < len(steps):
            follows.append(number[end])
        every.append(StraightRun(start, end, tuple(dict.fromkeys(follows))))
    order, back = _walk(every)
    kept = {old: new for new, old in enumerate(sorted(order))}
    runs = tuple(
        StraightRun(every[old].start, every[old].end, tuple(kept[t] for t in every[old].follows))
        for old in sorted(order)
    )
    edges = frozenset((kept[a], kept[b]) for a, b in back)
    heads = {head: 1 << n for n, head in enumerate(sorted({b for _, b in edges}))}
    around = _around(runs, edges, heads)
    return CodePaths(runs, around, heads, edges)


def _walk(runs: Sequence[StraightRun]) -> tuple[list[int], set[tuple[int, int]]]:
    """Runs that can be reached, and edges back to a run that is still open."""
    seen, open_, order = {0}, {0}, [0]
    back: set[tuple[int, int]] = set()
    stack = [(0, iter(runs[0].follows))]
    while stack:
        run, rest = stack[-1]
        target = next(rest, None)
        if target is None:
            stack.pop()
            open_.discard(run)
        elif target in open_:
            back.add((run, target))
        elif target not in seen:
            seen.add(target)
            open_.add(target)
            order.append(target)
            stack.append((target, iter(runs[target].follows)))
    return order, back


def _around(
    runs: Sequence[StraightRun], back: frozenset[tuple[int, int]], heads: dict[int, int]
) -> tuple[int, ...]:
    """Per run, the loops that it belongs to: it reaches a way back without passing the head."""
    before: list[list[int]] = [[] for _ in runs]
    for number, run in enumerate(runs):
        for target in run.follows:
            before[target].append(number)
    around = [0] * len(runs)
    for end, head in back:
        bit = heads[head]
        around[head] |= bit
        todo = [end]
        while todo:
            place = todo.pop()
            if not around[place] & bit:
                around[place] |= bit
                todo += before[place]
    return tuple(loops if loops.bit_count() < MOST_CONTEXTS.bit_length() else 0 for loops in around)
