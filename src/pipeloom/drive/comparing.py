"""Several schedules side by side: ``ping_pong:scheduling=identity,sync=proven`` and the like."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast, get_args

from pipeloom.checks import nearest
from pipeloom.drive.emitting import emitted_form
from pipeloom.drive.forms import Choice
from pipeloom.drive.reporting import TIMELINE_ITERATIONS, simulation_page
from pipeloom.drive.simulating import SimulateJob, Simulation, prepare
from pipeloom.drive.sources import Source, names_declaration
from pipeloom.drive.tiling import TYPES, read_tile
from pipeloom.drive.timing_files import judged, launched, time_checked, time_start
from pipeloom.errors import SpecError
from pipeloom.files import read_text, reading
from pipeloom.judge.simulate import Trace, simulate_stream
from pipeloom.machine.chips import ANY_CHIP
from pipeloom.machine.target import Target
from pipeloom.reference.compiler import Sync
from pipeloom.reference.spec import UnknownKeyError
from pipeloom.show.comparison import Comparison, instruction_row
from pipeloom.show.comparison import compare as row_of
from pipeloom.show.kernel_page import Disassembly, kernel_page
from pipeloom.show.page import fill_page
from pipeloom.show.stream_page import stream_page, stream_row

DEFAULT_TILE = "bf16"
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sync": get_args(Sync),
        "reorder": ("true", "false"),
        "tile": ("MxNxK, as 256x256x64",),
        "dtype": TYPES,
        "emitted": ("true", "false"),
    }
)
"""What a variant takes besides the keys of its spec."""
STREAM = ".stream"
STREAM_OPTIONS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "mfma": re.compile(r"\w+"),
        "waves_per_simd": re.compile(r"[1-8]"),
        "stagger": re.compile("true|false"),
    }
)
"""What a file of a hand-written loop takes."""
STREAM_TRIPS = 24


@dataclass(frozen=True, slots=True)
class CompareJob:
    """What to compare, and on what."""

    variants: Sequence[str]
    """Schedules with settings after a colon (``ping_pong:sync=repaired``), or ``.stream`` files."""
    tile: str | None = None
    """The tile of variants that name none: ``256x256x64``; a type here is taken as ``dtype``."""
    arch: str | Target | None = None
    """The chip; the schedule's own unless given."""
    k_tiles: int | None = None
    """Iterations to simulate."""
    jitter: float = 0.0
    """Stretches each global access's latency by a random share of up to this much."""
    seed: int = 0
    """What the random latencies are drawn from."""
    dtype: str | None = None
    """The tile type of variants that name none: ``bf16``, ``fp16``, ``fp8`` or ``none``."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What ``compare`` found, one row for each variant."""

    rows: tuple[Comparison, ...]
    """The figures of each variant."""
    emitted: tuple[Choice | None, ...]
    """The form that ``emit`` would write instead of each, if another."""
    pages: Callable[[Sequence[str]], list[dict[str, Any]]]
    """What a page shows of each under its name."""

    def __repr__(self) -> str:
        return f"<Compared {', '.join(row.name for row in self.rows)}>"

    def page(self) -> str:
        """All of them on one page, their timelines over one axis."""
        names = [os.path.basename(row.name) for row in self.rows]
        if len(set(names)) < len(names):
            names = [row.name for row in self.rows]
        return fill_page(*self.pages(names))

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain data."""
        return [
            {**row.to_dict(), "emit": None if choice is None else choice.to_dict()}
            for row, choice in zip(self.rows, self.emitted, strict=True)
        ]


def compare(job: CompareJob | Sequence[str]) -> Compared:
    """Simulate and verify each variant.

    Args:
        job: The variants, or a ``CompareJob`` that says more.
    """
    job = job if isinstance(job, CompareJob) else CompareJob(job)
    if len(job.variants) < 2:
        name = parse_variant(job.variants[0]).source.name if job.variants else "ping_pong"
        raise SpecError(
            "compare needs at least two variants",
            hint="for one schedule use pipeloom simulate; or add a setting after a colon, as in "
            f"{name}:sync=proven",
        )
    jobs = [None if _is_stream(text) else parse_variant(text, job) for text in job.variants]
    forms: dict[tuple[Source, bool], Choice | None] = {}
    found = [
        _stream(text, job) if variant is None else _schedule(text, variant, forms)
        for text, variant in zip(job.variants, jobs, strict=True)
    ]

    def pages(names: Sequence[str]) -> list[dict[str, Any]]:
        return [one.page(name) for name, one in zip(names, found, strict=True)]

    return Compared(tuple(one.row for one in found), tuple(one.emitted for one in found), pages)


@dataclass(frozen=True, slots=True)
class _One:
    """One variant."""

    row: Comparison
    page: Callable[[str], dict[str, Any]]
    emitted: Choice | None = None


def _schedule(
    text: str, variant: SimulateJob, forms: dict[tuple[Source, bool], Choice | None]
) -> _One:
    simulation = _prepare(variant)
    trace = simulation.run()
    if not trace.iterations:
        raise SpecError(
            f"the loop of {text} does not run for {variant.k_tiles} K tiles, so there are no "
            "cycles of it to compare",
            hint="use a larger --k-tiles, or drop it",
            field="k_tiles",
        )
    verdict = simulation.verdict()
    key = variant.source, variant.emitted
    if key not in forms:
        forms[key] = None if variant.emitted else emitted_form(variant.source)
    return _One(
        row_of(text, simulation.program, trace, verdict, tile=simulation.tile),
        lambda name: simulation_page(simulation, trace, verdict, variant=name),
        forms[key],
    )


def _is_stream(text: str) -> bool:
    return text.partition(":")[0].endswith(STREAM)


def _stream(text: str, job: CompareJob) -> _One:
    """A hand-written loop: ``loop.stream:mfma=32x32x16_f16,waves_per_simd=2,stagger=true``."""
    path, _, rest = text.partition(":")
    settings = dict(_setting(text, one) for one in filter(None, rest.split(",")))
    for key, value in settings.items():
        if key not in STREAM_OPTIONS or not STREAM_OPTIONS[key].fullmatch(value):
            raise SpecError(
                f"{text!r}: {key}={value}",
                hint="a stream takes mfma=NAME, waves_per_simd=N and stagger=true",
                field=key,
            )
    with reading(f"the stream in {path}", "give a text file", "stream"):
        body = read_text(path)

    def run(iterations: int = STREAM_TRIPS) -> Trace:
        return simulate_stream(
            body,
            arch=job.arch or ANY_CHIP,
            mfma=settings.get("mfma"),
            waves_per_simd=int(settings.get("waves_per_simd", 1)),
            stagger=settings.get("stagger") == "true",
            iterations=iterations,
            jitter=job.jitter,
            seed=job.seed,
        )

    trace = run()
    shown = run(TIMELINE_ITERATIONS)
    return _One(stream_row(text, trace), lambda name: stream_page(name, trace, shown))


def compare_files(
    paths: Sequence[str], launches: Sequence[str], kernel: str | None = None
) -> Compared:
    """Judge each kernel file and time its main loop; one launch file for all, or one each."""
    if len(paths) < 2:
        raise SpecError(
            "compare needs at least two kernel files",
            hint="for one use pipeloom report FILE --launch",
        )
    if len(launches) not in (1, len(paths)):
        raise SpecError(
            f"{len(launches)} launch files for {len(paths)} kernel files",
            hint="give one --launch for all, or one for each in order",
            field="launch",
        )
    each = list(launches) * (len(paths) if len(launches) == 1 else 1)
    timed, rows = [], []
    for path, launch in zip(paths, each, strict=True):
        checked = judged(path, launch, kernel, shown=0)
        # A kernel with more findings than a check collects is timed all the same.
        timing = time_checked(checked) or time_start(*launched(path, launch, kernel))
        timed.append((timing, checked))
        main, status = timing.main, checked.verdict.status.title
        trips = main.loop.trips_per_iteration
        rows.append(instruction_row(path, main.trace, Disassembly(timing), status, trips))

    def pages(names: Sequence[str]) -> list[dict[str, Any]]:
        return [
            kernel_page(timing, checked.verdict, variant=name, sources=checked.file.lines())
            for name, (timing, checked) in zip(names, timed, strict=True)
        ]

    return Compared(tuple(rows), (None,) * len(rows), pages)


def parse_variant(text: str, defaults: CompareJob | None = None) -> SimulateJob:
    """``ping_pong:scheduling=identity,sync=proven`` as a job."""
    job = defaults or CompareJob((text,))
    source, colon, rest = text.rpartition(":")
    if not colon or os.path.exists(text) or ("=" not in rest and names_declaration(text)):
        source, rest = text, ""
    settings: list[str] = []
    options: dict[str, str] = {}
    for setting in filter(None, rest.split(",")):
        key, value = _setting(text, setting)
        if key in OPTIONS:
            options[key] = value
        else:
            settings.append(setting)
    for key, value in options.items():
        is_tile = key == "tile" and (value in TYPES or read_tile(value) is not None)
        if value not in OPTIONS[key] and not is_tile:
            raise SpecError(
                f"{text!r}: {key} is {value!r}",
                hint=f"use one of {', '.join(OPTIONS[key])}",
                field=key,
            )
    tile = options.get("tile", job.tile)
    sync, reorder = options.get("sync"), options.get("reorder") == "true"
    emitted = options.get("emitted") == "true"
    if reorder and (sync == "reference" or (sync is None and not emitted)):
        raise SpecError(
            f"{text!r}: reorder=true changes nothing without sync=proven or sync=repaired",
            hint=f"add sync=repaired, as in {source}:sync=repaired,reorder=true",
            field="reorder",
        )
    return SimulateJob(
        Source(
            source,
            tuple(settings),
            tile=tile,
            dtype=options.get("dtype", None if tile in TYPES else job.dtype),
            default_tile=DEFAULT_TILE,
            arch=job.arch,
            sync=cast("Sync | None", sync),
            reorder=reorder,
        ),
        k_tiles=job.k_tiles,
        jitter=job.jitter,
        seed=job.seed,
        emitted=emitted,
    )


def _setting(text: str, setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise SpecError(
            f"{text!r}: {setting!r} is not of the form key=value",
            hint="write for example ping_pong:scheduling=greedy,sync=proven",
            field=key,
        )
    return key.strip(), value.strip()


def _prepare(variant: SimulateJob) -> Simulation:
    """The variant to run; of an unknown key the hint also lists what only variants take."""
    try:
        return prepare(variant)
    except UnknownKeyError as error:
        names = sorted({*error.names, *OPTIONS})
        raise SpecError(
            error.message, hint=nearest(str(error.field), names), field=error.field
        ) from error
