"""The obligations of a proof, checked on one run: what is violated, and by which two accesses.

Each ``check_*`` returns ``Hazard`` values; it decides nothing about how bad they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeloom.judge.verify.schedules.findings import FindingKind
from pipeloom.judge.verify.schedules.model import Access, happens_before
from pipeloom.judge.verify.schedules.run import Read, Run, Use, WaveClass, Write
from pipeloom.judge.verify.schedules.visibility import Slice, slices
from pipeloom.reference.kernels.interface import Accumulator, Register


@dataclass(frozen=True, slots=True, eq=False)
class Hazard:
    """``second`` (in a wave of ``second_in``) may meet ``first``; ``use`` consumes the damage.

    ``expected`` and ``seen`` are K tiles; ``seen`` is ``None`` for data that nobody has loaded.
    """

    kind: FindingKind
    first: Access | None
    first_in: WaveClass
    second: Access
    second_in: WaveClass
    same_wave: bool
    where: str
    expected: int | None = None
    seen: int | None = None
    read: Read | None = None
    use: Use | None = None
    is_output: bool = False


@dataclass(slots=True)
class Outcome:
    """All hazards of a run, and what each read holds where that is settled."""

    hazards: list[Hazard] = field(default_factory=list)
    settled: dict[int, int] = field(default_factory=dict)
    """id(read) -> K tile. A read that is not settled counts as what its MMA expects."""
    used_writes: set[int] = field(default_factory=set)
    """id(access) of every write that some live read may see."""


def check_run(run: Run) -> Outcome:
    """Every obligation, on one trip count."""
    outcome = Outcome()
    for kind in run.classes:
        for read in kind.reads:
            if read.regions and not read.is_dead:
                outcome.hazards.extend(_check_memory(run, kind, read, outcome))
    for kind in run.classes:
        outcome.hazards.extend(_check_registers(kind, outcome))
        outcome.hazards.extend(_check_accounting(run, kind, outcome))
    return outcome


def _check_memory(run: Run, kind: WaveClass, read: Read, outcome: Outcome) -> Iterator[Hazard]:
    """RAW and WAR: the read sees one K tile in every slice, whatever the latencies."""
    looks = list(slices(run, kind, read))
    tiles: set[int | None] = set()
    for look in looks:
        tiles |= look.tiles
        outcome.used_writes.update(id(w.access) for w in look.visible if w is not None)
    if len(tiles) == 1 and None not in tiles:
        (tile,) = tiles
        assert tile is not None
        outcome.settled[id(read)] = tile
        return
    ordinals = [use.ordinal for use in read.uses if use.accumulator is not None]
    expected = next((n for n in ordinals if n in tiles), ordinals[0] if ordinals else None)
    if expected is None:
        return
    outcome.settled[id(read)] = expected
    for look in looks:
        if look.tiles != {expected}:
            yield from _blame(kind, read, look, expected)


def _blame(kind: WaveClass, read: Read, look: Slice, expected: int) -> Iterator[Hazard]:
    """Name the two accesses that nothing orders."""
    writes = look.owner.writes.get(look.region, [])
    meant = [w for w in writes if w.tile == expected]
    sure = any(
        happens_before(w.access, read.access, look.same_wave)
        and (not look.same_wave or w.access.issue < read.access.issue)
        for w in meant
    )
    use = read.uses[0]
    where = str(look.region)
    for wrong in look.visible:
        if wrong is not None and wrong.tile == expected:
            continue
        seen = None if wrong is None else wrong.tile
        if not meant:
            yield Hazard(
                FindingKind.ACCOUNTING,
                None if wrong is None else wrong.access,
                look.owner,
                read.access,
                kind,
                look.same_wave,
                where,
                expected,
                seen,
                read,
                use,
            )
            continue
        load = _nearest(meant, read)
        if wrong is None or wrong.access.issue < load.access.issue:
            if sure and wrong is not None:
                yield Hazard(
                    FindingKind.WAR,
                    wrong.access,
                    look.owner,
                    load.access,
                    look.owner,
                    True,
                    where,
                    expected,
                    seen,
                    read,
                    use,
                    is_output=True,
                )
                continue
            yield Hazard(
                FindingKind.RAW,
                load.access,
                look.owner,
                read.access,
                kind,
                look.same_wave,
                where,
                expected,
                seen,
                read,
                use,
            )
        else:
            yield Hazard(
                FindingKind.WAR,
                read.access,
                kind,
                wrong.access,
                look.owner,
                look.same_wave,
                where,
                expected,
                seen,
                read,
                use,
            )


def _nearest(meant: list[Write], read: Read) -> Write:
    """Of several loads of the same tile, the last one not after the read, else the first."""
    before = [w for w in meant if w.access.issue_epoch <= read.access.issue_epoch]
    return before[-1] if before else meant[0]


def _check_registers(kind: WaveClass, outcome: Outcome) -> Iterator[Hazard]:
    """Registers are loaded when an op reads them, by a load that has retired and landed last.

    A counter retires in issue order, so the last load of a register stands for all earlier ones on
    its own counter. One on another counter must have retired before the last is issued.
    """
    for use in kind.uses:
        if use.accumulator is None and id(use.access) not in outcome.used_writes:
            continue  # a store that no live fragment reads
        for register, read in use.operands:
            where = f"registers {register}"
            if read is None:
                yield Hazard(
                    FindingKind.REGISTER, None, kind, use.access, kind, True, where, use=use
                )
            elif not happens_before(read.access, use.access, same_wave=True):
                yield Hazard(
                    FindingKind.REGISTER,
                    read.access,
                    kind,
                    use.access,
                    kind,
                    True,
                    where,
                    read=read,
                    use=use,
                )
            if read is not None:
                yield from _check_rivals(kind, use, register, read)


def _check_rivals(kind: WaveClass, use: Use, register: Register, read: Read) -> Iterator[Hazard]:
    """``use`` takes what ``read`` brings, not what an older load brings after it."""
    for shared, older in read.rivals:
        if shared == register:
            yield Hazard(
                FindingKind.REGISTER,
                older.access,
                kind,
                read.access,
                kind,
                True,
                f"registers {register}",
                read=read,
                use=use,
                is_output=True,
            )


def _check_accounting(run: Run, kind: WaveClass, outcome: Outcome) -> Iterator[Hazard]:
    """Each accumulator sums every K tile exactly once, A and B of the same tile."""
    total = run.kernel.tiles(run.trips)
    sums: dict[Accumulator, dict[int, Use]] = {acc: {} for acc in run.kernel.accumulators()}
    last: dict[Accumulator, Use] = {}
    for use in kind.uses:
        if use.accumulator is None:
            continue
        summed = sums.setdefault(use.accumulator, {})
        last[use.accumulator] = use
        tiles = [
            use.ordinal if read is None else outcome.settled.get(id(read), use.ordinal)
            for _, read in use.operands
        ]
        where = str(use.accumulator)
        odd = next((i for i, tile in enumerate(tiles) if tile != tiles[0]), None)
        if odd is not None:
            # blame the operand that is not the tile whose turn it is
            guilty = 0 if tiles[0] != use.ordinal else odd
            yield _miscount(kind, use, guilty, tiles[guilty], where)
        elif not 0 <= tiles[0] < total or tiles[0] in summed:
            yield _miscount(kind, use, 0, tiles[0], where)
        else:
            summed[tiles[0]] = use
    for accumulator, summed in sums.items():
        if accumulator in last and len(summed) == total:
            continue
        missing = next(tile for tile in range(total) if tile not in summed)
        end = last.get(accumulator)
        if end is not None and end.ordinal + 1 >= total:
            continue  # enough MMAs: the wrong one among them is reported above
        access = end.access if end is not None else kind.timeline.accesses[-1]
        yield Hazard(
            FindingKind.ACCOUNTING,
            None,
            kind,
            access,
            kind,
            True,
            str(accumulator),
            expected=missing,
            use=end,
        )


def _miscount(kind: WaveClass, use: Use, operand: int, tile: int, where: str) -> Hazard:
    read = use.operands[operand][1]
    return Hazard(
        FindingKind.ACCOUNTING,
        None if read is None else read.access,
        kind,
        use.access,
        kind,
        True,
        where,
        expected=use.ordinal,
        seen=tile,
        read=read,
        use=use,
    )
