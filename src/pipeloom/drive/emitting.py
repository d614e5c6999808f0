"""A kernel from a source: the fastest proved form, as assembly or as a code object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pipeloom
from pipeloom.drive.forms import Choice, choose_form
from pipeloom.drive.sources import (
    Named,
    Source,
    Subject,
    find_source,
    is_compiled,
    open_source,
    with_data,
)
from pipeloom.drive.tiling import ANY_CHIP, DERIVES_DEPTH, ELEMENT_BYTES, tile_for
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.machine.chips import target_for
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import Phase
from pipeloom.reference.schedules import DEFAULT_TILES, SCHEDULES
from pipeloom.reference.spec import apply_settings, load_spec
from pipeloom.reference.words import changes_text

if TYPE_CHECKING:
    from pipeloom.write import EmittedKernel

_SHAPE = ("BM", "BN", "BK", "MMA_M", "MMA_N", "MMA_K", "elem_bytes")


@dataclass(frozen=True, slots=True)
class EmitJob:
    """What to emit and for what; what is left open follows from the schedule.

    ``k`` fits a schedule whose depth is derived to that K, where it is a number of whole tiles.
    """

    source: Source
    target: str | None = None
    dtype: str | None = None
    out_dtype: str | None = None
    allow_timing: bool = False
    k: int | None = None


@dataclass(frozen=True, slots=True)
class Emission:
    """A kernel, the schedule it is of, and whose waits and barriers that has.

    ``choice`` is how the form was chosen, None where the source names it.
    """

    kernel: EmittedKernel
    compiled: CompiledSchedule
    sync: str
    choice: Choice | None
    notes: tuple[str, ...]

    @property
    def tile(self) -> str:
        """``256x256x64 bf16``."""
        shape = self.kernel.geometry
        return "" if shape is None else f"{shape.BM}x{shape.BN}x{shape.BK} {self.kernel.dtype}"

    def summary(self) -> str:
        """One line: what, for what, how synchronised, with which verdict."""
        kernel = self.kernel
        counts = self.compiled.counts(Phase.KERNEL)
        changes = changes_text(self.compiled)
        return (
            f"{kernel.name} for {kernel.target}, {self.tile}: {self.sync}, {counts.barriers} "
            f"barriers per iteration, {kernel.status.name}" + (changes and f"; {changes}")
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as data, and how to launch the kernel."""
        from pipeloom.write import launch_record

        return {
            **launch_record(self.kernel),
            "pipeloom": pipeloom.__version__,
            "sync": self.sync,
            "barriers": self.compiled.counts(Phase.KERNEL).barriers,
            "cost": None if self.choice is None else self.choice.to_dict(),
        }


def emit(job: EmitJob | Source | Named) -> Emission:
    """The kernel of a source, in its fastest proved form unless the source names one."""
    from pipeloom.write import emit_kernel

    job = job if isinstance(job, EmitJob) else EmitJob(Source.of(job))
    subject = emission_subject(job)
    choice = None
    if job.source.sync is None:
        choice = choose_form(subject, keep_proved=subject.is_compiled)
        compiled, label = choice.form.compiled, choice.form.label
    else:
        compiled, label = subject.compiled(), f"sync {job.source.sync}"
    if compiled.schedule in _emitters():
        subject.require_tile(compiled)
    kernel = emit_kernel(
        compiled,
        target=job.target or compiled.arch or ANY_CHIP,
        dtype=_dtype(job, compiled, is_file=subject.is_compiled),
        out_dtype=job.out_dtype,
        allow_timing=job.allow_timing,
        kernel=subject.kernel(compiled),
    )
    notes = (*subject.notes(), *(() if choice is None else choice.notes))
    return Emission(kernel, compiled, label, choice, notes)


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
    tile = None if source.tile == "none" else source.tile
    job = EmitJob(replace(source, tile=None, arch=None), target=source.arch, dtype=tile)
    try:
        if is_file := is_compiled_file(source):
            job = replace(job, dtype=None)
        choice = choose_form(emission_subject(job), keep_proved=is_file)
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
    from pipeloom.write import default_geometry

    source = job.source
    found = find_source(source)
    if not isinstance(found, Mapping) or is_compiled(found):
        subject = open_source(source)
        if subject.is_compiled and subject.compiled("reference").schedule in _emitters():
            subject.require_tile(subject.compiled("reference"))
        return subject
    data, name = dict(found), str(found.get("schedule"))
    if name not in _emitters():
        return open_source(source)
    tile = default_geometry(name, job.target or ANY_CHIP, job.dtype or "bf16")
    own = name not in DEFAULT_TILES and job.dtype is None
    if "geometry" not in data and not own:
        fields = ("elem_bytes",) if name == DERIVES_DEPTH else _SHAPE
        data["geometry"] = {field: getattr(tile, field) for field in fields}
    if name == DERIVES_DEPTH:
        data = _fitted(job, data)
    return open_source(with_data(source, data))


def _emitters() -> Mapping[str, Any]:
    from pipeloom.write import EMITTERS

    return EMITTERS


def _fitted(job: EmitJob, data: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a modulo schedule for the target and the K at hand, where it leaves them open."""
    fitted = dict(data)
    if job.target:
        fitted.setdefault("arch", job.target)
    if job.k is not None:
        shape = load_spec(apply_settings(fitted, job.source.settings)).geometry()
        if shape is not None and job.k >= shape.BK and job.k % shape.BK == 0:
            fitted.setdefault("k_tiles", job.k // shape.BK)
    return fitted


def _dtype(job: EmitJob, compiled: CompiledSchedule, *, is_file: bool) -> str:
    """The type asked for, checked against the tile; else the type that the tile holds."""
    given, shape = job.dtype, compiled.geometry
    if shape is None:
        return given or "bf16"
    fitting = [name for name, size in ELEMENT_BYTES.items() if size == shape.elem_bytes]
    if given is None:
        return fitting[0] if fitting else "bf16"
    if given in ELEMENT_BYTES and given not in fitting:
        source, name = job.source.name, compiled.schedule
        if is_file:
            how = f"compile it anew: pipeloom compile {name} --tile {given} -o {source}"
        else:
            machine = target_for(job.target or compiled.arch or ANY_CHIP)
            keys = tile_for(name, given, machine).items()
            how = "change its tile: " + " ".join(f"--set geometry.{k}={v}" for k, v in keys)
        raise SpecError(
            f"the tile of {source} holds elements of {shape.elem_bytes} byte(s), but {given} has "
            f"{ELEMENT_BYTES[given]}",
            hint=f"emit it with --dtype {' or '.join(fitting)}, or {how}",
            field="dtype",
        )
    return given
