"""Cost models: the one place where a tag meets a latency."""

from __future__ import annotations

from enum import IntEnum

import pytest

from pipeloom import (
    ConfigError,
    KOffsetKind,
    OpCost,
    OpDesc,
    OpRole,
    ResourceKind,
    TargetCostModel,
    annotate_ops,
)

MMA = OpCost(ResourceKind.MMA_UNIT, 16, OpRole.COMPUTE, vgpr_def=4, vgpr_kill=2)
LOAD = OpCost(ResourceKind.GLOBAL_MEM, 200, OpRole.GLOBAL_LOAD)


def test_op_cost_defaults() -> None:
    assert (LOAD.vgpr_def, LOAD.vgpr_kill) == (0, 0)


def test_annotate_stamps_five_fields_and_keeps_the_rest() -> None:
    declared = OpDesc(3, 1, 2, KOffsetKind.K1, 5, 6, 7, channel=1)
    (op,) = annotate_ops([declared], TargetCostModel({3: MMA}))
    assert op == OpDesc(
        3,
        1,
        2,
        KOffsetKind.K1,
        5,
        6,
        7,
        ResourceKind.MMA_UNIT,
        16,
        OpRole.COMPUTE,
        1,
        4,
        2,
    )


def test_annotate_leaves_framework_ops_alone() -> None:
    ops = [OpDesc.barrier(), OpDesc.wait_vm(3), OpDesc.none()]
    assert annotate_ops(ops, TargetCostModel({})) == ops


def test_lookup_by_tag_and_name() -> None:
    model = TargetCostModel({3: MMA, 0: LOAD}, {3: "MMA"})
    assert model.cost(3) == MMA
    assert model.cost(0) == LOAD
    assert model.name(3) == "MMA"
    assert model.name(0) == "tag 0"
    assert model.name(99) == "tag 99"


def test_entries_are_sorted_by_tag_whatever_the_insertion_order() -> None:
    assert TargetCostModel({3: MMA, 0: LOAD}) == TargetCostModel({0: LOAD, 3: MMA})
    assert [tag for tag, _, _ in TargetCostModel({3: MMA, 0: LOAD}).entries] == [0, 3]


def test_the_model_keeps_its_own_copy() -> None:
    costs = {3: MMA}
    model = TargetCostModel(costs)
    costs[3] = LOAD
    assert model.cost(3) == MMA


@pytest.mark.parametrize("cycles", [0, 32])
def test_with_latency_changes_one_op_of_a_copy(cycles: int) -> None:
    model = TargetCostModel({3: MMA, 0: LOAD}, {3: "MMA", 0: "LOAD"})
    changed = model.with_latency({"MMA": cycles})
    assert changed.cost(3).latency == cycles
    assert changed.cost(3).vgpr_def == 4
    assert changed.cost(0) == LOAD
    assert changed.name(3) == "MMA"
    assert model.cost(3).latency == 16


class _Tag(IntEnum):
    LOAD_X = 0
    SCALE = 7


def test_tags_of_an_enum_bring_their_names() -> None:
    model = TargetCostModel({_Tag.LOAD_X: OpCost(ResourceKind.LDS, 1, OpRole.FRAGMENT_LOAD)})
    assert model.name(0) == "LOAD_X"
    with pytest.raises(ConfigError, match=r"no entry for op tag 7 \(SCALE\)") as caught:
        annotate_ops([OpDesc.logical(_Tag.SCALE)], model)
    assert "known tags: 0 LOAD_X" in (caught.value.hint or "")
    assert model.with_latency({"LOAD_X": 5}).cost(0).latency == 5
