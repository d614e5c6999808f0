"""Program flow, waits and barriers (SOPP)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.observed import DefectKind
from pipeloom.judge.emulate.operands import unsupported
from pipeloom.judge.emulate.pending import WaitCounts
from pipeloom.judge.emulate.register_numbers import EXEC, SCC, VCC, register_bits
from pipeloom.judge.emulate.step import MicroOp, Run
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


def build(instruction: Decoded, at: Mapping[int, int]) -> MicroOp | None:
    """The step of a SOPP instruction; ``at`` maps a pc to its place in the program."""
    if instruction.encoding != "SOPP":
        return None
    name = instruction.name
    if name in _IGNORED:
        return MicroOp(instruction, lambda wave: None)
    if name in _CONDITIONS:
        return _branch(instruction, at)
    if name == "s_waitcnt":
        return MicroOp(instruction, _wait(instruction.fields["simm16"]))
    if name == "s_barrier":
        return MicroOp(instruction, _arrive)
    if name in ("s_endpgm", "s_endpgm_saved"):
        return MicroOp(instruction, _end)
    if name == "s_trap":
        return MicroOp(instruction, _trap(instruction))
    raise unsupported(instruction)


def _branch(instruction: Decoded, at: Mapping[int, int]) -> MicroOp:
    reads, condition = _CONDITIONS[instruction.name]
    target = instruction.target
    assert target is not None
    if target not in at:
        raise unsupported(instruction, f"branch to {target:#x}, which is no instruction")
    place = at[target]

    def run(wave: Wave) -> None:
        if condition(wave):
            wave.next = place

    return MicroOp(instruction, run, reads)


def _wait(immediate: int) -> Run:
    left = WaitCounts.of(immediate).left()
    return lambda wave: wave.group.wait(wave, left)


def _arrive(wave: Wave) -> None:
    wave.barriers += 1
    wave.state = WaveState.AT_BARRIER


def _end(wave: Wave) -> None:
    wave.state = WaveState.ENDED


def _trap(instruction: Decoded) -> Run:
    def run(wave: Wave) -> None:
        message = f"s_trap {instruction.fields['simm16']}"
        wave.group.report(DefectKind.TRAP, wave, instruction, message)
        wave.state = WaveState.ENDED

    return run
