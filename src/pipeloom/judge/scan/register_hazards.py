"""Registers that are read or overwritten while a load into them may be in flight.

Overwriting counts: the load lands later and wins. A load behind a load of the same counter does
not, since the two return in order; scalar loads do not. On gfx9 a store has read its data when the
next instruction issues, but for the wait states that the judge of those knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.judge.emulate.pending import WaitQueue
from pipeloom.judge.emulate.register_numbers import each_register
from pipeloom.judge.scan.control_flow import CodePaths
from pipeloom.judge.scan.fixed_point import Event, apply, solve
from pipeloom.judge.scan.in_flight import InFlight
from pipeloom.judge.scan.scanned_code import ScanStep, is_vector_set

Node = tuple[int, int]
"""A run and the loops that have gone round."""


@dataclass(frozen=True, slots=True)
class RegisterMeeting:
    """An instruction that meets a load in flight."""

    first: int
    second: int
    registers: int
    counter: str
    definite: bool


@dataclass(frozen=True, slots=True)
class RegisterScan:
    """What the walk over registers found, by positions in the program."""

    meetings: tuple[RegisterMeeting, ...]
    needless: tuple[int, ...]
    """Waits that have nothing to wait for."""
    open_ends: tuple[tuple[int, int, bool], ...]
    """(LDS-DMA, s_endpgm, definite)."""


def scan_registers(steps: Sequence[ScanStep], flow: CodePaths) -> RegisterScan:
    """Walk all paths once to find what is in flight, and every place once to look."""
    runs = flow.runs
    bits = {step.at: 1 << n for n, step in enumerate(s for s in steps if s.queues)}
    events: list[list[Event]] = [
        [(step, bits.get(step.at, 0), False) for step in steps[run.start : run.end] if step.event]
        for run in runs
    ]
    states = solve(
        (0, 0), lambda node: flow.follow(*node), lambda node: events[node[0]], lambda node: node[0]
    )
    sites = list(bits)
    meetings: dict[tuple[int, int], RegisterMeeting] = {}
    needless: dict[int, bool] = {}
    ends: dict[tuple[int, int], bool] = {}
    for node in sorted(states):
        look = _Look(steps, sites, bits, states[node])
        for step in steps[runs[node[0]].start : runs[node[0]].end]:
            for found in look.meet(step):
                before = meetings.get((found.first, found.second))
                if before is None or found.definite > before.definite:
                    meetings[found.first, found.second] = found
            if step.wait is not None:
                nothing = look.state.waits_for_nothing(step.wait)
                needless[step.at] = needless.get(step.at, True) and nothing
            if step.ends:
                for first, certain in look.left():
                    ends[first, step.at] = ends.get((first, step.at), True) and certain
            look.advance(step)
    return RegisterScan(
        tuple(meetings[key] for key in sorted(meetings)),
        tuple(at for at, nothing in sorted(needless.items()) if nothing),
        tuple((*key, certain) for key, certain in sorted(ends.items())),
    )


class _Look:
    """One run, instruction by instruction."""

    def __init__(
        self, steps: Sequence[ScanStep], sites: list[int], bits: dict[int, int], state: InFlight
    ) -> None:
        self.state = state.copy()
        self._steps, self._sites, self._bits = steps, sites, bits
        self._registers = self._in_flight()

    def _in_flight(self) -> int:
        """Every register that a load may still fill."""
        found = 0
        for at in self._operations(self.state.all_may()):
            found |= self._steps[at].brings
        return found

    def _operations(self, ops: int) -> list[int]:
        return [self._sites[number] for number in each_register(ops)]

    def meet(self, step: ScanStep) -> list[RegisterMeeting]:
        """The loads in flight that an instruction meets."""
        touched = (step.reads | step.writes) & self._registers
        if not touched or step.indexed:
            return []
        found = []
        must = self.state.all_must()
        for at in self._operations(self.state.all_may()):
            first = self._steps[at]
            hit = first.brings & step.reads
            if not _in_order(first, step):
                hit |= first.brings & step.writes
            if not hit:
                continue
            bit = self._bits[at]
            apart = self.state.masked & bit and is_vector_set(hit)
            certain = bool(must & bit) and not apart
            found.append(RegisterMeeting(at, step.at, hit, self.state.counter(bit), certain))
        return found

    def left(self) -> list[tuple[int, bool]]:
        """LDS-DMA that may be in flight, and whether it must."""
        must = self.state.all_must()
        return [
            (at, bool(must & self._bits[at]))
            for at in self._operations(self.state.all_may())
            if self._steps[at].lds is not None and WaitQueue.VM in self._steps[at].queues
        ]

    def advance(self, step: ScanStep) -> None:
        """Execute it."""
        if not step.event:
            return
        apply(self.state, step, self._bits.get(step.at, 0), False)
        if step.queues:
            self._registers |= step.brings
        elif step.wait is not None:
            self._registers = self._in_flight()


def _in_order(first: ScanStep, second: ScanStep) -> bool:
    """Whether the second brings its registers, and surely behind the first."""
    return first.queues == second.queues and first.queues in ((WaitQueue.VM,), (WaitQueue.LGKM,))
