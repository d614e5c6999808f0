"""A kernel from a source: the fastest proved form, as assembly or as a code object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pipeloom
from pipeloom.declare.loop import Loop
from pipeloom.drive.forms import Choice, choose_form
from pipeloom.drive.loops import element_type
from pipeloom.drive.recorded_kernels import JOB, made_from
from pipeloom.drive.sources import Named, Source, find_source, is_compiled, is_loop, with_data
from pipeloom.drive.subjects import (
    ProgramSubject,
    ScheduleSubject,
    Subject,
    open_source,
    shipped_loop,
)
from pipeloom.drive.tiling import ELEMENT_BYTES, tile_for
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.target import Target
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.instruction_counts import check_agreement
from pipeloom.reference.lift import lift
from pipeloom.reference.schedules import DEFAULT_TILES, SCHEDULES
from pipeloom.reference.sized import sized
from pipeloom.show.headers import changes_text, tile_text
from pipeloom.show.step_rows import loop_counts

if TYPE_CHECKING:
    from pipeloom.write import EmittedKernel


@dataclass(frozen=True, slots=True)
class EmitJob:
    """What to emit and for what; what is left open follows from the schedule or loop.

    ``k`` fits a loop, whose depth is derived, to that size along what it runs over, where it is
    whole tiles. ``name`` is the kernel's symbol.
    """

    source: Source
    target: str | None = None
    dtype: str | None = None
    out_dtype: str | None = None
    allow_timing: bool = False
    k: int | None = None
    name: str | None = None

    def to_dict(self) -> dict[str, Any] | None:
        """What a record says of it; None where it is about an object."""
        return made_from(self.source, **{name: getattr(self, name) for name in JOB})


@dataclass(frozen=True, slots=True)
class Emission:
    """A kernel, the program it is written from, and whose waits and barriers that has.

    ``choice`` is how the form was chosen, None where the source names it.
    """

    kernel: EmittedKernel
    program: Program
    subject: Subject
    sync: str
    choice: Choice | None
    notes: tuple[str, ...]
    changes: str = ""
    """What synchronising changed besides waits and barriers."""
    job: EmitJob | None = None
    """What was asked for."""

    @property
    def barriers(self) -> int:
        """Per iteration."""
        return loop_counts(self.program).barriers

    def summary(self) -> str:
        """One line: what, for what, how synchronised, with which verdict."""
        kernel = self.kernel
        return (
            f"{kernel.name} for {kernel.target}, {tile_text(self.program)}: {self.sync}, "
            f"{self.barriers} barriers per trip, {kernel.status.name}"
            + (self.changes and f"; {self.changes}")
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as data, and how to launch the kernel."""
        from pipeloom.write import launch_record

        return {
            **launch_record(self.kernel),
            "pipeloom": pipeloom.__version__,
            "sync": self.sync,
            "barriers": self.barriers,
            "cost": None if self.choice is None else self.choice.to_dict(),
            "made_from": None if self.job is None else self.job.to_dict(),
        }


def emit(job: EmitJob | Source | Named) -> Emission:
    """The kernel of a source, in its fastest proved form unless the source names one."""
    from pipeloom.write import emit_program

    job = job if isinstance(job, EmitJob) else EmitJob(Source.of(job))
    subject = emission_subject(job)
    choice, name, changes = None, job.name, ""
    notes = subject.notes()
    if isinstance(subject, ScheduleSubject):
        if job.source.sync is None:
            choice = choose_form(subject, keep_proved=subject.is_compiled)
            form = choice.form
            compiled, label = subject.compiled(form.sync, form.reorder), form.label
            notes += choice.notes
        else:
            compiled, label = subject.compiled(), f"sync {job.source.sync}"
        dtype = _dtype(job, compiled, is_file=subject.is_compiled)
        out = job.out_dtype or _out_dtype(dtype)
        name = name or f"{compiled.schedule}_{dtype}_{out}"
        program = schedule_program(subject, compiled, job.target, dtype, out)
        changes = changes_text(program)
    else:
        program, label = subject.program(), "sync as derived"
        if isinstance(subject, ProgramSubject) and isinstance(subject.origin, Program):
            label = f"sync {job.source.sync or 'as it is'}"
    kernel = emit_program(program, ops=subject.ops, name=name, allow_timing=job.allow_timing)
    if choice is not None and not choice.unchanged:
        kernel = replace(kernel, form=choice.form.words)
    return Emission(kernel, program, subject, label, choice, notes, changes, job)


def schedule_program(
    subject: ScheduleSubject, compiled: CompiledSchedule, target: str | None, dtype: str, out: str
) -> Program:
    """The program of a schedule on its tile, with these types."""
    if compiled.geometry is None:
        subject.require_tile()
        raise SpecError(
            f"{subject.source.name} has no tile shape, which a kernel needs",
            hint="let its geometry() return one",
            field="geometry",
        )
    chip = _chip(compiled, target)
    check_agreement(compiled)
    lifted = lift(compiled, subject.kernel(compiled), chip)
    return sized(lifted, compiled.geometry, element_type(dtype, chip), out)


def element_types(subject: ScheduleSubject) -> tuple[str, str]:
    """The types of A and B, and of C, of a schedule as it is named."""
    fitting = _fitting(subject.compiled())
    named = subject.named_dtype()
    dtype = named if named in fitting else next(iter(fitting), "bf16")
    return dtype, _out_dtype(dtype)


def _out_dtype(dtype: str) -> str:
    return "f32" if dtype == "fp8" else dtype


def _fitting(compiled: CompiledSchedule) -> list[str]:
    """The types of the size of the tile's elements."""
    size = None if compiled.geometry is None else compiled.geometry.elem_bytes
    return [name for name, width in ELEMENT_BYTES.items() if width == size]


def _chip(compiled: CompiledSchedule, target: str | None) -> Target:
    """A schedule made of one chip's costs and counts is not emitted for another."""
    chip = target_for(target or compiled.arch or ANY_CHIP)
    if compiled.arch not in (None, chip.arch):
        raise SpecError(
            f"the {compiled.schedule} schedule was compiled for {compiled.arch}, but the target is "
            f"{chip.arch}: its instruction counts, waits and depth are those of {compiled.arch}",
            hint=f"compile it for {chip.arch}, or emit it for {compiled.arch} (--target "
            f"{compiled.arch})",
            field="target",
        )
    return chip


def emitted_form(source: Source) -> Choice | None:
    """The form that ``emit`` would write instead of what is named; None where it is the same.

    Also None where nothing can be emitted: that is for ``emit`` to say.
    """
    if source.sync is not None:
        return None
    shipped = isinstance(source.what, str) and source.what in SCHEDULES
    return _shipped_form(source) if shipped else _form_of(source)


@lru_cache(maxsize=64)
def _shipped_form(source: Source) -> Choice | None:
    return _form_of(source)


def _form_of(source: Source) -> Choice | None:
    plain = replace(source, dtype=None, arch=None)
    job = EmitJob(plain, target=source.arch, dtype=source.element_type)
    try:
        if is_file := is_compiled_file(source):
            job = replace(job, dtype=None)
        subject = emission_subject(job)
        if not isinstance(subject, ScheduleSubject) or subject.tile() is None:
            return None
        choice = choose_form(subject, keep_proved=is_file)
    except ScheduleError:
        return None
    return None if choice.unchanged else choice


def is_compiled_file(source: Source) -> bool:
    """Whether a source is a compiled schedule."""
    found = find_source(source)
    return isinstance(found, CompiledSchedule) or (
        isinstance(found, Mapping) and is_compiled(found)
    )


def emission_subject(job: EmitJob) -> Subject:
    """The source with the tile and the chip that emitting gives it where it leaves them open."""
    source = job.source
    found = find_source(source)
    if is_loop(found):
        assert isinstance(found, Mapping)
        return open_source(_fitted(job, found))
    if not isinstance(found, Mapping):
        if not isinstance(found, CompiledSchedule):
            source = _for_chip(job, found)
        return open_source(source)
    if is_compiled(found):
        subject = open_source(source)
        subject.require_tile()
        return subject
    data, name = dict(found), str(found.get("schedule"))
    dtype = job.dtype or "bf16"
    if dtype not in ELEMENT_BYTES:
        raise SpecError(
            f"dtype {dtype!r} is not one that a tile can be named by",
            hint=f"one of: {', '.join(ELEMENT_BYTES)}",
            field="dtype",
        )
    own = name not in DEFAULT_TILES and job.dtype is None
    if "geometry" not in data and name in SCHEDULES and not own:
        data["geometry"] = tile_for(name, dtype, target_for(job.target or ANY_CHIP))
    source = replace(source, arch=job.target or source.arch)
    return open_source(with_data(source, data))


def _for_chip(job: EmitJob, found: object) -> Source:
    """A loop's or program's source for the chip asked for; its types it says itself."""
    source = job.source
    if isinstance(found, Mapping):
        return source
    if isinstance(found, Loop) and source.k_tiles is None:
        source = replace(source, k_tiles=_whole_tiles(found, job.k))
    for option, value in (("--dtype", job.dtype), ("--out-dtype", job.out_dtype)):
        if value is not None and not hasattr(found, "build_body"):
            raise SpecError(
                f"{source.name} says itself what its types are, which {option} cannot change",
                hint="change the declaration",
                field=option.strip("-").replace("-", "_"),
            )
    return source if job.target is None else replace(source, arch=job.target)


def _fitted(job: EmitJob, data: Mapping[str, Any]) -> Source:
    """The spec of a shipped loop for the target, types and K at hand, where it leaves them open."""
    source, fitted = job.source, dict(data)
    if job.out_dtype is not None:
        fitted["out"] = job.out_dtype
    if job.target is not None:
        source = replace(source, arch=job.target)
    if job.dtype is not None:
        source = replace(source, dtype=job.dtype)
    if job.k is not None:
        loop = shipped_loop(source, fitted).loop
        tiles = _whole_tiles(loop, job.k) if loop.over == "k" else None
        if tiles is not None and source.k_tiles is None:
            fitted.setdefault("k_tiles", tiles)
    return with_data(source, fitted)


def _whole_tiles(loop: Loop, size: int | None) -> int | None:
    """How many tiles of a loop make up a size along what it runs over; None unless whole ones."""
    sizes = (node.type.sizes.get(loop.over, 0) for node in loop.meaning.inputs)
    tile = max(sizes, default=0)
    return size // tile if size and tile and size % tile == 0 else None


def _dtype(job: EmitJob, compiled: CompiledSchedule, *, is_file: bool) -> str:
    """The type asked for, checked against the tile; else the type that the tile holds."""
    given, shape = job.dtype, compiled.geometry
    if shape is None:
        return given or "bf16"
    fitting = _fitting(compiled)
    if given is None:
        return fitting[0] if fitting else "bf16"
    if given not in fitting:
        source, name = job.source.name, compiled.schedule
        if is_file:
            how = f"compile it anew: pipeloom compile {name} --dtype {given} -o {source}"
        else:
            machine = target_for(job.target or compiled.arch or ANY_CHIP)
            keys = tile_for(name, given, machine).items()
            how = "change its tile: " + " ".join(f"--set geometry.{k}={v}" for k, v in keys)
        raise SpecError(
            f"the tile of {source} holds elements of {shape.elem_bytes} byte(s), but {given} has "
            f"{ELEMENT_BYTES.get(given, 'others')}",
            hint=f"emit it with --dtype {' or '.join(fitting)}, or {how}",
            field="dtype",
        )
    return given
