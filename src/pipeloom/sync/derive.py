"""``synchronize``: waits and barriers from the dependences alone, and a proof of the result.

    fixed = synchronize(compiled)
    assert verify(fixed).proved

The order of the data ops stays. From it follow the demands (``dependences``), from those the fewest
barriers (``barriers``), from those the loosest waits (``waits``); what turns out to be covered by
others is dropped again. In the result no barrier can be removed and no wait loosened by one entry
without losing the proof. With ``keep_barriers`` the given barriers take the place of derived ones
(``keep``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeloom.checks import check_instance
from pipeloom.errors import InternalError, OrderError
from pipeloom.judge.verify.schedules import FindingKind, verify
from pipeloom.judge.verify.schedules.run import Run
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import Kernel, kernel_for
from pipeloom.reference.ops import Phase
from pipeloom.sync.dependences import OrderConflict, demands, precedences
from pipeloom.sync.keep import derive_waits
from pipeloom.sync.place import place_synchronisation
from pipeloom.sync.reorder import nearest_order
from pipeloom.sync.samples import sample_runs
from pipeloom.sync.skeleton import Gap, Skeleton, Synchronisation, assemble
from pipeloom.sync.waits import Bench, GroupWalk, RunDemands, free_passages


def synchronize(
    compiled: CompiledSchedule,
    kernel: Kernel | None = None,
    reorder: bool = False,
    keep_barriers: bool = False,
    *,
    loop_barriers: Sequence[int] | None = None,
) -> CompiledSchedule:
    """``compiled`` with its data ops in order, and new waits and barriers; the result is PROVED.

    With ``keep_barriers`` the barriers stay where they are among the data ops, and only the waits
    are new: for schedules whose barriers also set the pace, like the ping-pong's.

    ``loop_barriers`` proposes where the loop's barriers stand, as the numbers of the data ops that
    they precede: a schedule that knows its times knows where a barrier stalls nobody. The proposal
    is taken if waits can make it sound, else the fewest barriers are derived as without it.

    An order that no synchronisation (or none with these barriers) can save raises ``OrderError``;
    with ``reorder`` the fewest data ops move instead, and a note on the result says which. Compiler
    fences and priorities stay where they are among the data ops.
    """
    check_instance("synchronize", "compiled", compiled, CompiledSchedule)
    if kernel is not None:
        check_instance("synchronize", "kernel", kernel, Kernel)
    model = kernel_for(compiled) if kernel is None else kernel
    if keep_barriers:
        result, notes = derive_waits(model, compiled, reorder)
    else:
        result, notes = _derive_all(model, compiled, reorder, loop_barriers)
    result = replace(result, notes=(*compiled.notes, *notes))
    verdict = verify(result, model)
    if not verdict.proved:
        worst = verdict.findings[0]
        if worst.kind is FindingKind.ACCOUNTING:
            raise OrderError(
                f"synchronisation cannot repair the sums: {worst.where}, {worst.second}: "
                f"{worst.why}",
                hint="the data ops themselves are wrong; compile the schedule again",
            )
        raise InternalError(f"synchronised schedule is not proved: {worst.describe()}")
    return result


def _derive_all(
    model: Kernel, compiled: CompiledSchedule, reorder: bool, loop_barriers: Sequence[int] | None
) -> tuple[CompiledSchedule, list[str]]:
    """New waits and barriers, and notes on what was done."""
    skeleton = Skeleton.of(compiled)
    runs = _stripped_runs(model, skeleton)
    conflicts = [c for run in runs for c in demands(run).conflicts]
    notes: list[str] = []
    if conflicts:
        skeleton, moves = _nearest(skeleton, runs, conflicts, reorder)
        runs = _stripped_runs(model, skeleton)
        notes.append("reordered: " + "; ".join(moves))
        still = [c for run in runs for c in demands(run).conflicts]
        if still:
            raise _unsavable(still[0], "no order within an iteration is legal either")
    sync = _derive(model, skeleton, runs, None if conflicts else loop_barriers)
    notes.append("waits and barriers derived from dependences")
    return assemble(skeleton, sync), notes


def _stripped_runs(model: Kernel, skeleton: Skeleton) -> list[Run]:
    return sample_runs(model, assemble(skeleton, Synchronisation()))


def _numbered(run: Run) -> list[Gap]:
    """Each data op's phase and number in that phase."""
    places: list[Gap] = []
    number = 0
    previous: object = None
    for access in run.timelines[0].accesses:
        step = access.step
        part = (step.phase, step.iteration)
        number = number + 1 if part == previous else 0
        previous = part
        places.append((step.phase, number))
    return places


def _nearest(
    skeleton: Skeleton, runs: list[Run], conflicts: list[OrderConflict], reorder: bool
) -> tuple[Skeleton, list[str]]:
    """The skeleton in the nearest legal order, and what moved; an error unless ``reorder``."""
    pairs: dict[Phase, set[tuple[int, int]]] = {phase: set() for phase in Phase}
    for run in runs:
        number = {
            id(access): place[1]
            for timeline in run.timelines
            for access, place in zip(timeline.accesses, _numbered(run), strict=True)
        }
        for first, second in precedences(run):
            same = (first.step.phase, first.step.iteration)
            if same == (second.step.phase, second.step.iteration):
                pairs[first.step.phase].add((number[id(first)], number[id(second)]))
    moves = []
    for phase in Phase:
        order, moved = nearest_order(skeleton.data[phase], sorted(pairs[phase]))
        for op in moved:
            at = order.index(op)
            where = f"after {_name(skeleton, phase, order[at - 1])}" if at else "to the front"
            moves.append(f"{phase.name.lower()}: {_name(skeleton, phase, op)} moves {where}")
        skeleton = skeleton.with_order(phase, order)
    if not reorder:
        offer = "; ".join(moves) or "none within an iteration"
        raise _unsavable(conflicts[0], f"{offer}. reorder=True applies it")
    return skeleton, moves


def _name(skeleton: Skeleton, phase: Phase, op: int) -> str:
    entry = skeleton.data[phase][op]
    return f"[{entry.time_slot}] {describe_op(entry.op)}"


def _unsavable(conflict: OrderConflict, offer: str) -> OrderError:
    return OrderError(
        f"no synchronisation can save this order: {conflict.describe()}",
        hint=f"nearest legal order: {offer}",
        field="order",
    )


def _derive(
    model: Kernel, skeleton: Skeleton, runs: list[Run], loop_barriers: Sequence[int] | None
) -> Synchronisation:
    table = []
    prologue_end = skeleton.gaps(Phase.PROLOGUE) - 1
    for run in runs:
        places = tuple(_numbered(run))
        walks = tuple(
            GroupWalk(
                [a.step for a in timeline.accesses],
                [model.effect(a.step, members[0]) for a in timeline.accesses],
                places,
                free_passages(places, [a.issue_epoch for a in timeline.accesses], prologue_end),
            )
            for timeline, members in zip(run.timelines, model.groups, strict=True)
        )
        table.append(RunDemands(run.trips, walks, demands(run).orderings))
    return place_synchronisation(skeleton, Bench(table, prologue_end), loop_barriers)
