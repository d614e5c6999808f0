"""Element types that nobody ships, of four bits: one whose products run, and two that none has.

The two have no mantissa, one of them in blocks of 16: no instruction takes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import pipeloom as pl

E2M1 = pl.DType("acme_e2m1", exponent=2, mantissa=1, bias=1)
E3M0 = pl.DType("acme_e3m0", exponent=3, mantissa=0, bias=3)
BLOCKS = pl.DType("acme_mx", exponent=3, mantissa=0, bias=3, scale=pl.BlockScale(16))
GFX950 = pl.target_for("gfx950")
QUICK = pl.Exact(work_limit=1.0)

MULTIPLIES = replace(
    GFX950,
    arch="acme2",
    processor="gfx950",
    matrix_ops=(
        *GFX950.matrix_ops,
        *(
            pl.MatrixOp(
                16,
                16,
                128,
                dtype.name,
                pl.Fact(8, "cycles", pl.FactKind.ASSUMED, "made up for a test"),
            )
            for dtype in (E2M1, E3M0)
        ),
    ),
)
"""A chip with a matrix instruction for the types."""


def column_sum(dtype: pl.DType) -> pl.Loop:
    """out[b, n] = sum over k of X[b, k, n]."""
    loop = pl.Loop("column_sum", over="k")
    x = loop.stream("X", dtype, b=1, k=1, n=512)
    total = loop.carry("total", pl.F32, b=1, n=512)
    total += x.sum("k")
    loop.store("out", total)
    return loop


def gemm(dtype: pl.DType) -> pl.Loop:
    """out = A B^T in f32."""
    loop = pl.Loop("gemm", over="k")
    a = loop.stream("A", dtype, m=32, k=128)
    b = loop.stream("B", dtype, n=32, k=128)
    c = loop.carry("C", pl.F32, m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


def powers(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Rounded by hand to 0 or a power of two from 1/4 to 16, ties to the even code."""
    grid = np.array([0, *(2.0**e for e in range(-2, 5))])
    size = np.abs(values)[..., None]
    distance = np.abs(size - grid)
    even = np.arange(8) % 2 == 0
    best = np.lexsort((np.broadcast_to(~even, distance.shape), distance), axis=-1)[..., 0]
    signed: NDArray[np.float64] = np.sign(values) * grid[best]
    return signed


def test_it_means_what_a_table_of_its_values_says() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 600)).astype(np.float32) * 4
    out = column_sum(E3M0).evaluate(X=x)["out"]
    np.testing.assert_array_equal(out, powers(x).sum(axis=1).astype(np.float32))


def test_blocks_share_a_scale() -> None:
    """What is far from 1 in a block of its own is held as well as what is near."""
    x = np.full((1, 1, 512), 1.0, np.float32)
    x[..., :16] = 2.0**40
    assert (BLOCKS.round(x) == x).all()
    assert not (E3M0.round(x) == x).all()


@pytest.mark.parametrize("dtype", [E3M0, BLOCKS], ids=str)
def test_streams_of_it(dtype: pl.DType) -> None:
    """Pipelined, proved, executed, simulated, written to a file; no instruction unpacks it."""
    loop = column_sum(dtype)
    program = pl.pipeline(loop, GFX950, waves=1, depth=4, strategy=QUICK)
    assert pl.verify(program).proved
    assert pl.execute(program, trips=2).correct
    assert pl.simulate(program).steady_cycles_per_iteration > 0
    assert pl.Program.from_json(program.to_json()) == program
    with pytest.raises(pl.EmitError, match=str(dtype)) as caught:
        pl.emit(program)
    assert caught.value.hint


@pytest.mark.parametrize("sizes", [{"m": 32, "n": 32}, {"m": 45, "n": 37}], ids=str)
def test_products_of_a_type_of_ones_own_run(sizes: dict[str, int]) -> None:
    """The instruction is told the format, and the format is that of e2m1, whoever named it."""
    program = pl.pipeline(gemm(E2M1), MULTIPLIES, waves=4, depth=2, strategy=QUICK)
    assert pl.verify(program).proved
    emitted = pl.emit(program)
    trial = pl.run(emitted, sizes={**sizes, "k": emitted.k_min + emitted.k_step})
    assert trial.ok, trial.summary()


def test_no_format_is_guessed_for_products() -> None:
    program = pl.pipeline(gemm(E3M0), MULTIPLIES, waves=4, depth=2, strategy=QUICK)
    with pytest.raises(pl.EmitError, match="acme2 has no matrix instruction for"):
        pl.emit(program)


def test_products_of_it_on_a_chip_that_has_them() -> None:
    loop = gemm(E3M0)
    program = pl.pipeline(loop, MULTIPLIES, waves=4, depth=2, strategy=QUICK)
    assert pl.verify(program).proved
    assert pl.execute(program, trips=1, order="reverse").correct
    shapes = {
        issue.shape
        for _, _, step in program.groups[0].steps()
        if isinstance(step, pl.Work)
        for issue in step.issues
        if issue.unit is pl.Unit.MATRIX
    }
    assert shapes == {"16x16x128_acme_e3m0"}
    slower = replace(
        MULTIPLIES,
        matrix_ops=tuple(
            replace(op, cycles=replace(op.cycles, value=4096)) if op.dtype == E3M0.name else op
            for op in MULTIPLIES.matrix_ops
        ),
    )
    assert pl.simulate(program, slower).total_cycles > 2 * pl.simulate(program).total_cycles


def test_four_bits_take_half_a_byte() -> None:
    program = pl.pipeline(gemm(E3M0), MULTIPLIES, waves=4, depth=2, strategy=QUICK)
    tiles = [r for r in program.resources if r.space is pl.Space.LDS]
    assert tiles
    assert all(2 * r.bytes == r.copies * r.type.elements for r in tiles)


def test_products_of_it_elsewhere_are_refused_by_name() -> None:
    with pytest.raises(pl.ConfigError, match="no plain matrix instruction of gfx950 for acme_e3m0"):
        pl.pipeline(gemm(E3M0), GFX950, waves=4, strategy=QUICK)
    with pytest.raises(pl.ConfigError, match="matrix instruction of gfx950 for acme_mx"):
        pl.pipeline(gemm(BLOCKS), GFX950, waves=4, strategy=QUICK)


def test_no_instruction_is_guessed_for_a_type_that_kernels_could_load() -> None:
    """As wide as fp8, with another bias: the same instruction would give other numbers."""
    other = pl.DType("acme8", exponent=4, mantissa=3, bias=10)
    program = pl.pipeline(column_sum(other), GFX950, waves=1, depth=4, strategy=QUICK)
    assert pl.execute(program, trips=1).correct
    with pytest.raises(pl.EmitError, match="no conversion from acme8 to f32 is known"):
        pl.emit(program)


def test_the_name_of_a_shipped_type_is_taken() -> None:
    with pytest.raises(pl.ConfigError, match="bf16 is the name of a shipped type that differs"):
        column_sum(pl.DType("bf16", exponent=5, mantissa=10, bias=15))
