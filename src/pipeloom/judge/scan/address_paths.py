"""Paths with the LDS addresses that hold on them.

A pipelined loop writes one stage while it reads another. Joined, both addresses could be either
stage's and everything would overlap; so a run is visited once for every set of address registers
that arrives there. Only registers that some LDS address depends on count (``needed``, a walk
backwards), so a loop over two stages gives two visits, whatever else it counts. Where too many sets
arrive, the registers in which they differ are not known from there on.

A branch on the thread's number parts the waves where its condition is known: each way is followed
by the waves that take it, until the ways meet. Where one way has a barrier more, its waves *trail*
from there on: they come to every barrier when the others have come to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeloom.judge.emulate.register_numbers import EXEC, M0, SCC, VGPR
from pipeloom.judge.scan.control_flow import CodePaths
from pipeloom.judge.scan.fixed_point import TooMuchWorkError
from pipeloom.judge.scan.lane_values import Environment, LaneValues, Number
from pipeloom.judge.scan.scanned_code import LdsTouch, ScanStep
from pipeloom.judge.scan.wave_branches import WaveBranches

MOST_VISITS = 24
"""Of one run in one context."""
MOST_NODES = 6_000
_EXEC_BITS = 3 << EXEC
_SCALAR = ("SOP1", "SOP2", "SOPC", "SOPK")

Node = tuple[int, int, int]
"""A run, the loops that have gone round, and a set of address registers by number."""
Instance = tuple[int, Number, Number, Number, int]
"""An LDS access: position, value of its address register, EXEC (-1: not known), waves as bits."""
_WAVES, _TRAILING = -1, -2
"""In a set of address registers: which waves are here, and which of all waves trail."""
UNKNOWN = -1
"""Of the waves that trail: nobody knows which, or by how many barriers."""


@dataclass(slots=True)
class AddressPaths:
    """The graph that the walk over LDS follows."""

    follows: dict[Node, list[Node]] = field(default_factory=dict)
    accesses: dict[Node, dict[int, Instance | None]] = field(default_factory=dict)
    """Per visit, the LDS accesses by position; None where the address is not known."""
    groups: dict[Node, tuple[int, int]] = field(default_factory=dict)
    """Per visit, which waves come, and which of all waves trail; as bits."""
    unparted: set[int] = field(default_factory=set)
    """Branches on the thread's number whose condition is not known on some path."""


def address_register(step: ScanStep) -> int | None:
    """The register that says where in LDS an access lies; None where that is not followed."""
    if step.lds is LdsTouch.DMA:
        return M0
    fields = step.instruction.fields
    if "addtid" in step.instruction.name or "addr" not in fields:
        return None
    return VGPR + fields["addr"]


def address_paths(
    steps: Sequence[ScanStep], flow: CodePaths, branches: WaveBranches, values: LaneValues
) -> AddressPaths:
    """Visit every run with every set of address registers."""
    wanted, needed = _needed(steps, flow, branches, values)
    found = AddressPaths()
    start = {r: n for r, n in values.start().items() if wanted[0] >> r & 1}
    followed = branches.counts or not branches.barriers
    start |= {_WAVES: (1 << values.waves) - 1, _TRAILING: 0 if followed else UNKNOWN}
    environments: dict[tuple[tuple[int, Number], ...], int] = {}
    listed: list[Environment] = []

    def number(known: Environment) -> int:
        key = tuple(sorted(known.items()))
        if key not in environments:
            environments[key] = len(listed)
            listed.append(dict(key))
        return environments[key]

    visits: dict[tuple[int, int], set[int]] = {(0, 0): {number(start)}}
    blurred: dict[tuple[int, int], int] = {}
    todo: list[Node] = [(0, 0, number(start))]
    while todo:
        node = todo.pop()
        if node in found.follows:
            continue
        if len(found.follows) >= MOST_NODES:
            raise TooMuchWorkError(f"its LDS addresses differ on more than {MOST_NODES:,} paths")
        run, context, which = node
        known = dict(listed[which])
        found.groups[node] = known[_WAVES], known[_TRAILING]
        found.accesses[node] = _walk(steps, needed[run], values, known)
        after: list[Node] = []
        ways = _ways(steps, flow, branches, values, run, known)
        trailing = _trailing(branches, run, ways, known, values.waves)
        if ways is None:
            found.unparted.add(run)
        if ways is None or run not in branches.meets:
            known[_TRAILING] = trailing
        for place in flow.follow(run, context):
            target = place[0]
            waves = known[_WAVES] if ways is None else ways[target]
            if not waves:
                continue
            arriving = {
                r: n
                for r, n in known.items()
                if r < 0 or (wanted[target] >> r & 1 and not blurred.get(place, 0) >> r & 1)
            }
            if ways is not None and waves != known[_WAVES] and run in branches.meets:
                arriving.setdefault(_then(_WAVES, branches.meets[run]), known[_WAVES])
                then = _then(_TRAILING, branches.meets[run])
                arriving[then] = trailing if trailing == UNKNOWN else arriving.get(then, trailing)
            arriving[_WAVES] = arriving.pop(_then(_WAVES, target), waves)
            arriving[_TRAILING] = arriving.pop(_then(_TRAILING, target), known[_TRAILING])
            here = visits.setdefault(place, set())
            env = number(arriving)
            if env not in here and len(here) >= MOST_VISITS:
                blurred[place] = blurred.get(place, 0) | _differing(
                    arriving, [listed[one] for one in here]
                )
                arriving = {
                    r: n for r, n in arriving.items() if r < 0 or not blurred[place] >> r & 1
                }
                env = number(arriving)
            here.add(env)
            after.append((*place, env))
        found.follows[node] = after
        todo += after
    return found


def _then(what: int, run: int) -> int:
    """In a set of address registers: the same, from a run on."""
    return what - 2 * (run + 1)


def _trailing(
    branches: WaveBranches, run: int, ways: dict[int, int] | None, known: Environment, waves: int
) -> int:
    """Which waves trail where the ways behind a run have met."""
    before = known[_TRAILING]
    if run not in branches.counts or before == UNKNOWN:
        return before
    counts = branches.counts[run]
    if counts is None or ways is None or known[_WAVES] != (1 << waves) - 1:
        return UNKNOWN
    passed = [
        (before >> wave & 1) + sum(counts[way] for way, bits in ways.items() if bits >> wave & 1)
        for wave in range(waves)
    ]
    if max(passed) - min(passed) > 1:
        return UNKNOWN
    return sum(1 << wave for wave, count in enumerate(passed) if count > min(passed))


def _differing(one: Environment, others: Sequence[Environment]) -> int:
    bits = 0
    for register, number in one.items():
        if register >= 0 and any(other.get(register) != number for other in others):
            bits |= 1 << register
    return bits


def _walk(
    steps: Sequence[ScanStep], needed: Sequence[int], values: LaneValues, known: Environment
) -> dict[int, Instance | None]:
    """Execute what addresses need of a run; its LDS accesses."""
    found: dict[int, Instance | None] = {}
    for at in needed:
        step = steps[at]
        if step.lds is not None:
            register = address_register(step)
            parts = [None if register is None else known.get(register)]
            parts += [known.get(EXEC), known.get(EXEC + 1)]
            address, low, high = parts
            low, high = -1 if low is None else low, -1 if high is None else high
            found[at] = None if address is None else (at, address, low, high, known[_WAVES])
        if step.queues or step.indexed:
            written = step.brings | (step.writes if step.indexed else 0)
            for one in [r for r in known if r >= 0 and written >> r & 1]:
                del known[one]
        elif values.step(step.instruction) is None:
            for one in [r for r in known if r >= 0 and _writes(step) >> r & 1]:
                del known[one]
        else:
            values.execute(step.instruction, known)
    return found


def _ways(
    steps: Sequence[ScanStep],
    flow: CodePaths,
    branches: WaveBranches,
    values: LaneValues,
    run: int,
    known: Environment,
) -> dict[int, int] | None:
    """Which waves go where behind a run; None where they part and it is not known how."""
    follows = flow.runs[run].follows
    if run not in branches.by_thread:
        return dict.fromkeys(follows, known[_WAVES])
    last = steps[flow.runs[run].end - 1]
    taken = values.takes(last.instruction, known)
    if taken is None:
        return None
    target = next(n for n in follows if flow.runs[n].start == last.targets[0])
    return {one: known[_WAVES] & (taken if one == target else ~taken) for one in follows}


def _writes(step: ScanStep) -> int:
    """All that an instruction may write, SCC and EXEC among them."""
    found = step.writes | (_EXEC_BITS if step.other_lanes else 0)
    return found | (1 << SCC if step.instruction.encoding in _SCALAR else 0)


def _needed(
    steps: Sequence[ScanStep], flow: CodePaths, branches: WaveBranches, values: LaneValues
) -> tuple[list[int], list[list[int]]]:
    """Per run, the registers that LDS addresses depend on at its start; and the instructions."""
    wanted = [0] * len(flow.runs)
    before: list[list[int]] = [[] for _ in flow.runs]
    for number, run in enumerate(flow.runs):
        for target in run.follows:
            before[target].append(number)
    todo = list(range(len(flow.runs)))
    chosen: list[list[int]] = [[] for _ in flow.runs]
    waiting = set(todo)
    while todo:
        number = todo.pop()
        waiting.discard(number)
        run = flow.runs[number]
        live = 0
        for target in run.follows:
            live |= wanted[target]
        live |= branches.condition(number, steps[run.end - 1])
        here: list[int] = []
        for at in range(run.end - 1, run.start - 1, -1):
            step = steps[at]
            if step.lds is None and not _writes(step) & live:
                continue
            here.append(at)
            if step.queues or step.indexed:
                live &= ~step.brings
            else:
                found = values.step(step.instruction)
                if found is None:
                    live &= ~_writes(step)
                elif found.writes & live:
                    live = live & ~found.writes | values.inputs(step.instruction)
            if step.lds is not None:
                register = address_register(step)
                live |= _EXEC_BITS | (0 if register is None else 1 << register)
        chosen[number] = here[::-1]
        if live != wanted[number]:
            wanted[number] = live
            for one in before[number]:
                if one not in waiting:
                    waiting.add(one)
                    todo.append(one)
    return wanted, chosen
