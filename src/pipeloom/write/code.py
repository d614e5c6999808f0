"""A growing list of instructions, and the schedule entry that each one serves.

code = Code()
with code.serving(ServedStep("kernel", 7, "MMA(0, 0)")):
    code("v_mfma_f32_16x16x32_bf16", agpr(0, 4), vgpr(0, 4), vgpr(8, 4), agpr(0, 4))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest

from pipeloom.write.isa import (
    Align,
    Comment,
    Instruction,
    Label,
    Line,
    Opcode,
    Operand,
    ServedStep,
    instruction,
    waitcnt,
)


class Code:
    """Lines in program order."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._provenance: ServedStep | None = None

    def __call__(
        self, opcode: str | Opcode, *operands: Operand, modifiers: Iterable[str] = (), **fields: int
    ) -> Instruction:
        """Append one instruction."""
        made = instruction(
            opcode, *operands, provenance=self._provenance, modifiers=modifiers, **fields
        )
        self.lines.append(made)
        return made

    def side_by_side(self, parts: Iterable[Callable[[Code], None]]) -> None:
        """Append the instructions of several parts in turn: the first of each, then the second.

        They must not touch each other's registers.
        """
        found: list[list[Line]] = []
        for part in parts:
            one = Code()
            one._provenance = self._provenance
            part(one)
            found.append(one.lines)
        for row in zip_longest(*found):
            self.lines += [line for line in row if line is not None]

    def wait(self, vm: int | None = None, lgkm: int | None = None) -> None:
        """Append an ``s_waitcnt``."""
        self.lines.append(waitcnt(vm, lgkm, self._provenance))

    def label(self, name: str) -> None:
        """Append a label; names are the caller's to keep distinct."""
        self.lines.append(Label(name))

    def align(self) -> None:
        """Start the next instruction on a cache line."""
        self.lines.append(Align())

    def comment(self, text: str) -> None:
        """Append a line for the reader."""
        self.lines.append(Comment(text))

    @contextmanager
    def serving(self, provenance: ServedStep) -> Iterator[None]:
        """Mark what is appended inside as serving a schedule entry."""
        outer, self._provenance = self._provenance, provenance
        try:
            yield
        finally:
            self._provenance = outer
