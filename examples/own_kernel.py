"""A kernel of your own, from a declaration to machine code: out[b, :] = sum over k of X[b, k, :].

What you write is what one iteration does. Which registers take turns, the order, the waits, a proof
for every trip count and the instructions follow. It is run here in the emulator.

    python examples/own_kernel.py
"""

from __future__ import annotations

import pipeloom as pl
from pipeloom.drive.program_trial import run_program
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.write import assemble, emit_program


def row_sum(columns: int = 256) -> pl.Loop:
    """One row of X per iteration, added to the sum."""
    loop = pl.Loop("row_sum", over="k")
    x = loop.stream("X", "f32", b=1, k=1, n=columns)
    total = loop.carry("total", "f32", start=0, b=1, n=columns)
    total += x.sum("k")
    loop.store("out", total)
    return loop


def main(batch: int = 3, rows: int = 10) -> bool:
    """Pipeline, prove, emit, run; whether the sums are right."""
    program = pl.pipeline(row_sum(), target_for("gfx950"), waves=1, depth=4, k_tiles=rows)
    print(program)
    for note in program.provenance.notes:
        print(f"  {note}")
    emitted = emit_program(program, judge=verify)
    trial = run_program(emitted, assemble(emitted), sizes={"b": batch, "k": rows, "n": 256}, seed=1)
    waits = [str(line) for line in emitted.lines if "s_waitcnt vmcnt" in str(line)]
    print(f"{emitted.status.name}; waits: {', '.join(waits)}")
    print(trial.summary())
    return trial.ok


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
