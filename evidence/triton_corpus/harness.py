# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"
"""Compile a Triton kernel without a GPU, run its code object in the emulator, compare with NumPy.

A ``Case`` is one kernel with one choice of types, sizes and compiler options. ``prepare`` makes
its arguments from a random generator and says what must come out:

    case = Case("vector add", "vector_add fp32", vector_add, {"x": "*fp32", ...}, {"B": 1024},
                prepare, grid=(3,))
    build(case, "gfx942")  ->  Built
    execute(case, built, seed=0)  ->  Verdict(ok=True, detail="")

A case agrees when every output is as expected *and* the emulator has no finding: the compiler
places its waits and barriers correctly, so a finding would be a false one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import triton
from triton.backends.compiler import GPUTarget

from evidence.triton_corpus.numbers import Array, decode
from pipeloom.judge.emulate import CodeObject, RunResult, load_code_object, run_kernel

ARCHS = ("gfx942", "gfx950")


@dataclass(frozen=True)
class Expected:
    """One output: where it lies among the arguments, its type, and what it must hold."""

    position: int
    kind: str
    wanted: Array
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True)
class Trial:
    """Arguments of one launch and what they must have become."""

    args: list[Any]
    expected: list[Expected]


Prepare = Callable[[np.random.Generator], Trial]


@dataclass(frozen=True)
class Case:
    """One kernel, fully specialised. ``aligned`` names the integers that are multiples of 16.

    ``small`` promises that arrays are under 2 GiB, which lets the compiler use buffer instructions.
    """

    family: str
    name: str
    kernel: Any
    types: Mapping[str, str]
    fixed: Mapping[str, Any]
    prepare: Prepare
    grid: tuple[int, ...] = (1,)
    archs: tuple[str, ...] = ARCHS
    warps: int = 4
    aligned: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    small: bool = False


@dataclass(frozen=True)
class Built:
    """A loaded code object and the LDS that the launch has to add."""

    code: CodeObject
    lds: int
    text: str


@dataclass(frozen=True)
class Verdict:
    """Whether a run agreed; what did not, else."""

    ok: bool
    detail: str
    run: RunResult


def build(case: Case, arch: str) -> Built:
    """Compile for an architecture; pointers are 16-byte aligned, as a caller's arrays are."""
    names = list(case.kernel.arg_names)
    source = triton.compiler.ASTSource(
        fn=case.kernel,
        signature={name: case.types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in case.fixed.items()},
        attrs={
            (names.index(name),): _attributes(case, name, kind)
            for name, kind in case.types.items()
            if kind.startswith("*") or name in case.aligned
        },
    )
    options = {"num_warps": case.warps, **case.options}
    made = triton.compile(source, target=GPUTarget("hip", arch, 64), options=options)
    return Built(load_code_object(made.asm["hsaco"]), made.metadata.shared, made.asm["amdgcn"])


def _attributes(case: Case, name: str, kind: str) -> list[list[Any]]:
    found: list[list[Any]] = [["tt.divisibility", 16]]
    if case.small and kind.startswith("*"):
        found.append(["tt.pointer_range", 32])
    return found


def execute(case: Case, built: Built, seed: int, **options: Any) -> Verdict:
    """Run once. Triton's ABI adds two pointers to scratch areas that these kernels do not use."""
    trial = case.prepare(np.random.default_rng(seed))
    run = run_kernel(
        built.code,
        grid=case.grid,
        block=(64 * case.warps,),
        args=[*trial.args, None, None],
        dynamic_lds=built.lds,
        seed=seed,
        **options,
    )
    problems = [str(finding) for finding in run.findings]
    if not run.complete:
        problems.append(f"stopped: {run.stopped}")
    for expected in trial.expected:
        problem = _difference(trial.args[expected.position], expected)
        if problem:
            problems.append(problem)
    return Verdict(not problems, "; ".join(problems), run)


def _difference(stored: Array, expected: Expected) -> str:
    got = decode(stored, expected.kind)
    wanted = np.asarray(expected.wanted)
    if expected.rtol or expected.atol:
        right = np.isclose(got, wanted, expected.rtol, expected.atol, equal_nan=True)
    else:
        right = (got == wanted) | ((got != got) & (wanted != wanted))
    if right.all():
        return ""
    first = tuple(int(i) for i in np.argwhere(~right)[0])
    return (
        f"argument {expected.position}: {int((~right).sum())} of {right.size} differ, "
        f"first at {first}: got {got[first]!r}, wanted {wanted[first]!r}"
    )
