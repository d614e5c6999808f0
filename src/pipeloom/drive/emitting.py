"""A kernel from a source: the fastest proved form, as assembly or as a code object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pipeloom
from pipeloom.checks import check_known
from pipeloom.drive.any_size import emit_any_size
from pipeloom.drive.forms import Choice, choose_form
from pipeloom.drive.loops import LoopSource
from pipeloom.drive.opening import Opened, open_found
from pipeloom.drive.recorded_kernels import made_from
from pipeloom.drive.sources import Named, Source, find_source, is_loop
from pipeloom.drive.tiling import DEFAULT_TYPE, ELEMENT_BYTES, fitting_types, tile_for
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.lift import check_sized
from pipeloom.reference.schedules import SCHEDULES
from pipeloom.show.headers import changes_text, tile_text
from pipeloom.show.step_rows import loop_counts
from pipeloom.write import EmittedKernel, launch_record


@dataclass(frozen=True, slots=True)
class EmitJob:
    """What to emit; chip and types are the source's, and follow from the kernel where it has none.

    ``k`` fits a loop, whose depth is derived, to that size along what it runs over, where it is
    whole tiles. ``name`` is the kernel's symbol. A ``timed`` kernel stores when its waves began,
    looped and ended.
    """

    source: Source
    out_dtype: str | None = None
    allow_timing: bool = False
    k: int | None = None
    name: str | None = None
    timed: bool = False

    def to_dict(self) -> dict[str, Any] | None:
        """What a record says of it; None where it is about an object."""
        return made_from(
            self.source,
            out_dtype=self.out_dtype,
            allow_timing=self.allow_timing,
            k=self.k,
            timed=self.timed,
        )


@dataclass(frozen=True, slots=True)
class Emission:
    """A kernel, the program it is written from, and whose waits and barriers that has.

    ``choice`` is how the form was chosen, None where the source names it.
    """

    kernel: EmittedKernel
    program: Program
    opened: Opened
    sync: str
    choice: Choice | None
    notes: tuple[str, ...]
    job: EmitJob
    """What was asked for."""

    @property
    def barriers(self) -> int:
        """Per iteration."""
        return loop_counts(self.program).barriers

    def summary(self) -> str:
        """One line: what, for what, how synchronised, with which verdict, what else changed."""
        kernel, changes = self.kernel, ""
        if not isinstance(self.opened.origin, LoopSource | Program):
            changes = changes_text(self.program)
        said = (
            f"{kernel.name} for {kernel.target}, {tile_text(self.program)}: {self.sync}, "
            f"{self.barriers} barriers per trip, {kernel.status.name}"
        )
        return "; ".join(filter(None, (said, changes)))

    def to_dict(self) -> dict[str, Any]:
        """The same as data, and how to launch the kernel."""
        return {
            **launch_record(self.kernel),
            "pipeloom": pipeloom.__version__,
            "sync": self.sync,
            "barriers": self.barriers,
            "cost": None if self.choice is None else self.choice.to_dict(),
            "made_from": self.job.to_dict(),
        }


def emit(job: EmitJob | Source | Named, opened: Opened | None = None) -> Emission:
    """The kernel of a source, in its fastest proved form unless the source names one.

    ``opened`` is what ``open_to_emit`` gave already, and ``fitted``.
    """
    job = job if isinstance(job, EmitJob) else EmitJob(Source.of(job))
    opened = opened or fitted(open_to_emit(job), job.k)
    sync, choice, notes = job.source.sync, None, opened.notes()
    if isinstance(opened.origin, LoopSource):
        program, label = opened.program(), "sync as derived"
    elif isinstance(opened.origin, Program):
        program, label = opened.program(), f"sync {sync or 'as it is'}"
    elif sync is not None:
        program, label = opened.program(), f"sync {sync}"
    else:
        choice = choose_form(opened, keep_proved=opened.is_compiled)
        program = opened.program(choice.form.sync, choice.form.reorder)
        label, notes = choice.form.label, (*notes, *choice.notes)
    kernel = emit_any_size(
        program,
        ops=opened.ops,
        name=job.name or symbol(opened),
        allow_timing=job.allow_timing,
        timed=job.timed,
    )
    if choice is not None and not choice.unchanged:
        kernel = replace(kernel, form=choice.form.words)
    return Emission(kernel, program, opened, label, choice, notes, job)


def symbol(opened: Opened) -> str | None:
    """The kernel of a schedule is named by its types; others have their program's name."""
    compiled = opened.schedule()
    return None if compiled is None else "_".join((compiled.schedule, *opened.types(compiled)))


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
    try:
        opened = open_to_emit(EmitJob(replace(source, dtype=source.element_type)))
        if isinstance(opened.origin, LoopSource | Program):
            return None
        choice = choose_form(opened, keep_proved=opened.is_compiled)
    except ScheduleError:
        return None
    return None if choice.unchanged else choice


def open_to_emit(job: EmitJob) -> Opened:
    """The source with the tile and the types that a kernel has where it leaves them open."""
    source = job.source
    found = find_source(source)
    if isinstance(found, Mapping) and is_loop(found):
        if job.out_dtype is not None:
            source = replace(source, settings=(f"out={job.out_dtype}", *source.settings))
        return open_found(source, found)
    if isinstance(found, Mapping):
        _check_named(source.dtype)
        dtype = None if "geometry" in found else source.dtype  # its own tile has its type
        source = replace(source, dtype=dtype, default_tile=DEFAULT_TYPE)
    elif isinstance(found, PipelineSchedule | CompiledSchedule):
        source = replace(source, dtype=None)
    else:
        for option, value in (("--dtype", source.dtype), ("--out-dtype", job.out_dtype)):
            if value is not None:
                raise SpecError(
                    f"{source.name} says itself what its types are, which {option} cannot change",
                    hint="change the declaration",
                    field=option.strip("-").replace("-", "_"),
                )
    opened = open_found(source, found)
    compiled = opened.schedule("reference")
    if compiled is None:
        return opened
    shape = tile_of(opened, compiled)
    if job.source.dtype is not None:
        _check_fits(job.source, opened, shape)
    opened = opened.typed(job.source.dtype or opened.dtype, job.out_dtype)
    check_sized(opened.program("reference"), shape)
    return opened


def tile_of(opened: Opened, compiled: CompiledSchedule) -> KernelGeometry:
    """The tile of a schedule, which a kernel needs."""
    opened.require_tile()
    if compiled.geometry is None:
        raise SpecError(
            f"{opened.source.name} has no tile shape, which a kernel needs",
            hint="let its geometry() return one",
            field="geometry",
        )
    return compiled.geometry


def _check_named(dtype: str | None) -> None:
    if dtype is not None:
        said = f"dtype {dtype!r} is not one that a tile can be named by"
        check_known(dtype, ELEMENT_BYTES, said, "dtype", SpecError)


def fitted(opened: Opened, size: int | None) -> Opened:
    """A loop derived for a size along what it runs over, unless it says for how many tiles.

    Only whole tiles are a number of them.
    """
    origin = opened.origin
    if not isinstance(origin, LoopSource) or origin.options.get("k_tiles", 0) is not None:
        return opened
    loop = origin.loop
    sizes = (node.type.sizes.get(loop.over, 0) for node in loop.meaning.inputs)
    tile = max(sizes, default=0)
    if not size or not tile or size % tile:
        return opened
    options = {**origin.options, "k_tiles": size // tile}
    return replace(opened, origin=replace(origin, options=options))


def _check_fits(source: Source, opened: Opened, shape: KernelGeometry) -> None:
    """Refuse a type that is not of the size of the tile's elements."""
    given, fitting = str(source.dtype), fitting_types(shape)
    if given in fitting:
        return
    name = opened.program("reference").name
    if opened.is_compiled:
        how = f"compile it anew: pipeloom compile {name} --dtype {given} -o {source.name}"
    else:
        keys = tile_for(name, given, opened.machine()).items()
        how = "change its tile: " + " ".join(f"--set geometry.{k}={v}" for k, v in keys)
    raise SpecError(
        f"the tile of {source.name} holds elements of {shape.elem_bytes} byte(s), but {given} has "
        f"{ELEMENT_BYTES.get(given, 'others')}",
        hint=f"emit it with --dtype {' or '.join(fitting)}, or {how}",
        field="dtype",
    )
