"""``pipeloom check``: can a kernel that others wrote go wrong, and how?"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeloom.cli.bars import bar
from pipeloom.cli.gate_options import GateOptions
from pipeloom.cli.launch_options import SizesOptions
from pipeloom.cli.options import argument, flag, option
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


@dataclass(frozen=True)
class CheckCommand(SizesOptions, GateOptions):
    """Run a kernel in the emulator and judge, for every timing, whether waits and barriers order
    all accesses to LDS, registers and global memory. Exit code 0: PROVED. 3: TIMING, some pair
    is unordered. 4: RACE, it meets in simulation, or every run is wrong. 5: PROVED, and not what
    --reference computes. 6: NOT JUDGED.

    Examples:
        pipeloom check k.hsaco --template launch.json
        pipeloom check aiter_gemm.co --sizes M=256,N=256,K=512
        pipeloom check k.hsaco --launch launch.json --fix fixed.s
        pipeloom check k.hsaco --launch launch.json --reference my.py:f
        pipeloom check dump/DIGEST/k.amdgcn --launch launch.json --override mine
        pipeloom check kernels/ --jobs 4 --baseline known.json --sarif findings.sarif

    Exit codes:
        3: TIMING
        4: RACE, or wrong in every run
        {WRONG_RESULT}: ordered, but not what --reference computes
        6: NOT JUDGED
    """

    files: tuple[str, ...] = argument("FILE", (), nargs="+")
    """a .hsaco, .co or .o file, or assembly (.s, .amdgcn); of several, or a folder, each has its
    launch beside it: k.launch.json for k.hsaco"""
    kernel: str | None = option("--kernel NAME")
    """which, where the file holds several"""
    launch: str | None = option("--launch LAUNCH.json")
    """grid, block and arguments, see --template"""
    template: str | None = option("--template LAUNCH.json", nargs="?", const="-")
    """write a launch file from the kernel's metadata (default: to the terminal), to be filled in"""
    reference: str | None = option("--reference my.py:f")
    """compare what it stores with f(buffers and numbers by name), which returns {"out": array},
    under a nominal timing and adversarial ones"""
    tolerance: float | None = option("--tolerance X", type=positive)
    """how far a number may be off, in parts of the largest one wanted (default: by the buffer's
    type; integers exactly)"""
    seeds: int = option("--seeds N", SEEDS, type=at_least(0))
    """runs that try to show a race, beside the directed ones (default {SEEDS})"""
    max_instructions: int = option("--max-instructions N", MOST_INSTRUCTIONS, type=at_least(1))
    """a workgroup that issues more is taken not to end: NOT JUDGED (default {MOST_INSTRUCTIONS})"""
    max_seconds: int = option("--max-seconds N", MOST_SECONDS, type=at_least(1))
    """processor time of one kernel; longer is NOT JUDGED (default {MOST_SECONDS})"""
    max_memory: int = option("--max-memory MB", MOST_MEGABYTES, type=at_least(1))
    """memory of one kernel; more is NOT JUDGED (default {MOST_MEGABYTES})"""
    simulate: int = option("--simulate N", SIMULATED, type=at_least(0))
    """how many instructions of all waves to simulate for the cycles of the loops, at most
    (default {SIMULATED}; 0: none)"""
    fix: str | None = option("--fix OUT.s")
    """write the kernel with the missing waits and barriers put in or, where nothing is missing,
    with the needless ones taken out, and judge that"""
    override: str | None = option("--override FOLDER")
    """put the fixed kernel back into Triton: FILE is that of a dump (TRITON_KERNEL_DUMP=1), and
    FOLDER/override.env sets what makes Triton take it"""
    witness: str | None = option("--witness OUT.json")
    """write what the verdict rests on: the bytes of LDS by pc, why each wait is there"""
    jobs: int = option("--jobs N", 1, type=at_least(1))
    """processes, for several files (default: 1)"""
    no_store: bool = flag()
    """for several files: judge again what the store has a judgement of"""

    @property
    def file(self) -> str:
        """The first, where it is about one."""
        return self.files[0]

    def run(self) -> int:
        """Print the verdict; the exit code is its status, whatever ``--fix`` makes of it."""
        gate = self.gate_of()
        paths = self.files
        if len(paths) > 1 or Path(paths[0]).is_dir():
            return self._many(gate)
        if self.fix is not None:
            check_path(self.fix)
            check_folder(self.fix)
        if self.override is not None:
            dump_digest(self.file)
        if self.template is not None:
            text = self._template()
            if self.template == "-":
                sys.stdout.write(text)
            else:
                write_file(self.template, text)
                print(f"wrote {self.template}: fill it in, and give it by --launch")
            return 0
        if self.launch is None and Path(launch_beside(self.file)).is_file():
            return replace(self, launch=launch_beside(self.file)).run()
        if self.launch is None and not self.sizes:
            _check_kernel_file(self.file)
            raise UsageError(
                "--launch LAUNCH.json is needed; --template writes one to fill in, and of kernels "
                "of known families --sizes is enough"
            )
        file, launch = self._opened()
        compared = self._compared(file, launch)
        checked = self._checked(file, launch)
        self._show(checked, compared)
        report, code = of_check(checked.verdict, self.file), checked.verdict.status.exit_code
        if compared is not None and not compared.agrees:
            ordered = checked.verdict.status is CheckStatus.PROVED
            report = with_wrong_result(
                report, f"{compared.summary(ordered)}; {compared.lines()[0]}"
            )
            code = code or WRONG_RESULT
        return self.conclude(gate, (report,), code)

    def _template(self) -> str:
        """A launch file to be filled in; drafted where sizes or a family are given."""
        file = open_kernel(self.file, self.kernel)
        if self.sizes or self.family is not None:
            return draft_launch(file, self.sizes_of(), family=self.family).text()
        return template(file.kernel).text()

    def _opened(self) -> tuple[KernelFile, LaunchSpec]:
        """The kernel and its launch: that of a file, or one drafted for the sizes."""
        if self.launch is None:
            file = open_kernel(self.file, self.kernel)
            return file, draft_launch(file, self.sizes_of(), family=self.family).launch()
        if self.family is not None:
            raise UsageError("--family is for a launch that is drafted, not for --launch")
        launch = load_launch(self.launch, self.sizes_of())
        return open_kernel(self.file, self.kernel or launch.kernel or None), launch

    def _many(self, gate: FindingGate) -> int:
        """A line per kernel, and its findings; the exit code is the worst."""
        for name in ("fix", "override", "witness", "template", "launch", "kernel", "sizes"):
            if getattr(self, name):
                raise UsageError(f"--{name} is for one file, not for several or a folder")
        jobs = [
            CheckJob(path, launch_beside(path), effort=self._effort(look_for_needless=False))
            for path in kernel_files(self.files)
        ]
        store = None if self.no_store else Store.usual()
        with bar(self, "checking", len(jobs)) as tell:
            reports = check_many(
                jobs,
                workers=self.jobs,
                store=store,
                tell=lambda text, done, total: tell(f"{done}/{total} {text}", done, total),
            )
        if self.json:
            print_json({"kernels": [report.to_dict() for report in reports]})
        else:
            TerminalConsole().print(render_reports(reports))
        return self.conclude(gate, reports, FindingGate().judge(reports).exit_code)

    def _compared(self, file: KernelFile, launch: LaunchSpec) -> ReferenceResult | None:
        if self.reference is None:
            if self.tolerance is not None:
                raise UsageError("--tolerance is for --reference")
            return None
        with bar(self, "comparing"):
            effort = self._effort(seeds=min(self.seeds, COMPARED))
            return compare_with(self.reference, file, launch, self.tolerance, effort)

    def _effort(self, **changes: Any) -> CheckEffort:
        effort = CheckEffort(
            self.seeds,
            self.max_instructions,
            seconds=self.max_seconds,
            megabytes=self.max_memory,
        )
        return replace(effort, **changes)

    def _checked(self, file: KernelFile, launch: LaunchSpec) -> Checked:
        with bar(self, "emulating") as tell:
            return check_start(file, Start.of(launch), self._effort(), tell)

    def _show(self, checked: Checked, compared: ReferenceResult | None) -> None:
        if self.witness is not None:
            write_file(self.witness, json_text(checked.witness()))
        if self.json:
            fixed = self._fixed(checked)
            placed = self._put_back(checked, fixed)
            self._print_json(checked, fixed, placed, compared)
            text, code = None if fixed is None else self.fix, placed.file if placed else None
            wrote(self, self.witness, text, code)
            return
        console = TerminalConsole()
        console.print(render_check(checked.verdict))
        if compared is not None:
            style = "bold green" if compared.agrees else "bold red"
            said = compared.summary(checked.verdict.status is CheckStatus.PROVED)
            console.print(f"\n{said}", style=style, highlight=False, soft_wrap=True)
            for text in compared.lines():
                console.print(f"  {text}", highlight=False, soft_wrap=True)
        timing, loosened = self._timings(checked)
        for line in () if timing is None else (*timing.loops, *map(_skipped, timing.skipped)):
            console.print(f"  {line}", style="bright_black", highlight=False, soft_wrap=True)
        if timing is not None and loosened is not None and savings(timing, loosened):
            console.print("  without the waits and barriers that are not needed, on the model:")
            for saving in savings(timing, loosened):
                console.print(f"    loop at {saving}", highlight=False, soft_wrap=True)
        wrote(self, self.witness)
        fixed = self._fixed(checked)
        if fixed is None:
            return
        where = "" if self.fix is None else f"wrote {self.fix}: "
        console.print(f"\n{where}{len(fixed.changes)} change(s)", soft_wrap=True)
        for change in fixed.changes:
            console.print(f"  {change}", soft_wrap=True, highlight=False)
        console.print(render_check(fixed.checked.verdict))
        placed = self._put_back(checked, fixed)
        if placed is not None:
            print(f"\nwrote {placed.file}\nTriton takes it once these are set (. {placed.script}):")
            for name, value in placed.environment.items():
                print(f"  {name}={value}")
            print(f"for every chip and number of warps: use it with {_launched(checked)} alone")

    def _timings(self, checked: Checked) -> tuple[KernelTiming | None, KernelTiming | None]:
        """The loops as they are and without what is not needed, within one budget."""
        if not self.simulate:
            return None, None
        timing = time_checked(checked, budget=self.simulate)
        if timing is None or not timing.loops:
            return timing, None
        left = self.simulate - timing.spent
        return timing, time_loosened(checked, len(timing.loops), left)

    def _fixed(self, checked: Checked) -> Corrected | None:
        """The fixed kernel, written; None where none is asked for, or none was found, with why."""
        if self.fix is None and self.override is None:
            return None
        try:
            fixed = correct(checked)
        except OrderError as error:
            print(f"not fixed: {error}", file=sys.stderr)
            return None
        if self.fix is not None:
            write_file(self.fix, fixed.text)
        return fixed

    def _put_back(self, checked: Checked, fixed: Corrected | None) -> PlacedOverride | None:
        """The fixed kernel where Triton looks for it; None if nobody asked, or it is not PROVED."""
        if self.override is None or fixed is None:
            return None
        try:
            return put_back(fixed, checked, self.file, self.override)
        except OrderError as error:
            print(f"not put back: {error}", file=sys.stderr)
            return None

    def _print_json(
        self,
        checked: Checked,
        fixed: Corrected | None,
        placed: PlacedOverride | None,
        compared: ReferenceResult | None,
    ) -> None:
        plain = checked.verdict.to_dict()
        if compared is not None:
            plain["reference"] = compared.to_dict()
        timing, loosened = self._timings(checked)
        plain["timing"] = None if timing is None else timing.to_dict()
        plain["timing_without_needless"] = None if loosened is None else loosened.to_dict()
        if fixed is not None:
            verdict = fixed.checked.verdict.to_dict()
            plain["fixed"] = {"changes": list(fixed.changes), "verdict": verdict}
        if placed is not None:
            plain["override"] = {"file": str(placed.file), "environment": dict(placed.environment)}
        print_json(plain)


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


def _launched(checked: Checked) -> str:
    waves = -(-math.prod(checked.start.block) // 64)
    return f"{checked.file.kernel.arch} and num_warps={waves}"
