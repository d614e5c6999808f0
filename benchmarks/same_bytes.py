"""What deriving, judging and emitting give, as hashes: whether a change has changed any of it.

    python benchmarks/same_bytes.py [--only TEXT] [--slow] [--write FILE] [--against FILE]

Every kernel of ``KERNELS`` is made without a store; ``SLOW`` ones only with ``--slow``. A row has
the hashes of the program as JSON, of its simulated run event by event, and of the emitted assembly,
its verdict, its steady cycles per iteration, and the processor seconds that making the program took
(not compared). ``--write`` keeps the rows, ``--against`` compares with kept ones and exits with 1
on any difference. The first kernel of a process also pays for what all of them share.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.kernel_results import Make, derived, digest, run_text, usual_run
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.declare.products import product
from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.sources import Source
from pipeloom.drive.store import OFF, VARIABLE
from pipeloom.judge.verify import verify
from pipeloom.order.roles import Consumer, Producer
from pipeloom.order.strategy import Exact
from pipeloom.write import emit_program


def schedule(name: str, dtype: str = "bf16") -> Make:
    """One of the specification's, in the form that is emitted."""
    return lambda: emit(EmitJob(Source(name, dtype=dtype))).program


KERNELS: dict[str, Make] = {
    "gemm 256x256x64 8 waves": derived(gemm(256, 256, 64), 8),
    "gemm 256x256x64 4 waves": derived(gemm(256, 256, 64), 4),
    "gemm 64x64x64 4 waves": derived(gemm(64, 64, 64), 4),
    "gemm 64x128x64 8 waves": derived(gemm(64, 128, 64), 8),
    "gemm 128x128x64 4 waves": derived(gemm(128, 128, 64), 4),
    "gemm 128x128x64 fp16 4 waves": derived(gemm(128, 128, 64, "fp16"), 4),
    "gemm 64x64x128 fp8 4 waves": derived(gemm(64, 64, 128, "fp8"), 4),
    "gemm 96x160x64 4 waves, 9 tiles": derived(gemm(96, 160, 64), 4, k_tiles=9),
    "gemm 64x64x64 fp16 gfx942 4 waves": derived(gemm(64, 64, 64, "fp16"), 4, "gfx942"),
    "product 64x64x256 mxfp4 4 waves": derived(product(64, 64, 256, "fp4", blocks=True), 4),
    "gemm 64x64x32, the modulo solver": derived(gemm(64, 64, 32), 4, strategy=Exact()),
    "row sum": derived(row_sum(), 4),
    "attention 64x32x32 4 waves": derived(attention(64, 32, 32), 4),
    "ping_pong": schedule("ping_pong"),
    "four_wave fp8": schedule("four_wave", "fp8"),
}
SLOW: dict[str, Make] = {
    "gemm 256x256x128 fp8 8 waves": derived(gemm(256, 256, 128, "fp8"), 8),
    "gemm 192x256x64 4 waves": derived(gemm(192, 256, 64), 4),
    "gemm 128x256x64 4 waves": derived(gemm(128, 256, 64), 4),
    "product 256x256x256 mxfp4 4 waves": derived(product(256, 256, 256, "fp4", blocks=True), 4),
    "gemm 128x256x64, producers": lambda: pipeline(
        gemm(128, 256, 64), "gfx950", groups=[Producer(waves=4), Consumer(waves=4)]
    ),
    "attention 256x64x128 8 waves": derived(attention(256, 64, 128), 8),
    "attention 256x64x128 causal 8 waves": derived(attention(256, 64, 128, causal=True), 8),
}


def measured(make: Make) -> dict[str, Any]:
    """The row of one kernel."""
    start = time.process_time()
    program = make()
    seconds = time.process_time() - start
    trace = usual_run(program)
    return {
        "program": digest(program.to_json()),
        "run": digest(run_text(trace)),
        "emitted": digest(emit_program(program, judge=verify).text),
        "verdict": verify(program).status.name,
        "cycles": trace.steady_cycles_per_iteration,
        "seconds": round(seconds, 2),
    }


def main() -> int:
    """Print the table; 1 if it differs from the kept one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="kernels whose name holds this")
    parser.add_argument("--slow", action="store_true", help="those that take more than 5 s too")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the rows")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with kept rows")
    chosen = parser.parse_args()
    os.environ[VARIABLE] = OFF
    kept = json.loads(chosen.against.read_text()) if chosen.against else {}
    rows, different = {}, []
    print(
        f"{'kernel':<36}{'program':<14}{'run':<14}{'emitted':<14}{'verdict':<9}{'cycles':>8}{'s':>7}"
    )
    for name, make in (KERNELS | (SLOW if chosen.slow else {})).items():
        if chosen.only not in name:
            continue
        row = rows[name] = measured(make)
        before = kept.get(name)
        changed = [k for k in row if before and k != "seconds" and row[k] != before[k]]
        different += [f"{name}: {what}" for what in changed]
        told = f"{name:<36}{row['program']:<14}{row['run']:<14}{row['emitted']:<14}"
        told += f"{row['verdict']:<9}{row['cycles']:>8.1f}{row['seconds']:>7.2f}"
        then = f"  was {before['seconds']:.2f}" if before else ""
        print(told + then + (f"  DIFFERS: {', '.join(changed)}" if changed else ""), flush=True)
    if chosen.write:
        chosen.write.write_text(json.dumps(rows, indent=1) + "\n")
    if chosen.against:
        print("different: " + ("; ".join(different) or "nothing"))
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
