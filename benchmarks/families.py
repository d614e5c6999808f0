"""Random problems of the families of kernels, each kernel proved, run against NumPy and weakened.

    python benchmarks/families.py weights --count 100
    python benchmarks/families.py --llvm /usr/lib/llvm-22/bin --weaken 8

Bytes around outputs must stay as they are. ``--weaken`` takes so many waits and barriers out of
each kernel, and what the verifier then objects to must be noticed in the emulator. ``--llvm`` runs
LLVM's two passes over each kernel, which may add nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.family_cases import weights
from benchmarks.family_cases.drawn import Kind, Problem
from benchmarks.llvm_passes import Added, Llvm, judged
from evidence.weaken import weakenings
from pipeloom.drive.trial import Launchable, Trial
from pipeloom.judge.verify import proves
from pipeloom.program import Program
from pipeloom.write import assemble, emit_program

SEEDS = 4
"""Runs in which a weakened kernel must be noticed."""


@dataclass(frozen=True, slots=True)
class Family:
    """How a family draws its kernels and its problems."""

    kinds: int
    draw_kind: Callable[[np.random.Generator], Kind]
    draw_problem: Callable[[np.random.Generator, Kind, Launchable, int], Problem]

    def kind(self, number: int) -> Kind:
        """The kernel of a number."""
        return self.draw_kind(np.random.default_rng([26, number]))

    def run(self, kind: Kind, kernel: Launchable, seed: int) -> Trial:
        """One problem of a kernel."""
        problem = self.draw_problem(np.random.default_rng([27, seed]), kind, kernel, seed)
        return problem.run(kernel)


FAMILIES: Mapping[str, Family] = {
    "weights": Family(weights.KINDS, weights.draw_kind, weights.draw_problem),
}


def unnoticed(family: Family, kind: Kind, program: Program, count: int) -> Iterator[str]:
    """Of ``count`` weakenings, those that are unsafe and that no run notices."""
    made = list(weakenings(program)) if count else []
    for weakened in made[:: max(1, len(made) // max(count, 1))][:count]:
        if proves(weakened.program):
            continue
        emitted = emit_program(weakened.program, judge=_waves_through)
        kernel = Launchable.load(emitted, assemble(emitted))
        if not any(not family.run(kind, kernel, seed).ok for seed in range(SEEDS)):
            yield weakened.what


def _waves_through(_: object, **__: object) -> SimpleNamespace:
    return SimpleNamespace(status=SimpleNamespace(name="PROVED"), findings=())


def main() -> int:
    """Print every problem; 1 if one is wrong, a weakening is not noticed or LLVM adds something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*", choices=[[], *FAMILIES], help="these only")
    parser.add_argument("--count", type=int, default=100, help="problems of each family")
    parser.add_argument("--weaken", type=int, default=0, help="waits taken out of each kernel")
    parser.add_argument("--llvm", type=Path, help="folder of llvm-mc and llc")
    arguments = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        llvm = None if arguments.llvm is None else Llvm(arguments.llvm, Path(scratch))
        for name in arguments.family or FAMILIES:
            family, wrong = FAMILIES[name], 0
            for number in range(min(family.kinds, arguments.count)):
                kind = family.kind(number)
                program = kind.program()
                emitted = emit_program(program)
                kernel = Launchable.load(emitted, assemble(emitted))
                for seed in range(number, arguments.count, family.kinds):
                    trial = family.run(kind, kernel, seed)
                    wrong += not trial.ok
                    said = trial.summary()
                    print(name, number, kind.arch, emitted.status.name, said, flush=True)
                for what in unnoticed(family, kind, program, arguments.weaken):
                    wrong += 1
                    print(name, number, "not noticed:", what, flush=True)
                if llvm is not None:
                    added = judged(emitted.text, kind.arch, llvm).added
                    wrong += added != Added(0, 0)
                    print(name, number, "LLVM adds", added, flush=True)
            print(f"{name}: {arguments.count} problems, {wrong} wrong")
            bad += wrong
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
