"""LDS that is read or overwritten too early: in one wave, and between waves.

In one wave, DS instructions are in order among themselves and so is LDS-DMA; between the two only
waits order. Between waves an access is over for the others when its wave has waited for it and then
come to a barrier that they have come to as well. Two accesses to the same bytes, one of them
writing, that neither orders are a finding. Bytes are those of ``lds_bytes``; accesses whose address
is not known are counted.

Between waves a finding is definite only where all waves come to both places and the lanes are
known; a kernel whose waves may execute different numbers of barriers has possible ones only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.judge.scan.address_paths import AddressPaths, Instance, Node, address_paths
from pipeloom.judge.scan.control_flow import CodePaths
from pipeloom.judge.scan.fixed_point import Event, TooMuchWorkError, apply, solve
from pipeloom.judge.scan.in_flight import InFlight
from pipeloom.judge.scan.lane_values import LaneValues
from pipeloom.judge.scan.lds_bytes import ByteSets, LdsBytes
from pipeloom.judge.scan.scanned_code import LdsTouch, ScanStep
from pipeloom.judge.scan.wave_branches import WaveBranches


@dataclass(frozen=True, slots=True)
class LdsMeeting:
    """Two accesses to the same bytes that nothing orders."""

    first: int
    second: int
    across: bool
    """Whether they are of different waves."""
    bytes: int
    counter: str
    """The wait that the first lacks; empty where only a barrier is missing."""
    definite: bool


@dataclass(frozen=True, slots=True)
class LdsScan:
    """What the walk over LDS found."""

    meetings: tuple[LdsMeeting, ...]
    unknown: int
    """Accesses whose address is not known on some path."""


def scan_lds(
    steps: Sequence[ScanStep],
    flow: CodePaths,
    branches: WaveBranches,
    values: LaneValues,
    size: int,
) -> LdsScan:
    """Walk all paths, with the addresses that hold on them; ``size`` is that of the chip's LDS."""
    if not any(step.lds for step in steps):
        return LdsScan((), 0)
    for known in (branches, branches.unknown()):
        try:
            return _Walk(steps, flow, known, values, size).run()
        except TooMuchWorkError:
            continue
    return LdsScan((), sum(step.lds is not None for step in steps))


_Key = tuple[int, int, bool]
"""First, second, across."""


class _Walk:
    def __init__(
        self,
        steps: Sequence[ScanStep],
        flow: CodePaths,
        branches: WaveBranches,
        values: LaneValues,
        size: int,
    ) -> None:
        self._steps, self._flow, self._branches = steps, flow, branches
        self._paths: AddressPaths = address_paths(steps, flow, branches, values)
        self._bytes = LdsBytes(values, size)
        self._one_wave = values.waves == 1
        self._partial = branches.by_data.union(
            *(branches.by_thread[run] for run in self._paths.unparted)
        )
        self._numbers: dict[Instance, int] = {}
        self._instances: list[Instance] = []
        self._sets: list[ByteSets] = []
        self._checked: dict[tuple[int, bool], tuple[int, int]] = {}
        self._pairs: dict[tuple[int, int, bool], int] = {}
        self._run_of = {}
        for number, run in enumerate(flow.runs):
            self._run_of.update(dict.fromkeys(range(run.start, run.end), number))
        self._eventful = [
            [step for step in steps[run.start : run.end] if step.event] for run in flow.runs
        ]
        self._events = {node: self._events_of(node) for node in self._paths.follows}

    def _events_of(self, node: Node) -> list[Event]:
        accesses = self._paths.accesses[node]
        events: list[Event] = []
        for step in self._eventful[node[0]]:
            access = accesses.get(step.at)
            bit = 0 if access is None else 1 << self._number(access)
            events.append((step, bit, bool(bit)))
        return events

    def _number(self, access: Instance) -> int:
        found = self._numbers.get(access)
        if found is None:
            found = self._numbers[access] = len(self._instances)
            self._instances.append(access)
            self._sets.append(self._bytes.of(self._steps[access[0]], access))
        return found

    def run(self) -> LdsScan:
        first: Node = min(self._paths.follows)
        states = solve(
            first,
            lambda node: self._paths.follows[node],
            lambda node: self._events[node],
            lambda node: node[0],
        )
        found: dict[_Key, LdsMeeting] = {}
        certain: dict[tuple[int, int, bool], list[set[int]]] = {}
        for node in sorted(states):
            self._look(node, states[node], found, certain)
        definite = {
            (first_at, second, across)
            for (second, _, across), visits in certain.items()
            if all(visits)
            for visit in visits
            for first_at in visit
        }
        unknown = {
            at
            for accesses in self._paths.accesses.values()
            for at, access in accesses.items()
            if access is None
        }
        meetings = tuple(
            LdsMeeting(m.first, m.second, m.across, m.bytes, m.counter, key in definite)
            for key, m in sorted(found.items())
        )
        return LdsScan(meetings, len(unknown))

    def _look(
        self,
        node: Node,
        start: InFlight,
        found: dict[_Key, LdsMeeting],
        certain: dict[tuple[int, int, bool], list[set[int]]],
    ) -> None:
        state = start.copy()
        for step, bit, in_lds in self._events[node]:
            if bit:
                surely: dict[bool, set[int]] = {False: set(), True: set()}
                number = bit.bit_length() - 1
                must = state.all_must()
                for across, ops in ((False, state.all_may()), (True, state.open_may)):
                    if across and self._one_wave:
                        continue
                    for one in _each(self._conflicts(ops, number, across)):
                        shared = self._pairs[one, number, across]
                        at, flag = self._instances[one][0], 1 << one
                        key = (at, step.at, across)
                        if key not in found:
                            late = bool(state.all_may() & flag)
                            counter = state.counter(flag) if late else ""
                            found[key] = LdsMeeting(at, step.at, across, shared, counter, False)
                        held = state.open_must if across else must
                        if held & flag and self._sure(one, number, across):
                            surely[across].add(at)
                for across, firsts in surely.items():
                    certain.setdefault((step.at, node[1], across), []).append(firsts)
            apply(state, step, bit, in_lds)

    def _sure(self, first: int, second: int, across: bool) -> bool:
        """Whether lanes are known and, between waves, all waves come to both places."""
        for one in (first, second):
            at, _, low, high, _ = self._instances[one]
            if low < 0 or high < 0:
                return False
            if across and self._run_of[at] in self._partial:
                return False
        return not (across and self._branches.barriers)

    def _conflicts(self, ops: int, second: int, across: bool) -> int:
        """Those of some accesses that have to be ordered before the second."""
        checked, bad = self._checked.get((second, across), (0, 0))
        new = ops & ~checked
        if new:
            for first in _each(new):
                shared = self._compare(first, second, across)
                if shared:
                    self._pairs[first, second, across] = shared
                    bad |= 1 << first
            self._checked[second, across] = (checked | new, bad)
        return ops & bad

    def _compare(self, first: int, second: int, across: bool) -> int:
        a = self._steps[self._instances[first][0]].lds
        b = self._steps[self._instances[second][0]].lds
        if a is b and a in (LdsTouch.READ, LdsTouch.ATOMIC):
            return 0
        if not across:
            in_order = (a is LdsTouch.DMA) == (b is LdsTouch.DMA)
            return 0 if in_order else self._bytes.same_wave(self._sets[first], self._sets[second])
        if self._instances[first][0] == self._instances[second][0]:
            # One instruction in two waves: what they write they write together.
            return 0
        return self._bytes.across_waves(self._sets[first], self._sets[second])


def _each(ops: int) -> list[int]:
    found = []
    while ops:
        low = ops & -ops
        found.append(low.bit_length() - 1)
        ops ^= low
    return found
