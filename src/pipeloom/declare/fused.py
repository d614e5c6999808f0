"""Matrix products with vector work before the store: bias, activation, gate, scales.

What is done to a sum when the loop has ended is part of the declaration like everything else. The
loop itself is that of the plain product: what only the end needs is loaded there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2, pi, sqrt
from types import MappingProxyType

from pipeloom.checks import nearest
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import Tensor, exp2, maximum, rcp
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, F32, FP8, DType, dtype_for

LOG2_E = log2(2.718281828459045)


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return maximum(x, 0.0)


def silu(x: Tensor) -> Tensor:
    """x / (1 + exp(-x))."""
    return x * rcp(exp2(x * -LOG2_E) + 1.0)


def gelu(x: Tensor) -> Tensor:
    """x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3), which is x / (1 + e^-2u).

    This form takes one exponential, and neither overflows nor cancels for any x.
    """
    cubed = (x * x * 0.044715 + 1.0) * x
    return x * rcp(exp2(cubed * (-2.0 * LOG2_E * sqrt(2.0 / pi))) + 1.0)


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"none": lambda x: x, "relu": relu, "silu": silu, "gelu": gelu}
)
"""What a sum may go through, by name."""


def activation_for(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of that name."""
    found = ACTIVATIONS.get(name)
    if found is None:
        raise ConfigError(
            f"activation is {name!r}", hint=nearest(name, ACTIVATIONS), field="activation"
        )
    return found


def gemm_bias(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    activation: str = "gelu",
    bias: DType | str = F32,
    name: str = "gemm_bias",
) -> Loop:
    """out[m, n] = activation(sum over k of A[m, k] * B[n, k] + bias[n]).

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tile of B, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B.
        out: The element type of the output.
        activation: What the sum goes through: ``none``, ``relu``, ``silu`` or ``gelu``.
        bias: The element type of the bias.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    a = loop.stream("A", dtype, m=m, k=k)
    b = loop.stream("B", dtype, n=n, k=k)
    c = loop.carry("C", F32, start=0, m=m, n=n)
    c += a.staged() @ b.staged()
    added = c + loop.resident("bias", bias, n=n)
    loop.store("out", activation_for(activation)(added).to(out))
    return loop


def gemm_gate(
    m: int = 256,
    n: int = 128,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    activation: str = "silu",
    name: str = "gemm_gate",
) -> Loop:
    """out = activation(A @ G.T) * (A @ U.T), both products in one loop that loads A once.

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tiles of G and U, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A, G and U.
        out: The element type of the output.
        activation: What the gate goes through: ``none``, ``relu``, ``silu`` or ``gelu``.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    a = loop.stream("A", dtype, m=m, k=k).staged()
    gates = loop.stream("G", dtype, n=n, k=k)
    ups = loop.stream("U", dtype, n=n, k=k)
    gate = loop.carry("gate", F32, start=0, m=m, n=n)
    up = loop.carry("up", F32, start=0, m=m, n=n)
    gate += a @ gates.staged()
    up += a @ ups.staged()
    loop.store("out", (activation_for(activation)(gate) * up).to(out))
    return loop


def gemm_scaled(
    m: int = 256,
    n: int = 256,
    k: int = 128,
    dtype: DType | str = FP8,
    out: DType | str = BF16,
    *,
    scales: str = "tensor",
    name: str = "gemm_scaled",
) -> Loop:
    """out = (A @ B.T) * scale, for products of small floats.

    ``scales`` of ``tensor`` is one number, an argument of the launch; of ``rows``, one per row of A
    and one per row of B, and ``scale`` only where the output is of 8 bits and has one of its own.

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tile of B, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B.
        out: The element type of the output.
        scales: ``tensor`` for one scale, ``rows`` for one per row of A and of B.
        name: What pages and the kernel's symbol call it.
    """
    if scales not in ("tensor", "rows"):
        raise ConfigError(f"scales is {scales!r}", hint="use 'tensor' or 'rows'", field="scales")
    loop = Loop(name, over="k")
    a = loop.stream("A", dtype, m=m, k=k)
    b = loop.stream("B", dtype, n=n, k=k)
    c = loop.carry("C", F32, start=0, m=m, n=n)
    c += a.staged() @ b.staged()
    value: Tensor = c
    if scales == "rows":
        value = value * loop.resident("scale_A", F32, m=m) * loop.resident("scale_B", F32, n=n)
    if scales == "tensor" or dtype_for(out).bits == 8:
        value = value * loop.scalar("scale", usual=1.0)
    loop.store("out", value.to(out))
    return loop
