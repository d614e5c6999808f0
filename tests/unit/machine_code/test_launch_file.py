"""Launch files: what they ask for is what the emulator is given, and slips are named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.judge.emulate import CodeKernel, KernelArgument, KernelMetadata
from pipeloom.machine.dtypes import BF16, FP4, FP6, FP8
from pipeloom.machine_code.launch_arguments import Padding, Raw, Scalar
from pipeloom.machine_code.launch_buffers import Buffer, Fill
from pipeloom.machine_code.launch_file import LaunchSpec, load_launch, save_launch
from pipeloom.machine_code.launch_template import template


def kernel(*arguments: KernelArgument, metadata: KernelMetadata, size: int) -> CodeKernel:
    return CodeKernel(
        "k", "gfx950", b"", 0, 0, size, 0, 0, 0, 0, 0, arguments, False, metadata=metadata
    )


POINTER = "global_buffer"
MATRIX = kernel(
    KernelArgument(0, 8, POINTER, "C"),
    KernelArgument(8, 8, "by_value", "pad"),
    KernelArgument(16, 4, "by_value", "alpha"),
    KernelArgument(20, 4, "by_value", "pad"),
    KernelArgument(24, 8, "by_value", "pad"),
    KernelArgument(32, 12, "by_value", "desc"),
    KernelArgument(48, 4, "hidden_block_count_x", ""),
    metadata=KernelMetadata(required_block=(256, 1, 1)),
    size=64,
)


def test_template_names_arguments_and_keeps_padding() -> None:
    launch = template(MATRIX)
    assert (launch.kernel, launch.grid, launch.block) == ("k", (1, 1, 1), (256, 1, 1))
    assert launch.args == (
        Buffer("C", 0),
        Padding(8, 8),
        Scalar("alpha", 16, "i32"),
        Padding(20, 12),
        Raw("desc", 32, "00" * 12),
    )


def test_template_without_arguments_is_the_whole_segment() -> None:
    launch = template(kernel(metadata=KernelMetadata(max_work_items=512), size=24))
    assert launch.args == (Raw("kernarg", 0, "00" * 24),)
    assert launch.block == (512, 1, 1)
    (placed,) = launch.arguments()
    assert (placed.offset, placed.size, placed.value) == (0, 24, bytes(24))


S_ENDPGM, DS_READ = 0xBF810000, 0xD86C000004000001


@pytest.mark.parametrize("local", [False, True])
def test_lds_that_the_metadata_does_not_know_is_left_open(local: bool) -> None:
    """As in code objects by Triton, whose launcher adds it."""
    code = DS_READ.to_bytes(8, "little") * local + S_ENDPGM.to_bytes(4, "little")
    launch = template(replace(MATRIX, code=code))
    if not local:
        assert launch.more_lds() == 0
        return
    with pytest.raises(ConfigError, match="dynamic_lds"):
        launch.more_lds()
    assert replace(launch, dynamic_lds=64).more_lds() == 64
    assert template(replace(MATRIX, code=code, group_segment_bytes=64)).more_lds() == 0


def test_file_and_launch_are_the_same(tmp_path: Path) -> None:
    launch = LaunchSpec(
        "k",
        (2, 3),
        (64,),
        (
            Buffer("A", 0, (4, 8), "bf16", Fill.RANDOM, seed=3, low=-2.0, high=2.0),
            Padding(8, 8),
            Scalar("alpha", 16, "f32", 1),
            Raw("tail", 20, "0102"),
        ),
        dynamic_lds=1024,
    )
    path = tmp_path / "LAUNCH.json"
    save_launch(launch, path)
    assert load_launch(path) == launch
    save_launch(load_launch(path), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("buffer", "want"),
    [
        (Buffer("a", 0, (2, 3), "i16", Fill.ZEROS), np.zeros((2, 3), np.int16)),
        (Buffer("a", 0, (5,), "f64", Fill.ONES), np.ones(5)),
        (Buffer("a", 0, (2, 3), "u8", Fill.ARANGE), np.arange(6, dtype=np.uint8).reshape(2, 3)),
        (Buffer("a", 0, (3,), "bf16", Fill.ONES), BF16.encode([1, 1, 1])),
        (Buffer("a", 0, (5,), "fp8", Fill.ARANGE), FP8.encode(range(5)).astype(np.uint8)),
        # 1.0 is code 2 of fp4, two to a byte.
        (Buffer("a", 0, (4,), "fp4", Fill.ONES), np.full(2, FP4.encode(1) * 17, np.uint8)),
    ],
)
def test_buffers_hold_what_was_asked_for(buffer: Buffer, want: Any) -> None:
    array = buffer.array()
    assert array.dtype == want.dtype
    np.testing.assert_array_equal(array, want)


def test_six_bit_codes_are_packed_low_bits_first() -> None:
    packed = Buffer("a", 0, (4,), "fp6", Fill.ARANGE).array()
    want = sum(int(code) << 6 * at for at, code in enumerate(FP6.encode(range(4))))
    assert packed.tobytes() == want.to_bytes(3, "little")


def test_random_is_seeded_and_differs_between_buffers() -> None:
    first = Buffer("a", 0, (64,), "f32", Fill.RANDOM)
    np.testing.assert_array_equal(first.array(), first.array())
    assert np.abs(first.array()).max() <= 1
    others = [
        Buffer("b", 16, (64,), "f32", Fill.RANDOM),
        Buffer("a", 0, (64,), "f32", Fill.RANDOM, seed=1),
    ]
    assert all((other.array() != first.array()).any() for other in others)
    octets = Buffer("a", 0, (4096,), "u8", Fill.RANDOM, low=0, high=256).array()
    assert set(octets.tolist()) == set(range(256))


def test_one_array_for_two_pointers() -> None:
    launch = LaunchSpec("k", (1,), (64,), (Buffer("C", 0, (4,)), Buffer("D", 8, (4,), same_as="C")))
    c, d = launch.arguments()
    assert c.value is d.value


ROW = {"is": "value", "name": "M", "offset": 0, "type": "i32"}
GOOD = {"kernel": "k", "grid": [1], "block": [64], "args": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"args": [ROW]}, "M .* has no value"),
        ({"args": [{"is": "buffer", "name": "A", "offset": 0}]}, "A .* has no shape"),
        ({"args": [{**ROW, "value": 1.5}]}, "M is 1.5, but its type is i32"),
        ({"args": [{**ROW, "value": 1 << 40}]}, "does not hold"),
        ({"args": [{**ROW, "type": "f32", "value": 1e60}]}, "does not hold"),
        ({"args": [{**ROW, "type": "i33"}]}, "unknown type 'i33'"),
        ({"args": [{**ROW, "valeu": 1}]}, "no key 'valeu'"),
        ({"args": [{**ROW, "is": "number"}]}, "says no is of buffer, value, bytes, padding"),
        ({"args": [{**ROW, "offset": -4}]}, "offset is -4"),
        ({"args": [{"is": "padding", "offset": 0, "size": 0}]}, "size is 0"),
        ({"args": [{"is": "bytes", "name": "b", "offset": 0, "hex": "0g"}]}, "not hexadecimal"),
        (
            {"args": [{"is": "buffer", "name": "A", "offset": 0, "shape": [0]}]},
            "shape is 0",
        ),
        (
            {"args": [{"is": "buffer", "name": "A", "offset": 0, "shape": [3], "type": "fp4"}]},
            "not whole bytes",
        ),
        (
            {"args": [{"is": "buffer", "name": "A", "offset": 0, "type": "f99"}]},
            "unknown type 'f99'",
        ),
        (
            {
                "args": [
                    {
                        "is": "buffer",
                        "name": "A",
                        "offset": 0,
                        "shape": [2],
                        "fill": "random",
                        "low": 3.0,
                    }
                ]
            },
            "random between 3.0 and 1",
        ),
        (
            {"args": [{"is": "buffer", "name": "A", "offset": 0, "shape": [2], "same_as": "B"}]},
            "no buffer before it",
        ),
        ({"grid": []}, "grid is"),
        ({"block": [0]}, "block is 0"),
        ({"dynamic_lds": -1}, "dynamic_lds is -1"),
    ],
)
def test_slips_are_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "LAUNCH.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(ScheduleError, match=words):
        load_launch(path).arguments()


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\x00"])
def test_no_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "LAUNCH.json"
    path.write_text(text)
    with pytest.raises(ScheduleError, match="not JSON"):
        load_launch(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="cannot read"):
        load_launch(tmp_path / "missing.json")
