"""Launch files with sizes: expressions where numbers are wanted, structs as their fields."""

from __future__ import annotations

import ctypes
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.errors import ScheduleError
from pipeloom.machine_code.c_structs import ctypes_layout, header_layout
from pipeloom.machine_code.launch_arguments import Scalar
from pipeloom.machine_code.launch_buffers import Buffer
from pipeloom.machine_code.launch_file import launch_of, load_launch

HEAD: dict[str, Any] = {"kernel": "k", "grid": [1], "block": [64], "args": []}


def test_expressions_of_sizes(tmp_path: Path) -> None:
    plain = {
        "kernel": "k",
        "sizes": {"M": 100, "K": "M / 2", "D": 64},
        "grid": ["ceil(M / 64)", "max(1, M // 60)"],
        "block": ["4 * 64"],
        "dynamic_lds": "2 * K",
        "args": [
            {"is": "buffer", "name": "A", "offset": 0, "shape": ["M", "K"], "type": "i8"},
            {"is": "value", "name": "n", "offset": 8, "type": "i32", "value": "-(M % 7)"},
            {"is": "value", "name": "scale", "offset": 12, "type": "f32", "value": "1 / sqrt(D)"},
            {"is": "value", "name": "two", "offset": 16, "type": "f32", "value": "min(2, 3)"},
            {"is": "buffer", "name": "s", "offset": 24, "cumulative": ["M", "K"], "type": "i32"},
            {"is": "buffer", "name": "v", "offset": 32, "values": ["M", 1], "type": "i32"},
            {"is": "buffer", "name": "in", "offset": 40, "same_as": "A", "byte": "K"},
        ],
    }
    path = tmp_path / "LAUNCH.json"
    path.write_text(json.dumps(plain))
    launch = load_launch(path)
    assert (launch.grid, launch.block, launch.dynamic_lds) == ((2, 1), (256,), 100)
    a, n, scale, two, s, v, inside = launch.args
    assert isinstance(a, Buffer)
    assert a.shape == (100, 50)
    assert [one.value for one in (n, scale, two) if isinstance(one, Scalar)] == [-2, 0.125, 2]
    assert isinstance(s, Buffer)
    assert s.array().tolist() == [0, 100, 150]
    assert isinstance(v, Buffer)
    assert v.values == (100, 1)
    assert isinstance(inside, Buffer)
    assert inside.byte == 50
    larger = load_launch(path, {"M": 200, "D": "4 * 4"})
    assert larger.grid == (4, 3)
    assert [one.value for one in larger.args if isinstance(one, Scalar)][1] == 0.25


@pytest.mark.parametrize(
    ("change", "given", "words"),
    [
        ({"grid": ["M"]}, {}, "no size 'M'"),
        ({"sizes": {"M": 3}, "grid": ["M / 2"]}, {}, "1.5, no whole number"),
        ({"sizes": {"M": 0}, "grid": ["1 / M"]}, {}, "no expression"),
        ({"sizes": {"M": 3}, "grid": ["__import__('os')"]}, {}, "no expression"),
        ({"sizes": {"M": 3}, "grid": ["M ** M"]}, {}, "no expression"),
        ({"sizes": {"M": 3}, "grid": ["M +"]}, {}, "no expression"),
        ({"sizes": {"M": -4}, "grid": ["sqrt(M)"]}, {}, "no expression"),
        ({"sizes": {"M": 3}, "grid": ["1" * 1001]}, {}, "no expression"),
        ({"sizes": {"N": "M", "M": 3}}, {}, "no size 'M'"),
        ({"sizes": {"M": None}}, {}, "size M is not given"),
        ({"sizes": {"M": [1]}}, {}, "sizes.M is"),
        ({"sizes": [1]}, {}, "must be a mapping"),
        ({"sizes": {"M": 3}}, {"N": 4}, "no size 'N'"),
        ({}, {"N": 4}, "names no sizes"),
        ({"args": [{"is": "struct", "offset": 0}]}, {}, "lacks its offset, layout or fields"),
        ({"args": [{"is": "struct", "ofset": 0}]}, {}, "no key 'ofset'"),
        (
            {"args": [{"is": "struct", "offset": 0, "layout": "x", "fields": {}}]},
            {},
            "no struct of",
        ),
        (
            {"args": [{"is": "struct", "offset": 0, "layout": "../a.h:A", "fields": {}}]},
            {},
            "lies elsewhere",
        ),
        ({"args": [3]}, {}, "says no is of"),
    ],
)
def test_slips(change: dict[str, Any], given: dict[str, int | str], words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        launch_of({**HEAD, **change}, given)
    assert words in str(caught.value)


HEADER = """#pragma once
#include <hip/hip_runtime.h>
#include "nowhere.h"
#define LANES 2
struct p2 { unsigned int _p[2]; };
enum Mode { NONE, CAUSAL };
namespace deep {
struct Inner { float scale; int8_t codes[LANES]; };
struct __attribute__((packed)) Args {
  const void *ptr_q; p2 _p0;
  void **table;
  uint16_t m; bool flag;
  Mode mode; Inner inner[2];
  double d; long long l;
};
}
struct Aligned { char c; double d; };
"""


class Inner(ctypes.Structure):
    _fields_ = (("scale", ctypes.c_float), ("codes", ctypes.c_int8 * 2))


class Args(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (
        ("ptr_q", ctypes.c_void_p),
        ("_p0", ctypes.c_uint32 * 2),
        ("table", ctypes.POINTER(ctypes.c_int)),
        ("m", ctypes.c_uint16),
        ("flag", ctypes.c_bool),
        ("mode", ctypes.c_int),
        ("inner", Inner * 2),
        ("d", ctypes.c_double),
        ("l", ctypes.c_longlong),
    )


@pytest.fixture
def header(tmp_path: Path) -> Path:
    pytest.importorskip("ziglang", reason="the ziglang wheel is not installed")
    (tmp_path / "args.h").write_text(HEADER)
    return tmp_path


def test_header_and_ctypes_agree(header: Path) -> None:
    """Two independent layouts of the same struct."""
    mine = header_layout("args.h:deep::Args", header)
    theirs = ctypes_layout(Args)
    places = [[(one.offset, one.size, one.type) for one in found] for found in (mine, theirs)]
    assert places[0] == places[1]
    assert "inner[1].codes[1]" in {one.path for one in mine} & {one.path for one in theirs}
    (c, d) = header_layout("args.h:Aligned", header)
    assert (c.offset, d.offset) == (0, 8)


def test_a_struct_of_a_launch(header: Path) -> None:
    fields = {
        "ptr_q": {"shape": ["M"], "type": "bf16"},
        "table": None,
        "m": "M",
        "flag": 1,
        "mode": 1,
        **{f"inner[{at}].scale": 1.5 for at in range(2)},
        **{f"inner[{at}].codes[{one}]": -1 for at in range(2) for one in range(2)},
        "d": "M / 3",
        "l": 5,
    }
    row = {"is": "struct", "offset": 16, "layout": "args.h:deep::Args", "fields": fields}
    again = {"is": "buffer", "name": "q", "offset": 0, "same_as": "ptr_q"}
    plain = {**HEAD, "sizes": {"M": 8}, "args": [row, again]}
    placed = launch_of(plain, folder=header).arguments()
    found = bytearray(16 + ctypes.sizeof(Args))
    for one in placed:
        if isinstance(one.value, np.generic):
            found[one.offset : one.offset + one.size] = one.value.tobytes()
    args = Args.from_buffer_copy(found[16:])
    assert (args.m, args.flag, args.mode, args.l) == (8, True, 1, 5)
    assert math.isclose(args.d, 8 / 3)
    assert [list(one.codes) for one in args.inner] == [[-1, -1], [-1, -1]]
    assert placed[0].offset == 16
    assert placed[0].value is placed[-1].value

    for change, words in (
        ({"m": None, "l": 1}, "has no value"),
        ({"wrong": 1}, "no field 'wrong'"),
        ({"ptr_q": 3}, "is a pointer, and 3 is none"),
        ({"ptr_q": "nobody"}, "no buffer before it"),
    ):
        other = {**row, "fields": {**fields, **change}}
        with pytest.raises(ScheduleError, match=words):
            launch_of({**plain, "args": [other]}, folder=header).arguments()
    del fields["l"]
    with pytest.raises(ScheduleError, match=r"does not say what l of .* is"):
        launch_of(plain, folder=header)


@pytest.mark.parametrize(
    ("text", "named", "words"),
    [
        (HEADER, "args.h:Nothing", "does not take args.h with the struct Nothing"),
        ("struct A { int x:3; };", "args.h:A", "is a bit field"),
        ("struct A { int x[2000]; };", "args.h:A", "more than 1024 fields"),
        ("struct A { broken", "args.h:A", "does not take args.h"),
        ("", "other.h:A", "cannot read other.h"),
        ("", "args.h", "names no struct"),
        ("", "args.h:A B", "names no struct"),
    ],
)
def test_headers_that_are_refused(header: Path, text: str, named: str, words: str) -> None:
    (header / "args.h").write_text(text)
    with pytest.raises(ScheduleError, match=words):
        header_layout(named, header)


@pytest.mark.parametrize(
    "line",
    [
        '#include "{}"',
        '%:include "{}"',
        '/* */ # include "{}"',
        '#\\\ninclude "{}"',
        '%\\ /**/\n:include "{}"',
        '#\\  \ninclude "{}"',
        '#import "{}"',
        '#embed "{}"',
    ],
)
def test_a_header_reaches_no_other_file(header: Path, line: str) -> None:
    other = header / "other"
    other.write_text("a word that is no C\n", encoding="utf-8")
    text = line.format(other) + "\nstruct A { int a; };\n"
    (header / "args.h").write_text(text, encoding="utf-8")
    (field,) = header_layout("args.h:A", header)
    assert (field.path, field.size) == ("a", 4)


def test_classes_that_are_refused() -> None:
    class Bits(ctypes.Structure):
        _fields_ = (("x", ctypes.c_int, 3),)

    with pytest.raises(ScheduleError, match="bit field"):
        ctypes_layout(Bits)
    with pytest.raises(ScheduleError, match="is no ctypes"):
        ctypes_layout(int)
