"""Soft clauses: runs of memory instructions that a chip may issue again as a whole.

Where XNACK is on, a page fault is retried by replaying the clause that met it: all vector (or all
scalar) memory instructions that stand together with nothing between. Issued twice, a load must not
find its address overwritten, nor a store its data, so no instruction of a clause may write what one
of them reads, and a store follows no load. An ``s_nop`` ends the clause. Our code objects do not
say whether XNACK is on, so they run either way.

    buffer_store_dword v17, v52, s[32:35], 0 offen
    s_nop 0                                            <- inserted: v17 may be stored again
    buffer_load_dwordx4 v[14:17], v184, s[16:19], 0 offen

Source: LLVM GCNHazardRecognizer, checkSoftClauseHazards. LLVM leaves a clause alone as long as it
consists of stores; here its rule holds from the first instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeloom.machine.mnemonics import Pipe
from pipeloom.write.isa import Instruction, Line, instruction


def break_clauses(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines with an ``s_nop`` wherever a clause must end; a branch ends one by itself."""
    clause: list[Instruction] = []
    for line in lines:
        if isinstance(line, Instruction):
            if line.opcode.unit not in (Pipe.MEMORY, Pipe.SMEM):
                clause = []
            elif clause and line.opcode.unit is not clause[0].opcode.unit:
                clause = [line]
            elif clause and not _replays([*clause, line]):
                yield instruction("s_nop", 0, provenance=line.provenance)
                clause = [line]
            else:
                clause.append(line)
        yield line


def _replays(clause: Sequence[Instruction]) -> bool:
    """Whether it may be issued twice; its last instruction is new."""
    loads = any(one.writes for one in clause[:-1])
    if loads and not clause[-1].writes:
        return False
    written = [register for one in clause for register in one.writes]
    return not any(w.overlaps(r) for w in written for one in clause for r in one.reads)
