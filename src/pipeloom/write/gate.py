"""Which schedules may become machine code.

A schedule that was handed to a compiler may lean on waits that the compiler adds; assembly has no
one to add them. So: PROVED passes, TIMING passes only on request, RACE never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.verdict import verify
from pipeloom.write.faults import GateError


class NamedFinding(Protocol):
    """A finding that can say what it is."""

    def describe(self) -> str:
        """A text for people."""
        ...


class VerdictLike(Protocol):
    """What the gate looks at of a verdict, on a program or on a schedule."""

    @property
    def status(self) -> Enum:
        """The worst of its findings."""
        ...

    @property
    def findings(self) -> Sequence[NamedFinding]:
        """Worst cases, each with its story."""
        ...


Judge = Callable[[CompiledSchedule, Kernel], VerdictLike]
"""Gives the verdict; by default ``pipeloom.judge.verify.verify``."""


def pass_gate(
    compiled: CompiledSchedule, kernel: Kernel, *, allow_timing: bool = False, judge: Judge = verify
) -> Enum:
    """The verdict's status, where it allows emission; raises ``GateError`` naming the finding."""
    what = f"the {compiled.schedule} schedule"
    return require_proved(judge(compiled, kernel), what, allow_timing=allow_timing)


def require_proved(verdict: VerdictLike, what: str, *, allow_timing: bool = False) -> Enum:
    """The same of a verdict that is there; ``what`` it is about."""
    # By name: judges of schedules and of programs have statuses of their own, called alike.
    name = verdict.status.name
    if name == "PROVED" or (name == "TIMING" and allow_timing):
        return verdict.status
    count = len(verdict.findings)
    finding = verdict.findings[0].describe() if count else "no finding given"
    more = f" (and {count - 1} more)" if count > 1 else ""
    hint = "run `pipeloom verify` for all findings, and synchronize() to add what is missing"
    if name == "TIMING":
        hint = "allow it with allow_timing=True (--allow-timing), or synchronize() the schedule"
    raise GateError(
        f"{what} is {name}, so it is not emitted: {finding}{more}",
        hint=hint,
        field="schedule",
    )
