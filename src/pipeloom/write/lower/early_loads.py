"""Loads of the scalar unit go to the top of a loop's body, so that the wait for them is short.

A step writes the load of its entries, and the arithmetic of their place, before what needs them:

    s_barrier                            s_add_u32 s40, s41, 96
    s_add_u32 s40, s41, 96               s_buffer_load_dwordx4 s[8:11], s[4:7], s40
    s_buffer_load_dwordx4 s[8:11] ...    v_mfma ...
    s_waitcnt lgkmcnt(0)                 s_barrier
    s_min_u32 s8, s8, s20                s_waitcnt lgkmcnt(0)

The wait stays where it was. What waits in between for reads of LDS with ``lgkmcnt(n)`` has one
entry more in front of it, so it waits for as many reads or more.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.machine.mnemonics import Pipe
from pipeloom.write.isa import SCC, Instruction, Line, Register


def early_loads(lines: Sequence[Line]) -> list[Line]:
    """A loop's body with its scalar loads first, as far as nothing above them minds."""
    first: list[Line] = []
    rest: list[Line] = []
    asked = _asks_first(lines)
    for line in lines:
        rest.append(line)
        if not isinstance(line, Instruction) or line.opcode.unit is not Pipe.SMEM:
            continue
        moved = _made_for(rest)
        above = [one for one in rest[: -len(moved)] if isinstance(one, Instruction)]
        written = [r for one in moved for r in one.writes if r != SCC]
        read = [r for one in moved for r in one.reads if not any(map(r.overlaps, written))]
        minds = any(
            _meet(written, (*one.reads, *one.writes)) or _meet(read, one.writes) for one in above
        )
        if not minds and not asked:
            first += moved
            del rest[-len(moved) :]
    return [*first, *rest]


def _made_for(lines: Sequence[Line]) -> list[Instruction]:
    """The last line, a load, and the arithmetic right before it that makes its operands."""
    found: list[Instruction] = []
    wanted: list[Register] = []
    for line in reversed(lines):
        if not isinstance(line, Instruction):
            break
        made = [r for r in line.writes if r != SCC]
        if found and not (line.opcode.unit is Pipe.SALU and made and _meet(made, wanted)):
            break
        found.insert(0, line)
        wanted += line.reads
    return found


def _asks_first(lines: Sequence[Line]) -> bool:
    """Whether the body asks for the condition code that it begins with."""
    for line in lines:
        if isinstance(line, Instruction):
            if SCC in line.reads:
                return True
            if SCC in line.writes:
                return False
    return False


def _meet(some: Sequence[Register], others: Sequence[Register]) -> bool:
    return any(one.overlaps(other) for one in some for other in others)
