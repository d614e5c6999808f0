"""``emit_cdna``: a program's kernel for CDNA, written from the program alone.

Every step is planned first, which is also where anything unsupported is refused by name; then
registers are placed, and every step writes its instructions. What a step is in instructions depends
on what it does (a copy between two spaces, an op) and on the layouts of its register tiles, never
on where the program came from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from types import MappingProxyType

from pipeloom.judge.verify import verify
from pipeloom.machine.cdna import LGKMCNT_LIMIT, PROCESSORS, VMCNT_LIMIT, WAVE_LANES
from pipeloom.machine.dtypes import dtype_for
from pipeloom.machine.occupancy import Resources
from pipeloom.machine.target import Traffic
from pipeloom.program import (
    VOCABULARY,
    Barrier,
    Fence,
    Group,
    NodeKind,
    Priority,
    Program,
    Section,
    Space,
    Step,
    Vocabulary,
    Wait,
    Work,
)
from pipeloom.program.vocabulary import PRODUCTS
from pipeloom.write.allocate import Allocation
from pipeloom.write.clauses import break_clauses
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError, NotLinearError
from pipeloom.write.gate import VerdictLike, require_proved
from pipeloom.write.hazard_check import require_no_hazards
from pipeloom.write.hazards import insert_wait_states
from pipeloom.write.isa import Bank, ServedStep, sgpr
from pipeloom.write.kernel import EmittedKernel, line_map
from pipeloom.write.launch import Launch, problem_axis
from pipeloom.write.lower.balance import arranged
from pipeloom.write.lower.block_place import WorkgroupPlace
from pipeloom.write.lower.columns import dealt_dimensions
from pipeloom.write.lower.context import Context, Starts, place_name
from pipeloom.write.lower.copies import plan_copy
from pipeloom.write.lower.elementwise import plan_elementwise
from pipeloom.write.lower.entry_counts import check_counts
from pipeloom.write.lower.frame import Frame, Write
from pipeloom.write.lower.lds import lds_tiles
from pipeloom.write.lower.liveness import flow_of
from pipeloom.write.lower.matrix import plan_matmul
from pipeloom.write.lower.memory import ARGUMENT_POINTER, MAX_GRID, Memory
from pipeloom.write.lower.partial import check_parts, unfinished_sums
from pipeloom.write.lower.region import PredicatedRegion, only_conditions
from pipeloom.write.lower.register_kinds import accumulators, loaded_singly, movable_tiles
from pipeloom.write.lower.register_tiles import RegisterTile, register_tile
from pipeloom.write.lower.start_values import plan_start
from pipeloom.write.lower.turn_clock import clock_of
from pipeloom.write.lower.wave_clocks import WaveClocks, timed_loop
from pipeloom.write.placing import ONE_PROBLEM, Placing
from pipeloom.write.text import kernel_text

ProgramJudge = Callable[[Program], VerdictLike]
WAITS = {Traffic.GLOBAL: ("vm", VMCNT_LIMIT), Traffic.LDS: ("lgkm", LGKMCNT_LIMIT)}
"""What a wait for a counter of such accesses is called, and the largest count that it can hold."""


def emit_cdna(
    program: Program,
    *,
    judge: ProgramJudge | None = None,
    ops: Vocabulary = VOCABULARY,
    name: str | None = None,
    allow_timing: bool = False,
    placing: Placing = ONE_PROBLEM,
    timed: bool = False,
) -> EmittedKernel:
    """The kernel of a program whose verdict allows it; raises ``EmitError`` for what it cannot be.

    ``ops`` must hold every op of the program, with its lowering; ``placing`` is what launches may
    ask of it beyond whole trips; ``timed`` adds clocks around it.
    """
    if program.target.encoded_as not in PROCESSORS:
        raise EmitError(
            f"no assembler is known for {program.target.encoded_as!r}",
            hint=f"let its record say whose encoding it has: processor={max(PROCESSORS)!r}",
            field="target",
        )
    for tile in (*(n.type for n in program.meaning.nodes), *(r.type for r in program.resources)):
        dtype_for(tile.dtype)
    symbol = re.sub(r"^(?=\d)|\W", "_", name or program.name, flags=re.ASCII)
    verdict = verify(program, ops=ops) if judge is None else judge(program)
    proved = require_proved(verdict, f"program {program.name!r}", allow_timing=allow_timing)
    return _planned(program, ops, symbol, placing).kernel(proved, timed)


def occupied_cdna(
    program: Program, *, ops: Vocabulary = VOCABULARY, placing: Placing = ONE_PROBLEM
) -> Resources:
    """Registers and LDS of a program's kernel, or ``EmitError``; its verdict is not asked."""
    return _planned(program, ops, "", placing).place()[1]


def _planned(program: Program, ops: Vocabulary, name: str, placing: Placing) -> _Emission:
    for dealt in (dealt_dimensions(program), frozenset[str]()):
        with suppress(NotLinearError):  # lanes with rows by thirds: few instructions do not do
            return _Emission(program, ops, name, placing, dealt)
    return _Emission(program, ops, name, placing, frozenset(), rows_dealt=False)


class _Emission:
    """One program on its way to text."""

    def __init__(
        self,
        program: Program,
        ops: Vocabulary,
        name: str,
        placing: Placing,
        dealt: frozenset[str],
        rows_dealt: bool = True,
    ) -> None:
        self.program, self.name = program, name
        target = self.target = program.target
        flow = flow_of(program)
        frame = self.frame = Frame(flow, target, program.waves)
        frame.always("lane", Bank.VECTOR)
        frame.scalar("wave")
        memory = self.memory = Memory(program.meaning, frame, placing)
        self.block = WorkgroupPlace(memory)
        memory.dealt = dealt
        self.clock = clock_of(program, memory, frame)
        summed = accumulators(program)
        single, movable = loaded_singly(program), movable_tiles(program)
        tiles: dict[str, RegisterTile] = {}
        for resource in program.resources:
            if resource.space is not Space.LDS:
                tile = tiles[resource.name] = register_tile(
                    resource, single=resource.name in single
                )
                bank = Bank.SCALAR if resource.space is Space.SCALAR else Bank.VECTOR
                sums, moves = resource.name in summed, resource.name in movable
                for copy in range(resource.copies):
                    frame.tile(place_name(resource.name, copy), bank, tile.registers, sums, moves)
        lds, self.lds_bytes = lds_tiles(program, target, tiles, dealt=rows_dealt)
        self.context = Context(
            program, ops, target, frame, memory, self.clock, tiles, lds, name, program.groups[0]
        )
        self.context.may_miss = placing.ragged
        self.context.in_vectors = frozenset(tiles) - {*summed, *movable}
        self.context.conditions = only_conditions(program, ops)
        self.unfinished = unfinished_sums(program)
        self.writes: dict[tuple[int, int, int], Write] = {}
        self.regions: dict[tuple[int, int, int], PredicatedRegion] = {}
        self.starts: list[list[Write]] = [[] for _ in program.groups]
        self.clocks: WaveClocks | None = None
        for number, group in enumerate(program.groups):
            self._plan_group(number, group)

    # --- planning ---------------------------------------------------------------------------------

    def _plan_group(self, number: int, group: Group) -> None:
        frame, flow = self.frame, self.frame.flow
        frame.group, frame.point = number, flow.preambles[number]
        self.context.group, self.context.starts = group, Starts()
        for resource in self.program.resources:
            if resource.start is not None:
                self.starts[number] += plan_start(self.context, group, resource)
        for at, section in enumerate(group.sections):
            if section.trips is not None:
                self.context.starts.close_all()
            region: PredicatedRegion | None = None
            for slot, step in enumerate(section.steps):
                frame.point = flow.first[number][at] + slot
                if isinstance(step, Work):
                    if step.when is None:
                        region = None
                    elif region is None or not region.goes_on(step):
                        region = PredicatedRegion.of(self.context, step)
                    if region is not None:
                        self.regions[number, at, slot] = region
                    self.context.partial = (number, at, slot) in self.unfinished
                    self.writes[number, at, slot] = self._plan_work(step, region)
                    continue
                region = None
                if isinstance(step, Barrier) and step.phase is not None:
                    raise EmitError(
                        f"barrier {step.name!r} of section {section.name!r} has phases",
                        hint="this target's barriers have none",
                        field=section.name,
                    )

    def _plan_work(self, work: Work, region: PredicatedRegion | None) -> Write:
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
                write = plan_elementwise(self.context, work, op, region)
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

    def kernel(self, status: Enum, timed: bool) -> EmittedKernel:
        program, memory = self.program, self.memory
        allocation, resources = self.place()
        arguments, code = memory.arguments, Code()
        if timed:
            self.clocks = WaveClocks(resources, arguments, memory.ids)
            resources, arguments = self.clocks.resources(), self.clocks.arguments
            self.clocks.begin(code)
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
            arguments,
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
            arguments=arguments,
            launch=self._launch(),
            timing=None if self.clocks is None else self.clocks.timing,
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
        place = self.block
        place.locate(code, ids, self.context.label("inside"))
        z = sgpr(ARGUMENT_POINTER + MAX_GRID - 1)
        place.choose_slice(code, z, self.clock.tile, self.context.label("one_of_them"))
        place.choose_problem(code, problem)
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
            if self.clocks:
                self.clocks.end(code)
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
        clocks = self.clocks if section is timed_loop(self.program.groups[group]) else None
        if clocks:
            clocks.before_loop(code, left, self.clock.step)
        code.align()
        code.label(loop)
        start = len(code.lines)
        self._steps(code, group, at, section)
        self.clock.advance(code, section)
        code("s_cmp_lt_i32", 0, left)
        before, body = code.lines[:start], code.lines[start:]
        code.lines[start:] = arranged(body, self.target, self.program.waves, before)
        code("s_cbranch_scc1", loop)
        code.label(after)
        if clocks:
            clocks.after_loop(code)
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
            provenance = ServedStep(section.name, slot, _describe(step), group)
            code.comment(str(provenance))
            with code.serving(provenance):
                start = len(code.lines)
                if isinstance(step, Work):
                    self.writes[group, at, slot](code)
                    check_counts(self.program.target, step, code.lines[start:])
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
