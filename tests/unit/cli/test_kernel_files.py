"""``report``, ``trace``, ``compare`` and ``check`` of a kernel that others wrote."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from pipeloom.cli.main import main

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(wheel) is None for wheel in ("ziglang", "tinygrad")),
    reason="the ziglang or the tinygrad wheel is not installed",
)

TEXT = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl k
.p2align 8
.type k,@function
k:
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v2, 1.0
  s_mov_b32 s8, 6
  s_waitcnt lgkmcnt(0)
.Lloop:
  v_add_f32 v2, v2, v2
  v_add_f32 v2, v2, v2
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  global_store_dword v1, v2, s[4:5]
  s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 64
    .args:
      - {.name: out, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
...
.end_amdgpu_metadata
"""
CYCLES = 8 + 4 + 2 * 4 + 20
"""A dependent add, an add, counter and compare, the branch."""


def written(folder: Path) -> tuple[str, str, str]:
    """A kernel, one with independent adds, and the launch file of both."""
    slow, fast, launch = folder / "slow.s", folder / "fast.s", folder / "launch.json"
    slow.write_text(TEXT)
    fast.write_text(TEXT.replace("v_add_f32 v2, v2, v2\n", "v_add_f32 v3, v2, v2\n", 1))
    assert main(["check", str(slow), "--template", str(launch)]) == 0
    plain = json.loads(launch.read_text())
    plain["args"][0] |= {"shape": [64], "type": "f32"}
    launch.write_text(json.dumps(plain))
    return str(slow), str(fast), str(launch)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    return written(tmp_path)


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_check_says_how_fast_the_loop_is(
    files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = _json(capsys, "check", files[0], "--launch", files[2])
    assert isinstance(found, dict)
    (loop,) = found["timing"]["loops"]
    assert (loop["cycles"], loop["trips"]) == (CYCLES, 6)
    assert main(["check", files[0], "--launch", files[2]]) == 0
    assert f"{CYCLES} cycles per trip" in capsys.readouterr().out


def test_report_shows_the_disassembly(
    files: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    found = _json(capsys, "report", files[0], "--launch", files[2], "-o", str(page))
    assert isinstance(found, dict)
    assert (found["verdict"], found["timing"]["vgprs"]) == ("PROVED", 8)
    data = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    labels = [entry[2] for entry in data["entries"]]
    assert labels.count("v_add_f32 v2, v2, v2") == 2
    assert data["headline"][0][:2] == [str(CYCLES), "cycles per trip"]
    assert ["8 + 0", "VGPRs + AGPRs allocated"] in [card[:2] for card in data["headline"]]
    added = next(entry for entry in data["entries"] if entry[2] == "v_add_f32 v2, v2, v2")
    where = TEXT.splitlines().index("  v_add_f32 v2, v2, v2") + 1
    assert added[8] == f"slow.s:{where}"
    (stall,) = [row for row in data["stalls"] if row[-1]]
    assert stall[1:3] == ["pc 0x1c", "v_add_f32 v2, v2, v2"]
    assert max(data["timeline"]["depth"]["live"]) == 2


def test_trace_has_the_isa_text(
    files: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "t.json"
    _json(capsys, "trace", files[0], "--launch", files[2], "-o", str(target))
    names = {row["name"] for row in json.loads(target.read_text())["traceEvents"]}
    assert {"v_add_f32 v2, v2, v2", "s_cmp_lg_u32 s8, 0"} <= names


def test_compare_ranks_two_files(
    files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = _json(capsys, "compare", *files[:2], "--launch", files[2])
    assert isinstance(found, list)
    assert [row["cycles_per_trip"] for row in found] == [CYCLES, CYCLES - 4]
    assert [row["verdict"] for row in found] == ["PROVED", "PROVED"]


def test_schedules_are_on_one_page_with_what_they_occupy(tmp_path: Path) -> None:
    page = tmp_path / "two.html"
    variants = ["single_buffer", "single_buffer:sync=proven"]
    assert main(["compare", *variants, "--k-tiles", "8", "-o", str(page)]) == 0
    data = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    assert [one["meta"]["variant"] for one in data["variants"]] == variants
    for one in data["variants"]:
        cards = {card[1]: card[0] for card in one["headline"]}
        assert {"VGPRs + AGPRs used", "waves per SIMD"} <= cards.keys()
        assert cards["LDS"].endswith("KiB")
        assert float(cards["TFLOPS at 1500 MHz"]) > 0
        assert cards["VGPRs + AGPRs used"] == dict(one["compared"])["VGPRs + AGPRs"]
    first, second = (dict(one["compared"]) for one in data["variants"])
    assert first.keys() == second.keys(), "no row is half empty"
    assert first["VGPRs + AGPRs"] != second["VGPRs + AGPRs"], "each has its own"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "{slow}", "--launch", "{launch}"], "at least two kernel files"),
        (["compare", *["{slow}"] * 3, *["--launch", "{launch}"] * 2], "2 launch files for 3"),
        (["report", "{slow}", "--launch", "missing.json"], "missing.json"),
    ],
)
def test_errors_name_the_remedy(
    files: tuple[str, str, str],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    given = [a.format(slow=files[0], launch=files[2]) for a in arguments]
    assert main(given) != 0
    assert message in capsys.readouterr().err


def test_a_kernel_that_cannot_run_has_no_page(
    files: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = tmp_path / "stuck.s"
    stuck.write_text(TEXT.replace("s_sub_u32 s8, s8, 1", "s_rfe_b64 s[2:3]"))
    for command in ("report", "trace"):
        output = str(tmp_path / ("x.html" if command == "report" else "x.json"))
        assert main([command, str(stuck), "--launch", files[2], "-o", output]) != 0
        assert "s_rfe_b64" in capsys.readouterr().err
