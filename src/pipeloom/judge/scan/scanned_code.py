"""Instructions as the scan reads them: registers, queues, waits, barriers, where control goes.

    buffer_load_dword v4, v1, s[8:11], 0 offen    reads v1 s[8:11], vmcnt, brings v4
    s_waitcnt vmcnt(0)                            wait (0, 15)

Registers are bits (``register_numbers``). The queues are those of docs/memory-model.md: vmcnt and
LDS operations return in order; scalar loads, and the LDS side of flat ones, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pipeloom.judge.emulate.code_modes import skip_places
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.pending import WaitCounts, WaitQueue
from pipeloom.judge.emulate.register_numbers import EXEC, VGPR, register_bits
from pipeloom.judge.emulate.traps import EmulateError
from pipeloom.judge.wait_states import Issued, registers_of
from pipeloom.machine.mnemonics import MNEMONICS, Pipe
from pipeloom.machine.target import Target

EXEC_BITS = register_bits(EXEC, 2)
_UNFOLLOWED = ("s_setpc", "s_swappc", "s_call", "s_rfe", "s_cbranch_g_fork", "s_cbranch_i_fork")
"""Jumps whose target is a value."""
_JOIN = "s_cbranch_join"
_INDEX_ON, _INDEX_OFF = "s_set_gpr_idx_on", "s_set_gpr_idx_off"
_ALL_ONES = 193
"""The operand code of -1."""
_NO_MEMORY = ("buffer_wbl2", "buffer_inv", "ds_nop")
_NOT_LDS = ("permute", "swizzle", "gws", "_nop")


class NotFollowedError(EmulateError):
    """Control goes where the scan cannot follow it."""


class LdsTouch(Enum):
    """What an instruction does to LDS."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    DMA = "LDS-DMA"
    """A load from global memory that writes LDS."""


@dataclass(frozen=True, slots=True)
class ScanStep:
    """One instruction."""

    at: int
    instruction: Decoded
    reads: int = 0
    writes: int = 0
    queues: tuple[WaitQueue, ...] = ()
    """The counters that it holds up."""
    brings: int = 0
    """Registers that memory fills, between issue and wait."""
    lds: LdsTouch | None = None
    wait: tuple[tuple[WaitQueue, int], ...] | None = None
    """How many operations a wait leaves of each queue that it waits for."""
    barrier: bool = False
    other_lanes: bool = False
    """Whether EXEC may lose lanes here."""
    indexed: bool = False
    """Whether a register decides which registers it touches."""
    targets: tuple[int, ...] = ()
    falls: bool = True
    """Whether control may go on at the next instruction."""
    ends: bool = False
    """Whether the wave is over."""

    @property
    def event(self) -> bool:
        """Whether it changes what is in flight."""
        return bool(self.queues) or self.wait is not None or self.barrier or self.other_lanes


def read_steps(
    instructions: Sequence[Decoded], issued: Sequence[Issued], target: Target
) -> tuple[ScanStep, ...]:
    """All instructions of a kernel; ``issued`` are the same, for the judge of wait states."""
    skips = skip_places(instructions)
    found: list[ScanStep] = []
    indexing = False
    for at, (one, facts) in enumerate(zip(instructions, issued, strict=True)):
        if one.name in (_INDEX_ON, _INDEX_OFF):
            indexing = one.name == _INDEX_ON
        vector = indexing and one.encoding.startswith("VOP")
        found.append(_step(at, one, facts, target, skips, vector))
    return tuple(found)


def _step(
    at: int,
    one: Decoded,
    facts: Issued,
    target: Target,
    skips: Mapping[int, int],
    indexed: bool,
) -> ScanStep:
    name = one.name
    if one.encoding == "SOPP":
        if name == "s_waitcnt":
            return ScanStep(at, one, wait=WaitCounts.of(one.fields["simm16"]).left())
        ends = name.startswith("s_endpgm")
        falls = not ends and name != "s_branch"
        if one.target is not None and not facts.targets:
            raise NotFollowedError(f"the target of {name} at pc {one.pc:#x} is not in the kernel")
        return ScanStep(
            at, one, barrier=name == "s_barrier", targets=facts.targets, falls=falls, ends=ends
        )
    if name.startswith(_UNFOLLOWED) or name == _JOIN:
        raise NotFollowedError(f"{name} at pc {one.pc:#x} goes where a register says")
    if one.pc in skips and one.fields["ssrc0"] != 128:
        return ScanStep(at, one, targets=(skips[one.pc],))
    reads, writes = (_bits(registers) for registers in registers_of(facts, target))
    queues = _queues(one)
    into_lds = (bool(one.fields.get("lds")) and one.encoding == "MUBUF") or "_load_lds_" in name
    full = name == "s_mov_b64" and one.fields.get("ssrc0") == _ALL_ONES
    return ScanStep(
        at,
        one,
        reads,
        writes,
        queues,
        writes if queues else 0,
        LdsTouch.DMA if into_lds else _lds_use(one),
        other_lanes=(bool(writes & EXEC_BITS) or _masks(name)) and not full,
        indexed=indexed,
    )


def _masks(name: str) -> bool:
    return name.endswith("exec_b64") or name.startswith("v_cmpx")


def _bits(registers: Sequence[int]) -> int:
    bits = 0
    for register in registers:
        bits |= 1 << register
    return bits


def _queues(one: Decoded) -> tuple[WaitQueue, ...]:
    traits = MNEMONICS.get(one.name)
    if traits is None or one.name in _NO_MEMORY:
        return ()
    if traits.unit is Pipe.MEMORY:
        flat = one.encoding == "FLAT"
        return (WaitQueue.VM, WaitQueue.SMEM) if flat else (WaitQueue.VM,)
    if traits.unit is Pipe.LDS:
        return (WaitQueue.LGKM,)
    return (WaitQueue.SMEM,) if traits.unit is Pipe.SMEM else ()


def _lds_use(one: Decoded) -> LdsTouch | None:
    if one.encoding != "DS" or any(part in one.name for part in _NOT_LDS) or one.fields.get("gds"):
        return None
    if one.name.startswith("ds_read"):
        return LdsTouch.READ
    return LdsTouch.WRITE if one.name.startswith("ds_write") else LdsTouch.ATOMIC


def is_vector_set(bits: int) -> bool:
    """Whether a set has registers that lanes hold."""
    return bits >> VGPR != 0
