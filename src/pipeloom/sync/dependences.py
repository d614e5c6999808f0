"""What must be ordered, read off the data flow alone.

The n-th MMA of an accumulator is to sum K tile n. That says which tile each live fragment load is
meant to read, hence which load must have landed before it (RAW) and which one must not yet have
been issued (WAR). An ``Ordering`` is one such demand between two data ops of one run, for one pair
of wave groups: the first must have *retired* when the second is *issued*.

Every wave issues every load, so a wave's own program order must already agree. Where it does not,
no wait or barrier can help: that is an ``OrderConflict``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeloom.errors import OrderError
from pipeloom.judge.verify.schedules.findings import describe_data_op
from pipeloom.judge.verify.schedules.model import Access
from pipeloom.judge.verify.schedules.run import Read, Run, Use, WaveClass, Write


@dataclass(frozen=True, slots=True)
class Ordering:
    """Data op ``first`` (by number in the walk of ``first_group``) must retire before ``second``.

    ``apart`` is how many barriers of the schedule must stand between the two: one more than the
    kernel's own barriers put the first group behind the second. 0 for the same wave.
    """

    first_group: int
    first: int
    second_group: int
    second: int
    same_wave: bool
    apart: int


@dataclass(frozen=True, slots=True)
class OrderConflict:
    """``early`` is issued by the same wave before ``late``, but has to come after it."""

    early: Access
    late: Access
    what: str

    def describe(self) -> str:
        """Both ops, by place and in words."""
        return f"{_words(self.early)} comes before {_words(self.late)}: {self.what}"


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of one run."""

    orderings: tuple[Ordering, ...]
    conflicts: tuple[OrderConflict, ...]


def _words(access: Access) -> str:
    step = access.step
    return f"{step.phase.name.lower()}[{step.slot}] {describe_data_op(step)}"


def demands(run: Run) -> Demands:
    """The orderings that make every live read see its own tile, and the order's own conflicts.

    ``run`` must be that of a schedule without waits and barriers: its epochs then count the
    kernel's own barriers only.
    """
    collector = _Collector(run)
    for kind in run.classes:
        for use in kind.uses:
            collector.registers(kind, use)
        for read in kind.reads:
            if read.regions and not read.is_dead:
                collector.memory(kind, read)
    return Demands(tuple(collector.orderings), tuple(collector.conflicts.values()))


class _Collector:
    """Gathers orderings and conflicts of one run, each once, in a fixed order."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._number = {id(a): n for t in run.timelines for n, a in enumerate(t.accesses)}
        self.orderings: dict[Ordering, None] = {}
        self.conflicts: dict[tuple[int, int], OrderConflict] = {}

    def registers(self, kind: WaveClass, use: Use) -> None:
        """What an MMA or store reads must have been loaded, and by nothing else after that."""
        for register, read in use.operands:
            if read is None:
                raise OrderError(
                    f"{_words(use.access)} reads registers {register} before anything loads them",
                    hint="load the fragment first; no synchronisation can repair this",
                )
            self._order(read.access, kind, use.access, kind, True)
            for shared, older in read.rivals:
                if shared == register:
                    self._order(older.access, kind, read.access, kind, True)

    def memory(self, kind: WaveClass, read: Read) -> None:
        """The load of the read's own generation, and the next one, in every slice."""
        tile = meant_tile(read)
        for region in read.regions:
            owners = [owner for owner in self._run.classes if region in owner.writes]
            if not owners:
                raise _lost(read, tile)
            for owner in owners:
                around = self._around(owner.writes[region], read, tile)
                if around is not None:
                    self._slice(kind, read, owner, *around)

    def _slice(
        self,
        kind: WaveClass,
        read: Read,
        owner: WaveClass,
        before: Write | None,
        meant: Write,
        after: Write | None,
    ) -> None:
        for same_wave in (True, False):
            if same_wave and owner is not kind:
                continue
            if not same_wave and owner is kind and len(kind.waves) == 1:
                continue
            self._order(meant.access, owner, read.access, kind, same_wave)
            if after is not None:
                self._order(read.access, kind, after.access, owner, same_wave)
        if before is not None:
            self._order(before.access, owner, meant.access, owner, True)

    def _around(
        self, writes: list[Write], read: Read, tile: int
    ) -> tuple[Write | None, Write, Write | None] | None:
        """In program order: the write before the one that is meant, that one, and the next."""
        place = self._number[id(read.access)]
        mine = [at for at, w in enumerate(writes) if w.tile == tile]
        if not mine:
            raise _lost(read, tile)
        at = next((i for i in reversed(mine) if self._at(writes[i]) < place), mine[0])
        if self._at(writes[at]) > place:
            self._conflict(read.access, writes[at].access, "the load must come first")
            return None
        if at + 1 < len(writes) and self._at(writes[at + 1]) < place:
            what = "it loads the next generation before the last read of the old one"
            self._conflict(writes[at + 1].access, read.access, what)
            return None
        after = writes[at + 1] if at + 1 < len(writes) else None
        return (writes[at - 1] if at else None), writes[at], after

    def _at(self, write: Write) -> int:
        return self._number[id(write.access)]

    def _conflict(self, early: Access, late: Access, what: str) -> None:
        key = (self._number[id(early)], self._number[id(late)])
        self.conflicts.setdefault(key, OrderConflict(early, late, what))

    def _order(
        self, first: Access, kind: WaveClass, second: Access, other: WaveClass, same_wave: bool
    ) -> None:
        apart = 0 if same_wave else 1 + first.issue_epoch - second.issue_epoch
        numbers = self._number[id(first)], self._number[id(second)]
        ordering = Ordering(kind.group, numbers[0], other.group, numbers[1], same_wave, apart)
        self.orderings.setdefault(ordering)


def meant_tile(read: Read) -> int:
    """The K tile that a live read is for: that of the MMAs that use it."""
    turns = {use.ordinal for use in read.uses if use.accumulator is not None}
    if len(turns) == 1:
        return turns.pop()
    users = ", ".join(_words(use.access) for use in read.uses)
    raise OrderError(
        f"{_words(read.access)} is read for K tiles {sorted(turns)} by {users}",
        hint="reload the registers between MMAs of different K tiles",
    )


def _lost(read: Read, tile: int) -> OrderError:
    return OrderError(
        f"no load brings K tile {tile}, which {_words(read.access)} is meant to read",
        hint="the schedule loses data: no synchronisation and no order can repair that",
    )


def precedences(run: Run) -> Iterator[tuple[Access, Access]]:
    """Pairs of one wave's accesses that every legal order keeps, as data flow demands."""
    for kind in run.classes:
        yield from _register_flow(kind.uses, kind.reads)
        for read in kind.reads:
            if not read.regions or read.is_dead:
                continue
            tile = meant_tile(read)
            for region in read.regions:
                for write in kind.writes.get(region, ()):
                    if write.tile is None or write.tile <= tile:
                        yield write.access, read.access
                    else:
                        yield read.access, write.access


def _register_flow(uses: list[Use], reads: list[Read]) -> Iterator[tuple[Access, Access]]:
    """Load before use, and use before the registers are loaded again."""
    later: dict[object, list[Read]] = {}
    for read in reads:
        for register in read.registers:
            later.setdefault(register, []).append(read)
    for use in uses:
        for register, held in use.operands:
            if held is None:
                continue
            yield held.access, use.access
            following = [r for r in later[register] if r.access.issue > held.access.issue]
            if following:
                yield use.access, following[0].access
