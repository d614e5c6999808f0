"""Which schedules may become machine code.

A schedule that was handed to a compiler may lean on waits that the compiler adds; assembly has no
one to add them. So: PROVED passes, TIMING passes only on request, RACE never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from pipeloom.judge.verify.schedules import Status, verify
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel
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
"""Gives the verdict; by default ``pipeloom.judge.verify.schedules.verify``."""


def pass_gate(
    compiled: CompiledSchedule, kernel: Kernel, *, allow_timing: bool = False, judge: Judge = verify
) -> Status:
    """The verdict's status, where it allows emission; raises ``GateError`` naming the finding."""
    what = f"the {compiled.schedule} schedule"
    return require_proved(judge(compiled, kernel), what, allow_timing=allow_timing)


def require_proved(verdict: VerdictLike, what: str, *, allow_timing: bool = False) -> Status:
    """The same of a verdict that is there; ``what`` it is about."""
    status = Status[verdict.status.name]  # of programs or of schedules
    if status is Status.PROVED or (status is Status.TIMING and allow_timing):
        return status
    count = len(verdict.findings)
    finding = verdict.findings[0].describe() if count else "no finding given"
    more = f" (and {count - 1} more)" if count > 1 else ""
    hint = "run `pipeloom verify` for all findings, and synchronize() to add what is missing"
    if status is Status.TIMING:
        hint = "allow it with allow_timing=True (--allow-timing), or synchronize() the schedule"
    raise GateError(
        f"{what} is {verdict.status.name}, so it is not emitted: {finding}{more}",
        hint=hint,
        field="schedule",
    )
