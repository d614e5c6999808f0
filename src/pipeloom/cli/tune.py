"""``pipeloom tune``: the best kernel of each shape, by the model of the whole GPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import pipeloom.tuning
from pipeloom.cli.bars import bar
from pipeloom.cli.main import INTERRUPTED_CODE
from pipeloom.cli.options import Command, argument, flag, option
from pipeloom.cli.printing import json_text, print_json, wrote
from pipeloom.cli.progress import doing
from pipeloom.cli.usage import UsageError, at_least, check_new_folder, positive
from pipeloom.declare.activations import ACTIVATIONS
from pipeloom.files import write_file
from pipeloom.machine.chip_file import chip_named
from pipeloom.machine.gpus import GPUS
from pipeloom.tuning import calls
from pipeloom.tuning.search import CLOSE, Tuned
from pipeloom.tuning.search import TuneProgress as Step
from pipeloom.tuning.shapes import DTYPES, MODELS, TOKENS

OPTIONS = tuple(
    name for name in signature(calls.tune).parameters if name not in ("shapes", "progress")
)
"""What tuning takes, by name: each has an option here."""


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers, as 1024,4096")
    return found


@dataclass(frozen=True)
class TuningOptions(Command):
    """What all commands that tune share."""

    target: str = option("--target --chip --target-file CHIP|FILE.toml", "MI355X")
    """one of {CHIPS}, or a chip file that pipeloom calibrate wrote (default MI355X)"""
    dtype: str = option("--dtype", "bf16")
    """of A and B: {TYPES} (default bf16)"""
    layout: str = option("--layout XY", "NT")
    """how A and B are stored: A as M x K (N) or K x M (T), B as K x N (N) or N x K (T); default
    NT"""
    batches: int = option("--batches N", 1, type=at_least(1))
    """products of each shape at once"""
    alpha: bool = flag()
    """the product times a number"""
    beta: bool = flag()
    """the product plus a number times what C was"""
    scales: bool = flag()
    """the product with a factor for every row and every column"""
    bias: bool = flag()
    """the product plus a number for every column"""
    activation: str = option("--activation", "none", choices=tuple(ACTIVATIONS))
    """what is done with each element of C last"""
    jobs: int | None = option("--jobs N", type=at_least(1))
    """processes (default: one per core)"""
    on: str = option("--on", "local", choices=("local", "ray"))
    """who times blocks: processes of this machine, or a Ray cluster (pipeloom[ray])"""
    address: str | None = option("--address")
    """of the Ray cluster, for example auto; a local one is started without it"""
    seconds: float | None = option("--seconds S", type=positive)
    """stop after so long, with the best so far (every shape gets a first kernel)"""
    close: float = option("--close X", CLOSE)
    """stop when no tile that was not timed can be more than X times as fast (default {CLOSE}; 1 is
    exact)"""

    CHIPS: ClassVar = ", ".join(f"{gpu.chip} ({gpu.arch})" for gpu in GPUS)
    TYPES: ClassVar = ", ".join(DTYPES)

    def exit_code(self, found: list[Tuned]) -> int:
        """0 if the search is complete, or has run for as long as it was given."""
        if all(one.complete for one in found):
            return 0
        print("not complete: this is the best so far; the next run goes on", file=sys.stderr)
        return INTERRUPTED_CODE if self.seconds is None else 0

    def tuning_options(self) -> dict[str, Any]:
        """What the arguments ask of ``pipeloom.tune``; refused where options do not go together."""
        if self.address is not None and self.on != "ray":
            raise UsageError("--address needs --on ray")
        given = {name: getattr(self, name, None) for name in OPTIONS}
        return {**given, "target": chip_named(self.target)}

    @contextmanager
    def shown(self, count: int) -> Iterator[Callable[[Step], None]]:
        """Shapes done, blocks timed, the best so far: a bar, else lines now and then."""
        with bar(self, "ranking", count) as tell:
            doing("ranking blocks by what they need at least")

            def tell_step(step: Step) -> None:
                best = "" if step.best is None else f": {summary(step.best)}"
                text = f"{step.done}/{step.problems} shapes, {step.timed} blocks timed{best}"
                tell(text, step.done, step.problems)

            yield tell_step


@dataclass(frozen=True)
class ShapesOptions(TuningOptions):
    """And of those that tune many shapes."""

    shapes: tuple[str, ...] = argument("SHAPES", (), nargs="+")
    """MxNxK; a file with one M N K a line; or a model: {MODELS_KNOWN}"""
    tokens: tuple[int, ...] | None = option("--tokens N,N", type=_numbers)
    """rows of A for a model's shapes (default {TOKENS_USUAL})"""

    MODELS_KNOWN: ClassVar = ", ".join(MODELS)
    TOKENS_USUAL: ClassVar = ",".join(map(str, TOKENS))

    def tuning_options(self) -> dict[str, Any]:
        """The same, and rows of A only where they are a model's."""
        models = ", ".join(MODELS)
        if self.tokens is not None and not any(word.lower() in MODELS for word in self.shapes):
            shapes = " ".join(self.shapes)
            raise UsageError(f"--tokens is for a model's shapes ({models}); {shapes} is none")
        return super().tuning_options()


@dataclass(frozen=True)
class TuneCommand(ShapesOptions):
    """Find the best kernel of each matrix product without a GPU: rank every block by what the
    units of the machine need at least, derive and simulate the few that could be best, and stop
    when nothing left could be better. What was found is kept ($PIPELOOM_STORE,
    ~/.cache/pipeloom): a second run costs nothing, and one that was stopped or killed goes on.
    Throughput is the model's (docs/tuning.md), not measured.

    Examples:
        pipeloom tune 4096x4096x8192
        pipeloom tune shapes.txt --target MI300X --dtype fp8
        pipeloom tune llama-3-70b --tokens 1024,4096 --jobs 2 --page pages
    """

    output: Path | None = option("-o --output FILE")
    """write what --json prints to a file"""
    page: Path | None = option("--page FOLDER")
    """write index.html: throughput, where the time goes, the search; and each kernel's report
    beside it"""
    published: Path | None = option("--published FILE.jsonl")
    """figures to show beside, a line each: m, n, k, dtype, chip, tflops (needs --page)"""

    def run(self) -> int:
        """Tune, and print a line for each shape."""
        if self.published is not None and self.page is None:
            raise UsageError("--published needs --page")
        if self.page is not None:
            check_new_folder(self.page)
        figures = (
            {} if self.published is None else pipeloom.tuning.pages.read_figures(self.published)
        )
        options = self.tuning_options()
        with self.shown(len(self.shapes)) as tell:
            found = calls.tune(self.shapes, **options, progress=tell)
        if self.page is not None:
            pipeloom.tuning.pages.write_pages(found, self.page, figures)
        data = {"tuned": [one.to_dict() for one in found]}
        if self.output is not None:
            write_file(self.output, json_text(data))
        if self.json:
            print_json(data)
        else:
            print(table(found))
        pages = None if self.page is None else self.page / "index.html"
        wrote(self, self.output, pages)
        return self.exit_code(found)


def summary(one: Tuned) -> str:
    """One line."""
    return f"{one.problem} {one.prediction.tflops:.0f} TFLOPS with {one.plan}"


def table(found: list[Tuned]) -> str:
    """A row for each shape."""
    heads = ("M x N x K", "block", "split", "TFLOPS", "us", "GHz", "busy", "limit")
    rows = [
        (
            str(one.problem) + ("" if one.complete else " +"),
            f"{one.plan.block.m}x{one.plan.block.n}x{one.plan.block.k} {one.plan.block.waves}w"
            + (" short" if one.plan.block.short_ends else ""),
            str(one.plan.split),
            f"{one.prediction.tflops:.0f}",
            f"{one.prediction.seconds * 1e6:.1f}",
            f"{one.prediction.clock_ghz:.2f}",
            f"{one.prediction.efficiency:.0%}",
            one.prediction.limit,
        )
        for one in found
    ]
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    left = {0, 1, len(heads) - 1}
    lines = [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    ]
    finish = str(found[0].problem.finish)
    kind = f"{found[0].problem.dtype}, {finish}" if finish else found[0].problem.dtype
    title = f"{found[0].chip}, {kind}: predicted, not measured"
    return "\n".join((title, *lines))
