"""``pipeloom check``: exit codes, launch files and what is printed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from pipeloom.cli.main import main

TEXT = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl swap
.p2align 8
.type swap,@function
swap:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v2, 0x100, v1
  ds_write_b32 v1, v0
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v3, v2
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v3, s[6:7]
  s_endpgm
.Lend:
.size swap, .Lend-swap
.rodata
.p2align 6
.amdhsa_kernel swap
  .amdhsa_group_segment_fixed_size 512
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: swap
    .symbol: swap.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 512
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 128
    .args:
      - {.name: x, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
      - {.name: y, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}
...
.end_amdgpu_metadata
"""

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(wheel) is None for wheel in ("ziglang", "tinygrad")),
    reason="the ziglang or the tinygrad wheel is not installed",
)


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    """The template of the kernel, filled in."""
    source, path = tmp_path / "swap.s", tmp_path / "launch.json"
    source.write_text(TEXT)
    assert main(["check", str(source), "--template", str(path)]) == 0
    plain = json.loads(path.read_text())
    for argument in plain["args"]:
        argument |= {"shape": [128], "type": "u32"}
    path.write_text(json.dumps(plain))
    return path


def test_from_template_to_verdict(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = launch.with_name("swap.s")
    assert main(["check", str(source), "--launch", str(launch)]) == 0
    assert capsys.readouterr().out.startswith("PROVED")
    assert main(["check", str(source), "--launch", str(launch), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "proved"


def test_cycles_with_and_without_what_is_not_needed(
    launch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = launch.with_name("swap.s")
    source.write_text(TEXT.replace("  s_barrier\n", "  s_barrier\n  s_barrier\n"))
    assert main(["check", str(source), "--launch", str(launch)]) == 0
    assert "without" in capsys.readouterr().out
    assert main(["check", str(source), "--launch", str(launch), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    before, after = (
        plain[name]["loops"][0]["cycles"] for name in ("timing", "timing_without_needless")
    )
    assert len(plain["needless"]) == 2
    assert after < before


def test_a_race_has_lines_of_the_source(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = launch.with_name("swap.s")
    source.write_text(TEXT.replace("  s_barrier\n", ""))
    assert main(["check", str(source), "--launch", str(launch)]) in (3, 4)
    shown = capsys.readouterr().out
    number = TEXT.splitlines().index("  ds_write_b32 v1, v0") + 1
    assert f"swap.s:{number}" in shown
    assert "wave 0" in shown
    assert "wave 1" in shown


def test_without_a_launch_file(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", str(launch.with_name("swap.s"))])
    assert ended.value.code == 2
    assert "--template" in capsys.readouterr().err


def test_a_missing_file(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nowhere.hsaco", "--launch", str(launch)]) == 1
    assert "nowhere.hsaco" in capsys.readouterr().err


def test_assembly_that_names_no_chip(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = launch.with_name("k.s")
    source.write_text("s_endpgm\n")
    assert main(["check", str(source), "--launch", str(launch)]) == 1
    assert ".amdgcn_target" in capsys.readouterr().err


def test_a_witness_says_which_bytes_and_why(launch: Path) -> None:
    source, out = launch.with_name("swap.s"), launch.with_name("swap.witness.json")
    assert main(["check", str(source), "--launch", str(launch), "--witness", str(out)]) == 0
    plain = json.loads(out.read_text())
    write, read = plain["lds"]
    assert [write["effect"], read["effect"]] == ["writes", "reads"]
    assert write["touches"] == [
        {"waves": [0], "bytes": [[0, 255]]},
        {"waves": [1], "bytes": [[256, 511]]},
    ]
    assert read["touches"][0]["bytes"] == [[256, 511]]
    pair = {"first": write["pc"], "second": read["pc"], "kind": "raw"}
    (barrier,) = plain["barriers"]
    assert barrier["orders"] == [pair]
    assert pair in plain["waits"][1]["orders"]
    assert plain["unordered"] == []


def test_fix_writes_a_file_that_is_proved(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = launch.with_name("swap.s"), launch.with_name("fixed.s")
    source.write_text(TEXT.replace("  s_barrier\n", ""))
    command = ["check", str(source), "--launch", str(launch), "--seeds", "0"]
    plain = main(command)
    assert plain in (3, 4)
    assert main([*command, "--fix", str(out)]) == plain
    assert "s_barrier" in out.read_text()
    assert main(["check", str(out), "--launch", str(launch)]) == 0
    capsys.readouterr()
    assert main([*command, "--fix", str(out), "--json"]) == plain
    assert json.loads(capsys.readouterr().out)["fixed"]["verdict"]["status"] == "proved"


def test_fix_writes_assembly_only(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = launch.with_name("swap.s")
    assert main(["check", str(source), "--launch", str(launch), "--fix", "out.hsaco"]) == 1
    assert ".s" in capsys.readouterr().err


def test_what_cannot_be_fixed_keeps_its_exit_code(
    launch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A read past the buffer: no wait mends that, and the verdict is RACE all the same."""
    source, out = launch.with_name("swap.s"), launch.with_name("fixed.s")
    source.write_text(TEXT.replace("global_store_dword v1, v3, s[6:7]", f"{STORE} offset:4092"))
    command = ["check", str(source), "--launch", str(launch), "--seeds", "0"]
    plain = main(command)
    assert plain == 4
    for more in ([], ["--json"]):
        capsys.readouterr()
        assert main([*command, "--fix", str(out), *more]) == plain
        told = capsys.readouterr()
        assert told.err
        assert not out.exists()
    assert "fixed" not in json.loads(told.out)


STORE = "global_store_dword v1, v3, s[6:7]"


@pytest.mark.parametrize(
    ("name", "code", "said"), [("nope.s", 1, "nope.s"), ("mm.py", 2, "check_triton")]
)
def test_the_file_comes_before_the_options(
    name: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main(["check", name])
    except SystemExit as error:
        found = int(error.code or 0)
    assert found == code
    assert said in capsys.readouterr().err


def test_faults_of_assembly_name_the_file(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = launch.with_name("swap.s")
    source.write_text(TEXT.replace("ds_read_b32", "ds_fetch_b32"))
    assert main(["check", str(source), "--launch", str(launch)]) == 1
    assert "swap.s: line " in capsys.readouterr().err


def test_half_precision_by_either_name(launch: Path) -> None:
    from pipeloom.machine_code.launch_elements import NUMPY_TYPES

    assert NUMPY_TYPES["f16"] == NUMPY_TYPES["fp16"]


def test_sizes_of_a_launch_file(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(launch.read_text())
    plain["sizes"] = {"N": 128}
    for argument in plain["args"]:
        argument["shape"] = ["N"]
    launch.write_text(json.dumps(plain))
    command = ["check", str(launch.with_name("swap.s")), "--launch", str(launch)]
    assert main([*command, "--sizes", "N=128"]) == 0
    assert main([*command, "--sizes", "N=2*32"]) == 4  # y is too short
    capsys.readouterr()
    assert main([*command, "--sizes", "M=2"]) == 1
    assert "no size 'M'" in capsys.readouterr().err
    for wrong in ("N", "N=", "3=N"):
        with pytest.raises(SystemExit):
            main([*command, "--sizes", wrong])
        assert "NAME=NUMBER" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["check", str(launch), str(launch), "--sizes", "N=1"])
    assert "--sizes is for one file" in capsys.readouterr().err
