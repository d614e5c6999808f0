"""Small kernels in assembly, scanned."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.judge.emulate import load_code_object
from pipeloom.judge.scan import KernelScan, scan_kernel
from pipeloom.write import assemble_text

_TEXT = """.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl k
.p2align 8
.type k,@function
k:
{body}
.Lend:
.size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_group_segment_fixed_size 16384
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 64
  .amdhsa_next_free_sgpr 32
  .amdhsa_accum_offset 64
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 16384
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 32
    .vgpr_count: 64
    .max_flat_workgroup_size: {block}
...
.end_amdgpu_metadata
"""

Scan = Callable[..., KernelScan]


def kernel_text(body: str, arch: str = "gfx950", block: int = 128) -> str:
    """The assembly of a kernel with these instructions."""
    return _TEXT.format(body=body, arch=arch, block=block)


@pytest.fixture
def scanned() -> Scan:
    """Scan a kernel that consists of some instructions."""

    def scan(body: str, arch: str = "gfx950", block: int = 128) -> KernelScan:
        code = assemble_text(kernel_text(body, arch, block), arch)
        return scan_kernel(load_code_object(code).kernel())

    return scan
