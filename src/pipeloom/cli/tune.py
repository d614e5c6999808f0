"""``pipeloom tune``: the best kernel of each shape, by the model of the whole GPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import pipeloom.tuning
from pipeloom.cli.bars import bar
from pipeloom.cli.main import INTERRUPTED_CODE
from pipeloom.cli.options import JSON, CommandUsage, Option, Options, flag, option
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


SHAPES = option(
    "shapes",
    "MxNxK; a file with one M N K a line; or a model: " + ", ".join(MODELS),
    metavar="SHAPES",
    nargs="+",
)


def tuning(*, shapes: bool = True) -> Options:
    """What all commands that tune share; without ``shapes``, those of one shape."""
    chips = ", ".join(f"{gpu.chip} ({gpu.arch})" for gpu in GPUS)
    tokens = option(
        "--tokens N,N",
        "rows of A for a model's shapes (default " + ",".join(map(str, TOKENS)) + ")",
        type=_numbers,
    )
    return (
        option(
            "--target --chip --target-file CHIP|FILE.toml",
            f"one of {chips}, or a chip file that pipeloom calibrate wrote (default MI355X)",
            default="MI355X",
        ),
        option("--dtype", f"of A and B: {', '.join(DTYPES)} (default bf16)", default="bf16"),
        option(
            "--layout XY",
            "how A and B are stored: A as M x K (N) or K x M (T), B as K x N (N) or N x K (T); "
            "default NT",
            default="NT",
        ),
        option("--batches N", "products of each shape at once", type=at_least(1), default=1),
        flag("--alpha", "the product times a number"),
        flag("--beta", "the product plus a number times what C was"),
        flag("--scales", "the product with a factor for every row and every column"),
        flag("--bias", "the product plus a number for every column"),
        option(
            "--activation",
            "what is done with each element of C last",
            choices=tuple(ACTIVATIONS),
            default="none",
        ),
        tokens if shapes else Option((), {"tokens": None}),
        option("--jobs N", "processes (default: one per core)", type=at_least(1)),
        option(
            "--on",
            "who times blocks: processes of this machine, or a Ray cluster (pipeloom[ray])",
            choices=("local", "ray"),
            default="local",
        ),
        option(
            "--address",
            "of the Ray cluster, for example auto; a local one is started without it",
        ),
        option(
            "--seconds S",
            "stop after so long, with the best so far (every shape gets a first kernel)",
            type=positive,
        ),
        option(
            "--close X",
            "stop when no tile that was not timed can be more than X times as fast "
            f"(default {CLOSE}; 1 is exact)",
            type=float,
            default=CLOSE,
        ),
    )


USAGE = CommandUsage(
    "Find the best kernel of each matrix product without a GPU: rank every block by what the "
    "units of the machine need at least, derive and simulate the few that could be best, and "
    "stop when nothing left could be better. What was found is kept ($PIPELOOM_STORE, "
    "~/.cache/pipeloom): a second run costs nothing, and one that was stopped or killed goes "
    "on. Throughput is the model's (docs/tuning.md), not measured.",
    (
        SHAPES,
        tuning(),
        option("-o --output FILE", "write what --json prints to a file", type=Path),
        option(
            "--page FOLDER",
            "write index.html: throughput, where the time goes, the search; and each kernel's "
            "report beside it",
            type=Path,
        ),
        option(
            "--published FILE.jsonl",
            "figures to show beside, a line each: m, n, k, dtype, chip, tflops (needs --page)",
            type=Path,
        ),
        JSON,
    ),
    examples=(
        "pipeloom tune 4096x4096x8192",
        "pipeloom tune shapes.txt --target MI300X --dtype fp8",
        "pipeloom tune llama-3-70b --tokens 1024,4096 --jobs 2 --page pages",
    ),
)


def run(arguments: argparse.Namespace) -> int:
    """Tune, and print a line for each shape."""
    if arguments.published is not None and arguments.page is None:
        raise UsageError("--published needs --page")
    if arguments.page is not None:
        check_new_folder(arguments.page)
    figures = (
        {}
        if arguments.published is None
        else pipeloom.tuning.pages.read_figures(arguments.published)
    )
    options = tuning_options(arguments, arguments.shapes)
    with shown(arguments, len(arguments.shapes)) as tell:
        found = calls.tune(arguments.shapes, **options, progress=tell)
    if arguments.page is not None:
        pipeloom.tuning.pages.write_pages(found, arguments.page, figures)
    data = {"tuned": [one.to_dict() for one in found]}
    if arguments.output is not None:
        write_file(arguments.output, json_text(data))
    if arguments.json:
        print_json(data)
    else:
        print(table(found))
    pages = None if arguments.page is None else arguments.page / "index.html"
    wrote(arguments, arguments.output, pages)
    return exit_code(arguments, found)


def exit_code(arguments: argparse.Namespace, found: list[Tuned]) -> int:
    """0 if the search is complete, or has run for as long as it was given."""
    if all(one.complete for one in found):
        return 0
    print("not complete: this is the best so far; the next run goes on", file=sys.stderr)
    return INTERRUPTED_CODE if arguments.seconds is None else 0


def tuning_options(arguments: argparse.Namespace, shapes: Sequence[str] = ()) -> dict[str, Any]:
    """What the arguments ask of ``pipeloom.tune``; refused where options do not go together."""
    if arguments.address is not None and arguments.on != "ray":
        raise UsageError("--address needs --on ray")
    if arguments.tokens is not None and not any(word.lower() in MODELS for word in shapes):
        raise UsageError(
            f"--tokens is for a model's shapes ({', '.join(MODELS)}); {' '.join(shapes)} is none"
        )
    given = {name: getattr(arguments, name) for name in OPTIONS}
    return {**given, "target": chip_named(arguments.target)}


@contextmanager
def shown(arguments: argparse.Namespace, count: int) -> Iterator[Callable[[Step], None]]:
    """Shapes done, blocks timed, the best so far: a bar on a terminal, else lines now and then."""
    with bar(arguments, "ranking", count) as tell:
        doing("ranking blocks by what they need at least")

        def tell_step(step: Step) -> None:
            best = "" if step.best is None else f": {summary(step.best)}"
            text = f"{step.done}/{step.problems} shapes, {step.timed} blocks timed{best}"
            tell(text, step.done, step.problems)

        yield tell_step


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
