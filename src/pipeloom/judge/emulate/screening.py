"""What happens when an instruction touches a register that is poisoned or in flight.

The policy, in one place:

- Reading a register whose load is not retired is a finding, whatever the instruction.
- Reading poison in an active lane is a finding, except for copies (moves, AGPR transfers, LDS and
  scratch traffic, lane permutations), which carry the poison along: compilers copy undefined
  values around legitimately, and the finding belongs to the instruction that uses one.
- Instructions that only move bits (shifts, and, or, bit-field and byte picks) carry a register that
  was never written, and make a lane clean when one of their sources is: compilers assemble words
  from halves of which one is undefined. Poison out of LDS is reported there as anywhere.
- In a 64-bit sum or left shift an undefined upper half spoils only the upper half of the result:
  compilers use these for their lower half.
- A selection (v_cndmask, s_cselect) reads only the side it picks.
- Writing a register while a load into it is outstanding is a finding: the load may land later.
  A load may follow a load on the same counter, since those land in order.
- A reported lane counts as clean afterwards, so that one defect gives one finding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeloom.judge.emulate.observed import DefectKind
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import ALL_LANES, VGPR, each_register, register_name
from pipeloom.judge.emulate.wave import NEVER_WRITTEN, Wave

if TYPE_CHECKING:
    from pipeloom.judge.emulate.step import MicroOp


def active_lanes(wave: Wave, step: MicroOp, register: int) -> int:
    """The lanes of a register that the instruction reads or writes; scalars have one."""
    if register < VGPR:
        return 1
    return ALL_LANES if step.whole_wave else wave.exec_mask


def screen_reads(wave: Wave, step: MicroOp) -> None:
    """The default: sources must be clean, destinations become clean."""
    check_sources(wave, step, each_register(step.reads & wave.dirty))
    settle_writes(wave, step)


def screen_load(counter: WaitQueue) -> Callable[[Wave, MicroOp], None]:
    """A load on ``counter``: it may follow another load into the same register."""

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, each_register(step.reads & wave.dirty))
        settle_writes(wave, step, loading=counter)

    return screen


def screen_copy(wave: Wave, step: MicroOp) -> None:
    """A register copy: poison moves from source to destination, register by register."""
    carried: list[tuple[int, int, str]] = []
    sources, targets = step.read_list, step.write_list
    paired = len(sources) == len(targets)
    for position, target in enumerate(targets):
        chosen = [sources[position]] if paired else sources
        lanes, cause = 0, NEVER_WRITTEN
        for source in chosen:
            check_in_flight(wave, step, source, active_lanes(wave, step, source))
            poisoned = wave.poison.get(source, 0)
            if poisoned:
                if source < VGPR <= target:
                    poisoned = ALL_LANES
                elif target < VGPR <= source:
                    poisoned = 1 if poisoned & wave.exec_mask else 0
                lanes |= poisoned & active_lanes(wave, step, target)
                cause = wave.poison_cause.get(source, NEVER_WRITTEN)
        if lanes:
            carried.append((target, lanes, cause))
    settle_writes(wave, step)
    for target, lanes, cause in carried:
        wave.add_poison(target, lanes, cause)


def screen_bits(wave: Wave, step: MicroOp) -> None:
    """A bit move: undefined registers pass through where no other vector source is defined."""
    common = ALL_LANES
    for register in step.read_list:
        lanes = active_lanes(wave, step, register)
        check_in_flight(wave, step, register, lanes)
        poisoned = wave.poison.get(register, 0)
        if register < VGPR or wave.poison_cause.get(register, NEVER_WRITTEN) != NEVER_WRITTEN:
            check_poison(wave, step, register, lanes)
        else:
            common &= poisoned
    target = step.write_list[0]
    if not any(register >= VGPR for register in step.read_list):
        common = 0
    settle_writes(wave, step)
    carried = common & active_lanes(wave, step, target)
    if carried:
        wave.add_poison(target, carried)


def screen_upper(uppers: list[int], target: int) -> Callable[[Wave, MicroOp], None]:
    """A 64-bit operation whose lower result does not depend on these upper halves."""

    def screen(wave: Wave, step: MicroOp) -> None:
        carried = 0
        others = [register for register in step.read_list if register not in uppers]
        check_sources(wave, step, others)
        for register in uppers:
            lanes = active_lanes(wave, step, register)
            check_in_flight(wave, step, register, lanes)
            if wave.poison_cause.get(register, NEVER_WRITTEN) != NEVER_WRITTEN:
                check_poison(wave, step, register, lanes)
            carried |= wave.poison.get(register, 0) & lanes
        settle_writes(wave, step)
        if carried:
            wave.add_poison(target, carried)

    return screen


def check_sources(wave: Wave, step: MicroOp, registers: list[int]) -> None:
    """Report every one of these registers that is in flight or poisoned in an active lane."""
    for register in registers:
        lanes = active_lanes(wave, step, register)
        check_in_flight(wave, step, register, lanes)
        check_poison(wave, step, register, lanes)


def check_in_flight(wave: Wave, step: MicroOp, register: int, lanes: int) -> None:
    """Report a read of these lanes while a load into them is outstanding."""
    if not wave.in_flight >> register & 1:
        return
    pending = wave.outstanding(register, lanes)
    if pending is not None:
        report_in_flight(wave, step, register, pending, DefectKind.IN_FLIGHT_READ, "reads")


def check_poison(wave: Wave, step: MicroOp, register: int, lanes: int) -> None:
    """Report a use of poison in these lanes, and count them as clean from here on."""
    poisoned = wave.poison.get(register, 0) & lanes
    if not poisoned:
        return
    where = f" in {poisoned.bit_count()} lanes" if register >= VGPR else ""
    wave.group.report(
        DefectKind.POISON_READ,
        wave,
        step.instruction,
        f"uses {register_name(register)}{where}: {wave.poison_cause.get(register, NEVER_WRITTEN)}",
    )
    wave.clear_poison([register], poisoned)


def settle_writes(wave: Wave, step: MicroOp, *, loading: WaitQueue | None = None) -> None:
    """Report writes under a load, then mark the written lanes clean."""
    for register in each_register(step.writes & wave.dirty):
        lanes = active_lanes(wave, step, register)
        if wave.in_flight >> register & 1:
            pending = wave.outstanding(register, lanes)
            if pending is not None and pending.counter is not loading:
                kind = DefectKind.IN_FLIGHT_WRITE
                report_in_flight(wave, step, register, pending, kind, "writes")
        wave.clear_poison([register], lanes)


def report_in_flight(
    wave: Wave, step: MicroOp, register: int, pending: Pending, kind: DefectKind, verb: str
) -> None:
    """Report one clash between an instruction and an operation in flight."""
    cause = pending.instruction
    wave.group.report(
        kind,
        wave,
        step.instruction,
        f"{verb} {register_name(register)}, but {cause.name} at "
        f"{wave.group.place(cause.pc)} is still outstanding ({pending.counter.value})",
        cause=cause,
    )
