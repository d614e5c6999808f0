"""Waits for barriers that stay: proved, loosest, and exactly where the barriers allow it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pipeloom import CompiledSchedule, ConfigError, OpDesc, OrderError, Phase, build_schedule
from pipeloom.drive.programs import as_program, simulate, verify
from pipeloom.judge.execute import Executor
from pipeloom.judge.verify import proves
from pipeloom.reference.lift import lift_in_units
from pipeloom.reference.ops import OpRole, OpTag
from pipeloom.reference.resync import synchronize

PING_PONG = {
    "bf16": {"schedule": "ping_pong", "geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2}},
    "fp8": {"schedule": "ping_pong", "geometry": {"BK": 128, "MMA_K": 128, "elem_bytes": 1}},
}


SHAPES = [
    *PING_PONG.values(),
    *({**spec, "schedule": "four_wave"} for spec in PING_PONG.values()),
]


def kept(source: Any, reorder: bool = False) -> CompiledSchedule:
    compiled = source if isinstance(source, CompiledSchedule) else build_schedule(source)
    return synchronize(compiled, reorder=reorder, keep_barriers=True)


def without_waits(compiled: CompiledSchedule, phase: Phase, loads: bool = True) -> list[OpDesc]:
    """Data ops, barriers and fences of a phase, in order."""
    waits = (OpTag.WAIT_VM, OpTag.WAIT_LGKM)
    return [
        e.op
        for e in compiled.phase(phase)
        if e.op.tag not in waits and (loads or e.op.role is not OpRole.GLOBAL_LOAD)
    ]


def loosened(compiled: CompiledSchedule) -> Iterator[tuple[str, CompiledSchedule]]:
    """Every schedule with one wait looser by a single entry."""
    make = {OpTag.WAIT_VM: OpDesc.wait_vm, OpTag.WAIT_LGKM: OpDesc.wait_lgkm}
    for phase in Phase:
        entries = compiled.phase(phase)
        for at, entry in enumerate(entries):
            if entry.op.tag not in make:
                continue
            looser = replace(entry, op=make[OpTag(entry.op.tag)](entry.op.wait_value + 1))
            changed = (*entries[:at], looser, *entries[at + 1 :])
            weaker = replace(compiled, **{phase.name.lower(): changed})  # type: ignore[arg-type]
            yield f"{phase.name.lower()}[{at}] {entry.op}", weaker


def test_the_ping_pong_moves_four_loads_and_nothing_else() -> None:
    reference = build_schedule("ping_pong")
    fixed = kept(reference, reorder=True)
    assert verify(fixed).proved
    for phase in Phase:
        loads = phase is not Phase.KERNEL
        assert without_waits(fixed, phase, loads) == without_waits(reference, phase, loads)
    assert fixed.counts(Phase.KERNEL).barriers == 16
    note = next(note for note in fixed.notes if note.startswith("reordered: "))
    assert note.count("moves after") == 4
    assert "added" not in note
    for sub, stage in (("B", 0), ("A", 0), ("B", 1), ("A", 1)):
        assert f"load {sub}[{stage},0] moves after" in note
    assert fixed.notes[-1] == "waits derived from dependences, barriers kept"


def test_the_four_wave_loop_stays_and_its_epilogue_gets_the_missing_barriers() -> None:
    reference = build_schedule("four_wave")
    fixed = kept(reference, reorder=True)
    assert verify(fixed).proved
    for phase in (Phase.PROLOGUE, Phase.KERNEL):
        assert without_waits(fixed, phase) == without_waits(reference, phase)
    assert fixed.counts(Phase.EPILOGUE).barriers == reference.counts(Phase.EPILOGUE).barriers + 2
    assert any("epilogue: a barrier is added before [1]" in note for note in fixed.notes)


def test_the_single_buffer_needs_no_change_of_order() -> None:
    reference = build_schedule("single_buffer")
    fixed = kept(reference)
    for phase in Phase:
        assert without_waits(fixed, phase) == without_waits(reference, phase)
    assert fixed.notes[-1] == "waits derived from dependences, barriers kept"


@pytest.mark.parametrize(
    ("name", "ops", "offer"),
    [
        (
            "ping_pong",
            ("loop[11] frag B[0,1]", "loop[12] load B[0,0]"),
            "moves after [19] frag A[0,1]",
        ),
        (
            "four_wave",
            ("loop[41] load B[1,1]", "epilogue[17] frag B[1,1]"),
            "a barrier is added before [17]",
        ),
    ],
)
def test_an_order_that_the_barriers_cannot_save(
    name: str, ops: tuple[str, str], offer: str
) -> None:
    with pytest.raises(OrderError, match="waits alone cannot save this order") as caught:
        kept(name)
    for op in ops:
        assert op in caught.value.message
    assert "no barrier comes between the two" in caught.value.message
    assert offer in (caught.value.hint or "")
    assert "reorder=True applies it" in (caught.value.hint or "")


def test_a_loop_without_barriers_cannot_be_mended() -> None:
    bare = build_schedule("ping_pong", ["minimal_barriers=true"])
    assert bare.counts(Phase.KERNEL).barriers == 0
    with pytest.raises(OrderError, match=r"load A\[1,1\] of iteration 1") as caught:
        kept(bare, reorder=True)
    assert "no place in the loop suits [2] load A" in (caught.value.hint or "")
    assert "keep_barriers=False" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_no_kept_wait_can_be_looser(name: str) -> None:
    candidates = list(loosened(kept(name, reorder=True)))
    assert len(candidates) > 3
    for what, weaker in candidates:
        assert not proves(as_program(weaker)), what


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_repairing_twice_changes_nothing(name: str) -> None:
    once = kept(name, reorder=True)
    twice = kept(once)
    for phase in Phase:
        assert twice.phase(phase) == once.phase(phase)
    assert twice.warp_stagger_index == once.warp_stagger_index


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_a_repaired_schedule_multiplies(name: str) -> None:
    fixed = kept(name, reorder=True)
    executor = Executor(lift_in_units(fixed))
    for trips in range(3):
        for policy in ("late", "early", "random"):
            outcome = executor.run(trips=trips, policy=policy, seed=trips)
            assert outcome.correct, outcome.describe()


@pytest.mark.parametrize("spec", SHAPES)
def test_repaired_is_as_fast_as_the_reference(spec: dict[str, Any]) -> None:
    reference = simulate(build_schedule(spec)).steady_cycles_per_iteration
    repaired = build_schedule(spec, sync="repaired", reorder=True)
    assert verify(repaired).proved
    assert simulate(repaired).steady_cycles_per_iteration < 1.01 * reference


def test_repaired_keeps_the_turns_that_proven_loses() -> None:
    """The reason to keep barriers: eight of sixteen are not needed, but they set the pace."""
    proven = build_schedule(PING_PONG["bf16"], sync="proven")
    repaired = build_schedule(PING_PONG["bf16"], sync="repaired", reorder=True)
    cycles = [simulate(c).steady_cycles_per_iteration for c in (proven, repaired)]
    assert cycles[0] > 1.3 * cycles[1]


GOOD = ("load bar bar frag", "bar bar load mma bar bar frag", "mma")


def test_a_toy_by_hand(toy: Any) -> None:
    """Each wait stands before the last barrier that is in time, or before its own wave's op."""
    plain = synchronize(toy.compiled(*GOOD), toy.Kernel(), keep_barriers=True)
    assert toy.words(plain.prologue) == "load bar vm0 bar frag"
    assert toy.words(plain.kernel) == "bar lg0 bar load mma bar vm0 bar frag"
    assert toy.words(plain.epilogue) == "lg0 mma"
    lagging = synchronize(toy.compiled(*GOOD), toy.Kernel(lag=True), keep_barriers=True)
    assert toy.words(lagging.prologue) == "load vm0 bar bar frag"
    assert toy.words(lagging.kernel) == "lg0 bar bar load mma vm0 bar bar frag"


def test_waits_take_the_place_of_old_ones_among_fences(toy: Any) -> None:
    lines = ("load vm0 bar frag", "lg0 prio1 mma prio0 bar load vm0 bar frag", "prio1 mma")
    fixed = synchronize(toy.compiled(*lines), toy.Kernel(), keep_barriers=True)
    assert toy.words(fixed.kernel) == "lg0 prio1 mma prio0 bar load vm0 bar frag"
    assert toy.words(fixed.epilogue) == "lg0 prio1 mma"
    late = ("load vm0 bar frag", "prio1 mma prio0 bar load mma prio0 bar frag", "mma")
    with pytest.raises(OrderError, match="nothing brings A of iteration 2"):
        synchronize(toy.compiled(*late), toy.Kernel(), keep_barriers=True)


def test_fences_stay_when_a_load_leaves_or_arrives(toy: Any) -> None:
    lines = ("load bar frag", "prio0 load prio1 mma prio0 bar prio2 bar frag", "mma")
    fixed = synchronize(toy.compiled(*lines), toy.Kernel(), reorder=True, keep_barriers=True)
    assert toy.words(fixed.kernel) == "prio0 lg0 prio1 mma prio0 bar prio2 load vm0 bar frag"


TOY_BODIES = ("load mma frag", "mma load frag")


def random_toy(toy: Any, rng: random.Random) -> list[list[str]]:
    lines = [["load", "frag"], rng.choice(TOY_BODIES).split(), ["mma"]]
    for line in lines:
        for _ in range(rng.randrange(1, 8)):
            line.insert(rng.randrange(len(line) + 1), "bar")
    return lines


def tight(toy: Any, lines: list[list[str]]) -> CompiledSchedule:
    """The same order and barriers with everything drained everywhere."""
    full = [" ".join(f"vm0 lg0 {word}" for word in line) for line in lines]
    return toy.compiled(full[0] + " vm0 lg0", full[1] + " vm0 lg0", full[2])  # type: ignore[no-any-return]


def proved(compiled: CompiledSchedule, kernel: Any) -> bool:
    return proves(as_program(compiled, kernel))


def test_exactly_what_full_waits_could_save_is_saved(toy: Any) -> None:
    """Oracle: drain everything before every op; if that is no proof, no waits are."""
    rng = random.Random("kept barriers")
    saved = 0
    for number in range(60):
        lines = random_toy(toy, rng)
        kernel = toy.Kernel(lag=bool(number % 2))
        compiled = toy.compiled(*(" ".join(line) for line in lines))
        if proved(tight(toy, lines), kernel):
            saved += 1
            fixed = synchronize(compiled, kernel, keep_barriers=True)
            for phase in Phase:
                assert without_waits(fixed, phase) == without_waits(compiled, phase)
            for what, weaker in loosened(fixed):
                assert not proved(weaker, kernel), f"{lines}: {what}"
        else:
            with pytest.raises(OrderError, match="waits alone cannot save"):
                synchronize(compiled, kernel, keep_barriers=True)
    assert 8 < saved < 52


def section(words: list[str]) -> tuple[int, str]:
    """The stretch between barriers that the load stands in: its number, and what it holds."""
    parts = " ".join(words).split("bar")
    return next((number, part) for number, part in enumerate(parts) if "load" in part)


def test_a_load_moves_only_if_it_must_and_then_to_the_earliest_fit_place(toy: Any) -> None:
    """Oracle: all places of the loop's only load, everything drained, once-run phases fenced."""
    rng = random.Random("moves")
    moved = 0
    for number in range(30):
        body = random_toy(toy, rng)[1]
        kernel = toy.Kernel(lag=bool(number % 2))
        three = ["bar"] * 3
        fenced = [["load", *three, "frag", *three], body, [*three, "mma"]]
        compiled = toy.compiled(*(" ".join(line) for line in fenced))
        rest = [word for word in body if word != "load"]
        orders = [[*rest[:n], "load", *rest[n:]] for n in range(len(rest) + 1)]
        legal = [o for o in orders if proved(tight(toy, [fenced[0], o, fenced[2]]), kernel)]
        if not legal:
            with pytest.raises(OrderError, match="cannot save this order"):
                synchronize(compiled, kernel, reorder=True, keep_barriers=True)
            continue
        fixed = synchronize(compiled, kernel, reorder=True, keep_barriers=True)
        waits = ("vm", "lg")
        after = [w for w in toy.words(fixed.kernel).split() if not w.startswith(waits)]
        assert after in legal
        if body in legal:
            assert after == body
            continue
        moved += 1
        calm = [order for order in legal if "mma" not in section(order)[1]]
        if "mma" in section(body)[1] or not calm:
            assert after == legal[0]
        else:
            assert section(after)[0] == section(calm[0])[0]
    assert moved > 2


def test_a_barrier_of_the_kernels_own_may_stand_inside_a_phase(toy: Any) -> None:
    class Inner(toy.Kernel):  # type: ignore[misc]
        def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> Any:
            steps = list(super().walk(compiled, wave, trips))
            at = next(n for n, s in enumerate(steps) if s.phase is Phase.EPILOGUE) + 1
            barrier = replace(steps[at], op=OpDesc.barrier(), slot=-1, origin="inner")
            steps.insert(at, barrier)
            return tuple(replace(step, index=n) for n, step in enumerate(steps))

    lines = (GOOD[0], GOOD[1], "bar mma")
    fixed = synchronize(toy.compiled(*lines), Inner(), keep_barriers=True)
    assert verify(fixed, Inner()).proved


def test_groups_with_different_data_ops_are_refused(toy: Any) -> None:
    class Lopsided(toy.Kernel):  # type: ignore[misc]
        def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> Any:
            if wave:
                compiled = replace(compiled, prologue=compiled.prologue[:1])
            return super().walk(compiled, wave, trips)

    with pytest.raises(ConfigError, match="wave groups execute different data ops"):
        synchronize(toy.compiled(*GOOD), Lopsided(), keep_barriers=True)
