"""``pipeloom report``: everything about one schedule as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeloom import drive, show
from pipeloom.cli.options import option
from pipeloom.cli.printing import check_ending, print_json
from pipeloom.cli.source_options import MeasuredSource, ProblemOptions
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.drive.judging import emit_note
from pipeloom.drive.reporting import TIMELINE_ITERATIONS, report
from pipeloom.files import write_file
from pipeloom.show.headers import no_loop_text
from pipeloom.show.page import fill_page
from pipeloom.show.step_rows import pace


@dataclass(frozen=True)
class ReportCommand(MeasuredSource, ProblemOptions):
    """Write one HTML file that needs no network: the simulated timeline of all waves, the
    dependence graph, LDS buffers over time, the verdict with its counterexample, the stalls and
    the knobs. Of a kernel that others wrote, with --launch, the page shows its main loop with
    its own disassembly. With --measured, a thread trace of rocprofv3 beside the simulation of
    the instructions that its waves executed, two lanes per wave.

    Examples:
        pipeloom report ping_pong -o report.html
        pipeloom report --measured folder -o measured.html
        pipeloom report k.hsaco --launch launch.json -o k.html
    """

    output: str | None = option("-o --output FILE.html")
    """the page; default: the name of the schedule or file with .html, in this folder"""
    timeline_iterations: int = option(
        "--timeline-iterations N", TIMELINE_ITERATIONS, type=at_least(1)
    )
    """trips of the loop in the timeline (default 4); the figures are from all K tiles"""

    def run(self) -> int:
        """Compile, verify, simulate, write."""
        if not self.source and not self.measured:
            raise UsageError("name what to report, or give --measured FOLDER")
        named = self.measured or self.source
        output: str = self.output or f"{_stem(named)}.html"
        check_ending(output, ".html", "an HTML page")
        if self.measured:
            return self._write_measured(output)
        if self.launch:
            return self._write_kernel(output)
        found = report(self.simulate_job(), self.timeline_iterations)
        simulation, verdict, trace = found.simulation, found.verdict, found.trace
        told = {
            "verdict": verdict.status.name,
            "simulated": trace is not None,
            "emitted": simulation.emission is not None,
            "emit": None if found.emitted is None else found.emitted.to_dict(),
        }
        figures = "not simulated: no tile shape"
        if trace is not None:
            figures = ", ".join(
                filter(None, pace(simulation.program, trace.steady_cycles_per_iteration))
            )
            if not trace.iterations:
                no_loop = no_loop_text(simulation.program)
                figures = f"{trace.total_cycles} cycles in all: {no_loop}"
        status = "" if simulation.emission else f": {verdict.status.name}"
        note = emit_note(found.emitted)
        lines = [f"{simulation.header}{status}, {figures}", *([f"note: {note}"] if note else [])]
        return self._written(output, found.page, told, lines)

    def _written(
        self,
        output: str,
        page: str,
        told: Mapping[str, Any],
        lines: Sequence[str],
    ) -> int:
        """Write the page, and say so: as data with what is ``told``, or with these lines."""
        write_file(output, page)
        size = len(page.encode("utf-8"))
        if self.json:
            print_json({"output": output, "bytes": size, **told})
        else:
            print("\n".join([f"wrote {output} ({size / 1e6:.1f} MB)", *lines]))
        return 0

    def _write_measured(self, output: str) -> int:
        overlay = self.measured_overlay()
        page = fill_page(show.overlay_page.overlay_page(overlay, self.timeline_iterations))
        lines = [show.overlay_text.overlay_summary(overlay).plain]
        return self._written(output, page, {"measured": overlay.to_dict()}, lines)

    def _write_kernel(self, output: str) -> int:
        page, timing, verdict = drive.kernel_reporting.report_file(
            self.source,
            self.launch[-1],
            self.kernel,
            iterations=self.timeline_iterations,
        )
        told = {"verdict": verdict.title, "timing": timing.to_dict()}
        lines = [f"{timing.name}: {verdict.title}, {timing.main}"]
        return self._written(output, page, told, lines)


def _stem(source: str) -> str:
    """``Name`` of ``my.py:Name``, else the name of the schedule or file."""
    return source.rpartition(":")[2] if ".py:" in source else Path(source).stem
