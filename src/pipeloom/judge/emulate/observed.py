"""Defects that a run observed in the kernel, with the place in the assembly.

A finding names the instruction that suffered (the MFMA that read a register still in flight)
and, where there is one, the instruction that caused it (the ds_read that was never waited for):

    in-flight-read  wave 2  pc 0x1a4 line 87 [mma 0,0]  v_mfma_f32_16x16x32_bf16
    reads v12, but ds_read_b128 at pc 0x150 line 66 is still outstanding (lgkmcnt)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pipeloom.machine.source_lines import SourceLine


class DefectKind(Enum):
    """What went wrong. Every kind is a defect on hardware, whatever the timing of this run."""

    POISON_READ = "poison-read"
    """An active lane used a value that was never written, or that a race may have spoilt."""
    IN_FLIGHT_READ = "in-flight-read"
    """A register was read before a wait retired the load that writes it."""
    IN_FLIGHT_WRITE = "in-flight-write"
    """A register was written while a load into it was outstanding: the load may win."""
    LDS_RACE = "lds-race"
    """Two LDS accesses to the same bytes, one a write, with no wait and barrier between them."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """An access outside every buffer, outside LDS, or outside the wave's scratch."""
    INVALID_DESCRIPTOR = "invalid-descriptor"
    """A buffer descriptor of data format 0: its loads give 0 and its stores are lost."""
    BARRIER_MISMATCH = "barrier-mismatch"
    """A wave ended while others wait at a barrier it never reached."""
    TRAP = "trap"
    """The kernel executed s_trap."""
    WAIT_STATES = "wait-states"
    """Too few instructions, or s_nop, where no interlock covers a dependence (``wait_states``)."""


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect that the emulator saw."""

    kind: DefectKind
    """What went wrong."""
    message: str
    """The details in words."""
    pc: int
    """The instruction's offset in bytes from the kernel's first one."""
    instruction: str
    """Its disassembly."""
    workgroup: tuple[int, int, int]
    """The workgroup it happened in."""
    wave: int
    """The wave; -1 for what is wrong with the code, whoever runs it."""
    source: SourceLine | None = None
    """The line and step it comes from, where that is known."""
    cause_pc: int | None = None
    """The offset of the other instruction, where there is one."""
    cause: SourceLine | None = None
    """The line and step that one comes from."""

    def __str__(self) -> str:
        place = describe_place(self.pc, self.source)
        who = f"wave {self.wave}" if self.wave >= 0 else "every wave"
        return f"{self.kind.value}: {who}, {place}, {self.instruction}: {self.message}"


def describe_place(pc: int, source: SourceLine | None) -> str:
    """``pc 0x1a4 line 87 [mma 0,0]``, with the parts that are known."""
    if source is None:
        return f"pc {pc:#x}"
    entry = f" [{source.entry}]" if source.entry else ""
    return f"pc {pc:#x} line {source.line}{entry}"
