"""``pipeloom check``: can a kernel that others wrote go wrong, and how?"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeloom.cli.bars import bar
from pipeloom.cli.gate_options import GATE, conclude, gate_of
from pipeloom.cli.launch_options import FAMILY, SIZES, sizes_of
from pipeloom.cli.options import JSON, CommandUsage, flag, option
from pipeloom.cli.printing import json_text, print_json, wrote
from pipeloom.cli.usage import WRONG_RESULT, UsageError, at_least, check_folder, positive
from pipeloom.drive.checking import MOST_INSTRUCTIONS, SEEDS, Checked, CheckEffort, check_start
from pipeloom.drive.checking_many import CheckJob, check_many, kernel_files, launch_beside
from pipeloom.drive.correcting import Corrected, check_path, correct
from pipeloom.drive.kernel_files import KernelFile, Start, open_kernel
from pipeloom.drive.launch_drafts import draft_launch
from pipeloom.drive.referencing import SEEDS as COMPARED
from pipeloom.drive.referencing import ReferenceResult, compare_with
from pipeloom.drive.store import Store
from pipeloom.drive.timing_files import savings, time_checked, time_loosened
from pipeloom.drive.triton_override import PlacedOverride, dump_digest, put_back
from pipeloom.errors import OrderError
from pipeloom.files import write_file
from pipeloom.judge.check.verdict import CheckStatus
from pipeloom.machine_code.launch_file import LaunchSpec, load_launch
from pipeloom.machine_code.launch_template import template
from pipeloom.machine_code.loop_times import KernelTiming
from pipeloom.reports.fail_rules import FindingGate
from pipeloom.reports.from_judges import of_check, with_wrong_result
from pipeloom.show.check_text import render_check, render_reports
from pipeloom.show.console import TerminalConsole

SIMULATED = 120_000
"""Instructions of all waves that are simulated unless told otherwise: 1 s or so."""
MOST_SECONDS, MOST_MEGABYTES = 600, 8192
"""Processor time and memory that one kernel may take unless told otherwise."""

USAGE = CommandUsage(
    "Run a kernel in the emulator and judge, for every timing, whether waits and barriers "
    "order all accesses to LDS, registers and global memory. Exit code 0: PROVED. 3: TIMING, "
    "some pair is unordered. 4: RACE, it meets in simulation, or every run is wrong. "
    "5: PROVED, and not what --reference computes. 6: NOT JUDGED.",
    (
        option(
            "files",
            "a .hsaco, .co or .o file, or assembly (.s, .amdgcn); of several, or a folder, each "
            "has its launch beside it: k.launch.json for k.hsaco",
            metavar="FILE",
            nargs="+",
        ),
        option("--kernel NAME", "which, where the file holds several"),
        option("--launch LAUNCH.json", "grid, block and arguments, see --template"),
        SIZES,
        FAMILY,
        option(
            "--template LAUNCH.json",
            "write a launch file from the kernel's metadata (default: to the terminal), to be "
            "filled in",
            nargs="?",
            const="-",
        ),
        option(
            "--reference my.py:f",
            "compare what it stores with f(buffers and numbers by name), which returns "
            '{"out": array}, under a nominal timing and adversarial ones',
        ),
        option(
            "--tolerance X",
            "how far a number may be off, in parts of the largest one wanted (default: by the "
            "buffer's type; integers exactly)",
            type=positive,
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
            "--override FOLDER",
            "put the fixed kernel back into Triton: FILE is that of a dump "
            "(TRITON_KERNEL_DUMP=1), and FOLDER/override.env sets what makes Triton take it",
        ),
        option(
            "--witness OUT.json",
            "write what the verdict rests on: the bytes of LDS by pc, why each wait is there",
        ),
        option(
            "--jobs N", "processes, for several files (default: 1)", type=at_least(1), default=1
        ),
        flag("--no-store", "for several files: judge again what the store has a judgement of"),
        GATE,
        JSON,
    ),
    examples=(
        "pipeloom check k.hsaco --template launch.json",
        "pipeloom check aiter_gemm.co --sizes M=256,N=256,K=512",
        "pipeloom check k.hsaco --launch launch.json --fix fixed.s",
        "pipeloom check k.hsaco --launch launch.json --reference my.py:f",
        "pipeloom check dump/DIGEST/k.amdgcn --launch launch.json --override mine",
        "pipeloom check kernels/ --jobs 4 --baseline known.json --sarif findings.sarif",
    ),
    codes={
        3: "TIMING",
        4: "RACE, or wrong in every run",
        WRONG_RESULT: "ordered, but not what --reference computes",
        6: "NOT JUDGED",
    },
)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; the exit code is its status, whatever ``--fix`` makes of the kernel."""
    gate = gate_of(arguments)
    paths = arguments.files
    if len(paths) > 1 or Path(paths[0]).is_dir():
        return _many(arguments, gate)
    arguments.file = paths[0]
    if arguments.fix is not None:
        check_path(arguments.fix)
        check_folder(arguments.fix)
    if arguments.override is not None:
        dump_digest(arguments.file)
    if arguments.template is not None:
        text = _template(arguments)
        if arguments.template == "-":
            sys.stdout.write(text)
        else:
            write_file(arguments.template, text)
            print(f"wrote {arguments.template}: fill it in, and give it by --launch")
        return 0
    if arguments.launch is None and Path(launch_beside(arguments.file)).is_file():
        arguments.launch = launch_beside(arguments.file)
    if arguments.launch is None and not arguments.sizes:
        _check_kernel_file(arguments.file)
        raise UsageError(
            "--launch LAUNCH.json is needed; --template writes one to fill in, and of kernels of "
            "known families --sizes is enough"
        )
    file, launch = _opened(arguments)
    compared = _compared(arguments, file, launch)
    checked = _checked(arguments, file, launch)
    _show(arguments, checked, compared)
    report, code = of_check(checked.verdict, arguments.file), checked.verdict.status.exit_code
    if compared is not None and not compared.agrees:
        ordered = checked.verdict.status is CheckStatus.PROVED
        report = with_wrong_result(report, f"{compared.summary(ordered)}; {compared.lines()[0]}")
        code = code or WRONG_RESULT
    return conclude(arguments, gate, (report,), code)


def _template(arguments: argparse.Namespace) -> str:
    """A launch file to be filled in; drafted where sizes or a family are given."""
    file = open_kernel(arguments.file, arguments.kernel)
    if arguments.sizes or arguments.family is not None:
        return draft_launch(file, sizes_of(arguments), family=arguments.family).text()
    return template(file.kernel).text()


def _opened(arguments: argparse.Namespace) -> tuple[KernelFile, LaunchSpec]:
    """The kernel and its launch: that of a file, or one drafted for the sizes."""
    if arguments.launch is None:
        file = open_kernel(arguments.file, arguments.kernel)
        return file, draft_launch(file, sizes_of(arguments), family=arguments.family).launch()
    if arguments.family is not None:
        raise UsageError("--family is for a launch that is drafted, not for --launch")
    launch = load_launch(arguments.launch, sizes_of(arguments))
    return open_kernel(arguments.file, arguments.kernel or launch.kernel or None), launch


def _many(arguments: argparse.Namespace, gate: FindingGate) -> int:
    """A line per kernel, and its findings; the exit code is the worst."""
    for name in ("fix", "override", "witness", "template", "launch", "kernel", "sizes"):
        if getattr(arguments, name):
            raise UsageError(f"--{name} is for one file, not for several or a folder")
    jobs = [
        CheckJob(path, launch_beside(path), effort=_effort(arguments, look_for_needless=False))
        for path in kernel_files(arguments.files)
    ]
    store = None if arguments.no_store else Store.usual()
    with bar(arguments, "checking", len(jobs)) as tell:
        reports = check_many(
            jobs,
            workers=arguments.jobs,
            store=store,
            tell=lambda text, done, total: tell(f"{done}/{total} {text}", done, total),
        )
    if arguments.json:
        print_json({"kernels": [report.to_dict() for report in reports]})
    else:
        TerminalConsole().print(render_reports(reports))
    return conclude(arguments, gate, reports, FindingGate().judge(reports).exit_code)


def _compared(
    arguments: argparse.Namespace, file: KernelFile, launch: LaunchSpec
) -> ReferenceResult | None:
    if arguments.reference is None:
        if arguments.tolerance is not None:
            raise UsageError("--tolerance is for --reference")
        return None
    with bar(arguments, "comparing"):
        effort = _effort(arguments, seeds=min(arguments.seeds, COMPARED))
        return compare_with(arguments.reference, file, launch, arguments.tolerance, effort)


def _effort(arguments: argparse.Namespace, **changes: Any) -> CheckEffort:
    effort = CheckEffort(
        arguments.seeds,
        arguments.max_instructions,
        seconds=arguments.max_seconds,
        megabytes=arguments.max_memory,
    )
    return replace(effort, **changes)


def _checked(arguments: argparse.Namespace, file: KernelFile, launch: LaunchSpec) -> Checked:
    with bar(arguments, "emulating") as tell:
        return check_start(file, Start.of(launch), _effort(arguments), tell)


def _show(
    arguments: argparse.Namespace, checked: Checked, compared: ReferenceResult | None
) -> None:
    if arguments.witness is not None:
        write_file(arguments.witness, json_text(checked.witness()))
    if arguments.json:
        fixed = _fixed(arguments, checked)
        placed = _put_back(arguments, checked, fixed)
        _print_json(arguments, checked, fixed, placed, compared)
        text, code = None if fixed is None else arguments.fix, placed.file if placed else None
        wrote(arguments, arguments.witness, text, code)
        return
    console = TerminalConsole()
    console.print(render_check(checked.verdict))
    if compared is not None:
        style = "bold green" if compared.agrees else "bold red"
        said = compared.summary(checked.verdict.status is CheckStatus.PROVED)
        console.print(f"\n{said}", style=style, highlight=False, soft_wrap=True)
        for text in compared.lines():
            console.print(f"  {text}", highlight=False, soft_wrap=True)
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
        return
    where = "" if arguments.fix is None else f"wrote {arguments.fix}: "
    console.print(f"\n{where}{len(fixed.changes)} change(s)", soft_wrap=True)
    for change in fixed.changes:
        console.print(f"  {change}", soft_wrap=True, highlight=False)
    console.print(render_check(fixed.checked.verdict))
    placed = _put_back(arguments, checked, fixed)
    if placed is not None:
        print(f"\nwrote {placed.file}\nTriton takes it once these are set (. {placed.script}):")
        for name, value in placed.environment.items():
            print(f"  {name}={value}")
        print(f"for every chip and number of warps: use it with {_launched(checked)} alone")


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
    if arguments.fix is None and arguments.override is None:
        return None
    try:
        fixed = correct(checked)
    except OrderError as error:
        print(f"not fixed: {error}", file=sys.stderr)
        return None
    if arguments.fix is not None:
        write_file(arguments.fix, fixed.text)
    return fixed


def _put_back(
    arguments: argparse.Namespace, checked: Checked, fixed: Corrected | None
) -> PlacedOverride | None:
    """The fixed kernel where Triton looks for it; None if nobody asked, or it is not PROVED."""
    if arguments.override is None or fixed is None:
        return None
    try:
        return put_back(fixed, checked, arguments.file, arguments.override)
    except OrderError as error:
        print(f"not put back: {error}", file=sys.stderr)
        return None


def _launched(checked: Checked) -> str:
    waves = -(-math.prod(checked.start.block) // 64)
    return f"{checked.file.kernel.arch} and num_warps={waves}"


def _print_json(
    arguments: argparse.Namespace,
    checked: Checked,
    fixed: Corrected | None,
    placed: PlacedOverride | None,
    compared: ReferenceResult | None,
) -> None:
    plain = checked.verdict.to_dict()
    if compared is not None:
        plain["reference"] = compared.to_dict()
    timing, loosened = _timings(arguments, checked)
    plain["timing"] = None if timing is None else timing.to_dict()
    plain["timing_without_needless"] = None if loosened is None else loosened.to_dict()
    if fixed is not None:
        verdict = fixed.checked.verdict.to_dict()
        plain["fixed"] = {"changes": list(fixed.changes), "verdict": verdict}
    if placed is not None:
        plain["override"] = {"file": str(placed.file), "environment": dict(placed.environment)}
    print_json(plain)
