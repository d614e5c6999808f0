"""What the emitter must know of a chip: memories, register files, matrix instructions.

Memories and banks are those of ``machine``, where each has its source; the sizes of register files
and the instructions are from the CDNA3 and CDNA4 ISA documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pipeloom.checks import nearest
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import LOAD_BYTES, WAVE_LANES, Target
from pipeloom.write.faults import EmitError

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


def _chip(
    machine: Target,
    *,
    has_cvt_pk_bf16: bool,
    matrix: dict[tuple[str, int, int, int], MatrixShape],
) -> Chip:
    """The machine's memories, which the simulator knows too, and what only the emitter asks for."""
    (phases,) = (p.lanes for p in machine.lds_phases if p.bytes_per_lane == LOAD_BYTES)
    return Chip(
        name=machine.arch,
        lds_bytes=machine.lds_kib.value * 1024,
        lds_banks=machine.lds_banks.value,
        b128_phases=phases,
        lds_dma_bytes=machine.dma_max_bytes_per_lane.value,
        has_cvt_pk_bf16=has_cvt_pk_bf16,
        matrix=MappingProxyType(matrix),
    )


def _shapes(*entries: MatrixShape, dtype: str) -> dict[tuple[str, int, int, int], MatrixShape]:
    return {(dtype, s.side, s.side, s.depth): s for s in entries}


def _plain(
    dtype: str, suffix: str, *shapes: tuple[int, int]
) -> dict[tuple[str, int, int, int], MatrixShape]:
    return _shapes(
        *(MatrixShape(f"v_mfma_f32_{n}x{n}x{k}_{suffix}", n, k) for n, k in shapes), dtype=dtype
    )


CHIPS: Mapping[str, Chip] = MappingProxyType(
    {
        chip.name: chip
        for chip in (
            _chip(
                target_for("gfx942"),
                has_cvt_pk_bf16=False,
                matrix=_plain("bf16", "bf16", (16, 16), (32, 8))
                | _plain("fp16", "f16", (16, 16), (32, 8))
                | _plain("fp8", "fp8_fp8", (16, 32), (32, 16)),
            ),
            _chip(
                target_for("gfx950"),
                has_cvt_pk_bf16=True,
                matrix=_plain("bf16", "bf16", (16, 32), (32, 16), (16, 16), (32, 8))
                | _plain("fp16", "f16", (16, 32), (32, 16), (16, 16), (32, 8))
                # cbsz and blgp default to 0: both operands e4m3 (CDNA4 ISA, "F8F6F4").
                | _plain("fp8", "f8f6f4", (16, 128), (32, 64))
                | _plain("fp8", "fp8_fp8", (16, 32), (32, 16)),
            ),
        )
    }
)


def chip_for(name: str) -> Chip:
    """The chip called ``name``; raises ``EmitError`` listing the known ones."""
    if name not in CHIPS:
        raise EmitError(
            f"target {name!r} is not known to the emitter",
            hint=nearest(name, CHIPS),
            field="target",
        )
    return CHIPS[name]
