"""Heads, tails and one-machine bounds: how long an unfinished order must still take.

The *head* of an op is the earliest it can start from here on; its *tail* the time that must pass
from its start to the end of the iteration. An op with head + tail > T rules out a makespan of T.
A serial unit rules out more: its ops hold it one after the other. Jackson's preemptive schedule,
always serving the released op with the longest remainder, gives the best such bound that lets
ops be split:

    head  held  rest         0  a a a b b b b b a a   10     a ends at 10, rest 4: at least 14
     0     5     4              |     ^ b is released, and more urgent
     3     5     9              b ends at 8, rest 9: at least 17  <- the bound

Worked out by J. Carlier, "The one-machine sequencing problem", EJOR 11 (1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from operator import itemgetter

Job = tuple[int, int, int]
"""Head, how long the unit is held, and the time from then to the end of the iteration."""

_head = itemgetter(0)


def preemptive_bound(jobs: list[Job]) -> tuple[int, int]:
    """When the unit is free again, and when the iteration ends, at the earliest."""
    jobs.sort(key=_head)
    waiting: list[tuple[int, int]] = []
    clock = jobs[0][0]
    end = 0
    at, count = 0, len(jobs)
    while at < count or waiting:
        if not waiting and jobs[at][0] > clock:
            clock = jobs[at][0]
        while at < count and jobs[at][0] <= clock:
            heappush(waiting, (-jobs[at][2], jobs[at][1]))
            at += 1
        rest, held = heappop(waiting)
        if at < count and clock + held > jobs[at][0]:
            held -= jobs[at][0] - clock
            clock = jobs[at][0]
            heappush(waiting, (rest, held))
        else:
            clock += held
            if clock - rest > end:
                end = clock - rest
    return clock, end


def strengthened_tails(
    latency: Sequence[int],
    unit: Sequence[int],
    held: Sequence[int],
    successors: Sequence[Sequence[tuple[int, int]]],
    follows: Sequence[int],
    sequence: Sequence[int],
    units: int,
) -> list[int]:
    """The tail of each op, with the queues on the units behind it taken into account.

    ``successors`` are (op, least distance between the two starts); ``follows[i]`` has a bit for
    each op that every order places after ``i``; ``sequence`` is an order that respects both.
    """
    n = len(latency)
    tail = [0] * n
    rank = [0] * n
    for position, op in enumerate(sequence):
        rank[op] = position
    for position in range(n - 1, -1, -1):
        i = sequence[position]
        best = latency[i]
        distance = [-1] * n
        distance[i] = 0
        jobs: list[list[Job]] = [[] for _ in range(units)]
        mine, after = unit[i], follows[i]
        for j in sequence[position:]:
            far = distance[j]
            if mine and unit[j] == mine and after >> j & 1 and far < held[i]:
                far = distance[j] = held[i]
            if far < 0:
                continue
            if j != i:
                if far + tail[j] > best:
                    best = far + tail[j]
                if unit[j]:
                    jobs[unit[j]].append((far, held[j], tail[j] - held[j]))
            for k, apart in successors[j]:
                if far + apart > distance[k]:
                    distance[k] = far + apart
        for queue in jobs:
            if queue:
                best = max(best, preemptive_bound(queue)[1])
        tail[i] = best
    return tail
