"""The modulo GEMM that stages through registers, in machine code, at any depth.

Staging sets, LDS buffers and fragment copies are as many as the schedule rotates; see ``staged``.
Four waves stand along M, so each reads its rows of A and all of B. The schedule counts every
instruction, so no count is a lower bound.
"""

from __future__ import annotations

from pipeloom.errors import InternalError
from pipeloom.reference.kernels import StagedTileKernel
from pipeloom.write.entry import EmitRequest
from pipeloom.write.gemm.staged import StagedEmitter, staged_tile


def staged_gemm_tile_emitter(request: EmitRequest) -> StagedEmitter:
    """The emitter of a modulo schedule on the single-buffer grid."""
    kernel = request.plan.kernel
    if not isinstance(kernel, StagedTileKernel):
        raise InternalError(f"the staged gemm_tile emitter got the kernel model {kernel.name}")
    grid = kernel.grid
    tile = staged_tile(request, kernel, request.need_geometry(), (grid.along_m, grid.along_n))
    return StagedEmitter(tile, request, kernel.k_steps)
