"""Addresses of the emitted kernels are 64 bits wide, and the emulator notices if they are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pipeloom.drive.trial import Launchable
from pipeloom.judge.emulate import Pitched, RunResult, load_code_object, run_kernel
from pipeloom.judge.emulate.formats import bf16_to_f32, f32_to_bf16
from pipeloom.write import EmittedKernel, assemble
from tests.unit.write.kernels import ready as loaded
from tests.unit.write.kernels import run

SHAPE = (64, 64, 64, 16, 32)
ADD_CARRY = (r"s_addc_u32 (s\d+), (s\d+), (s\d+|0)\n", r"s_add_u32 \1, \2, \3\n")
HIGH_HALF = (r"s_mul_hi_u32 (s\d+), s\d+, s\d+", r"s_mov_b32 \1, 0")


def changed(ready: Launchable, pattern: str, new: str, which: int | None = None) -> EmittedKernel:
    """The kernel with the ``which``-th match replaced, or all."""
    text = ready.emitted.text
    places = list(re.finditer(pattern, text))
    assert places
    for match in reversed(places if which is None else [places[which]]):
        text = text[: match.start()] + match.expand(new) + text[match.end() :]
    return replace(ready.emitted, text=text)


PROBLEMS = ((70, 70), (1, 300))
"""M and N: blocks below each other and side by side; one row, whose columns cross 4 GiB."""


def test_buffers_across_4_gib(built: Callable[..., Launchable]) -> None:
    ready = built("single_buffer", "bf16", SHAPE)
    for m, n in PROBLEMS:
        assert all(run(ready, m, n, 0, seed=s).ok for s in range(4))


@pytest.mark.parametrize("which", [None, 0, 1, 2, 3])
def test_a_dropped_carry_is_noticed(built: Callable[..., Launchable], which: int | None) -> None:
    """Of A, of B, and of C by rows and by columns."""
    ready = built("single_buffer", "bf16", SHAPE)
    assert len(re.findall(ADD_CARRY[0], ready.emitted.text)) == 4
    bad = changed(ready, *ADD_CARRY, which)
    code = loaded(bad)
    trials = (run(code, m, n, 0, seed=s) for s in range(4) for m, n in PROBLEMS)
    assert not all(trial.ok for trial in trials)


def run_apart(emitted: EmittedKernel, lda: int, ldc: int) -> tuple[RunResult, bool]:
    """A and C with rows gigabytes apart: (the run, whether C is right)."""
    M, N, K = 193, 64, 128
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, K)).astype(np.float32) for rows in (M, N))
    c = np.zeros((M, N), np.uint16)
    sizes = {"m": M, "n": N, "k": K}
    emitted.launch.check(sizes, {"A": lda, "out": ldc})
    result = run_kernel(
        load_code_object(assemble(emitted).data),
        grid=emitted.launch.grid(sizes),
        block=emitted.block,
        args=[
            Pitched(f32_to_bf16(a), 2 * lda),
            f32_to_bf16(b),
            Pitched(c, 2 * ldc),
            *(M, K, N, lda, K, ldc),
        ],
        seed=1,
    )
    return result, bool((bf16_to_f32(c) == bf16_to_f32(f32_to_bf16(a @ b.T))).all())


@pytest.mark.parametrize(("which", "name"), [(0, "A"), (2, "C")])
def test_rows_times_stride_need_64_bits(
    built: Callable[..., Launchable], which: int, name: str
) -> None:
    """The fourth block of A and of C starts more than 4 GiB in."""
    ready = built("single_buffer", "bf16", SHAPE)
    lda = ldc = (1 << 24) - 64
    result, right = run_apart(ready.emitted, lda, ldc)
    assert result.ok, [str(finding) for finding in result.findings]
    assert right
    bad = changed(ready, *HIGH_HALF, which)
    result, right = run_apart(bad, lda, ldc)
    assert not (result.ok and right), f"the base of {name} lost its high half"
