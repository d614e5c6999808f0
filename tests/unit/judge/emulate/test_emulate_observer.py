"""An observer sees every instruction, the bytes each operation touches, and what waits retire."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeloom.judge.emulate import AddressSpace, Effect

BODY = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  global_load_dword v4, v1, s[4:5]
  s_mov_b32 s8, 2
again:
  s_waitcnt vmcnt(0)
  ds_write_b32 v1, v4 offset:256
  ds_read_b32 v5, v1 offset:256
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 again
  s_waitcnt lgkmcnt(1)
  global_store_dword v1, v4, s[6:7]
  s_endpgm
"""


class Recorder:
    def __init__(self) -> None:
        self.groups: list[tuple[int, int, int]] = []
        self.executed: list[str] = []
        self.touched: list[tuple[str, AddressSpace, Effect, list[int], int]] = []
        self.retired: list[str] = []

    def begin(self, group: Any) -> None:
        self.groups.append(group.workgroup_id)

    def execute(self, wave: Any, step: Any) -> None:
        self.executed.append(step.instruction.name)

    def issue(self, wave: Any, pending: Any) -> None:
        for touch in pending.touches:
            assert touch.lanes.size == touch.addresses.size
            place = (
                touch.addresses - touch.addresses[0] * (touch.space is AddressSpace.GLOBAL)
            ).tolist()
            self.touched.append(
                (pending.instruction.name, touch.space, touch.effect, place, touch.size)
            )

    def retire(self, wave: Any, pending: Any) -> None:
        self.retired.append(pending.instruction.name)


def test_a_run_is_seen_whole(bench: Any) -> None:
    seen = Recorder()
    given, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    run = bench.launch(BODY, [given, out], lds=512, observer=seen)
    assert run.ok
    assert (out == given).all()
    assert seen.groups == [(0, 0, 0)]
    assert len(seen.executed) == run.executed
    assert seen.executed.count("ds_write_b32") == 2
    assert seen.executed[-1] == "s_endpgm"
    rows = list(range(0, 256, 4))
    in_lds = [
        ("ds_write_b32", AddressSpace.LDS, Effect.WRITE, [256 + r for r in rows], 4),
        ("ds_read_b32", AddressSpace.LDS, Effect.READ, [256 + r for r in rows], 4),
    ]
    assert seen.touched == [
        ("s_load_dwordx4", AddressSpace.GLOBAL, Effect.READ, [0], 16),
        ("global_load_dword", AddressSpace.GLOBAL, Effect.READ, rows, 4),
        *in_lds,
        *in_lds,
        ("global_store_dword", AddressSpace.GLOBAL, Effect.WRITE, rows, 4),
    ]
    assert seen.retired == [
        "s_load_dwordx4",
        "global_load_dword",
        "ds_write_b32",
        "ds_read_b32",
        "ds_write_b32",
    ]
