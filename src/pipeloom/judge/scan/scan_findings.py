"""What a scan says of a kernel: plain records, to be printed in any format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pipeloom.plain import to_plain


class ScanKind(Enum):
    """What is wrong."""

    REGISTER = "register"
    """A register is read or overwritten while a load into it may be in flight."""
    LDS = "lds"
    """A wave touches bytes of LDS that an operation of its own may still read or write."""
    LDS_WAVES = "lds-waves"
    """Two waves touch the same bytes of LDS, one writing, and no barrier lies between."""
    END = "end"
    """The wave ends while a load into LDS is in flight: it may land in another workgroup's."""
    BARRIER = "barrier"
    """Waves may take a branch differently, and its ways have different numbers of barriers."""
    WAIT_STATES = "wait-states"
    """Too few instructions stand between two where the hardware does not wait by itself."""
    CUSTOMARY = "customary-wait-states"
    """The same, by a rule that compilers keep and shipped kernels do not."""
    NEEDLESS = "needless-wait"
    """A wait has nothing to wait for, on any path."""

    @property
    def is_defect(self) -> bool:
        """Whether results can be wrong."""
        return self not in (ScanKind.CUSTOMARY, ScanKind.NEEDLESS)


@dataclass(frozen=True, slots=True)
class ScanPlace:
    """An instruction of a kernel."""

    pc: int
    """Its offset in bytes from the kernel's first instruction."""
    text: str
    """Its disassembly."""
    line: str = ""
    """``file:line`` of its source, where that is known."""

    def __str__(self) -> str:
        line = f" ({self.line})" if self.line else ""
        return f"pc {self.pc:#x}{line}: {self.text}"


@dataclass(frozen=True, slots=True)
class ScanFinding:
    """One defect: the operation in flight, the first instruction that meets it, and the others."""

    kind: ScanKind
    """What is wrong."""
    definite: bool
    """Whether every run that reaches the place has it; otherwise some path or address may not."""
    second: ScanPlace
    """The instruction that comes too early."""
    first: ScanPlace | None = None
    """What it does not wait for."""
    where: str = ""
    """The registers or bytes of LDS that both touch."""
    counter: str = ""
    """The wait that is missing, as ``vmcnt(2)``."""
    message: str = ""
    """What is wrong, in a sentence."""
    others: tuple[ScanPlace, ...] = ()
    """More instructions that the same missing wait or barrier leaves unordered."""
    confirmed: str = ""
    """What a run of the emulator shows of it, where a launch is known and one shows it."""


@dataclass(frozen=True, slots=True)
class KernelScan:
    """What the scan found in one kernel."""

    file: str
    """Where the kernel stands: a path, with ``!member`` for part of a bundle or archive."""
    kernel: str
    """The kernel's symbol."""
    arch: str
    """The chip it is for."""
    instructions: int = 0
    """How many it has."""
    findings: tuple[ScanFinding, ...] = ()
    """What is wrong, the certain first, in the order of the code."""
    not_known: tuple[tuple[str, int], ...] = ()
    """What could not be judged, and how often: not reported as findings."""
    reason: str = ""
    """Why the kernel was not judged; empty where it was."""

    def defects(self, definite: bool) -> tuple[ScanFinding, ...]:
        """Findings that can make results wrong, the definite or the possible ones.

        Args:
            definite: Whether those that every run meets, or those that some run may.
        """
        return tuple(f for f in self.findings if f.kind.is_defect and f.definite == definite)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        return plain
