"""Inputs the emulator must refuse, with the message that says why. Needs no assembler."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import (
    CodeKernel,
    CodeObjectError,
    EmulateError,
    KernelArgument,
    LaunchError,
    StepLimitError,
    UnsupportedInstructionError,
    load_code_object,
    run_kernel,
)
from pipeloom.judge.emulate.metadata import parse_metadata

S_ENDPGM = struct.pack("<I", 0xBF810000)


def kernel(code: bytes = S_ENDPGM, **changes: Any) -> CodeKernel:
    values: dict[str, Any] = {
        "name": "k",
        "arch": "gfx950",
        "code": code,
        "group_segment_bytes": 0,
        "private_segment_bytes": 0,
        "kernarg_bytes": 16,
        "rsrc1": 12 << 6 | 7,
        "rsrc2": 2 << 1 | 1 << 7,
        "rsrc3": 7,
        "properties": 8,
        "preload": 0,
        "arguments": (
            KernelArgument(0, 8, "global_buffer", "data"),
            KernelArgument(8, 4, "by_value", "n"),
        ),
        "uses_private_segment": False,
    }
    return CodeKernel(**{**values, **changes})


def launch(code: CodeKernel | None = None, **changes: Any) -> None:
    options: dict[str, Any] = {"grid": (1,), "block": (64,), "args": [np.zeros(4, np.uint32), 1]}
    run_kernel(code or kernel(), **{**options, **changes})


def elf(machine: int = 224, flags: int = 0x4F, kind: bytes = b"\x02\x01\x01") -> bytes:
    header = b"\x7fELF" + kind + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, 64, flags, 64, 56, 0, 64, 0, 0)
    return header


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an ELF file: it starts with nothing"),
        (b"s_endpgm", "not an ELF file: it starts with 73 5f 65 6e"),
        (elf(kind=b"\x01\x01\x01"), "not a 64-bit little-endian ELF file"),
        (elf(machine=62), r"ELF machine 62 is not AMDGPU \(224\)"),
        (elf(flags=0x41), r"machine 0x41, which the emulator does not model\n\nhint: assemble for"),
        (elf(), "holds no kernel descriptor"),
        (elf()[:40], "the ELF file is cut short or malformed"),
    ],
)
def test_bad_code_objects(data: bytes, message: str) -> None:
    with pytest.raises(CodeObjectError, match=message):
        load_code_object(data)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CodeObjectError, match=r"cannot read .*none\.hsaco: No such file"):
        load_code_object(tmp_path / "none.hsaco")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x81\xa1", "malformed"),
        (b"\xc1", "unknown MessagePack tag 0xc1"),
        (b"\xa5ab", "a string of 5 bytes is cut"),
        (b"", "malformed"),
    ],
)
def test_bad_metadata(data: bytes, message: str) -> None:
    with pytest.raises(CodeObjectError, match=message):
        parse_metadata(data)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((0xE0000000, 0x80000000), "buffer_load_format_x at pc 0x0 is not supported by the emul"),
        ((0xE0000000, 0x80000000, 0xBF970000), "format_x .* nor are 1 more: s_cbranch_cdbgsys"),
        (
            (0xBF970000,),
            r"^k \(gfx950\): .*\n\nhint: docs/emulator.md .* compile the kern",
        ),
        ((0xDC404000, 0x017F0002), "scratch_load_ubyte at pc 0x0 is not supported"),
        ((0xBF970000,), "s_cbranch_cdbgsys at pc 0x0 is not supported"),
        ((0xBE800000, 0xBF8200FF), "s_branch at pc 0x4 .*branch to 0x404, which is no instr"),
        ((0xFFFFFFFF,), "the word 0xffffffff at pc 0x0 is no instruction the decoder knows"),
        ((0x7D8804FA, 0xFF00E400), "v_cmp_.* at pc 0x0 uses DPP in a form the decoder lacks"),
    ],
)
def test_unsupported_instructions_are_named(words: tuple[int, ...], message: str) -> None:
    pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
    code = struct.pack(f"<{len(words)}I", *words) + S_ENDPGM
    with pytest.raises(UnsupportedInstructionError, match=message):
        launch(kernel(code))


def test_wide_lds_dma_is_gfx950_only() -> None:
    pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
    code = struct.pack("<II", 0xE05D1000, 0x80030000) + S_ENDPGM
    launch(kernel(code), max_findings=1)
    with pytest.raises(UnsupportedInstructionError, match="16 bytes per lane into LDS on gfx942"):
        launch(kernel(code, arch="gfx942"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": (0,)}, r"grid must be one to three positive numbers, got \(0,\)"),
        ({"block": (1, 2, 3, 4)}, "block must be one to three positive numbers"),
        ({"block": (1025,)}, "has 1025 work-items; the limit is 1024"),
        ({"args": [1]}, r"takes 2 arguments, got 1\n\nhint: in order: data: array of 8 bytes, n:"),
        ({"args": [5, 5]}, "data is a pointer and needs a NumPy array, got int"),
        ({"args": [np.zeros(4, np.uint32), "x"]}, "n is a value and needs a number, got str"),
        ({"args": [np.zeros(4, np.uint32), b"ab"]}, "n takes 4 bytes, got 2"),
        ({"args": [np.zeros((4, 4))[:, ::2], 1]}, "data must be C-contiguous"),
        ({"timing": "soon"}, "unknown timing 'soon'\n\nhint: one of: random, late, early"),
        ({"dynamic_lds": 163841}, "asks for 163841 bytes of LDS; gfx950 has 163840"),
    ],
)
def test_bad_launches(changes: dict[str, Any], message: str) -> None:
    pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
    with pytest.raises(LaunchError, match=message):
        launch(**changes)


def test_endless_loop_is_stopped() -> None:
    pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
    forever = struct.pack("<I", 0xBF82FFFF)
    with pytest.raises(StepLimitError, match=r"issued more than 5000 instructions"):
        launch(kernel(forever + S_ENDPGM), max_instructions=5000)


def test_running_off_the_end_is_an_error_not_a_crash() -> None:
    pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
    nop = struct.pack("<I", 0xBF800000)
    with pytest.raises(
        EmulateError, match=r"wave 0 runs past the kernel's last instruction at pc 0x4"
    ):
        launch(kernel(nop))
