"""Branches that the waves of a workgroup may take differently, and what lies under them.

Arguments and workgroup numbers are the same for all waves; thread numbers are not, nor is what is
computed from them. What lanes load may differ. A run is *partial* if it lies between a branch on
such a value and the place where its ways meet again: some waves may not come there. Where a
barrier lies between, loaded values are taken to be the same in all waves: the kernel would hang
otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeloom.judge.emulate.register_numbers import EXEC, SCC, VCC, VGPR, register_bits
from pipeloom.judge.scan.control_flow import CodePaths
from pipeloom.judge.scan.emulated import EmulatedSteps
from pipeloom.judge.scan.scanned_code import ScanStep

_EXEC, _VCC, _SCC = register_bits(EXEC, 2), register_bits(VCC, 2), 1 << SCC
_READ_BY = {"scc": _SCC, "vcc": _VCC, "exe": _EXEC}
_SCALAR = ("SOP1", "SOP2", "SOPC", "SOPK")
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class WaveBranches:
    """Where waves may part."""

    by_thread: Mapping[int, frozenset[int]]
    """Runs that end in a branch on the thread's number, and the runs under it."""
    meets: Mapping[int, int]
    """Where the ways of such a branch meet again, if anywhere."""
    by_data: frozenset[int]
    """Runs under branches on what lanes have loaded, or on what was set under other branches."""
    barriers: tuple[tuple[int, int], ...]
    """(branch, barrier) by position: its ways have different numbers of barriers."""
    counts: Mapping[int, Mapping[int, int] | None]
    """Of a run that ends in such a branch, the barriers on each way by the run that it begins with;
    None where a way has no fixed number."""

    def unknown(self) -> WaveBranches:
        """The same, where nobody asks how waves part."""
        under = self.by_data.union(*self.by_thread.values())
        return WaveBranches({}, {}, under, self.barriers, {})

    def condition(self, run: int, step: ScanStep) -> int:
        """The registers that decide a branch on the thread's number; none of others."""
        return branch_reads(step) if run in self.by_thread else 0


def branch_reads(step: ScanStep) -> int:
    """The registers that decide a branch."""
    return _READ_BY.get(step.instruction.name.removeprefix("s_cbranch_")[:3], 0) | step.reads


def wave_branches(
    steps: Sequence[ScanStep], flow: CodePaths, emulated: EmulatedSteps
) -> WaveBranches:
    """Find them; behind such a branch, what was set under it may differ, too."""
    after = _meeting_places(flow)
    has_barrier = [any(step.barrier for step in steps[run.start : run.end]) for run in flow.runs]
    by_thread = {
        number: frozenset(_between(flow, number, after[number]))
        for number in _differing_branches(steps, flow, emulated, {}, loaded=False)
    }
    by_data: dict[int, set[int]] = {}
    joined: dict[int, int] = {}
    for _ in range(_ROUNDS):
        for number in _differing_branches(steps, flow, emulated, joined, loaded=True):
            under = _between(flow, number, after[number])
            if number not in by_thread and not any(has_barrier[run] for run in under):
                by_data[number] = under
        before = dict(joined)
        for number, runs in (*by_thread.items(), *by_data.items()):
            written = 0
            for run in runs:
                for step in steps[flow.runs[run].start : flow.runs[run].end]:
                    written |= step.writes
            joined[after[number]] = joined.get(after[number], 0) | written
        if joined == before:
            break
    barriers: dict[int, int] = {}
    counts: dict[int, Mapping[int, int] | None] = {}
    for number in sorted(by_thread):
        uneven = _uneven(steps, flow, number, after[number])
        if uneven:
            barriers.setdefault(uneven[0], flow.runs[number].end - 1)
            counts[number] = _on_each_way(steps, flow, number, after[number])
    return WaveBranches(
        by_thread,
        {number: after[number] for number in by_thread if after[number] < len(flow.runs)},
        frozenset().union(*by_data.values()),
        tuple((branch, barrier) for barrier, branch in sorted(barriers.items())),
        counts,
    )


def _on_each_way(
    steps: Sequence[ScanStep], flow: CodePaths, branch: int, meeting: int
) -> dict[int, int] | None:
    """Barriers from a branch to where its ways meet, if every path of a way has as many."""
    known = {meeting: 0}
    for run in sorted(_between(flow, branch, meeting), reverse=True):
        behind = {known.get(target, -1) for target in flow.runs[run].follows}
        if len(behind) != 1 or -1 in behind:
            return None
        known[run] = len(_barriers(steps, flow, run)) + behind.pop()
    return {target: known[target] for target in flow.runs[branch].follows}


def _uneven(steps: Sequence[ScanStep], flow: CodePaths, branch: int, meeting: int) -> list[int]:
    """The barriers of the way that has more of them, where the ways of a branch differ.

    Barriers are counted outside loops and in each loop, as if every run of a way were executed.
    """
    sides = [_from(flow, target, meeting) for target in flow.runs[branch].follows]
    own = [side.difference(*(o for o in sides if o is not side)) for side in sides]
    if any(side and not mine for side, mine in zip(sides, own, strict=True)):
        return []
    listed = [
        {run: _barriers(steps, flow, run) for run in sorted(side) if _barriers(steps, flow, run)}
        for side in own
    ]
    counts = []
    for side in listed:
        loops: Counter[int] = Counter()
        for run, barriers in side.items():
            loops[flow.around[run] & ~flow.around[branch]] += len(barriers)
        outside = loops.pop(0, 0)
        counts.append((outside, sorted(loops.values())))
    if all(count == counts[0] for count in counts):
        return []
    most = listed[counts.index(max(counts))]
    return [at for barriers in most.values() for at in barriers]


def _barriers(steps: Sequence[ScanStep], flow: CodePaths, run: int) -> list[int]:
    one = flow.runs[run]
    return [step.at for step in steps[one.start : one.end] if step.barrier]


def _from(flow: CodePaths, start: int, meeting: int) -> set[int]:
    found: set[int] = set()
    todo = [start]
    while todo:
        run = todo.pop()
        if run != meeting and run not in found:
            found.add(run)
            todo += flow.runs[run].follows
    return found


def _differing_branches(
    steps: Sequence[ScanStep],
    flow: CodePaths,
    emulated: EmulatedSteps,
    joined: Mapping[int, int],
    loaded: bool,
) -> list[int]:
    """Runs that end in a branch whose condition waves may not share.

    ``joined`` are registers that may differ where a run begins; ``loaded`` says whether what lanes
    load counts as different.
    """
    start = register_bits(VGPR, 3)
    states = {0: start}
    todo = [0]
    found: set[int] = set()
    while todo:
        number = todo.pop()
        run = flow.runs[number]
        differs = states[number] | joined.get(number, 0)
        for step in steps[run.start : run.end]:
            differs = _advance(step, emulated, differs, loaded)
        last = steps[run.end - 1]
        if last.targets and branch_reads(last) & differs and len(run.follows) > 1:
            found.add(number)
        for target in run.follows:
            before = states.get(target, 0)
            if target not in states or differs & ~before:
                states[target] = before | differs
                todo.append(target)
    return sorted(found)


def _advance(step: ScanStep, emulated: EmulatedSteps, differs: int, loaded: bool) -> int:
    encoding, name = step.instruction.encoding, step.instruction.name
    scalar = encoding in _SCALAR
    reads, writes, keeps = step.reads, step.writes, 0
    if scalar:
        asked = bool((reads | writes | _SCC | _EXEC) & differs)
    else:
        asked = bool(writes & differs) and not reads & differs
    if asked:
        known = emulated[step.instruction]
        if known is not None:
            reads, writes = reads | known.reads, writes | known.writes & _SCC
            keeps = known.keeps
        elif scalar:
            writes, keeps = writes | _SCC, _SCC
    if encoding.startswith("VO") and loaded:
        # Which lanes are on may hang on the thread: nothing that a kernel's author would branch on.
        reads |= _EXEC
    if step.other_lanes:
        writes |= _EXEC
        reads |= _EXEC if scalar else 0
    if name == "s_or_b64" and writes & _EXEC:
        # Lanes that a branch switched off come back: EXEC is what it was before.
        reads &= ~_EXEC
    if not writes:
        return differs
    overwrites = writes & ~keeps
    if step.queues and encoding != "SMEM":
        return differs | writes if loaded else differs & ~overwrites
    if reads & differs:
        return differs | writes
    return differs & ~overwrites


def _meeting_places(flow: CodePaths) -> list[int]:
    """Per run, the first run that all its ways lead to; the number of runs where there is none."""
    end = len(flow.runs)
    every = (1 << end + 1) - 1
    over = [every] * end + [1 << end]
    changed = True
    while changed:
        changed = False
        for number in range(end - 1, -1, -1):
            follows = flow.runs[number].follows or (end,)
            common = every
            for target in follows:
                common &= over[target]
            common |= 1 << number
            if common != over[number]:
                over[number] = common
                changed = True
    places = []
    for number in range(end):
        rest = over[number] & ~(1 << number)
        # The nearest is the one that all others are met behind.
        nearest = end
        while rest:
            low = rest & -rest
            one = low.bit_length() - 1
            if over[one] & (over[number] & ~(1 << number)) == over[number] & ~(1 << number):
                nearest = one
                break
            rest ^= low
        places.append(nearest)
    return places


def _between(flow: CodePaths, branch: int, meeting: int) -> set[int]:
    """The runs on the ways from a branch to where they meet."""
    return set().union(*(_from(flow, target, meeting) for target in flow.runs[branch].follows))
