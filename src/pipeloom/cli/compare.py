"""``pipeloom compare``: strategies, synchronisations or specs side by side."""

from __future__ import annotations

import argparse
import os
from typing import get_args

from pipeloom.cli.common import Commands, add_json, load_compiled, print_json
from pipeloom.cli.simulate import add_machine
from pipeloom.compiler import Sync
from pipeloom.errors import SpecError
from pipeloom.simulate import simulate
from pipeloom.targets.chips import machine_for
from pipeloom.verify import verify

SYNCS = get_args(Sync)


def add_parser(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "compare",
        help="several schedules side by side: cycles, stalls, waits, verdict",
        description="Simulate and verify each variant. A variant is a schedule's name, a spec or a "
        "compiled schedule, and after a colon its settings: "
        "pipeloom compare ping_pong ping_pong:scheduling=identity ping_pong:sync=proven "
        "ping_pong:minimal_barriers=true,omit_mma_set_prio=true. Settings are those of --set, and "
        "sync=reference|proven|repaired and reorder=true as the options of compile.",
    )
    parser.add_argument("variants", metavar="VARIANT", nargs="+", help="NAME|SPEC[:KEY=VALUE,...]")
    add_machine(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one row per variant."""
    from pipeloom.report.comparison import compare, render_comparison

    if len(arguments.variants) < 2:
        raise SpecError(
            "compare needs at least two variants",
            hint="for one schedule use pipeloom simulate; or add a setting after a colon, as in "
            f"{arguments.variants[0]}:sync=proven",
        )
    machine = machine_for(arguments.arch)
    rows = []
    for text in arguments.variants:
        compiled = load_compiled(parse_variant(text), tiled=True)
        trace = simulate(
            compiled,
            machine,
            k_tiles=arguments.k_tiles,
            jitter=arguments.jitter,
            seed=arguments.seed,
        )
        rows.append(compare(text, compiled, trace, verify(compiled)))
    if arguments.json:
        print_json([row.to_dict() for row in rows])
        return 0
    from pipeloom.report.console import TerminalConsole

    console = TerminalConsole()
    console.print(render_comparison(rows, width=console.width))
    return 0


def parse_variant(text: str) -> argparse.Namespace:
    """``ping_pong:scheduling=identity,sync=proven`` as the arguments ``load_compiled`` takes."""
    source, colon, rest = text.rpartition(":")
    if not colon or os.path.exists(text):
        source, rest = text, ""
    settings = []
    options = {"sync": "reference", "reorder": "false"}
    for setting in filter(None, rest.split(",")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise SpecError(
                f"{text!r}: {setting!r} is not of the form key=value",
                hint="write for example ping_pong:scheduling=greedy,sync=proven",
                field=key,
            )
        if key.strip() in options:
            options[key.strip()] = value.strip()
        else:
            settings.append(setting)
    for key, allowed in (("sync", SYNCS), ("reorder", ("true", "false"))):
        if options[key] not in allowed:
            raise SpecError(
                f"{text!r}: {key} is {options[key]!r}",
                hint=f"use one of {', '.join(allowed)}",
                field=key,
            )
    return argparse.Namespace(
        source=source,
        settings=settings,
        sync=options["sync"],
        reorder=options["reorder"] == "true",
    )
