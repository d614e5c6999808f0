"""The text of an emitted kernel line by line, each with the step that it serves.

for line in written_lines(kernel):
    print(line.number, line.text, line.step)     # 212 s_barrier (0, 'loop', 4)
"""

from __future__ import annotations

from typing import NamedTuple

from pipeloom.write import EmittedKernel
from pipeloom.write.isa import Comment, Instruction, Label


class WrittenLine(NamedTuple):
    """An instruction, a label or a remark; ``step`` is its group, section and slot, if any.

    ``at`` is its place in ``EmittedKernel.lines``, ``number`` its line in the text, from 1.
    """

    at: int
    number: int
    text: str
    step: tuple[int, str, int] | None = None


def written_lines(kernel: EmittedKernel) -> tuple[WrittenLine, ...]:
    """All but the remarks that name a step and directives."""
    first = next(at for at, line in enumerate(kernel.lines) if isinstance(line, Instruction))
    offset = min(kernel.line_map) - first
    steps = {
        f"{line.provenance}"
        for line in kernel.lines
        if isinstance(line, Instruction) and line.provenance is not None
    }
    found = []
    for at, line in enumerate(kernel.lines):
        if isinstance(line, Instruction):
            source = line.provenance
            served = source is not None and source.slot >= 0
            step = (source.group, source.section, source.slot) if source and served else None
            found.append(WrittenLine(at, at + offset, str(line), step))
        elif isinstance(line, Label) or (isinstance(line, Comment) and line.text not in steps):
            found.append(WrittenLine(at, at + offset, str(line)))
    return tuple(found)
