"""Assemble small kernels with the ziglang wheel, and run single instructions on chosen data.

``Bench.run`` is the harness of the instruction tests: rows of 64 words go into registers v8, v9,
... of one wave, the body runs, and the registers asked for come back as rows.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate import CodeObject, RunResult, load_code_object, run_kernel
from pipeloom.write import assemble_text

Words = npt.NDArray[np.uint32]

KERNEL = """.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
{body}
.Lend:
.size kernel, .Lend-kernel
.rodata
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_enable_private_segment {has_scratch}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_y 1
  .amdhsa_next_free_vgpr 512
  .amdhsa_next_free_sgpr 96
  .amdhsa_accum_offset 256
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: {kernarg}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 64
    .sgpr_count: 96
    .vgpr_count: 512
    .max_flat_workgroup_size: 1024
    .args:
{args}
...
.end_amdgpu_metadata
"""


@lru_cache(maxsize=512)
def assemble(text: str, arch: str) -> bytes:
    """Assembly text to a linked code object."""
    return assemble_text(text, arch)


def kernel_text(
    body: str, arch: str = "gfx950", *, pointers: int = 2, lds: int = 0, scratch: int = 0
) -> str:
    """A whole assembly file around ``body``; the arguments are ``pointers`` buffers."""
    args = "\n".join(
        f"      - {{.size: 8, .offset: {8 * i}, .value_kind: global_buffer, "
        ".address_space: global}"
        for i in range(pointers)
    )
    return KERNEL.format(
        body=body,
        arch=arch,
        lds=lds,
        scratch=scratch,
        has_scratch=int(scratch > 0),
        kernarg=8 * pointers,
        args=args,
    )


class Bench:
    """Builds and runs test kernels."""

    def text(self, body: str, arch: str = "gfx950", **options: int) -> str:
        return kernel_text(body, arch, **options)

    def assemble(self, text: str, arch: str) -> bytes:
        return assemble(text, arch)

    def binary(self, body: str, arch: str = "gfx950", **options: int) -> bytes:
        return assemble(kernel_text(body, arch, **options), arch)

    def code(self, body: str, arch: str = "gfx950", **options: int) -> CodeObject:
        return load_code_object(self.binary(body, arch, **options))

    def launch(
        self,
        body: str,
        args: Sequence[Any],
        arch: str = "gfx950",
        *,
        waves: int = 1,
        lds: int = 0,
        scratch: int = 0,
        **options: Any,
    ) -> RunResult:
        """Run a body that ends in s_endpgm; s[0:1] is the kernarg pointer.

        Bodies are about what instructions do and carry no s_nop: wait states are not judged.
        """
        code = self.code(body, arch, pointers=len(args), lds=lds, scratch=scratch)
        options.setdefault("grid", (1,))
        options.setdefault("check_wait_states", False)
        return run_kernel(code, block=(64 * waves,), args=args, **options)

    def registers(
        self,
        body: str,
        inputs: Sequence[npt.NDArray[Any]] = (),
        outputs: Sequence[str] = ("v8",),
        arch: str = "gfx950",
        **options: Any,
    ) -> tuple[Words, RunResult]:
        """Run ``body`` with inputs in v8, v9, ...; the outputs' rows, and the run."""
        given = np.zeros((max(len(inputs), 1), 64), np.uint32)
        for i, row in enumerate(inputs):
            given[i] = np.broadcast_to(np.asarray(row).view(np.uint32), (64,))
        lines = [
            "s_load_dwordx4 s[4:7], s[0:1], 0x0",
            "s_waitcnt lgkmcnt(0)",
            "v_lshlrev_b32 v1, 2, v0",
        ]
        for i in range(len(inputs)):
            lines.append(f"global_load_dword v{8 + i}, v1, s[4:5]")
            lines.append("s_add_u32 s4, s4, 256")
            lines.append("s_addc_u32 s5, s5, 0")
        lines += ["s_waitcnt vmcnt(0)", body, "s_mov_b64 exec, -1", "s_nop 15"]
        for name in outputs:
            if name[0] == "s":
                lines.append(f"v_mov_b32 v255, {name}")
                name = "v255"
            lines.append(f"global_store_dword v1, {name}, s[6:7]")
            lines.append("s_add_u32 s6, s6, 256")
            lines.append("s_addc_u32 s7, s7, 0")
        lines.append("s_endpgm")
        result = np.zeros((len(outputs), 64), np.uint32)
        run = self.launch("\n".join(lines), [given, result], arch, **options)
        return result, run

    def run(
        self,
        body: str,
        inputs: Sequence[npt.NDArray[Any]] = (),
        outputs: Sequence[str] = ("v8",),
        arch: str = "gfx950",
        **options: Any,
    ) -> Words:
        """``registers``, for bodies that must be clean."""
        result, run = self.registers(body, inputs, outputs, arch, **options)
        assert run.ok, [str(f) for f in run.findings]
        return result


@pytest.fixture(scope="session")
def bench() -> Bench:
    for wheel in ("ziglang", "tinygrad"):
        if importlib.util.find_spec(wheel) is None:
            pytest.skip(f"the {wheel} wheel is not installed")
    return Bench()


@pytest.fixture
def lanes() -> Words:
    return np.arange(64, dtype=np.uint32)
