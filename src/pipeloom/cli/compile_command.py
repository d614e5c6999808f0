"""``pipeloom compile``: the compiled schedule as JSON."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pipeloom.cli.common import exit_code, say_untiled
from pipeloom.cli.options import flag, option
from pipeloom.cli.printing import say, wrote
from pipeloom.cli.source_options import ArchOptions, SourceOptions, SyncOptions, TileOptions
from pipeloom.drive.fixing import notes_of
from pipeloom.files import write_file
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import Phase


@dataclass(frozen=True)
class CompileCommand(SourceOptions, TileOptions, ArchOptions, SyncOptions):
    """Derive order, waits, barriers, prologue, kernel and epilogue. Prints one line of summary;
    with --json or -o the whole compiled schedule (of a loop, the program), byte-stable.

    Examples:
        pipeloom compile ping_pong --set scheduling=greedy -o out.json
    """

    json: bool = flag()
    """the compiled schedule on stdout"""
    output: str | None = option("-o --output FILE")
    """write the compiled schedule here"""

    def run(self) -> int:
        """Compile, then write what was asked for."""
        found = self.opened()
        written = found.written()
        text = written.to_json()
        if self.output:
            write_file(self.output, text)
            say_untiled(written)
        if self.json:
            sys.stdout.write(text)
            wrote(self, self.output)
            return exit_code(found)
        print(_summary(written) if isinstance(written, Program) else _schedule_summary(written))
        print(found.tile_text())
        say(notes_of(written))
        wrote(self, self.output)
        return exit_code(found)


def _schedule_summary(compiled: CompiledSchedule) -> str:
    c = compiled.certificate
    sizes = ", ".join(f"{p.name.lower()} {len(compiled.phase(p))}" for p in Phase)
    proved = "proved optimal" if c.proved else f"lower bound {c.lower_bound}"
    return f"{compiled.schedule}: {sizes}; {c.strategy} {c.measure} {c.makespan} ({proved})"


def _summary(program: Program) -> str:
    sizes = ", ".join(f"{s.name} {len(s.steps)}" for s in program.groups[0].sections)
    ordered = program.provenance.ordered
    if ordered is None or ordered.cycles is None:
        return f"{program.name}: {sizes}"
    proved = "proved optimal" if ordered.proved else f"lower bound {ordered.bound}"
    return f"{program.name}: {sizes}; {ordered.strategy} II {ordered.cycles} cycles ({proved})"
