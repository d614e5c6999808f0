"""``pipeloom scan``: every kernel of a library, along every path, without a launch."""

from __future__ import annotations

import argparse

from pipeloom.cli.bars import bar
from pipeloom.cli.gate_options import GATE, conclude, gate_of
from pipeloom.cli.options import JSON, CommandUsage, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.usage import at_least
from pipeloom.drive.scanning import MEGABYTES, SECONDS, scan
from pipeloom.reports.from_judges import of_scan
from pipeloom.show.console import TerminalConsole
from pipeloom.show.scan_text import render_scan

USAGE = CommandUsage(
    "Look along every path of every kernel for registers and LDS that are used while an operation "
    "is in flight, for missing wait states and for waits that wait for nothing. No launch is "
    "needed. Exit code 0: no defect. 3: possible ones only. 4: definite ones. 6: none, but a "
    "kernel was not judged.",
    (
        option(
            "paths",
            "code objects (.co, .hsaco, .o), assembly (.s), offload bundles, archives (.a, .tar), "
            "programs and libraries with device code, folders, a Triton cache",
            metavar="PATH",
            nargs="+",
        ),
        option(
            "--launch LAUNCH.json",
            "confirm definite findings by runs of the emulator at this launch (default: "
            "k.launch.json beside k.hsaco, where there is one)",
        ),
        option("--jobs N", "processes (default: 1)", type=at_least(1), default=1),
        option(
            "--seconds N",
            f"of one core, for one kernel (default: {SECONDS})",
            type=at_least(1),
            default=SECONDS,
        ),
        option(
            "--megabytes N",
            f"memory of one process, with --jobs 2 or more (default: {MEGABYTES})",
            type=at_least(1),
            default=MEGABYTES,
        ),
        option(
            "--most N",
            "findings of each kernel that are printed, of either class (default: 6)",
            type=at_least(0),
            default=6,
        ),
        GATE,
        JSON,
    ),
    examples=(
        "pipeloom scan kernel.hsaco",
        "pipeloom scan ~/.triton/cache libkernels.a --jobs 8 --json > findings.json",
    ),
    codes={3: "possible defects only", 4: "definite defects", 6: "none, but not all judged"},
)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; the exit code is the worst."""
    gate = gate_of(arguments)
    with bar(arguments, "scanning") as tell:
        report = scan(
            arguments.paths,
            launch=arguments.launch,
            jobs=arguments.jobs,
            seconds=arguments.seconds,
            megabytes=arguments.megabytes,
            progress=lambda text, done, total: tell(f"{done}/{total} {text}", done, total),
        )
    if arguments.json:
        print_json(report.to_dict())
    else:
        text = render_scan(report.kernels, most=arguments.most)
        TerminalConsole().print(text, soft_wrap=True, highlight=False)
    reports = [of_scan(one) for one in report.kernels]
    return conclude(arguments, gate, reports, report.exit_code)
