"""The four-wave GEMM in machine code: four waves, 2 by 2, one per SIMD.

A wave has a SIMD's registers to itself: 256 accumulators for a 256 x 256 block in AGPRs, and the
fragments of two stages in flight in VGPRs.
"""

from __future__ import annotations

from pipeloom.errors import InternalError
from pipeloom.reference.kernels import FourWaveKernel
from pipeloom.write.entry import EmitRequest
from pipeloom.write.gemm.double_buffer import DoubleBufferEmitter, double_buffer_tile


def four_wave_emitter(request: EmitRequest) -> DoubleBufferEmitter:
    """The emitter of a four-wave schedule."""
    kernel = request.plan.kernel
    if not isinstance(kernel, FourWaveKernel):
        raise InternalError(f"the four-wave emitter got the kernel model {kernel.name}")
    tile = double_buffer_tile(
        kernel, request.chip, request.dtype, request.out_dtype, request.need_geometry()
    )
    return DoubleBufferEmitter(
        tile, request.plan, request.compiled, request.accumulators, request.name
    )
