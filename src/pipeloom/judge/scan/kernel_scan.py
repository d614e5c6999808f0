"""Scan one kernel: ask each of the walks, and make one finding of what belongs together."""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence

from pipeloom.judge.emulate.decode import decode_once
from pipeloom.judge.emulate.disassembly import instruction_text
from pipeloom.judge.emulate.loader import CodeKernel
from pipeloom.judge.emulate.register_numbers import each_register
from pipeloom.judge.emulate.traps import EmulateError
from pipeloom.judge.emulate.wait_states import read_instructions
from pipeloom.judge.scan.control_flow import CodePaths, control_flow
from pipeloom.judge.scan.emulated import EmulatedSteps
from pipeloom.judge.scan.lane_values import LaneValues
from pipeloom.judge.scan.lds_bytes import byte_range
from pipeloom.judge.scan.lds_hazards import LdsMeeting, LdsScan, scan_lds
from pipeloom.judge.scan.register_hazards import RegisterMeeting, RegisterScan, scan_registers
from pipeloom.judge.scan.scan_findings import KernelScan, ScanFinding, ScanKind, ScanPlace
from pipeloom.judge.scan.scanned_code import LdsTouch, ScanStep, read_steps
from pipeloom.judge.scan.wave_branches import WaveBranches, wave_branches
from pipeloom.judge.wait_states import Issued, Shortfall, judge, register_name
from pipeloom.machine.wait_rules import Basis

MOST_THREADS = 1024
"""Of a workgroup."""
MOST_INSTRUCTIONS = 200_000
"""Of one kernel; the largest of AITER has 30,000."""


def scan_kernel(
    kernel: CodeKernel, file: str = "", lines: Mapping[int, str] | None = None
) -> KernelScan:
    """Every finding of a kernel; ``reason`` says why where it cannot be judged.

    Args:
        kernel: The kernel.
        file: Where it comes from, for the record.
        lines: pc -> ``file:line``, as far as it is known.
    """
    try:
        return _scan(kernel, file, lines or {})
    except EmulateError as error:
        return KernelScan(file, kernel.name, kernel.arch, reason=error.message)


def _scan(kernel: CodeKernel, file: str, lines: Mapping[int, str]) -> KernelScan:
    if len(kernel.code) > 8 * MOST_INSTRUCTIONS:
        raise EmulateError(f"it has more than {8 * MOST_INSTRUCTIONS:,} bytes of code")
    decoded = decode_once(kernel.code)
    if len(decoded) > MOST_INSTRUCTIONS:
        raise EmulateError(f"it has more than {MOST_INSTRUCTIONS:,} instructions")
    issued = read_instructions(decoded)
    steps = read_steps(decoded, issued, kernel.target)
    flow = control_flow(steps)
    places = _Places(steps, lines)
    registers = scan_registers(steps, flow)
    emulated = EmulatedSteps(kernel.arch)
    branches = wave_branches(steps, flow, emulated)
    shared = _scan_lds(kernel, steps, flow, branches, emulated)
    short = judge(issued, kernel.target)
    findings = [
        *_register_findings(registers.meetings, places),
        *_lds_findings(shared.meetings, steps, places),
        *([] if shared.even else _barrier_findings(branches, places)),
        *_other_findings(registers, places),
        *_wait_states(short, steps, issued, places),
    ]
    not_known = Counter({f.reason: 0 for f in short if not f.missing})
    not_known.update(f.reason for f in short if not f.missing)
    indexed = sum(step.indexed for step in steps)
    if indexed:
        not_known["vector instructions whose registers M0 chooses"] = indexed
    if shared.unknown:
        not_known["LDS accesses whose address is not known"] = shared.unknown
    findings.sort(key=lambda f: (not f.kind.is_defect, not f.definite, f.second.pc, f.kind.value))
    return KernelScan(
        file,
        kernel.name,
        kernel.arch,
        len(decoded),
        tuple(findings),
        tuple(sorted(not_known.items())),
    )


def _scan_lds(
    kernel: CodeKernel,
    steps: Sequence[ScanStep],
    flow: CodePaths,
    branches: WaveBranches,
    emulated: EmulatedSteps,
) -> LdsScan:
    """LDS, for one workgroup as large as the kernel allows."""
    block = kernel.metadata.required_block
    threads = math.prod(block) if block else kernel.metadata.max_work_items
    if not threads or threads > MOST_THREADS:
        return LdsScan((), sum(step.lds is not None for step in steps))
    values = LaneValues(threads, emulated)
    return scan_lds(steps, flow, branches, values, kernel.target.lds_bytes)


class _Places:
    def __init__(self, steps: Sequence[ScanStep], lines: Mapping[int, str]) -> None:
        self._steps, self._lines = steps, lines

    def __getitem__(self, at: int) -> ScanPlace:
        one = self._steps[at].instruction
        return ScanPlace(one.pc, instruction_text(one), self._lines.get(one.pc, ""))


def _register_findings(meetings: Sequence[RegisterMeeting], places: _Places) -> list[ScanFinding]:
    """One for each load: the first that meets it, if any for certain, and the others."""
    by_load: dict[int, list[RegisterMeeting]] = {}
    for one in meetings:
        by_load.setdefault(one.first, []).append(one)
    found = []
    for first, group in by_load.items():
        certain = [one for one in group if one.definite]
        chosen = (certain or group)[0]
        # Code behind the load comes before what a loop brings round.
        for one in certain or group:
            if one.second > first:
                chosen = one
                break
        names = _names(chosen.registers)
        found.append(
            ScanFinding(
                ScanKind.REGISTER,
                chosen.definite,
                places[chosen.second],
                places[first],
                names,
                chosen.counter,
                f"{names} may still be in flight: s_waitcnt {chosen.counter} is missing",
                tuple(places[one.second] for one in group if one is not chosen),
            )
        )
    return found


def _lds_findings(
    meetings: Sequence[LdsMeeting], steps: Sequence[ScanStep], places: _Places
) -> list[ScanFinding]:
    """One for each missing wait or barrier."""
    found = []
    for group in _together(meetings, steps):
        certain = [one for one in group if one.definite] or group
        chosen = next((one for one in certain if one.second > one.first), certain[0])
        where = byte_range(chosen.bytes)
        sites = {at for one in group for at in (one.first, one.second)}
        found.append(
            ScanFinding(
                ScanKind.LDS_WAVES if chosen.across else ScanKind.LDS,
                chosen.definite,
                places[chosen.second],
                places[chosen.first],
                where,
                chosen.counter,
                _lds_message(chosen, steps, where),
                tuple(places[at] for at in sorted(sites - {chosen.first, chosen.second})),
            )
        )
    return found


def _together(meetings: Sequence[LdsMeeting], steps: Sequence[ScanStep]) -> list[list[LdsMeeting]]:
    """Pairs of one kind whose sides lie between the same barriers: one more would part them all."""
    barriers = [step.at for step in steps if step.barrier]
    groups: dict[tuple[bool, bool, int, int], list[LdsMeeting]] = {}
    for one in meetings:
        sides = (bisect(barriers, one.first), bisect(barriers, one.second))
        groups.setdefault((one.across, one.definite, *sides), []).append(one)
    return [groups[key] for key in sorted(groups)]


def _lds_message(one: LdsMeeting, steps: Sequence[ScanStep], where: str) -> str:
    act = "reads" if steps[one.second].lds is LdsTouch.READ else "overwrites"
    still = "reading" if steps[one.first].lds is LdsTouch.READ else "writing"
    lacks = f"s_waitcnt {one.counter}" if one.counter else ""
    if one.trails:
        return (
            f"{act} {where} of LDS, which a wave that is one barrier behind may still be {still}: "
            "its wait stands one barrier too late"
        )
    if not one.across:
        return f"{act} {where} of LDS, which the wave may still be {still}: {lacks} is missing"
    barrier = f"{lacks} and then s_barrier" if lacks else "s_barrier"
    return f"{act} {where} of LDS, which another wave may still be {still}: {barrier} is missing"


def _barrier_findings(branches: WaveBranches, places: _Places) -> list[ScanFinding]:
    return [
        ScanFinding(
            ScanKind.BARRIER,
            False,
            places[barrier],
            places[branch],
            message="waves may take the branch differently, and its ways have different numbers of "
            "barriers",
        )
        for branch, barrier in branches.barriers
    ]


def _names(registers: int) -> str:
    """``v[4:7]``, ``s2``: runs of registers as in assembly."""
    parts: list[str] = []
    numbers = each_register(registers)
    start = 0
    for at, number in enumerate(numbers):
        if at + 1 < len(numbers) and numbers[at + 1] == number + 1:
            continue
        first, last = register_name(numbers[start]), register_name(number)
        ranged = first != last and first[1:].isdigit() and last[1:].isdigit()
        parts.append(f"{first[0]}[{first[1:]}:{last[1:]}]" if ranged else first)
        start = at + 1
    return ", ".join(parts)


def _other_findings(registers: RegisterScan, places: _Places) -> list[ScanFinding]:
    found = [
        ScanFinding(
            ScanKind.END,
            certain,
            places[end],
            places[first],
            "LDS",
            "vmcnt(0)",
            "a load into LDS may land after the workgroup has ended",
        )
        for first, end, certain in registers.open_ends
    ]
    found += [
        ScanFinding(ScanKind.NEEDLESS, True, places[at], message="nothing can be in flight here")
        for at in registers.needless
    ]
    return found


def _wait_states(
    short: Sequence[Shortfall],
    steps: Sequence[ScanStep],
    issued: Sequence[Issued],
    places: _Places,
) -> list[ScanFinding]:
    found = []
    for one in short:
        if not one.missing:
            continue
        customary = one.basis is Basis.CUSTOMARY
        first = _writer(one, issued)
        found.append(
            ScanFinding(
                ScanKind.CUSTOMARY if customary else ScanKind.WAIT_STATES,
                one.certain,
                places[one.at],
                None if first is None else places[first],
                one.register,
                message=one.describe(),
            )
        )
    return found


def _writer(short: Shortfall, issued: Sequence[Issued]) -> int | None:
    """The last instruction in front that names the register first, if it is near."""
    passed = 0
    for at in range(short.at - 1, -1, -1):
        passed += issued[at].wait_states
        if passed > 40 or not short.register:
            return None
        operands = issued[at].operands
        if operands and any(register_name(r) == short.register for r in operands[0]):
            return at
    return None
