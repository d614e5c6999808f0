"""Matrix products as BLAS has them: C = alpha * op(A) @ op(B) + beta * C, and what may follow.

Arrays are row-major, with the dimensions in the order in which they lie in memory; what a product
sums over is the dimension that both operands have, so a transposed operand is only declared the
other way round. The argument ``C`` is what C was, ``out`` what it becomes: they may be one array.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.declare.fused import activation_for
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import Tensor
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, E8M0, F32, DType, dtype_for
from pipeloom.machine.target import LOAD_BYTES

LAYOUTS = ("NN", "NT", "TN", "TT")
"""Of A and B: N as in the formula, T stored transposed."""


@dataclass(frozen=True, slots=True, order=True)
class Finish:
    """What follows the sum: activation(alpha * sum + beta * C + bias), each only where asked for.

    ``scales`` multiply every element of the sum with one of its row and one of its column; C is
    what it was. Vectors are f32.
    """

    alpha: bool = False
    beta: bool = False
    scales: bool = False
    bias: bool = False
    activation: str = "none"

    def __post_init__(self) -> None:
        activation_for(self.activation)

    def __str__(self) -> str:
        names = [name for name in ("scales", "alpha", "beta", "bias") if getattr(self, name)]
        return ", ".join(names + ([] if self.activation == "none" else [self.activation]))


PLAIN = Finish()
"""Nothing."""


def product(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    layout: str = "NT",
    finish: Finish = PLAIN,
    dtype_b: DType | str | None = None,
    blocks: bool = False,
    align: int = LOAD_BYTES,
    name: str = "gemm",
) -> Loop:
    """out = op(A) @ op(B), and what ``finish`` makes of it.

    ``blocks``: 32 elements of A along K share a scale of the stream ``blocks_A``, those of B one of
    ``blocks_B``: M x K / 32 and N x K / 32 codes of E8M0, whatever the layout.
    ``align`` is what rows and beginnings of A and B are whole multiples of, in bytes.
    """
    if layout not in LAYOUTS:
        raise ConfigError(
            f"layout is {layout!r}", hint=f"one of: {', '.join(LAYOUTS)}", field="layout"
        )
    loop = Loop(name, over="k")
    a = loop.stream("A", dtype, **({"m": m, "k": k} if layout[0] == "N" else {"k": k, "m": m}))
    other = dtype if dtype_b is None else dtype_b
    b = loop.stream("B", other, **({"n": n, "k": k} if layout[1] == "T" else {"k": k, "n": n}))
    loop.align("A", "B", to=align)
    total = loop.carry("sum", F32, start=0, m=m, n=n)
    if blocks:
        shared = loop.stream("blocks_A", E8M0, m=m, k=k), loop.stream("blocks_B", E8M0, n=n, k=k)
        total += loop.apply("scaled_matmul", a.staged(), b.staged(), *shared, over=("k",))
    else:
        total += loop.apply("matmul", a.staged(), b.staged(), over=("k",))
    value = _finished(loop, total, out, m, n, finish)
    loop.store("out", value.to(out))
    return loop


def slices_sum(
    m: int = 8,
    n: int = 256,
    out: DType | str = BF16,
    *,
    finish: Finish = PLAIN,
    name: str = "gemm_sum",
) -> Loop:
    """The rest of a product whose K was cut into slices: their sums, in order, and what follows."""
    loop = Loop(name, over="s")
    part = loop.stream("P", F32, s=1, m=m, n=n)
    total = loop.carry("sum", F32, start=0, m=m, n=n)
    total += part.sum("s")
    value = _finished(loop, total, out, m, n, finish)
    loop.store("out", value if dtype_for(out) == F32 and value is total else value.to(out))
    return loop


def packed(
    dtype: DType | str = BF16,
    rows: int = 32,
    columns: int = 64,
    *,
    along: bool,
    name: str = "gemm_pack",
) -> Loop:
    """P = X, a matrix of any alignment in rows that are aligned.

    The loop goes along the dimension before whose first element zeros are put: with ``along`` that
    of the rows, whose ends are then aligned; else across them, and their beginnings are.
    """
    loop = Loop(name, over="c" if along else "r")
    loop.store("P", loop.stream("X", dtype, r=rows, c=columns))
    return loop


def _finished(
    loop: Loop, total: Tensor, out: DType | str, m: int, n: int, finish: Finish
) -> Tensor:
    """What follows the sum; beta's part first, which frees C's registers."""
    before: Tensor | None = None
    if finish.beta:
        before = loop.resident("C", out, m=m, n=n)
        before = before if dtype_for(out) == F32 else before.to(F32)
        before = before * loop.scalar("beta")
    value = total
    if finish.scales:
        value = value * loop.resident("scale_A", F32, m=m) * loop.resident("scale_B", F32, n=n)
    if finish.alpha:
        value = value * loop.scalar("alpha")
    if before is not None:
        value = before + value
    if finish.bias:
        value = value + loop.resident("bias", F32, n=n)
    return activation_for(finish.activation)(value)
