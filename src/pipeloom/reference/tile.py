"""One K tile of a GEMM, counted: how waves share it, and how many instructions each op takes.

C[BM, BN] += A[BM, BK] x B[BN, BK]^T for one workgroup. Waves stand in a ``WaveGrid``; each wave's
share of C is cut into m x n *quadrants* (2 x 2 in the specification's kernels). Per K tile

    load      a piece of A or B, global memory to LDS, by all waves together
    fragment  one row (A) or column (B) of quadrants, LDS to registers, each wave its own
    MMA       one quadrant, BK / MMA_K matrix instructions deep

Example, the bf16 tile of the four-wave kernel::

    >>> tile = GemmTile(BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2)
    >>> tile.mmas_per_op, tile.fragment_reads("A"), tile.load_entries("A")
    (32, 8, 4)

Formulas: KERNELS.md section 3 of the specification, for any m and n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pipeloom.checks import check_instance, check_int
from pipeloom.errors import ConfigError
from pipeloom.machine.target import LOAD_BYTES, WAVE_LANES
from pipeloom.reference.geometry import KernelGeometry

ACCUMULATOR_BYTES = 4
"""Accumulators are f32 whatever the inputs."""

REGISTER_BYTES = 4
HALVES = 2


@dataclass(frozen=True, slots=True)
class WaveGrid:
    """How the waves of a workgroup share a tile.

    In a *blocked* grid a wave's rows are contiguous and an operand is loaded in two halves, each
    read by some of the waves. In an *interleaved* grid an operand is loaded in as many pieces as
    there are quadrant rows, and every wave has its slice of every piece. A *staged* grid loads to
    registers and stores from there to LDS; the others load straight into LDS.
    """

    name: str
    along_m: int
    along_n: int
    interleaved: bool
    staged: bool = False

    @property
    def waves(self) -> int:
        """Waves of the workgroup."""
        return self.along_m * self.along_n

    def along(self, operand: str) -> int:
        """Waves along the rows of ``operand``."""
        return self.along_m if operand == "A" else self.along_n


FOUR_WAVE_GRID = WaveGrid("four_wave", 2, 2, interleaved=True)
PING_PONG_GRID = WaveGrid("ping_pong", 2, 4, interleaved=False)
SINGLE_BUFFER_GRID = WaveGrid("single_buffer", 4, 1, interleaved=True, staged=True)
GRIDS: Mapping[str, WaveGrid] = MappingProxyType(
    {grid.name: grid for grid in (FOUR_WAVE_GRID, PING_PONG_GRID, SINGLE_BUFFER_GRID)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmTile:
    """A tile shape, its MMA shape, its quadrants and its waves; validates that all divide evenly.

    ``dma_bytes`` is what one lane moves per global-to-LDS instruction: 16 on gfx950, 4 on gfx942;
    a staged grid has none.
    """

    BM: int
    BN: int
    BK: int
    MMA_M: int
    MMA_N: int
    MMA_K: int
    elem_bytes: int
    m: int = 2
    n: int = 2
    grid: WaveGrid = FOUR_WAVE_GRID
    dma_bytes: int = LOAD_BYTES

    def __post_init__(self) -> None:
        for name in ("BM", "BN", "BK", "MMA_M", "MMA_N", "MMA_K", "elem_bytes", "m", "n"):
            check_int("GemmTile", name, getattr(self, name), 1)
        check_int("GemmTile", "dma_bytes", self.dma_bytes, 1, LOAD_BYTES)
        check_instance("GemmTile", "grid", self.grid, WaveGrid)
        for operand in "AB":
            self.load_entries(operand)
            self.fragment_registers(operand)

    def rows(self, operand: str) -> int:
        """Rows of A, or columns of C that B's rows become."""
        return self.BM if operand == "A" else self.BN

    def quadrants(self, operand: str) -> int:
        """Quadrant rows (A) or columns (B) of a wave."""
        return self.m if operand == "A" else self.n

    def pieces(self, operand: str) -> int:
        """Load ops per K tile."""
        return self.quadrants(operand) if self.grid.interleaved else HALVES

    def piece_bytes(self, operand: str) -> int:
        """LDS bytes of one load op, all waves."""
        rows = _divide(self.rows(operand), self.pieces(operand), f"rows of {operand}", "pieces")
        return rows * self.BK * self.elem_bytes

    @property
    def tile_bytes(self) -> int:
        """LDS bytes of one K tile of A and B."""
        return sum(self.pieces(x) * self.piece_bytes(x) for x in "AB")

    def load_entries(self, operand: str) -> int:
        """vmcnt entries of one load op, per wave."""
        at_once = self.grid.waves * WAVE_LANES * self.load_bytes
        return -(-self.piece_bytes(operand) // at_once)

    @property
    def load_bytes(self) -> int:
        """What one lane moves per load instruction: 16 to registers on every chip."""
        return LOAD_BYTES if self.grid.staged else self.dma_bytes

    @property
    def tile_loads(self) -> int:
        """Load instructions of one K tile of A and B, per wave."""
        return sum(self.pieces(x) * self.load_entries(x) for x in "AB")

    @property
    def lane_bytes(self) -> int:
        """Bytes of one MMA's operand in one lane."""
        elements = _divide(self.MMA_M * self.MMA_K, WAVE_LANES, "MMA_M*MMA_K", "lanes")
        return elements * self.elem_bytes

    @property
    def read_bytes(self) -> int:
        """Bytes per lane of one fragment read: 16, unless the whole K tile is less.

        The 32 bytes of an fp8 16x16x128 take two reads; one read feeds two 16x16x16 of 8 bytes.
        """
        return min(self.k_mmas * self.lane_bytes, LOAD_BYTES)

    def mma_rows(self, operand: str) -> int:
        """MMAs along one side of a quadrant."""
        side = "M" if operand == "A" else "N"
        size = self.MMA_M if operand == "A" else self.MMA_N
        per_wave = _divide(
            self.rows(operand), self.grid.along(operand), f"B{side}", f"waves along {side}"
        )
        tiles = _divide(per_wave, size, f"W{side}", f"MMA_{side}")
        return _divide(tiles, self.quadrants(operand), f"W{side}/MMA_{side}", "quadrants")

    @property
    def k_mmas(self) -> int:
        """Matrix instructions along K."""
        return _divide(self.BK, self.MMA_K, "BK", "MMA_K")

    @property
    def k_steps(self) -> int:
        """K steps that can be read by themselves: at least a matrix instruction and 16 bytes."""
        return max(1, self.k_mmas * self.lane_bytes // max(self.lane_bytes, LOAD_BYTES))

    def fragment_reads(self, operand: str) -> int:
        """lgkmcnt entries of one fragment op, per wave."""
        return self.mma_rows(operand) * -(-self.k_mmas * self.lane_bytes // LOAD_BYTES)

    def fragment_registers(self, operand: str) -> int:
        """Registers per lane that one fragment op fills."""
        return -(-self.mma_rows(operand) * self.k_mmas * self.lane_bytes // REGISTER_BYTES)

    @property
    def mmas_per_op(self) -> int:
        """Matrix instructions of one MMA op, per wave."""
        return self.mma_rows("A") * self.mma_rows("B") * self.k_mmas

    @property
    def accumulator_registers(self) -> int:
        """Registers per lane that hold a wave's share of C."""
        share = self.BM * self.BN // self.grid.waves
        return -(-share * ACCUMULATOR_BYTES // (WAVE_LANES * REGISTER_BYTES))

    def geometry(self) -> KernelGeometry:
        """The shape with its counter costs, as the consumers of a schedule read it."""
        return KernelGeometry(
            BM=self.BM,
            BN=self.BN,
            BK=self.BK,
            MMA_M=self.MMA_M,
            MMA_N=self.MMA_N,
            MMA_K=self.MMA_K,
            elem_bytes=self.elem_bytes,
            simd_width=max(1, LOAD_BYTES // self.elem_bytes),
            is_fp8=self.elem_bytes == 1,
            vm_per_load_a=self.load_entries("A"),
            vm_per_load_b=self.load_entries("B"),
            lgkm_per_load_a=self.fragment_reads("A"),
            lgkm_per_load_b=self.fragment_reads("B"),
        )


def _divide(value: int, by: int, what: str, by_what: str) -> int:
    if value < by or value % by:
        raise ConfigError(
            f"GemmTile: {what} ({value}) is not a positive multiple of {by_what} ({by})",
            hint=f"choose a shape in which {by} divides {what}",
            field="GemmTile",
        )
    return value // by
