"""From slots to a whole schedule: every op as early as the chosen slots allow.

Once core ops have slots, each op's time is the least one that satisfies its edges and, for a
placed op, falls into its slot. Least times also give the fewest stages those slots permit.
"""

from __future__ import annotations

from pipeloom.errors import InternalError
from pipeloom.order.modulo.core import Core, Structure
from pipeloom.order.modulo.longest_paths import TimedGraph
from pipeloom.order.modulo.reservations import ReservationTable


def complete_schedule(structure: Structure, core: Core, placed: dict[int, int]) -> list[int]:
    """Start times of all ops, given those of the core (up to whole IIs per group)."""
    ii = core.ii
    slots = {op: at % ii for op, at in placed.items()}
    table = ReservationTable(ii, core.capacity, core.base)
    for op, slot in slots.items():
        if not table.add(core.holds[op], slot):
            raise InternalError(f"core op {op} does not fit its slot {slot} at II {ii}")
    timed = structure.timed(ii)
    if core.fillers:
        rough = [0] * len(structure.problem.ops)
        settle_in_slots(timed, rough, slots, ii)
        for op in sorted(core.fillers, key=lambda item: (rough[item], item)):
            holds = structure.holds(op, ii)
            slot = _next_slot(table.starts(holds), rough[op], ii)
            table.add(holds, slot)
            slots[op] = slot
    times = [0] * len(structure.problem.ops)
    settle_in_slots(timed, times, slots, ii)
    return times


def settle_in_slots(timed: TimedGraph, times: list[int], slots: dict[int, int], ii: int) -> None:
    """Raise ``times`` to the least values that satisfy every edge and every given slot."""
    fixed: list[int | None] = [slots.get(op) for op in range(timed.count)]
    for op, slot in enumerate(fixed):
        if slot is not None:
            times[op] += (slot - times[op]) % ii
    for _ in range(timed.count * 4 + 4):
        changed = False
        for src, dst, weight in timed.edges:
            at = times[src] + weight
            if at > times[dst]:
                slot = fixed[dst]
                times[dst] = at if slot is None else at + (slot - at) % ii
                changed = True
        if not changed:
            return
    raise InternalError(f"slots at II {ii} do not extend to a schedule")


def _next_slot(starts: int, earliest: int, ii: int) -> int:
    if not starts:
        raise InternalError(f"no free slot for an op that ResMII says must fit at II {ii}")
    turn = earliest % ii
    rotated = (starts >> turn | starts << (ii - turn)) & ((1 << ii) - 1)
    return (earliest + (rotated & -rotated).bit_length() - 1) % ii
