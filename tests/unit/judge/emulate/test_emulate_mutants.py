"""A hand-written pipeline, and the same with one wait or barrier less.

Two waves stream tiles through two LDS buffers with counted waits: while tile t is read, tile t + 1
is on its way into the other buffer. Each wave loads half of a tile and reads the other wave's half,
so every wait needs its barrier. All mutants but the harmless ones must show in a single run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate import RunResult, decode_kernel, run_kernel
from pipeloom.judge.emulate.pending import WaitCounts

TILES = 5
HEAD = """
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      s_waitcnt lgkmcnt(0)
      v_lshlrev_b32 v1, 2, v0
      v_xor_b32 v2, 0x100, v1
      v_readfirstlane_b32 s8, v1
      v_mov_b32 v5, 0"""


def load(tile: int) -> list[str]:
    return [
        f"s_add_u32 m0, s8, {tile % 2 * 512}",
        "s_nop 0",
        "global_load_lds_dword v1, s[4:5]",
        "s_add_u32 s4, s4, 512",
        "s_addc_u32 s5, s5, 0",
    ]


def pipeline() -> tuple[list[str], dict[int, str]]:
    """The kernel's lines, and the names of those that may be mutated."""
    lines, named = HEAD.strip().splitlines() + load(0), {}
    for tile in range(TILES):
        last = tile == TILES - 1
        if not last:
            lines += load(tile + 1)
        named[len(lines)] = f"vmcnt {tile}"
        lines.append(f"s_waitcnt vmcnt({0 if last else 1})")
        named[len(lines)] = f"publish {tile}"
        lines.append("s_barrier")
        lines.append(f"ds_read_b32 v4, v2 offset:{tile % 2 * 512}")
        named[len(lines)] = f"lgkmcnt {tile}"
        lines.append("s_waitcnt lgkmcnt(0)")
        lines.append("v_add_u32 v5, v5, v4")
        named[len(lines)] = f"release {tile}"
        lines.append("s_barrier")
    lines += ["global_store_dword v1, v5, s[6:7]", "s_endpgm"]
    return lines, named


def stream(bench: Any, lines: list[str], **options: Any) -> tuple[RunResult, bool]:
    data = np.random.default_rng(0).integers(0, 1000, (TILES, 128)).astype(np.uint32)
    out = np.zeros(128, np.uint32)
    code = bench.code("\n".join(lines), pointers=2, lds=1024)
    run = run_kernel(code, grid=(1,), block=(128,), args=[data, out], **options)
    wanted: npt.NDArray[Any] = np.roll(data.sum(axis=0), 64)
    return run, np.array_equal(out, wanted)


@pytest.mark.parametrize("timing", ["random", "late", "early"])
@pytest.mark.parametrize("seed", range(5))
def test_pipeline_is_right(bench: Any, timing: str, seed: int) -> None:
    run, equal = stream(bench, pipeline()[0], timing=timing, seed=seed)
    assert run.ok, [str(f) for f in run.findings]
    assert equal


def test_every_needed_wait_and_barrier_is_missed_when_gone(bench: Any) -> None:
    """Without the last two releases nothing is lost: no load follows into those buffers."""
    lines, named = pipeline()
    unnoticed = []
    for at, name in named.items():
        changed = [*lines[:at], "s_nop 0", *lines[at + 1 :]]
        run, equal = stream(bench, changed, max_findings=1)
        if not run.findings:
            unnoticed.append(name)
            assert equal, name
    assert unnoticed == [f"release {TILES - 2}", f"release {TILES - 1}"]


def test_a_wait_loosened_by_one_is_noticed(bench: Any) -> None:
    lines, named = pipeline()
    for at, name in named.items():
        if not name.startswith("vmcnt") or lines[at].endswith("(0)"):
            continue
        changed = [*lines[:at], "s_waitcnt vmcnt(2)", *lines[at + 1 :]]
        run, _ = stream(bench, changed)
        assert run.findings, name


def test_the_data_alone_show_a_race_in_some_seeds_only(bench: Any) -> None:
    """Why the shadow is worth its cost: values betray a missing release only now and then."""
    lines, named = pipeline()
    at = next(at for at, name in named.items() if name == "release 1")
    changed = [*lines[:at], "s_nop 0", *lines[at + 1 :]]
    wrong = sum(not stream(bench, changed, seed=seed, check_races=False)[1] for seed in range(40))
    assert 0 < wrong < 40
    found = [stream(bench, changed, seed=seed, max_findings=1)[0].findings for seed in range(5)]
    assert all(found)


def test_waits_decode_to_all_their_bits(bench: Any) -> None:
    body = "s_waitcnt vmcnt(45) lgkmcnt(3)\ns_waitcnt vmcnt(16)\ns_waitcnt lgkmcnt(0)\ns_endpgm"
    code = decode_kernel(bench.code(body).kernel().code)
    counts = [WaitCounts.of(i.fields["simm16"]) for i in code[:3]]
    assert [tuple(one.counts.values()) for one in counts] == [(45, 3), (16, 15), (63, 0)]
    texts = [one.text().removeprefix("s_waitcnt ") for one in counts]
    assert texts == ["vmcnt(45) lgkmcnt(3)", "vmcnt(16)", "lgkmcnt(0)"]
