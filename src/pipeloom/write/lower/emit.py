"""``emit_cdna``: a program's kernel for CDNA, written from the program alone.

    emitted = emit_cdna(Program.from_json(text))
    code = assemble(emitted)

Every step is planned first, which is also where anything unsupported is refused by name; then
registers are placed, and every step writes its instructions. What a step is in instructions depends
on what it does (a copy between two spaces, an op) and on the layouts of its register tiles, never
on where the program came from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from types import MappingProxyType

from pipeloom.judge.verify import verify
from pipeloom.machine.cdna import LGKMCNT_LIMIT, PROCESSORS, VMCNT_LIMIT, WAVE_LANES
from pipeloom.machine.dtypes import dtype_for
from pipeloom.machine.occupancy import Resources
from pipeloom.machine.target import Target, Traffic
from pipeloom.program import (
    VOCABULARY,
    Barrier,
    Fence,
    Group,
    NodeKind,
    Priority,
    Program,
    Resource,
    Section,
    Space,
    Step,
    Vocabulary,
    Wait,
    Work,
)
from pipeloom.program.nodes import Region as When
from pipeloom.program.vocabulary import PRODUCTS
from pipeloom.write.allocate import Allocation
from pipeloom.write.clauses import break_clauses
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError, NotLinearError
from pipeloom.write.gate import VerdictLike, require_proved
from pipeloom.write.hazard_check import require_no_hazards
from pipeloom.write.hazards import insert_wait_states
from pipeloom.write.isa import Bank, Instruction, Label, Line, Provenance, Unit, sgpr
from pipeloom.write.kernel import EmittedKernel, line_map
from pipeloom.write.launch import Launch, problem_axis
from pipeloom.write.lower.balance import balance
from pipeloom.write.lower.clock import Clock
from pipeloom.write.lower.columns import dealt_dimensions
from pipeloom.write.lower.context import Context, place_name
from pipeloom.write.lower.copies import plan_copy, transposed_read
from pipeloom.write.lower.elementwise import plan_elementwise
from pipeloom.write.lower.frame import Frame, Write
from pipeloom.write.lower.hoist import hoist_scalars
from pipeloom.write.lower.lds import lds_tiles
from pipeloom.write.lower.liveness import flow_of
from pipeloom.write.lower.matrix import plan_matmul
from pipeloom.write.lower.memory import ARGUMENT_POINTER, MAX_GRID, Memory
from pipeloom.write.lower.partial import check_parts, check_start, unfinished_sums
from pipeloom.write.lower.region import Region, only_conditions
from pipeloom.write.lower.register_tiles import RegisterTile, register_tile
from pipeloom.write.lower.starts import Starts
from pipeloom.write.lower.templates import float_bits
from pipeloom.write.placing import ONE_PROBLEM, Placing
from pipeloom.write.text import kernel_text

ProgramJudge = Callable[[Program], VerdictLike]
WAITS = {Traffic.GLOBAL: ("vm", VMCNT_LIMIT), Traffic.LDS: ("lgkm", LGKMCNT_LIMIT)}
"""What a wait for a counter of such accesses is called, and the largest count that it can hold."""
COUNTED = {Traffic.GLOBAL: Unit.VMEM, Traffic.LDS: Unit.LDS}


def emit_cdna(
    program: Program,
    *,
    judge: ProgramJudge = verify,
    ops: Vocabulary = VOCABULARY,
    name: str | None = None,
    allow_timing: bool = False,
    placing: Placing = ONE_PROBLEM,
) -> EmittedKernel:
    """The kernel of a program whose verdict allows it; raises ``EmitError`` for what it cannot be.

    ``ops`` must hold every op of the program, with its lowering. ``name`` is the kernel's symbol.
    ``placing`` is what launches may ask of it beyond whole trips of one problem.
    """
    if program.target.encoded_as not in PROCESSORS:
        raise EmitError(
            f"no assembler is known for {program.target.encoded_as!r}",
            hint=f"let its record say whose encoding it has: processor={PROCESSORS[-1]!r}",
            field="target",
        )
    for tile in (*(n.type for n in program.meaning.nodes), *(r.type for r in program.resources)):
        dtype_for(tile.dtype)
    symbol = re.sub(r"^(?=\d)|\W", "_", name or program.name, flags=re.ASCII)
    status = require_proved(judge(program), f"program {program.name!r}", allow_timing=allow_timing)
    dealt = dealt_dimensions(program)
    if dealt:
        # Where rows are dealt to lanes by thirds already, no few instructions compute both.
        with suppress(NotLinearError):
            return _Emission(program, ops, symbol, placing, dealt).kernel(status)
    return _Emission(program, ops, symbol, placing, frozenset()).kernel(status)


def occupied_cdna(program: Program, *, ops: Vocabulary = VOCABULARY) -> Resources:
    """Registers and LDS of a program's kernel. Nothing is written, so its verdict is not asked."""
    dealt = dealt_dimensions(program)
    if dealt:
        with suppress(NotLinearError):
            return _Emission(program, ops, "", ONE_PROBLEM, dealt).place()[1]
    return _Emission(program, ops, "", ONE_PROBLEM, frozenset()).place()[1]


class _Emission:
    """One program on its way to text."""

    def __init__(
        self,
        program: Program,
        ops: Vocabulary,
        name: str,
        placing: Placing,
        dealt: frozenset[str],
    ) -> None:
        self.program, self.name = program, name
        target = self.target = program.target
        flow = flow_of(program)
        frame = self.frame = Frame(flow, target, program.waves)
        frame.always("lane", Bank.VECTOR)
        frame.scalar("wave")
        memory = self.memory = Memory(program.meaning, frame, placing)
        memory.dealt = dealt
        self.clock = Clock(program, memory, frame)
        accumulators = _accumulators(program, ops)
        single = _loaded_singly(program)
        tiles: dict[str, RegisterTile] = {}
        for resource in program.resources:
            if resource.space is not Space.LDS:
                tile = tiles[resource.name] = register_tile(
                    resource, single=resource.name in single
                )
                bank = Bank.SCALAR if resource.space is Space.SCALAR else Bank.VECTOR
                sums = resource.name in accumulators
                for copy in range(resource.copies):
                    frame.tile(place_name(resource.name, copy), bank, tile.registers, sums)
        lds, self.lds_bytes = lds_tiles(program, target, tiles)
        self.context = Context(
            program, ops, target, frame, memory, self.clock, tiles, lds, name, program.groups[0]
        )
        self.context.may_miss = placing.ragged
        self.context.conditions = only_conditions(program, ops)
        self.unfinished = unfinished_sums(program)
        self.writes: dict[tuple[int, int, int], Write] = {}
        self.regions: dict[tuple[int, int, int], Region] = {}
        self.starts: list[list[Write]] = [[] for _ in program.groups]
        for number, group in enumerate(program.groups):
            self._plan_group(number, group)

    # --- planning ---------------------------------------------------------------------------------

    def _plan_group(self, number: int, group: Group) -> None:
        frame, flow = self.frame, self.frame.flow
        frame.group, frame.point = number, flow.preambles[number]
        self.context.group, self.context.starts = group, Starts()
        for resource in self.program.resources:
            if resource.start is not None:
                self._plan_start(number, group, resource)
        for at, section in enumerate(group.sections):
            if section.trips is not None:
                self.context.starts.close_all()
            region: Region | None = None
            for slot, step in enumerate(section.steps):
                frame.point = flow.first[number][at] + slot
                if isinstance(step, Work):
                    if step.when is None:
                        region = None
                    elif region is None or not region.goes_on(step):
                        region = Region.of(self.context, step)
                    self.context.region = region
                    if region is not None:
                        self.regions[number, at, slot] = region
                    self.context.partial = (number, at, slot) in self.unfinished
                    self.writes[number, at, slot] = self._plan_work(step)
                    continue
                region = None
                if isinstance(step, Barrier) and step.phase is not None:
                    raise EmitError(
                        f"barrier {step.name!r} of section {section.name!r} has phases",
                        hint="this target's barriers have none",
                        field=section.name,
                    )

    def _plan_start(self, number: int, group: Group, resource: Resource) -> None:
        """Registers that hold a number before the first step, in groups that touch them."""
        touched = any(
            access.resource == resource.name
            for _, _, step in group.steps()
            if isinstance(step, Work)
            for access in step.accesses
        )
        if not touched:
            return
        tile = self.context.tiles.get(resource.name)
        if tile is None or tile.pack > 1:
            raise EmitError(
                f"{resource.name} starts at {resource.start}, which only 32-bit registers can",
                hint="store a start value with a step of its own",
                field=resource.name,
            )
        bits = float_bits(float(resource.start or 0.0))
        check_start(resource)
        starts = self.context.starts
        for copy in range(resource.copies):
            place = place_name(resource.name, copy)
            self.frame.touch(place, resource.type.whole, writes=True)
            starts.begin(place, tile.registers, zero=bits == 0)
            self.starts[number].append(partial(self._fill, starts, place, bits))

    def _fill(self, starts: Starts, name: str, bits: int, code: Code) -> None:
        needed = starts.needed(name)
        if not needed:
            return
        registers = self.frame[name]
        code.comment(f"{name} starts at {bits:#x}")
        moved = self.frame[self.frame.work(0)]
        if bits not in range(65):
            code("v_mov_b32", moved, bits)
        for i in needed:
            place = registers.part(i)
            if place.bank is Bank.ACCUMULATOR:
                code("v_accvgpr_write_b32", place, bits if bits in range(65) else moved)
            else:
                code("s_mov_b32" if place.bank is Bank.SCALAR else "v_mov_b32", place, bits)

    def _plan_work(self, work: Work) -> Write:
        node = self.program.meaning[work.node]
        product = not work.is_copy and node.op in PRODUCTS
        if (node.when is not None and work.when is None) or (
            work.when is not None and (work.is_copy or product)
        ):
            raise EmitError(
                f"{work.label} runs only where {work.when or node.when!r} holds",
                hint="vector ops that change a value in place can be skipped, nothing else",
                field=work.label,
            )
        self.frame.work(0)
        self.context.check_places(work)
        check_parts(self.program, self.context.ops, work)
        others = () if product else (*work.writes, *work.accumulates)
        self.context.starts.close(place_name(a.resource, a.copy) for a in (*work.reads, *others))
        if work.is_copy:
            write = plan_copy(self.context, work)
        else:
            op = self.context.ops[node.op]
            if product:
                write = plan_matmul(self.context, work)
            else:
                write = plan_elementwise(self.context, work, op)
        self.context.note(work)
        return write

    # --- writing ----------------------------------------------------------------------------------

    def place(self) -> tuple[Allocation, Resources]:
        """Where everything lies, and how much that takes."""
        allocation = self.frame.place(self.memory.reserved_scalars)
        return allocation, Resources(
            vgprs=allocation.used[Bank.VECTOR],
            agprs=allocation.used[Bank.ACCUMULATOR],
            sgprs=allocation.used[Bank.SCALAR],
            lds_bytes=self.lds_bytes,
            waves=self.program.waves,
            target=self.target,
        )

    def kernel(self, status: Enum) -> EmittedKernel:
        program, memory = self.program, self.memory
        allocation, resources = self.place()
        code = Code()
        self._setup(code)
        self._groups(code)
        lines = tuple(insert_wait_states(list(break_clauses(code.lines)), self.target))
        inputs, outputs = program.meaning.inputs, program.meaning.outputs
        title = f"{program.name} on {self.target.arch}, {status.name}; {program.content_hash[:12]}"
        text, numbers = kernel_text(
            self.name,
            self.target.encoded_as,
            lines,
            resources,
            memory.arguments,
            title,
            memory.ids,
        )
        require_no_hazards(text, self.target)
        return EmittedKernel(
            name=self.name,
            target=self.target.arch,
            dtype=inputs[0].type.dtype.name if inputs else "f32",
            out_dtype=outputs[0].type.dtype.name,
            status=status,
            text=text,
            line_map=line_map(lines, numbers),
            lines=lines,
            resources=resources,
            allocation=allocation,
            waves=program.waves,
            arguments=memory.arguments,
            launch=self._launch(),
        )

    def _launch(self) -> Launch:
        program = self.program
        least = program.iterations.at(program.min_trips)
        return Launch(
            meaning=program.meaning,
            tiles=MappingProxyType(dict(self.memory.tiles)),
            iterations=program.iterations,
            least=least * self.clock.tile,
            step=self.clock.step,
            multiples=MappingProxyType(dict(self.context.multiples)),
            pitches=MappingProxyType(dict(self.context.pitches)),
            placing=self.memory.placing,
        )

    def _setup(self, code: Code) -> None:
        frame, memory = self.frame, self.memory
        memory.load_arguments(code, sgpr(0, ARGUMENT_POINTER))
        lane, work = frame["lane"], frame[frame.work(0)]
        code("v_lshrrev_b32", work, WAVE_LANES.bit_length() - 1, lane)
        code("v_readfirstlane_b32", frame["wave"], work)
        code("v_and_b32", lane, WAVE_LANES - 1, lane)
        code.comment("the arguments are needed from here on")
        code.wait(lgkm=0)
        # The last dimension of the grid is x, whose id comes first.
        meaning = self.program.meaning
        grid = len(meaning.grid)
        free = [sgpr(ARGUMENT_POINTER + i) for i in range(grid + 1)]
        problem = free.pop(problem_axis(meaning) if meaning.batch else grid)
        ids = free[::-1]
        memory.locate(code, ids, self.context.label("inside"))
        z = sgpr(ARGUMENT_POINTER + MAX_GRID - 1)
        memory.choose_slice(code, z, self.clock.tile, self.context.label("one_of_them"))
        memory.choose_problem(code, problem)
        self.clock.fit(code)
        memory.describe(code)
        self.clock.start(code)
        code.comment("what depends on the wave")
        for write in frame.common:
            write(code)

    def _groups(self, code: Code) -> None:
        groups = self.program.groups
        labels = [self.context.label(f"group_{i}") for i in range(len(groups))]
        for number, group in enumerate(groups[1:], start=1):
            for wave in group.waves:
                code("s_cmp_eq_u32", self.frame["wave"], wave)
                code("s_cbranch_scc1", labels[number])
        for number, group in enumerate(groups):
            if number:
                code.label(labels[number])
            if len(groups) > 1:
                code.comment(f"waves {', '.join(map(str, group.waves))}")
            self.context.group = group
            for write in self.frame.preambles[number]:
                write(code)
            self.clock.reset(code)
            for at, section in enumerate(group.sections):
                self._section(code, number, at, section)
            self._start(code, number)
            code("s_endpgm")

    def _start(self, code: Code, group: int) -> None:
        """What no load to LDS needs, and registers' start values: written while loads come."""
        for write in (*self.frame.late[group], *self.starts[group]):
            write(code)
        self.frame.late[group], self.starts[group] = [], []

    def _section(self, code: Code, group: int, at: int, section: Section) -> None:
        if not section.steps:
            return
        if any(isinstance(s, Work) and s.iteration is not None for s in section.steps):
            self.clock.enter(code, section)
        self.clock.forget()
        if section.trips is None:
            self._steps(code, group, at, section)
            return
        self._start(code, group)
        loop, after = self.context.label("loop"), self.context.label("after")
        left = self.frame["left"]
        code("s_mov_b32", left, self.clock.extent(section))
        if self.program.min_trips[section.trips] == 0:
            code("s_cmp_ge_i32", 0, left)
            code("s_cbranch_scc1", after)
        if self.memory.placing.ragged and self._loads(section):
            code.comment("the first trip, whose tiles may begin before the arrays")
            self._steps(code, group, at, section)
            self.clock.advance(code, section)
            self.clock.forget()
            code("s_cmp_ge_i32", 0, left)
            code("s_cbranch_scc1", after)
            self.context.may_miss = False
        code.align()
        code.label(loop)
        start = len(code.lines)
        self._steps(code, group, at, section)
        self.clock.advance(code, section)
        code("s_cmp_lt_i32", 0, left)
        code.lines[start:] = balance(hoist_scalars(code.lines[start:], self.target), self.target)
        code("s_cbranch_scc1", loop)
        code.label(after)
        self.clock.leave(section)
        self.context.may_miss = self.memory.placing.ragged

    def _loads(self, section: Section) -> bool:
        """Whether a step of a section loads a stream."""
        nodes = [
            self.context.memory_node(step.reads[0])
            for step in section.steps
            if isinstance(step, Work) and step.is_copy
        ]
        return any(node is not None and node.kind is NodeKind.STREAM for node in nodes)

    def _steps(self, code: Code, group: int, at: int, section: Section) -> None:
        done = ""
        for slot, step in enumerate(section.steps):
            if not (isinstance(step, Work) and self.context.brings_to_lds(step)):
                self._start(code, group)
            region = self.regions.get((group, at, slot))
            if region is not None and region is not self.regions.get((group, at, slot - 1)):
                done = region.begin(code)
            provenance = Provenance(section.name, slot, _describe(step), group)
            code.comment(str(provenance))
            with code.serving(provenance):
                start = len(code.lines)
                if isinstance(step, Work):
                    self.writes[group, at, slot](code)
                    _check_counts(self.program.target, step, code.lines[start:])
                else:
                    self._framework(code, step)
            if region is not None and region is not self.regions.get((group, at, slot + 1)):
                region.end(code, done)

    def _framework(self, code: Code, step: Step) -> None:
        if isinstance(step, Wait):
            counter = self.program.target.counter(step.counter)
            if counter.counts is None:
                raise EmitError(
                    f"a wait for counter {counter.name!r}, which counts no memory accesses",
                    hint="kernels wait for global and LDS accesses",
                    field="counter",
                )
            name, limit = WAITS[counter.counts]
            code.wait(**{name: min(step.count, counter.limit.value, limit)})
        elif isinstance(step, Barrier):
            code("s_barrier")
        elif isinstance(step, Priority):
            code("s_setprio", step.level)


def _accumulators(program: Program, ops: Vocabulary) -> set[str]:
    """What lives beside the vector registers: results of products that no loop computes on.

    Vector instructions cannot touch those registers, so outside of loops a move comes before.
    """
    products: set[str] = set()
    others: set[str] = set()
    for group in program.groups:
        for section, _, step in group.steps():
            if not isinstance(step, Work) or step.is_copy:
                continue
            if program.meaning[step.node].op in PRODUCTS:
                products |= {a.resource for a in (*step.writes, *step.accumulates)}
            elif section.trips is not None:
                others |= {access.resource for access in step.accesses}
    return products - others


def _loaded_singly(program: Program) -> set[str]:
    """What is loaded element by element, each to a register of its own.

    Of memory, 16-bit tiles that lie like matrix results, or are wanted after the loop: runs are
    short, and rows of any length and alignment are wanted beside results; and what is stored as it
    was loaded, where alignment is what is changed. Of LDS, what is read
    across its rows where the chip has no transposed read. (Loads to a half of a register clear the
    other half on chips that protect registers by ECC, as gfx942 does: LLVM,
    ``d16PreservesUnusedBits``.)
    """
    memory = {node.name for node in program.meaning.inputs}
    meaning = program.meaning
    after = {n.name for n in meaning.inputs if n.region is When.AFTER}
    after |= {name for n in meaning.outputs for name in n.uses}
    from_memory, at_end, from_lds = set(), set(), set()
    for group in program.groups:
        for _, _, step in group.steps():
            if isinstance(step, Work) and step.is_copy:
                into = {access.resource for access in step.writes}
                if step.reads[0].resource in memory:
                    from_memory |= into
                    at_end |= into if step.reads[0].resource in after else set()
                else:
                    from_lds |= into
    found = set()
    for resource in program.resources:
        name, layout, bits = resource.name, resource.layout, resource.type.dtype.bits
        if layout is None or resource.space is not Space.REGISTER:
            continue
        if bits < 32 and name in (from_memory if layout.kind == "accumulator" else at_end):
            found.add(name)
        if layout.kind == "operand" and name in from_lds and "axis" in dict(layout.numbers):
            found |= set() if transposed_read(program.target, bits) else {name}
    return found


def _describe(step: Step) -> str:
    match step:
        case Work():
            return step.label or step.node
        case Wait():
            return f"wait {step.counter} {step.count}"
        case Barrier():
            return step.label or f"barrier {step.name}"
        case Priority():
            return f"priority {step.level}"
        case Fence():
            return step.label or "fence: no instruction"


def _check_counts(target: Target, work: Work, added: Sequence[Line]) -> None:
    """A counter may move by more than the program says, which only makes waits stricter.

    wait(n) retires a step once n entries follow it; more instructions make that true earlier.
    Fewer would make the program's waits wrong, and so would an entry that it does not know of.
    """
    for traffic, unit in COUNTED.items():
        counter = target.counting(traffic).name
        count = _fewest(added, counter, unit)
        stated = work.entries if work.counter == counter else 0
        if count < stated or (count and not stated):
            raise EmitError(
                f"{work.label} takes {count} {counter} entries per wave, but the program counts "
                f"{stated}: its waits would be wrong",
                hint="count one entry per memory instruction",
                field=work.label,
            )


def _fewest(lines: Sequence[Line], counter: str, unit: Unit) -> int:
    """The fewest instructions of a unit along any path; steps branch forwards only.

    What a step waits for itself (an exchange between lanes) is not outstanding after it.
    """
    nowhere = len(lines) + 1
    arriving: dict[str, int] = {}
    count = 0
    for line in lines:
        if isinstance(line, Label):
            count = min(count, arriving.get(line.name, nowhere))
        elif isinstance(line, Instruction):
            if line.opcode.name == "s_waitcnt" and f"{counter}(0)" in line.modifiers:
                count = min(count, 0)
            count += line.opcode.unit is unit
            target = line.operands[0] if line.opcode.name.startswith(("s_branch", "s_cbr")) else ""
            if isinstance(target, str) and target:
                arriving[target] = min(arriving.get(target, nowhere), count)
                count = nowhere if line.opcode.name == "s_branch" else count
    return count
