"""How long an iteration takes once a loop has settled: by the clock of its waves, and at the least.

``marks[w][i]`` is when wave w was ready for iteration i. The steady window leaves out warm-up and
drain. Where it repeats exactly, an iteration takes what one repetition says; no less than the
busiest unit needs for it, since a short run still fills queues and leaves work in them at its end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

from pipeloom.judge.simulate.instruction import WaveOp, WaveProgram
from pipeloom.machine.target import Target
from pipeloom.program.costs import Cost

Marks = Sequence[Sequence[int]]


def steady_window(iterations: int) -> tuple[int, int]:
    """The iterations [first, last) taken as steady: the middle, without warm-up and drain."""
    return (0, iterations) if iterations < 4 else (iterations // 3, iterations - 1)


def observed_cycles(marks: Marks, iterations: int, loop_end: Callable[[], int]) -> float:
    """Cycles per iteration by the times at which waves began those of the steady window.

    Where the window, or its later half, repeats exactly, the mean over one repetition. Otherwise
    the time in which every wave is inside the window over the iterations that a wave completes in
    it, averaged over the waves. Waves that no barrier holds together may drift so far apart that
    there is no such time; then the time of the whole loop, which ``loop_end`` ends, over the trip
    count.
    """
    first, last = steady_window(iterations)
    for start in (first, (first + last) // 2):
        repetition = _repetition(marks, start, last)
        if repetition is not None:
            return repetition
    begin = max(mark[first] for mark in marks)
    end = min(mark[last] for mark in marks)
    if end <= begin:
        begin = min(mark[0] for mark in marks)
        return (loop_end() - begin) / iterations
    done = [_iterations_at(mark, end) - _iterations_at(mark, begin) for mark in marks]
    return (end - begin) * len(done) / sum(done)


def _repetition(marks: Marks, first: int, last: int) -> float | None:
    """Cycles per iteration if every wave's iterations in [first, last) repeat in step.

    In step: no wave is more than a repetition behind another, so that all share the machine.
    """
    starts = [mark[first] for mark in marks]
    skew = max(starts) - min(starts)
    for length in range(1, (last - first) // 2 + 1):
        spans = {
            mark[i + length] - mark[i] for mark in marks for i in range(first, last - length + 1)
        }
        if len(spans) == 1 and skew <= min(spans):
            return spans.pop() / length
    return None


def _iterations_at(mark: Sequence[int], time: int) -> float:
    """Iterations a wave has completed by ``time``, counting part of the one under way."""
    whole = bisect_right(mark, time) - 1
    if whole >= len(mark) - 1:
        return float(len(mark) - 1)
    return whole + (time - mark[whole]) / (mark[whole + 1] - mark[whole])


def busy_cycles(programs: Sequence[WaveProgram], machine: Target) -> dict[str, float]:
    """Cycles that one iteration of all waves keeps each unit busy; the busiest SIMD counts."""
    known: dict[int, list[Cost]] = {}  # waves of a group share their loop
    for program in programs:
        if id(program.loop) not in known:
            known[id(program.loop)] = _costs(program.loop, machine)
    matrix, vector = Counter[int](), Counter[int]()
    array = texture = 0
    memory = 0.0
    for program in programs:
        costs = known[id(program.loop)]
        matrix[program.simd] += sum(cost.matrix for cost in costs)
        vector[program.simd] += sum(cost.vector for cost in costs)
        array += sum(cost.array for cost in costs)
        texture += sum(cost.texture for cost in costs)
        for cost in costs:
            memory += cost.memory
    return {
        "matrix": max(matrix.values()),
        "valu issue": max(vector.values()),
        "lds": array,
        "texture path": texture,
        "memory bandwidth": memory,
    }


def _costs(loop: Sequence[WaveOp], machine: Target) -> list[Cost]:
    known: dict[object, Cost] = {}  # many instructions, few kinds of them
    found = []
    for one in loop:
        key = (one.kind, id(one.matrix_op), one.bytes_per_lane, one.conflict)
        if key not in known:
            known[key] = one.cost(machine)
        found.append(known[key])
    return found
