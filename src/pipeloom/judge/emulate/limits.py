"""What a kernel may use, as its descriptor says, and whether its code and its launch keep to it.

The hardware gives a wave the registers that the descriptor asks for and nothing beyond: a kernel
that touches v40 with 32 VGPRs allocated reads another wave's register or faults. The emulator
always has all registers, so the limits are checked here, before the run.

    Limits.of(kernel)      ->  Limits(vgprs=80, registers=208, sgprs=42, ...)

VGPRs and AGPRs are one file of 512 per lane: v0 is register 0, a0 register ``accum_offset``, and
the wave owns ``registers`` of them. Encodings: LLVM AMDGPUUsage, "compute_pgm_rsrc1",
"compute_pgm_rsrc3 for GFX90A", "Kernel Descriptor".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.loader import MOST_KERNARG, CodeKernel
from pipeloom.judge.emulate.register_numbers import (
    AGPR,
    FLAT_SCRATCH,
    LANES,
    SCC,
    VGPR,
    register_bits,
    register_name,
)
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.traps import CodeObjectError, LaunchError
from pipeloom.machine.cdna import VECTOR_REGISTERS

_MAX_WORK_ITEMS = 1024
_EXTRA_SGPRS = 6
"""VCC, XNACK_MASK and FLAT_SCRATCH lie behind the numbered SGPRs of a wave."""
_MAX_SCRATCH = ((1 << 13) - 1) * 256 * 4 // LANES
"""Bytes per lane; a wave has a 13-bit count of 256 dwords (LLVM, getMaxWaveScratchSize)."""
_WAVEFRONT_SIZE32 = 10
"""Bit of the code properties; gfx9 has no such mode."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Registers that a wave of the kernel owns."""

    vgprs: int
    """v0 .. v(n - 1)."""
    agprs: int
    sgprs: int
    """s0 .. s(n - 1), without VCC and kin."""
    registers: int
    """VGPRs and AGPRs as allocated, gap included."""
    scalars: int
    """SGPRs as allocated: in granules of 16, VCC and kin among them."""
    accum_offset: int

    @classmethod
    def of(cls, kernel: CodeKernel) -> Limits:
        """Decode the descriptor."""
        registers = min(8 * ((kernel.rsrc1 & 0x3F) + 1), VECTOR_REGISTERS)
        scalars = 16 * ((kernel.rsrc1 >> 6 & 0xF) // 2 + 1)
        offset = 4 * ((kernel.rsrc3 & 0x3F) + 1)
        return cls(
            vgprs=min(offset, registers, 256),
            agprs=min(max(registers - offset, 0), 256),
            sgprs=min(scalars - _EXTRA_SGPRS, FLAT_SCRATCH),
            registers=registers,
            scalars=scalars,
            accum_offset=offset,
        )


def check_descriptor(kernel: CodeKernel) -> None:
    """Raise ``CodeObjectError`` where descriptor and metadata tell different stories.

    HIP sizes the launch by the metadata, the hardware obeys the descriptor.
    """
    limits, said = Limits.of(kernel), kernel.metadata
    if kernel.properties >> _WAVEFRONT_SIZE32 & 1 or said.wavefront_size not in (None, LANES):
        raise CodeObjectError(
            f"kernel {kernel.name} is for wavefronts of "
            f"{32 if kernel.properties >> _WAVEFRONT_SIZE32 & 1 else said.wavefront_size}, but "
            f"{kernel.arch} has {LANES}",
            hint="declare .wavefront_size 64 and leave .amdhsa_wavefront_size32 out",
        )
    equal = (
        ("group_segment_fixed_size", kernel.group_segment_bytes, said.group_segment_bytes),
        ("private_segment_fixed_size", kernel.private_segment_bytes, said.private_segment_bytes),
        # 0 leaves the size to the metadata.
        ("kernarg_size", kernel.kernarg_bytes or said.kernarg_bytes, said.kernarg_bytes),
    )
    for name, real, claimed in equal:
        if claimed is not None and real != claimed:
            raise CodeObjectError(
                f"kernel {kernel.name}: {name} is {real} in the descriptor and {claimed} in the "
                "metadata",
                hint="give .amdhsa_kernel and .amdgpu_metadata the same sizes",
            )
    sizes = (
        ("private_segment_fixed_size", kernel.private_segment_bytes, _MAX_SCRATCH),
        ("kernarg_size", kernel.kernarg_size, MOST_KERNARG),
    )
    for name, real, limit in sizes:
        if not 0 <= real <= limit:
            raise CodeObjectError(
                f"kernel {kernel.name}: {name} is {real} bytes; the limit is {limit}",
                hint="the code object is damaged, or not for this chip",
            )
    agprs = said.agprs or 0
    within = (
        ("vgpr_count", said.vgprs, limits.registers),
        ("agpr_count", limits.accum_offset + agprs if agprs else None, limits.registers),
        ("sgpr_count", said.sgprs, limits.scalars),
    )
    for name, claimed, real in within:
        if claimed is not None and claimed > real:
            raise CodeObjectError(
                f"kernel {kernel.name}: the metadata's {name} needs {claimed} registers, but the "
                f"descriptor allocates {real}",
                hint="raise .amdhsa_next_free_vgpr or .amdhsa_next_free_sgpr",
            )
    for argument in kernel.arguments:
        end = argument.offset + argument.size
        if end > kernel.kernarg_size and not argument.is_padding:
            raise CodeObjectError(
                f"kernel {kernel.name}: argument {argument.name or argument.offset} ends at byte "
                f"{end} of a kernarg segment of {kernel.kernarg_size} bytes",
                hint="raise .amdhsa_kernarg_size and .kernarg_segment_size",
            )


def check_block(kernel: CodeKernel, items: tuple[int, int, int], dynamic_lds: int) -> None:
    """Raise ``LaunchError`` for a workgroup that the kernel or a compute unit does not take."""
    work_items = items[0] * items[1] * items[2]
    said = kernel.metadata
    limit = min(_MAX_WORK_ITEMS, said.max_work_items or _MAX_WORK_ITEMS)
    if said.required_block is not None and items != said.required_block:
        raise LaunchError(
            f"block is {items}, but kernel {kernel.name} requires {said.required_block}",
            hint="launch it with the block that its .reqd_workgroup_size names",
            field="block",
        )
    if work_items > limit:
        raise LaunchError(
            f"block {items} has {work_items} work-items; the limit is {limit}", field="block"
        )
    chip = kernel.target
    lds_bytes = kernel.group_segment_bytes + dynamic_lds
    if lds_bytes > chip.lds_bytes:
        raise LaunchError(
            f"the kernel asks for {lds_bytes} bytes of LDS; {chip.arch} has {chip.lds_bytes}"
        )
    waves = -(-work_items // LANES)
    per_simd = -(-waves // chip.simds.value)
    registers = Limits.of(kernel).registers
    most = chip.vgprs_per_simd_lane.value
    if per_simd * registers > most:
        raise LaunchError(
            f"a workgroup of {waves} waves puts {per_simd} on a SIMD, which has {most} vector "
            f"registers per lane; they ask for {registers} each",
            hint=f"use at most {most // per_simd} registers, or fewer waves",
            field="block",
        )


def check_registers(kernel: CodeKernel, program: Sequence[MicroOp]) -> None:
    """Raise ``CodeObjectError`` for the first instruction that uses a register it has not."""
    limits = Limits.of(kernel)
    vgprs, agprs = limits.vgprs, register_bits(AGPR, 256)
    if not any((step.reads | step.writes) & agprs for step in program):
        # Without AGPRs nothing else lies behind accum_offset: the file is the kernel's own.
        vgprs = min(limits.registers, 256)
    outside = (
        register_bits(limits.sgprs, FLAT_SCRATCH - limits.sgprs)
        | register_bits(VGPR + vgprs, 256 - vgprs)
        # Past the last AGPR there is nothing, nor behind the scalars' 128 codes.
        | register_bits(AGPR + limits.agprs, VECTOR_REGISTERS - limits.agprs)
        | register_bits(128, SCC - 128)
    )
    for step in program:
        found = (step.reads | step.writes) & outside
        if found:
            raise _beyond(kernel, step.instruction, limits, found.bit_length() - 1)


def _beyond(
    kernel: CodeKernel, instruction: Decoded, limits: Limits, register: int
) -> CodeObjectError:
    name = register_name(register)
    if register >= AGPR:
        has = f"{limits.agprs} AGPRs (accum_offset {limits.accum_offset} of {limits.registers})"
    elif register >= VGPR:
        has = f"{limits.vgprs} VGPRs (accum_offset {limits.accum_offset} of {limits.registers})"
    else:
        has = f"{limits.sgprs} SGPRs"
    return CodeObjectError(
        f"{instruction.name} at pc {instruction.pc:#x} uses {name}, but the descriptor of kernel "
        f"{kernel.name} gives a wave {has}",
        hint="raise .amdhsa_next_free_vgpr, .amdhsa_accum_offset or .amdhsa_next_free_sgpr",
    )
