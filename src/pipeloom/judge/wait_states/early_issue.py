"""Walk a program along all its paths and find instructions that issue too early.

Within a run of straight code every danger is a moment at which it is over, and asking costs one
look-up. At joins the later moment wins. What no rule is known for is a finding as well.

    judge(read_assembly("v_exp_f32 v1, v2\\nv_add_f32 v3, v1, v1\\ns_endpgm")[0], GFX950)
    -> (Shortfall(at=1, missing=1, reason="the result of a transcendental ...", register="v1"),)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pipeloom.judge.wait_states.effects import (
    NO_REGISTER,
    Chain,
    Effects,
    Issued,
    effects,
    register_name,
)
from pipeloom.machine.target import Target
from pipeloom.machine.wait_rules import Basis, Danger, WaitTable

Moments = tuple[tuple[int, Chain | None], ...]
"""(when a danger is over, the chain it does not hurt), one for each chain that paths brought."""
State = dict[Danger, dict[int, Moments]]
"""Danger -> register -> moments."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The instruction at position ``at`` lacks wait states; none are named if no rule is known."""

    at: int
    missing: int
    reason: str
    register: str = ""
    source: str = ""
    basis: Basis = Basis.REQUIRED
    certain: bool = True
    """Whether both instructions lie in one run of straight code; otherwise on some path only."""

    def describe(self) -> str:
        """What is wrong, without the place."""
        if not self.missing:
            return self.reason
        where = f" ({self.register})" if self.register else ""
        return f"lacks {self.missing} wait state(s): {self.reason}{where}"


def judge(
    program: Sequence[Issued], target: Target, entries: Iterable[int] = (0,)
) -> tuple[Shortfall, ...]:
    """Every reachable instruction that may issue too early, with its worst danger, in order.

    What the ISA requires is worse than what is customary, whatever the numbers.
    """
    table = target.wait_table
    known, longest = _effects(program, target, table), table.longest
    states: dict[int, State] = {at: {} for at in entries if at < len(program)}
    blocks = _blocks(program, known, states)
    todo = sorted(states, reverse=True)
    while todo:
        start = todo.pop()
        end, successors = blocks[start]
        tail = _tail(program, start, end, longest)
        entry = states[start] if tail == start else {}
        for successor in successors:
            # A walk for each: a place keeps the state it is given and merges others into it.
            after = _walk(program, known, range(tail, end), entry, longest)
            if _join(states, successor, after):
                todo.append(successor)
    found: list[Shortfall] = []
    for start in sorted(states):
        span = range(start, blocks[start][0])
        here: list[Shortfall] = []
        alone: list[Shortfall] = []
        _walk(program, known, span, states[start], longest, here)
        if here and states[start]:
            _walk(program, known, span, {}, longest, alone)
            certain = {(one.at, one.basis) for one in alone}
            here = [replace(one, certain=(one.at, one.basis) in certain) for one in here]
        found += here
    return tuple(found)


def _effects(program: Sequence[Issued], target: Target, table: WaitTable) -> list[Effects]:
    """Of every instruction; most stand in a kernel several times, and are looked at once."""
    found: dict[object, Effects] = {}
    known = []
    for one in program:
        operands, problem = one.operands, one.problem
        said = (one.name, operands, one.modifiers, one.op_sel, one.hardware_register, problem)
        if said not in found:
            found[said] = effects(one, target, table)
        known.append(found[said])
    met = {rule.danger for effect in found.values() for rule, _ in effect.meets}
    for effect in found.values():  # dangers that nothing here can run into need not be followed
        effect.starts = [start for start in effect.starts if start[0].danger in met]
    return known


def _blocks(
    program: Sequence[Issued], known: Sequence[Effects], entries: Iterable[int]
) -> dict[int, tuple[int, list[int]]]:
    """Start -> (end, where control goes), for every run of straight code."""
    starts = {*entries, *(t for one in program for t in one.targets)}
    starts |= {at + 1 for at, one in enumerate(program) if one.targets or known[at].ends}
    ordered = sorted(at for at in starts if at < len(program))
    blocks = {}
    for start, end in zip(ordered, [*ordered[1:], len(program)], strict=False):
        successors = [t for t in program[end - 1].targets if t < len(program)]
        if not known[end - 1].ends and end < len(program):
            successors.append(end)
        blocks[start] = (end, successors)
    return blocks


def _tail(program: Sequence[Issued], start: int, end: int, longest: int) -> int:
    """Where the last wait states of a block begin that its end can feel: no rule asks for more."""
    passed, at = 0, end
    while at > start and passed <= longest:
        at -= 1
        passed += program[at].wait_states
    return at


def _walk(
    program: Sequence[Issued],
    known: Sequence[Effects],
    span: range,
    entry: State,
    longest: int,
    found: list[Shortfall] | None = None,
) -> State:
    """The dangers left at the end of a block, counted from there; findings go to ``found``."""
    live: State = {danger: dict(registers) for danger, registers in entry.items()}
    over = dict.fromkeys(live, longest)
    now = 0
    for at in span:
        effect = known[at]
        if found is not None:
            shortfall = _meet(at, effect, live, over, now)
            if shortfall is not None:
                found.append(shortfall)
        now += program[at].wait_states
        for rule, registers, states in effect.starts:
            danger, chain = rule.danger, effect.chain_of(rule)
            moments = live.setdefault(danger, {})
            until = now + states
            for register in registers:
                before = moments.get(register)
                # A chain goes on from its last link only: the matrix unit works in order.
                if chain is not None or before is None or before[0][0] < until:
                    moments[register] = ((until, chain),)
            if over.get(danger, 0) < until:
                over[danger] = until
    return {
        danger: left
        for danger, registers in live.items()
        if over[danger] > now
        and (left := {r: rest for r, all_ in registers.items() if (rest := _rest(all_, now))})
    }


def _rest(moments: Moments, now: int) -> Moments:
    return tuple((until - now, chain) for until, chain in moments if until > now)


def _meet(
    at: int, effect: Effects, live: State, over: dict[Danger, int], now: int
) -> Shortfall | None:
    if effect.unknown:
        return Shortfall(at, 0, effect.unknown)
    worst, found, culprit = (False, 0), None, NO_REGISTER
    for rule, registers in effect.meets:
        end, required = over.get(rule.danger, 0), rule.basis is Basis.REQUIRED
        if (required, end - now) <= worst or end <= now:
            continue
        moments = live[rule.danger]
        for register in registers:
            for until, chain in moments.get(register, ()):
                if until <= now or (required, until - now) <= worst:
                    continue
                if chain is not None and chain == effect.continues:
                    continue
                worst, found, culprit = (required, until - now), rule, register
    if found is None:
        return None
    named = culprit != NO_REGISTER and found.danger is not Danger.SETREG
    name = register_name(culprit) if named else ""
    return Shortfall(at, worst[1], found.reason, name, found.source, found.basis)


def _join(states: dict[int, State], at: int, state: State) -> bool:
    """Merge a path's dangers into a place; whether that changed it."""
    if at not in states:
        states[at] = state
        return True
    known = states[at]
    changed = False
    for danger, registers in state.items():
        moments = known.setdefault(danger, {})
        for register, arriving in registers.items():
            before = moments.get(register, ())
            merged = dict.fromkeys((chain for _, chain in (*before, *arriving)), 0)
            for left, chain in (*before, *arriving):
                merged[chain] = max(merged[chain], left)
            after = tuple((left, chain) for chain, left in merged.items())
            if after != before:
                moments[register] = after
                changed = True
    return changed
