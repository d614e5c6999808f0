"""What a table's scalar instructions make of its addresses.

A load's tile, its LDS buffer and a read's buffer come from scalar registers that other entries
change: GRInc moves the descriptor to the next tile in nine instructions that share SCC, m0 is
written before each load, LWS and LRS swap buffers. ``follow`` runs these through one iteration and
says what every load and read then addresses, relative to what is meant; ``check_scalars`` comes
first, and refuses tables in which some are missing. A descriptor whose carry was lost (SCC written
in between) counts as one that has not moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.cms.table import Table
from pipeloom.errors import SpecError

Entry = tuple[str, int]

# Groups of GRInc that hand a carry or a comparison on: from the first to the last of each.
_CARRIES = ((0, 2), (3, 4), (5, 6), (7, 8))
_SETS_NO_SCC = (1, 2, 8)  # s_cselect
# Entries of each kind (CMS.md 3): GRInc has 6 without a 64-bit limit. One pointer of three buffers
# serves both operands: add, compare, move.
_COUNTS = {"GRIncA": (9, 6), "GRIncB": (9, 6), "LCC": (2,)}
_SWAPS = {
    2: {"LRSA": (1,), "LRSB": (1,), "LWSA": (1,), "LWSB": (1,)},
    3: {"LRSA": (4,), "LRSB": (1,), "LWSA": (3,), "LWSB": (0,)},
}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Of one code path: how far the entries miss what they mean, 0 where they do not.

    ``tile`` by (operand, load): tiles behind the one meant; ``write`` by (operand, load) and
    ``read`` by (kind, entry): buffers beyond the one meant. ``notes`` says why.
    """

    tile: dict[tuple[str, int], int]
    write: dict[tuple[str, int], int]
    read: dict[Entry, int]
    notes: tuple[str, ...]


def check_scalars(table: Table) -> None:
    """Refuses a table whose scalar instructions are not all there: a descriptor that is moved in
    part, a buffer that is not swapped, a loop that does not count."""
    for kind, counts in {**_COUNTS, **_SWAPS[table.lds_buffers]}.items():
        found = len(table.slots(kind, 0))
        if found not in counts:
            needed = " or ".join(map(str, counts))
            raise SpecError(
                f"table {table.id} has {found} entries of {kind}",
                hint=f"give {needed}, one per instruction ({table.lds_buffers} LDS buffers)",
                field=kind,
            )


def follow(table: Table, order: Sequence[Entry]) -> Addresses:
    """The addresses of one iteration whose entries are issued in ``order``."""
    at = {entry: position for position, entry in enumerate(order)}
    tile: dict[tuple[str, int], int] = {}
    write: dict[tuple[str, int], int] = {}
    read: dict[Entry, int] = {}
    notes: list[str] = []
    for operand in "AB":
        loads, step = table.loads(operand), f"GRInc{operand}"
        spoiled = [
            f"{order[clash][0]}[{order[clash][1]}] writes SCC between {step}[{first}] and [{last}]"
            for first, last in _CARRIES
            for clash in _between(at, (step, first), (step, last))
            if order[clash][0] != step and _writes_scc(order[clash])
        ]
        moved = max(p for (kind, _), p in at.items() if kind == step)
        swap = at.get((f"LWS{operand}", 0), at["LWSA", 0])
        for entry in range(1, len(table.slots(loads, 0)), 2):
            number, here = entry // 2, at[loads, entry]
            late = here < moved
            tile[operand, number] = int(late or bool(spoiled))
            if late:
                notes.append(f"{loads}[{entry}] loads before the last {step}")
            lost = _m0_lost(order, at, loads, entry)
            write[operand, number] = int(swap < at[loads, 0] or lost is not None)
            if lost is not None:
                notes.append(f"{loads}[{entry}] uses m0 of {lost}")
            elif swap < at[loads, 0]:
                notes.append(f"LWS{operand} swaps before {loads} writes m0")
        notes += spoiled
        swaps = max(p for (kind, _), p in at.items() if kind == f"LRS{operand}")
        for kind, entry in order:
            if kind[:3] == f"LR{operand}":
                ahead = kind[3:] != "0"
                late = at[kind, entry] > swaps
                read[kind, entry] = int(late) - int(ahead)
                if late != ahead:
                    notes.append(f"{kind}[{entry}] reads the other buffer: LRS{operand} is late")
    counter = at["LCC", 1]
    notes += [
        f"{kind}[{entry}] writes SCC behind the loop counter's comparison"
        for kind, entry in order[counter + 1 :]
        if _writes_scc((kind, entry))
    ]
    return Addresses(tile, write, read, tuple(notes))


def _between(at: dict[Entry, int], first: Entry, last: Entry) -> range:
    if first not in at or last not in at:
        return range(0)
    return range(at[first] + 1, at[last])


def _writes_scc(entry: Entry) -> bool:
    kind, number = entry
    if kind.startswith("GRInc"):
        return number not in _SETS_NO_SCC
    if kind in ("GRA", "GRB"):
        return number % 2 == 0 and number > 0  # the first is a move, the others add
    return kind[:3] == "LWS" or kind == "LCC"


def _m0_lost(order: Sequence[Entry], at: dict[Entry, int], loads: str, entry: int) -> str | None:
    """Who wrote m0 between the first write of this operand and the load, if not the operand."""
    for kind, number in order[at[loads, 0] : at[loads, entry]]:
        if kind in ("GRA", "GRB") and kind != loads and number % 2 == 0:
            return kind
    return None
