"""Try an emitted GEMM: run it in the emulator on made-up data and compare with NumPy in f64.

    emitted = emit_kernel(compiled, target="gfx950", dtype="bf16")
    trial = run_gemm(emitted, assemble(emitted), M=250, N=250, K=512, seed=3)
    trial.ok, trial.summary()

Integers small enough that every product and sum is exact must come out exactly (after rounding to
the type of C); normal data must come out within the rounding of C and of f32 sums. C has spare
columns that the kernel must leave alone; rows of A and B may have some, full of NaN, that it must
not use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate import (
    Finding,
    Kernel,
    LaunchError,
    SourceLine,
    Timing,
    load_code_object,
    run_kernel,
)
from pipeloom.judge.emulate.formats import (
    bf16_to_f32,
    encode_float8,
    f32_to_bf16,
    float_table,
    fp8_names,
)
from pipeloom.write import CodeObject, EmittedKernel

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]

_SPARE_COLUMNS = 4
_UNTOUCHED = 0x5A
_F32_EPSILON = 2.0**-23
_OUT_EPSILON = {"bf16": 2.0**-8, "fp16": 2.0**-11, "f32": 2.0**-24}
"""Half a unit in the last place, relative."""


class Data(Enum):
    """What A and B hold."""

    INTEGERS = "integers"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one problem. ``worst`` is the largest error in units of what is allowed."""

    shape: tuple[int, int, int]
    seed: int
    findings: tuple[Finding, ...]
    wrong: int
    worst: float
    spoilt: int
    executed: int

    @property
    def ok(self) -> bool:
        """No finding, every element right, nothing written outside C."""
        return not self.findings and not self.wrong and not self.spoilt

    def summary(self) -> str:
        """One line."""
        m, n, k = self.shape
        what = f"M={m} N={n} K={k} seed {self.seed}"
        if self.ok:
            return f"{what}: correct ({self.executed} instructions)"
        parts = []
        if self.findings:
            parts.append(f"{len(self.findings)} finding(s), first: {self.findings[0]}")
        if self.wrong:
            parts.append(f"{self.wrong} of {m * n} elements wrong")
        if self.spoilt:
            parts.append(f"{self.spoilt} bytes written outside C")
        return f"{what}: WRONG: " + "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Launchable:
    """A code object ready to run: loaded once, run often."""

    emitted: EmittedKernel
    kernel: Kernel
    line_map: dict[int, SourceLine]

    @classmethod
    def load(cls, emitted: EmittedKernel, code: CodeObject) -> Launchable:
        """Load the code object and turn its line map into the emulator's."""
        lines = {
            offset: SourceLine(source.line, source.text, source.entry)
            for offset, source in code.line_map.items()
        }
        return cls(emitted, load_code_object(code.data).kernel(emitted.name), lines)


def run_gemm(
    emitted: EmittedKernel,
    code: CodeObject | Launchable,
    *,
    M: int,
    N: int,
    K: int,
    seed: int = 0,
    data: Data = Data.INTEGERS,
    timing: Timing = Timing.RANDOM,
    spare_columns: int = _SPARE_COLUMNS,
    spare_depth: tuple[int, int] = (0, 0),
    check_races: bool = True,
) -> Trial:
    """Run C = A B^T once. ``seed`` decides the data, the timing and the order of waves.

    Rows of C are ``spare_columns`` longer than N, rows of A and B longer than K by ``spare_depth``.
    """
    lda, ldb, ldc = K + spare_depth[0], K + spare_depth[1], N + spare_columns
    emitted.check_problem(M, N, K, lda=lda, ldb=ldb, ldc=ldc)
    if seed < 0:
        raise LaunchError(f"seed is {seed}", hint="it must be 0 or more", field="seed")
    ready = code if isinstance(code, Launchable) else Launchable.load(emitted, code)
    a, a_values = _operand(emitted, M, K, seed, data)
    b, b_values = _operand(emitted, N, K, seed + 1_000_003, data)
    c = _blank(emitted.out_dtype, M, ldc)
    result = run_kernel(
        ready.kernel,
        grid=emitted.grid(M, N),
        block=emitted.block,
        args=[_widened(emitted, a, lda), _widened(emitted, b, ldb), c, M, N, K, lda, ldb, ldc],
        seed=seed,
        timing=timing,
        line_map=ready.line_map,
        check_races=check_races,
    )
    wrong, worst = _compare(emitted.out_dtype, c[:, :N], a_values, b_values, data)
    spoilt = int((np.ascontiguousarray(c[:, N:]).view(np.uint8) != _UNTOUCHED).sum())
    return Trial((M, N, K), seed, result.findings, wrong, worst, spoilt, result.executed)


def run_timings(
    emitted: EmittedKernel, code: CodeObject, *, M: int, N: int, K: int, seeds: Iterable[int]
) -> list[Trial]:
    """One trial per seed, on the same code."""
    ready = Launchable.load(emitted, code)
    return [run_gemm(emitted, ready, M=M, N=N, K=K, seed=seed) for seed in seeds]


def _operand(
    emitted: EmittedKernel, rows: int, depth: int, seed: int, data: Data
) -> tuple[Array, Reals]:
    """(encoded, its exact values)."""
    rng = np.random.default_rng(seed)
    if data is Data.INTEGERS:
        values = rng.integers(-3, 4, (rows, depth)).astype(np.float32)
    else:
        values = rng.standard_normal((rows, depth)).astype(np.float32)
    if emitted.dtype == "bf16":
        encoded: Array = f32_to_bf16(values)
        decoded = bf16_to_f32(encoded)
    elif emitted.dtype == "fp16":
        encoded = values.astype(np.float16)
        decoded = encoded.astype(np.float32)
    else:
        name = fp8_names(emitted.target)[0]
        encoded = encode_float8(values, name)
        decoded = float_table(name)[encoded]
    return encoded, decoded.astype(np.float64)


def _widened(emitted: EmittedKernel, encoded: Array, columns: int) -> Array:
    """Rows of ``columns`` elements, NaN where there were none."""
    rows, filled = encoded.shape
    if columns == filled:
        return encoded
    # All ones is a NaN in bf16, fp16 and OCP fp8; FNUZ fp8 has only 0x80.
    octet = 0x80 if emitted.dtype == "fp8" and emitted.target == "gfx942" else 0xFF
    wide = np.full((rows, columns * encoded.itemsize), octet, np.uint8).view(encoded.dtype)
    wide[:, :filled] = encoded
    return wide


def _blank(out_dtype: str, rows: int, columns: int) -> Array:
    kind = {"bf16": np.uint16, "fp16": np.float16, "f32": np.float32}[out_dtype]
    size = np.dtype(kind).itemsize
    return np.full((rows, columns * size), _UNTOUCHED, np.uint8).view(kind)


def _compare(out_dtype: str, c: Array, a: Reals, b: Reals, data: Data) -> tuple[int, float]:
    """(elements out of bounds, largest error relative to the bound)."""
    exact = a @ b.T
    got = (bf16_to_f32(np.ascontiguousarray(c)) if out_dtype == "bf16" else c).astype(np.float64)
    if data is Data.INTEGERS:
        rounded = exact.astype(np.float32)
        if out_dtype == "bf16":
            rounded = bf16_to_f32(f32_to_bf16(rounded))
        elif out_dtype == "fp16":
            rounded = rounded.astype(np.float16).astype(np.float32)
        different = got != rounded
        return int(different.sum()), float(different.any())
    magnitude = np.abs(a) @ np.abs(b).T
    bound = np.abs(exact) * _OUT_EPSILON[out_dtype] * 1.01 + magnitude * a.shape[1] * _F32_EPSILON
    with np.errstate(invalid="ignore"):
        error = np.abs(got - exact) / bound
    error = np.where(np.isnan(error), np.inf, error)
    return int((error > 1).sum()), float(error.max(initial=0.0))
