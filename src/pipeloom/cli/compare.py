"""``pipeloom compare``: strategies, synchronisations or specs side by side."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from pipeloom.checks import nearest
from pipeloom.cli.common import add_json, print_json
from pipeloom.cli.simulation import Simulation, add_machine, prepare
from pipeloom.cli.tile import ELEMENT_BYTES, add_tile
from pipeloom.errors import SpecError
from pipeloom.reference.compiler import Sync
from pipeloom.reference.spec import UnknownKeyError
from pipeloom.reference.verdict import verify

DEFAULT_TILE = "bf16"
PIPE = 10_000
"""Characters of a line that goes to a file or a pipe, which have no width."""
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sync": get_args(Sync),
        "reorder": ("true", "false"),
        "tile": ("none", *ELEMENT_BYTES),
        "dtype": ("none", *ELEMENT_BYTES),
        "emitted": ("true", "false"),
    }
)
"""What a variant takes besides the keys of its spec."""
HINTS: Mapping[str, str] = MappingProxyType(
    {
        "reorder=True applies it": "reorder=true in the variant applies it",
        "keep_barriers=False, sync='proven'": "sync=proven in the variant",
    }
)
"""What a hint of the library says -> how a variant spells it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Simulate and verify each variant. A variant is a schedule's name, a spec or a "
        "compiled schedule, and after a colon its settings: "
        "pipeloom compare ping_pong ping_pong:scheduling=identity ping_pong:sync=proven "
        "ping_pong:minimal_barriers=true,omit_mma_set_prio=true. Settings are those of --set, and "
        "sync=reference|proven|repaired, reorder=true and tile=none|bf16|fp16|fp8 as the options "
        "of compile. emitted=true runs the instructions of the emitted kernel, as simulate "
        "--emitted does: pipeloom compare ping_pong:sync=repaired,reorder=true "
        "ping_pong:emitted=true."
    )
    parser.add_argument("variants", metavar="VARIANT", nargs="+", help="NAME|SPEC[:KEY=VALUE,...]")
    add_tile(parser, default=DEFAULT_TILE)
    add_machine(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one row per variant."""
    from pipeloom.show.comparison import compare, render_comparison

    variants = [parse_variant(text, tile=arguments.tile) for text in arguments.variants]
    if len(variants) < 2:
        raise SpecError(
            "compare needs at least two variants",
            hint="for one schedule use pipeloom simulate; or add a setting after a colon, as in "
            f"{variants[0].source}:sync=proven",
        )
    rows = []
    for text, variant in zip(arguments.variants, variants, strict=True):
        for name in ("arch", "jitter", "seed"):
            setattr(variant, name, getattr(arguments, name))
        simulation = _prepare(variant)
        trace = simulation.run(arguments.k_tiles)
        if not trace.iterations:
            raise SpecError(
                f"the loop of {text} does not run for {arguments.k_tiles} K tiles, so there are no "
                "cycles per iteration to compare",
                hint="use a larger --k-tiles, or drop it",
                field="k_tiles",
            )
        verdict = verify(simulation.program)
        rows.append(compare(text, simulation.program, trace, verdict, tile=simulation.tile))
    if arguments.json:
        print_json([row.to_dict() for row in rows])
        return 0
    from pipeloom.show.console import TerminalConsole

    console = TerminalConsole()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE
    console.print(render_comparison(rows, width=console.width))
    return 0


def parse_variant(text: str, *, tile: str | None = None) -> argparse.Namespace:
    """``ping_pong:scheduling=identity,sync=proven`` as the arguments ``load_compiled`` takes.

    ``tile`` is the one of a variant that names none.
    """
    source, colon, rest = text.rpartition(":")
    if not colon or os.path.exists(text):
        source, rest = text, ""
    settings = []
    options: dict[str, str] = {}
    for setting in filter(None, rest.split(",")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise SpecError(
                f"{text!r}: {setting!r} is not of the form key=value",
                hint="write for example ping_pong:scheduling=greedy,sync=proven",
                field=key,
            )
        if key.strip() in OPTIONS:
            options[key.strip()] = value.strip()
        else:
            settings.append(setting)
    for key, value in options.items():
        if value not in OPTIONS[key]:
            raise SpecError(
                f"{text!r}: {key} is {value!r}",
                hint=f"use one of {', '.join(OPTIONS[key])}",
                field=key,
            )
    sync, reorder = options.get("sync"), options.get("reorder") == "true"
    emitted = options.get("emitted") == "true"
    if reorder and (sync == "reference" or (sync is None and not emitted)):
        raise SpecError(
            f"{text!r}: reorder=true changes nothing without sync=proven or sync=repaired",
            hint=f"add sync=repaired, as in {source}:sync=repaired,reorder=true",
            field="reorder",
        )
    return argparse.Namespace(
        source=source,
        settings=settings,
        sync=sync,
        reorder=reorder,
        tile=options.get("tile", options.get("dtype", tile)),
        default_tile=DEFAULT_TILE,
        emitted=emitted,
        allow_timing=False,
        hints=HINTS,
    )


def _prepare(variant: argparse.Namespace) -> Simulation:
    """The variant to run; of an unknown key the hint also lists what only variants take."""
    try:
        return prepare(variant)
    except UnknownKeyError as error:
        names = sorted({*error.names, *OPTIONS})
        raise SpecError(
            error.message, hint=nearest(str(error.field), names), field=error.field
        ) from error
