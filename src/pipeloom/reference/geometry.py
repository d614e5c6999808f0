"""Tile shapes, and the counter costs that follow from them.

A global load of half a tile is split over all waves of the workgroup, a fragment load over the
MMAs of a quadrant; how many instructions that takes per wave is what ``vmcnt`` and ``lgkmcnt``
count. Formulas: KERNELS.md section 3 of the specification. Example, the bf16 ping-pong:

    KernelGeometry.ping_pong(BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2)
    # 512 threads x 16 bytes cover 64 rows of 64 elements: 128 rows take vm_per_load_a = 2
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.checks import check_fields, check_int
from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import LOAD_BYTES

PING_PONG_GRID = (2, 4)
FOUR_WAVE_GRID = (2, 2)
SINGLE_BUFFER_GRID = (2, 2)
"""Waves along M and N."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGeometry:
    """Block tile BM x BN x BK, the MMA shape, and counter entries per load op."""

    BM: int
    """Rows of the output tile of a workgroup."""
    BN: int
    """Columns of the output tile."""
    BK: int
    """How far along K one tile goes."""
    MMA_M: int
    """Rows of the matrix instruction."""
    MMA_N: int
    """Columns of the matrix instruction."""
    MMA_K: int
    """Depth of the matrix instruction."""
    elem_bytes: int
    """Bytes of an element of A and B."""
    simd_width: int
    """Elements that one lane loads at once."""
    is_fp8: bool
    """Whether elements are fp8."""
    vm_per_load_a: int
    """``vmcnt`` entries of one load op of A, per wave."""
    vm_per_load_b: int
    """``vmcnt`` entries of one load op of B, per wave."""
    lgkm_per_load_a: int
    """``lgkmcnt`` entries of one fragment load of A, per wave; 0 where nobody knows."""
    lgkm_per_load_b: int
    """``lgkmcnt`` entries of one fragment load of B, per wave; 0 where nobody knows."""

    def __post_init__(self) -> None:
        check_fields(self, 1, lgkm_per_load_a=0, lgkm_per_load_b=0)
        if self.is_fp8 and self.elem_bytes != 1:
            raise ConfigError(
                f"KernelGeometry.is_fp8 is set, but elem_bytes is {self.elem_bytes}",
                hint="an fp8 element has 1 byte; drop is_fp8, which follows from elem_bytes",
                field="KernelGeometry.is_fp8",
            )

    @property
    def lds_bytes(self) -> int:
        """Two stages of A and B."""
        return 2 * (self.BM + self.BN) * self.BK * self.elem_bytes

    @property
    def tile(self) -> dict[str, int]:
        """Sizes of the block tile by dimension."""
        return {"m": self.BM, "n": self.BN, "k": self.BK}

    @property
    def mma_name(self) -> str:
        """The matrix instruction as a ``Target`` names it."""
        return f"{self.MMA_M}x{self.MMA_N}x{self.MMA_K}_{'fp8' if self.is_fp8 else 'f16'}"

    @property
    def k_mmas(self) -> int:
        """MMA steps along K in one tile."""
        return self.BK // self.MMA_K

    def fits(self, waves: tuple[int, int], grid: tuple[int, int]) -> bool:
        """Whether ``waves`` that each multiply a ``grid`` of MMA ops count what this tile says.

        Loads of 16 bytes per lane cut A into ``grid[0]`` parts and B into ``grid[1]``. A count of 0
        is not known, and fits.

        Args:
            waves: waves along M and along N.
            grid: MMA ops of one wave along M and along N.
        """
        lanes = waves[0] * waves[1] * WAVE_LANES
        lane_bytes = self.MMA_M * self.MMA_K * self.elem_bytes // WAVE_LANES
        reads = self.k_mmas * max(-(-lane_bytes // LOAD_BYTES), 1)
        sides = (
            (self.BM, self.MMA_M, self.vm_per_load_a, self.lgkm_per_load_a),
            (self.BN, self.MMA_N, self.vm_per_load_b, self.lgkm_per_load_b),
        )
        for (rows, block, vm, lgkm), along, ops in zip(sides, waves, grid, strict=True):
            if rows % (along * ops * block):
                return False
            if -(-(rows // ops) * self.BK * self.elem_bytes // (lanes * LOAD_BYTES)) != vm:
                return False
            if lgkm not in (0, rows // (along * ops * block) * reads):
                return False
        return True

    @classmethod
    def ping_pong(
        cls,
        *,
        BM: int,
        BN: int,
        BK: int,
        MMA_M: int,
        MMA_N: int,
        MMA_K: int,
        elem_bytes: int,
        lds_limit: int = GFX950.lds_bytes,
    ) -> KernelGeometry:
        """Eight waves, 2 along M by 4 along N; a quadrant is a quarter of a wave's tile.

        Args:
            BM: Rows of the output tile.
            BN: Columns of the output tile.
            BK: How far along K one tile goes.
            MMA_M: Rows of the matrix instruction.
            MMA_N: Columns of the matrix instruction.
            MMA_K: Depth of the matrix instruction.
            elem_bytes: Bytes of an element of A and B.
            lds_limit: Bytes of LDS that two stages must fit in.
        """
        return cls._derive(
            (BM, BN, BK), (MMA_M, MMA_N, MMA_K), elem_bytes, PING_PONG_GRID, lds_limit
        )

    @classmethod
    def four_wave(
        cls,
        *,
        BM: int,
        BN: int,
        BK: int,
        MMA_M: int,
        MMA_N: int,
        MMA_K: int,
        elem_bytes: int,
        lds_limit: int = GFX950.lds_bytes,
    ) -> KernelGeometry:
        """Four waves, 2 by 2.

        Args:
            BM: Rows of the output tile.
            BN: Columns of the output tile.
            BK: How far along K one tile goes.
            MMA_M: Rows of the matrix instruction.
            MMA_N: Columns of the matrix instruction.
            MMA_K: Depth of the matrix instruction.
            elem_bytes: Bytes of an element of A and B.
            lds_limit: Bytes of LDS that two stages must fit in.
        """
        return cls._derive(
            (BM, BN, BK), (MMA_M, MMA_N, MMA_K), elem_bytes, FOUR_WAVE_GRID, lds_limit
        )

    @classmethod
    def _derive(
        cls,
        block: tuple[int, int, int],
        mma: tuple[int, int, int],
        elem_bytes: int,
        wave_grid: tuple[int, int],
        lds_limit: int,
    ) -> KernelGeometry:
        check_int("KernelGeometry", "lds_limit", lds_limit, 1)
        names = ("BM", "BN", "BK", "MMA_M", "MMA_N", "MMA_K", "elem_bytes")
        for name, value in zip(names, (*block, *mma, elem_bytes), strict=True):
            check_int("KernelGeometry", name, value, 1)
        (bm, bn, bk), (mma_m, mma_n, mma_k) = block, mma
        simd_width = divide(LOAD_BYTES, elem_bytes, "16-byte load", "elem_bytes")
        threads_per_row = divide(bk, simd_width, "BK", "elements per 16-byte load")
        rows_at_once = divide(
            wave_grid[0] * wave_grid[1] * WAVE_LANES, threads_per_row, "threads", "threads per row"
        )
        fragment = divide(mma_m * mma_k, WAVE_LANES, "MMA_M*MMA_K", "lanes") * elem_bytes
        is_fp8 = elem_bytes == 1
        pieces = 2 if is_fp8 and (mma_m, mma_n, mma_k) == (16, 16, 128) else 1
        piece_bytes = divide(fragment, pieces, "fragment bytes", "pieces")
        reads = divide(bk, mma_k, "BK", "MMA_K") * pieces * -(-piece_bytes // LOAD_BYTES)
        wm = divide(bm, wave_grid[0], "BM", "waves along M")
        wn = divide(bn, wave_grid[1], "BN", "waves along N")
        quadrant_m = divide(divide(wm, mma_m, "rows of a wave", "MMA_M"), 2, "WM/MMA_M", "2")
        quadrant_n = divide(divide(wn, mma_n, "columns of a wave", "MMA_N"), 2, "WN/MMA_N", "2")
        geometry = cls(
            BM=bm,
            BN=bn,
            BK=bk,
            MMA_M=mma_m,
            MMA_N=mma_n,
            MMA_K=mma_k,
            elem_bytes=elem_bytes,
            simd_width=simd_width,
            is_fp8=is_fp8,
            vm_per_load_a=-(-divide(bm, 2, "BM", "2") // rows_at_once),
            vm_per_load_b=-(-divide(bn, 2, "BN", "2") // rows_at_once),
            lgkm_per_load_a=quadrant_m * reads,
            lgkm_per_load_b=quadrant_n * reads,
        )
        if geometry.lds_bytes > lds_limit:
            raise ConfigError(
                f"KernelGeometry: two stages of a {bm}x{bn}x{bk} tile take {geometry.lds_bytes} "
                f"bytes of LDS, over the limit of {lds_limit}",
                hint="make BM, BN or BK smaller, or target a chip with more LDS",
                field="KernelGeometry.lds_bytes",
            )
        return geometry

    def max_globals(self, wave_grid: tuple[int, int]) -> int:
        """How many loads per block the MMAs can hide: 1 with enough of them, else unlimited (0).

        Args:
            wave_grid: Waves along M and along N: (2, 4) of the ping-pong, (2, 2) of four waves.
        """
        quadrant_m = self.BM // wave_grid[0] // self.MMA_M // 2
        quadrant_n = self.BN // wave_grid[1] // self.MMA_N // 2
        if self.k_mmas * quadrant_m * quadrant_n < 8:
            return 0
        return derive_safe_max_globals(self.k_mmas)


def derive_safe_max_globals(num_k_mmas: int) -> int:
    """One load per block is safe with at least two MMA steps along K, else do not spread.

    Args:
        num_k_mmas: MMA steps along K in one tile.
    """
    return 1 if num_k_mmas >= 2 else 0


def divide(value: int, by: int, what: str, by_what: str) -> int:
    """``value / by``, which must be a whole number of at least 1."""
    if value < by or value % by:
        raise ConfigError(
            f"KernelGeometry: {what} ({value}) is not a positive multiple of {by_what} ({by})",
            hint=f"choose a shape in which {by} divides {what}",
            field="KernelGeometry",
        )
    return value // by
