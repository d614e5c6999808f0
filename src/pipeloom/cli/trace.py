"""``pipeloom trace``: the simulated run as a file for a viewer, or a measured one laid over it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeloom.cli.options import option
from pipeloom.cli.printing import check_ending, print_json, wrote
from pipeloom.cli.source_options import MeasuredSource
from pipeloom.cli.usage import UsageError
from pipeloom.drive.measuring import emitted_trace_files
from pipeloom.drive.simulating import prepare
from pipeloom.drive.timing_files import launched, time_start
from pipeloom.files import write_file, write_files
from pipeloom.judge.simulate import Trace
from pipeloom.show.chrome_trace import chrome_trace
from pipeloom.show.console import TerminalConsole
from pipeloom.show.overlay_text import render_overlay

SHOWN = 8
"""Iterations of a kernel file's main loop in a trace."""


@dataclass(frozen=True)
class TraceCommand(MeasuredSource):
    """Write what pipeloom simulate computes as a trace: one track per wave and unit, arrows from
    every load to the wait that guarantees it; with --emitted of the emitted kernel, with
    --launch of the main loop of a kernel file. Open the file at https://ui.perfetto.dev or in
    chrome://tracing; one microsecond there is one cycle. With --measured, print a thread trace
    of rocprofv3 beside the simulation of the instructions that its waves executed, and write
    both as two lanes per wave.

    Examples:
        pipeloom trace ping_pong -o trace.json
        pipeloom trace ping_pong --emitted --format rocprof -o folder
        pipeloom trace --measured folder -o both.json
    """

    output: str | None = option("-o --output FILE.json")
    """the trace; with --measured it may be left out"""
    format: str = option("--format", "perfetto", choices=("perfetto", "rocprof"))
    """perfetto: one JSON file; rocprof: a folder as rocprofv3 --att writes it, for its viewers,
    of an emitted kernel (default perfetto)"""

    def run(self) -> int:
        """Simulate, write the file, say what is in it."""
        if self.measured:
            return self._lay_over()
        if self.output is None:
            raise UsageError("the following self are required: -o/--output")
        if not self.source:
            raise UsageError("name what to simulate, or give --measured FOLDER")
        if self.format == "rocprof":
            return self._write_folder(self.output)
        check_ending(self.output, ".json", "a trace in JSON")
        emitted = False
        if self.launch:
            timing = time_start(*launched(self.source, self.launch[-1], self.kernel))
            trace, header = timing.shown(SHOWN), str(timing.main)
        else:
            simulation = prepare(self.simulate_job())
            trace, header = simulation.run(), simulation.header
            emitted = simulation.emission is not None
        text = chrome_trace(trace, title=str(self.source))
        write_file(self.output, text)
        where = "open it at https://ui.perfetto.dev"
        return self._said(trace, len(text.encode("utf-8")), f"{header}, ", where, emitted)

    def _write_folder(self, folder: str) -> int:
        simulation = prepare(self.simulate_job())
        if simulation.emission is None:
            raise UsageError("--format rocprof is of an emitted kernel: add --emitted")
        trace = simulation.run()
        files = emitted_trace_files(simulation.emission.kernel, trace)
        write_files({Path(folder) / name: content for name, content in files.items()})
        size = sum(len(content) for content in files.values())
        where = "pipeloom trace --measured reads it, and viewers of rocprofv3's traces"
        return self._said(trace, size, f"{simulation.header}, ", where, True)

    def _said(self, trace: Trace, size: int, header: str, where: str, emitted: bool) -> int:
        figures = {
            "output": self.output,
            "bytes": size,
            "waves": len(trace.programs),
            "instructions": len(trace.events),
            "total_cycles": trace.total_cycles,
            "emitted": emitted,
        }
        if self.json:
            print_json(figures)
            return 0
        print(
            f"wrote {self.output}: {header}"
            f"{len(trace.programs)} waves, {len(trace.events)} instructions, "
            f"{trace.total_cycles} cycles; {where}"
        )
        return 0

    def _lay_over(self) -> int:
        overlay = self.measured_overlay()
        if self.output is not None:
            check_ending(self.output, ".json", "a trace in JSON")
            simulated, measured = overlay.aligned()
            write_file(self.output, chrome_trace(simulated, overlay.kernel, measured))
        if self.json:
            print_json(overlay.to_dict())
            return 0
        console = TerminalConsole()
        console.print(render_overlay(overlay, width=min(console.width, 120)))
        wrote(self, self.output)
        return 0
