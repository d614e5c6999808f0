"""The program around the entries: setup, prologue, loop, epilogue, end.

  s_cmp_ge_i32 offset, end         no trip at all is legal
  s_cbranch_scc1 epilogue
loop:                              at the start of a cache line
  ...                              the schedule's kernel entries
  s_add_u32 offset, offset, advance
  s_cmp_lt_i32 offset, end
  s_cbranch_scc1 loop
epilogue:
  ...
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import Counter
from pipeloom.reference.ops import OpTag
from pipeloom.write.code import Code
from pipeloom.write.entry import EntryEmitter
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Instruction, Provenance, Unit
from pipeloom.write.plan import Plan, PlannedStep

_MESSAGES = frozenset({OpTag.SCHEDULE_BARRIER, OpTag.SCHED_GROUP_BARRIER, OpTag.NONE})
"""Messages to a compiler; there is none between us and the machine."""
_COUNTED = {Counter.VM: Unit.VMEM, Counter.LGKM: Unit.LDS}


def emit_program(emitter: EntryEmitter, plan: Plan, code: Code, name: str) -> None:
    """The whole kernel, from setup to ``s_endpgm``."""
    emitter.setup(code)
    labels = _Labels(name)
    _emit_steps(emitter, plan, plan.prologue, code, labels)
    if plan.loop:
        registers = emitter.loop
        loop, epilogue = labels.fresh("loop"), labels.fresh("epilogue")
        code("s_cmp_ge_i32", registers.offset, registers.end)
        code("s_cbranch_scc1", epilogue)
        code.align()
        code.label(loop)
        _emit_steps(emitter, plan, plan.loop, code, labels)
        code("s_add_u32", registers.offset, registers.offset, registers.advance)
        code("s_cmp_lt_i32", registers.offset, registers.end)
        code("s_cbranch_scc1", loop)
        code.label(epilogue)
    _emit_steps(emitter, plan, plan.epilogue, code, labels)
    emitter.finish(code)
    code("s_endpgm")


class _Labels:
    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def fresh(self, what: str) -> str:
        self._count += 1
        return f".L{self._name}_{what}_{self._count}"


def _emit_steps(
    emitter: EntryEmitter, plan: Plan, steps: Sequence[PlannedStep], code: Code, labels: _Labels
) -> None:
    """The entries of a phase; a run of messages to a compiler is one line for the reader."""
    for silent, run in groupby(steps, lambda step: step.op.tag in _MESSAGES):
        if silent:
            code.comment(_describe_messages(list(run)))
            continue
        for step in run:
            _emit_step(emitter, plan, step, code, labels)


def _describe_messages(steps: Sequence[PlannedStep]) -> str:
    first, last = steps[0], steps[-1]
    if len(steps) == 1:
        return str(
            Provenance(first.phase.name.lower(), first.slot, describe_op(first.op) + _origin(first))
        )
    names = ", ".join(dict.fromkeys(describe_op(step.op) for step in steps))
    return (
        f"{first.phase.name.lower()}[{first.slot}] to [{last.slot}]: {names}: messages to a "
        "compiler, no instruction"
    )


def _emit_step(
    emitter: EntryEmitter, plan: Plan, step: PlannedStep, code: Code, labels: _Labels
) -> None:
    provenance = Provenance(
        step.phase.name.lower(), step.slot, describe_op(step.op) + _origin(step)
    )
    code.comment(str(provenance))
    with code.serving(provenance):
        if step.groups is None:
            _emit_op(emitter, plan, step, code)
            return
        inside, after = labels.fresh("group"), labels.fresh("others")
        for group in step.groups:
            code("s_cmp_eq_u32", emitter.loop.group, group)
            code("s_cbranch_scc1", inside)
        code("s_branch", after)
        code.label(inside)
        _emit_op(emitter, plan, step, code)
        code.label(after)


def _origin(step: PlannedStep) -> str:
    return f" ({step.origin})" if step.origin else ""


def _emit_op(emitter: EntryEmitter, plan: Plan, step: PlannedStep, code: Code) -> None:
    op = step.op
    match op.tag:
        case OpTag.BARRIER:
            code("s_barrier")
        case OpTag.WAIT_VM:
            code.wait(vm=min(op.wait_value, Counter.VM.limit))
        case OpTag.WAIT_LGKM:
            code.wait(lgkm=min(op.wait_value, Counter.LGKM.limit))
        case OpTag.SET_PRIO:
            code("s_setprio", op.wait_value)
        case _:
            start = len(code.lines)
            emitter.entry(code, step)
            added = [line for line in code.lines[start:] if isinstance(line, Instruction)]
            _check_control(step, added)
            _check_counts(emitter, plan, step, added)


def _check_control(step: PlannedStep, added: Sequence[Instruction]) -> None:
    """A data op neither waits nor branches: the proof knows the schedule's waits only."""
    for line in added:
        if line.opcode.unit is Unit.CONTROL and line.opcode.name != "s_nop":
            raise EmitError(
                f"the emitter of {describe_op(step.op)} added {str(line)!r}, which is no part of "
                "the schedule",
                hint="waits, barriers and priorities are entries of their own",
                field="emitter",
            )


def _check_counts(
    emitter: EntryEmitter, plan: Plan, step: PlannedStep, added: Sequence[Instruction]
) -> None:
    """The counters move as the kernel model says, or the schedule's waits mean something else."""
    effect = plan.effect(step)
    for counter, unit in _COUNTED.items():
        count = sum(line.opcode.unit is unit for line in added)
        modelled = effect.entries if effect.counter is counter else 0
        if count == modelled or (count > modelled > 0 and counter in emitter.lower_bounds):
            continue
        raise EmitError(
            f"{describe_op(step.op)} takes {count} {counter.label} entries per wave for this "
            f"tile, but the schedule counts {modelled}: its waits would be wrong",
            hint="compile the schedule with the geometry that you emit",
            field=f"PipelineConfig.{counter.name.lower()}_per_load",
        )
