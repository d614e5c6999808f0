"""The core at one II, exactly: CP-SAT gives its ops slots, and the rest of the body follows.

Once core ops have slots, each op's time is the least one that satisfies its edges and, for a
placed op, falls into its slot. Least times also give the fewest stages those slots permit.
"""

from __future__ import annotations

from pipeloom.errors import InternalError
from pipeloom.order.modulo.core import Core, Hold, Structure
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.exact import ModuloModel, SearchOutcome
from pipeloom.order.modulo.longest_paths import settle_in_slots
from pipeloom.order.modulo.reservations import ReservationTable, first_free


def place_core(
    structure: Structure, ii: int, effort: Effort, work: float | None = None
) -> tuple[SearchOutcome, list[int]]:
    """Decide an II without budgets: start times of all ops, or a proof that there are none."""
    core = structure.core(ii)
    model = ModuloModel(ii, effort)
    turned = False
    for number, group in enumerate(core.groups):
        far = core.far[number]
        # Any op may be the origin of its group. All groups but one may also turn by 0..II-1.
        turn = ii - 1 if turned else 0
        turned = True
        for position, op in enumerate(group):
            low, high = far[0][position], -far[position][0]
            model.add_op(op, low, high + turn)
        for a, b, weight in reduced_distances(far):
            model.model.add(model.start[group[b]] - model.start[group[a]] >= weight)
    _order_twins(model, core)
    model.add_units(core.holds, structure.room(core.holds.values()))
    verdict, solver = model.solve(work)
    if verdict is not SearchOutcome.FOUND:
        return verdict, []
    slots = {op: solver.value(model.start[op]) % ii for op in core.holds}
    return verdict, _complete(structure, core, slots)


def _complete(structure: Structure, core: Core, slots: dict[int, int]) -> list[int]:
    """Start times of all ops, given the slots of the core."""
    ii = core.ii
    table = ReservationTable(ii, structure.room(core.holds.values()))
    for op, slot in slots.items():
        if not table.add(core.holds[op], slot):
            raise InternalError(f"core op {op} does not fit its slot {slot} at II {ii}")
    timed = structure.timed(ii)
    if core.fillers:
        rough = [0] * len(structure.problem.ops)
        settle_in_slots(timed, rough, slots, ii)
        for op in sorted(core.fillers, key=lambda item: (rough[item], item)):
            holds = structure.holds(op, ii)
            at = first_free(table.starts(holds), rough[op], rough[op] + ii - 1, ii)
            if at is None:
                raise InternalError(f"no free slot for an op that must fit at II {ii} by ResMII")
            slots[op] = at % ii
            table.add(holds, slots[op])
    times = [0] * len(structure.problem.ops)
    settle_in_slots(timed, times, slots, ii)
    return times


def _order_twins(model: ModuloModel, core: Core) -> None:
    """Ops alone in their group with equal holds are interchangeable: keep their slots sorted."""
    last: dict[tuple[Hold, ...], int] = {}
    for group in core.groups:
        if len(group) > 1:
            continue
        op = group[0]
        before = last.get(core.holds[op])
        if before is not None:
            model.model.add(model.slot[before] <= model.slot[op])
        last[core.holds[op]] = op


def reduced_distances(far: tuple[tuple[int, ...], ...]) -> list[tuple[int, int, int]]:
    """A small subset of the distances that implies them all: (a, b, least distance).

    Ops at a fixed distance from each other form a cluster, tied to its first op both ways; among
    first ops, a distance is dropped when a third one implies it.
    """
    import numpy as np

    size = len(far)
    matrix = np.array(far, dtype=np.int64)
    kept: list[tuple[int, int, int]] = []
    leaders: list[int] = []
    for op in range(size):
        for leader in leaders:
            if far[leader][op] + far[op][leader] == 0:
                kept.append((leader, op, far[leader][op]))
                kept.append((op, leader, far[op][leader]))
                break
        else:
            leaders.append(op)
    distances = matrix[np.ix_(leaders, leaders)]
    needed = ~np.eye(len(leaders), dtype=bool)
    for via in range(len(leaders)):
        through = distances[:, via : via + 1] + distances[via : via + 1, :]
        implied = through >= distances
        implied[via, :] = False
        implied[:, via] = False
        needed &= ~implied
    for a, b in zip(*needed.nonzero(), strict=True):
        kept.append((leaders[int(a)], leaders[int(b)], int(distances[a, b])))
    return kept
