"""Modulo scheduling against loops with known answers.

    python benchmarks/bench_modulo.py [--shared ../shared] [--limit 10] [--every N]

``hls_loops.jsonl.gz`` (354 loops of two high-level-synthesis suites) and ``gpu_loops.jsonl`` (9
loops of Blackwell kernels) are third-party data, read from ``--shared`` or $PIPELOOM_SHARED and
never committed. Without them the project's own generated problems are solved instead.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.loop_records import read_record
from benchmarks.random_loops import Shape, random_problem
from pipeloom.order.modulo import ModuloProblem, ModuloResult, check_modulo, solve_modulo

GENERATED = 60


def _records(shared: Path, name: str) -> list[dict[str, Any]]:
    path = shared / "bench" / name
    if not path.exists():
        return []
    text = gzip.decompress(path.read_bytes()).decode() if name.endswith(".gz") else path.read_text()
    return [json.loads(line) for line in text.splitlines()]


def _solve(problem: ModuloProblem, limit: float) -> tuple[ModuloResult, float]:
    start = time.perf_counter()
    result = solve_modulo(problem, time_limit=limit)
    took = time.perf_counter() - start
    violations = check_modulo(problem, result.ii, result.starts)
    if violations:
        raise SystemExit(f"{problem.name}: {violations[0]}")
    return result, took


def _hls(records: list[dict[str, Any]], limit: float) -> None:
    times: list[float] = []
    proved = compared = worse = better = 0
    open_cases = []
    for record in records:
        result, took = _solve(read_record(record), limit)
        times.append(took)
        proved += result.proved
        reference = record.get("reference")
        if reference is not None:
            compared += 1
            worse += result.ii > reference["ii"]
            better += result.ii < reference["ii"]
        if not result.proved:
            open_cases.append(f"{record['name']} II {result.ii} >= {result.lower_bound}")
    print(f"hls loops: {len(records)} scheduled, {proved} proved optimal")
    print(f"  against {compared} references: {worse} worse, {better} better")
    median, total = statistics.median(times) * 1e3, sum(times)
    print(f"  median {median:.1f} ms, worst {max(times):.1f} s, total {total:.0f} s")
    for case in open_cases:
        print(f"  not proved: {case}")


def _gpu(records: list[dict[str, Any]], limit: float) -> None:
    print(f"{'gpu loop':<46}{'min II':>8}{'published':>10}{'II':>7}{'proved':>8}{'s':>7}")
    for record in records:
        result, took = _solve(read_record(record), limit)
        published = record.get("published_ii") or "-"
        print(
            f"{record['name'][:45]:<46}{record['min_ii']:>8}{published:>10}{result.ii:>7}"
            f"{'yes' if result.proved else 'no':>8}{took:>7.2f}"
        )


def _generated(limit: float) -> None:
    times, proved = [], 0
    for seed in range(GENERATED):
        result, took = _solve(random_problem(seed, Shape()), limit)
        times.append(took)
        proved += result.proved
    print(f"generated problems: {GENERATED} scheduled, {proved} proved optimal, ", end="")
    print(f"median {statistics.median(times) * 1e3:.1f} ms, total {sum(times):.1f} s")


def main() -> None:
    """Print the tables."""
    default = os.environ.get("PIPELOOM_SHARED") or str(Path(__file__).parents[2] / "shared")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=Path(default), help="folder with bench/")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per loop (10)")
    parser.add_argument("--every", type=int, default=1, help="take every N-th hls loop (1)")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ",
        end="",
    )
    print(f"load {load:.1f}")
    hls = _records(arguments.shared, "hls_loops.jsonl.gz")[:: arguments.every]
    gpu = _records(arguments.shared, "gpu_loops.jsonl")
    if hls:
        _hls(hls, arguments.limit)
    if gpu:
        _gpu(gpu, arguments.limit)
    if not hls and not gpu:
        print(f"no loops under {arguments.shared}: the project's own problems instead")
    _generated(arguments.limit)


if __name__ == "__main__":
    main()
