"""What a source stands for, ready for any job: its program, and words about it.

A ``ScheduleSubject`` can be compiled in several forms, each with other waits and barriers; a
``ProgramSubject`` has one program, which a loop is pipelined to.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipeloom.declare.loop import Loop
from pipeloom.drive.loops import WAVES, LoopSource
from pipeloom.drive.sources import (
    FORMS,
    Named,
    Source,
    find_source,
    is_compiled,
    is_loop,
    refuse_changes,
)
from pipeloom.drive.tiling import gets_default_tile, refuse_tile, takes_tile, with_tile
from pipeloom.errors import SpecError
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.target import Target
from pipeloom.plain import from_plain
from pipeloom.program import VOCABULARY, Meaning, Program, SyncMethod, Vocabulary
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.compiler import BROKEN_EDGES, Sync, compile_schedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.instruction_counts import check_agreement
from pipeloom.reference.kernels import KERNELS, Kernel, kernel_for, reading
from pipeloom.reference.lift import lift
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules import SCHEDULES
from pipeloom.reference.spec import apply_settings, load_spec
from pipeloom.reference.words import knobs, tile_text, unsynchronised_note
from pipeloom.show import headers
from pipeloom.sync import PROVEN, REPAIRED
from pipeloom.sync import synchronize as synchronize_program

Knobs = list[tuple[str, list[tuple[str, str, bool]]]]


@dataclass(frozen=True, slots=True)
class Tile:
    """Of one workgroup and iteration: sizes by dimension, bytes of an element of the inputs."""

    sizes: Mapping[str, int]
    element_bytes: float


class Subject(ABC):
    """What jobs ask of a source."""

    source: Source
    ops: Vocabulary = VOCABULARY

    @abstractmethod
    def program(self) -> Program:
        """What judges take, in the form that the source names."""

    @abstractmethod
    def form(self, sync: Sync, reorder: bool) -> Program:
        """The same work with these waits and barriers."""

    @abstractmethod
    def machine(self) -> Target:
        """The chip it is judged and simulated for."""

    @abstractmethod
    def tile(self) -> Tile | None:
        """Its tile, where it has one."""

    @abstractmethod
    def tile_text(self) -> str:
        """The tile in words."""

    @abstractmethod
    def header(self) -> str:
        """``ping_pong, 256x256x64 bf16``: what every command says it is about."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search for its order."""
        return False

    def sync_text(self) -> str:
        """How waits and barriers came about."""
        return headers.sync_text(self.program())

    def knobs(self) -> Knobs:
        """What could be set."""
        return []

    def notes(self) -> tuple[str, ...]:
        """What was asked for and changes nothing."""
        return ()

    def remarks(self) -> tuple[str, ...]:
        """What of its declaration changes nothing, and what a judge takes for granted about it."""
        return ()

    def arch_unused(self) -> tuple[str, ...]:
        """A note where a chip is named and nothing is derived for it."""
        return ()

    def race_note(self) -> str:
        """What to do about races, where there is something particular to say."""
        return ""

    def require_tile(self) -> None:
        """Refuse what could have a tile and has none, where figures need one."""
        return

    def named_dtype(self) -> str | None:
        """The type of the tile that the source was given, by option or by default."""
        return self.source.element_type


@dataclass
class ProgramSubject(Subject):
    """A program of the user's own, or a loop, which is pipelined when it is first asked for."""

    source: Source
    origin: Program | LoopSource
    keep_interrupted: bool = False
    _forms: dict[tuple[Sync, bool], Program] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.origin, LoopSource):
            self.ops = self.origin.loop.ops
            return
        self.ops = self.source.ops
        for option, given, has in (
            ("arch", self.source.arch, self.origin.target.arch),
            ("waves", self.source.waves, self.origin.waves),
            ("k-tiles", self.source.k_tiles, str(self.origin.iterations)),
        ):
            if given is not None and given != has:
                raise SpecError(
                    f"{self.origin.name} is a program for {has}, which --{option} {given} cannot "
                    "change",
                    hint=f"drop --{option}, or name the loop that it was made of",
                    field=option,
                )

    @property
    def meaning(self) -> Meaning:
        """What it computes, known before the search."""
        return (self.origin if isinstance(self.origin, Program) else self.origin.loop).meaning

    @cached_property
    def _named(self) -> Program:
        if isinstance(self.origin, Program):
            return self.origin
        source, keep = self.source, self.keep_interrupted
        return self.origin.program(source.progress, keep_interrupted=keep)

    def form(self, sync: Sync, reorder: bool) -> Program:
        if sync == "reference":
            return self._named
        if (sync, reorder) not in self._forms:
            method = PROVEN if sync == "proven" else REPAIRED
            made = synchronize_program(self._named, method=method, reorder=reorder)
            self._forms[sync, reorder] = made
        return self._forms[sync, reorder]

    def program(self) -> Program:
        """A loop's is derived and proved already, whatever ``sync`` says."""
        if isinstance(self.origin, LoopSource):
            return self._named
        return self.form(self.source.sync or "reference", self.source.reorder)

    def machine(self) -> Target:
        return self.origin.target

    def tile(self) -> Tile | None:
        inputs = self.meaning.inputs
        return Tile(self.meaning.tile, max((n.type.dtype.bits / 8 for n in inputs), default=4.0))

    def tile_text(self) -> str:
        return headers.tile_text(self.program())

    def header(self) -> str:
        return f"{self.program().name}, {self.tile_text()}"

    @property
    def interrupted(self) -> bool:
        """A program that is given is what was asked for, however its search ended."""
        ordered = self.program().provenance.ordered
        searched = isinstance(self.origin, LoopSource)
        return searched and ordered is not None and ordered.interrupted

    def notes(self) -> tuple[str, ...]:
        sync = self.source.sync
        if isinstance(self.origin, Program) or sync in (None, "reference"):
            return ()
        return (
            f"{self.source.name} has its waits and barriers derived and proved in any case; sync "
            f"{sync} changes nothing",
        )


@dataclass
class ScheduleSubject(Subject):
    """A schedule of the specification, in any form. ``data`` is its spec or file."""

    source: Source
    data: Mapping[str, Any]
    origin: PipelineSchedule | CompiledSchedule
    keep_interrupted: bool = False
    _forms: dict[tuple[Sync, bool], CompiledSchedule] = field(default_factory=dict)

    @property
    def is_compiled(self) -> bool:
        """Whether the order is settled: what ``pipeloom compile`` wrote."""
        return isinstance(self.origin, CompiledSchedule)

    def compiled(self, sync: Sync | None = None, reorder: bool | None = None) -> CompiledSchedule:
        """The schedule with these waits and barriers; by default those that the source names."""
        key = (
            sync or self.source.sync or "reference",
            self.source.reorder if reorder is None else reorder,
        )
        if key not in self._forms:
            self._forms[key] = self._make(*key)
        return self._forms[key]

    def _make(self, sync: Sync, reorder: bool) -> CompiledSchedule:
        if not isinstance(self.origin, CompiledSchedule):
            made = compile_schedule(self.origin, sync=sync, reorder=reorder)
            if made.interrupted and not self.keep_interrupted:
                raise KeyboardInterrupt
            return made
        if sync == "reference":
            return self.origin
        keep = sync == "repaired"
        return synchronize(self.origin, None, reorder, keep_barriers=keep)

    def kernel(self, compiled: CompiledSchedule) -> Kernel:
        """How the schedule is walked: its own model, else the shipped one of its name."""
        own = None if isinstance(self.origin, CompiledSchedule) else self.origin.kernel(compiled)
        return kernel_for(compiled) if own is None else own

    def machine(self) -> Target:
        """The machine: as asked for, else what the schedule is derived for, else gfx950."""
        given, derived = self.source.arch, None
        if isinstance(self.origin, CompiledSchedule):
            derived = self.origin.arch
        if given is None or derived is None:
            return target_for(str(given or derived or ANY_CHIP))
        machine = target_for(given)
        if target_for(str(derived)) is not machine:
            raise SpecError(
                f"{self.source.name} is derived for {derived}, not for {machine.arch}",
                hint="drop --arch, or the spec's own arch",
                field="arch",
            )
        return machine

    def form(self, sync: Sync | None = None, reorder: bool | None = None) -> Program:
        """For the chip that is named, unless naming one changes nothing."""
        compiled = self.compiled(sync, reorder)
        any_chip = compiled.geometry is None and compiled.arch is None
        machine = target_for(ANY_CHIP) if any_chip else self.machine()
        check_agreement(compiled)
        return lift(compiled, self.kernel(compiled), machine)

    def program(self) -> Program:
        return self.form()

    @property
    def interrupted(self) -> bool:
        return self.compiled().interrupted

    def tile(self) -> Tile | None:
        shape = self.compiled().geometry
        if shape is None:
            return None
        return Tile({"m": shape.BM, "n": shape.BN, "k": shape.BK}, shape.elem_bytes)

    def tile_text(self) -> str:
        return tile_text(self.compiled(), self.source.dtype)

    def header(self) -> str:
        return f"{self.compiled().schedule}, {self.tile_text()}"

    def knobs(self) -> Knobs:
        return knobs(self.compiled())

    def race_note(self) -> str:
        return unsynchronised_note(self.compiled())

    def remarks(self) -> tuple[str, ...]:
        """Those of compiling it, but for what a verdict answers."""
        if not isinstance(self.origin, CompiledSchedule):
            notes = self.compiled("reference").notes
            return tuple(note for note in notes if not note.startswith(BROKEN_EDGES))
        shipped = self.origin.schedule in KERNELS or self.origin.own_kernel
        return () if shipped else (reading(self.origin.config),)

    def arch_unused(self) -> tuple[str, ...]:
        """A note where a chip is named and nothing is derived for it."""
        source = self.source
        if source.arch is None:
            return ()
        if not self.is_compiled and source.element_type is not None:
            return ()
        return (
            f"nothing about {source.name} is derived for a chip here, so --arch changes nothing",
        )

    def require_tile(self) -> None:
        compiled = self.compiled("reference")
        if lacks_tile(compiled):
            raise SpecError(
                f"{self.source.name} has no tile shape, so its ops have no instruction counts",
                hint=self._how_to_tile(compiled),
                field="geometry",
            )

    def _how_to_tile(self, compiled: CompiledSchedule) -> str:
        """For a compiled file, the command that writes it anew."""
        if not self.is_compiled:
            return "give --dtype bf16 (or fp16, fp8)"
        made = "compile" if compiled.synchronised is SyncMethod.REFERENCE else "fix"
        words = ["pipeloom", made, compiled.schedule, "--dtype", "bf16"]
        if compiled.synchronised is SyncMethod.REPAIRED:
            words.append("--keep-barriers")
        if compiled.moved or compiled.barriers_added:
            words.append("--reorder")
        return f"write it anew: {shlex.join([*words, '-o', self.source.name])} (or fp16, fp8)"

    def named_dtype(self) -> str | None:
        """The type of the tile that the source was given, by option or by default."""
        source = self.source
        if source.dtype is None and not self.is_compiled:
            spec = find_source(source) if isinstance(source.what, str) else source.what
            if isinstance(spec, Mapping) and gets_default_tile(spec, source.default_tile):
                return source.default_tile
        return source.element_type


def open_source(what: Source | Named, *, keep_interrupted: bool = False) -> Subject:
    """Find what a source means.

    A search that Ctrl-C ends raises ``KeyboardInterrupt``, unless the best so far is asked for.
    """
    source = Source.of(what)
    found = find_source(source)
    if isinstance(found, Program | Loop):
        refuse_changes(source, found)
        if isinstance(found, Program):
            return ProgramSubject(source, found)
        waves = WAVES if source.waves is None else source.waves
        target = target_for(source.arch or ANY_CHIP)
        made = LoopSource(found, target, waves, {"k_tiles": source.k_tiles})
        return ProgramSubject(source, made, keep_interrupted)
    if is_loop(found):
        assert isinstance(found, Mapping)
        return ProgramSubject(source, shipped_loop(source, found), keep_interrupted)
    return open_schedule(source, found, keep_interrupted=keep_interrupted)


def open_schedule(
    source: Source, found: object = None, *, keep_interrupted: bool = False
) -> ScheduleSubject:
    """The same of a schedule of the specification."""
    found = find_source(source) if found is None else found
    for option, value in (("waves", source.waves), ("k-tiles", source.k_tiles)):
        if value is not None:
            raise SpecError(
                f"--{option} is for loops, and {source.name} is a schedule, which has its own",
                hint=f"drop --{option}",
                field=option,
            )
    if isinstance(found, Mapping) and not is_compiled(found):
        tiled = with_tile(
            found,
            source.name,
            dtype=source.dtype,
            default=source.default_tile,
            arch=source.arch,
            settings=source.changes,
        )
        if source.tile is not None and found.get("schedule") in SCHEDULES:
            refuse_tile(SCHEDULES[found["schedule"]], source.name)
        spec = apply_settings(tiled, source.changes)
        subject = ScheduleSubject(source, spec, load_spec(spec), keep_interrupted)
    else:
        refuse_changes(source, found)
        data = found if isinstance(found, Mapping) else {}
        origin: Any = CompiledSchedule.from_dict(found) if isinstance(found, Mapping) else found
        subject = ScheduleSubject(source, data, origin, keep_interrupted)
    if source.arch is not None:
        subject.machine()
    return subject


def shipped_loop(source: Source, found: Mapping[str, Any]) -> LoopSource:
    """Options count as keys of the spec, which may not say something else."""
    given = {"arch": source.arch, "waves": source.waves, "k_tiles": source.k_tiles}
    given["dtype"] = source.element_type
    if source.tile is not None:
        refuse_tile(FORMS[str(found["schedule"])], source.name)
    spec = apply_settings(found, source.changes, FORMS)
    for key, value in given.items():
        if value is None:
            continue
        said = spec.setdefault(key, value)
        same = target_for(str(said)) is target_for(str(value)) if key == "arch" else said == value
        if not same:
            raise SpecError(
                f"{source.name} is derived for {key} {said}, not for {value}",
                hint=f"drop the option, or the spec's own {key}",
                field=key,
            )
    name = str(spec.pop("schedule"))
    form: Any = from_plain(FORMS[name], spec, overlay=True, name=f"the {name} spec")
    made: LoopSource = form.build()
    return made


def lacks_tile(compiled: CompiledSchedule) -> bool:
    """Whether a schedule could have a tile and has none."""
    return compiled.geometry is None and takes_tile(compiled.schedule)
