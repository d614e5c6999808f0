"""Processor seconds until a kernel stands, beside Triton's compiler on the same tile in one run.

    python -m benchmarks.bench_pipeline [--only TEXT]

The figure is the ratio: a busy machine slows both alike. ``pipeline`` is measured in a warm process
without a store, the fastest of ``RUNS``; so is Triton, which needs no GPU to compile for one.
Commands are whole processes with their bytecode on disk, as installed ones are, and with a store
of their own: empty for a cold one, filled by a run that does not count for the others, of which the
fastest of ``RUNS`` is told. One row has no bytecode, neither of pipeloom nor of what it imports. A
row over its goal is listed at the end, and the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pipeloom
from pipeloom import compile_schedule, load_spec
from pipeloom.declare.kernels import attention, gemm
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.programs import as_program
from pipeloom.drive.store import OFF, VARIABLE
from pipeloom.judge.verify import verify
from pipeloom.program.program import Program

RUNS = 3
TILE = (256, 256, 64)
TIMES_TRITON = 3.0
"""The goal for ``pipeline``: it searches and proves, a compiler does neither."""
PRODUCT = ("gemm", "4096", "4096", "4096")
UNWRITTEN, ELSEWHERE = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"
"""Bytecode is not written; it lies under another folder."""


@dataclass(frozen=True, slots=True)
class Row:
    """What took how many processor seconds, and how many it may take."""

    name: str
    seconds: float
    goal: float

    def __str__(self) -> str:
        return f"{self.name:<44}{self.seconds:>8.2f}{self.goal:>8.2f}"


def processor_seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Of the fastest of a few runs, this process and what it starts."""

    def used() -> float:
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, kinds))

    times = []
    for _ in range(runs):
        start = used()
        work()
        times.append(used() - start)
    return min(times)


def triton_compile(waves: int) -> Callable[[], object]:
    """A plain product of ``TILE``, as Triton's tutorial has it, in two stages."""
    import triton
    from triton.backends.compiler import GPUTarget

    from benchmarks.triton_gemm import product

    names = list(product.arg_names)
    pointers, strides = ("a", "b", "c"), ("K", "sam", "sbk", "sbn", "scm")
    fixed = dict(zip(("BM", "BN", "BK"), TILE, strict=True))
    types: dict[str, str] = dict.fromkeys(names, "i32")
    types |= dict.fromkeys(pointers, "*bf16") | dict.fromkeys(fixed, "constexpr")
    source = triton.compiler.ASTSource(
        fn=product,
        signature=types,
        constexprs={(names.index(name),): size for name, size in fixed.items()},
        attrs={(names.index(n),): [["tt.divisibility", 16]] for n in (*pointers, *strides)},
    )
    target = GPUTarget("hip", "gfx950", 64)
    options: dict[str, Any] = {"num_warps": waves, "num_stages": 2}
    return partial(triton.compile, source, target=target, options=options)


def derived(tell: Callable[[str], bool]) -> Iterator[Row]:
    """``pipeline`` beside Triton, and of attention."""
    m, n, k = TILE
    for waves in (8, 4):
        name = f"pipeline gemm {m}x{n}x{k} bf16 {waves} waves"
        if tell(name):
            compile_it = triton_compile(waves)
            make = partial(pipeline, gemm(m, n, k), "gfx950", waves)
            compile_it(), make()  # warm
            beside, ours = processor_seconds(compile_it), processor_seconds(make)
            yield Row(name, ours, TIMES_TRITON * beside)
            print(f"  Triton {beside:.2f} s: {ours / beside:.2f} times as long", flush=True)
    name = "pipeline attention 256x64x128 8 waves"
    if tell(name):
        make = partial(pipeline, attention(256, 64, 128), "gfx950", 8)
        yield Row(name, processor_seconds(make, runs=1), 6)


def commands(tell: Callable[[str], bool], folder: Path) -> Iterator[Row]:
    """Whole processes: what a user waits for."""
    page, kernel = str(folder / "report.html"), str(folder / "kernel.s")
    asked = {k: v for k, v in os.environ.items() if k not in (UNWRITTEN, ELSEWHERE)}
    source = Path(pipeloom.__file__).parent
    subprocess.run([sys.executable, "-m", "compileall", "-q", source], check=True, env=asked)
    for name, arguments, goal in (
        ("--version", ("--version",), 0.1),
        ("list", ("list",), 0.3),
        ("gemm 4096 4096 4096, cold", PRODUCT, 15),
        ("gemm 4096 4096 4096, warm", PRODUCT, 1),
        ("gemm 4096 4096 4096, warm, no bytecode", PRODUCT, 1.6),
        ("report ping_pong", ("report", "ping_pong", "-o", page), 2),
        ("report attention, cold", ("report", "attention", "-o", page), 10),
        ("emit attention, warm", ("emit", "attention", "-o", kernel), 4),
    ):
        if tell(name):
            bare = {UNWRITTEN: "1", ELSEWHERE: str(folder)} if "no bytecode" in name else {}
            cold = name.endswith("cold")
            run = partial(
                subprocess.run,
                [sys.executable, "-m", "pipeloom.cli.main", *arguments],
                check=True,
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=asked | bare | {VARIABLE: str(folder / name.partition(",")[0])},
            )
            if not cold:
                run()
            yield Row(name, processor_seconds(run, runs=1 if cold else RUNS), goal)


def judged(tell: Callable[[str], bool]) -> Iterator[Row]:
    """``verify`` of a shipped schedule and of a derived loop."""
    schedule = load_spec({"schedule": "ping_pong"})
    programs: dict[str, tuple[Callable[[], Program], float]] = {
        "verify ping_pong": (lambda: as_program(compile_schedule(schedule)), 0.1),
        "verify gemm 256x256x64 8 waves": (lambda: pipeline(gemm(*TILE), "gfx950", 8), 0.3),
    }
    for name, (make, goal) in programs.items():
        if tell(name):
            program = make()
            yield Row(name, processor_seconds(partial(_judged_anew, program)), goal)


def _judged_anew(program: Program) -> None:
    """Verdicts are kept; one under another name is not known yet."""
    verify(replace(program, name=f"{program.name} {time.perf_counter_ns()}"))


def main() -> int:
    """Print the table; 1 if a row misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose name holds this")
    chosen = parser.parse_args()
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{'what':<44}{'s':>8}{'goal':>8}")
    missed = []
    with tempfile.TemporaryDirectory() as found:
        folder = Path(found)
        os.environ |= {
            VARIABLE: OFF,
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "TRITON_ALWAYS_COMPILE": "1",
        }

        def tell(name: str) -> bool:
            return chosen.only in name

        for rows in (derived(tell), commands(tell, folder), judged(tell)):
            for row in rows:
                print(row, flush=True)
                missed += [row.name] if row.seconds > row.goal else []
    print("missed: " + ("; ".join(missed) or "nothing"))
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
