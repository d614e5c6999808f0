"""Kernels shipped as declarations: what they compute, and nothing about waves or time."""

from __future__ import annotations

from pipeloom.declare.added import gemm_added as gemm_added
from pipeloom.declare.backward import attention_backward_added as attention_backward_added
from pipeloom.declare.backward import attention_backward_keys as attention_backward_keys
from pipeloom.declare.backward import attention_backward_queries as attention_backward_queries
from pipeloom.declare.backward import attention_backward_rows as attention_backward_rows
from pipeloom.declare.composed import LN2
from pipeloom.declare.convolutions import conv2d as conv2d
from pipeloom.declare.convolutions import conv3d as conv3d
from pipeloom.declare.decoding import decode_attention as decode_attention
from pipeloom.declare.decoding import decode_latent as decode_latent
from pipeloom.declare.decoding import decode_reduce as decode_reduce
from pipeloom.declare.experts import grouped as grouped
from pipeloom.declare.experts import moe_down as moe_down
from pipeloom.declare.experts import moe_up as moe_up
from pipeloom.declare.functions import keep, maximum
from pipeloom.declare.loop import Loop
from pipeloom.declare.online_softmax import attend
from pipeloom.declare.products import gemm as gemm
from pipeloom.declare.products import gemm_bias as gemm_bias
from pipeloom.declare.products import gemm_gate as gemm_gate
from pipeloom.declare.products import gemm_mx as gemm_mx
from pipeloom.declare.products import gemm_scaled as gemm_scaled
from pipeloom.declare.quantised import gemm_quantised as gemm_quantised
from pipeloom.declare.rotary import gemm_rotary as gemm_rotary
from pipeloom.declare.rotary import gemm_scatter as gemm_scatter
from pipeloom.declare.rows import add_rms_norm as add_rms_norm
from pipeloom.declare.rows import cross_entropy as cross_entropy
from pipeloom.declare.rows import layer_norm as layer_norm
from pipeloom.declare.rows import rms_norm as rms_norm
from pipeloom.declare.rows import softmax as softmax
from pipeloom.declare.rows import top2_gate as top2_gate
from pipeloom.declare.tensor import Tensor
from pipeloom.declare.weights import gemm_norm as gemm_norm
from pipeloom.declare.weights import gemm_weights as gemm_weights
from pipeloom.machine.dtypes import BF16, F32, DType


def row_sum(columns: int = 256, rows: int = 1) -> Loop:
    """out[b, n] = sum over k of X[b, k, n], ``rows`` of X at a time.

    Args:
        columns: Columns of a workgroup's tile.
        rows: Rows that one iteration adds up.
    """
    loop = Loop("row_sum", over="k")
    x = loop.stream("X", F32, b=1, k=rows, n=columns)
    total = loop.carry("total", F32, start=0, b=1, n=columns)
    total += x.sum("k")
    loop.store("out", total)
    return loop


def attention(
    queries: int = 128,
    keys: int = 64,
    depth: int = 64,
    dv: int | None = None,
    dtype: DType | str = BF16,
    *,
    causal: bool = False,
    lse: bool = False,
    name: str = "attention",
) -> Loop:
    """out = softmax(Q K^T * scale) V for one block of queries, online over the keys.

    Any number of keys: those past the end are masked, and without any the result is 0. ``causal``,
    aligned to the end: a query sees no key that is nearer to its end. ``lse`` stores ln of the sum
    of exponentials. Each key head has a ``group`` of query heads. ``scale`` is positive: maxima are
    those of scores before it, so that one instruction scales a score and takes the maximum off.

    Args:
        queries: Queries of a workgroup.
        keys: Keys and values that one iteration takes.
        depth: The size of a query and of a key.
        dv: The size of a value; ``depth`` unless given.
        dtype: The element type of Q, K, V and the output.
        causal: Whether a query sees only keys up to its own place, counted from the end.
        lse: Whether ln of the sum of exponentials is stored, too.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="keys", until="q" if causal else None)
    q = loop.resident("Q", dtype, q=queries, d=depth)
    k = loop.stream("K", dtype, keys=keys, d=depth)
    v = loop.stream("V", dtype, keys=keys, v=dv or depth)
    scale = loop.scalar("scale", usual=depth**-0.5, positive=True) * (1 / LN2)

    def scores() -> Tensor:
        found = (q @ k.staged()).named("S")
        least = maximum(loop.left("q", queries), 1) if causal else 1
        return keep(found, loop.left("keys", keys), least)

    found = attend(loop, scores, v, scale, dtype, queries)
    loop.store("out", found.rows.to(dtype))
    if lse:
        loop.store("lse", found.lse)
    loop.batch("K", "V", over=("batch", "heads"))
    loop.batch("Q", "out", *["lse"] * lse, over=("batch", "heads", "group"))
    return loop
