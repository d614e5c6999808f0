"""``pipeloom show``: a schedule block by block."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pipeloom.cli.common import exit_code
from pipeloom.cli.printing import print_json
from pipeloom.cli.source_options import ArchOptions, SourceOptions, SyncOptions, TileOptions
from pipeloom.drive.emitting import emitted_form
from pipeloom.drive.judging import emit_note
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import Phase
from pipeloom.reference.words import Labels
from pipeloom.show.console import TerminalConsole
from pipeloom.show.terminal import render_program


@dataclass(frozen=True)
class ShowCommand(SourceOptions, TileOptions, ArchOptions, SyncOptions):
    """Show prologue, kernel and epilogue. A row is one MMA with everything issued since the
    previous one, in issue order: load A[1,0] k+1 is a global load of operand A into LDS stage 1,
    half 0, of the K tile one after the loop variable; frag a fragment load from LDS to
    registers.

    Examples:
        pipeloom show ping_pong
        pipeloom show four_wave --sync repaired --reorder
        pipeloom show gemm_tile --tile 128x128x64 --dtype fp16
    """

    def run(self) -> int:
        """Print the tables, or the same as data."""
        found = self.opened()
        code = exit_code(found)
        emitted = None if code else emitted_form(found.source)
        if self.json:
            compiled = found.schedule()
            if compiled is None:
                print_json(found.program().to_dict())
                return code
            form = None if emitted is None else emitted.to_dict()
            print_json({**_as_data(compiled), "tile": found.tile_text(), "emit": form})
            return code
        console = TerminalConsole()
        console.print(render_program(found.program(), tile=found.tile_text()))
        if note := emit_note(emitted):
            console.print(f"note: {note}", soft_wrap=True)
        return code


def _as_data(compiled: CompiledSchedule) -> dict[str, object]:
    labels = Labels(compiled)
    return {
        "schedule": compiled.schedule,
        "certificate": asdict(compiled.certificate),
        "phases": {p.name.lower(): [labels.of(e.op) for e in compiled.phase(p)] for p in Phase},
        "counts": {p.name.lower(): asdict(compiled.counts(p)) for p in Phase},
        "ops_per_block": compiled.ops_per_block(),
        "warp_stagger_index": compiled.warp_stagger_index,
        "notes": compiled.notes,
    }
