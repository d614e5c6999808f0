"""The single-buffer GEMM in machine code: registers as the second buffer, one LDS stage.

Four waves, 2 by 2: the kernel model leaves the rows of a wave to us. What else it is, ``staged``
says.

Its entries count once for A and B together, and a store once for all its ``ds_write``; the
instructions emitted may be more, which only makes waits stricter (see ``lower_bounds``).
"""

from __future__ import annotations

from pipeloom.errors import InternalError
from pipeloom.machine.target import LOAD_BYTES, WAVE_LANES
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.kernels import Counter, SingleBufferKernel
from pipeloom.write.chips import Chip
from pipeloom.write.entry import EmitRequest
from pipeloom.write.faults import EmitError
from pipeloom.write.gemm.staged import StagedEmitter, staged_tile
from pipeloom.write.gemm.tile import ELEMENT_BYTES

GRID = 2
"""Waves along M and along N."""


class SingleBufferEmitter(StagedEmitter):
    """Emitter of the single-buffered kernel."""

    @property
    def lower_bounds(self) -> frozenset[Counter]:
        """Both: the model has one figure for A and B together."""
        return frozenset({Counter.VM, Counter.LGKM})


def single_buffer_geometry(
    target: Chip, dtype: str, *, BM: int = 128, BN: int = 128, BK: int | None = None, side: int = 16
) -> KernelGeometry:
    """A tile shape for the single-buffer kernel, with the deepest matrix instruction of the chip.

    BK is 128 bytes by default (256 for the deep fp8 instructions). The vmcnt costs are those of A
    and of B; ``single_buffer_costs`` has what a schedule counts.
    """
    if dtype not in ELEMENT_BYTES:
        raise EmitError(
            f"dtype {dtype!r} is not known to the emitter",
            hint=f"one of: {', '.join(ELEMENT_BYTES)}",
            field="dtype",
        )
    size = ELEMENT_BYTES[dtype]
    depth = max(k for kind, m, _, k in target.matrix if kind == dtype and m == side)
    fragment = side * depth * size // WAVE_LANES
    bk = (256 if fragment > LOAD_BYTES else 128) // size if BK is None else BK
    rows_at_once = GRID * GRID * WAVE_LANES * LOAD_BYTES // (bk * size)
    return KernelGeometry(
        BM=BM,
        BN=BN,
        BK=bk,
        MMA_M=side,
        MMA_N=side,
        MMA_K=depth,
        elem_bytes=size,
        simd_width=LOAD_BYTES // size,
        is_fp8=size == 1,
        vm_per_load_a=max(BM // rows_at_once, 1),
        vm_per_load_b=max(BN // rows_at_once, 1),
        lgkm_per_load_a=0,
        lgkm_per_load_b=0,
    )


def single_buffer_costs(geometry: KernelGeometry, k_steps: int) -> dict[str, int]:
    """What one load and one fragment of this tile count, for ``TargetProfile.with_pipeline``.

    A schedule compiled with these has the loosest waits that are right; one compiled without
    counts fewer entries than there are, and waits for more than it must.
    """
    rows = (geometry.BM + geometry.BN) // GRID // geometry.MMA_M
    reads = geometry.BK * geometry.elem_bytes * geometry.MMA_M // (LOAD_BYTES * WAVE_LANES)
    return {
        "vm_per_load_a": geometry.vm_per_load_a + geometry.vm_per_load_b,
        "lgkm_per_load_a": rows * reads // k_steps,
    }


def single_buffer_emitter(request: EmitRequest) -> SingleBufferEmitter:
    """The emitter of a single-buffer schedule; a schedule without geometry gets the default."""
    kernel = request.plan.kernel
    if not isinstance(kernel, SingleBufferKernel):
        raise InternalError(f"the single-buffer emitter got the kernel model {kernel.name}")
    geometry = request.geometry or single_buffer_geometry(request.chip, request.dtype)
    tile = staged_tile(request, kernel, geometry, (GRID, GRID))
    return SingleBufferEmitter(tile, request, kernel.k_steps)
