"""What a job is about: a shipped name, a spec, a file, ``my.py:Name``, or an object.

A ``Source`` says which, and what is asked of it before any job begins; ``find_source`` finds it.

Declarations of the user's own: ``my_kernels.py:Name``.

``Name`` is a ``Loop``, a ``Program``, a ``PipelineSchedule`` (class or instance), a
``CompiledSchedule``, or a function that returns one: one of ``KINDS``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from os import PathLike
from pathlib import Path
from types import FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from pipeloom.checks import nearest
from pipeloom.cms.table import Table, read_table
from pipeloom.declare.loop import Loop
from pipeloom.drive.loops import LOOPS
from pipeloom.drive.python_files import import_file, raised
from pipeloom.drive.tiling import TYPES, read_tile, tile_settings
from pipeloom.errors import SpecError
from pipeloom.files import read_text
from pipeloom.machine.target import Target
from pipeloom.program import VOCABULARY, Program, Vocabulary
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.compiler import Sync
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.schedules import SCHEDULES
from pipeloom.reference.spec import find_spec
from pipeloom.write import LAUNCH_FORMAT

if TYPE_CHECKING:
    from pipeloom.drive.certifying import Progress


Declared = PipelineSchedule | CompiledSchedule | Loop | Program

KINDS: tuple[type, ...] = (PipelineSchedule, CompiledSchedule, Loop, Program)
"""What a declaration may be."""


Named = str | PathLike[str] | Mapping[str, Any] | Declared
"""What a kernel can be given by."""
Found = Mapping[str, Any] | Declared | Table
"""What that means: a spec, or an object that needs none."""
FORMS: Mapping[str, type] = MappingProxyType({**SCHEDULES, **LOOPS})
"""What is shipped, by name: the keys of its spec."""


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel and what is asked of it before any job begins."""

    what: Named
    """A shipped name, a spec or file, ``my.py:Name``, or an object."""
    settings: tuple[str, ...] = ()
    """Settings of its spec, as ``key=value``."""
    tile: str | None = None
    """The tile of one workgroup and iteration, ``256x256x64``; that of the spec unless given. A
    type here is taken as ``dtype``."""
    default_tile: str = "none"
    """The tile type of a spec that names none."""
    arch: str | Target | None = None
    """The chip, by its name or as a ``Target`` of your own; the schedule's own unless given."""
    sync: Sync | None = None
    """Who places waits and barriers: ``reference``, ``proven`` or ``repaired``; None leaves it to
    the job."""
    reorder: bool = False
    """Whether synchronisation may move steps."""
    waves: int | None = None
    """Waves of a loop's workgroup."""
    k_tiles: int | None = None
    """The number of iterations that a loop is derived for."""
    label: str = ""
    """What messages call it."""
    ops: Vocabulary = field(default=VOCABULARY, repr=False, hash=False)
    """The ops of a program; a loop has its own."""
    progress: Callable[[Progress], None] | None = field(default=None, repr=False, compare=False)
    """Told of each better order that the search for a loop's finds."""
    dtype: str | None = None
    """The type of the tile's elements: ``bf16``, ``fp16``, ``fp8``, or ``none``, which leaves a
    spec without a tile; that of the spec unless given."""

    def __post_init__(self) -> None:
        tile = self.tile
        if tile is None or read_tile(tile) is not None:
            return
        if tile not in TYPES:
            raise SpecError(
                f"the tile is {tile!r}", hint="write MxNxK, as 256x256x64", field="tile"
            )
        if self.dtype not in (None, tile):
            raise SpecError(
                f"the tile is {tile!r}, and its elements are {self.dtype}",
                hint="leave out the one, or give the tile as MxNxK",
                field="tile",
            )
        object.__setattr__(self, "dtype", tile)
        object.__setattr__(self, "tile", None)

    @property
    def element_type(self) -> str | None:
        """The type that is asked for, where one is."""
        return None if self.dtype == "none" else self.dtype

    @property
    def changes(self) -> tuple[str, ...]:
        """What is set in the spec: its tile, and what the settings say."""
        return (*tile_settings(self.tile), *self.settings)

    @classmethod
    def of(cls, what: Source | Named) -> Source:
        """Whatever a job is given, as a source.

        Args:
            what: A source, or what one is made of.
        """
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


def find_source(source: Source) -> Found:
    """The spec or object behind a source; a launch record is no kernel."""
    what = source.what
    if isinstance(what, PipelineSchedule | CompiledSchedule | Loop | Program):
        return what
    if isinstance(what, str) and names_declaration(what):
        return load_declaration(what)
    if isinstance(what, str | PathLike) and Path(what).suffix == ".json":
        data = _json_file(Path(what))
        if isinstance(data, dict) and {"schedule", "num_mfma"} <= data.keys():
            return read_table(data)
        if isinstance(data, dict) and {"meaning", "groups"} <= data.keys():
            return Program.from_dict(data)
    data = find_spec(what, FORMS)
    if is_launch_record(data):
        raise SpecError(
            f"{source.name} says how to launch the kernel {data.get('kernel')}; it holds no "
            "schedule",
            hint="give the schedule's name, its spec, or what pipeloom compile -o wrote",
            field="schedule",
        )
    return CompiledSchedule.from_dict(data) if "prologue" in data else data


def _json_file(path: Path) -> Any:
    """What a file holds; None where it cannot be read."""
    try:
        return json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return None


def is_loop(found: object) -> bool:
    """Whether a mapping is the spec of a shipped loop."""
    name = found.get("schedule") if isinstance(found, Mapping) else None
    return isinstance(name, str) and name in LOOPS


def is_launch_record(data: Mapping[str, Any]) -> bool:
    """Whether a mapping is the ``k.json`` that ``pipeloom emit`` writes beside ``k.hsaco``."""
    return data.get("format") == LAUNCH_FORMAT


def refuse_changes(source: Source, found: object) -> None:
    """What would change a spec cannot change a compiled schedule, nor a declaration in Python."""
    for option, value in (
        ("--set", source.settings),
        ("--tile", source.tile),
        ("--dtype", source.dtype),
    ):
        if not value:
            continue
        if isinstance(found, Program | Table):
            raise SpecError(
                f"{source.name} is a program, which {option} cannot change",
                hint="drop it, or make the program anew",
            )
        if isinstance(found, PipelineSchedule | Loop):
            raise SpecError(
                f"{source.name} is declared in Python, which {option} cannot change",
                hint="change the declaration, or declare a function that returns it changed",
            )
        raise SpecError(
            f"{source.name} is a compiled schedule, which {option} cannot change",
            hint=f"apply {option} to its spec: pipeloom compile SPEC {option} ... -o FILE",
        )


def names_declaration(text: str) -> bool:
    """Whether a command's argument is a Python file, with or without ``:Name``."""
    path, colon, _ = text.rpartition(":")
    return (path if colon else text).endswith(".py")


def load_declaration(text: str) -> Declared:
    """What ``my_kernels.py:Name`` declares."""
    path, colon, name = text.rpartition(":")
    if not colon:
        path, name = text, ""
    module = import_file(Path(path))
    public = {key: value for key, value in vars(module).items() if _declares(value, module)}
    if not name or not hasattr(module, name):
        hint = nearest(name, public) if public else "declare a Loop or a PipelineSchedule in it"
        said = f"{path} has no name {name!r}" if name else f"{path} needs the name of a declaration"
        raise SpecError(said, hint=hint if name else f"write {path}:NAME; {hint}", field="schedule")
    return resolve(getattr(module, name), text)


def resolve(value: object, text: str) -> Declared:
    """The schedule that an object stands for; classes and functions are called for it."""
    made = value
    if isinstance(value, type) or (callable(value) and not isinstance(value, KINDS)):
        if isinstance(value, type) and not issubclass(value, KINDS):
            raise _wrong_kind(text, f"the class {value.__name__}")
        try:
            made = value()
        except Exception as error:
            raise raised(text, error, f"{text}() raised") from error
    if isinstance(made, Declared):
        return made
    raise _wrong_kind(text, f"a {type(made).__name__}")


def _wrong_kind(text: str, what: str) -> SpecError:
    names = ", ".join(kind.__name__ for kind in KINDS)
    return SpecError(
        f"{text} is {what}, not a loop and not a schedule",
        hint=f"name one of these, or a function that returns one: {names}",
        field="schedule",
    )


def _declares(value: object, module: ModuleType) -> bool:
    """Whether a name of a file can be given: what it says it is, or a function that may make it."""
    if isinstance(value, type):
        return issubclass(value, KINDS) and value.__module__ == module.__name__
    if isinstance(value, FunctionType) and value.__module__ == module.__name__:
        needed = [p for p in signature(value).parameters.values() if p.default is p.empty]
        made = str(value.__annotations__.get("return", "Loop"))
        fits = any(kind.__name__ in made for kind in KINDS)
        return fits and not needed and not value.__name__.startswith("_")
    return isinstance(value, KINDS)
