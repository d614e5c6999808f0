"""``pipeloom compare``: strategies, synchronisations or specs side by side."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from pipeloom.checks import nearest
from pipeloom.cli.common import TILES, add_json, add_tile, load_compiled, print_json, require_tile
from pipeloom.cli.simulate import add_machine
from pipeloom.compiled import CompiledSchedule
from pipeloom.compiler import Sync
from pipeloom.errors import SpecError
from pipeloom.simulate import simulate
from pipeloom.spec import UnknownKeyError
from pipeloom.targets.chips import machine_for
from pipeloom.verify import verify

DEFAULT_TILE = "bf16"
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"sync": get_args(Sync), "reorder": ("true", "false"), "tile": ("none", *TILES)}
)
"""What a variant takes besides the keys of its spec."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Simulate and verify each variant. A variant is a schedule's name, a spec or a "
        "compiled schedule, and after a colon its settings: "
        "pipeloom compare ping_pong ping_pong:scheduling=identity ping_pong:sync=proven "
        "ping_pong:minimal_barriers=true,omit_mma_set_prio=true. Settings are those of --set, and "
        "sync=reference|proven|repaired, reorder=true and tile=none|bf16|fp16|fp8 as the options "
        "of compile."
    )
    parser.add_argument("variants", metavar="VARIANT", nargs="+", help="NAME|SPEC[:KEY=VALUE,...]")
    add_tile(parser, default=DEFAULT_TILE)
    add_machine(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one row per variant."""
    from pipeloom.report.comparison import compare, render_comparison

    variants = [parse_variant(text, tile=arguments.tile) for text in arguments.variants]
    if len(variants) < 2:
        raise SpecError(
            "compare needs at least two variants",
            hint="for one schedule use pipeloom simulate; or add a setting after a colon, as in "
            f"{variants[0].source}:sync=proven",
        )
    machine = machine_for(arguments.arch)
    rows = []
    for text, variant in zip(arguments.variants, variants, strict=True):
        compiled = _load(variant)
        require_tile(variant, compiled)
        trace = simulate(
            compiled,
            machine,
            k_tiles=arguments.k_tiles,
            jitter=arguments.jitter,
            seed=arguments.seed,
        )
        rows.append(compare(text, compiled, trace, verify(compiled), elements=variant.tile))
    if arguments.json:
        print_json([row.to_dict() for row in rows])
        return 0
    from pipeloom.report.console import TerminalConsole

    console = TerminalConsole()
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
    sync, reorder = options.get("sync", "reference"), options.get("reorder") == "true"
    if reorder and sync == "reference":
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
        tile=options.get("tile", tile),
        default_tile=DEFAULT_TILE,
    )


def _load(variant: argparse.Namespace) -> CompiledSchedule:
    """The variant's schedule; of an unknown key the hint also lists what only variants take."""
    try:
        return load_compiled(variant)
    except UnknownKeyError as error:
        names = sorted({*error.names, *OPTIONS})
        raise SpecError(
            error.message, hint=nearest(str(error.field), names), field=error.field
        ) from error
