"""Section 1 of the specification: codes, defaults and constructors, field by field."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict

import pytest

from pipeloom import (
    ConfigError,
    DepKind,
    KOffsetKind,
    OpDesc,
    OpRole,
    OpTag,
    Phase,
    PipelineBody,
    ResourceKind,
)


@pytest.mark.parametrize(
    ("enum", "codes"),
    [
        (
            ResourceKind,
            {"GLOBAL_MEM": 0, "LDS": 1, "MMA_UNIT": 2, "SCALAR": 3, "VALU": 4, "NONE": 255},
        ),
        (
            OpRole,
            {
                "GLOBAL_LOAD": 0,
                "SHARED_STORE": 1,
                "FRAGMENT_LOAD": 2,
                "COMPUTE": 3,
                "SYNC": 4,
                "FENCE": 5,
                "VALU_COMPUTE": 6,
                "NONE": 255,
            },
        ),
        (KOffsetKind, {"K0": 0, "K1": 1, "K_NEXT": 2, "K_PREV": 3, "NONE": 255}),
        (Phase, {"PROLOGUE": 0, "KERNEL": 1, "EPILOGUE": 2}),
        (DepKind, {"FLOW": 0, "ANTI": 1, "OUTPUT": 2}),
        (
            OpTag,
            {
                "BARRIER": 128,
                "WAIT_VM": 129,
                "WAIT_LGKM": 130,
                "SET_PRIO": 131,
                "SCHEDULE_BARRIER": 132,
                "SCHED_GROUP_BARRIER": 133,
                "NONE": 255,
            },
        ),
    ],
)
def test_enum_codes(enum: type, codes: dict[str, int]) -> None:
    assert {m.name: m.value for m in enum} == codes  # type: ignore[attr-defined]


def test_op_defaults() -> None:
    assert asdict(OpDesc(7)) == {
        "tag": 7,
        "stage": 0,
        "subtile": 0,
        "k_offset": KOffsetKind.NONE,
        "vm_cost": 0,
        "lgkm_cost": 0,
        "wait_value": 0,
        "resource": ResourceKind.NONE,
        "latency": 0,
        "role": OpRole.NONE,
        "channel": -1,
        "vgpr_def": 0,
        "vgpr_kill": 0,
    }


def test_op_fields_are_in_the_order_of_the_specification() -> None:
    op = OpDesc(
        1, 2, 3, KOffsetKind.K1, 4, 5, 6, ResourceKind.LDS, 7, OpRole.FRAGMENT_LOAD, 1, 8, 9
    )
    assert [int(v) for v in asdict(op).values()] == [1, 2, 3, 1, 4, 5, 6, 1, 7, 2, 1, 8, 9]


def test_ops_are_immutable_values() -> None:
    op = OpDesc(1)
    with pytest.raises(FrozenInstanceError):
        op.tag = 2  # type: ignore[misc]
    assert op == OpDesc(1)
    assert hash(op) == hash(OpDesc(1))
    assert op != OpDesc(1, stage=1)


def test_logical_sets_only_what_is_done() -> None:
    op = OpDesc.logical(9, channel=1, stage=2, subtile=3, k_offset=KOffsetKind.K_PREV)
    assert op == OpDesc(9, stage=2, subtile=3, k_offset=KOffsetKind.K_PREV, channel=1)


SCALAR, SYNC, FENCE = ResourceKind.SCALAR, OpRole.SYNC, OpRole.FENCE


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (OpDesc.barrier(), OpDesc(128, resource=SCALAR, role=SYNC)),
        (OpDesc.wait_vm(5), OpDesc(129, wait_value=5, resource=SCALAR, role=SYNC)),
        (OpDesc.wait_lgkm(6), OpDesc(130, wait_value=6, resource=SCALAR, role=SYNC)),
        (OpDesc.set_prio(1), OpDesc(131, wait_value=1, resource=SCALAR, role=FENCE)),
        (OpDesc.schedule_barrier(), OpDesc(132, resource=SCALAR, role=FENCE)),
        (
            OpDesc.sched_group_barrier(3, 2),
            OpDesc(133, subtile=3, wait_value=2, resource=SCALAR, role=FENCE),
        ),
        (OpDesc.none(), OpDesc(255)),
    ],
)
def test_framework_ops(op: OpDesc, expected: OpDesc) -> None:
    assert op == expected
    assert op.is_framework


def test_kernel_tags_belong_to_the_author() -> None:
    assert not OpDesc(0).is_framework
    assert not OpDesc(127).is_framework


def test_k_offsets_in_tiles_and_prefetch() -> None:
    assert [k.multiple for k in KOffsetKind] == [0, 1, 2, -1, None]
    assert [k.is_prefetch for k in KOffsetKind] == [True, True, True, False, False]


def test_body_verbs_append_one_logical_op_each() -> None:
    body = PipelineBody()
    body.load(0, ch=0, stage=1, sub=1, k=KOffsetKind.K0).store(1, ch=1).frag(2, sub=3)
    body.compute(3, stage=1).op(4).barrier()
    assert body.done() == [
        OpDesc.logical(0, 0, 1, 1, KOffsetKind.K0),
        OpDesc.logical(1, 1),
        OpDesc.logical(2, subtile=3),
        OpDesc.logical(3, stage=1),
        OpDesc.logical(4),
        OpDesc.barrier(),
    ]


def test_fan_numbers_subtiles_and_grid_numbers_rows_and_columns() -> None:
    fan = PipelineBody().fan(3, 5, ch=1, stage=1, k=KOffsetKind.K1).done()
    assert fan == [OpDesc.logical(5, 1, 1, sub, KOffsetKind.K1) for sub in (0, 1, 2)]
    grid = PipelineBody().grid(2, 3, 6).done()
    cells = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [(op.stage, op.subtile) for op in grid] == cells
    assert {(op.tag, op.channel, op.k_offset) for op in grid} == {(6, -1, KOffsetKind.NONE)}


def test_body_extends_and_works_in_a_with_block() -> None:
    with PipelineBody() as first:
        first.op(1)
    second = PipelineBody().op(2).extend(first).extend(first)
    assert [op.tag for op in second] == [2, 1, 1]
    assert len(second) == 3
    assert len(first) == 1


def test_done_returns_a_fresh_list() -> None:
    body = PipelineBody().op(1)
    body.done().clear()
    assert len(body.done()) == 1


@pytest.mark.parametrize("priority", [-1, 4, 9])
def test_priorities_have_two_bits(priority: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"wait_value is {priority}, .*between 0 and 3"
    ) as caught:
        OpDesc.set_prio(priority)
    assert "s_setprio takes a priority of 0 to 3" in (caught.value.hint or "")
    assert OpDesc.set_prio(3).wait_value == 3
