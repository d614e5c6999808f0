"""Single instructions of a loop, vector and scalar, spread evenly between matrix instructions.

A step is several instructions (four exponentials), and a step is what programs order. Waves that
share a SIMD share its vector port: what stands between two matrix instructions of a wave and takes
longer than one of them makes the next one late. So here single instructions move to where there is
less to do:

    v_mfma ...          v_mfma ...
    v_exp_f32 x 4       v_exp_f32 x 2, v_max3_f32 x 2
    v_mfma ...          v_mfma ...
    v_max3_f32 x 4      v_exp_f32 x 2, v_max3_f32 x 2

They keep the order in which registers are written and read, stay within their trip, and never pass
the wait for what memory brings them. Memory, waits, barriers and branches stay where they are, so
what was proved of those holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

from pipeloom.machine.mnemonics import Pipe, is_transcendental, traits_of
from pipeloom.machine.target import Target
from pipeloom.write.isa import SCC, Bank, Comment, Instruction, Label, Line, Register, ServedStep
from pipeloom.write.lower.early_loads import early_loads
from pipeloom.write.lower.hoist import hoist_scalars

PASSES = 40
"""Over all instructions, in which each may move to where there is less to do."""
BEHIND_MATRIX = 3
"""Matrix instructions from one to the vector instruction that reads its result."""
MEETING = 24
"""Cycles that a barrier takes from what stands with it: waves wait for each other."""
SHARED = 2
"""By how much the vector port counts more than issue, where waves share it."""
HALF = 0.25
"""Of the vector instructions between two matrix instructions: done, the wave steps ahead."""
LEAST = 16
"""Vector instructions in a loop for which it is worth the while."""

_Key = tuple[Bank, int]


@dataclass(slots=True)
class _Item:
    """One instruction; or a branch with all that it jumps over."""

    lines: list[Line]
    gap: int
    moves: bool
    port: int
    issue: int
    before: dict[int, int] = field(default_factory=dict)
    """Items that it comes after, each with how many gaps later at least."""
    after: dict[int, int] = field(default_factory=dict)

    @property
    def first(self) -> Instruction:
        found = self.lines[0]
        assert isinstance(found, Instruction)
        return found

    @property
    def instructions(self) -> Iterator[Instruction]:
        return (line for line in self.lines if isinstance(line, Instruction))

    def is_a(self, unit: Pipe) -> bool:
        return self.first.opcode.unit is unit

    def named(self, name: str) -> bool:
        return self.first.opcode.name == name


def arranged(
    lines: Sequence[Line], target: Target, waves: int, before: Sequence[Line] = ()
) -> list[Line]:
    """A loop's body, its scalar instructions moved up and then all balanced."""
    return balance(hoist_scalars(early_loads(lines), target), target, waves, before)


def balance(
    lines: Sequence[Line], target: Target, waves: int, before: Sequence[Line] = ()
) -> list[Line]:
    """A loop's body with its vector instructions spread; as it is, where there are few of them.

    Of few ``waves`` each is alone on its SIMD: no other asks for its vector port, nor computes
    while it waits for a result of its own. What loads ``before`` the loop bring may be awaited in
    it.
    """
    items = _items(lines, target, turns := _takes_turns(lines))
    vector = sum(item.moves and item.is_a(Pipe.VALU) for item in items)
    if vector < LEAST or not items[-1].gap:
        return list(lines)
    _depend(items, _brought(before))
    _spread(items, target.issue_cycles.value if waves <= target.simds.value else 0, turns)
    return list(_written(items, target, turns))


def _takes_turns(lines: Sequence[Line]) -> bool:
    """Whether vector instructions stand from one barrier to the next without a product: while
    other waves have the matrix unit, so that they shall not go among products."""
    parts = [0]
    for line in lines:
        if isinstance(line, Instruction):
            if line.opcode.name == "s_barrier":
                parts.append(0)
            elif line.opcode.unit is Pipe.MATRIX:
                parts[-1] = -len(lines)
            parts[-1] += line.opcode.unit is Pipe.VALU
    parts[0] += parts.pop() if len(parts) > 1 else 0
    return len(parts) > 1 and max(parts) >= LEAST


def _items(lines: Sequence[Line], target: Target, turns: bool) -> list[_Item]:
    """In order; none where control does more than jump over something ahead. With ``turns``, a
    barrier begins a gap too."""
    found: list[_Item] = []
    gap, until = 0, ""
    ahead = {line.name for line in lines if isinstance(line, Label)}
    for line in lines:
        if isinstance(line, Comment):
            continue
        if until:
            found[-1].lines.append(line)
            if isinstance(line, Label) and line.name == until:
                until = ""
            continue
        if not isinstance(line, Instruction):
            return []
        unit, name = line.opcode.unit, line.opcode.name
        gap += unit is Pipe.MATRIX or (turns and name == "s_barrier")
        moves = unit in (Pipe.VALU, Pipe.SALU)
        item = _Item([line], gap, moves, 0, target.issue_cycles.value)
        if unit is Pipe.VALU:
            slow = is_transcendental(name)
            item.port = item.issue = (target.trans_cycles if slow else target.valu_cycles).value
        elif line.target is not None:
            if line.target not in ahead or name == "s_branch":
                return []
            until = line.target
            item = found.pop()  # what it asks for
            if SCC not in item.first.writes:
                return []
            item.lines.append(line)
            item.moves = False
            item.issue += target.branch_cycles.value
        elif name == "s_barrier":
            item.port = item.issue = MEETING
        elif SCC in line.reads:
            return []
        found.append(item)
    return [] if until else found


# --- what depends on what -------------------------------------------------------------------------


def _brought(lines: Sequence[Line]) -> set[_Key]:
    """Vector registers that memory or LDS wrote last."""
    found: set[_Key] = set()
    for line in lines:
        if isinstance(line, Instruction) and line.writes:
            keys = _keys(line.writes)
            found = found | keys if line.opcode.unit in (Pipe.LDS, Pipe.MEMORY) else found - keys
    return found


def _depend(items: Sequence[_Item], brought: Set[_Key]) -> None:
    """Edges between items by the registers they touch, in the order of the trip.

    What memory brings is there behind a wait only. So who comes next to it stays behind the wait
    that stands before, and all others behind that one; memory of the trip before counts as well,
    and so does what was ``brought`` before the loop.
    """
    written: dict[_Key, int] = {}
    landed: dict[_Key, tuple[int, int]] = {}
    for trip in range(2):
        read: dict[_Key, list[int]] = {}
        waited: int | None = None
        last, written = written, {}
        for n, item in enumerate(items):
            reads, writes = _touched(item)
            for key in (*reads, *writes):
                source = written.get(key)
                if trip and source is not None:
                    _edge(items, source, n, true=key in reads)
                old = last.get(key) if source is None else source
                if key not in brought if old is None else not _brings(items[old]):
                    continue
                seen = landed.setdefault(key, (trip, n))
                if old is None and seen[0] < trip:
                    seen = landed[key] = trip, n
                if trip and seen == (trip, n) and waited is not None:
                    _edge(items, waited, n, true=False)
                elif trip and seen[0] == trip and seen[1] != n:
                    _edge(items, seen[1], n, true=False)
            for key in writes:
                for reader in read.pop(key, ()):
                    if trip and reader != n:
                        _edge(items, reader, n, true=False)
                written[key] = n
                if _brings(item):
                    landed.pop(key, None)
            for key in reads:
                read.setdefault(key, []).append(n)
            if item.named("s_waitcnt"):
                waited = n
    coded = [n for n, item in enumerate(items) if SCC in item.first.writes]
    for n in coded[:-1]:  # the end of the loop asks for the last one's
        _edge(items, n, coded[-1], true=False)


def _edge(items: Sequence[_Item], first: int, second: int, *, true: bool) -> None:
    one, two = items[first], items[second]
    if not (one.moves or two.moves):
        return
    apart = 0
    if two.is_a(Pipe.MATRIX):
        apart = 1
    elif true and one.is_a(Pipe.MATRIX):
        apart = min(BEHIND_MATRIX, two.gap - one.gap)
    two.before[first] = one.after[second] = max(apart, two.before.get(first, 0))


def _touched(item: _Item) -> tuple[set[_Key], set[_Key]]:
    """Registers that an item reads and writes."""
    reads: set[_Key] = set()
    writes: set[_Key] = set()
    for one in item.instructions:
        reads |= _keys(one.reads)
        writes |= _keys(one.writes)
        traits = traits_of(one.opcode.name)
        if traits is not None and traits.swaps:
            reads |= _keys(one.writes)
    return reads, writes


def _keys(registers: Sequence[Register]) -> set[_Key]:
    """One by one; the condition code is asked for right behind the instruction that sets it."""
    return {(r.bank, r.index + n) for r in registers if r != SCC for n in range(r.count)}


def _brings(item: _Item) -> bool:
    return any(one.opcode.unit in (Pipe.LDS, Pipe.MEMORY, Pipe.SMEM) for one in item.instructions)


# --- where they go --------------------------------------------------------------------------------


def _spread(items: Sequence[_Item], stall: int, turns: bool) -> None:
    """Move one at a time, until none finds a better gap; ``stall``, of a wave that is alone, is
    what a result costs that is needed in the same gap. With ``turns`` none passes a barrier."""
    shared = 0 if stall else SHARED
    moving = [n for n, item in enumerate(items) if item.moves]
    gaps = items[-1].gap + 1
    held = [0] * gaps
    for item in items:
        held[item.gap] += shared * item.port + item.issue
    met = [item.gap for item in items if turns and item.named("s_barrier")]
    parts = list(pairwise([0, *met, gaps]))
    for _ in range(PASSES):
        moved = 0
        for n in (*moving, *reversed(moving)):
            item = items[n]
            cost = shared * item.port + item.issue
            beside = (items[m] for m in (*item.before, *item.after))
            near = Counter(other.gap for other in beside if other.moves and stall)
            low = max((items[m].gap + apart for m, apart in item.before.items()), default=0)
            high = min((items[m].gap - apart for m, apart in item.after.items()), default=gaps - 1)
            first, last = next(part for part in parts if part[0] <= item.gap < part[1])
            low, high = max(low, first), min(high, last - 1)
            held[item.gap] -= cost
            weights = {g: held[g] + stall * near[g] for g in range(low, high + 1)}
            best = min(weights, key=lambda g: (weights[g], abs(g - item.gap)))
            if weights[best] < weights[item.gap]:
                item.gap = best
                moved += 1
            held[item.gap] += cost
        if not moved:
            break


def _written(items: Sequence[_Item], target: Target, turns: bool) -> Iterator[Line]:
    gaps: list[list[int]] = [[] for _ in range(max(item.gap for item in items) + 1)]
    for n, item in enumerate(items):
        gaps[item.gap].append(n)
    served: ServedStep | None = None
    for members in gaps:
        for n in _ordered(items, members, target, turns):
            for line in items[n].lines:
                if isinstance(line, Instruction) and line.provenance != served:
                    served = line.provenance
                    if served is not None:
                        yield Comment(str(served))
                yield line


def _ordered(
    items: Sequence[_Item], members: Sequence[int], target: Target, turns: bool
) -> Iterator[int]:
    """One gap: the matrix instruction and the reads behind it, then vector instructions, each when
    its operands are there; what else there is comes last, but for a raised priority half-way.

    Where waves take ``turns``, it comes behind as much as it stood behind.
    """
    fixed = [n for n in members if not items[n].moves]
    moving = [n for n in members if items[n].moves]
    raised = [n for n in fixed if items[n].named("s_setprio")]
    ahead = {n: sum(items[m].issue for m in moving if m < n) for n in fixed}
    half = sum(items[n].issue for n in moving) * HALF
    ready = dict.fromkeys(members, 0)
    done: set[int] = set()
    inside = set(members)
    now = spent = 0

    def free(n: int) -> bool:
        return all(m in done or m not in inside for m in items[n].before)

    def due(n: int) -> bool:
        """Whether a fixed item goes ahead of vector instructions."""
        item = items[n]
        if turns:
            begins = item.is_a(Pipe.MATRIX) or item.named("s_barrier")
            return begins or spent >= ahead[n]
        if item.named("s_setprio"):
            return n == raised[0] or (n == raised[1] and len(raised) > 2 and spent >= half)
        return item.is_a(Pipe.MATRIX) or item.is_a(Pipe.LDS)

    while fixed or moving:
        able = [n for n in moving if free(n)]
        if fixed and free(fixed[0]) and (due(fixed[0]) or not able):
            chosen = fixed.pop(0)
        else:
            chosen = min(able, key=lambda n: (max(ready[n], now), n))
            moving.remove(chosen)
            spent += items[chosen].issue
        now = max(now, ready[chosen]) + items[chosen].issue
        scalar = any(not r.is_vector for r in items[chosen].first.writes)
        late = target.valu_dependent_cycles.value - target.valu_cycles.value
        for m in items[chosen].after:
            if m in ready:
                ready[m] = max(ready[m], now + (2 * target.issue_cycles.value if scalar else late))
        done.add(chosen)
        yield chosen
