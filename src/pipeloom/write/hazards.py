"""Wait states that no interlock provides: where ``s_nop`` goes.

CDNA's pipes are not fully interlocked. After an MFMA, say, its result may be read by a VALU only
some instructions later; in between something must issue, and if there is nothing, an ``s_nop``.
Each instruction is one wait state, ``s_nop n`` is n + 1.

    v_mfma_f32_16x16x32_bf16 a[0:3], ...
    s_nop 7                                  <- inserted: gfx950 wants 8 before the read
    v_accvgpr_read_b32 v0, a0

The rules are those of the chip's record (``Target.wait_rules``). Which registers an instruction
touches in which way is read from our instruction table; ``hazard_check`` judges the result from its
text, and a pass of LLVM in the tests. What this layer cannot write (DPP, s_setreg, f64) starts and
meets nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipeloom.machine.mnemonics import Matrix, Pipe, Traits, traits_of
from pipeloom.machine.target import Target
from pipeloom.machine.wait_rules import Danger, Use, WaitTable
from pipeloom.write.isa import EXEC, M0, VCC, Bank, Instruction, Label, Line, Register, instruction

MAX_NOP = 8
"""Wait states per s_nop; the field could hold 16 on gfx9, LLVM stays at 8."""

_SRC_C = 3
_WIDE = 2
"""Registers of data up to which a store is safe from what follows."""
_WHOLE = Register(Bank.SPECIAL, 6, 1, "instruction")
"""Stands for a register where a danger is not about one."""
Registers = tuple[Register, ...]


@dataclass(frozen=True, slots=True)
class _Effects:
    """The dangers that an instruction starts, with their wait states, and those it meets."""

    item: Instruction
    starts: tuple[tuple[Danger, Registers, int, bool], ...]
    """The last says whether the same opcode goes on without them."""
    meets: dict[Danger, Registers]
    most: int
    """Wait states of the longest danger that it starts."""

    @classmethod
    def of(cls, item: Instruction, table: WaitTable) -> _Effects:
        traits = _traits(item)
        starts, meets = [], dict[Danger, Registers]()
        for use, registers in _touched(item, traits):
            for rule in table.starts[use]:
                states = table.after(rule, traits)
                if states > 0:
                    starts.append((rule.danger, registers, states, rule.chains))
            for rule in table.meets[use]:
                meets[rule.danger] = meets.get(rule.danger, ()) + registers
        return cls(
            item, tuple(starts), meets, max((states for _, _, states, _ in starts), default=0)
        )

    def needed_before(self, second: _Effects) -> int:
        """Wait states that must lie between this and a later instruction."""
        needed = 0
        for danger, registers, states, chains in self.starts:
            if states > needed and danger in second.meets:
                met = second.meets[danger]
                if any(a.overlaps(b) for a in registers for b in met) and not (
                    chains and _goes_on(self.item, second.item)
                ):
                    needed = states
        return needed


def _traits(item: Instruction) -> Traits:
    """What the rules ask about an instruction's mnemonic; passes are those of its form."""
    known = traits_of(item.opcode.name.split()[0])
    assert known is not None, item
    return replace(known, passes=item.opcode.passes) if item.opcode.passes else known


def _goes_on(first: Instruction, second: Instruction) -> bool:
    """Along a chain of one opcode; of matrix instructions on exactly the same registers.

    Only then is the result forwarded (LLVM pull request 218363).
    """
    if first.opcode is not second.opcode:
        return False
    return first.opcode.unit is not Pipe.MATRIX or second.operands[_SRC_C] == first.operands[0]


def _touched(item: Instruction, traits: Traits) -> Iterator[tuple[Use, Registers]]:
    """The registers that an instruction touches, by the way it does."""
    unit, reads, writes = item.opcode.unit, item.reads, item.writes
    if unit is Pipe.MATRIX:
        xdl = traits.matrix is Matrix.XDL
        yield Use.MATRIX_RESULT, writes[:1]
        yield Use.MATRIX_FACTOR, _registers(item.operands[1:_SRC_C] + item.operands[_SRC_C + 1 :])
        yield (
            (Use.XDL_ADDEND if xdl else Use.OTHER_ADDEND),
            _registers(item.operands[_SRC_C : _SRC_C + 1]),
        )
        yield Use.MATRIX, (_WHOLE,)
    elif unit is Pipe.VALU:
        yield from _valu(item, traits)
    elif unit in (Pipe.LDS, Pipe.MEMORY):
        yield Use.MEMORY_READ, tuple(r for r in reads if r.is_vector)
        yield Use.MEMORY_WRITE, writes
        if unit is Pipe.MEMORY:
            yield Use.MEMORY_SCALAR_READ, (*(r for r in reads if not r.is_vector), EXEC)
            yield from _stored(item, traits)
    elif unit is Pipe.SALU and M0 in writes:
        yield Use.SALU_M0_WRITE, (_WHOLE,)
    if M0 in item.opcode.reads:
        yield Use.M0_READ, (_WHOLE,)


def _valu(item: Instruction, traits: Traits) -> Iterator[tuple[Use, Registers]]:
    reads, writes = item.reads, item.writes
    if traits.accumulates or traits.swaps:
        reads += writes
    if traits.reads_vcc:
        reads += (VCC,)
    if traits.writes_exec:
        writes += (EXEC,)
    vectors = tuple(r for r in reads if r.is_vector)
    written = tuple(r for r in writes if r.is_vector)
    scalars = tuple(r for r in writes if not r.is_vector)
    yield Use.VALU_READ, vectors
    yield Use.VALU_WRITE, written
    yield Use.VALU_SCALAR_READ, tuple(r for r in reads if not r.is_vector)
    yield Use.VALU_SCALAR_WRITE, scalars
    yield (Use.DOT_RESULT if traits.dot else Use.PLAIN_RESULT), written
    if traits.dot:
        yield Use.DOT_FACTOR, _registers(item.operands[1:_SRC_C])
        yield Use.DOT_ADDEND, _registers(item.operands[_SRC_C:] or item.operands[:1])
    else:
        yield Use.NO_DOT_READ, vectors
    if traits.transcendental:
        yield Use.SLOW_RESULT, written
    else:
        yield Use.QUICK_READ, vectors
    if _is_partial(item, traits):
        yield Use.PARTIAL_RESULT, written
    if traits.reads_lane:
        yield Use.LANE_READ, vectors
    if traits.lane_select:
        yield Use.LANE_SELECT, _registers(item.operands[-1:])
    if traits.permlane:
        yield Use.PERMLANE_READ, vectors
    for use, so in (
        (Use.VALU_EXEC_WRITE, EXEC in scalars),
        (Use.VALU_VCC_WRITE, VCC in scalars),
        (Use.LANE, traits.reads_lane or traits.lane_select),
        (Use.PERMLANE, traits.permlane),
        (Use.DIV_FMAS, traits.reads_vcc),
    ):
        if so:
            yield use, (_WHOLE,)


def _is_partial(item: Instruction, traits: Traits) -> bool:
    """Whether op_sel or dst_sel puts the result into a part of a register."""
    if traits.partial == -1:
        return True
    packed = item.opcode.name.startswith(("v_pk_", "v_dot"))
    return any(
        (word.startswith("op_sel:[") and word.endswith(",1]") and not packed)
        or (word.startswith("dst_sel:") and word != "dst_sel:DWORD")
        for word in item.modifiers.split()
    )


def _stored(item: Instruction, traits: Traits) -> Iterator[tuple[Use, Registers]]:
    """The data of a store of more than 8 bytes."""
    if traits.data is None:
        return
    data = item.operands[traits.data]
    if isinstance(data, Register) and data.count > _WIDE:
        by_register = traits.data == 0 and isinstance(item.operands[-1], Register)
        yield (Use.STORE_DATA_SCALAR_OFFSET if by_register else Use.STORE_DATA), (data,)


def _registers(operands: Sequence[object]) -> Registers:
    return tuple(operand for operand in operands if isinstance(operand, Register))


def insert_wait_states(lines: Sequence[Line], target: Target) -> list[Line]:
    """The lines with the ``s_nop`` they need along every path, each placed as late as it can be.

    Forward paths come first, where every s_nop is necessary; then, until nothing is missing, what
    the end of a loop asks of its start.
    """
    result = list(lines)
    table = target.wait_table
    known = _Known(table)
    backwards = False
    while True:
        missing = _missing(result, known, backwards)
        if not missing and backwards:
            return result
        backwards = True
        for at in sorted(missing, reverse=True):
            served = result[at]
            assert isinstance(served, Instruction)
            left = missing[at]
            while left > 0:
                states = min(left, MAX_NOP)
                nop = instruction("s_nop", states - 1, provenance=served.provenance)
                result.insert(at, nop)
                left -= states


class _Known:
    """Effects by what an instruction says: most stand in a kernel several times."""

    def __init__(self, table: WaitTable) -> None:
        self.table = table
        self._found: dict[object, _Effects] = {}

    def effects(self, item: Instruction) -> _Effects:
        said = (id(item.opcode), item.operands, item.modifiers)
        found = self._found.get(said)
        if found is None:
            found = self._found[said] = _Effects.of(item, self.table)
        return found


def _missing(lines: Sequence[Line], known: _Known, backwards: bool) -> dict[int, int]:
    """Position -> wait states lacking before it, counting what earlier positions will get.

    Branches back are followed only if ``backwards``, and then nothing else is looked at again.
    """
    table = known.table
    kept = [at for at, line in enumerate(lines) if isinstance(line, Instruction | Label)]
    program = [lines[at] for at in kept]
    facts = [known.effects(line) if isinstance(line, Instruction) else None for line in program]
    before = _predecessors(program)
    straight = [sources == [at - 1] for at, sources in enumerate(before)]
    passed = [0 if fact is None else fact.item.wait_states for fact in facts]
    missing: dict[int, int] = {}
    far = behind_loop = -1
    for at, second in enumerate(facts):
        if second is None:
            # Behind a label the path may come from anywhere.
            far = at + table.longest
            behind_loop = far if any(p > at for p in before[at]) else behind_loop
            continue
        reach = table.longest if at <= far else table.near
        if second.item.opcode.unit is Pipe.MATRIX:
            far = at + table.longest
        if not second.meets or (backwards and at > behind_loop):
            continue
        lacking = 0
        seen: dict[int, int] = {}
        todo = [(at, 0)]
        while todo:
            place, distance = todo.pop()
            for source in before[place]:
                if source > place and not backwards:
                    continue
                if seen.get(source, table.longest) <= distance:
                    continue
                seen[source] = distance
                here, between = source, distance
                while True:  # back through straight code
                    first = facts[here]
                    if first is not None and first.most - between > lacking:
                        lacking = max(lacking, first.needed_before(second) - between)
                    between += passed[here]
                    if between >= reach:
                        break
                    if not straight[here]:
                        todo.append((here, between))
                        break
                    here -= 1
        if lacking > 0:
            missing[at] = lacking
            passed[at] += lacking
    return {kept[at]: states for at, states in missing.items()}


def _predecessors(program: Sequence[Line]) -> list[list[int]]:
    """For each line, the lines that control can come from."""
    sources: dict[str, list[int]] = {}
    for at, line in enumerate(program):
        if isinstance(line, Instruction) and line.target is not None:
            sources.setdefault(line.target, []).append(at)
    found = []
    falls_through = False
    for at, line in enumerate(program):
        here = list(sources.get(line.name, ())) if isinstance(line, Label) else []
        found.append([*here, at - 1] if falls_through else here)
        ends = isinstance(line, Instruction) and line.opcode.name in ("s_branch", "s_endpgm")
        falls_through = not ends
    return found
