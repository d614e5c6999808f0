"""``pipeloom check``: can a kernel that others wrote go wrong, and how?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeloom.cli.bars import bar
from pipeloom.cli.options import JSON, CommandUsage, option
from pipeloom.cli.printing import json_text, print_json, wrote
from pipeloom.cli.usage import UsageError, at_least, check_folder
from pipeloom.drive.checking import MOST_INSTRUCTIONS, SEEDS, Checked, check
from pipeloom.drive.correcting import Corrected, check_path, correct
from pipeloom.drive.kernel_files import open_kernel
from pipeloom.drive.timing_files import savings, time_checked, time_loosened
from pipeloom.errors import OrderError
from pipeloom.files import write_file
from pipeloom.machine_code.launch_file import load_launch, template
from pipeloom.machine_code.loop_times import KernelTiming
from pipeloom.show.check_text import render_check
from pipeloom.show.console import TerminalConsole

SIMULATED = 200_000
"""Instructions of all waves that are simulated unless told otherwise: 1.5 s or so."""
MOST_SECONDS, MOST_MEGABYTES = 600, 8192
"""Processor time and memory that one kernel may take unless told otherwise."""

USAGE = CommandUsage(
    "Run a kernel in the emulator and judge, for every timing, whether waits and barriers "
    "order all accesses to LDS, registers and global memory. Exit code 0: PROVED. 3: TIMING, "
    "some pair is unordered. 4: RACE, it meets in simulation, or every run is wrong. 6: NOT JUDGED.",
    (
        option("file", "a .hsaco, .co or .o file, or assembly (.s)", metavar="FILE"),
        option("--kernel NAME", "which, where the file holds several"),
        option("--launch LAUNCH.json", "grid, block and arguments, see --template"),
        option(
            "--template LAUNCH.json",
            "write a launch file from the kernel's metadata (default: to the terminal), to be "
            "filled in",
            nargs="?",
            const="-",
        ),
        option(
            "--seeds N",
            f"runs that try to show a race, beside the directed ones (default {SEEDS})",
            type=at_least(0),
            default=SEEDS,
        ),
        option(
            "--max-instructions N",
            "a workgroup that issues more is taken not to end: NOT JUDGED "
            f"(default {MOST_INSTRUCTIONS})",
            type=at_least(1),
            default=MOST_INSTRUCTIONS,
        ),
        option(
            "--max-seconds N",
            f"processor time of one kernel; longer is NOT JUDGED (default {MOST_SECONDS})",
            type=at_least(1),
            default=MOST_SECONDS,
        ),
        option(
            "--max-memory MB",
            f"memory of one kernel; more is NOT JUDGED (default {MOST_MEGABYTES})",
            type=at_least(1),
            default=MOST_MEGABYTES,
        ),
        option(
            "--simulate N",
            "how many instructions of all waves to simulate for the cycles of the loops, at most "
            f"(default {SIMULATED}; 0: none)",
            type=at_least(0),
            default=SIMULATED,
        ),
        option(
            "--fix OUT.s",
            "write the kernel with the missing waits and barriers put in or, where nothing is "
            "missing, with the needless ones taken out, and judge that",
        ),
        option(
            "--witness OUT.json",
            "write what the verdict rests on: the bytes of LDS by pc, why each wait is there",
        ),
        JSON,
    ),
    examples=(
        "pipeloom check k.hsaco --template launch.json",
        "pipeloom check k.hsaco --launch launch.json --fix fixed.s",
    ),
    codes={3: "TIMING", 4: "RACE, or wrong in every run", 6: "NOT JUDGED"},
)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; the exit code is its status, whatever ``--fix`` makes of the kernel."""
    if arguments.fix is not None:
        check_path(arguments.fix)
        check_folder(arguments.fix)
    if arguments.template is not None:
        file = open_kernel(arguments.file, arguments.kernel)
        text = template(file.kernel).text()
        if arguments.template == "-":
            sys.stdout.write(text)
        else:
            write_file(arguments.template, text)
            print(f"wrote {arguments.template}: fill it in, and give it by --launch")
        return 0
    if arguments.launch is None:
        _check_kernel_file(arguments.file)
        raise UsageError("--launch LAUNCH.json is needed; --template writes one to fill in")
    launch = load_launch(arguments.launch)
    file = open_kernel(arguments.file, arguments.kernel or launch.kernel or None)
    with bar(arguments, "emulating") as tell:
        checked = check(
            file,
            launch.grid,
            launch.block,
            launch.arguments(),
            dynamic_lds=launch.more_lds(),
            seeds=arguments.seeds,
            max_instructions=arguments.max_instructions,
            seconds=arguments.max_seconds,
            megabytes=arguments.max_memory,
            progress=tell,
        )
    if arguments.witness is not None:
        write_file(arguments.witness, json_text(checked.witness()))
    if arguments.json:
        fixed = _fixed(arguments, checked)
        code = _print_json(arguments, checked, fixed)
        wrote(arguments, arguments.witness, None if fixed is None else arguments.fix)
        return code
    console = TerminalConsole()
    console.print(render_check(checked.verdict))
    timing, loosened = _timings(arguments, checked)
    for line in () if timing is None else (*timing.loops, *map(_skipped, timing.skipped)):
        console.print(f"  {line}", style="bright_black", highlight=False, soft_wrap=True)
    if timing is not None and loosened is not None and savings(timing, loosened):
        console.print("  without the waits and barriers that are not needed, on the model:")
        for saving in savings(timing, loosened):
            console.print(f"    loop at {saving}", highlight=False, soft_wrap=True)
    wrote(arguments, arguments.witness)
    fixed = _fixed(arguments, checked)
    if fixed is None:
        return checked.verdict.status.exit_code
    console.print(f"\nwrote {arguments.fix}: {len(fixed.changes)} change(s)", soft_wrap=True)
    for change in fixed.changes:
        console.print(f"  {change}", soft_wrap=True, highlight=False)
    console.print(render_check(fixed.checked.verdict))
    return checked.verdict.status.exit_code


def _timings(
    arguments: argparse.Namespace, checked: Checked
) -> tuple[KernelTiming | None, KernelTiming | None]:
    """The loops as they are and without what is not needed, within one budget."""
    if not arguments.simulate:
        return None, None
    timing = time_checked(checked, budget=arguments.simulate)
    if timing is None or not timing.loops:
        return timing, None
    left = arguments.simulate - timing.spent
    return timing, time_loosened(checked, len(timing.loops), left)


def _skipped(text: str) -> str:
    return f"not simulated: {text} (--simulate raises it)"


def _check_kernel_file(path: str) -> None:
    """What is wrong with the file comes before what is wrong with the options."""
    if path.endswith(".py"):
        raise UsageError(
            f"{path} is Python: pl.check_triton(function, grid, *args) judges a function of Triton"
        )
    if not Path(path).is_file():
        open_kernel(path)


def _fixed(arguments: argparse.Namespace, checked: Checked) -> Corrected | None:
    """The fixed kernel, written; None where none is asked for, or none was found, with why."""
    if arguments.fix is None:
        return None
    try:
        fixed = correct(checked)
    except OrderError as error:
        print(f"not fixed: {error}", file=sys.stderr)
        return None
    write_file(arguments.fix, fixed.text)
    return fixed


def _print_json(arguments: argparse.Namespace, checked: Checked, fixed: Corrected | None) -> int:
    plain = checked.verdict.to_dict()
    timing, loosened = _timings(arguments, checked)
    plain["timing"] = None if timing is None else timing.to_dict()
    plain["timing_without_needless"] = None if loosened is None else loosened.to_dict()
    if fixed is not None:
        verdict = fixed.checked.verdict.to_dict()
        plain["fixed"] = {"changes": list(fixed.changes), "verdict": verdict}
    print_json(plain)
    return checked.verdict.status.exit_code
