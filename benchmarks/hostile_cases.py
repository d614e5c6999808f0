"""Good inputs of every command, and what becomes of them in the hands of someone who means harm.

``CASES`` names the kinds; each makes one good file and says which command takes it. ``mutated``
changes it: bytes, single fields, whole parts; sizes of 10^9 and 10^30, negative ones, names that
steer a terminal or leave a folder, nesting without end. The same seed gives the same bytes.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipeloom.cms import SyncEntry, Table
from pipeloom.declare.kernels import gemm
from pipeloom.drive import deriving
from pipeloom.drive.deriving import derive, derived_key
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.store import Store
from pipeloom.judge.emulate import load_code_object
from pipeloom.machine.chips import target_for
from pipeloom.machine_code.launch_template import template
from pipeloom.plain import to_plain
from pipeloom.reference.schedules import SCHEDULES
from pipeloom.write import assemble_text

LOOP_FILE = "from pipeloom.declare.kernels import gemm\nsmall = gemm(64, 64, 32)\n"
WAVES = 2
STORE_WAVES = 4
EDGES = (0, 1, 0x7F, 0x80, 0xFF)
SIZES = (-1, 0, 1, 2, 255, 65536, 2**31, 2**32, 10**9, 2**63, 10**30, -(10**12))
NASTY: tuple[Any, ...] = (
    None,
    True,
    "",
    "x\x1b[2J\x1b]0;owned\x07",
    "[/x]",
    "\udc80",
    "../../../tmp/owned",
    "a\nPROVED",
    '"; system("x"); //',
    "</script><script>alert(1)</script>",
    "A" * 20_000,
    "gemm",
    [],
    {},
    [[[[[]]]]],
    {"is": "work"},
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    0.5,
    *SIZES,
)
KERNEL = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
 s_load_dwordx4 s[4:7], s[0:1], 0x0
 s_load_dword s8, s[0:1], 0x10
 s_waitcnt lgkmcnt(0)
 v_lshlrev_b32 v1, 2, v0
.Lloop:
 global_load_dword v2, v1, s[4:5]
 s_waitcnt vmcnt(0)
 s_barrier
 ds_write_b32 v1, v2
 s_waitcnt lgkmcnt(0)
 s_barrier
 ds_read_b32 v3, v1
 s_waitcnt lgkmcnt(0)
 v_add_u32 v2, v2, v3
 s_sub_u32 s8, s8, 1
 s_cmp_lg_u32 s8, 0
 s_cbranch_scc1 .Lloop
 global_store_dword v1, v2, s[6:7]
 s_endpgm
.Lend:
.size kernel, .Lend-kernel
.rodata
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_group_segment_fixed_size 1024
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 24
  .amdhsa_next_free_vgpr 16
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 16
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 16
    .max_flat_workgroup_size: 1024
    .args:
      - {.name: in, .offset: 0, .size: 8, .value_kind: global_buffer}
      - {.name: out, .offset: 8, .size: 8, .value_kind: global_buffer}
      - {.name: n, .offset: 16, .size: 4, .value_kind: by_value}
...
.end_amdgpu_metadata
"""


@dataclass(frozen=True)
class Case:
    """One kind of input: its file, what is changed of it, and the command that takes it."""

    name: str
    share: int
    """Of 10,000."""
    file: str
    good: Callable[[], bytes]
    mutate: Callable[[bytes, random.Random], bytes]
    command: Callable[[random.Random], list[str]]


def files(folder: Path) -> None:
    """What the commands need beside the file that is changed: the good one of every kind."""
    for case in CASES:
        if case.name != "store rows":
            (folder / case.file).write_bytes(case.good())
    (folder / "loop.py").write_text(LOOP_FILE, encoding="utf-8")


# ------------------------------------------------------------------------------------ good inputs


@cache
def code_object() -> bytes:
    return assemble_text(KERNEL, "gfx950")


@cache
def launch() -> bytes:
    plain = to_plain(template(load_code_object(code_object())))
    plain["block"] = [128]
    for argument in plain["args"]:
        if argument["is"] == "buffer":
            argument.update(shape=[128], type="u32")
        else:
            argument.update(value=5)
    return _json(plain)


@cache
def program() -> bytes:
    return pipeline(gemm(32, 32, 32), "gfx950", WAVES).to_json().encode()


@cache
def spec() -> bytes:
    schedule = SCHEDULES["ping_pong"]()
    return _json({"schedule": "ping_pong", **to_plain(schedule)})


@cache
def table() -> bytes:
    """64x32x64 on four waves: two MFMA tiles and two K steps a wave, two loads of A, one of B."""
    schedule = {
        "SYNC": ((-1, 0, 0, 2, 2),),
        "GRIncA": ((-1,) * 9,),
        "GRIncB": ((-1,) * 9,),
        "LRA0": ((-1, -1),),
        "LRB0": ((-1,),),
        "LRSA": ((0,),),
        "LRSB": ((0,),),
        "GRA": ((0, 0, 1, 1),),
        "GRB": ((1, 1),),
        "LWSA": ((2,),),
        "LWSB": ((2,),),
        "LRA1": ((2, 2),),
        "LRB1": ((2,),),
        "LCC": ((3, 3),),
    }
    waits = (
        SyncEntry(dscnt=0),
        SyncEntry(dscnt=0),
        SyncEntry(barrier=True),
        SyncEntry(vlcnt=3),
        SyncEntry(barrier=True),
    )
    small = Table(
        id="small",
        tile=(64, 32, 64),
        layout="TN",
        dtype="bf16",
        mi=(16, 16, 32),
        wave_group=(2, 2),
        wave_tile=(2, 1),
        num_code_paths=1,
        num_mfma=4,
        schedule=schedule,
        sync=waits,
        nglshift=3,
        nllshift=3,
    )
    return _json(small.to_dict())


@cache
def store_entries() -> bytes:
    """What ``derive`` keeps of the loop in ``loop.py``, by key."""
    deriving.VARIED = 0
    entries: dict[str, Any] = {}

    class Kept(Store):
        def read(self, key: str) -> dict[str, Any] | None:
            return entries.get(key)

        def write(self, key: str, content: Any) -> None:
            entries[key] = copy.deepcopy(dict(content))

    derive(gemm(64, 64, 32), target_for("gfx950"), STORE_WAVES, store=Kept(Path("kept")))
    assert derived_key(gemm(64, 64, 32), target_for("gfx950"), STORE_WAVES) in entries
    return _json(entries)


def _json(data: Any) -> bytes:
    return json.dumps(data).encode()


# -------------------------------------------------------------------------------------- mutations


def bytes_mutated(good: bytes, rng: random.Random) -> bytes:
    """Bytes, words and sizes changed, parts moved, cut or repeated."""
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(max(len(data), 1))
        how = rng.random()
        if how < 0.4:
            width = rng.choice((1, 2, 4, 8))
            at -= at % width
            data[at : at + width] = rng.choice(
                (rng.randbytes(width), bytes([rng.choice(EDGES)]) * width)
            )
        elif how < 0.7:
            width = rng.choice((2, 4, 8))
            at -= at % width
            value = rng.choice(SIZES) % (1 << 8 * width)
            data[at : at + width] = value.to_bytes(width, "little")
        elif how < 0.8:
            size, start = rng.randrange(1, 64), rng.randrange(max(len(data), 1))
            data[at : at + size] = data[start : start + size]
        elif how < 0.9:
            data[at:at] = data[at : at + rng.randrange(1, 64)] * rng.choice((1, 2, 100))
        else:
            del data[at : at + rng.randrange(1, 64)]
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.05 else data)


def json_mutated(good: bytes, rng: random.Random) -> bytes:
    """Fields changed, a little or much; sometimes the text itself."""
    if rng.random() < 0.08:
        return bytes_mutated(good, rng)
    if rng.random() < 0.02:
        depth = rng.choice((50, 2000, 200_000))
        return b"[" * depth + b"]" * depth
    data = json.loads(good)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        _change(data, rng)
    return json.dumps(data).encode()


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Every place of a document: what holds it, and under which key."""
    found, todo = [], [data]
    while todo:
        held = todo.pop()
        keys = held.keys() if isinstance(held, dict) else range(len(held))
        for key in list(keys):
            found.append((held, key))
            if isinstance(held[key], dict | list):
                todo.append(held[key])
    return found


def _change(data: Any, rng: random.Random) -> None:
    places = _places(data)
    if not places:
        return
    held, key = rng.choice(places)
    value, how = held[key], rng.random()
    if how < 0.35 and isinstance(value, int) and not isinstance(value, bool):
        held[key] = value + rng.choice((-1, 1, -2, 2, 16))
    elif how < 0.45 and isinstance(value, bool):
        held[key] = not value
    elif how < 0.55 and isinstance(held, list) and len(held) > 1:
        other = rng.randrange(len(held))
        held[key], held[other] = held[other], held[key]
    elif how < 0.7 and isinstance(held, list):
        del held[key]
    elif how < 0.75 and isinstance(held, list):
        held.insert(key, copy.deepcopy(value))
    elif how < 0.8:
        source, name = rng.choice(places)
        held[key] = copy.deepcopy(source[name])
    elif how < 0.85 and isinstance(held, dict):
        del held[key]
    elif how < 0.88 and isinstance(held, dict):
        held[rng.choice(("x", "is", "__class__", "\x1b[1m"))] = rng.choice(NASTY)
    else:
        held[key] = rng.choice(NASTY)


def _check(rng: random.Random) -> list[str]:
    if rng.random() < 0.1:
        return ["check", "in/k.hsaco", "--template", "out/l.json"]
    more = rng.choice(([], [], ["--json"], ["--witness", "out/w.json"], ["--fix", "out/f.s"]))
    few = ["--max-instructions", "20000", "--seeds", "2"]
    return ["check", "in/k.hsaco", "--launch", "in/launch.json", *few, *more]


def _judge(file: str, *others: list[str]) -> Callable[[random.Random], list[str]]:
    """Mostly ``verify``; sometimes another that takes the file."""

    def command(rng: random.Random) -> list[str]:
        other = rng.choice(others) if rng.random() < 0.15 else ["verify"]
        return [other[0], f"in/{file}", *other[1:]]

    return command


def _derive(rng: random.Random) -> list[str]:
    return ["derive", "in/loop.py:small", "--waves", str(STORE_WAVES), "-o", "out/p.json"]


CASES = (
    Case("code objects", 3000, "k.hsaco", code_object, bytes_mutated, _check),
    Case("launch files", 2000, "launch.json", launch, json_mutated, _check),
    Case(
        "programs",
        2700,
        "program.json",
        program,
        json_mutated,
        _judge(
            "program.json",
            ["report", "-o", "out/r.html"],
            ["simulate"],
            ["emit", "-o", "out/k.s"],
            ["fix", "-o", "out/f.json"],
            ["show"],
        ),
    ),
    Case(
        "specs",
        1200,
        "spec.json",
        spec,
        json_mutated,
        _judge("spec.json", ["compile", "-o", "out/c.json"], ["show"], ["simulate"]),
    ),
    Case(
        "tables",
        800,
        "table.json",
        table,
        json_mutated,
        _judge("table.json", ["simulate"], ["report", "-o", "out/r.html"]),
    ),
    Case("store rows", 300, "store.json", store_entries, json_mutated, _derive),
)
