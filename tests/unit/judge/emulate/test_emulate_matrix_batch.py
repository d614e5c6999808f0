"""Products that a wave holds back come out as if each had been computed when it was executed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import matrix_batch

ROWS = 40


def program(seed: int) -> str:
    """Products and moves over few registers: every kind of dependence, in chains."""
    draw = random.Random(seed)

    def rows(count: int) -> str:
        first = 8 + 2 * draw.randrange((ROWS - count) // 2 + 1)
        return f"v[{first}:{first + count - 1}]"

    lines = []
    for _ in range(30):
        if draw.random() < 0.2:
            lines.append(f"v_mov_b32 v{8 + draw.randrange(ROWS)}, v{8 + draw.randrange(ROWS)}")
        elif draw.random() < 0.5:
            addend = draw.choice((rows(4), "1.0"))
            lines.append(f"v_mfma_f32_16x16x32_bf16 {rows(4)}, {rows(4)}, {rows(4)}, {addend}")
        else:
            lines.append(f"v_mfma_i32_16x16x64_i8 {rows(4)}, {rows(4)}, {rows(4)}, {rows(4)}")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(4))
def test_held_products_equal_single_ones(
    bench: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    given = list(np.random.default_rng(seed).integers(0, 2**32, (ROWS, 64)).astype(np.uint32))
    names = [f"v{8 + i}" for i in range(ROWS)]
    body = program(seed)
    together = bench.run(body, given, names)
    monkeypatch.setattr(matrix_batch, "MOST_HELD", 1)
    assert np.array_equal(together, bench.run(body, given, names))


def test_a_load_that_lands_late_does_not_reach_products_before_it(bench: Any) -> None:
    """The load overwrites A behind the product that reads it, before anything looks at D."""
    a = np.full(64, 0x3F803F80, np.uint32)
    two = np.full(64, 0x40004000, np.uint32)
    for timing in ("early", "late"):
        (got,) = bench.run(
            """
            v_mfma_f32_16x16x16_bf16 v[20:23], v[8:9], v[8:9], 0
            s_sub_u32 s4, s4, 256
            s_subb_u32 s5, s5, 0
            global_load_dword v8, v1, s[4:5]
            s_waitcnt vmcnt(0)
            s_nop 7""",
            [a, a, two],
            ["v20"],
            timing=timing,
        )
        assert (got.view(np.float32) == 16).all()
