"""LDS that is read or overwritten too early: in one wave, and between waves.

In one wave, DS instructions are in order among themselves and so is LDS-DMA; between the two only
waits order. Between waves an access is over for the others when its wave has waited for it and then
come to a barrier that they have come to as well. Two accesses to the same bytes, one of them
writing, that neither orders are a finding. Bytes are those of ``lds_bytes``; accesses whose address
is not known are counted.

Between waves a finding is definite only where all waves come to both places and the lanes are
known. Of two groups of waves that are one barrier apart, the one behind must have waited one
barrier earlier than its own code needs; where waves are apart in another way, findings are possible
only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipeloom.judge.emulate.register_numbers import each_register
from pipeloom.judge.scan.address_paths import UNKNOWN, AddressPaths, Instance, Node, address_paths
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
    trails: bool = False
    """Whether the first is of a wave that is one barrier behind, and waited for one too late."""


@dataclass(frozen=True, slots=True)
class LdsScan:
    """What the walk over LDS found."""

    meetings: tuple[LdsMeeting, ...]
    unknown: int
    """Accesses whose address is not known on some path."""
    even: bool = False
    """Whether all waves are known to end with equally many barriers behind them."""


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
_Waves = tuple[int, int]
"""Waves of the first and of the second access, as bits; _SAME: any wave, the same for both."""
_SAME: _Waves = (-1, -1)


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
        self._all_waves = (1 << values.waves) - 1
        self._partial = branches.by_data.union(
            *(branches.by_thread[run] for run in self._paths.unparted)
        )
        self._numbers: dict[Instance, int] = {}
        self._instances: list[Instance] = []
        self._sets: list[ByteSets] = []
        self._checked: dict[tuple[int, _Waves], tuple[int, int]] = {}
        self._pairs: dict[tuple[int, int, _Waves], int] = {}
        self._run_of = {}
        for number, run in enumerate(flow.runs):
            self._run_of.update(dict.fromkeys(range(run.start, run.end), number))
        self._eventful = [
            [step for step in steps[run.start : run.end] if step.event] for run in flow.runs
        ]
        self._events = {node: self._events_of(node) for node in self._paths.follows}

    def _events_of(self, node: Node) -> list[Event]:
        accesses = self._paths.accesses[node]
        apart = self._paths.groups[node][1] not in (0, UNKNOWN)
        events: list[Event] = []
        for step in self._eventful[node[0]]:
            access = accesses.get(step.at)
            bit = 0 if access is None else 1 << self._number(access)
            events.append((step, bit, apart if step.barrier else bool(bit)))
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
        meetings = tuple(replace(m, definite=key in definite) for key, m in sorted(found.items()))
        ends = [node for node in self._paths.follows if not self._flow.runs[node[0]].follows]
        even = all(self._paths.groups[node][1] == 0 for node in ends)
        return LdsScan(meetings, len(unknown), even)

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
                for waves, may, must in self._who(node, state):
                    across = waves != _SAME
                    for one in each_register(self._conflicts(may, number, waves)):
                        shared = self._pairs[one, number, waves]
                        at, flag = self._instances[one][0], 1 << one
                        key = (at, step.at, across)
                        if key not in found:
                            trails = across and not state.open_may & flag
                            late = bool(state.all_may() & flag)
                            counter = state.counter(flag) if late else ""
                            found[key] = LdsMeeting(
                                at, step.at, across, shared, counter, False, trails
                            )
                        if must & flag and self._sure(one, number, across):
                            surely[across].add(at)
                for across, firsts in surely.items():
                    certain.setdefault((step.at, node[1], across), []).append(firsts)
            apply(state, step, bit, in_lds)

    def _who(self, node: Node, state: InFlight) -> Iterator[tuple[_Waves, int, int]]:
        """Whose accesses may meet one of this node, and whose must: which waves, and in flight."""
        yield _SAME, state.all_may(), state.all_must()
        waves, trailing = self._paths.groups[node]
        if trailing == UNKNOWN:
            yield (self._all_waves, self._all_waves), state.open_may, 0
            return
        behind, ahead = waves & trailing, waves & ~trailing
        for group in (behind, ahead):
            yield (group, group), state.open_may, state.open_must
        recent = state.open_may | state.late_may, state.open_must | state.late_must
        yield (behind, ahead), *recent
        yield (ahead, behind), state.open_may, 0
        yield (self._all_waves & ~waves, waves), state.open_may, 0

    def _sure(self, first: int, second: int, across: bool) -> bool:
        """Whether lanes are known and, between waves, all waves come to both places."""
        for one in (first, second):
            at, _, low, high, _ = self._instances[one]
            if low < 0 or high < 0:
                return False
            if across and self._run_of[at] in self._partial:
                return False
        return True

    def _conflicts(self, ops: int, second: int, waves: _Waves) -> int:
        """Those of some accesses that have to be ordered before the second."""
        if not (waves[0] and waves[1]):
            return 0
        checked, bad = self._checked.get((second, waves), (0, 0))
        new = ops & ~checked
        if new:
            for first in each_register(new):
                shared = self._compare(first, second, waves)
                if shared:
                    self._pairs[first, second, waves] = shared
                    bad |= 1 << first
            self._checked[second, waves] = (checked | new, bad)
        return ops & bad

    def _compare(self, first: int, second: int, waves: _Waves) -> int:
        a = self._steps[self._instances[first][0]].lds
        b = self._steps[self._instances[second][0]].lds
        if a is b and a in (LdsTouch.READ, LdsTouch.ATOMIC):
            return 0
        if waves == _SAME:
            in_order = (a is LdsTouch.DMA) == (b is LdsTouch.DMA)
            return 0 if in_order else self._bytes.same_wave(self._sets[first], self._sets[second])
        if self._instances[first][0] == self._instances[second][0]:
            # One instruction in two waves: what they write they write together.
            return 0
        return self._bytes.across_waves(self._sets[first], self._sets[second], *waves)
