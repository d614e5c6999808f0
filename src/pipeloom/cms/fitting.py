"""Slots of a table for an order of MFMAs: what a loop becomes that is not in the form of a table.

A table's loop loads K tile t + 2 while t is multiplied, reads the second register set of t before
the first one of t + 1, loads all of one operand before the other, and swaps its buffers once.
``place`` puts each entry where that form has it and it costs least:

    GRInc  ahead of the loads
    LR0    from the first MFMA on, at the pace of LDS
    GR     evenly behind GRInc, and with two buffers behind a barrier that follows the last LR0
    LR1    at the pace of LDS, as late as the next iteration lets them: behind a barrier that
           follows the loads of the iteration before, and behind the last use of their registers

Waits allow as much as they can. What is placed so keeps the rules of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import ceil

from pipeloom.cms.fragments import FIRST, SECOND, FragmentMap, products
from pipeloom.cms.table import SyncEntry, Table
from pipeloom.machine.target import Target, Traffic

KINDS = (
    "GRIncA", "GRIncB", "LRA0", "LRB0", "LRSA", "LRSB", "GRA", "GRB", "LWSA", "LWSB",
    "LRA1", "LRB1", "SYNC", "LCC",
)  # fmt: skip
"""In a slot they stand in this order: SYNC behind all that it waits for."""
READ_BYTES = 16
"""Of a lane, by one ``ds_read_b128``."""
MOVES = 9
"""Entries of GRInc."""
HURRIED = 6
"""Of them in a slot, where LDS has three buffers: memory sets the time there, and loads come
first."""
LOOP_COUNTER = 2
"""Entries of LCC."""

Fragment = tuple[str, int, int]  # operand, register set, tile


def place(frame: Table, loads: Mapping[str, int], reads: int, target: Target) -> Table:
    """``frame``, which has no entries yet, with them: so many loads by operand, and reads of each
    fragment."""
    return _LoadPlace(frame, loads, reads, target).table()


def swaps(lists: Mapping[str, Sequence[int]], buffers: int) -> dict[str, list[int]]:
    """LRS and LWS as early as they can stand.

    With three buffers, one pointer serves both operands and wraps around: add, compare, move.
    """
    read = {operand: lists[f"LR{operand}0"][-1] for operand in "AB"}
    written = {operand: lists[f"GR{operand}"][-1] for operand in "AB"}
    if buffers == 2:
        return {
            f"{kind}{operand}": [at[operand]]
            for kind, at in (("LRS", read), ("LWS", written))
            for operand in "AB"
        }
    swap = max(read.values())
    return {"LRSA": [swap] * 4, "LRSB": [swap], "LWSA": [max(written.values())] * 3, "LWSB": []}


@dataclass
class _Room:
    """Instructions that still fit between MFMAs without holding the next one up."""

    free: list[int]

    def take(self, first: int, last: int) -> int:
        """The first slot with room; the last, where none has any."""
        slot = next((s for s in range(first, last) if self.free[s] > 0), last)
        self.free[slot] -= 1
        return slot

    def run(self, wanted: Sequence[int], last: int) -> list[int]:
        """Slots for one instruction after the other, none sooner than it is wanted."""
        found: list[int] = []
        for first in wanted:
            found.append(self.take(min(last, max([first, *found[-1:]])), last))
        return found


@dataclass(frozen=True)
class _LoadPlace:
    frame: Table
    loads: Mapping[str, int]
    each: int
    target: Target

    def table(self) -> Table:
        end = self.frame.num_mfma - 2  # the branch fills the last slot
        room = _Room([self._between] * (end + 1) + [0])
        room.free[end] -= LOOP_COUNTER
        three = self.frame.lds_buffers == 3
        moved = [n // HURRIED for n in range(2 * MOVES)] if three else []
        early = self._reads(SECOND)
        needed = min(self._uses[fragment][0] for fragment in early)
        slots = room.run([n * self._pace for n in range(len(early))], needed - 1)
        lists = _by_kind("0", early, slots)
        free = min(slots[-1] + self._latency, end // 2)

        late = self._reads(FIRST)
        ahead = 0 if three else self._latency
        first = max(end + 1 - len(late) * self._pace - ahead, free + 1)
        there = first - 1
        for barrier in {there} if three else {free, there}:
            room.free[barrier] = 0
            room.free[barrier - 1] -= 1
        wanted = [
            max(first + n * self._pace, self._uses[fragment][1]) for n, fragment in enumerate(late)
        ]
        lists |= _by_kind("1", late, room.run(wanted, end))

        moved = moved or room.run([0] * 2 * MOVES, free)
        lists |= {"GRIncA": moved[:MOVES], "GRIncB": moved[MOVES:]}
        begin = moved[-1] + 1 if three else free + 1
        total = sum(self.loads.values())
        loads = room.run([begin + (end - begin) * (n // 2) // total for n in range(2 * total)], end)
        a = 2 * self.loads["A"]
        lists |= {"GRA": loads[:a], "GRB": loads[a:]}
        lists |= swaps(lists, self.frame.lds_buffers)
        if not three:
            for operand in "AB":
                lists[f"LRS{operand}"] = [room.take(lists[f"LR{operand}0"][-1], there)]
                lists[f"LWS{operand}"] = [room.take(lists[f"GR{operand}"][-1], end)]
        lists["LCC"] = [end] * LOOP_COUNTER
        return self._synchronized(lists, free, there)

    def _synchronized(self, lists: dict[str, list[int]], free: int, there: int) -> Table:
        """With waits and barriers: ``free`` behind the reads of this tile, ``there`` behind the
        loads of the next."""
        issued = sum(slot < there for kind in ("GRA", "GRB") for slot in lists[kind][1::2])
        most = self.target.counting(Traffic.GLOBAL).limit.value - 1
        stops = {free: SyncEntry(dscnt=0), there: SyncEntry(vlcnt=min(issued, most))}
        if self.frame.lds_buffers == 3 or free == there:
            stops = {there: replace(stops[there], dscnt=0)}
        emptied = {slot - 1 for slot, wait in stops.items() if wait.dscnt == 0}
        sync = [*self._waits(self._with(lists), emptied)]
        for slot, wait in stops.items():
            sync += [(slot - 1, wait), (slot, SyncEntry(barrier=True))]
        sync.sort(key=lambda item: item[0])
        lists["SYNC"] = [slot for slot, _ in sync]
        return self._with(lists, tuple(one for _, one in sync))

    def _with(self, lists: Mapping[str, Sequence[int]], sync: tuple[SyncEntry, ...] = ()) -> Table:
        schedule = {kind: (tuple(lists[kind]),) for kind in KINDS if kind in lists}
        return replace(self.frame, schedule=schedule, sync=sync)

    # --- times ------------------------------------------------------------------------------------

    @cached_property
    def _cycles(self) -> int:
        shape = "x".join(map(str, self.frame.mi))
        name = f"{shape}_{'fp8' if self.frame.dtype == 'fp8' else 'f16'}"
        return self.target.matrix_op(name).cycles.value

    @property
    def _between(self) -> int:
        """Instructions between two MFMAs."""
        rest = self._cycles - self.target.mfma_operand_cycles.value
        return rest // self.target.issue_cycles.value

    @property
    def _served(self) -> float:
        """Cycles of LDS for a read of every wave."""
        each = self.target.wave_lanes.value * READ_BYTES / self.target.lds_bytes_per_clk.value
        return each * self.target.simds.value

    @property
    def _pace(self) -> int:
        """MFMAs from a read to the next."""
        return ceil(self._served / self._cycles)

    @property
    def _latency(self) -> int:
        """MFMAs from a read to its data, with one of every wave ahead of it."""
        wait = self.target.lds_latency.value + self.target.lds_queue_delay.value + self._served
        return ceil(wait / self._cycles) + 1

    # --- fragments --------------------------------------------------------------------------------

    @cached_property
    def _taken(self) -> list[tuple[Fragment, Fragment]]:
        """What each MFMA multiplies."""
        return [
            (("A", a_half, a), ("B", b_half, b)) for a, a_half, b, b_half, _ in products(self.frame)
        ]

    @cached_property
    def _uses(self) -> dict[Fragment, tuple[int, int]]:
        """The first and the last MFMA of each fragment."""
        found: dict[Fragment, tuple[int, int]] = {}
        for number, pair in enumerate(self._taken):
            for fragment in pair:
                found[fragment] = (found.get(fragment, (number,))[0], number)
        return found

    def _tiles(self, operand: str, half: int) -> list[Fragment]:
        """What the entries of a kind read, in their order."""
        tiles, _ = FragmentMap(self.frame, operand).tiles_of(half)
        return [(operand, half, tile) for tile in tiles for _ in range(self.each)]

    def _reads(self, half: int) -> list[Fragment]:
        """The reads of a register set in the order in which they are due; tiles in theirs."""
        due: list[tuple[int, Fragment]] = []
        for operand in "AB":
            mine = self._tiles(operand, half)
            firsts = [self._uses[fragment][0] for fragment in reversed(mine)]
            due += zip(reversed([*accumulate(firsts, min)]), mine, strict=True)
        return [fragment for _, fragment in sorted(due, key=lambda item: item[0])]

    def _waits(self, table: Table, emptied: set[int]) -> Iterator[tuple[int, SyncEntry]]:
        """Before each MFMA whose fragments may not be there, for all that should be by then."""
        most = self.target.counting(Traffic.LDS).limit.value - 1
        order = list(table.order(0))
        kinds = [(f"LR{x}{d}", x, half) for d, half in (("0", SECOND), ("1", FIRST)) for x in "AB"]
        reads = {
            (kind, entry): (fragment, table.slots(kind, 0)[entry])
            for kind, operand, half in kinds
            for entry, fragment in enumerate(self._tiles(operand, half))
        }
        issued = [
            (fragment, slot - table.num_mfma)
            for fragment, slot in (reads[item] for item in order if item in reads)
            if fragment[1] == FIRST
        ]
        done = 0
        for kind, number in order:
            if (kind, number) in reads:
                issued.append(reads[kind, number])
            elif kind == "MFMA":
                if number - 1 in emptied:
                    done = len(issued)
                due = [n for n in range(done, len(issued)) if issued[n][0] in self._taken[number]]
                if due:
                    young = sum(slot >= number - self._latency for _, slot in issued)
                    count = min(len(issued) - 1 - due[-1], most, young)
                    done = len(issued) - count
                    yield number - 1, SyncEntry(dscnt=count)


def _by_kind(digit: str, reads: Sequence[Fragment], slots: Sequence[int]) -> dict[str, list[int]]:
    return {
        f"LR{operand}{digit}": [s for s, f in zip(slots, reads, strict=True) if f[0] == operand]
        for operand in "AB"
    }
