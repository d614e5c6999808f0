"""A kernel of your own, from a declaration to machine code: out[b, :] = sum over k of X[b, k, :].

What you write is what one iteration does. Which registers take turns, the order, the waits, a proof
for every trip count and the instructions follow. It is run here in the emulator.

    python examples/own_kernel.py
"""

from __future__ import annotations

import pipeloom as pl


def row_sum(columns: int = 256) -> pl.Loop:
    """One row of X per iteration, added to the sum."""
    loop = pl.Loop("row_sum", over="k")
    x = loop.stream("X", pl.F32, b=1, k=1, n=columns)
    total = loop.carry("total", pl.F32, start=0, b=1, n=columns)
    total += x.sum("k")
    loop.store("out", total)
    return loop


def main(batch: int = 3, rows: int = 10, columns: int = 250) -> bool:
    """Pipeline, prove, emit, run; whether the sums are right."""
    program = pl.pipeline(row_sum(), pl.target_for("gfx950"), waves=1, depth=4, k_tiles=rows)
    print(program, *program.provenance.notes, sep="\n  ")
    print(pl.verify(program).summary())
    kernel = pl.emit(program)
    waits = [str(line) for line in kernel.lines if "s_waitcnt vmcnt" in str(line)]
    print(f"{kernel.status.name}; waits: {', '.join(waits)}")
    trial = pl.run(kernel, sizes={"b": batch, "k": rows, "n": columns}, seed=1)
    print(trial.summary())
    return trial.ok


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
