"""Scalar arithmetic of a loop, moved up to where it costs nothing: under matrix instructions.

A step writes its address before its load, and a loop its counting before the branch. A matrix
instruction runs for longer than its wave needs to issue it and so leaves room for a few others; one
more makes the next matrix instruction late, and at a barrier or at the branch any does.

    v_mfma ...                      v_mfma ...
    s_barrier                       s_add_u32 m0, s36, 0x1000
    v_mfma ...                      v_mfma ...
    s_add_u32 m0, s36, 0x1000       s_barrier
    buffer_load_dwordx4 ... lds     v_mfma ...
                                    buffer_load_dwordx4 ... lds

An instruction moves up past whatever neither reads nor writes a register of its own, but past no
label, no branch and nothing that changes which lanes run. A condition code that nobody asks for
does not count. What writes m0 can only stand between two loads, so it chooses first and stays near
its load; the rest goes up as far as there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeloom.machine.cdna import CYCLES_PER_PASS
from pipeloom.machine.mnemonics import Pipe
from pipeloom.machine.target import Target
from pipeloom.write.isa import M0, SCC, Comment, Instruction, Line, Register


def hoist_scalars(lines: Sequence[Line], target: Target) -> list[Line]:
    """A loop's body with its scalar instructions where matrix instructions leave room.

    The end of the body asks for the last condition code.
    """
    body = _Body(lines, target)
    for first in (True, False):
        for at in [i for i in body.scalars if (M0 in body.written(i)) is first]:
            body.move(at, near=first)
    return list(body.lines())


@dataclass(slots=True)
class _Gap:
    """A matrix instruction with what stands behind it, by line, up to the next; ``room`` are the
    instructions that it still takes for free."""

    members: list[int]
    room: int


class _Body:
    def __init__(self, lines: Sequence[Line], target: Target) -> None:
        self._lines = lines
        self._gaps = [_Gap([], 0)]
        self._gap: dict[int, int] = {}
        for at, line in enumerate(lines):
            if _is(line, Pipe.MATRIX):
                self._gaps.append(_Gap([], _room(line, target)))
            self._gaps[-1].members.append(at)
            self._gaps[-1].room -= _cost(line, target)
            self._gap[at] = len(self._gaps) - 1
        self._gaps[-1].room = 0
        self._asked = set(_asked(lines))
        instructions = [line for line in lines if isinstance(line, Instruction)]
        self._brought = [r for i in instructions if _is(i, Pipe.SMEM) for r in i.writes]

    @property
    def scalars(self) -> list[int]:
        """All but what a branch right behind asks for."""
        found = [at for at, line in enumerate(self._lines) if isinstance(line, Instruction)]
        jumps = {
            at
            for at, behind in pairwise(found)
            if getattr(self._lines[behind], "target", None) is not None and at in self._asked
        }
        return [at for at in found if _is(self._lines[at], Pipe.SALU) and at not in jumps]

    def lines(self) -> Iterator[Line]:
        return (self._lines[at] for gap in self._gaps for at in gap.members)

    def written(self, at: int) -> tuple[Register, ...]:
        """What an instruction writes that somebody reads."""
        line = self._lines[at]
        assert isinstance(line, Instruction)
        return tuple(r for r in line.writes if r != SCC or at in self._asked)

    def move(self, at: int, *, near: bool) -> None:
        """Move a scalar instruction up to a gap that has room, if there is one: the last before
        its own, or the first.

        Where there is none, it takes a place ahead of the matrix instruction before it, or of one
        other instruction: what follows m0 at once would need a nop.
        """
        here = self._gap[at]
        highest = self._highest(at)
        found = range(highest, here)
        free = [g for g in (reversed(found) if near else found) if self._gaps[g].room > 0]
        if free:
            self._put(at, free[0], self._end(free[0]))
        elif near and found:
            self._put(at, here - 1, self._end(here - 1))
        elif near:
            members = self._gaps[here].members
            above = [i for i in members[: members.index(at)] if self._runs(i)]
            if above and self._passes(at, above[-1]):
                self._put(at, here, members.index(above[-1]))

    def _put(self, at: int, gap: int, place: int) -> None:
        old, new = self._gaps[self._gap[at]], self._gaps[gap]
        old.members.remove(at)
        old.room += 1
        new.members.insert(place, at)
        new.room -= 1
        self._gap[at] = gap

    def _highest(self, at: int) -> int:
        """The first gap at whose end an instruction may stand."""
        gap = self._gap[at]
        members = self._gaps[gap].members
        passed = members[: members.index(at)]
        while gap and all(self._passes(at, i) for i in passed if self._runs(i)):
            gap -= 1
            passed = self._gaps[gap].members
        return gap

    def _end(self, gap: int) -> int:
        """Where one more goes in a gap: ahead of waits, which may take long."""
        members = self._gaps[gap].members
        place = len(members)
        while place > 1 and (not self._runs(at := members[place - 1]) or _waits(self._lines[at])):
            place -= 1
        return place

    def _runs(self, at: int) -> bool:
        """Whether a line is more than words."""
        return not isinstance(self._lines[at], Comment)

    def _passes(self, at: int, other: int) -> bool:
        """Whether the order of the two makes no difference."""
        moved, line = self._lines[at], self._lines[other]
        if not isinstance(moved, Instruction) or not isinstance(line, Instruction):
            return False
        unit = line.opcode.unit
        if unit is Pipe.SMEM or (unit is Pipe.CONTROL and not _waits(line)):
            return False
        if _waits(line) and _meet((*moved.reads, *moved.writes), self._brought):
            return False  # what the scalar unit loads is there behind its wait
        return not (
            _meet(moved.writes, line.reads)
            or _meet(moved.reads, line.writes)
            or _meet(self.written(at), line.writes)
        )


def _meet(some: Sequence[Register], others: Sequence[Register]) -> bool:
    return any(one.overlaps(other) for one in some for other in others)


def _is(line: Line, unit: Pipe) -> bool:
    return isinstance(line, Instruction) and line.opcode.unit is unit


def _waits(line: Line) -> bool:
    """Whether a line only holds its wave up."""
    return isinstance(line, Instruction) and line.opcode.name in ("s_waitcnt", "s_barrier")


def _cost(line: Line, target: Target) -> int:
    """Issue slots that a line takes of its gap."""
    if not isinstance(line, Instruction) or _is(line, Pipe.MATRIX):
        return 0
    if line.opcode.name == "s_barrier":
        return target.barrier_alone_cycles.value // target.issue_cycles.value
    return 1


def _room(line: Line, target: Target) -> int:
    """Instructions that issue under a matrix instruction for free."""
    assert isinstance(line, Instruction)
    held = target.mfma_operand_cycles.value
    if "_scale_" in line.opcode.name:
        held += target.mfma_scale_cycles.value
    return (CYCLES_PER_PASS * line.opcode.passes - held) // target.issue_cycles.value


def _asked(lines: Sequence[Line]) -> Iterator[int]:
    """The lines whose condition code is read."""
    asked = True
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at]
        if not isinstance(line, Instruction):
            asked = asked or not isinstance(line, Comment)
            continue
        if SCC in line.writes and asked:
            yield at
            asked = False
        asked = asked or SCC in line.reads
