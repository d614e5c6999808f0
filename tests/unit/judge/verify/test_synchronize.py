"""Derived synchronisation: proved, nothing to spare, and honest about orders it cannot save."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeloom import (
    CompiledSchedule,
    ConfigError,
    OpDesc,
    OrderError,
    Phase,
    ScheduleEntry,
    build_schedule,
)
from pipeloom.drive.programs import as_program, verify
from pipeloom.judge.verify import proves
from pipeloom.reference.lift import lift
from pipeloom.reference.ops import OpTag
from pipeloom.reference.resync import synchronize
from pipeloom.sync.nearest_order import nearest_order, precedences
from pipeloom.sync.strip import stripped
from pipeloom.sync.study import Study

GOLDEN = Path(__file__).parents[3] / "golden" / "schedules.jsonl.gz"
with gzip.open(GOLDEN, "rt", encoding="utf-8") as stream:
    CASES = [json.loads(line) for line in stream]
CANONICAL: dict[str, Any] = {
    case["case"].removeprefix("canonical/"): case["spec"]
    for case in CASES
    if case["case"].startswith("canonical/")
}
SAMPLE = [
    *("ping_pong/000", "ping_pong/001", "ping_pong/005", "ping_pong/018", "ping_pong/039"),
    *("ping_pong/040", "ping_pong/046", "four_wave/000", "four_wave/018", "four_wave/030"),
    *("four_wave/036", "single_buffer/000", "single_buffer/002", "single_buffer/007"),
]
UNSAVABLE = ["ping_pong/001", "ping_pong/007", "ping_pong/040"]


def data_ops(compiled: CompiledSchedule) -> dict[Phase, list[OpDesc]]:
    return {
        phase: [e.op for e in compiled.phase(phase) if not e.op.is_framework] for phase in Phase
    }


def weakened(compiled: CompiledSchedule) -> Iterator[tuple[str, CompiledSchedule]]:
    """Every schedule with one barrier less, or one wait looser by a single entry."""
    for phase in Phase:
        entries = list(compiled.phase(phase))
        for at, entry in enumerate(entries):
            op, stagger = entry.op, compiled.warp_stagger_index
            if op.tag == OpTag.BARRIER:
                changed = entries[:at] + entries[at + 1 :]
                stagger -= phase is Phase.PROLOGUE and at < stagger
            elif op.tag in (OpTag.WAIT_VM, OpTag.WAIT_LGKM):
                make = OpDesc.wait_vm if op.tag == OpTag.WAIT_VM else OpDesc.wait_lgkm
                looser = replace(entry, op=make(op.wait_value + 1))
                changed = [*entries[:at], looser, *entries[at + 1 :]]
            else:
                continue
            numbered = tuple(replace(e, time_slot=slot) for slot, e in enumerate(changed))
            weaker = replace(
                compiled,
                warp_stagger_index=stagger,
                **{phase.name.lower(): numbered},  # type: ignore[arg-type]
            )
            yield f"{phase.name.lower()}[{at}] {op}", weaker


@pytest.mark.parametrize("name", SAMPLE)
def test_canonical_schedules_synchronised(name: str) -> None:
    compiled = build_schedule(CANONICAL[name])
    if name in UNSAVABLE:
        with pytest.raises(OrderError, match="no synchronisation can save this order"):
            synchronize(compiled)
    else:
        assert data_ops(synchronize(compiled)) == data_ops(compiled)
    assert verify(synchronize(compiled, reorder=True)).proved


@pytest.mark.parametrize("name", ["ping_pong/005", "four_wave/000", "single_buffer/002"])
def test_nothing_can_be_spared(name: str) -> None:
    compiled = synchronize(build_schedule(CANONICAL[name]))
    candidates = list(weakened(compiled))
    assert len(candidates) > 8
    for what, weaker in candidates:
        assert not proves(as_program(weaker)), what


def test_fewer_waits_and_barriers_than_the_reference() -> None:
    reference = build_schedule("ping_pong")
    fixed = synchronize(reference)
    before, after = reference.counts(Phase.KERNEL), fixed.counts(Phase.KERNEL)
    assert after.barriers < before.barriers
    assert after.wait_lgkm < before.wait_lgkm
    assert after.fences == before.fences


def test_synchronising_twice_changes_nothing() -> None:
    once = synchronize(build_schedule("ping_pong"))
    twice = synchronize(once)
    assert (twice.prologue, twice.kernel, twice.epilogue) == (
        once.prologue,
        once.kernel,
        once.epilogue,
    )
    assert twice.warp_stagger_index == once.warp_stagger_index


def shuffled(compiled: CompiledSchedule, rng: random.Random) -> CompiledSchedule:
    """The same kernel ops in a random order that respects data flow, unsynchronised."""
    study = Study.of(stripped(lift(compiled), keep_barriers=False))
    pairs = precedences(study.scripts, study.flows)[0, 1]
    ops = [e for e in compiled.kernel if not e.op.is_framework]
    after: list[set[int]] = [set() for _ in ops]
    indegree = [0] * len(ops)
    for u, v in sorted(pairs):
        after[u].add(v)
        indegree[v] += 1
    ready = [n for n in range(len(ops)) if not indegree[n]]
    order = []
    while ready:
        node = ready.pop(rng.randrange(len(ready)))
        order.append(node)
        for successor in sorted(after[node]):
            indegree[successor] -= 1
            if not indegree[successor]:
                ready.append(successor)
    assert len(order) == len(ops)
    kernel = tuple(replace(ops[n], time_slot=slot) for slot, n in enumerate(order))
    return replace(compiled, kernel=kernel)


@pytest.mark.parametrize("name", ["ping_pong/004", "four_wave/000", "single_buffer/003"])
def test_random_legal_orders(name: str) -> None:
    rng = random.Random(f"orders of {name}")
    compiled = synchronize(build_schedule(CANONICAL[name]), reorder=True)
    for _ in range(5):
        mixed = shuffled(compiled, rng)
        fixed = synchronize(mixed)  # raises unless proved
        assert data_ops(fixed) == data_ops(mixed)


def test_an_unsavable_order_names_both_ops_and_the_nearest_order() -> None:
    compiled = build_schedule(CANONICAL["ping_pong/001"])
    with pytest.raises(OrderError) as caught:
        synchronize(compiled)
    assert "load A[0,0]" in caught.value.message
    assert "frag A[0,1]" in caught.value.message
    assert "loads the next generation before the last read of the old one" in caught.value.message
    assert "moves after" in (caught.value.hint or "")
    assert "reorder=True" in (caught.value.hint or "")
    fixed = synchronize(compiled, reorder=True)
    assert any(note.startswith("reordered: loop: ") for note in fixed.notes)
    before, after = data_ops(compiled), data_ops(fixed)
    assert before[Phase.EPILOGUE] == after[Phase.EPILOGUE]
    assert sorted(map(str, before[Phase.KERNEL])) == sorted(map(str, after[Phase.KERNEL]))


def brute_force_moves(size: int, pairs: set[tuple[int, int]]) -> int:
    """The fewest ops to take out of 0..size-1 so that a legal order keeps the rest in order."""
    best = size
    for order in itertools.permutations(range(size)):
        at = {op: n for n, op in enumerate(order)}
        if any(at[u] > at[v] for u, v in pairs):
            continue
        longest = [1] * size
        for n in range(size):
            for m in range(n):
                if order[m] < order[n]:
                    longest[n] = max(longest[n], longest[m] + 1)
        best = min(best, size - max(longest))
    return best


def test_the_nearest_order_takes_the_fewest_moves() -> None:
    rng = random.Random(7)
    names = [f"step {n}" for n in range(6)]
    for _ in range(60):
        hidden = list(range(6))
        rng.shuffle(hidden)
        pairs = {
            (hidden[i], hidden[j]) for i in range(6) for j in range(i + 1, 6) if rng.random() < 0.3
        }
        order, moved = nearest_order(names, [1] * 6, sorted(pairs))
        at = {op: n for n, op in enumerate(order)}
        assert all(at[u] < at[v] for u, v in pairs)
        stays = [op for op in order if op not in moved]
        assert stays == sorted(stays)
        assert len(moved) == brute_force_moves(6, pairs)


def test_a_circle_of_precedences_is_refused() -> None:
    with pytest.raises(OrderError, match="would have to come before itself"):
        nearest_order(["one", "other"], [1, 1], [(0, 1), (1, 0)])


GOOD = ("load frag", "load mma frag", "mma")


def test_a_toy_by_hand(toy: Any) -> None:
    """One barrier publishes the load, one protects the last read; two of each with a stagger."""
    plain = synchronize(toy.compiled(*GOOD), toy.Kernel())
    assert toy.words(plain.prologue) == "load vm0 bar frag"
    assert toy.words(plain.kernel) == "lg0 bar load mma vm0 bar frag"
    assert toy.words(plain.epilogue) == "lg0 mma"
    lagging = synchronize(toy.compiled(*GOOD), toy.Kernel(lag=True))
    assert toy.words(lagging.prologue) == "load vm0 bar bar frag"
    assert toy.words(lagging.kernel) == "lg0 bar bar load mma vm0 bar bar frag"


def barrier_counts(toy: Any, kernel: Any, words: list[str], limit: int) -> int:
    """The fewest kernel barriers of any placement, with all waits at their tightest."""
    prologue = "load vm0 bar bar frag lg0 bar bar"
    for total in range(limit + 1):
        for gaps in itertools.combinations_with_replacement(range(len(words)), total):
            line = " ".join(
                f"vm0 lg0 {'bar ' * gaps.count(n)}{word}" for n, word in enumerate(words)
            )
            compiled = toy.compiled(prologue, line, "vm0 lg0 bar bar mma")
            if proves(as_program(compiled, kernel)):
                return total
    raise AssertionError("no placement works")


@pytest.mark.parametrize("lag", [False, True])
def test_the_loop_has_the_fewest_barriers_possible(toy: Any, lag: bool) -> None:
    kernel = toy.Kernel(lag=lag)
    fixed = synchronize(toy.compiled(*GOOD), kernel)
    assert verify(fixed, kernel).proved
    fewest = barrier_counts(toy, kernel, GOOD[1].split(), 4)
    assert fixed.counts(Phase.KERNEL).barriers == fewest


def test_fences_stay_with_their_ops(toy: Any) -> None:
    fixed = synchronize(toy.compiled("load frag", "load prio1 mma prio0 frag", "mma"), toy.Kernel())
    words = toy.words(fixed.kernel)
    assert "mma prio0" in words
    assert words.index("prio1") < words.index("mma") < words.index("prio0")


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (("load", "load mma frag", "mma"), "before anything loads them"),
        (("load frag", "mma frag", "mma"), "nothing brings A of iteration 1"),
        (("load frag", "mma load mma frag", "mma"), "nothing brings A of iteration 2"),
        (("frag load", "load mma frag", "mma"), "the load must come first"),
    ],
)
def test_schedules_that_lose_data_are_refused(
    toy: Any, lines: tuple[str, str, str], match: str
) -> None:
    with pytest.raises(OrderError, match=match):
        synchronize(toy.compiled(*lines), toy.Kernel())


def test_wrong_sums_are_refused(toy: Any) -> None:
    with pytest.raises(OrderError, match="cannot repair the sums"):
        synchronize(toy.compiled("load frag", "load mma frag", "bar"), toy.Kernel())


def test_groups_with_different_data_ops_are_refused(toy: Any) -> None:
    class Lopsided(toy.Kernel):  # type: ignore[misc]
        def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> Any:
            if wave:
                compiled = replace(compiled, prologue=compiled.prologue[:1])
            return super().walk(compiled, wave, trips)

    with pytest.raises(ConfigError, match="wave groups execute different data ops"):
        synchronize(toy.compiled(*GOOD), Lopsided())


def test_entries_are_numbered() -> None:
    fixed = synchronize(build_schedule("ping_pong"))
    for phase in Phase:
        entries: tuple[ScheduleEntry, ...] = fixed.phase(phase)
        assert [e.time_slot for e in entries] == list(range(len(entries)))
        assert all(e.phase is phase for e in entries)
    assert CompiledSchedule.from_dict(fixed.to_dict()) == fixed


def test_an_older_load_of_a_register_on_another_counter_is_waited_for(toy: Any) -> None:
    line = "load@-1 vm0 bar direct frag lg0 mma bar"
    compiled = toy.compiled("", line, "load@-1 vm0 bar frag lg0 mma bar")
    assert not verify(compiled, toy.Kernel()).proved
    fixed = synchronize(compiled, toy.Kernel())
    assert verify(fixed, toy.Kernel()).proved
    words = toy.words(fixed.kernel).split()
    assert "vm0" in words[words.index("direct") : words.index("frag")]
