"""Labels: one short form for each kind of op."""

from __future__ import annotations

import pytest
from pipeloom.show.labels import STYLES, Labels

from pipeloom import KOffsetKind, OpDesc, OpRole, build_schedule

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


def test_every_role_has_a_style() -> None:
    assert set(STYLES) == set(OpRole)
