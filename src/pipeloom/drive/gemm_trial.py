"""Try a whole matrix product in the emulator, against NumPy, with everything a caller may do to it.

    ready = ReadyGemm.of(gemm_kernel(spec))
    run_gemm(ready, GemmCall(m=77, n=130, k=200, spare=(8, 0, 3), excess=(1, 2, 0))).summary()

Arrays are exactly as long as they must be, so that any access past them is a finding; gaps between
rows and batches hold NaN in inputs, and bytes in C that must survive. Numbers are small integers,
whose sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.drive.gemm import Gemm, GemmSpec, Packing
from pipeloom.drive.trial import Launchable
from pipeloom.judge.emulate import Defect, Timing, run_kernel
from pipeloom.machine.dtypes import E8M0, DType
from pipeloom.write import EmittedKernel, assemble

Array = npt.NDArray[Any]
UNTOUCHED = 0x5A
GUARD = 64
"""Elements behind the last of C that must survive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmCall:
    """One call. ``spare`` are the elements between rows of A, B and C, ``gap`` between batches;
    ``excess`` are workgroups too many along x, y and z."""

    m: int
    n: int
    k: int
    batches: int = 1
    spare: tuple[int, int, int] = (0, 0, 0)
    gap: tuple[int, int, int] = (0, 0, 0)
    excess: tuple[int, int, int] = (0, 0, 0)
    alpha: float = 1.0
    beta: float = 0.0
    seed: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """By dimension."""
        return {"m": self.m, "n": self.n, "k": self.k}


@dataclass(frozen=True, slots=True)
class ReadyGemm:
    """A matrix product whose kernels are loaded, to be run often."""

    made: Gemm
    kernels: Mapping[str, Launchable]
    """By symbol."""

    @classmethod
    def of(cls, made: Gemm) -> ReadyGemm:
        """Assembled and loaded."""
        kernels = [made.kernel, *(p.kernel for p in made.before.values())]
        kernels += [] if made.then is None else [made.then]
        unique = {kernel.name: kernel for kernel in kernels}
        return cls(made, {n: Launchable.load(k, assemble(k)) for n, k in unique.items()})


@dataclass(frozen=True, slots=True)
class GemmOutcome:
    """What a run found: elements of C that are wrong, bytes outside of it that were written."""

    problem: GemmCall
    findings: tuple[Defect, ...]
    wrong: int
    spoilt: int
    executed: int

    @property
    def ok(self) -> bool:
        """Every element right, nothing else touched, nothing found."""
        return not self.findings and not self.wrong and not self.spoilt

    def summary(self) -> str:
        """One line."""
        if self.ok:
            return f"correct ({self.executed} instructions)"
        found = f"; first finding: {self.findings[0]}" if self.findings else ""
        return f"WRONG: {self.wrong} elements, {self.spoilt} bytes outside{found}"


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A batch of matrices in one flat array of codes."""

    codes: Array
    rows: int
    columns: int
    pitch: int
    stride: int
    batches: int

    @classmethod
    def blank(
        cls, fill: int, kind: type[np.generic], shape: tuple[int, int, int], spare: int, gap: int
    ) -> _Matrix:
        batches, rows, columns = shape
        pitch = columns + spare
        stride = rows * pitch + gap
        empty = not (rows and columns)
        length = 1 if empty else (batches - 1) * stride + (rows - 1) * pitch + columns
        # Loads take whole words, the one with the last element too.
        length += -length % (4 // np.dtype(kind).itemsize)
        codes = np.full(length * np.dtype(kind).itemsize, fill, np.uint8).view(kind)
        return cls(codes, rows, columns, pitch, stride, batches)

    def places(self) -> Array:
        """Index in ``codes`` by batch, row and column."""
        batch, row, column = np.ogrid[: self.batches, : self.rows, : self.columns]
        return np.asarray(batch * self.stride + row * self.pitch + column)


def run_gemm(
    ready: ReadyGemm,
    problem: GemmCall,
    timing: Timing = Timing.RANDOM,
    *,
    check_races: bool = True,
) -> GemmOutcome:
    """Run once and compare; raises ``EmitError`` for a problem that the kernel does not allow."""
    made, spec = ready.made, ready.made.spec
    p, rng = problem, np.random.default_rng(problem.seed)
    launch = made.kernel.launch
    shapes = [(p.batches, *made.shape(name, p.m, p.n, p.k)) for name in "AB"]
    a, a_values = _input(spec.element, shapes[0], p.spare[0], p.gap[0], rng)
    b, b_values = _input(spec.element_b, shapes[1], p.spare[1], p.gap[1], rng)
    blocks = _blocks(p, rng) if spec.blocks else {}
    if spec.layout[0] == "T":
        a_values = a_values.transpose(0, 2, 1)
    if spec.layout[1] == "N":
        b_values = b_values.transpose(0, 2, 1)
    kind = _storage(spec.out_element)
    c = _Matrix.blank(UNTOUCHED, kind, (p.batches, p.m, p.n), p.spare[2], p.gap[2])
    guard = np.full(GUARD * np.dtype(kind).itemsize, UNTOUCHED, np.uint8).view(kind)
    before = np.zeros((p.batches, p.m, p.n), np.float32)
    if spec.finish.beta:
        # Where beta is 0, C may be anything; else small integers like A and B.
        before = rng.integers(-3, 4, before.shape).astype(np.float32)
        c.codes[c.places()] = _codes(
            spec.out_element, before if p.beta else np.full_like(before, np.nan)
        )
    whole = np.concatenate([c.codes, guard])
    run = _Run(ready, p, timing, check_races)
    if blocks:
        a_values = a_values * blocks["blocks_A"][1]
        b_values = b_values * blocks["blocks_B"][1]
    arrays = {"A": a, "B": b, "C": c, "out": c, **{n: found for n, (found, _) in blocks.items()}}
    arrays |= {name: run.pack(packing, arrays[name]) for name, packing in made.before.items()}
    pitches = {name: matrix.pitch for name, matrix in arrays.items()}
    sums = np.zeros(0, np.float32)
    if made.then is not None:
        sums = np.full(max(p.m * p.n * p.batches * spec.splits, 1), np.nan, np.float32)
        plain = _Matrix(sums, p.m, p.n, p.n, p.m * p.n, p.batches)
        arrays |= {"out": plain, "P": replace(plain, stride=p.m * p.n * spec.splits)}
        pitches |= {"out": p.n, "P": p.n}
    vectors = _vectors(made, p, rng)
    told = {**p.sizes, "k": made.taken(p.k) if made.before else p.k}
    launch.check(told, pitches)
    buffers = {name: matrix.codes for name, matrix in arrays.items()} | {"C": whole, "out": whole}
    if spec.element.bits < 8:
        buffers |= {name: _in_bytes(buffers[name]) for name in "AB"}
    values: dict[str, Any] = {**buffers, **told, "batches": p.batches}
    values |= vectors
    values |= {f"bs_{name}": vector.shape[1] for name, vector in vectors.items()}
    values |= {"alpha": np.float32(p.alpha), "beta": np.float32(p.beta)}
    values |= {f"ld_{name}": pitch for name, pitch in pitches.items()}
    values |= {f"bs_{name}": matrix.stride for name, matrix in arrays.items()}
    if made.then is not None:
        values["out"] = sums
    run.launch(made.kernel, p.sizes, values)
    if made.then is not None:
        sizes = {"m": p.m, "n": p.n, "s": spec.splits}
        made.then.launch.check(sizes, {**pitches, "out": c.pitch})
        values |= {"P": sums, "out": whole, "ld_out": c.pitch, "bs_out": c.stride, **sizes}
        run.launch(made.then, sizes, values)
    sum_ = np.einsum("bmk,bnk->bmn", a_values.astype(np.float64), b_values.astype(np.float64))
    expected = _finished(spec, p, sum_, before, vectors)
    places = c.places()
    got = whole[places]
    want = spec.out_element.round(expected.astype(np.float32))
    numbers = got if spec.out_element.bits == 32 else spec.out_element.decode(got)
    untouched = np.ones(len(whole), np.bool_)
    untouched[places] = False
    left = np.ascontiguousarray(whole[untouched]).view(np.uint8)
    return GemmOutcome(
        problem,
        tuple(run.findings),
        int((~_same(spec, numbers, want)).sum()),
        int((left != UNTOUCHED).sum()),
        run.executed,
    )


def _vectors(made: Gemm, p: GemmCall, rng: np.random.Generator) -> dict[str, Array]:
    """Scales, which are powers of two, and bias: by batch, as they are declared."""
    spec, lengths = made.spec, {"scale_A": p.m, "scale_B": p.n, "bias": p.n}
    asked = {"scale_A": spec.finish.scales, "scale_B": spec.finish.scales, "bias": spec.finish.bias}
    return {
        name: (
            rng.integers(-3, 4, (p.batches, length))
            if name == "bias"
            else rng.choice([0.5, 1, 2], (p.batches, length))
        ).astype(np.float32)
        for name, length in lengths.items()
        if asked[name]
    }


def _finished(
    spec: GemmSpec, p: GemmCall, product: Array, before: Array, vectors: dict[str, Array]
) -> Array:
    """What follows the sum, in double precision."""
    value = product
    if spec.finish.scales:
        value = value * vectors["scale_A"][:, :, None] * vectors["scale_B"][:, None, :]
    value = value * (p.alpha if spec.finish.alpha else 1.0) + before * (
        p.beta if spec.finish.beta else 0.0
    )
    if spec.finish.bias:
        value = value + vectors["bias"][:, None, :]
    if spec.finish.activation == "relu":
        value = np.maximum(value, 0)
    elif spec.finish.activation == "silu":
        value = value / 2 * (1 + np.tanh(value / 2))
    elif spec.finish.activation == "gelu":
        inner = np.sqrt(2 / np.pi) * (value + 0.044715 * value**3)
        value = value / 2 * (1 + np.tanh(inner))
    return np.asarray(value)


def _same(spec: GemmSpec, got: Array, want: Array) -> Array:
    """Sums of small integers are exact; exponentials may send a value to its neighbour."""
    slack = 2.0**-spec.out_element.mantissa if spec.finish.activation in ("silu", "gelu") else 0.0
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= slack * np.maximum(np.abs(want), 1)
    return np.asarray((got == want) | near)


class _Run:
    """The launches of one problem, one after the other."""

    def __init__(
        self, ready: ReadyGemm, problem: GemmCall, timing: Timing, check_races: bool
    ) -> None:
        self._ready, self._problem, self._timing = ready, problem, timing
        self._check_races = check_races
        self.findings: list[Defect] = []
        self.executed = 0

    def launch(
        self, kernel: EmittedKernel, sizes: Mapping[str, int], values: Mapping[str, Any]
    ) -> None:
        """One kernel; a grid of nothing is no launch."""
        ready, problem = self._ready.kernels[kernel.name], self._problem
        counts = kernel.launch.grid(sizes, problem.batches)
        grid = tuple(n + more for n, more in zip(counts, problem.excess, strict=True))
        if 0 in grid:
            return
        result = run_kernel(
            ready.kernel,
            grid=grid,
            block=kernel.block,
            args=[values[argument.name] for argument in kernel.arguments],
            seed=problem.seed,
            timing=self._timing,
            line_map=ready.line_map,
            check_races=self._check_races,
        )
        self.findings += result.findings
        self.executed += result.executed

    def pack(self, packing: Packing, operand: _Matrix) -> _Matrix:
        """The operand in aligned rows, with what lies before it."""
        k = self._ready.made.taken(self._problem.k)
        rows, pitch, skipped = packing.place(operand.rows, operand.columns, k)
        shared = 8 * packing.unit // packing.bits
        batches, kind = operand.batches, operand.codes.dtype.type
        whole = _Matrix.blank(0xFF, kind, (batches, rows, pitch // shared), 0, 0)
        sizes = {"r": operand.rows, "c": operand.columns // shared}
        before, after = operand.pitch // shared, pitch // shared
        packing.kernel.launch.check(sizes, {"X": before, "P": after})
        codes = operand.codes if shared == 1 else _in_bytes(operand.codes)
        values = {"X": codes, "ld_X": before, "bs_X": operand.stride // shared}
        values |= {"P": whole.codes, "ld_P": after, "bs_P": whole.stride, "batches": batches}
        self.launch(packing.kernel, sizes, {**values, **sizes})
        kept = whole.codes[skipped // shared :]
        kept = kept if len(kept) else whole.codes
        if shared > 1:  # codes again, as an operand that was not copied has them
            kept = np.stack([kept & 15, kept >> 4], axis=1).reshape(-1)
        return replace(whole, codes=kept, pitch=pitch, stride=whole.stride * shared)


def _input(
    dtype: DType, shape: tuple[int, int, int], spare: int, gap: int, rng: np.random.Generator
) -> tuple[_Matrix, Array]:
    """Small integers, NaN between them; and their values."""
    values = dtype.round(rng.integers(-3, 4, shape).astype(np.float32))
    matrix = _Matrix.blank(0xFF, _storage(dtype), shape, spare, gap)
    matrix.codes[:] = _codes(dtype, np.array([np.nan], np.float32))[0]
    matrix.codes[matrix.places()] = _codes(dtype, values)
    return matrix, values


def _blocks(p: GemmCall, rng: np.random.Generator) -> dict[str, tuple[_Matrix, Array]]:
    """Block scales of A and B, which are powers of two, and the scale of every element.

    Rows are as far apart as they happen to be: nothing about them is aligned.
    """
    found = {}
    for name, rows in (("blocks_A", p.m), ("blocks_B", p.n)):
        shape = (p.batches, rows, p.k // E8M0.covers)
        matrix = _Matrix.blank(0xFF, np.uint8, shape, p.seed % 3, p.seed % 5)
        values = rng.choice([0.5, 1, 2], shape)
        matrix.codes[matrix.places()] = E8M0.encode(values)
        found[name] = matrix, np.repeat(values, E8M0.covers, axis=-1)
    return found


def _in_bytes(codes: Array) -> Array:
    """Codes of four bits, two to a byte, in whole words."""
    whole = np.pad(codes, (0, -len(codes) % 8))
    return np.asarray(whole[::2] | whole[1::2] << 4)


def _codes(dtype: DType, values: Array) -> Array:
    return values if dtype.bits == 32 else dtype.encode(values)


def _storage(dtype: DType) -> type[np.generic]:
    kinds: dict[int, type[np.generic]] = {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.float32}
    return kinds[dtype.bits]
