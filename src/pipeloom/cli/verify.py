"""``pipeloom verify``: can this schedule race, for any trip count?"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.cli.gate_options import GateOptions
from pipeloom.cli.options import flag
from pipeloom.cli.printing import print_json, say
from pipeloom.cli.source_options import ArchOptions, CompiledSource, SyncOptions, TileOptions
from pipeloom.drive.judging import emit_note, judge
from pipeloom.judge.verify import Status
from pipeloom.reports.from_judges import of_verify
from pipeloom.show.console import TerminalConsole
from pipeloom.show.verdict_text import render_verdict


@dataclass(frozen=True)
class VerifyCommand(CompiledSource, TileOptions, ArchOptions, SyncOptions, GateOptions):
    """Check every wave, every region of LDS and every trip count under the memory model of
    wait-counter machines. Exit code 0: PROVED. 3: TIMING, nothing orders two accesses. 4: RACE,
    they meet in simulation, or the result is always wrong.

    Examples:
        pipeloom verify ping_pong
        pipeloom verify ping_pong --tile 192x256x64 --sync repaired --reorder
        pipeloom verify my.py:Name --json

    Exit codes:
        3: TIMING
        4: RACE
    """

    counter_stall: bool = flag()
    """assume that an issue past a counter's limit (63 vmcnt, 15 lgkmcnt) stalls until the oldest
    access is done, which then needs no wait; no vendor says so"""

    def run(self) -> int:
        """Print the verdict; the exit code is its status."""
        gate = self.gate_of()
        found = judge(self.asked(), counter_stall=self.counter_stall or None)
        opened, verdict = found.opened, found.verdict
        say((*opened.arch_unused(), *opened.notes(), *opened.remarks()))
        if self.json:
            form = None if found.emitted is None else found.emitted.to_dict()
            print_json({**verdict.to_dict(), "tile": opened.tile_text(), "emit": form})
        else:
            console = TerminalConsole()
            console.print(render_verdict(verdict, subtitle=opened.header()))
            note = opened.race_note()
            if note and verdict.status is Status.RACE:
                console.print(f"\n{note}")
            if written := emit_note(found.emitted):
                console.print(f"\nnote: {written}", soft_wrap=True)
        report = of_verify(verdict, str(self.source), found.program.target.arch)
        return self.conclude(gate, (report,), verdict.status.exit_code)
