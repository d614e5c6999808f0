"""Kernels that others wrote, launched as their launch file says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.device.hip import Hip
from pipeloom.drive.kernel_files import open_kernel
from pipeloom.judge.emulate import run_kernel
from pipeloom.machine_code.launch_arguments import Scalar
from pipeloom.machine_code.launch_buffers import Buffer, Fill, Link
from pipeloom.machine_code.launch_file import LaunchSpec, save_launch

SOURCE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl through_lds
.p2align 8
.type through_lds,@function
through_lds:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dword s8, s[0:1], 0x10
  v_lshlrev_b32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  ds_write_b32 v1, v2
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v3, v1
  s_waitcnt lgkmcnt(0)
  v_add_u32 v3, s8, v3
  global_store_dword v1, v3, s[6:7]
  s_endpgm
.Lend:
.size through_lds, .Lend-through_lds
.rodata
.p2align 6
.amdhsa_kernel through_lds
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: through_lds
    .symbol: through_lds.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 64
    .args:
      - {.name: x, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
      - {.name: y, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: by, .size: 4, .offset: 16, .value_kind: by_value}
...
.end_amdgpu_metadata
"""
HOW = LaunchSpec(
    "through_lds",
    (1,),
    (64,),
    (
        Buffer("x", 0, (64,), "i32", Fill.ARANGE),
        Buffer("y", 8, (64,), "i32", Fill.ZEROS),
        Scalar("by", 16, "i32", 7),
    ),
    dynamic_lds=256,
)


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "through_lds.s"
    path.write_text(SOURCE)
    return str(path)


def test_by_a_launch_file(hip: Hip, source: str, tmp_path: Path) -> None:
    """Buffers are the file's, or given; LDS is what the launch adds."""
    save_launch(HOW, tmp_path / "LAUNCH.json")
    found = pl.launch(source, how=tmp_path / "LAUNCH.json", unproved=True)
    np.testing.assert_array_equal(found["y"], np.arange(64) + 7)
    x, y = np.arange(64, dtype=np.int32) * 3, np.zeros(64, np.int32)
    pl.launch(source, how=HOW, unproved=True, x=x, y=y, guard=64)
    np.testing.assert_array_equal(y, x + 7)


def test_in_place(hip: Hip, source: str) -> None:
    """Two pointers to one buffer."""
    x, y, by = HOW.args
    assert isinstance(y, Buffer)
    same = replace(HOW, args=(x, replace(y, same_as="x"), by))
    found = pl.launch(source, how=same, unproved=True)
    np.testing.assert_array_equal(found["x"], np.arange(64) + 7)


TABLE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl by_table
.p2align 8
.type by_table,@function
by_table:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  s_load_dwordx2 s[8:9], s[4:5], 0x8
  s_load_dwordx2 s[10:11], s[4:5], 0x10
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v1, s[8:9]
  global_load_dword v3, v1, s[10:11]
  s_waitcnt vmcnt(0)
  v_add_u32 v3, v2, v3
  global_store_dword v1, v3, s[6:7]
  s_endpgm
.Lend:
.size by_table, .Lend-by_table
.rodata
.p2align 6
.amdhsa_kernel by_table
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: by_table
    .symbol: by_table.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 64
    .args:
      - {.name: table, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
      - {.name: y, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}
...
.end_amdgpu_metadata
"""


def test_a_table_of_pointers_on_gpu_and_emulator(hip: Hip, tmp_path: Path) -> None:
    """x[0:64] + x[16:80], by pointers in a table, into the second half of a buffer."""
    (tmp_path / "k.s").write_text(TABLE)
    args = (
        Buffer("x", None, (80,), "i32", Fill.ARANGE),
        Buffer("table", 0, pointers=(Link(None), Link("x"), Link("x", 64))),
        Buffer("whole", None, (128,), "i32", Fill.ZEROS),
        Buffer("y", 8, same_as="whole", byte=256),
    )
    how = LaunchSpec("by_table", (1,), (64,), args)
    want = np.r_[np.zeros(64), np.arange(64) + np.arange(16, 80)]
    found = pl.launch(str(tmp_path / "k.s"), how=how, unproved=True)
    np.testing.assert_array_equal(found["whole"], want)
    contents = how.contents()
    placed = how.placed(contents)
    run_kernel(open_kernel(tmp_path / "k.s").kernel, grid=(1,), block=(64,), args=placed)
    np.testing.assert_array_equal(contents["whole"], want)
    verdict = pl.check(tmp_path / "k.s", grid=(1,), block=(64,), args=how.arguments()).verdict
    assert verdict.status.value == "proved"
    outside = replace(how, args=(*args[:2], replace(args[2], shape=(127,)), args[3]))
    judged = pl.check(tmp_path / "k.s", grid=(1,), block=(64,), args=outside.arguments())
    assert {one.kind.value for one in judged.verdict.findings} == {"out-of-bounds"}


def test_without_the_lds_that_it_uses(hip: Hip, source: str) -> None:
    with pytest.raises(pl.DeviceError, match=r"7(00|19), .*through_lds on device 0"):
        pl.launch(source, how=replace(HOW, dynamic_lds=0), unproved=True)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"x": np.zeros(64, np.float32)}, "x is f32"),
        ({"x": np.zeros(32, np.int32)}, "x is i32 of 32"),
        ({"x": np.zeros((64, 2), np.int32)[:, 0]}, "x has gaps"),
        ({"z": np.zeros(64, np.int32)}, "takes no z"),
    ],
)
def test_arrays_that_do_not_fit(
    hip: Hip,
    source: str,
    given: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int32]]],
    part: str,
) -> None:
    with pytest.raises(pl.DeviceError, match=part):
        pl.launch(source, how=HOW, unproved=True, device=0, **given)  # type: ignore[arg-type]


def test_nobody_judged_it(hip: Hip, source: str) -> None:
    with pytest.raises(pl.DeviceError, match="written by others, and is not judged"):
        pl.launch(source, how=HOW)
    with pytest.raises(pl.ScheduleError):
        pl.launch(source, unproved=True)
