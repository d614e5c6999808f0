"""What buffers of launch files hold: numbers, files, running sums, addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.errors import ScheduleError
from pipeloom.judge.emulate import CodeKernel, KernelArgument, Linked, PointerInto, run_kernel
from pipeloom.machine.dtypes import BF16
from pipeloom.machine_code import launch_elements
from pipeloom.machine_code.launch_buffers import Buffer, Link
from pipeloom.machine_code.launch_elements import numbers, packed_shape, stored
from pipeloom.machine_code.launch_file import LaunchSpec, launch_of, load_launch, save_launch

HEAD: dict[str, Any] = {"kernel": "k", "grid": [1], "block": [64]}


def _launch(*rows: dict[str, Any], folder: Path = Path(), **more: Any) -> LaunchSpec:
    given = [{"is": "buffer", "name": f"b{at}", "offset": 8 * at} for at in range(len(rows))]
    args = [{**usual, **row} for usual, row in zip(given, rows, strict=True)]
    return launch_of({**HEAD, **more, "args": args}, folder=folder)


def _array(row: dict[str, Any], folder: Path = Path()) -> Any:
    (placed,) = _launch(row, folder=folder).arguments()
    return placed.value


@pytest.mark.parametrize("kind", ["i8", "u16", "i32", "i64", "f32", "fp16", "bf16", "fp8", "fp4"])
def test_numbers_as_they_are_listed(kind: str) -> None:
    found = _array({"values": [[1, 0, 2, 3], [4, 6, 1, 0]], "type": kind})
    assert found.shape == packed_shape(kind, (2, 4))
    np.testing.assert_array_equal(numbers(found, kind, (2, 4)), [[1, 0, 2, 3], [4, 6, 1, 0]])


def test_large_integers_are_exact() -> None:
    assert _array({"values": [(1 << 62) + 1], "type": "i64"}).tolist() == [(1 << 62) + 1]


def test_running_sums_begin_with_zero() -> None:
    found = _array({"cumulative": [128, 0, 64], "type": "i32"})
    assert (found.dtype, found.tolist()) == (np.int32, [0, 128, 128, 192])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f4", "<i2", ">i4", "|u1"])
def test_npy_files(tmp_path: Path, kind: str, order: Any) -> None:
    want = np.arange(12).reshape(3, 4).astype(kind, order=order)
    np.save(tmp_path / "x.npy", want)
    name = {"f": "f32", "i": f"i{8 * want.itemsize}", "u": "u8"}[want.dtype.kind]
    found = _array({"file": "x.npy", "type": name}, tmp_path)
    np.testing.assert_array_equal(found, want)
    assert found.flags.c_contiguous
    assert found.flags.writeable


def test_npy_of_floats_is_rounded_where_numpy_lacks_the_type(tmp_path: Path) -> None:
    want = np.linspace(-1, 1, 8, dtype=np.float32)
    np.save(tmp_path / "x.npy", want)
    found = _array({"file": "x.npy", "type": "bf16"}, tmp_path)
    np.testing.assert_array_equal(found, BF16.encode(want))
    np.save(tmp_path / "x.npy", found.astype(np.uint16))
    np.testing.assert_array_equal(_array({"file": "x.npy", "type": "bf16"}, tmp_path), found)


def test_bare_bytes(tmp_path: Path) -> None:
    want = np.arange(6, dtype=np.int16)
    (tmp_path / "x.bin").write_bytes(want.tobytes())
    row = {"file": "x.bin", "type": "i16"}
    np.testing.assert_array_equal(_array(row, tmp_path), want)
    found = _array({**row, "shape": [2, 3]}, tmp_path)
    np.testing.assert_array_equal(found, want.reshape(2, 3))
    packed = _array({"file": "x.bin", "type": "fp4"}, tmp_path)
    assert packed.tobytes() == want.tobytes()


def test_files_lie_beside_the_launch_file(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    np.save(tmp_path / "inner" / "x.npy", np.arange(3, dtype=np.int32))
    row = {"is": "buffer", "name": "x", "offset": 0, "type": "i32", "file": "inner/x.npy"}
    (tmp_path / "LAUNCH.json").write_text(json.dumps({**HEAD, "args": [row]}))
    launch = load_launch(tmp_path / "LAUNCH.json")
    assert [Path(file).name for file in launch.files()] == ["x.npy"]
    (placed,) = launch.arguments()
    assert isinstance(placed.value, np.ndarray)
    assert placed.value.tolist() == [0, 1, 2]


def _npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_npy(HUGE), "is not 0 bytes"),
        (_npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"0" * 8), "not plain"),
        (_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "not plain"),
        (_npy("{'descr': '<f4', 'fortran_order': False}"), "is no array"),
        (_npy("__import__('os')"), "is no array"),
        (b"\x93NUMPY\x01", "is no array"),
        (b"\x93NUMPY\x01\x00\xff\xff", "header is too long"),
        (b"123", "has 3 bytes"),
    ],
)
def test_what_is_no_array(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ScheduleError, match=words):
        _array({"file": "x.npy", "type": "f32"}, tmp_path)


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros(64, np.float32))
    monkeypatch.setattr(launch_elements, "MOST_ELEMENTS", 40)
    with pytest.raises(ScheduleError, match="more than 320 bytes"):
        _array({"file": "x.npy", "type": "f32"}, tmp_path)
    monkeypatch.setattr(launch_elements, "MOST_ELEMENTS", 60)
    with pytest.raises(ScheduleError, match="64 elements"):
        _array({"file": "x.npy", "type": "f32"}, tmp_path)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"file": "none.npy"}, "cannot read"),
        ({"file": "../x.npy"}, "lies elsewhere"),
        ({"file": "/x.npy"}, "lies elsewhere"),
        ({"file": "x.npy", "type": "f64"}, "holds float32, and the buffer is f64"),
        ({"file": "x.npy", "shape": [5]}, r"shape \[5\], and .* is \[4\]"),
        ({"file": "x.npy", "values": [1]}, "both values and file"),
        ({"file": "x.npy", "fill": "ones"}, "both file and fill"),
        ({"values": [1, 2], "shape": [3]}, r"shape \[3\] and 2 numbers"),
        ({"values": [300], "type": "u8"}, "hold 300, which u8 does not"),
        ({"values": [1.5], "type": "i32"}, "hold 1.5, which i32 does not"),
        ({"values": [1e39], "type": "f32"}, "which f32 does not"),
        ({"values": []}, "empty list"),
        ({"values": [[1, 2], [3]]}, "several lengths"),
        ({"values": [1, [2]]}, "several lengths"),
        ({"values": [[[[[[[[[1]]]]]]]]]}, "nested too deeply"),
        ({"values": [None]}, "must be a number"),
        ({"cumulative": [-1]}, "cumulative is -1"),
        ({"byte": 8, "shape": [4]}, "begins at byte 8 of nothing"),
        ({"shape": [1], "pointers": ["b0"]}, "points to 'b0', which is no buffer before it"),
        ({"pointers": [7]}, "must be a mapping"),
        ({"offset": None, "shape": [4]}, "no offset, and no pointer leads to it"),
    ],
)
def test_slips(tmp_path: Path, row: dict[str, Any], words: str) -> None:
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    with pytest.raises(ScheduleError, match=words):
        _array(row, tmp_path)


def test_pointers_lead_to_buffers() -> None:
    data = {"name": "A", "offset": None, "values": [1, 2], "type": "i32"}
    table = {"pointers": ["A", None, {"to": "A", "byte": 4, "at": 24}], "offset": 0}
    inside = {"same_as": "A", "byte": 4, "offset": 8}
    found, pointer = _launch(data, table, inside).arguments()
    assert isinstance(found.value, Linked)
    assert isinstance(pointer.value, PointerInto)
    assert found.value.array.dtype == np.uint64
    assert found.value.array.shape == (4,)
    (at, first), (null, none), (last, second) = found.value.links
    assert (at, null, last, none) == (0, 8, 24, None)
    assert first is not None
    assert second is not None
    assert first.target is second.target is pointer.value.target
    assert (first.byte, second.byte, pointer.value.byte) == (0, 4, 4)


def test_the_same_as_the_same() -> None:
    """Bytes add up, and a table in a buffer with other content keeps that."""
    rows: list[dict[str, Any]] = [
        {"values": [1, 2, 3, 4], "type": "i32"},
        {"same_as": "b0", "byte": 4},
        {"same_as": "b1", "byte": 8},
        {"shape": [4], "type": "u64", "fill": "ones", "pointers": [{"to": "b0", "at": 16}]},
    ]
    *_, last, table = _launch(*rows).arguments()
    assert isinstance(last.value, PointerInto)
    assert last.value.byte == 12
    assert isinstance(table.value, Linked)
    assert table.value.array.tolist() == [1, 1, 1, 1]


def test_written_and_read_again(tmp_path: Path) -> None:
    launch = LaunchSpec(
        "k",
        (1,),
        (64,),
        (
            Buffer("A", None, type="i32", values=(1, 2)),
            Buffer("S", 0, type="i32", cumulative=(3, 4)),
            Buffer("T", 8, pointers=(Link("A"), Link(None), Link("A", 4, 32))),
            Buffer("B", 16, same_as="A", byte=4),
        ),
    )
    save_launch(launch, tmp_path / "LAUNCH.json")
    assert load_launch(tmp_path / "LAUNCH.json") == launch


def test_numbers_come_back_as_they_were_stored() -> None:
    for kind in ("bf16", "fp8", "bf8", "fp6", "bf6", "fp4", "fp16", "f32"):
        values = np.array([[0.0, 1, -2, 4], [0.5, -0.5, 2, 1]])
        again = numbers(stored(values, kind, (2, 4)), kind, (2, 4))
        np.testing.assert_array_equal(again, values)


@pytest.mark.parametrize("at", [-8, 4, 16])
def test_addresses_stand_inside_their_buffer(at: int) -> None:
    """The emulator refuses what a table of 8 bytes cannot hold."""
    code = (0xBF810000).to_bytes(4, "little")
    pointer = KernelArgument(0, 8, "global_buffer", "table")
    kernel = CodeKernel("k", "gfx950", code, 0, 0, 8, 0, 0, 0, 0, 0, (pointer,), False)
    table = Linked(np.zeros(1, np.uint64), ((at, None),))
    with pytest.raises(ScheduleError, match=f"a pointer at byte {at}"):
        run_kernel(kernel, grid=(1,), block=(64,), args=[table])
