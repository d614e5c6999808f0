"""How long proving and synchronising take, warm: medians, with the machine named.

Targets: verify() of the default ping-pong in 500 ms, of the four-wave in 300 ms, of a derived
product of 256 x 256 x 64 in eight waves, woven from single instructions, in 5 s.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial

from pipeloom import build_schedule
from pipeloom.declare.kernels import gemm
from pipeloom.drive.gemm import first_program
from pipeloom.drive.programs import verify
from pipeloom.judge.verify import Verdict
from pipeloom.judge.verify.prove import _verdict
from pipeloom.machine.chips import target_for
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.resync import synchronize

RUNS = 10
TARGETS_MS = {"ping_pong": 500.0, "four_wave": 300.0}
DERIVED_MS = 5000.0


def anew(source: CompiledSchedule | Program) -> Verdict:
    """A verdict that is worked out, not remembered."""
    _verdict.cache_clear()
    return verify(source)


def median_ms(work: Callable[[], object], runs: int = RUNS) -> float:
    """The median wall time of ``work`` in milliseconds, after one warm-up."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    """Print the table."""
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'what':<40}{'median ms':>10}{'target':>10}")
    for name in ("ping_pong", "four_wave", "single_buffer"):
        compiled = build_schedule(name)
        fixed = synchronize(compiled, reorder=True)
        rows: list[tuple[str, Callable[[], object]]] = [
            (f"verify {name}, reference", partial(anew, compiled)),
            (f"verify {name}, synchronised", partial(anew, fixed)),
            (f"synchronize {name}", partial(synchronize, compiled, reorder=True)),
        ]
        for label, work in rows:
            target = TARGETS_MS.get(name) if label.startswith("verify") else None
            wanted = "" if target is None else f"{target:.0f}"
            print(f"{label:<40}{median_ms(work):>10.1f}{wanted:>10}")
    derived = first_program(gemm(256, 256, 64), target_for("gfx950"), {"m": 2, "n": 4})
    steps = sum(len(s.steps) for s in derived.groups[0].sections if s.trips is not None)
    label = f"verify derived, {steps} steps x {derived.waves} waves"
    print(f"{label:<40}{median_ms(partial(anew, derived), 3):>10.1f}{DERIVED_MS:>10.0f}")


if __name__ == "__main__":
    main()
