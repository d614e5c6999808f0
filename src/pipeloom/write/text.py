"""The text of a kernel: instructions between the directives that make it loadable.

``.amdhsa_kernel`` becomes the kernel descriptor (registers, LDS, what the hardware preloads), the
metadata is what HIP reads to pack arguments (LLVM AMDGPUUsage, "Code Object V5").
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.occupancy import Resources
from pipeloom.write.isa import CACHE_LINE, S_NOP, Comment, Instruction, Line

CODE_OBJECT_VERSION = 5
PREFETCHED_LINES = 16
"""Cache lines that the instruction prefetch may read behind a kernel's end; LLVM fills as many on
gfx90a and later (AMDGPUTargetStreamer, EmitCodeEnd)."""
EXTRA_SGPRS = 6
"""VCC, XNACK_MASK and FLAT_SCRATCH, which the assembler adds to ``next_free_sgpr`` on these chips
and which count in the metadata."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument and its place in the argument segment."""

    name: str
    """The argument's name."""
    offset: int
    """Where it lies in the argument segment, in bytes."""
    size: int
    """Its size in bytes."""
    is_pointer: bool
    """Whether it is the address of an array."""


def kernel_text(
    name: str,
    target: str,
    lines: Sequence[Line],
    resources: Resources,
    arguments: Sequence[Argument],
    title: str,
    grid_dims: int = 2,
) -> tuple[str, list[int]]:
    """(text, line number of each of ``lines``)."""
    out = [
        str(Comment(title)),
        f"// {resources}",
        f'.amdgcn_target "amdgcn-amd-amdhsa--{target}"',
        f".amdhsa_code_object_version {CODE_OBJECT_VERSION}",
        ".text",
        f".globl {name}",
        ".p2align 8",
        f".type {name},@function",
        f"{name}:",
    ]
    numbers = []
    for line in lines:
        out.append(f"  {line}" if isinstance(line, Instruction) else str(line))
        numbers.append(len(out))
    out += [
        f".size {name}, .-{name}",
        f".p2alignl {CACHE_LINE.bit_length() - 1}, {S_NOP:#x}",
        f".fill {PREFETCHED_LINES * CACHE_LINE // 4}, 4, {S_NOP:#x}",
        "",
    ]
    out += _descriptor(name, resources, _argument_bytes(arguments), grid_dims)
    out += _metadata(name, target, resources, arguments)
    return "\n".join(out) + "\n", numbers


def _argument_bytes(arguments: Sequence[Argument]) -> int:
    end = max((a.offset + a.size for a in arguments), default=0)
    return -(-end // 8) * 8


def _descriptor(name: str, resources: Resources, argument_bytes: int, grid_dims: int) -> list[str]:
    fields = {
        "group_segment_fixed_size": resources.lds_bytes,
        "kernarg_size": argument_bytes,
        "user_sgpr_kernarg_segment_ptr": 1,
        "user_sgpr_count": 2,
        "system_sgpr_workgroup_id_x": 1,
        "system_sgpr_workgroup_id_y": 1,
        **({"system_sgpr_workgroup_id_z": 1} if grid_dims > 2 else {}),
        "system_vgpr_workitem_id": 0,
        "next_free_vgpr": resources.accum_offset + resources.agprs,
        "next_free_sgpr": resources.sgprs,
        "accum_offset": resources.accum_offset,
        "float_denorm_mode_16_64": 3,
        "float_denorm_mode_32": 3,
        "ieee_mode": 0,
        "dx10_clamp": 0,
    }
    return [
        ".rodata",
        ".p2align 6",
        f".amdhsa_kernel {name}",
        *(f"  .amdhsa_{field} {value}" for field, value in fields.items()),
        ".end_amdhsa_kernel",
        "",
    ]


def _metadata(
    name: str, target: str, resources: Resources, arguments: Sequence[Argument]
) -> list[str]:
    threads = resources.waves * WAVE_LANES
    out = [
        ".amdgpu_metadata",
        "---",
        "amdhsa.version: [1, 2]",
        f"amdhsa.target: amdgcn-amd-amdhsa--{target}",
        "amdhsa.kernels:",
        f"  - .name: !str {json.dumps(name)}",
        f"    .symbol: {name}.kd",
        f"    .kernarg_segment_size: {_argument_bytes(arguments)}",
        "    .kernarg_segment_align: 8",
        f"    .group_segment_fixed_size: {resources.lds_bytes}",
        "    .private_segment_fixed_size: 0",
        "    .wavefront_size: 64",
        f"    .sgpr_count: {resources.sgprs + EXTRA_SGPRS}",
        f"    .vgpr_count: {resources.accum_offset + resources.agprs}",
        f"    .agpr_count: {resources.agprs}",
        f"    .max_flat_workgroup_size: {threads}",
        f"    .reqd_workgroup_size: [{threads}, 1, 1]",
        "    .args:",
    ]
    for argument in arguments:
        out += [
            f"      - .name: !str {json.dumps(argument.name)}",
            f"        .offset: {argument.offset}",
            f"        .size: {argument.size}",
            f"        .value_kind: {'global_buffer' if argument.is_pointer else 'by_value'}",
        ]
        if argument.is_pointer:
            out.append("        .address_space: global")
    return [*out, "...", ".end_amdgpu_metadata"]
