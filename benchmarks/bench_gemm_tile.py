"""The GEMM tile, whose order and depth are derived, beside the specification's schedules.

    python benchmarks/bench_gemm_tile.py

Per chip, type and wave grid: the II that is proved least, the stages it takes, and the simulated
cycles per K tile; of the specification's schedules the latter, in their fastest proved form.
"""

from __future__ import annotations

import platform
import time

from pipeloom.drive.emitting import EmitJob, open_to_emit
from pipeloom.drive.forms import choose_form
from pipeloom.drive.loops import GRIDS, GemmTileSpec
from pipeloom.drive.programs import simulate
from pipeloom.drive.sources import Source
from pipeloom.show.step_rows import advance

TYPES = ("bf16", "fp8")
CASES = tuple((a, d, k) for a in ("gfx950", "gfx942") for d in TYPES for k in GRIDS)


def main() -> None:
    print(f"Python {platform.python_version()}\n")
    print(f"{'kernel':34} {'II':>6} {'stages':>6} {'cycles/tile':>12} {'s':>6}")
    for arch, dtype, kernel in CASES:
        started = time.perf_counter()
        program = (
            GemmTileSpec(kernel=kernel, arch=arch, dtype=dtype, work_limit=10.0).build().program()
        )
        seconds = time.perf_counter() - started
        cycles = simulate(program).steady_cycles_per_iteration / advance(program)
        ordered = program.provenance.ordered
        assert ordered is not None
        proved = "" if ordered.proved else "?"
        name = f"gemm_tile {arch} {dtype} {kernel}"
        figures = f"{ordered.cycles}{proved:>2} {ordered.stages:6} {cycles:12.0f} {seconds:6.1f}"
        print(f"{name:34} {figures}")
    for name in ("ping_pong", "four_wave"):
        for dtype in TYPES:
            opened = open_to_emit(EmitJob(Source(name, dtype=dtype)))
            form = choose_form(opened).form
            assert form.cycles is not None
            tiles = advance(opened.program(form.sync, form.reorder))
            what = f"{name} gfx950 {dtype}, {form.label}"
            print(f"{what:34} {'':15} {form.cycles / tiles:12.0f}")


if __name__ == "__main__":
    main()
