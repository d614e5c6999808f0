"""What the static scan finds of kernels whose waits were loosened and whose barriers were removed.

    python -m benchmarks.scan_weakenings [--only TEXT] [--most N] [--output FILE]

Each weakening (`benchmarks.check_mutants`) is run in the emulator, under timings directed at what
the judge of recorded runs names and under others. Of those that give a wrong number or hang, the
scan, which knows no launch, must find at least 95 %: a finding that the kernel as it is does not
have. Kernels as they are must have no definite finding. ``--most`` takes so many weakenings of each
kernel, spread over its code.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


from benchmarks.check_kernels import CASES, Made, skipped, triton
from benchmarks.check_mutants import Recorded, foresee, weakened, weakenings
from pipeloom.drive.kernel_files import Start
from pipeloom.judge.emulate import CodeKernel
from pipeloom.judge.scan import scan_kernel

_MORE = (
    ("GEMM", "fp16, nt, 64x64x32, 4 warps, 2 stages, mfma 16"),
    ("GEMM", "fp16, nn, 16x16x16, 4 warps, 2 stages"),
    ("GEMM", "bf16, nt, 64x64x32, 4 warps, 2 stages, mfma 32, small arrays"),
    ("GEMM", "i8, nt, 32x64x64, 2 warps, 2 stages"),
    ("batched GEMM", "fp16"),
    ("chained GEMM", "bf16, 1 warps, mfma 16"),
    ("thin GEMM", "fp32, nn, 4x64x64, 1 warps, 2 stages"),
    ("transpose", "fp32, 32x64, 4 warps"),
    ("scans", "cumsum i32, 64x16, axis 0, reverse"),
    ("sort", "i32, 1x512, descending"),
    ("reductions", "sum fp32, 128x16, axis 0, 4 warps"),
    ("softmax", "bf16, 700 of 1024, 4 warps"),
    ("split-K GEMM", "fp16, 4 ways, atomic fp32"),
)
KERNELS: Mapping[str, Callable[[], Made]] = {
    **CASES,
    **{
        f"Triton {family}, {name}, {arch}": partial(triton, family, name, arch)
        for family, name in _MORE
        for arch in ("gfx942", "gfx950")
    },
}
"""Forty and some: ours, Triton's and, with a checkout, AITER's."""

Key = tuple[str, int, int]


@dataclass
class Figures:
    """What became of the weakenings of one kernel."""

    name: str
    total: int = 0
    wrong: int = 0
    definite: int = 0
    possible: int = 0
    missed: list[str] = field(default_factory=list)
    unshown: int = 0
    """New findings that no timing tried brings about."""
    before: tuple[int, int] = (0, 0)
    """Definite and possible findings of the kernel as it is."""
    seconds: float = 0.0


def findings(kernel: CodeKernel) -> dict[Key, bool]:
    """Pairs that the scan names, and whether for certain."""
    found: dict[Key, bool] = {}
    scan = scan_kernel(kernel)
    assert not scan.reason, scan.reason
    for one in scan.findings:
        if one.kind.is_defect:
            first = -1 if one.first is None else one.first.pc
            for place in (one.second, *one.others):
                found[one.kind.value, first, place.pc] = one.definite
    return found


def weaken(name: str, kernel: CodeKernel, start: Start, most: int) -> Figures:
    """Weaken one kernel in every way, or in ``most`` of them."""
    began = time.process_time()
    figures = Figures(name)
    before = findings(kernel)
    certain = sum(before.values())
    figures.before = (certain, len(before) - certain)
    recorded = Recorded.of(kernel, start)
    changes = list(weakenings(recorded.found))
    for change in changes[:: max(1, -(-len(changes) // most))] if most else changes:
        figures.total += 1
        pairs = foresee(recorded.found, change)
        mutant = weakened(kernel, change)
        # Of what the judge of recorded runs calls ordered, no timing has been seen to go wrong.
        wrong = not recorded.barriers_met(change.sync) or (
            bool(pairs) and recorded.shown_wrong(mutant, pairs) is not None
        )
        new = {key: sure for key, sure in findings(mutant).items() if key not in before}
        if wrong:
            figures.wrong += 1
            figures.definite += any(new.values())
            figures.possible += bool(new) and not any(new.values())
            if not new:
                figures.missed.append(f"pc {change.pc:#x}: {change.text}")
        elif new:
            figures.unshown += 1
    figures.seconds = time.process_time() - began
    return figures


def table(rows: list[Figures]) -> Iterator[str]:
    """The rows in Markdown."""
    yield (
        "| kernel | weakenings | wrong in some run | found, definite | found, possible | missed "
        "| found, not shown wrong | definite, possible before | CPU seconds |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row.name} | {row.total} | {row.wrong} | {row.definite} | {row.possible} "
            f"| {len(row.missed)} | {row.unshown} | {row.before[0]}, {row.before[1]} "
            f"| {row.seconds:.0f} |"
        )
    wrong, missed = sum(r.wrong for r in rows), sum(len(r.missed) for r in rows)
    yield ""
    yield f"{wrong - missed} of {wrong} found; definite findings before: " + str(
        sum(r.before[0] for r in rows)
    )
    for row in rows:
        for text in row.missed:
            yield f"- missed: {row.name}, {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rows: list[Figures] = []
    for name, make in KERNELS.items():
        if arguments.only in name and not skipped(name):
            kernel, start = make()
            rows.append(weaken(name, kernel, start, arguments.most))
            print(list(table(rows[-1:]))[2], *rows[-1].missed, sep="\n  ", flush=True)
    text = "\n".join(table(rows)) + "\n"
    print(text)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
