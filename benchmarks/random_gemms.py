"""Random matrix products over everything a ``GemmSpec`` and a caller can ask, against NumPy.

    python benchmarks/random_gemms.py --count 500          # some 25 minutes on one core
    python benchmarks/random_gemms.py --only 137           # one of them again

Every problem has a kernel that is PROVED, arrays exactly as long as they must be with NaN between
rows and batches, guard bytes in and behind C, and some workgroups too many. A line for each that is
wrong, and a table of what was covered.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np

from pipeloom.declare.activations import ACTIVATIONS
from pipeloom.declare.gemm_problem import Finish
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.gemm_trial import GemmCall, ReadyGemm, run_gemm
from pipeloom.drive.trial import Trial
from pipeloom.machine.dtypes import E8M0

BLOCKS = ((64, 64, 2, 2), (32, 64, 1, 2), (64, 128, 2, 2), (128, 64, 2, 2), (128, 128, 2, 2))
"""BM, BN and waves along each: small ones, of which an emulator runs many."""
KINDS = 40
"""Different specs; each is emitted once."""
PROGRESS = 25
"""Problems between two lines of progress."""


def draw_spec(rng: np.random.Generator) -> GemmSpec:
    """A kernel of the family."""
    arch = str(rng.choice(["gfx950", "gfx950", "gfx942"]))
    dtype = str(rng.choice(["bf16", "fp16", "fp8", "bf8", "mxfp8", "mxfp4"]))
    small, blocks = dtype in ("fp8", "bf8"), dtype.startswith("mx")
    arch = "gfx950" if blocks else arch
    bm, bn, waves_m, waves_n = BLOCKS[int(rng.integers(len(BLOCKS)))]
    dtype_b = str(rng.choice(["fp8", "bf8"])) if small else None
    out = str(rng.choice(["bf16", "fp16", "f32", "fp8"]))
    layout = str(rng.choice(["NT"] if dtype == "mxfp4" else ["NN", "NT", "TN", "TT"]))
    alpha, beta = bool(rng.integers(2)), bool(rng.integers(2))
    align = int(rng.choice([16, 16, 4, 1 if small or blocks else 2]))
    scales, bias = bool(rng.integers(2)), bool(rng.integers(2))
    activation = str(rng.choice(["none", "none", *ACTIVATIONS]))
    finish = Finish(alpha, beta, scales, bias, activation)
    return GemmSpec(
        arch=arch,
        dtype=dtype,
        dtype_b=dtype_b,
        out=out,
        layout=layout,
        BM=bm,
        BN=bn,
        waves_m=waves_m,
        waves_n=waves_n,
        align=align,
        finish=finish,
        splits=int(rng.choice([1, 1, 2, 3, 5])),
        batched=bool(rng.integers(2)),
        search=False,
    )


def draw_problem(rng: np.random.Generator, ready: ReadyGemm, seed: int) -> GemmCall:
    """A call of it: ragged sizes down to nothing, rows and batches apart, a grid too large."""
    spec, launch = ready.made.spec, ready.made.kernel.launch
    m, n = (_size(rng, 2 * block) for block in (spec.BM, spec.BN))
    step = launch.multiples.get("k", 1)
    if spec.packs:
        step = E8M0.covers if spec.blocks else 1
    k = step * _size(rng, 6 * spec.depth // step)
    problem = GemmCall(m=m, n=n, k=k, seed=seed)
    rows = (k if spec.layout[0] == "N" else m, k if spec.layout[1] == "T" else n)
    spare, gap = [], []
    for row in rows:
        unit = max(spec.align * 8 // spec.element.bits, 1)
        spare.append(-row % unit + unit * int(rng.integers(3)))
        gap.append(unit * int(rng.integers(4)))
    last = (ready.made.then or ready.made.kernel).launch
    unit = max(last.pitches.get("C", 1) * 8 // spec.out_element.bits, 1)
    apart = int(rng.integers(6))
    apart += -(n + apart) % unit
    x, y, z = (int(count) for count in rng.integers(0, 3, 3))
    return replace(
        problem,
        batches=int(rng.integers(1, 4)) if spec.batched else 1,
        spare=(spare[0], spare[1], apart),
        gap=(gap[0], gap[1], unit * int(rng.integers(9))),
        excess=(x, y, z if launch.placing.uses_z else 0),
        alpha=float(rng.choice([1.0, 0.5, -2.0, 0.0])),
        beta=float(rng.choice([1.0, 0.0, -0.5, 2.0])),
    )


def _size(rng: np.random.Generator, most: int) -> int:
    """Often small, sometimes nothing."""
    kind = rng.integers(8)
    if kind == 0:
        return int(rng.integers(0, 3))
    return int(rng.integers(1, max(most // (2 if kind < 5 else 1), 1) + 1))


@cache
def _ready(kind: int) -> ReadyGemm:
    return ReadyGemm.of(gemm_kernel(draw_spec(np.random.default_rng(7000 + kind))))


def run_one(number: int) -> tuple[ReadyGemm, GemmCall, Trial]:
    """Problem ``number``; the same on every machine."""
    rng = np.random.default_rng(number)
    ready = _ready(number % KINDS)
    call = draw_problem(rng, ready, number)
    return ready, call, run_gemm(ready, call)


def main() -> int:
    """Run them, say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    first, count = (given.first, given.count) if given.only is None else (given.only, 1)
    covered: Counter[str] = Counter()
    wrong = 0
    started = time.monotonic()
    # Kernel by kernel, so that each is emitted once and forgotten.
    for number in sorted(range(first, first + count), key=lambda n: (n % KINDS, n)):
        ready, call, outcome = run_one(number)
        spec = ready.made.spec
        proved = ready.made.kernel.status.name == "PROVED"
        wrong += not (outcome.ok and proved)
        if not (outcome.ok and proved) or given.only is not None:
            print(f"{number}: {spec}\n   {call}\n   {outcome.summary()}", flush=True)
        covered.update(
            [spec.arch, spec.dtype, spec.layout, f"out {spec.out}", f"align {spec.align}"]
        )
        flags = ("alpha", "beta", "scales", "bias")
        covered.update(name for name in flags if getattr(spec.finish, name))
        covered["batched"] += spec.batched
        covered[f"activation {spec.finish.activation}"] += 1
        covered[f"splits {spec.splits}"] += 1
        covered["workgroups too many"] += any(call.excess)
        covered["K 0"] += call.k == 0
        done = covered["gfx950"] + covered["gfx942"]
        if done % PROGRESS == 0:
            print(f"{done} of {count}, {wrong} wrong", file=sys.stderr, flush=True)
    print(", ".join(f"{name}: {n}" for name, n in sorted(covered.items())))
    print(f"{count} problems, {wrong} wrong, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
