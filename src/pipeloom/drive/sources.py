"""What a job is about: a shipped name, a spec, a compiled schedule, ``my.py:Name``, or an object.

One schedule is compiled one way by every job: a ``Source`` says which, ``open_source`` finds it,
and its ``Subject`` compiles it with the waits and barriers that a job wants.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from pipeloom.drive.declared import load_declaration, names_declaration
from pipeloom.drive.tiling import (
    ANY_CHIP,
    DERIVES_DEPTH,
    gets_default_tile,
    takes_tile,
    with_tile,
)
from pipeloom.errors import SpecError
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.reference.compiled import INTERRUPTED, CompiledSchedule
from pipeloom.reference.compiler import Sync, compile_schedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.kernels import Kernel, kernel_for
from pipeloom.reference.resync import synchronize
from pipeloom.reference.spec import apply_settings, find_spec, load_spec
from pipeloom.reference.words import sync_text, tile_text

Named = str | PathLike[str] | Mapping[str, Any] | PipelineSchedule | CompiledSchedule
"""What a schedule can be given by."""


@dataclass(frozen=True, slots=True)
class Source:
    """A schedule and what is asked of it before any job begins.

    ``tile`` is ``none``, ``bf16``, ``fp16`` or ``fp8``; ``default_tile`` the one of a spec that
    names none. ``sync`` of None leaves the choice to the job. ``label`` is what messages call it.
    """

    what: Named
    settings: tuple[str, ...] = ()
    tile: str | None = None
    default_tile: str = "none"
    arch: str | None = None
    sync: Sync | None = None
    reorder: bool = False
    label: str = ""

    @classmethod
    def of(cls, what: Source | Named) -> Source:
        """Whatever a job is given, as a source."""
        return what if isinstance(what, Source) else cls(what)

    @property
    def name(self) -> str:
        """What messages call it."""
        if self.label or isinstance(self.what, str | PathLike):
            return self.label or str(self.what)
        if isinstance(self.what, Mapping):
            return str(self.what.get("schedule", "the spec"))
        own = self.what
        return own.schedule if isinstance(own, CompiledSchedule) else own.name


@dataclass(slots=True)
class Subject:
    """What a source stands for, ready to be compiled in any form. ``data`` is its spec or file."""

    source: Source
    data: Mapping[str, Any]
    origin: PipelineSchedule | CompiledSchedule
    keep_interrupted: bool = False
    _forms: dict[tuple[Sync, bool], CompiledSchedule] = field(default_factory=dict)

    @property
    def is_compiled(self) -> bool:
        """Whether the order is settled: what ``pipeloom compile`` wrote."""
        return isinstance(self.origin, CompiledSchedule)

    @property
    def derives_depth(self) -> bool:
        """Whether waits and barriers are derived and proved in any case."""
        return not self.is_compiled and self.data.get("schedule") == DERIVES_DEPTH

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
            if INTERRUPTED in made.notes and not self.keep_interrupted:
                raise KeyboardInterrupt
            return made
        if sync == "reference":
            return self.origin
        keep = sync == "repaired"
        return synchronize(self.origin, self.kernel(self.origin), reorder, keep_barriers=keep)

    def kernel(self, compiled: CompiledSchedule) -> Kernel:
        """How the schedule is walked: its own model, else the shipped one of its name."""
        own = None if isinstance(self.origin, CompiledSchedule) else self.origin.kernel(compiled)
        return kernel_for(compiled) if own is None else own

    def machine(self) -> Target:
        """The machine: as asked for, else what the schedule is derived for, else gfx950."""
        given, derived = self.source.arch, None
        if isinstance(self.origin, CompiledSchedule):
            derived = self.origin.arch
        elif self.derives_depth:
            derived = self.data.get("arch")
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

    def header(self, compiled: CompiledSchedule) -> str:
        """``ping_pong, 256x256x64 bf16``: what every command says it is about."""
        return f"{compiled.schedule}, {tile_text(compiled, self.source.tile)}"

    def notes(self) -> tuple[str, ...]:
        """What was asked for and changes nothing."""
        sync = self.source.sync
        if not self.derives_depth or sync in (None, "reference"):
            return ()
        return (
            f"{self.source.name} has its waits and barriers derived and proved in any case; sync "
            f"{sync} changes nothing",
        )

    def arch_unused(self) -> tuple[str, ...]:
        """A note where a chip is named and nothing is derived for it."""
        source = self.source
        if source.arch is None or self.derives_depth:
            return ()
        if not self.is_compiled and source.tile not in (None, "none"):
            return ()
        return (
            f"nothing about {source.name} is derived for a chip here, so --arch changes nothing",
        )

    def require_tile(self, compiled: CompiledSchedule) -> None:
        """Refuse a schedule that could have a tile and has none, where the figures need one."""
        if lacks_tile(compiled):
            raise SpecError(
                f"{self.source.name} has no tile shape, so its ops have no instruction counts",
                hint=self._how_to_tile(compiled),
                field="geometry",
            )

    def _how_to_tile(self, compiled: CompiledSchedule) -> str:
        """For a compiled file, the command that writes it anew, as its notes tell."""
        if not self.is_compiled:
            return "give --tile bf16 (or fp16, fp8)"
        made = sync_text(compiled)
        words = ["pipeloom", "fix" if made else "compile", compiled.schedule, "--tile", "bf16"]
        if "barriers kept" in made:
            words.append("--keep-barriers")
        if " moved" in made or " added" in made:
            words.append("--reorder")
        return f"write it anew: {shlex.join([*words, '-o', self.source.name])} (or fp16, fp8)"

    def named_tile(self) -> str | None:
        """The tile that the source was given, by option or by default."""
        source = self.source
        if source.tile is None and not self.is_compiled:
            spec = find_source(source) if isinstance(source.what, str) else source.what
            if isinstance(spec, Mapping) and gets_default_tile(spec, source.default_tile):
                return source.default_tile
        return None if source.tile == "none" else source.tile


def open_source(what: Source | Named, *, keep_interrupted: bool = False) -> Subject:
    """Find what a source means.

    A search that Ctrl-C ends raises ``KeyboardInterrupt``, unless the best so far is asked for.
    """
    source = Source.of(what)
    found = find_source(source)
    if isinstance(found, Mapping) and not is_compiled(found):
        tiled = with_tile(
            found, source.name, tile=source.tile, default=source.default_tile, arch=source.arch
        )
        spec = apply_settings(tiled, source.settings)
        subject = Subject(source, spec, load_spec(spec), keep_interrupted)
    else:
        refuse_changes(source, found)
        data = found if isinstance(found, Mapping) else {}
        origin = CompiledSchedule.from_dict(found) if isinstance(found, Mapping) else found
        subject = Subject(source, data, origin, keep_interrupted)
    if source.arch is not None:
        subject.machine()
    return subject


def find_source(source: Source) -> Mapping[str, Any] | PipelineSchedule | CompiledSchedule:
    """The mapping or object behind a source; a launch record is no schedule."""
    what = source.what
    if isinstance(what, PipelineSchedule | CompiledSchedule):
        return what
    if isinstance(what, str) and names_declaration(what):
        made = load_declaration(what)
        if isinstance(made, PipelineSchedule | CompiledSchedule):
            return made
        raise SpecError(
            f"{what} is a {type(made).__name__}, and this command takes schedules",
            hint="verify, show, simulate, report and emit take loops and programs",
            field="schedule",
        )
    data = find_spec(what)
    if is_launch_record(data):
        raise SpecError(
            f"{source.name} says how to launch the kernel {data.get('kernel')}; it holds no "
            "schedule",
            hint="give the schedule's name, its spec, or what pipeloom compile -o wrote",
            field="schedule",
        )
    return data


def is_compiled(data: Mapping[str, Any]) -> bool:
    """Whether a mapping is what ``pipeloom compile`` wrote, not a spec."""
    return "prologue" in data


def is_launch_record(data: Mapping[str, Any]) -> bool:
    """Whether a mapping is the ``k.json`` that ``pipeloom emit`` writes beside ``k.hsaco``."""
    if "format" not in data:
        return False
    from pipeloom.write import LAUNCH_FORMAT

    return bool(data["format"] == LAUNCH_FORMAT)


def refuse_changes(source: Source, found: object) -> None:
    """What would change a spec cannot change a compiled schedule, nor a declaration in Python."""
    for option, value in (("--set", source.settings), ("--tile", source.tile)):
        if not value:
            continue
        if isinstance(found, PipelineSchedule):
            raise SpecError(
                f"{source.name} is declared in Python, which {option} cannot change",
                hint="change the declaration, or declare a function that returns it changed",
            )
        raise SpecError(
            f"{source.name} is a compiled schedule, which {option} cannot change",
            hint=f"apply {option} to its spec: pipeloom compile SPEC {option} ... -o FILE",
        )


def lacks_tile(compiled: CompiledSchedule) -> bool:
    """Whether a schedule could have a tile and has none."""
    return compiled.geometry is None and takes_tile(compiled.schedule)


def with_data(source: Source, data: Mapping[str, Any]) -> Source:
    """The same source with its spec changed; messages keep its name."""
    return replace(source, what=data, label=source.name)
