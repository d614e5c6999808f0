"""A schedule in words: one short form for each kind of op, its tile, its knobs."""

from __future__ import annotations

import pytest

from pipeloom import KOffsetKind, OpDesc, OpRole, build_schedule
from pipeloom.reference.words import Labels, knobs, tile_text

TILE = ["geometry.BK=64", "geometry.MMA_K=32", "geometry.elem_bytes=2"]
LABELS = Labels(build_schedule("ping_pong"))


@pytest.mark.parametrize(
    ("op", "label"),
    [
        (
            OpDesc(0, 1, 0, KOffsetKind.K1, role=OpRole.GLOBAL_LOAD, channel=0),
            "load A[1,0] k+1",
        ),
        (
            OpDesc(1, 0, 1, KOffsetKind.K_PREV, role=OpRole.GLOBAL_LOAD, channel=1),
            "load B[0,1] k-1",
        ),
        # a prologue load has no channel of its own: the body knows the tag
        (OpDesc(1, 0, 1, KOffsetKind.K0, role=OpRole.GLOBAL_LOAD), "load B[0,1] k+0"),
        (OpDesc(4, 0, 1, role=OpRole.FRAGMENT_LOAD, channel=1), "frag B[0,1]"),
        (OpDesc(5, 0, 1, role=OpRole.COMPUTE), "mma (0,1)"),
        (OpDesc(99, 2, 3, role=OpRole.SHARED_STORE), "store [2,3]"),
        (OpDesc(98, role=OpRole.VALU_COMPUTE), "valu [0,0]"),
        (OpDesc(97), "op97 [0,0]"),
        (OpDesc.barrier(), "barrier"),
        (OpDesc.schedule_barrier(), "fence"),
        (OpDesc.wait_vm(4), "vmcnt(4)"),
        (OpDesc.wait_lgkm(0), "lgkmcnt(0)"),
        (OpDesc.set_prio(1), "prio(1)"),
        (OpDesc.sched_group_barrier(3, 2), "mfmax2"),
        (OpDesc.sched_group_barrier(9, 2), "group9x2"),
        (OpDesc.none(), "none"),
    ],
)
def test_label(op: OpDesc, label: str) -> None:
    assert LABELS.of(op) == label


def test_the_tile_in_words() -> None:
    compiled = build_schedule("ping_pong", TILE)
    assert tile_text(compiled) == "256x256x64 bf16"
    assert tile_text(compiled, "fp16") == "256x256x64 fp16"
    assert tile_text(build_schedule("ping_pong")) == "no tile: 4 + 4 vmcnt entries per load"


def test_knobs_mark_what_was_changed() -> None:
    tables = dict(knobs(build_schedule("ping_pong", TILE)))
    assert list(tables) == ["schedule_config", "config", "geometry"]
    scheduler = {name: (value, changed) for name, value, changed in tables["schedule_config"]}
    assert scheduler["scheduling"] == ("csp", True)
    assert scheduler["auto_waits"] == ("true", False)
