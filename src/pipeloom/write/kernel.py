"""An emitted kernel: its text, and what a launcher and a reader need to know of it.

emitted = emit_program(program)
print(emitted.resources)       # 78 VGPRs, 128 AGPRs, ..., 2 wave(s) per SIMD on gfx950
code = assemble(emitted)       # bytes for hipModuleLoadData, or for the emulator
emitted.launch.grid(sizes), emitted.block
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.occupancy import Resources
from pipeloom.machine.source_lines import LineMap, SourceLine
from pipeloom.notebook import fragment
from pipeloom.write.allocate import Allocation
from pipeloom.write.isa import Instruction, Line
from pipeloom.write.launch import Launch
from pipeloom.write.lower.wave_clocks import TimingRecord
from pipeloom.write.text import Argument


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedKernel:
    """A kernel as assembly, and what a launcher and a reader need to know of it."""

    name: str
    """The kernel's symbol."""
    target: str
    """The chip, as LLVM names it."""
    dtype: str
    """The first input's element type."""
    out_dtype: str
    """The first output's element type."""
    status: Enum
    """The verdict that allowed it."""
    text: str
    """The assembly."""
    line_map: LineMap
    """Line number (from 1) -> the instruction on it."""
    lines: tuple[Line, ...]
    """The assembly as instructions."""
    resources: Resources
    """Registers and LDS that it occupies."""
    allocation: Allocation
    """Which value is in which register."""
    waves: int
    """Waves of a workgroup."""
    arguments: tuple[Argument, ...]
    """The kernel's arguments in order."""
    launch: Launch
    """The grid, and the sizes that it can compute."""
    timing: TimingRecord | None = None
    """What it stores of its own time, where it was emitted ``timed``."""
    form: str = ""
    """How it differs from what was given (``sync repaired; 4 loads moved``); empty where it does
    not."""

    def __repr__(self) -> str:
        size = f"{len(self.line_map)} instructions"
        return f"<EmittedKernel {self.name} for {self.target}: {self._verdict}, {size}>"

    def _repr_html_(self) -> str:
        """For notebooks: what it occupies, a trip in time, and its arguments."""
        text = f"for {self.target}, {self._verdict}: {self.resources}"
        rows = [(one.name, one.offset, one.size) for one in self.arguments]
        return fragment(self.name, text, ("argument", "offset", "bytes"), rows, drawn=self)

    @property
    def _verdict(self) -> str:
        return self.status.name + (self.form and f" ({self.form})")

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


def line_map(lines: tuple[Line, ...], numbers: list[int]) -> LineMap:
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
