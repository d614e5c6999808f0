"""A family of kernels with a reduction of its own: rows over their largest magnitude, in one file.

The reduction is an op: what a term is in NumPy, how terms combine, and the instruction for a term.
"""

from __future__ import annotations

import numpy as np
import pytest

import pipeloom as pl

ABSMAX = pl.OpDef(
    "acme.absmax",
    1,
    np.abs,
    reduce=pl.Reduce.MAX,
    lowering=("v_and_b32 {d}, 0x7fffffff, {0}",),
    exact=True,
)
GFX950 = pl.target_for("gfx950")


def absmax_rows(
    columns: int = 256, rows: int = 4, dtype: pl.DType = pl.F32, *, weighted: bool = False
) -> pl.Loop:
    """out[b, r, :] = X[b, r, :] / max |X[b, r, :]|, and times a weight by column; of 0, 0."""
    loop = pl.Loop("absmax_rows", over="r")
    x = loop.stream("X", dtype, b=1, r=rows, n=columns)
    x = pl.within(x, loop.left("n", columns)).named("inside")
    top = loop.apply(ABSMAX, x, over=("n",)).named("top")
    value = x * pl.rcp(pl.maximum(top, 2.0**-100))
    if weighted:
        value = value * loop.resident("weight", pl.F32, n=columns)
    loop.store("out", value.to(pl.BF16))
    return loop


FAMILY = {
    "f32": absmax_rows(),
    "bf16": absmax_rows(512, dtype=pl.BF16),
    "weighted": absmax_rows(weighted=True),
}


def test_it_means_a_line_of_numpy() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 200)).astype(np.float32)
    x[0, 1] = 0
    top = np.abs(x).max(axis=-1, keepdims=True)
    expected = np.divide(x, top, out=np.zeros_like(x), where=top > 0)
    np.testing.assert_allclose(FAMILY["f32"].evaluate(X=x)["out"], expected, atol=2**-8)


@pytest.mark.parametrize("member", FAMILY)
def test_every_member_is_proved_executed_and_runs(member: str) -> None:
    """Rows of any length, which no wave may look past."""
    loop = FAMILY[member]
    program = pl.pipeline(loop, GFX950, waves=4)
    assert pl.verify(program, ops=loop.ops).proved
    assert pl.execute(program, trips=1, ops=loop.ops).correct
    emitted = pl.emit(program, ops=loop.ops)
    for columns, data in ((256, pl.Data.INTEGERS), (130, pl.Data.NORMAL)):
        sizes = {"b": 2, "r": emitted.k_min + 2 * emitted.k_step, "n": columns}
        trial = pl.run(emitted, sizes=sizes, ops=loop.ops, data=data, seed=columns)
        assert trial.ok, trial.summary()
