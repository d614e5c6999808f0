"""The specification's schedules as programs: entries and a kernel model in, a ``Program`` out.

A compiled schedule says in which order ops stand; its kernel model says which waves walk them and
what each touches. Both are read here once, and whoever judges or writes needs neither again.

Sizes are those of the schedule's tile, and its registers lie as its matrix instruction wants, so
that a writer can write the program that was judged. A schedule need not know its tile: then sizes
are units, as many as tell fragments apart (``walked``). With a tile of 256 rows of A:

    load A (stage 1, sub 0) of K tile 2   copy  A, m 0:128, iteration 2  ->  LDS A copy 1, m 0:128
    fragment A (stage 1, sub 0), wave 3   copy  LDS A copy 1, m 64:128   ->  registers A0
    MMA (0, 1)                            C.next, m and n of what the wave's A0 and B1 are for

Where several groups of waves bring the same piece to LDS together, each brings its share of the
rows: a step of a program belongs to one group.

The model says which accumulator an MMA adds to, but not which K tile: the n-th MMA of an
accumulator, and the n-th copy of the same part, are taken for tile n. A verifier does not believe
that; it follows the loads.

Every entry of a phase becomes one step of the section of that name, in order; on a tile, one that
is for A and B at once becomes two (``staged``). Barriers that the kernel adds itself stand between
them, and the stores of C have a section of their own.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeloom.errors import ConfigError, InternalError
from pipeloom.machine.chips import TARGETS, element_type, target_for
from pipeloom.machine.dtypes import DType, dtype_for, stored_as
from pipeloom.machine.target import Target
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Box,
    Fence,
    Group,
    OrderedBy,
    Priority,
    Program,
    Provenance,
    Section,
    TripCount,
    Wait,
    Work,
)
from pipeloom.program import (
    Step as ProgramStep,
)
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import describe_op
from pipeloom.reference.held_tiles import HeldTiles, lds_name
from pipeloom.reference.instruction_counts import InstructionCounts, disagreement
from pipeloom.reference.kernels import (
    EntryRun,
    Kernel,
    LdsRegion,
    OpEffect,
    kernel_for,
)
from pipeloom.reference.ops import OpRole, OpTag, Phase
from pipeloom.reference.staged import SUMS, with_two_operands
from pipeloom.reference.walked import Operand

TRIPS = "T"
SECTIONS = {Phase.PROLOGUE: "prologue", Phase.KERNEL: "loop", Phase.EPILOGUE: "epilogue"}
STORE = "store"
COUNTERS = {"VM": "vmcnt", "LGKM": "lgkmcnt"}


def lift(
    compiled: CompiledSchedule,
    kernel: Kernel | None = None,
    target: Target | None = None,
    dtype: str | None = None,
    out: str | None = None,
) -> Program:
    """The program of a compiled schedule as its kernel runs it, on its tile.

    ``target`` is by default the schedule's own chip, or one that has its matrix instruction;
    ``dtype`` is the type of A and B, which a tile knows the size of, and ``out`` that of C.
    """
    model = kernel_for(compiled) if kernel is None else kernel
    chip, shape = target or _target(compiled), compiled.geometry
    types = _types(compiled, chip, dtype, out)
    program = _Lift(compiled, model, shape, chip, *types).program()
    if shape is None or len(program.meaning.inputs) > 1 or disagreement(compiled) is not None:
        return program
    return with_two_operands(program, shape, *types)


def lift_in_units(compiled: CompiledSchedule, kernel: Kernel | None = None) -> Program:
    """The same in units, with one step for every entry: what holds of it holds on every tile.

    It does not say which rows of a piece a group of waves brings, so that waits derived from it
    are right whatever a writer chooses. And it is small: a run of it with numbers takes a fraction
    of the time that one on a tile takes, and goes through the same steps.
    """
    model = kernel_for(compiled) if kernel is None else kernel
    chip = _target(compiled)
    return _Lift(compiled, model, None, chip, *_types(compiled, chip, None, None)).program()


def check_sized(program: Program, geometry: KernelGeometry) -> None:
    """Refuse a lifted program that is not on its tile: nobody could write it."""
    sizes = program.meaning.tile
    if sizes != geometry.tile:
        raise ConfigError(
            f"program {program.name!r} counts {sizes}, of which {geometry.tile} is no multiple",
            hint="give the geometry that the schedule was compiled for",
            field="geometry",
        )


def _types(
    compiled: CompiledSchedule, target: Target, dtype: str | None, out: str | None
) -> tuple[DType, DType]:
    """Of A and B, and of C: by default what has the size of the tile's elements."""
    shape = compiled.geometry
    small = shape is not None and shape.elem_bytes == 1
    found = element_type(dtype or ("fp8" if small else "bf16"), target)
    return found, dtype_for(out) if out else stored_as(found)


def _target(compiled: CompiledSchedule) -> Target:
    """Its own chip; of one for any, the newest that has the tile's matrix instruction."""
    if compiled.arch is not None:
        return target_for(compiled.arch)
    shape, newest = compiled.geometry, TARGETS[::-1]
    if shape is None:
        return newest[0]
    has = [t for t in newest if any(op.name == shape.mma_name for op in t.matrix_ops)]
    return (has or newest)[0]


@dataclass
class _Lift(HeldTiles):
    """One schedule and its kernel on the way to a program."""

    ordinals: Tally[object] = field(default_factory=Tally)
    """How often an accumulator was added to, or a part of a stream copied to a kind of place."""

    @cached_property
    def counts(self) -> InstructionCounts:
        return InstructionCounts(self.compiled, self.target, self.kernel)

    def program(self) -> Program:
        kernel, compiled = self.kernel, self.compiled
        advance = kernel.tiles_per_iteration
        certificate, fault = compiled.certificate, self.counts.fault
        return Program(
            name=compiled.schedule,
            meaning=self.meaning,
            target=self.target,
            resources=tuple(self.resources()),
            groups=tuple(Group(waves, self._sections(waves)) for waves in kernel.groups),
            trips=(TripCount(TRIPS, kernel.min_trips),),
            iterations=Affine(kernel.tiles(0), ((TRIPS, advance),)),
            provenance=Provenance(
                source=f"schedule {compiled.schedule}, kernel {kernel.name}",
                ordered=OrderedBy(
                    certificate.strategy,
                    certificate.makespan,
                    certificate.lower_bound,
                    certificate.proved,
                    interrupted=compiled.interrupted,
                ),
                synchronised=compiled.synchronised,
                moved=compiled.moved,
                barriers_added=compiled.barriers_added,
                notes=(*compiled.notes, *([] if fault is None else [fault.message])),
            ),
        )

    def _sections(self, waves: Sequence[int]) -> tuple[Section, ...]:
        kernel = self.kernel
        advance, trips = kernel.tiles_per_iteration, self.trips
        walk = kernel.walk(self.compiled, waves[0], trips)
        self.ordinals.clear()
        parts: dict[Phase, list[ProgramStep]] = {phase: [] for phase in Phase}
        for step in walk:
            keep = step.iteration in (None, 0)
            base = advance * trips if step.phase is Phase.EPILOGUE else 0
            lifted = self._step(step, waves, base)
            if keep:
                parts[step.phase].append(lifted)
        after = Affine(0, ((TRIPS, advance),))
        return (
            Section(name=SECTIONS[Phase.PROLOGUE], steps=tuple(parts[Phase.PROLOGUE])),
            Section(
                name=SECTIONS[Phase.KERNEL],
                steps=tuple(parts[Phase.KERNEL]),
                trips=TRIPS,
                advance=advance,
            ),
            Section(name=SECTIONS[Phase.EPILOGUE], steps=tuple(parts[Phase.EPILOGUE]), first=after),
            Section(name=STORE, steps=tuple(self._stores(waves))),
        )

    def _step(self, step: EntryRun, waves: Sequence[int], base: int) -> ProgramStep:
        op = step.op
        match op.tag:
            case OpTag.BARRIER:
                return Barrier(label=step.origin)
            case OpTag.WAIT_VM:
                return Wait(COUNTERS["VM"], op.wait_value)
            case OpTag.WAIT_LGKM:
                return Wait(COUNTERS["LGKM"], op.wait_value)
            case OpTag.SET_PRIO:
                return Priority(op.wait_value)
        if op.is_framework:
            return Fence(label=describe_op(op))
        effects = [self.kernel.effect(step, wave) for wave in waves]
        work = self._compute(step, waves, effects, base)
        return work if work is not None else self._copy(step, waves, effects, base)

    def _compute(
        self, step: EntryRun, waves: Sequence[int], effects: Sequence[OpEffect], base: int
    ) -> Work | None:
        first = effects[0]
        if first.accumulator is None:
            return None
        ordinal = self.ordinals[first.accumulator]
        self.ordinals[first.accumulator] += 1
        uses = {name: at for at, name in enumerate(self.operands)}
        registers = sorted(first.register_reads, key=lambda r: uses[self.stream_of[r.bank]])
        if len(registers) != len(uses):
            raise self.no_lift(step, f"multiplies {len(registers)} operand(s)")
        return Work(
            node="C.next",
            label=_label(step, first),
            iteration=ordinal - base,
            reads=tuple(Access(str(r)) for r in registers),
            accumulates=(Access(SUMS, self.place(first.accumulator)),),
            parts=_per_wave(
                [
                    self.summed[w, e.accumulator]
                    for w, e in zip(waves, effects, strict=True)
                    if e.accumulator is not None
                ]
            ),
            issues=self.counts.issues(step.op, first),
            latency=self._latency(step),
        )

    def _copy(
        self, step: EntryRun, waves: Sequence[int], effects: Sequence[OpEffect], base: int
    ) -> Work:
        first = effects[0]
        written = [*first.lds_writes, *first.register_writes]
        if not written or len(first.register_writes) > 1:
            raise self.no_lift(step, "writes no place, or several registers")
        moved = self._written(step, waves, effects)
        source, reads = self._source(step, waves, effects, moved)
        place = written[0]
        if isinstance(place, LdsRegion):
            target = Access(lds_name(place.operand), moved, place.stage, shared=True)
        else:
            target = Access(str(place))
        iteration = step.tile
        if iteration is None:
            key = (source, moved[0], isinstance(place, LdsRegion))
            iteration = self.ordinals[key]
            self.ordinals[key] += 1
        counter = None if first.counter is None else COUNTERS[first.counter.name]
        return Work(
            node=source,
            label=_label(step, first),
            iteration=iteration - base,
            reads=(reads,),
            writes=(target,),
            parts=moved,
            is_copy=True,
            counter=counter,
            entries=first.entries,
            issues=self.counts.issues(step.op, first),
            latency=self._latency(step),
        )

    def _written(
        self, step: EntryRun, waves: Sequence[int], effects: Sequence[OpEffect]
    ) -> tuple[Box, ...]:
        """The part of the stream that the step moves, per wave."""
        first = effects[0]
        if first.lds_writes:
            regions = first.lds_writes
            operand = self.operands[regions[0].operand]
            halves = sorted(r.half for r in regions)
            if (
                halves != list(range(halves[0], halves[-1] + 1))
                or len({(r.operand, r.stage) for r in regions}) != 1
            ):
                raise self.no_lift(step, "fills regions that are not side by side")
            rows = (halves[0] * operand.rows, (halves[-1] + 1) * operand.rows)
            return (self._box(operand, self._brought(waves, rows)),)
        register = first.register_writes[0]
        operand = self.operands[self.stream_of[register.bank]]
        return _per_wave([self._box(operand, self.held[w, register]) for w in waves])

    def _source(
        self,
        step: EntryRun,
        waves: Sequence[int],
        effects: Sequence[OpEffect],
        moved: tuple[Box, ...],
    ) -> tuple[str, Access]:
        first = effects[0]
        if first.lds_reads:
            region = first.lds_reads[0].region
            return region.operand, Access(lds_name(region.operand), moved, region.stage)
        if first.tile is not None:
            if first.lds_writes:
                name = first.lds_writes[0].operand
            else:
                name = self.stream_of[first.register_writes[0].bank]
            return name, Access(name, moved, shared=bool(first.lds_writes))
        if len(first.register_reads) == 1:
            register = first.register_reads[0]
            return self.stream_of[register.bank], Access(str(register))
        raise self.no_lift(step, "copies from no place, or from several")

    def _brought(self, waves: Sequence[int], rows: tuple[int, int]) -> tuple[int, int]:
        """A group's share of the rows of a piece, in order; all bring it whole in units."""
        if self.geometry is None:
            return rows
        groups = self.kernel.groups
        length = (rows[1] - rows[0]) // len(groups)
        start = rows[0] + groups.index(tuple(waves)) * length
        return start, start + length

    def _box(self, operand: Operand, rows: tuple[int, int]) -> Box:
        return (rows,) if operand.dim == "k" else (rows, (0, self.depth))

    def _stores(self, waves: Sequence[int]) -> Iterable[Work]:
        """C to memory: each wave its accumulators."""
        single = len(self.operands) == 1
        for accumulator in self.accumulators[:1] if single else self.accumulators:
            boxes = [self.summed.get((w, accumulator)) for w in waves]
            known = [box[:-1] for box in boxes if box is not None]
            if len(known) != len(waves) and not single:
                continue  # no MMA adds to it: then its part of the output is never stored
            parts = () if single else _per_wave(known)
            yield Work(
                node="C",
                label=f"store {accumulator}",
                iteration=None,
                reads=(Access(SUMS, self.place(accumulator)),),
                writes=(Access("out", parts),),
                parts=parts,
                is_copy=True,
                counter=COUNTERS["VM"],
                entries=1,
            )

    @cached_property
    def latencies(self) -> Mapping[int, int]:
        """The latency of each tag, where all ops of the body that state one agree on it."""
        stated: dict[int, set[int]] = {}
        for op in self.compiled.body:
            if op.latency > 0:
                stated.setdefault(op.tag, set()).add(op.latency)
        return {tag: min(found) for tag, found in stated.items() if len(found) == 1}

    def _latency(self, step: EntryRun) -> int:
        return step.op.latency or self.latencies.get(step.op.tag, 0)


_VERBS = {
    OpRole.GLOBAL_LOAD: "load",
    OpRole.SHARED_STORE: "store",
    OpRole.FRAGMENT_LOAD: "frag",
}


def _label(step: EntryRun, effect: OpEffect) -> str:
    """``load A[1,0]``, ``frag B[0,1]``, ``mma (0,1)``; a load to registers names them."""
    op = step.op
    if effect.accumulator is not None:
        return f"mma ({op.stage},{op.subtile})"
    if op.role is OpRole.GLOBAL_LOAD and not effect.lds_writes:
        return f"load {effect.register_writes[0]}" if effect.register_writes else "load"
    regions = [*effect.lds_writes, *(read.region for read in effect.lds_reads)]
    operand = regions[0].operand if regions else ""
    return f"{_VERBS.get(op.role, 'op')} {operand}[{op.stage},{op.subtile}]"


def _per_wave(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """One box per wave, or a single one where all agree."""
    if not boxes:
        raise InternalError("a step of no wave")
    return (boxes[0],) if len(set(boxes)) == 1 else tuple(boxes)
