"""When ops of one iteration can start, by their latencies and dependences alone.

What is counted are the edges of distance 0, which order ops within an iteration. Where those form a
cycle, the ops of it, and what follows them, start at 0 and hold nobody up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property


class DependenceTimes(ABC):
    """A graph of ops with latencies, numbered from 0."""

    @property
    @abstractmethod
    def latencies(self) -> tuple[int, ...]:
        """Cycles from the start of each op to its result."""

    @abstractmethod
    def within(self) -> Iterator[tuple[int, int]]:
        """Producer and consumer of every edge of distance 0."""

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each op its distinct d=0 predecessors, ascending."""
        found: list[set[int]] = [set() for _ in self.latencies]
        for producer, consumer in self.within():
            found[consumer].add(producer)
        return tuple(tuple(sorted(s)) for s in found)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each op its distinct d=0 successors, ascending."""
        found: list[list[int]] = [[] for _ in self.latencies]
        for consumer, producers in enumerate(self.predecessors):
            for producer in producers:
                found[producer].append(consumer)
        return tuple(tuple(s) for s in found)

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """An order that respects the d=0 edges (shorter than the body if they form a cycle)."""
        waiting = [len(p) for p in self.predecessors]
        ready = [i for i, count in enumerate(waiting) if count == 0]
        for node in ready:
            for successor in self.successors[node]:
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    ready.append(successor)
        return tuple(ready)

    @cached_property
    def asap(self) -> tuple[int, ...]:
        """The earliest start of each op, dependences alone."""
        start, latencies = [0] * len(self.latencies), self.latencies
        for i in self.topological:
            start[i] = max((start[p] + latencies[p] for p in self.predecessors[i]), default=0)
        return tuple(start)

    @cached_property
    def tails(self) -> tuple[int, ...]:
        """From the start of each op to the end of the iteration, dependences alone."""
        tail, latencies = list(self.latencies), self.latencies
        for i in reversed(self.topological):
            for p in self.predecessors[i]:
                tail[p] = max(tail[p], latencies[p] + tail[i])
        return tuple(tail)

    @cached_property
    def longest_path(self) -> int:
        """Cycles of one iteration with unlimited units."""
        return max((a + n for a, n in zip(self.asap, self.latencies, strict=True)), default=0)

    @cached_property
    def alap(self) -> tuple[int, ...]:
        """The latest start of each op that keeps the longest path."""
        return tuple(self.longest_path - t for t in self.tails)

    @cached_property
    def slack(self) -> tuple[int, ...]:
        """How far each op can move without lengthening the iteration."""
        return tuple(late - early for late, early in zip(self.alap, self.asap, strict=True))

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """One chain of zero-slack ops from a source to the end of the longest path."""
        ends = [start + n for start, n in zip(self.asap, self.latencies, strict=True)]
        tight = [i for i, end in enumerate(ends) if end == self.longest_path]
        chain: list[int] = []
        while tight:
            chain.append(tight[0])
            tight = [p for p in self.predecessors[chain[-1]] if ends[p] == self.asap[chain[-1]]]
        return tuple(reversed(chain))
