"""The kernels that LLVM's passes are asked about: every family of them, on both chips."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product

import numpy as np

from benchmarks.random_gemms import KINDS, draw_spec
from evidence.attention_runs import VARIANTS
from evidence.emit_cases import Case, cases, output_cases
from pipeloom.declare.gemm_problem import Finish
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.loops import LOOPS, BlockSpec
from pipeloom.program import Program
from pipeloom.write import EmittedKernel, emit_program

CHIPS = ("gfx942", "gfx950")
ENDINGS: tuple[tuple[str, dict[str, str]], ...] = (
    ("gemm_bias", {"activation": "gelu"}),
    ("gemm_bias", {"activation": "silu"}),
    ("gemm_gate", {}),
    ("gemm_scaled", {"scales": "tensor"}),
    ("gemm_scaled", {"scales": "rows"}),
)
"""Products that do more than store, as they are declared."""
ROWS = (("softmax", 4096), ("softmax", 256), ("rms_norm", 4096), ("rms_norm", 256))
LARGE = (
    GemmSpec(
        arch="gfx942", layout="NN", BM=128, BN=128, waves_n=2, finish=Finish(beta=True, bias=True)
    ),
    GemmSpec(layout="NT", batched=True),
    GemmSpec(layout="TN", finish=Finish(beta=True, bias=True)),
)
"""Whole products with the fastest order that is found; those drawn at random have the first."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Kernels that are emitted together: a product may pack before it and add up after it."""

    family: str
    target: str
    dtype: str
    name: str
    emit: Callable[[], Sequence[EmittedKernel]]

    def __str__(self) -> str:
        return f"{self.family} {self.target} {self.dtype} {self.name}"


def subjects() -> Iterator[Subject]:
    """All of them."""
    for case in dict.fromkeys(chain(cases(), output_cases())):
        yield tile(case)
    for (name, options), arch in product(ENDINGS, CHIPS):
        yield _declared(name, arch, geometry=BlockSpec(BM=64, BN=64), **options)
    for (name, columns), arch, dtype in product(ROWS, CHIPS, ("bf16", "fp16", "f32")):
        yield _declared(name, arch, dtype=dtype, columns=columns)
    for variant in VARIANTS:
        yield _program("attention", variant.arch, variant.dtype, str(variant), variant.program)
    drawn = (draw_spec(np.random.default_rng(7000 + kind)) for kind in range(KINDS))
    for spec in chain(LARGE, drawn):
        yield whole(spec)


def tile(case: Case) -> Subject:
    """One tile of the emitted matrix."""
    return Subject(case.schedule, case.target, case.dtype, str(case), lambda: [case.emit()])


def whole(spec: GemmSpec) -> Subject:
    """A whole product."""
    return Subject("gemm", spec.arch, spec.dtype, str(spec), partial(_gemm, spec))


def _declared(name: str, arch: str, **options: object) -> Subject:
    spec = LOOPS[name](arch=arch, **options)  # type: ignore[arg-type]
    label = ", ".join(f"{key}={value}" for key, value in options.items())
    return _program(name, arch, spec.dtype, label, lambda: spec.build().program())


def _program(
    family: str, target: str, dtype: str, name: str, make: Callable[[], Program]
) -> Subject:
    return Subject(family, target, dtype, name, lambda: [emit_program(make(), name=family)])


def _gemm(spec: GemmSpec) -> list[EmittedKernel]:
    made = gemm_kernel(spec)
    before = {packing.kernel.name: packing.kernel for packing in made.before.values()}
    return [made.kernel, *before.values(), *([] if made.then is None else [made.then])]
