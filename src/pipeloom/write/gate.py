"""Which programs may become machine code.

A schedule that was handed to a compiler may lean on waits that the compiler adds; assembly has no
one to add them. So: PROVED passes, TIMING passes only on request, RACE never.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from pipeloom.write.faults import GateError


class NamedFinding(Protocol):
    """A finding that can say what it is."""

    def describe(self) -> str:
        """A text for people."""
        ...


class VerdictLike(Protocol):
    """What the gate looks at of a verdict."""

    @property
    def status(self) -> Enum:
        """The worst of its findings."""
        ...

    @property
    def findings(self) -> Sequence[NamedFinding]:
        """Worst cases, each with its story."""
        ...


_REMEDY = "verify() lists all findings, fix() adds the waits and barriers that are missing"


def require_proved(
    verdict: VerdictLike, what: str, *, allow_timing: bool = False, hint: str = _REMEDY
) -> Enum:
    """The verdict's status, where it allows emission; raises ``GateError`` naming the finding.

    ``what`` says what it is about, ``hint`` what to do about a race. Statuses go by their names: a
    judge may have its own.
    """
    name = verdict.status.name
    if name == "PROVED" or (name == "TIMING" and allow_timing):
        return verdict.status
    count = len(verdict.findings)
    finding = verdict.findings[0].describe() if count else "no finding given"
    more = f" (and {count - 1} more)" if count > 1 else ""
    if name == "TIMING":
        hint = "allow it with allow_timing=True (--allow-timing), or repair it with fix()"
    raise GateError(
        f"{what} is {name}, so it is not emitted: {finding}{more}",
        hint=hint,
        field="schedule",
    )
