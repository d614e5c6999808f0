"""Program flow, waits and barriers (SOPP), and scalar loads (SMEM)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pipeloom.judge.emulate.decode import Instruction
from pipeloom.judge.emulate.findings import FindingKind
from pipeloom.judge.emulate.memory import load_words
from pipeloom.judge.emulate.observe import Effect, Space, Touch
from pipeloom.judge.emulate.operands import scalar_bits, scalar_reader, unsupported
from pipeloom.judge.emulate.pending import Counter, Pending
from pipeloom.judge.emulate.registers import EXEC, SCC, VCC, register_bits
from pipeloom.judge.emulate.scalar_ops import signed
from pipeloom.judge.emulate.step import Run, Step
from pipeloom.judge.emulate.wave import Wave, WaveState

_IGNORED = frozenset(
    {
        "s_nop",
        "s_setprio",
        "s_sleep",
        "s_icache_inv",
        "s_incperflevel",
        "s_decperflevel",
        "s_ttracedata",
        "s_wakeup",
        "s_sethalt",
        "s_sendmsg",
    }
)
_CONDITIONS: Mapping[str, tuple[int, Callable[[Wave], bool]]] = {
    "s_branch": (0, lambda wave: True),
    "s_cbranch_scc0": (1 << SCC, lambda wave: not wave.scc),
    "s_cbranch_scc1": (1 << SCC, lambda wave: bool(wave.scc)),
    "s_cbranch_vccz": (register_bits(VCC, 2), lambda wave: not wave.read_mask(VCC)),
    "s_cbranch_vccnz": (register_bits(VCC, 2), lambda wave: bool(wave.read_mask(VCC))),
    "s_cbranch_execz": (register_bits(EXEC, 2), lambda wave: not wave.exec_mask),
    "s_cbranch_execnz": (register_bits(EXEC, 2), lambda wave: bool(wave.exec_mask)),
}


def build(instruction: Instruction, at: Mapping[int, int]) -> Step | None:
    """The step of a SOPP or SMEM instruction; ``at`` maps a pc to its place in the program."""
    if instruction.encoding == "SMEM":
        return _scalar_load(instruction)
    if instruction.encoding != "SOPP":
        return None
    name = instruction.name
    if name in _IGNORED:
        return Step(instruction, lambda wave: None)
    if name in _CONDITIONS:
        return _branch(instruction, at)
    if name == "s_waitcnt":
        return Step(instruction, _wait(instruction.fields["simm16"]))
    if name == "s_barrier":
        return Step(instruction, _arrive)
    if name in ("s_endpgm", "s_endpgm_saved"):
        return Step(instruction, _end)
    if name == "s_trap":
        return Step(instruction, _trap(instruction))
    raise unsupported(instruction)


def _branch(instruction: Instruction, at: Mapping[int, int]) -> Step:
    reads, condition = _CONDITIONS[instruction.name]
    target = instruction.pc + 4 + 4 * signed(instruction.fields["simm16"], 16)
    if target not in at:
        raise unsupported(instruction, f"branch to {target:#x}, which is no instruction")
    place = at[target]

    def run(wave: Wave) -> None:
        if condition(wave):
            wave.next = place

    return Step(instruction, run, reads)


def wait_counts(immediate: int) -> tuple[int, int, int]:
    """(vmcnt, expcnt, lgkmcnt) of a gfx9 s_waitcnt immediate."""
    return immediate & 15 | immediate >> 10 & 0x30, immediate >> 4 & 7, immediate >> 8 & 15


def _wait(immediate: int) -> Run:
    vm, _, lgkm = wait_counts(immediate)
    return lambda wave: wave.group.wait(wave, vm, lgkm)


def _arrive(wave: Wave) -> None:
    wave.barriers += 1
    wave.state = WaveState.AT_BARRIER


def _end(wave: Wave) -> None:
    wave.state = WaveState.ENDED


def _trap(instruction: Instruction) -> Run:
    def run(wave: Wave) -> None:
        message = f"s_trap {instruction.fields['simm16']}"
        wave.group.report(FindingKind.TRAP, wave, instruction, message)
        wave.state = WaveState.ENDED

    return run


_FIRST_LANE = np.zeros(1, np.intp)
_SMEM_WORDS = {
    "s_load_dword": 1,
    "s_load_dwordx2": 2,
    "s_load_dwordx4": 4,
    "s_load_dwordx8": 8,
    "s_load_dwordx16": 16,
}


def _scalar_load(instruction: Instruction) -> Step:
    name, fields = instruction.name, instruction.fields
    if name in ("s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol"):
        return Step(instruction, lambda wave: None)
    if name in ("s_memtime", "s_memrealtime"):
        return _clock(instruction)
    if name not in _SMEM_WORDS:
        raise unsupported(instruction)
    words, target, base = _SMEM_WORDS[name], fields["sdata"], fields["sbase"]
    if target in (EXEC, EXEC + 1):
        raise unsupported(instruction, "scalar load into exec")
    read_base = scalar_reader(base, 2, instruction)
    offset = signed(fields["offset"], 21) if fields["imm"] else 0
    register: int | None = None
    if fields["soffset_en"]:
        register = fields["soffset"]
    elif not fields["imm"]:
        register = fields["offset"] & 0x7F
    read_offset = None if register is None else scalar_reader(register, 1, instruction)
    written = register_bits(target, words)

    def run(wave: Wave) -> None:
        moved = read_base(wave) + offset + (read_offset(wave) if read_offset else 0)
        address = signed(moved & 0xFFFFFFFFFFFFFFFC, 64)
        group = wave.group
        addresses = np.array([address], np.int64)
        extents, outside = group.memory.split(addresses, 4 * words)
        if outside.size:
            message = f"reads {4 * words} bytes at {group.memory.describe(address)}"
            group.report(FindingKind.OUT_OF_BOUNDS, wave, instruction, message)

        def land() -> None:
            wave.s[target : target + words] = load_words(extents, 1, words)[0].tolist()

        touches = (Touch(Space.GLOBAL, Effect.READ, _FIRST_LANE, addresses, 4 * words),)
        group.issue(wave, Pending(instruction, Counter.SMEM, land, written, 1, touches=touches))

    reads = register_bits(base, 2) | (0 if register is None else scalar_bits(register))
    return Step(instruction, run, reads, written)


def _clock(instruction: Instruction) -> Step:
    """s_memtime: instructions issued by the workgroup, which at least grows."""
    target = instruction.fields["sdata"]
    written = register_bits(target, 2)

    def run(wave: Wave) -> None:
        now = wave.group.clock

        def land() -> None:
            wave.s[target], wave.s[target + 1] = now & 0xFFFFFFFF, now >> 32

        wave.group.issue(wave, Pending(instruction, Counter.SMEM, land, written, 1))

    return Step(instruction, run, 0, written)
