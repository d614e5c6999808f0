"""Tuning from scratch: one shape, a hundred, a repeat; and beside the specification's orders.

    python benchmarks/bench_tune.py [one many specification ray] [--jobs N] [--long SECONDS]

Every part starts with an empty store in a folder of its own. ``one`` also searches on, until
nothing of the space can be better or for ``--long`` seconds (600), and says what that gained.
``ray`` needs Ray, and says what a job costs there beyond the job itself. CPU seconds stand beside
those of the clock: they are what a machine that does nothing else would need, over its cores.

Targets on 2 quiet cores: one shape under 60 s and within 2 % of the long search; 100 shapes under
15 minutes; a repeat under 2 s; every one of 30 shapes at least as fast as with the specification's
own orders of its tiles.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeloom import ScheduleError, compile_schedule, load_spec
from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.programs import as_program, simulate
from pipeloom.drive.store import Store
from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, predict
from pipeloom.machine.gpus import Gpu, gpu_for
from pipeloom.tuning.engines import Inline, OnRay, Processes
from pipeloom.tuning.search import Tuned, tune
from pipeloom.tuning.shapes import MODELS, problems

ONE = (
    GemmProblem(4096, 4096, 8192),
    GemmProblem(1024, 5120, 5120),
    GemmProblem(2048, 2048, 2048, "fp8"),
)
TOKENS = (256, 512, 1024, 4096, 16384)
TRIPS = 8


def timed(job: Callable[[], list[Tuned]]) -> tuple[list[Tuned], str]:
    """What it gives, and how long it took, by the clock and in CPU seconds."""
    start, used = time.perf_counter(), _cpu()
    found = job()
    return found, f"{time.perf_counter() - start:.1f} s ({_cpu() - used:.1f} CPU)"


def _cpu() -> float:
    """Of this process and the children that have ended."""
    return sum(os.times()[:4])


def one(gpu: Gpu, jobs: int, long: float) -> None:
    """Each shape with nothing known."""
    for problem in ONE:
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder))

            def search(
                close: float,
                seconds: float | None = None,
                store: Store = store,
                p: GemmProblem = problem,
            ) -> list[Tuned]:
                return tune(
                    [p],
                    gpu,
                    engine=lambda: Processes(store, jobs),
                    store=store,
                    close=close,
                    seconds=seconds,
                )

            (first,), took = timed(lambda: search(1.005))
            (best,), more = timed(lambda: search(1.0, long))
            _, again = timed(lambda: search(1.005))
            gain = first.prediction.seconds / best.prediction.seconds - 1
            print(
                f"{problem} {problem.dtype}: {took}, {first.prediction.tflops:.0f} TFLOPS, "
                f"{len(first.trials)} of {first.candidates} blocks timed; {more} more gain "
                f"{100 * gain:.2f} % with {len(best.trials)} blocks"
                f"{'' if best.complete else ' (not complete)'}; repeat {again}",
                flush=True,
            )


def many(gpu: Gpu, jobs: int, long: float) -> None:
    """A hundred shapes of five models."""
    asked = problems(list(MODELS), "bf16", TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))

        def search() -> list[Tuned]:
            return tune(asked, gpu, engine=lambda: Processes(store, jobs), store=store)

        found, took = timed(search)
        _, again = timed(search)
        blocks = {trial.block for tuned in found for trial in tuned.trials}
        print(
            f"{len(asked)} shapes of {len(MODELS)} models: {took}, {len(blocks)} blocks timed, "
            f"{len({tuned.plan.block for tuned in found})} chosen; repeat {again}",
            flush=True,
        )


def specification(gpu: Gpu, m: int, n: int) -> list[BlockCost]:
    """What its orders of a 16-bit tile cost: ping-pong and four-wave, IDENTITY and GREEDY."""
    shape = {"BM": m, "BN": n, "BK": 64, "MMA_K": 32, "elem_bytes": 2}
    found = []
    for name in ("ping_pong", "four_wave"):
        for order in ("identity", "greedy"):
            spec = {"schedule": name, "geometry": shape, "schedule_config": {"scheduling": order}}
            try:
                compiled = compile_schedule(load_spec(spec))
                program = as_program(compiled)
                step = sum(factor for _, factor in program.iterations.factors)
                count = program.iterations.at(program.min_trips) + step * TRIPS
                trace = simulate(compiled, gpu.target, k_tiles=count)
            except ScheduleError:
                continue
            cycles = trace.steady_cycles_per_iteration / step
            stores = any(
                one.kind is Kind.GLOBAL_STORE for wave in trace.programs for one in wave.epilogue
            )
            store = m * n * 2 / gpu.target.store_bytes_per_clk.value if stores else 0.0
            ends = trace.total_cycles - count * cycles - store
            least = program.iterations.at(program.min_trips)
            matrix = m * n * 64 // 2048
            found.append(BlockCost(cycles, max(0.0, ends), matrix, "its order", least, step))
    return found


def beside_the_specification(gpu: Gpu, jobs: int, long: float) -> None:
    """Thirty shapes: the tuned plan, and the best with the specification's own orders."""
    asked = problems(list(MODELS), "bf16", (1024, 4096))[:30]
    sides = ((256, 256), (128, 256), (256, 128), (128, 128))
    costs = {Block(m, n, 64): specification(gpu, m, n) for m, n in sides}
    for block, orders in costs.items():
        print(block.m, block.n, *(f"{cost.cycles:.0f}+{cost.ends:.0f}" for cost in orders))
    found = tune(asked, gpu, engine=lambda: Processes(Store.usual(), jobs))
    counts: Counter[str] = Counter()
    print(f"{'shape':<20}{'derived':>9}{'specification':>15}{'gain':>8}")
    for tuned in found:
        theirs = max(
            predict(gpu, tuned.problem, Plan(block, split, tuned.plan.blocked), cost).tflops
            for block, orders in costs.items()
            for cost in orders
            for split in {1, tuned.plan.split}
        )
        gain = tuned.prediction.tflops / theirs - 1
        counts["faster" if gain > 1e-5 else "slower" if gain < -1e-5 else "the same"] += 1
        bound = [name for name, us in tuned.prediction.parts if "bandwidth" in name and us > 1e-3]
        print(
            f"{tuned.problem!s:<20}{tuned.prediction.tflops:>9.0f}{theirs:>15.0f}"
            f"{100 * gain:>7.2f}%  {', '.join(bound)}",
            flush=True,
        )
    print(", ".join(f"{count} {name}" for name, count in counts.items()))


def on_ray(gpu: Gpu, jobs: int, long: float) -> None:
    """Jobs that are already known: what is left is Ray's."""
    problem = GemmProblem(256, 256, 1024)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PIPELOOM_STORE"] = folder
        store = Store(Path(folder))
        (found,) = tune([problem], gpu, engine=lambda: Inline(store), store=store)
        engine = OnRay(store, workers=jobs)
        engine.submit(found.job)
        engine.next()
        count, start = 50, time.perf_counter()
        for _ in range(count):
            engine.submit(found.job)
        for _ in range(count):
            engine.next()
        each = (time.perf_counter() - start) / count
        print(f"Ray on this machine: {1000 * each:.1f} ms for a job that is known already")


PARTS: dict[str, Callable[[Gpu, int, float], None]] = {
    "one": one,
    "many": many,
    "specification": beside_the_specification,
    "ray": on_ray,
}


def main(words: Sequence[str] | None = None) -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["one", "many", "specification"], help="which")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--long", type=float, default=600.0)
    given = parser.parse_args(words)
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for part in given.parts:
        PARTS[part](gpu_for("MI355X"), given.jobs, given.long)


if __name__ == "__main__":
    main()
