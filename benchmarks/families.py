"""Random problems of the families of kernels, each kernel proved, run against NumPy and weakened.

    python -m benchmarks.families weights --count 100
    python -m benchmarks.families --weaken 8 --write       # evidence/family-runs.md
    python -m benchmarks.families --llvm /usr/lib/llvm-22/bin

Bytes around outputs must stay as they are. ``--weaken`` takes so many waits and barriers out of
each kernel, and what the verifier then objects to must be noticed in the emulator. ``--llvm`` runs
LLVM's two passes over each kernel, which may add nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Protocol

import numpy as np

from benchmarks.family_cases import (
    attention,
    backward,
    convolution,
    decoding,
    experts,
    mx,
    norms,
    products,
    quantised,
    rotary,
    rows,
    scaled,
    weights,
)
from benchmarks.family_cases.drawn import Kind, Problem, ready
from benchmarks.llvm_passes import Added, Llvm, judged
from evidence import family_runs
from evidence.family_runs import FamilyRun
from evidence.weaken import weakenings
from pipeloom.drive.trial import Launchable, Trial
from pipeloom.judge.scan import KernelScan, scan_kernel
from pipeloom.judge.verify import proves
from pipeloom.program import Program
from pipeloom.write import assemble, emit_program

ATTEMPTS = 40
"""Problems in which a weakened kernel must be noticed: those of size 0 are none."""


class Family(Protocol):
    """What a module of ``family_cases`` says."""

    KINDS: int

    def kind_of(self, number: int) -> Kind:
        """The kernel of a number, below KINDS."""

    def draw_problem(
        self, rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int, /
    ) -> Problem:
        """One problem of a kernel."""


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "convolution": convolution,
        "experts": experts,
        "weights": weights,
        "mx": mx,
        "scaled": scaled,
        "norms": norms,
        "rows": rows,
        "products": products,
        "attention": attention,
        "backward": backward,
        "decode": decoding,
        "rotary": rotary,
        "quantised": quantised,
    }
)


def run_problem(family: Family, kind: Kind, kernel: Launchable, seed: int) -> Trial:
    """One problem of a kernel, by its seed."""
    return family.draw_problem(np.random.default_rng([27, seed]), kind, kernel, seed).run(kernel)


def unsafe(program: Program, count: int, seed: int) -> Iterator[tuple[str, Launchable]]:
    """Of ``count`` weakenings, what was done in those that the verifier objects to, emitted."""
    made = list(weakenings(program)) if count else []
    order = np.random.default_rng([29, seed]).permutation(len(made))
    for weakened in (made[at] for at in order[:count]):
        if not proves(weakened.program):
            emitted = emit_program(weakened.program, judge=_waves_through)
            yield weakened.what, Launchable.load(emitted, assemble(emitted))


def new_findings(kernel: Launchable, weak: Launchable) -> bool:
    """Whether the scan of machine code, along all paths, objects to more than it does without the
    weakening: instructions that a program does not count (stores element by element) may do the
    work of a wait."""
    before, after = scan_kernel(kernel.kernel), scan_kernel(weak.kernel)
    return bool(after.reason) or defects(after) > defects(before)


def defects(scan: KernelScan) -> int:
    """How much a scan objects to; a wait that waits for nothing is slow, not wrong."""
    return sum(finding.kind.is_defect for finding in scan.findings)


def _waves_through(_: object, **__: object) -> SimpleNamespace:
    return SimpleNamespace(status=SimpleNamespace(name="PROVED"), findings=())


def run_family(name: str, count: int, weaken: int, llvm: Llvm | None) -> FamilyRun:
    """All of a family, printed problem by problem."""
    family, began = FAMILIES[name], time.process_time()
    found = FamilyRun(name)
    for number in range(min(family.KINDS, count)):
        kind = family.kind_of(number)
        program = kind.program()
        kernel = ready(program)
        found.kernels += 1
        found.proved += kernel.emitted.status.name == "PROVED"
        for seed in range(number, count, family.KINDS):
            trial = run_problem(family, kind, kernel, seed)
            found.problems += 1
            found.wrong += any(trial.wrong.values())
            found.findings += bool(trial.findings)
            found.outside += trial.spoilt > 0
            print(name, number, kind.arch, trial.summary(), flush=True)
        for what, weak in unsafe(program, weaken, number):
            found.unsafe += 1
            if any(not run_problem(family, kind, weak, seed).ok for seed in range(ATTEMPTS)):
                continue
            hidden = new_findings(kernel, weak)
            found.unnoticed += hidden
            found.harmless += not hidden
            print(name, number, "not noticed" if hidden else "harmless", what, flush=True)
        if llvm is not None:
            added = judged(kernel.emitted.text, kind.arch, llvm).added
            found.added = (found.added or 0) + (added != Added(0, 0))
            print(name, number, "LLVM adds", added, flush=True)
    found.seconds = round(time.process_time() - began)
    return found


def main() -> int:
    """Print every problem; 1 if one is wrong, a weakening is not noticed or LLVM adds something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*", choices=[[], *FAMILIES], help="these only")
    parser.add_argument("--count", type=int, default=100, help="problems of each family")
    parser.add_argument("--weaken", type=int, default=0, help="waits taken out of each kernel")
    parser.add_argument("--llvm", type=Path, help="folder of llvm-mc and llc")
    parser.add_argument("--write", action="store_true", help="put the rows into the page")
    arguments = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        llvm = None if arguments.llvm is None else Llvm(arguments.llvm, Path(scratch))
        for name in arguments.family or FAMILIES:
            found = run_family(name, arguments.count, arguments.weaken, llvm)
            good &= found.good
            print(found)
            if arguments.write:
                family_runs.write(found, list(FAMILIES))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
