"""The walk of all waves as one static program: prologue, loop body, epilogue.

A kernel model says what each wave executes for a trip count; machine code is written once. The
plan is what the walks have in common: every step once, with the groups of waves that execute it
and, for a load, the K tile as ``loop tile + constant``, where the loop tile advances by
``tiles_per_iteration`` each trip and is 0 in the prologue.

    plan = plan_kernel(kernel, compiled)
    [str(s) for s in plan.prologue]    # 'load ...', 'barrier (stagger) of group 1', ...

The plan is taken from walks of several lengths and refused where they disagree, so a kernel
model of your own is checked for being a loop at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import Effect, Kernel, Register, Step
from pipeloom.reference.ops import OpDesc, Phase
from pipeloom.write.faults import EmitError


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of the program; ``groups`` are those that execute it, None for all."""

    op: OpDesc
    phase: Phase
    slot: int
    tile: int | None = None
    origin: str = ""
    groups: tuple[int, ...] | None = None

    def __str__(self) -> str:
        what = describe_op(self.op) + (f" ({self.origin})" if self.origin else "")
        if self.groups is None:
            return what
        return what + " of group " + ", ".join(map(str, self.groups))


@dataclass(frozen=True, slots=True)
class Plan:
    """The program; ``first_tiles`` K tiles are summed when the loop does not run."""

    kernel: Kernel
    prologue: tuple[PlannedStep, ...]
    loop: tuple[PlannedStep, ...]
    epilogue: tuple[PlannedStep, ...]
    tiles_per_iteration: int
    first_tiles: int

    def steps(self) -> tuple[PlannedStep, ...]:
        """All steps in the order of the text."""
        return self.prologue + self.loop + self.epilogue

    def effect(self, step: PlannedStep) -> Effect:
        """What a step touches, by the kernel model; of wave 0, where waves differ in rows only."""
        placed = Step(0, step.op, step.phase, step.slot, None, 0, step.tile, step.origin)
        return self.kernel.effect(placed, 0)


Merged = list[tuple[PlannedStep, tuple[int, ...]]]


def plan_kernel(kernel: Kernel, compiled: CompiledSchedule) -> Plan:
    """The static program of ``kernel`` for this schedule; raises ``EmitError`` if there is none."""
    parts = [_parts(kernel, compiled, members[0]) for members in kernel.groups]
    merged = [_merge([part[i] for part in parts], kernel) for i in range(3)]
    # The loop runs trips - min_trips times past what is always executed.
    least = kernel.min_trips
    prologue, loop, epilogue = merged
    return Plan(
        kernel,
        prologue,
        loop,
        epilogue,
        tiles_per_iteration=kernel.tiles_per_iteration,
        first_tiles=kernel.tiles(least) - least * kernel.tiles_per_iteration,
    )


def _parts(
    kernel: Kernel, compiled: CompiledSchedule, wave: int
) -> tuple[list[PlannedStep], list[PlannedStep], list[PlannedStep]]:
    """Prologue, loop body and epilogue of one wave, from a walk of enough trips to compare."""
    advance = kernel.tiles_per_iteration
    trips = max(kernel.min_trips, 1) + 1
    walk = kernel.walk(compiled, wave, trips)
    bodies = [[s for s in walk if s.iteration == trip] for trip in range(trips)]
    first = next((i for i, s in enumerate(walk) if s.iteration is not None), len(walk))
    count = sum(map(len, bodies))
    prologue = [_planned(s, 0) for s in walk[:first]]
    loop = [_planned(s, 0) for s in bodies[0]]
    epilogue = [_planned(s, trips * advance) for s in walk[first + count :]]
    for trip, body in enumerate(bodies):
        if [_planned(s, trip * advance) for s in body] != loop:
            raise EmitError(
                f"trips 0 and {trip} of the {kernel.name} kernel's loop differ: it is no loop",
                hint="each trip must walk the same entries, its loads tiles_per_iteration further",
                field="kernel",
            )
    least = kernel.min_trips
    for other in sorted({least, trips + 1}):
        again = kernel.walk(compiled, wave, other)
        shape = [_planned(s, 0) for s in again if s.iteration is None]
        head = shape[: len(prologue)]
        tail = [
            replace(s, tile=None if s.tile is None else s.tile - other * advance)
            for s in shape[len(prologue) :]
        ]
        if head != prologue or tail != epilogue:
            raise EmitError(
                f"the {kernel.name} kernel walks another prologue or epilogue with {other} trips "
                f"than with {trips}",
                hint="only the number of trips may depend on K",
                field="kernel",
            )
    return prologue, loop, epilogue


def _planned(step: Step, loop_tile: int) -> PlannedStep:
    tile = None if step.tile is None else step.tile - loop_tile
    return PlannedStep(step.op, step.phase, step.slot, tile, step.origin)


def _merge(parts: Sequence[list[PlannedStep]], kernel: Kernel) -> tuple[PlannedStep, ...]:
    """One list of steps from one per group; they may differ in the kernel's own barriers."""
    merged: Merged = [(step, (0,)) for step in parts[0]]
    for group, steps in enumerate(parts[1:], start=1):
        result: Merged = []
        i = j = 0
        while i < len(merged) or j < len(steps):
            left = merged[i] if i < len(merged) else None
            right = steps[j] if j < len(steps) else None
            if left is not None and right is not None and left[0] == right:
                result.append((left[0], (*left[1], group)))
                i, j = i + 1, j + 1
            elif right is not None and right.origin and (left is None or not left[0].origin):
                result.append((right, (group,)))
                j += 1
            elif left is not None and left[0].origin:
                result.append(left)
                i += 1
            else:
                raise EmitError(
                    f"groups of the {kernel.name} kernel walk different entries: "
                    f"{left and left[0]} and {right}",
                    hint="groups may differ only in the kernel's own barriers",
                    field="kernel",
                )
        merged = result
    every = tuple(range(len(parts)))
    return tuple(
        replace(step, groups=None if groups == every else groups) for step, groups in merged
    )


def register_lifetimes(plan: Plan, compiled: CompiledSchedule) -> dict[Register, frozenset[int]]:
    """For each register bank of the kernel model, the steps of the plan at which it is live.

    A bank is live from the issue of the op that writes it (its registers are undefined until the
    op retires) to the last read before the next write. A value that nothing reads is live to the
    next write or the end: its load may still be in flight.
    """
    kernel = plan.kernel
    live: dict[Register, set[int]] = {}
    for members in kernel.groups:
        for trips in range(kernel.min_trips, kernel.min_trips + 4):
            walk = kernel.walk(compiled, members[0], trips)
            places = _places(plan, walk)
            for register, spans in _spans(kernel, walk, members[0]):
                steps = live.setdefault(register, set())
                for start, end in spans:
                    steps.update(places[start : end + 1])
    return {register: frozenset(live[register]) for register in sorted(live)}


def _places(plan: Plan, walk: Sequence[Step]) -> list[int]:
    """Position in ``plan.steps()`` of every step of a walk."""
    position = {(step.phase, step.slot, step.origin): at for at, step in enumerate(plan.steps())}
    return [position[step.phase, step.slot, step.origin] for step in walk]


def _spans(
    kernel: Kernel, walk: Sequence[Step], wave: int
) -> Iterator[tuple[Register, list[tuple[int, int]]]]:
    """Per register: (write, last read) index pairs of the walk."""
    events: dict[Register, list[tuple[int, bool]]] = {}
    for at, step in enumerate(walk):
        effect = kernel.effect(step, wave)
        for register in effect.register_reads:
            events.setdefault(register, []).append((at, False))
        for register in effect.register_writes:
            events.setdefault(register, []).append((at, True))
    for register, uses in events.items():
        spans: list[tuple[int, int]] = []
        start, last = None, None
        for at, is_write in uses:
            if not is_write:
                last = at
                continue
            if start is not None:
                spans.append((start, at - 1 if last is None else last))
            start, last = at, None
        if start is not None:
            spans.append((start, len(walk) - 1 if last is None else last))
        yield register, spans
