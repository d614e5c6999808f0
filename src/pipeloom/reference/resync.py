"""``synchronize`` for the specification's schedules: as a program there, and back as entries.

    fixed = synchronize(compiled)
    assert verify(fixed).proved

The schedule is lifted, ``sync`` decides on the program, and its waits, barriers and moves are read
back. Entries keep what a program does not know: tables of the original are dropped, data ops and
fences stay the objects they were.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from pipeloom.checks import check_instance
from pipeloom.errors import ConfigError, OrderError
from pipeloom.program import Barrier, Program, Provenance, Section, Step, Wait, Work
from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.kernels import Kernel, kernel_for
from pipeloom.reference.lift import SECTIONS, lift_in_units
from pipeloom.reference.ops import OpDesc, Phase
from pipeloom.sync import PROVEN, REPAIRED
from pipeloom.sync import synchronize as synchronize_program

STAGGER = "stagger"
NOTES = {
    PROVEN: "waits and barriers derived from dependences",
    REPAIRED: "waits derived from dependences, barriers kept",
}


def synchronize(
    compiled: CompiledSchedule,
    kernel: Kernel | None = None,
    reorder: bool = False,
    keep_barriers: bool = False,
) -> CompiledSchedule:
    """``compiled`` with its data ops in order, and new waits and barriers; the result is PROVED.

    With ``keep_barriers`` the barriers stay where they are among the data ops, and only the waits
    are new: for schedules whose barriers also set the pace, like the ping-pong's.

    An order that no synchronisation (or none with these barriers) can save raises ``OrderError``;
    with ``reorder`` the fewest data ops move instead, and a note on the result says which. Compiler
    fences and priorities stay where they are among the data ops.
    """
    check_instance("synchronize", "compiled", compiled, CompiledSchedule)
    if kernel is None:
        return _synchronized(compiled, reorder, keep_barriers)
    check_instance("synchronize", "kernel", kernel, Kernel)
    return _with_model(compiled, kernel, reorder, keep_barriers)


@lru_cache(maxsize=64)
def _synchronized(
    compiled: CompiledSchedule, reorder: bool, keep_barriers: bool
) -> CompiledSchedule:
    """By its shipped kernel; jobs ask for the same few forms again and again."""
    return _with_model(compiled, kernel_for(compiled), reorder, keep_barriers)


def _with_model(
    compiled: CompiledSchedule, model: Kernel, reorder: bool, keep_barriers: bool
) -> CompiledSchedule:
    program = replace(lift_in_units(compiled, model), provenance=Provenance())
    _check_groups(program, model)
    method = REPAIRED if keep_barriers else PROVEN
    try:
        fixed = synchronize_program(program, method=method, reorder=reorder)
    except OrderError as error:
        hint = (error.hint or "").replace("method=PROVEN", "keep_barriers=False, sync='proven'")
        raise OrderError(error.message, hint=hint, field=error.field) from None
    done = fixed.provenance
    return replace(
        _carried_back(compiled, program, fixed),
        synchronised=method,
        moved=(*compiled.moved, *done.moved),
        barriers_added=compiled.barriers_added + done.barriers_added,
        notes=(*compiled.notes, *done.notes, NOTES[method]),
    )


def _check_groups(program: Program, model: Kernel) -> None:
    """A schedule is one list of entries, so all groups must follow it."""
    walks = [
        [(s.name, step.label) for s, _, step in group.steps() if isinstance(step, Work)]
        for group in program.groups
    ]
    if any(walk != walks[0] for walk in walks):
        raise ConfigError(
            f"kernel {model.name}: its wave groups execute different data ops",
            hint="a schedule is one program for all waves; synchronise a Program instead",
            field="kernel",
        )


def _carried_back(compiled: CompiledSchedule, given: Program, fixed: Program) -> CompiledSchedule:
    """The entries that the steps of ``fixed`` came from, and new ones for what is new.

    ``fixed`` may be of an equal program; steps that are equal keep their order.
    """
    entries: dict[tuple[Phase, Step], list[ScheduleEntry]] = {}
    for phase, name in SECTIONS.items():
        steps = [s for s in _section(given, 0, name).steps if not _is_own(s)]
        for step, entry in zip(steps, compiled.phase(phase), strict=True):
            entries.setdefault((phase, step), []).append(entry)
    phases = {
        phase: _listed(_section(fixed, 0, name), phase, entries) for phase, name in SECTIONS.items()
    }
    return replace(
        compiled,
        prologue=phases[Phase.PROLOGUE],
        kernel=phases[Phase.KERNEL],
        epilogue=phases[Phase.EPILOGUE],
        warp_stagger_index=_stagger(compiled, fixed, phases[Phase.PROLOGUE]),
        program=None,
        kernel_deps=(),
    )


def _section(program: Program, group: int, name: str) -> Section:
    return next(s for s in program.groups[group].sections if s.name == name)


def _is_own(step: Step) -> bool:
    return isinstance(step, Barrier) and bool(step.label)


def _listed(
    section: Section, phase: Phase, entries: dict[tuple[Phase, Step], list[ScheduleEntry]]
) -> tuple[ScheduleEntry, ...]:
    found = []
    for step in section.steps:
        if _is_own(step):
            continue
        kept = entries.get((phase, step))
        found.append(kept.pop(0) if kept else ScheduleEntry(_op(step), -1, phase))
    return tuple(replace(entry, time_slot=slot) for slot, entry in enumerate(found))


def _op(step: Step) -> OpDesc:
    if isinstance(step, Barrier):
        return OpDesc.barrier()
    assert isinstance(step, Wait)
    return OpDesc.wait_vm(step.count) if step.counter == "vmcnt" else OpDesc.wait_lgkm(step.count)


def _stagger(
    compiled: CompiledSchedule, fixed: Program, prologue: tuple[ScheduleEntry, ...]
) -> int:
    """Where the stagger stands now; past the prologue if there is none."""
    at = compiled.warp_stagger_index
    if at > len(compiled.prologue):
        return len(prologue) + 1
    for group in range(len(fixed.groups)):
        steps = _section(fixed, group, SECTIONS[Phase.PROLOGUE]).steps
        for number, step in enumerate(steps):
            if isinstance(step, Barrier) and step.label == STAGGER:
                return number - sum(map(_is_own, steps[:number]))
    ops = sum(not entry.op.is_framework for entry in compiled.prologue[:at])
    places = [n + 1 for n, entry in enumerate(prologue) if not entry.op.is_framework]
    return places[ops - 1] if ops else 0
