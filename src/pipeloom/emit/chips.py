"""What the emitter must know of a chip: memories, register files, matrix instructions.

Sources: CDNA3 and CDNA4 ISA documents for sizes; bank counts and the lanes that share a cycle of
``ds_read_b128`` are measured (gfx950: HipKittens; see HARDWARE.md of the specification).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pipeloom.checks import nearest
from pipeloom.emit.faults import EmitError
from pipeloom.geometry import GFX942_LDS_BYTES, GFX950_LDS_BYTES, WAVE_LANES

SIMDS = 4
REGISTERS_PER_LANE = 512
"""VGPRs and AGPRs together, of one SIMD; all waves on it share them."""
REGISTER_GRANULE = 8
MAX_VGPRS = 256
MAX_AGPRS = 256
MAX_SGPRS = 102
MAX_WAVES_PER_SIMD = 8
BANK_BYTES = 4


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """One MFMA: an n x n tile, ``depth`` along K, by operand type."""

    mnemonic: str
    side: int
    depth: int
    modifiers: tuple[str, ...] = ()

    @property
    def accumulator_registers(self) -> int:
        """Registers of the f32 tile per lane."""
        return self.side * self.side // WAVE_LANES

    @property
    def lane_blocks(self) -> int:
        """How many lanes share a row: lane l holds row l % side and K block l // side."""
        return WAVE_LANES // self.side


@dataclass(frozen=True, slots=True)
class Chip:
    """One target."""

    name: str
    lds_bytes: int
    lds_banks: int
    b128_phases: tuple[tuple[int, ...], ...]
    """Lanes that access LDS in the same cycle of a 16-byte read."""
    lds_dma_bytes: int
    """Widest LDS-DMA load per lane."""
    has_cvt_pk_bf16: bool
    matrix: Mapping[tuple[str, int, int, int], MatrixShape]
    """By (dtype, M, N, K)."""

    @property
    def bank_row_bytes(self) -> int:
        """One dword of each bank of LDS."""
        return self.lds_banks * BANK_BYTES


def _gfx950_phases() -> tuple[tuple[int, ...], ...]:
    first = (*range(4), *range(12, 16), *range(20, 28))
    second = (*range(4, 12), *range(16, 20), *range(28, 32))
    return tuple(
        tuple(lane + high for lane in half) for high in (0, 32) for half in (first, second)
    )


def _shapes(*entries: MatrixShape, dtype: str) -> dict[tuple[str, int, int, int], MatrixShape]:
    return {(dtype, s.side, s.side, s.depth): s for s in entries}


def _plain(
    dtype: str, suffix: str, *shapes: tuple[int, int]
) -> dict[tuple[str, int, int, int], MatrixShape]:
    return _shapes(
        *(MatrixShape(f"v_mfma_f32_{n}x{n}x{k}_{suffix}", n, k) for n, k in shapes), dtype=dtype
    )


GFX942 = Chip(
    name="gfx942",
    lds_bytes=GFX942_LDS_BYTES,
    lds_banks=32,
    b128_phases=tuple(tuple(range(g * 8, g * 8 + 8)) for g in range(8)),
    lds_dma_bytes=4,
    has_cvt_pk_bf16=False,
    matrix=MappingProxyType(
        _plain("bf16", "bf16", (16, 16), (32, 8))
        | _plain("fp16", "f16", (16, 16), (32, 8))
        | _plain("fp8", "fp8_fp8", (16, 32), (32, 16))
    ),
)
GFX950 = Chip(
    name="gfx950",
    lds_bytes=GFX950_LDS_BYTES,
    lds_banks=64,
    b128_phases=_gfx950_phases(),
    lds_dma_bytes=16,
    has_cvt_pk_bf16=True,
    matrix=MappingProxyType(
        _plain("bf16", "bf16", (16, 32), (32, 16), (16, 16), (32, 8))
        | _plain("fp16", "f16", (16, 32), (32, 16), (16, 16), (32, 8))
        # cbsz and blgp default to 0: both operands e4m3 (CDNA4 ISA, "F8F6F4").
        | _plain("fp8", "f8f6f4", (16, 128), (32, 64))
        | _plain("fp8", "fp8_fp8", (16, 32), (32, 16))
    ),
)
CHIPS: Mapping[str, Chip] = MappingProxyType({chip.name: chip for chip in (GFX942, GFX950)})


def chip_for(name: str) -> Chip:
    """The chip called ``name``; raises ``EmitError`` listing the known ones."""
    if name not in CHIPS:
        raise EmitError(
            f"target {name!r} is not known to the emitter",
            hint=nearest(name, CHIPS),
            field="target",
        )
    return CHIPS[name]
