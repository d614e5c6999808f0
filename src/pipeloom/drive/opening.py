"""What a source opens to: one record, which every job takes.

    opened = open_source("ping_pong")
    opened.program()                    # as it is named, on its tile
    opened.program("repaired", True)    # the same work with other waits and barriers

Whatever names a kernel, it is one of four things in the end, and ``origin`` says which: a schedule
of the specification, declared or compiled; a loop, with all that ``pipeline`` is told of it; or a
program. Jobs ask for the program, and only where the specification's entries matter for the
schedule behind it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeloom import cms, drive
from pipeloom.cms.table import Table
from pipeloom.declare.loop import Loop
from pipeloom.drive.loops import WAVES, LoopSource
from pipeloom.drive.sources import (
    FORMS,
    Found,
    Named,
    Source,
    find_source,
    is_loop,
    refuse_changes,
)
from pipeloom.drive.tiling import (
    DEFAULT_TYPE,
    fitting_types,
    gets_default_tile,
    refuse_tile,
    takes_tile,
    with_tile,
)
from pipeloom.errors import SpecError
from pipeloom.machine.chips import ANY_CHIP, TARGETS, target_for
from pipeloom.machine.dtypes import dtype_for, stored_as
from pipeloom.machine.target import Target
from pipeloom.plain import from_plain
from pipeloom.program import Meaning, Program, SyncMethod, Vocabulary
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
Origin = PipelineSchedule | CompiledSchedule | LoopSource | Program


@dataclass
class Opened:
    """A kernel, how it was named, and its program in any form.

    A search that Ctrl-C ends raises ``KeyboardInterrupt``, unless ``keep_interrupted`` asks for the
    best so far.
    """

    source: Source
    origin: Origin
    dtype: str | None = None
    """The type of the tile that the source was given, by option or by default."""
    out_dtype: str | None = None
    """The type of a schedule's C, where it is asked for."""
    table: Table | None = None
    """The table that the program was lifted from."""
    own: bool = False
    """Whether it is declared in Python, not by a spec or a file."""
    keep_interrupted: bool = False
    _schedules: dict[tuple[Sync, bool], CompiledSchedule] = field(default_factory=dict, init=False)
    _programs: dict[tuple[Sync, bool], Program] = field(default_factory=dict, init=False)

    @property
    def is_compiled(self) -> bool:
        """Whether it is a schedule whose order is settled: what ``pipeloom compile`` wrote."""
        return isinstance(self.origin, CompiledSchedule)

    @property
    def ops(self) -> Vocabulary:
        """The ops of its program; a loop has its own."""
        return self.origin.loop.ops if isinstance(self.origin, LoopSource) else self.source.ops

    @property
    def meaning(self) -> Meaning:
        """What it computes; of a loop known before the search."""
        if isinstance(self.origin, LoopSource):
            return self.origin.loop.meaning
        return self.program("reference").meaning

    # --- forms ------------------------------------------------------------------------------------

    @property
    def _named(self) -> tuple[Sync, bool]:
        """The form that the source asks for; a loop's is derived and proved in any case."""
        if isinstance(self.origin, LoopSource):
            return "reference", False
        return self.source.sync or "reference", self.source.reorder

    def schedule(self, sync: Sync | None = None, reorder: bool = False) -> CompiledSchedule | None:
        """The specification's schedule with these waits and barriers, by default as named.

        None of a loop or program.
        """
        origin = self.origin
        if not isinstance(origin, PipelineSchedule | CompiledSchedule):
            return None
        key = self._named if sync is None else (sync, reorder)
        if key not in self._schedules:
            self._schedules[key] = self._compiled(origin, *key)
        return self._schedules[key]

    def _compiled(
        self, origin: PipelineSchedule | CompiledSchedule, sync: Sync, reorder: bool
    ) -> CompiledSchedule:
        if isinstance(origin, CompiledSchedule):
            if sync == "reference":
                return origin
            return synchronize(origin, None, reorder, keep_barriers=sync == "repaired")
        made = compile_schedule(origin, sync=sync, reorder=reorder)
        if made.interrupted and not self.keep_interrupted:
            raise KeyboardInterrupt
        return made

    def program(self, sync: Sync | None = None, reorder: bool = False) -> Program:
        """What judges and writers take: on its tile, with these waits and barriers."""
        key = self._named if sync is None else (sync, reorder)
        if key not in self._programs:
            self._programs[key] = self._made(*key)
        return self._programs[key]

    def _made(self, sync: Sync, reorder: bool) -> Program:
        compiled, origin = self.schedule(sync, reorder), self.origin
        if compiled is not None:
            check_agreement(compiled)
            chip, types = self._chip(compiled), self.types(compiled)
            return lift(compiled, self.kernel(compiled), chip, *types)
        if sync != "reference":
            method = PROVEN if sync == "proven" else REPAIRED
            return synchronize_program(
                self.program("reference"), method=method, reorder=reorder, ops=self.ops
            )
        if isinstance(origin, LoopSource):
            return origin.program(self.source.progress, keep_interrupted=self.keep_interrupted)
        assert isinstance(origin, Program)
        return origin

    def written(
        self, sync: Sync | None = None, reorder: bool = False
    ) -> CompiledSchedule | Program:
        """What a file of it holds: the schedule, or the program of what is none."""
        return self.schedule(sync, reorder) or self.program(sync, reorder)

    def typed(self, dtype: str | None, out_dtype: str | None) -> Opened:
        """The same with these types, which its schedules know nothing of."""
        if (dtype, out_dtype) == (self.dtype, self.out_dtype):
            return self
        typed = replace(self, dtype=dtype, out_dtype=out_dtype)
        typed._schedules = self._schedules
        return typed

    def types(self, compiled: CompiledSchedule) -> tuple[str, str]:
        """Of a schedule's A and B, and of its C, by their names on any chip."""
        fitting = fitting_types(compiled.geometry)
        dtype = self.dtype if self.dtype in fitting else next(iter(fitting), DEFAULT_TYPE)
        return dtype, self.out_dtype or stored_as(dtype_for(dtype)).name

    def kernel(self, compiled: CompiledSchedule) -> Kernel:
        """How a schedule is walked: its own model, else the shipped one of its name."""
        origin = self.origin
        own = origin.kernel(compiled) if isinstance(origin, PipelineSchedule) else None
        return kernel_for(compiled) if own is None else own

    # --- machine and tile -------------------------------------------------------------------------

    def machine(self) -> Target:
        """The chip: that of a loop or program; of a schedule as asked for, else what it is for.

        A schedule made of one chip's costs and counts is not taken for another.
        """
        origin = self.origin
        if isinstance(origin, LoopSource | Program):
            return origin.target
        derived = origin.arch if isinstance(origin, CompiledSchedule) else origin.arch()
        chip = target_for(self.source.arch or derived or ANY_CHIP)
        if derived is not None and target_for(derived).arch != chip.arch:
            raise SpecError(
                f"{self.source.name} was compiled for {derived}, but the target is {chip.arch}: "
                f"its instruction counts, waits and depth are those of {derived}",
                hint=f"compile it for {chip.arch}, or take it for {derived}: drop --arch, or "
                "--target",
                field="target",
            )
        return chip

    def _chip(self, compiled: CompiledSchedule) -> Target:
        """The chip that is named, unless naming one changes nothing."""
        any_chip = compiled.geometry is None and compiled.arch is None
        return target_for(ANY_CHIP) if any_chip else self.machine()

    def tile(self) -> Mapping[str, int] | None:
        """Sizes of one workgroup and iteration; None of a schedule that has none."""
        compiled = self.schedule()
        if compiled is None:
            return self.meaning.tile
        return None if compiled.geometry is None else compiled.geometry.tile

    def require_tile(self) -> None:
        """Refuse what could have a tile and has none, where figures need one."""
        compiled = self.schedule("reference")
        if compiled is not None and lacks_tile(compiled):
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

    # --- words ------------------------------------------------------------------------------------

    def tile_text(self) -> str:
        """The tile in words."""
        compiled = self.schedule()
        if compiled is None:
            return headers.tile_text(self.program())
        return tile_text(compiled, self.dtype)

    def header(self) -> str:
        """``ping_pong, 256x256x64 bf16``: what every command says it is about."""
        compiled = self.schedule()
        name = self.program().name if compiled is None else compiled.schedule
        return f"{name}, {self.tile_text()}"

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search for its order.

        A program that is given is what was asked for, however its search ended.
        """
        compiled = self.schedule()
        if compiled is not None:
            return compiled.interrupted
        ordered = self.program().provenance.ordered
        return isinstance(self.origin, LoopSource) and ordered is not None and ordered.interrupted

    def knobs(self) -> Knobs:
        """What could be set."""
        compiled = self.schedule()
        return [] if compiled is None else knobs(compiled)

    def race_note(self) -> str:
        """What to do about races, where there is something particular to say."""
        compiled = self.schedule()
        return "" if compiled is None else unsynchronised_note(compiled)

    def notes(self) -> tuple[str, ...]:
        """What was asked for and changes nothing."""
        source = self.source
        if not isinstance(self.origin, LoopSource) or source.sync in (None, "reference"):
            return ()
        return (
            f"{source.name} has its waits and barriers derived and proved in any case; sync "
            f"{source.sync} changes nothing",
        )

    def arch_unused(self) -> tuple[str, ...]:
        """A note where a chip is named and nothing is derived for it."""
        source = self.source
        tiled = not self.is_compiled and source.element_type is not None
        if source.arch is None or tiled or isinstance(self.origin, LoopSource | Program):
            return ()
        return (
            f"nothing about {source.name} is derived for a chip here, so --arch changes nothing",
        )

    def remarks(self) -> tuple[str, ...]:
        """What of its declaration changes nothing, and what a judge takes for granted about it.

        Those of compiling it, but for what a verdict answers.
        """
        compiled = self.schedule("reference")
        if compiled is None:
            return ()
        if not self.is_compiled:
            return tuple(note for note in compiled.notes if not note.startswith(BROKEN_EDGES))
        shipped = compiled.schedule in KERNELS or compiled.own_kernel
        return () if shipped else (reading(compiled.config),)


def open_source(what: Source | Named, *, keep_interrupted: bool = False) -> Opened:
    """Find what a source means."""
    source = Source.of(what)
    return open_found(source, find_source(source), keep_interrupted=keep_interrupted)


def open_found(source: Source, found: Found, *, keep_interrupted: bool = False) -> Opened:
    """The same of what was found already."""
    origin = _origin(source, found)
    dtype = source.element_type
    if isinstance(origin, PipelineSchedule) and source.dtype is None:
        spec = found if isinstance(found, Mapping) else {}
        dtype = source.default_tile if gets_default_tile(spec, source.default_tile) else None
    opened = Opened(
        source,
        origin,
        dtype,
        table=found if isinstance(found, Table) else None,
        own=isinstance(found, Loop | PipelineSchedule),
        keep_interrupted=keep_interrupted,
    )
    if source.arch is not None:
        opened.machine()
    return opened


def _origin(source: Source, found: Found) -> Origin:
    if isinstance(found, Mapping) and is_loop(found):
        return shipped_loop(source, found)
    if isinstance(found, Mapping):
        _refuse_for_loops(source)
        return _declared(source, found)
    if isinstance(found, PipelineSchedule | CompiledSchedule):
        _refuse_for_loops(source)
    refuse_changes(source, found)
    if isinstance(found, Loop):
        chip = target_for(source.arch or ANY_CHIP)
        waves = source.waves
        if waves is None:
            waves = drive.loop_room.usual_waves(found, chip, WAVES)
        return LoopSource(found, chip, waves, {"k_tiles": source.k_tiles})
    if isinstance(found, Table):
        found = cms.lift_table(found)
    if isinstance(found, Program):
        _refuse_for_program(source, found)
        found = _on_chip(source, found)
    return found


def _refuse_for_loops(source: Source) -> None:
    for option, value in (("waves", source.waves), ("k-tiles", source.k_tiles)):
        if value is not None:
            raise SpecError(
                f"--{option} is for loops, and {source.name} is a schedule, which has its own",
                hint=f"drop --{option}",
                field=option,
            )


def _refuse_for_program(source: Source, program: Program) -> None:
    chip = None if source.arch is None else target_for(source.arch).arch
    for option, given, has in (
        ("arch", chip, program.target.arch),
        ("waves", source.waves, program.waves),
        ("k-tiles", source.k_tiles, str(program.iterations)),
    ):
        if given is not None and given != has:
            raise SpecError(
                f"{program.name} is a program for {has}, which --{option} {given} cannot change",
                hint=f"drop --{option}, or name the loop that it was made of",
                field=option,
            )


def _on_chip(source: Source, program: Program) -> Program:
    """A program with the facts of a chip file, or of a chip of one's own, of its architecture."""
    if source.arch is None or source.arch in TARGETS:
        return program
    return replace(program, target=target_for(source.arch))


def _declared(source: Source, spec: Mapping[str, Any]) -> PipelineSchedule:
    """A schedule by its spec, with the tile and the settings that are asked for."""
    tiled = with_tile(
        spec,
        source.name,
        dtype=source.dtype,
        default=source.default_tile,
        arch=source.arch,
        settings=source.changes,
    )
    if source.tile is not None and spec.get("schedule") in SCHEDULES:
        refuse_tile(SCHEDULES[spec["schedule"]], source.name)
    return load_spec(apply_settings(tiled, source.changes))


def shipped_loop(source: Source, found: Mapping[str, Any]) -> LoopSource:
    """Options count as keys of the spec, which may not say something else."""
    chip = None if source.arch is None else target_for(source.arch)
    given = {"waves": source.waves, "k_tiles": source.k_tiles, "dtype": source.element_type}
    if source.tile is not None:
        refuse_tile(FORMS[str(found["schedule"])], source.name)
    spec = apply_settings(found, source.changes, FORMS)
    if chip is not None and "arch" in spec and target_for(str(spec["arch"])).arch != chip.arch:
        raise _said_otherwise(source, "arch", spec["arch"], chip.arch)
    for key, value in given.items():
        if value is not None and spec.setdefault(key, value) != value:
            raise _said_otherwise(source, key, spec[key], value)
    name = str(spec.pop("schedule"))
    form: Any = from_plain(FORMS[name], spec, overlay=True, name=f"the {name} spec")
    made: LoopSource = form.build(chip)
    return made


def _said_otherwise(source: Source, key: str, said: object, asked: object) -> SpecError:
    return SpecError(
        f"{source.name} is derived for {key} {said}, not for {asked}",
        hint=f"drop the option, or the spec's own {key}",
        field=key,
    )


def lacks_tile(compiled: CompiledSchedule) -> bool:
    """Whether a schedule could have a tile and has none."""
    return compiled.geometry is None and takes_tile(compiled.schedule)
