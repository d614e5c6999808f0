"""Barriers and waits for a skeleton: loop first, then epilogue, then prologue, then cleaning up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeloom.errors import InternalError
from pipeloom.reference.kernels.interface import Counter
from pipeloom.reference.ops import Phase
from pipeloom.reference.resync.barriers import Distance, line_barriers, loop_barriers
from pipeloom.reference.resync.skeleton import Gap, Skeleton, Slot, Synchronisation
from pipeloom.reference.resync.waits import Bench, RunDemands


def place_synchronisation(
    skeleton: Skeleton, bench: Bench, loop_barriers: Sequence[int] | None = None
) -> Synchronisation:
    """A synchronisation that meets every demand, and of which nothing can be spared.

    The loop's barriers are those proposed by ``loop_barriers`` if that can be made sound.
    """
    sync = _placed(skeleton, bench, loop_barriers)
    if loop_barriers is not None and not bench.holds(sync):
        sync = _placed(skeleton, bench, None)
    if not bench.holds(sync):
        raise InternalError("the derived barriers and waits do not meet the demands")
    _drop_barriers(bench, sync)
    _loosen_waits(bench, sync)
    return sync


def place_waits(bench: Bench) -> Synchronisation:
    """The loosest waits for barriers that stand already; nothing of them can be spared."""
    sync = Synchronisation()
    for first in (Phase.KERNEL, Phase.EPILOGUE, Phase.PROLOGUE):
        for second in Phase:
            bench.tighten(sync, first, second)
    if not bench.holds(sync):
        raise InternalError("the derived waits do not meet the demands")
    _loosen_waits(bench, sync)
    return sync


def epilogue_burdens(bench: Bench) -> set[Gap]:
    """The epilogue's ops for whose sake a wait of the loop must be tighter than the loop needs."""
    sync = Synchronisation()
    bench.tighten(sync, Phase.KERNEL, Phase.KERNEL)
    return {
        run.walks[0].places[ordering.second]
        for run in bench.runs
        for ordering, slot in bench.late(run, sync, Phase.KERNEL, Phase.EPILOGUE)
        if slot[0] is Phase.KERNEL
    }


def _placed(
    skeleton: Skeleton, bench: Bench, loop_barriers: Sequence[int] | None
) -> Synchronisation:
    sync = Synchronisation()
    if loop_barriers is None:
        _place_in_loop(skeleton, bench, sync)
    else:
        for gap in loop_barriers:
            sync.barriers[Phase.KERNEL, gap] = 1
        bench.tighten(sync, Phase.KERNEL, Phase.KERNEL)
    _place_in_epilogue(skeleton, bench, sync)
    _place_in_prologue(skeleton, bench, sync)
    return sync


def _place_in_loop(skeleton: Skeleton, bench: Bench, sync: Synchronisation) -> None:
    size = skeleton.gaps(Phase.KERNEL)
    demanded: dict[Distance, None] = {}
    loads: dict[tuple[int, int, int, int], None] = {}
    entries = _kernel_entries(bench.runs[-1], size)
    for run in bench.runs:
        walk = run.walks[0]
        for ordering in run.between(Phase.KERNEL, Phase.KERNEL):
            x, y = walk.places[ordering.first][1], walk.places[ordering.second][1]
            first, second = walk.steps[ordering.first], walk.steps[ordering.second]
            assert first.iteration is not None
            assert second.iteration is not None
            later = second.iteration - first.iteration
            if ordering.apart > 0:
                demanded.setdefault(Distance(x, y, later, ordering.apart))
                if walk.effects[ordering.first].counter is Counter.VM:
                    loads.setdefault((x, y, later, ordering.apart))
    if not size:
        return
    score = _looseness(size, list(loads), entries)
    for gap, count in enumerate(loop_barriers(size, sorted(demanded), score)):
        _put(sync.barriers, (Phase.KERNEL, gap), count)
    bench.tighten(sync, Phase.KERNEL, Phase.KERNEL)


def _kernel_entries(run: RunDemands, size: int) -> list[int]:
    """vm entries of each data op of the loop."""
    entries = [0] * size
    walk = run.walks[0]
    for place, effect in zip(walk.places, walk.effects, strict=True):
        if place[0] is Phase.KERNEL and effect.counter is Counter.VM:
            entries[place[1]] = effect.entries
    return entries


def _looseness(
    size: int, loads: list[tuple[int, int, int, int]], entries: list[int]
) -> Callable[[list[int]], int]:
    """Score barriers by the vm entries that waits for the loop's loads may leave in flight."""

    def score(counts: list[int]) -> int:
        total = 0
        for x, y, later, apart in loads:
            left = apart
            at = later * size + y
            while at > x:
                left -= counts[at % size]
                if left <= 0:
                    break
                at -= 1
            total += sum(entries[n % size] for n in range(x + 1, at))
        return total

    return score


def _place_in_epilogue(skeleton: Skeleton, bench: Bench, sync: Synchronisation) -> None:
    """What the loop's own waits have not retired is waited for, and published, in here."""
    size = skeleton.gaps(Phase.EPILOGUE)
    floors = [0] * size
    rows: dict[tuple[int, int, int], None] = {}
    for run in bench.runs:
        replays = bench.replay(run, sync)
        places = run.walks[0].places
        start = next((n for n, place in enumerate(places) if place[0] is Phase.EPILOGUE), None)
        if start is None:
            continue
        base = [replay.accesses[start].issue_epoch for replay in replays]
        for ordering in run.between(Phase.EPILOGUE, Phase.EPILOGUE):
            if ordering.apart > 0:
                x, y = places[ordering.first][1], places[ordering.second][1]
                rows.setdefault((x, y, ordering.apart))
        for ordering in run.between(Phase.KERNEL, Phase.EPILOGUE):
            if ordering.same_wave:
                continue
            access = replays[ordering.first_group].accesses[ordering.first]
            done = min(access.retire_epoch, base[ordering.first_group])
            y = places[ordering.second][1]
            floors[y] = max(floors[y], done + 1 - base[ordering.second_group])
    for gap, count in enumerate(line_barriers(size, floors, sorted(rows))):
        _put(sync.barriers, (Phase.EPILOGUE, gap), count)
    bench.tighten(sync, Phase.KERNEL, Phase.EPILOGUE)
    bench.tighten(sync, Phase.EPILOGUE, Phase.EPILOGUE)


def _place_in_prologue(skeleton: Skeleton, bench: Bench, sync: Synchronisation) -> None:
    """Everything the later phases do not wait for anyway is waited for at the end at the latest."""
    size = skeleton.gaps(Phase.PROLOGUE)
    rows: dict[tuple[int, int, int], None] = {}
    for run in bench.runs:
        replays = bench.replay(run, sync)
        places = run.walks[0].places
        for second in Phase:
            for ordering in run.between(Phase.PROLOGUE, second):
                x, y = places[ordering.first][1], places[ordering.second][1]
                if ordering.same_wave:
                    continue
                if second is Phase.PROLOGUE:
                    rows.setdefault((x, y, ordering.apart))
                    continue
                access = replays[ordering.first_group].accesses[ordering.first]
                then = replays[ordering.second_group].accesses[ordering.second]
                if access.retire_epoch >= then.issue_epoch:
                    rows.setdefault((x, size - 1, access.issue_epoch + 1 - then.issue_epoch))
    for gap, count in enumerate(line_barriers(size, [0] * size, sorted(rows))):
        _put(sync.barriers, (Phase.PROLOGUE, gap), count)
    for second in Phase:
        bench.tighten(sync, Phase.PROLOGUE, second)


def _put(barriers: dict[Gap, int], gap: Gap, count: int) -> None:
    if count:
        barriers[gap] = count
    else:
        barriers.pop(gap, None)


def _drop_barriers(bench: Bench, sync: Synchronisation) -> None:
    """Remove barriers that nothing needs, the last first."""
    for gap in sorted(sync.barriers, reverse=True):
        while sync.barriers.get(gap):
            count = sync.barriers[gap]
            _put(sync.barriers, gap, count - 1)
            if not bench.holds(sync):
                sync.barriers[gap] = count
                break


def _loosen_waits(bench: Bench, sync: Synchronisation) -> None:
    """Give every wait the largest count that holds; drop those that any count satisfies."""
    for slot in sorted(sync.waits):
        for counter in list(sync.waits[slot]):
            _loosen(bench, sync, slot, counter)
        if not sync.waits[slot]:
            del sync.waits[slot]


def _loosen(bench: Bench, sync: Synchronisation, slot: Slot, counter: Counter) -> None:
    waits = sync.waits[slot]
    sound = waits.pop(counter)
    if bench.holds(sync):
        return
    broken = counter.limit
    while sound + 1 < broken:
        waits[counter] = (sound + broken) // 2
        if bench.holds(sync):
            sound = waits[counter]
        else:
            broken = waits[counter]
    waits[counter] = sound
