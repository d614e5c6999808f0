"""``pipeloom scan``: every kernel of a library, along every path, without a launch."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.cli.bars import bar
from pipeloom.cli.gate_options import GateOptions
from pipeloom.cli.options import argument, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.usage import at_least
from pipeloom.drive.scanning import MEGABYTES, SECONDS, scan
from pipeloom.reports.from_judges import of_scan
from pipeloom.show.console import TerminalConsole
from pipeloom.show.scan_text import render_scan


@dataclass(frozen=True)
class ScanCommand(GateOptions):
    """Look along every path of every kernel for registers and LDS that are used while an
    operation is in flight, for missing wait states and for waits that wait for nothing. No
    launch is needed. Exit code 0: no defect. 3: possible ones only. 4: definite ones. 6: none,
    but a kernel was not judged.

    Examples:
        pipeloom scan kernel.hsaco
        pipeloom scan ~/.triton/cache libkernels.a --jobs 8 --json > findings.json

    Exit codes:
        3: possible defects only
        4: definite defects
        6: none, but not all judged
    """

    paths: tuple[str, ...] = argument("PATH", (), nargs="+")
    """code objects (.co, .hsaco, .o), assembly (.s), offload bundles, archives (.a, .tar),
    programs and libraries with device code, folders, a Triton cache"""
    launch: str | None = option("--launch LAUNCH.json")
    """confirm definite findings by runs of the emulator at this launch (default: k.launch.json
    beside k.hsaco, where there is one)"""
    jobs: int = option("--jobs N", 1, type=at_least(1))
    """processes (default: 1)"""
    seconds: int = option("--seconds N", SECONDS, type=at_least(1))
    """of one core, for one kernel (default: {SECONDS})"""
    megabytes: int = option("--megabytes N", MEGABYTES, type=at_least(1))
    """memory of one process, with --jobs 2 or more (default: {MEGABYTES})"""
    most: int = option("--most N", 6, type=at_least(0))
    """findings of each kernel that are printed, of either class (default: 6)"""

    def run(self) -> int:
        """Print the findings; the exit code is the worst."""
        gate = self.gate_of()
        with bar(self, "scanning") as tell:
            report = scan(
                self.paths,
                launch=self.launch,
                jobs=self.jobs,
                seconds=self.seconds,
                megabytes=self.megabytes,
                progress=lambda text, done, total: tell(f"{done}/{total} {text}", done, total),
            )
        if self.json:
            print_json(report.to_dict())
        else:
            text = render_scan(report.kernels, most=self.most)
            TerminalConsole().print(text, soft_wrap=True, highlight=False)
        reports = [of_scan(one) for one in report.kernels]
        return self.conclude(gate, reports, report.exit_code)
