"""Damaged code objects: whatever the bytes, an error of ours or a run, never another exception."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import CodeObjectError, EmulateError, load_code_object, run_kernel
from pipeloom.judge.emulate.metadata import parse_metadata

BODY = """
 s_load_dwordx4 s[4:7], s[0:1], 0x0
 s_waitcnt lgkmcnt(0)
 v_lshlrev_b32 v1, 2, v0
 global_load_dword v2, v1, s[4:5]
 s_waitcnt vmcnt(0)
 ds_write_b32 v1, v2
 s_waitcnt lgkmcnt(0)
 s_barrier
 ds_read_b32 v3, v1
 s_waitcnt lgkmcnt(0)
 v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], a[0:3]
 global_store_dword v1, v3, s[6:7]
 s_endpgm"""
EDGES = (0, 1, 0x7F, 0x80, 0xFF)


def mutated(good: bytes, code: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, anywhere, in the headers or in the code; sometimes cut off."""
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        start, size = rng.choice(((0, len(data)), (0, 0x800), (good.index(code), len(code))))
        at = start + rng.randrange(size)
        width = rng.choice((1, 2, 4, 8))
        change = rng.choice((rng.randbytes(width), bytes([rng.choice(EDGES)]) * width))
        data[at : at + width] = change
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.05 else data)


def test_nothing_but_our_errors(bench: Any) -> None:
    good = bench.binary(BODY, lds=1024)
    code = load_code_object(good).kernel().code
    rng = random.Random(11)
    ended = {True: 0, False: 0}
    for _ in range(500):
        data = mutated(good, code, rng)
        try:
            for kernel in load_code_object(data).kernels.values():
                args = [
                    np.zeros(64, np.uint32) if argument.is_pointer else 0
                    for argument in kernel.explicit_arguments
                ]
                run_kernel(kernel, grid=(1,), block=(64,), args=args, max_instructions=300)
        except EmulateError:
            ended[False] += 1
        else:
            ended[True] += 1
    assert min(ended.values()) > 50, "both outcomes are tried"


@pytest.mark.parametrize(
    ("at", "layout", "value", "words"),
    [
        (0x28, "<Q", 1 << 63, "section headers at"),
        (0x3C, "<H", 0xFFFF, "65535 sections"),
        (0x3C, "<H", 0x3FF, "section headers at"),
        (0x12, "<H", 3, "machine 3 is not AMDGPU"),
        (0x30, "<I", 0x36, "machine 0x36, which the emulator does not model"),
    ],
)
def test_the_message_says_what_is_wrong(
    bench: Any, at: int, layout: str, value: int, words: str
) -> None:
    data = bytearray(bench.binary(BODY, lds=1024))
    struct.pack_into(layout, data, at, value)
    with pytest.raises(CodeObjectError, match=words):
        load_code_object(bytes(data))


def test_a_section_past_the_end(bench: Any) -> None:
    data = bytearray(bench.binary(BODY, lds=1024))
    (table,) = struct.unpack_from("<Q", data, 0x28)
    struct.pack_into("<Q", data, table + 64 + 0x20, 1 << 40)
    with pytest.raises(CodeObjectError, match="past the file's end"):
        load_code_object(bytes(data))


def test_metadata_nested_without_end() -> None:
    with pytest.raises(CodeObjectError, match="nested"):
        parse_metadata(b"\x91" * 100_000)


@pytest.mark.parametrize("field", ["private_segment_bytes", "kernarg_bytes"])
def test_sizes_that_no_chip_has(bench: Any, field: str) -> None:
    kernel = bench.code(BODY, lds=1024).kernel()
    changes: dict[str, Any] = {field: 0xFFFFFFF0}
    said = replace(kernel.metadata, **changes)
    with pytest.raises(CodeObjectError, match="is 4294967280 bytes; the limit is"):
        run_kernel(
            replace(kernel, metadata=said, **changes), grid=(1,), block=(64,), args=[None, None]
        )
