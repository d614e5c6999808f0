"""What ``check``, ``scan`` and ``verify`` found in one kernel, in one form.

    report = of_check(checked.verdict, "k.s")
    report.findings[0].fingerprint      # the same after the kernel is assembled anew

A fingerprint is made of the kernel's name, the class and the two instructions without addresses,
and of how many findings with the same text come before it. So code that moves keeps its findings,
and a baseline that was written before a rebuild still knows them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pipeloom.plain import from_plain, to_plain


class Severity(Enum):
    """How bad a finding is, the worst first."""

    RACE = "race"
    """Accesses meet in the model, or every run is wrong; of ``scan``, a definite finding."""
    TIMING = "timing"
    """Nothing orders two accesses; of ``scan``, a possible finding."""
    NOTE = "note"
    """No wrong result: a wait that waits for nothing, a wait state that only compilers keep."""

    @property
    def exit_code(self) -> int:
        """What a command returns for it."""
        return {"race": 4, "timing": 3, "note": 0}[self.value]


NOT_JUDGED = "not-judged"
"""The class of a kernel that could not be judged."""
NOT_JUDGED_CODE = 6


@dataclass(frozen=True, slots=True)
class ReportedPlace:
    """An instruction or a step."""

    text: str
    """The instruction, or the step in words."""
    pc: int | None = None
    """Its offset in bytes from the kernel's first instruction."""
    line: str = ""
    """``file:line`` of its source, where that is known."""

    def __str__(self) -> str:
        place = [f"pc {self.pc:#x}"] if self.pc is not None else []
        place += [f"({self.line})"] if self.line else []
        return f"{' '.join(place)}: {self.text}" if place else self.text


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """One defect of a kernel."""

    kind: str
    """Its class: ``raw``, ``register``, ``wait-states``, ..."""
    severity: Severity
    """How bad it is."""
    message: str
    """What is wrong, in a sentence."""
    second: ReportedPlace
    """The instruction that comes too early, or is wrong by itself."""
    first: ReportedPlace | None = None
    """What should have been over before."""
    margin: int | None = None
    """Cycles between the two in the model."""
    pairs: int = 1
    """Pairs of instructions of the same defect."""
    shown: str = ""
    """The run that shows it, in words."""
    story: tuple[str, ...] = ()
    """A counterexample, line by line."""
    fingerprint: str = ""
    """Says which finding it is, whatever the addresses."""


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One kernel."""

    tool: str
    """Who judged it: ``check``, ``scan`` or ``verify``."""
    file: str
    """Where the kernel stands."""
    kernel: str
    """Its name."""
    arch: str
    """The chip it is for."""
    status: str
    """What is said of it: ``PROVED``, ``TIMING``, ``RACE``, ``NOT JUDGED``, ..."""
    summary: str
    """The same in one line."""
    findings: tuple[ReportedFinding, ...] = ()
    """What is wrong, the worst first."""
    reason: str = ""
    """Why it was not judged; empty where it was."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> KernelReport:
        """What ``to_dict`` wrote."""
        found: KernelReport = from_plain(cls, data)
        return found


_BRANCH = re.compile(r"^(s_c?branch\w*)\s.*$")


def normalised(text: str) -> str:
    """An instruction without what another assembly changes: where a branch goes, white space."""
    return _BRANCH.sub(r"\1", " ".join(text.split()))


def fingerprinted(kernel: str, findings: Iterable[ReportedFinding]) -> tuple[ReportedFinding, ...]:
    """The findings with their fingerprints; the order among equal texts is that of the code."""
    listed = list(findings)
    seen: Counter[tuple[str, ...]] = Counter()
    marks: dict[int, str] = {}
    for at in sorted(range(len(listed)), key=lambda at: _place(listed[at])):
        one = listed[at]
        texts = [normalised(place.text) for place in (one.first, one.second) if place is not None]
        key = (kernel, one.kind, *texts)
        number = seen[key]
        seen[key] += 1
        marks[at] = hashlib.sha256("\0".join((*key, str(number))).encode()).hexdigest()[:16]
    return tuple(replace(one, fingerprint=marks[at]) for at, one in enumerate(listed))


def _place(finding: ReportedFinding) -> tuple[int, int]:
    first = finding.first.pc if finding.first is not None else None
    return (-1 if finding.second.pc is None else finding.second.pc, -1 if first is None else first)
