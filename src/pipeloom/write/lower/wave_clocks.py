"""Kernels that time themselves: every wave keeps when it began, looped and ended, and stores that.

    timed = emit_program(program, timed=True)
    timed.arguments[-3:]        # timing, timing_x, timing_y
    timed.timing                # what the record holds

A record is one register, a word of it per lane. So a timed kernel needs one vector register more,
whatever it records, and two scalar ones; which registers the kernel itself has, and the order of
its instructions, do not change. ``s_memtime`` comes back out of the order of LDS accesses, so that
nothing but ``lgkmcnt(0)`` waits for it (CDNA3 ISA, 4.4): it stands at the begin, before and behind
the loop and at the end, each followed by that wait, and never inside the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.mnemonics import MNEMONICS
from pipeloom.machine.occupancy import Resources
from pipeloom.program import Group, Section
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Opcode, Register, sgpr, vgpr
from pipeloom.write.lower.memory import ARGUMENT_POINTER
from pipeloom.write.text import Argument

BEGIN, LOOP, AFTER, END, BEGIN_CONSTANT, END_CONSTANT = 0, 2, 4, 6, 8, 10
"""Words of a record where the shader clock (64 bits) stands, and the constant clock."""
HW_ID, XCC_ID, LEFT, STEP = 12, 13, 14, 15
"""Further words: where the wave ran, elements left at the loop's begin, and taken by a trip."""
RECORD_WORDS = 16
_BASE = RECORD_WORDS
"""Lanes behind the record keep where to store it."""
_LOG_BYTES = (4 * RECORD_WORDS).bit_length() - 1
POINTER, GRID_X, GRID_Y = "timing", "timing_x", "timing_y"


@dataclass(frozen=True, slots=True)
class TimingRecord:
    """What a timed kernel stores, and what its launcher must pass for that."""

    waves: int
    """Waves of a workgroup; wave w of workgroup (x, y, z) stores record number
    ``((z * timing_y + y) * timing_x + x) * waves + w``."""
    pointer: str = POINTER
    """The argument that points to the records."""
    grid_x: str = GRID_X
    """The argument that is the number of workgroups along x."""
    grid_y: str = GRID_Y
    """The argument that is the number of workgroups along y."""
    words: int = RECORD_WORDS
    """Words of 32 bits in a record."""

    def bytes(self, grid: Sequence[int]) -> int:
        """Bytes that a launch of so many workgroups stores.

        Args:
            grid: Workgroups along x, y and z.
        """
        return 4 * self.words * self.waves * prod(grid)

    def values(self, grid: Sequence[int]) -> dict[str, Any]:
        """What a launch of so many workgroups passes, by argument; the records are zeros.

        Args:
            grid: Workgroups along x, y and z.
        """
        records = np.zeros(self.bytes(grid) // 4, np.uint32)
        return {self.pointer: records, self.grid_x: grid[0], self.grid_y: grid[1]}


def _opcode(name: str, *operands: str) -> Opcode:
    return Opcode(name, MNEMONICS[name].unit, operands)


_TIME = _opcode("s_memtime", "=s2")
_CONSTANT_TIME = _opcode("s_memrealtime", "=s2")
_WHERE = _opcode("s_getreg_b32", "=s1")
_KEEP = _opcode("v_writelane_b32", "=v1", "si1", "i")
_GET = _opcode("v_readlane_b32", "=s1", "v1", "i")
_LANE = _opcode("v_mbcnt_lo_u32_b32", "=v1", "si1", "si1")
_STORE = _opcode("global_store_dword", "v1", "v1", "s2")


def timed_loop(group: Group) -> Section | None:
    """The loop of a group that clocks stand around: its first."""
    return next((s for s in group.sections if s.trips is not None and s.steps), None)


class WaveClocks:
    """What a timed kernel has beside its own instructions."""

    def __init__(self, resources: Resources, arguments: Sequence[Argument], ids: int) -> None:
        even = -(-resources.sgprs // 2) * 2
        self._own, self._ids, self._waves = resources, ids, resources.waves
        self._scratch = sgpr(even, 2)
        self._record = vgpr(resources.vgprs)
        end = max((a.offset + a.size for a in arguments), default=0)
        offset = -(-end // 8) * 8
        self.arguments = (
            *arguments,
            Argument(POINTER, offset, 8, True),
            Argument(GRID_X, offset + 8, 4, False),
            Argument(GRID_Y, offset + 12, 4, False),
        )
        self.timing = TimingRecord(self._waves)

    def resources(self) -> Resources:
        """What the timed kernel occupies; raises ``EmitError`` where there is no room."""
        own, target = self._own, self._own.target
        found = replace(own, vgprs=own.vgprs + 1, sgprs=self._scratch.index + 2)
        room = target.vgpr_share(own.waves)
        for what, has, most in (
            ("vector registers", found.vgprs, target.direct_vgprs.value),
            ("vector registers", found.registers, room),
            ("scalar registers", found.sgprs, target.sgprs.value),
        ):
            if has > most:
                raise EmitError(
                    f"a timed kernel of this one would need {has} {what}, and there are {most}",
                    hint="time a smaller tile, or take a thread trace (pipeloom trace --measured)",
                    field="timed",
                )
        return found

    def begin(self, code: Code) -> None:
        """The first clock, and where this wave's record goes. Nothing of the kernel is live yet."""
        pointer, grid = sgpr(8, 2), sgpr(10, 2)
        clock, constant, at, wave = sgpr(12, 2), sgpr(14, 2), sgpr(16), sgpr(17)
        code.comment("timed: the clocks at the begin, and where the record goes")
        code(_TIME, clock)
        code(_CONSTANT_TIME, constant)
        arguments = sgpr(0, ARGUMENT_POINTER)
        code("s_load_dwordx2", pointer, arguments, self.arguments[-3].offset)
        code("s_load_dwordx2", grid, arguments, self.arguments[-2].offset)
        code("v_mov_b32", self._record, 0)
        code.wait(lgkm=0)
        x, y, z = (sgpr(ARGUMENT_POINTER + i) for i in range(3))
        if self._ids > 2:
            code("s_mul_i32", at, z, grid.part(1))
            code("s_add_u32", at, at, y)
            code("s_mul_i32", at, at, grid.part(0))
        else:
            code("s_mul_i32", at, y, grid.part(0))
        code("s_add_u32", at, at, x)
        code("s_mul_i32", at, at, self._waves)
        code("v_readfirstlane_b32", wave, vgpr(0))
        code("s_lshr_b32", wave, wave, WAVE_LANES.bit_length() - 1)
        code("s_add_u32", at, at, wave)
        code("s_lshl_b32", at, at, _LOG_BYTES)
        code("s_add_u32", pointer.part(0), pointer.part(0), at)
        code("s_addc_u32", pointer.part(1), pointer.part(1), 0)
        for word, pair in ((BEGIN, clock), (BEGIN_CONSTANT, constant), (_BASE, pointer)):
            self._keep(code, word, pair)

    def before_loop(self, code: Code, left: Register, step: int) -> None:
        """The clock, and how far the loop has to go."""
        code.comment("timed: the loop begins")
        self._stamp(code, LOOP)
        code(_KEEP, self._record, left, LEFT)
        code("s_mov_b32", self._scratch.part(0), step)
        code(_KEEP, self._record, self._scratch.part(0), STEP)

    def after_loop(self, code: Code) -> None:
        """The clock when the loop is left, or was not entered."""
        code.comment("timed: the loop ends")
        self._stamp(code, AFTER)

    def end(self, code: Code) -> None:
        """The clocks when all is stored, and the record. Nothing of the kernel is live any more."""
        code.comment("timed: all is stored; the record goes to memory")
        code.wait(vm=0, lgkm=0)
        clock, constant, pointer = sgpr(8, 2), sgpr(10, 2), sgpr(14, 2)
        code(_TIME, clock)
        code(_CONSTANT_TIME, constant)
        code(_WHERE, sgpr(12), modifiers=(", hwreg(HW_REG_HW_ID)",))
        code(_WHERE, sgpr(13), modifiers=(", hwreg(HW_REG_XCC_ID)",))
        code.wait(lgkm=0)
        for word, pair in ((END, clock), (END_CONSTANT, constant), (HW_ID, sgpr(12, 2))):
            self._keep(code, word, pair)
        for half in range(2):
            code(_GET, pointer.part(half), self._record, _BASE + half)
        code("s_mov_b64 exec", (1 << RECORD_WORDS) - 1)
        lane = vgpr(0) if self._record.index else vgpr(1)
        code(_LANE, lane, -1, 0)
        code("v_lshlrev_b32", lane, 2, lane)
        code(_STORE, lane, self._record, pointer)

    def _stamp(self, code: Code, word: int) -> None:
        code(_TIME, self._scratch)
        code.wait(lgkm=0)
        self._keep(code, word, self._scratch)

    def _keep(self, code: Code, word: int, pair: Register) -> None:
        for half in range(2):
            code(_KEEP, self._record, pair.part(half), word + half)
