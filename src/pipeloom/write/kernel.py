"""An emitted kernel: its text, and what a launcher and a reader need to know of it.

emitted = emit_program(program)
print(emitted.resources)       # 78 VGPRs, 128 AGPRs, ..., 2 wave(s) per SIMD on gfx950
code = assemble(emitted)       # bytes for hipModuleLoadData, or for the emulator
emitted.launch.grid(sizes), emitted.block
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from pipeloom.machine.occupancy import Resources
from pipeloom.machine.target import WAVE_LANES
from pipeloom.write.allocate import Allocation
from pipeloom.write.isa import Instruction, Line
from pipeloom.write.launch import Launch
from pipeloom.write.text import Argument


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an instruction comes from: the line of the text, and the step it serves."""

    line: int
    text: str
    entry: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedKernel:
    """A kernel as text. ``dtype`` and ``out_dtype`` name the first input's and output's type."""

    name: str
    target: str
    dtype: str
    out_dtype: str
    status: Enum
    text: str
    line_map: Mapping[int, SourceLine]
    """Line number (from 1) -> the instruction on it."""
    lines: tuple[Line, ...]
    resources: Resources
    allocation: Allocation
    waves: int
    arguments: tuple[Argument, ...]
    launch: Launch

    def __repr__(self) -> str:
        size = f"{len(self.line_map)} instructions"
        return f"<EmittedKernel {self.name} for {self.target}: {self.status.name}, {size}>"

    @property
    def block(self) -> tuple[int, int, int]:
        """Work-items of a workgroup."""
        return self.waves * WAVE_LANES, 1, 1

    @property
    def k_min(self) -> int:
        """The least size along the loop's dimension."""
        return self.launch.least

    @property
    def k_step(self) -> int:
        """How much of it one more trip takes."""
        return self.launch.step


def line_map(lines: tuple[Line, ...], numbers: list[int]) -> Mapping[int, SourceLine]:
    """Line of the text -> its instruction."""
    return MappingProxyType(
        {
            number: SourceLine(
                number, str(line), None if line.provenance is None else str(line.provenance)
            )
            for line, number in zip(lines, numbers, strict=True)
            if isinstance(line, Instruction)
        }
    )
