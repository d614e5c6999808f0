"""The ping-pong GEMM in machine code: eight waves, 2 along M by 4 along N, two groups.

    emitter = ping_pong_emitter(request)
    emitter.resources     # 2 waves per SIMD: one computes while the other loads

The stagger and its two extra barriers belong to the kernel model's walk, so they are emitted from
the plan like any other step; only the group that walks them executes them.
"""

from __future__ import annotations

from pipeloom.errors import InternalError
from pipeloom.reference.kernels import PingPongKernel
from pipeloom.write.entry import EmitRequest
from pipeloom.write.gemm.double_buffer import DoubleBufferEmitter, double_buffer_tile


def ping_pong_emitter(request: EmitRequest) -> DoubleBufferEmitter:
    """The emitter of a ping-pong schedule."""
    kernel = request.plan.kernel
    if not isinstance(kernel, PingPongKernel):
        raise InternalError(f"the ping-pong emitter got the kernel model {kernel.name}")
    tile = double_buffer_tile(
        kernel, request.chip, request.dtype, request.out_dtype, request.need_geometry()
    )
    return DoubleBufferEmitter(
        tile, request.plan, request.compiled, request.accumulators, request.name
    )
