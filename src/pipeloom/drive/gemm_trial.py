"""Try a whole matrix product in the emulator, against NumPy, with everything a caller may do to it.

    ready = ReadyGemm.of(gemm_kernel(spec))
    run_gemm(ready, GemmCall(m=77, n=130, k=200, spare=(8, 0, 3), excess=(1, 2, 0))).summary()

Arrays are exactly as long as they must be, so that any access past them is a finding; gaps between
rows and batches hold NaN in inputs, and bytes in C that must survive. Numbers are small integers,
whose sums are exact in any order. What must come out is what the product's declaration means, K
whole and operands where the caller has them, whichever kernels it takes to compute that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.drive.array_places import UNTOUCHED, storage
from pipeloom.drive.gemm import Gemm
from pipeloom.drive.runners import InEmulator, Runner
from pipeloom.drive.trial import Data, Launchable, Trial, made_up
from pipeloom.judge.emulate import Timing
from pipeloom.judge.execute.allowed import allowed, outside
from pipeloom.machine.dtypes import DType
from pipeloom.program.block_values import is_exact
from pipeloom.program.evaluate import evaluate
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node
from pipeloom.write import assemble

Array = npt.NDArray[Any]
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
        return cls(made, {k.name: Launchable.load(k, assemble(k)) for k in made.kernels})

    def runner(
        self, seed: int, timing: Timing, check_races: bool, excess: tuple[int, int, int]
    ) -> Runner:
        """What launches them in the emulator, as their contract says."""
        kernels = {name: (one.kernel, one.line_map) for name, one in self.kernels.items()}
        return InEmulator(self.made.contract(), kernels, seed, timing, check_races, excess)


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

    def shown(self, meaning: Meaning, name: str) -> Array:
        """The matrices as an array with gaps; two codes of 4 bits are one byte of it."""
        node = next((one for one in meaning.inputs if one.name == name), None)
        shared = 8 // min(node.type.dtype.bits, 8) if node is not None else 1
        codes = self.codes if shared == 1 else _in_bytes(self.codes)
        size = codes.itemsize
        return np.lib.stride_tricks.as_strided(
            codes,
            (self.batches, self.rows, self.columns // shared)[0 if self.batches > 1 else 1 :],
            (self.stride * size // shared, self.pitch * size // shared, size)[
                0 if self.batches > 1 else 1 :
            ],
        )


def run_gemm(
    ready: ReadyGemm,
    call: GemmCall,
    timing: Timing = Timing.RANDOM,
    *,
    check_races: bool = True,
    runner: Runner | None = None,
) -> Trial:
    """Run once and compare; raises ``DeviceError`` for a call that the kernel does not allow."""
    spec, p = ready.made.spec, call
    meaning = replace(spec, splits=1).loop().meaning
    given = _given(meaning, p)
    arrays = {
        node.name: _laid(node, given[node.name], *_apart(node.name, p))
        for node in meaning.inputs
        if len(node.type.dims) > 1 and node.name != "C"
    }
    vectors = {name: values for name, values in given.items() if name not in (*arrays, "C")}
    out = spec.out_element
    shape = (p.batches, p.m, p.n)
    c = _Matrix.blank(UNTOUCHED, storage(out), shape, p.spare[2], p.gap[2])
    if "C" in given:  # where beta is 0, it may be anything
        before = given["C"] if p.beta else np.full_like(given["C"], np.nan)
        c.codes[c.places()] = _codes(out, before)
    guard = np.full(GUARD * c.codes.itemsize, UNTOUCHED, np.uint8).view(c.codes.dtype)
    whole = np.concatenate([c.codes, guard])
    arrays |= {name: replace(c, codes=whole) for name in ("C", "out")}
    shown = {name: matrix.shown(meaning, name) for name, matrix in arrays.items()}
    shown |= {name: v if p.batches > 1 else v[0] for name, v in vectors.items()}
    scalars = {"alpha": p.alpha, "beta": p.beta}
    runner = runner or ready.runner(p.seed, timing, check_races, p.excess)
    launched = runner(shown, scalars)
    batches = [{n: one[batch] for n, one in given.items()} for batch in range(p.batches)]
    expected = np.stack([evaluate(meaning, one, scalars)["out"] for one in batches])
    bounds = None
    if not is_exact(meaning):
        bounds = np.stack([allowed(meaning, one, scalars)["out"] for one in batches])
    places = c.places()
    got = whole[places]
    numbers = got if out.bits == 32 else out.decode(got)
    compared = outside(numbers, expected, bounds)
    untouched = np.ones(len(whole), np.bool_)
    untouched[places] = False
    left = np.ascontiguousarray(whole[untouched]).view(np.uint8)
    spoilt = int((left != UNTOUCHED).sum()) + launched.spoilt
    sizes = {**p.sizes, "batches": p.batches}
    return Trial(
        sizes,
        p.seed,
        launched.findings,
        {"C": compared.wrong},
        compared.worst,
        spoilt,
        launched.executed,
        unbounded={"C": compared.unbounded} if compared.unbounded else {},
        untested=("C",) if compared.empty else (),
    )


def _given(meaning: Meaning, p: GemmCall) -> dict[str, Array]:
    """Small integers for every input, by batch; nothing for a C that beta leaves out."""
    found = {}
    for at, node in enumerate(meaning.inputs):
        seeds = (p.seed + 1_000_003 * (at + len(meaning.inputs) * b) for b in range(p.batches))
        drawn = np.stack([made_up(node, p.sizes, seed, Data.INTEGERS) for seed in seeds])
        found[node.name] = drawn if p.beta or node.name != "C" else np.zeros_like(drawn)
    return found


def _apart(name: str, p: GemmCall) -> tuple[int, int]:
    """Elements between rows and between batches; of block scales, whose rows need no alignment,
    as it happens."""
    if name in ("A", "B"):
        return p.spare["AB".index(name)], p.gap["AB".index(name)]
    return p.seed % 3, p.seed % 5


def _laid(node: Node, values: Array, spare: int, gap: int) -> _Matrix:
    """An input in memory, NaN between its rows."""
    dtype = node.type.dtype
    values = values[..., :: dtype.covers]
    matrix = _Matrix.blank(0xFF, storage(dtype), values.shape, spare, gap)
    matrix.codes[:] = _codes(dtype, np.array([np.nan], np.float32))[0]
    matrix.codes[matrix.places()] = _codes(dtype, values)
    return matrix


def _in_bytes(codes: Array) -> Array:
    """Codes of four bits, two to a byte, in whole words."""
    whole = np.pad(codes, (0, -len(codes) % 8))
    return np.asarray(whole[::2] | whole[1::2] << 4)


def _codes(dtype: DType, values: Array) -> Array:
    return values if dtype.bits == 32 else dtype.encode(values)
