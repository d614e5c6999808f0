"""Broken on purpose: schedules that differ from a given one by a single slip.

These are the slips that people make and that tools must catch: a wait dropped, loosened or
tightened by the entries of one load, a barrier dropped or moved by one entry, two neighbouring
entries swapped, the stagger forgotten. Some leave a schedule right (a redundant barrier, two
loads swapped); ``classify`` tells which.

    for mutant in mutants(compiled):
        print(mutant.name, classify(mutant.compiled).correct)

    loosen wait, kernel[12]: wait_vm(8) -> wait_vm(12)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from pipeloom.checks import check_int
from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import Counter, Kernel, kernel_for
from pipeloom.reference.ops import OpDesc, OpTag, Phase

_WAITS = {int(OpTag.WAIT_VM): Counter.VM, int(OpTag.WAIT_LGKM): Counter.LGKM}
_BARRIER = int(OpTag.BARRIER)


class MutationKind(Enum):
    """Sorts of slips."""

    DROP_WAIT = "drop wait"
    LOOSEN_WAIT = "loosen wait"
    TIGHTEN_WAIT = "tighten wait"
    DROP_BARRIER = "drop barrier"
    MOVE_BARRIER = "move barrier"
    SWAP_NEIGHBOURS = "swap neighbours"
    DROP_STAGGER = "drop stagger"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A schedule with one slip, and the slip in words."""

    kind: MutationKind
    name: str
    compiled: CompiledSchedule


def mutants(compiled: CompiledSchedule, kernel: Kernel | None = None) -> Iterator[Mutant]:
    """Every mutant, phase by phase and entry by entry; the order is always the same."""
    costs = _entries_per_op(compiled, kernel_for(compiled) if kernel is None else kernel)
    for phase in Phase:
        for slot in range(len(compiled.phase(phase))):
            yield from _entry_mutants(compiled, phase, slot, costs)
    if compiled.warp_stagger_index <= len(compiled.prologue):
        flat = replace(compiled, warp_stagger_index=len(compiled.prologue) + 1)
        yield Mutant(MutationKind.DROP_STAGGER, "drop stagger", flat)


def sample_mutants(
    compiled: CompiledSchedule, count: int, seed: int = 0, kernel: Kernel | None = None
) -> tuple[Mutant, ...]:
    """``count`` of the mutants (all, if there are fewer), drawn evenly over the kinds."""
    check_int("sample_mutants", "count", count, 0)
    by_kind: dict[MutationKind, list[Mutant]] = {}
    for mutant in mutants(compiled, kernel):
        by_kind.setdefault(mutant.kind, []).append(mutant)
    rng = Random(seed)
    for members in by_kind.values():
        rng.shuffle(members)
    drawn: list[Mutant] = []
    while len(drawn) < count and any(by_kind.values()):
        for members in by_kind.values():
            if members and len(drawn) < count:
                drawn.append(members.pop())
    return tuple(drawn)


def _entry_mutants(
    compiled: CompiledSchedule, phase: Phase, slot: int, costs: dict[Counter, int]
) -> Iterator[Mutant]:
    entries = compiled.phase(phase)
    op = entries[slot].op
    where = f"{phase.name.lower()}[{slot}]"
    following = entries[slot + 1] if slot + 1 < len(entries) else None
    if op.tag in _WAITS:
        counter = _WAITS[op.tag]
        name = f"drop wait, {where}: {describe_op(op)}"
        yield Mutant(MutationKind.DROP_WAIT, name, compiled.without_entry(phase, slot))
        for kind, count in (
            (MutationKind.LOOSEN_WAIT, op.wait_value + costs[counter]),
            (MutationKind.TIGHTEN_WAIT, max(0, op.wait_value - costs[counter])),
        ):
            if count != op.wait_value:
                other = OpDesc.wait_vm(count) if counter is Counter.VM else OpDesc.wait_lgkm(count)
                changed = [*entries]
                changed[slot] = replace(entries[slot], op=other)
                yield Mutant(
                    kind,
                    f"{kind.value}, {where}: {describe_op(op)} -> {describe_op(other)}",
                    compiled.with_entries(phase, changed),
                )
    if op.tag == _BARRIER:
        name = f"drop barrier, {where}"
        yield Mutant(MutationKind.DROP_BARRIER, name, compiled.without_entry(phase, slot))
    if following is not None and following.op != op:
        barrier = _BARRIER in (op.tag, following.op.tag)
        kind = MutationKind.MOVE_BARRIER if barrier else MutationKind.SWAP_NEIGHBOURS
        yield Mutant(
            kind,
            f"{kind.value}, {where}: {describe_op(op)} <-> {describe_op(following.op)}",
            compiled.with_entries(phase, _swapped(entries, slot)),
        )


def _swapped(entries: tuple[ScheduleEntry, ...], slot: int) -> list[ScheduleEntry]:
    changed = [*entries]
    changed[slot], changed[slot + 1] = changed[slot + 1], changed[slot]
    return changed


def _entries_per_op(compiled: CompiledSchedule, kernel: Kernel) -> dict[Counter, int]:
    """How many entries one op of each counter takes: those of the first that the kernel issues."""
    costs: dict[Counter, int] = {}
    for step in kernel.walk(compiled, 0, max(1, kernel.min_trips)):
        effect = kernel.effect(step, 0)
        if effect.counter is not None:
            costs.setdefault(effect.counter, max(1, effect.entries))
    return {counter: costs.get(counter, 1) for counter in Counter}
