"""Section 5 of the specification: from declaration order to the starting order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import (
    BlockSizing,
    DeclarativeSchedule,
    FragOrder,
    KOffsetKind,
    LoopCarriedSpec,
    OpCost,
    OpDesc,
    OpRole,
    PipelineBody,
    PipelineConfig,
    ResourceKind,
    TargetCostModel,
    annotate_ops,
    double_buffer_reorder,
    mi355x_cost_model,
    mi355x_double_buffer,
    mi355x_single_buffer,
    mma_block_interleave,
    optimize_within_barriers,
    single_buffer_reorder,
)


def half(m: int = 2, n: int = 2, loads: int = 4) -> list[OpDesc]:
    """Loads 0.. by subtile, A fragments 0..m-1, B fragments 0..n-1, the m x n grid."""
    body = PipelineBody().fan(loads, 0, ch=0, k=KOffsetKind.K0)
    body.fan(m, 3, ch=0).fan(n, 4, ch=1).grid(m, n, 5)
    return annotate_ops(body.done(), mi355x_cost_model())


def config(sizing: BlockSizing, *, b_first: bool = True) -> PipelineConfig:
    return replace(mi355x_double_buffer(), block_sizing=sizing, frag_order=FragOrder(b_first))


def words(ops: list[OpDesc]) -> str:
    """``L0`` a load, ``A0``/``B0`` fragments, ``00`` an MMA by row and column."""
    names = {OpRole.GLOBAL_LOAD: "L", OpRole.COMPUTE: ""}
    text = []
    for op in ops:
        if op.role is OpRole.FRAGMENT_LOAD:
            text.append(f"{'AB'[op.channel]}{op.subtile}")
        elif op.role is OpRole.COMPUTE:
            text.append(f"{op.stage}{op.subtile}")
        else:
            text.append(f"{names.get(op.role, '?')}{op.subtile}")
    return " ".join(text)


@pytest.mark.parametrize(
    ("sizing", "expected"),
    [
        # block of a new row: 4 ops, else 2, the MMA and its fragments included
        (BlockSizing(4, 3, 0), "B0 A0 L0 00 B1 L1 01 A1 L2 L3 10 11"),
        # one load per block at least and at most
        (BlockSizing(4, 2, 1), "B0 A0 L0 00 B1 L1 01 A1 L2 10 L3 11"),
        # heavy 1 leaves no room, but max_globals asks for one
        (BlockSizing(1, 1, 1), "B0 A0 L0 00 B1 L1 01 A1 L2 10 L3 11"),
        # up to two where the size leaves room, at least one
        (BlockSizing(5, 2, 2), "B0 A0 L0 L1 00 B1 L2 01 A1 L3 10 11"),
        # everything fits in the first block
        (BlockSizing(7, 1, 0), "B0 A0 L0 L1 L2 L3 00 B1 01 A1 10 11"),
    ],
)
def test_interleave(sizing: BlockSizing, expected: str) -> None:
    assert words(mma_block_interleave(half(), config(sizing))) == expected


def test_interleave_can_bring_a_fragments_first() -> None:
    result = mma_block_interleave(half(), config(BlockSizing(4, 2, 1), b_first=False))
    assert words(result) == "A0 B0 L0 00 B1 L1 01 A1 L2 10 L3 11"


def test_interleave_of_a_3x1_grid() -> None:
    # every MMA opens a row; only the first opens the column
    result = mma_block_interleave(half(3, 1, 4), config(BlockSizing(4, 2, 0)))
    assert words(result) == "B0 A0 L0 00 A1 L1 L2 10 A2 L3 20"


def test_double_buffer_reorder_keeps_the_halves_apart() -> None:
    ops = half()
    both = double_buffer_reorder([*ops, *reversed(ops)], config(BlockSizing(4, 2, 1)))
    first, second = both[:12], both[12:]
    assert words(first) == "B0 A0 L0 00 B1 L1 01 A1 L2 10 L3 11"
    assert words(second) == "B1 A1 L3 11 B0 L2 10 A0 L1 01 L0 00"


def test_the_declared_ping_pong_body() -> None:
    """24 logical ops in the order of section 3."""
    logical = DeclarativeSchedule().declare_ops()
    K0, K1, PREV, NO = KOffsetKind.K0, KOffsetKind.K1, KOffsetKind.K_PREV, KOffsetKind.NONE
    expected = []
    for h, special, k in ((0, PREV, K0), (1, K0, K1)):
        expected += [(0, 1 - h, 1, special, 0), (0, h, 0, k, 0)]
        expected += [(1, h, 0, k, 1), (1, h, 1, k, 1)]
        expected += [(3, h, 0, NO, 0), (3, h, 1, NO, 0), (4, h, 0, NO, 1), (4, h, 1, NO, 1)]
        expected += [(5, 0, 0, NO, -1), (5, 0, 1, NO, -1), (5, 1, 0, NO, -1), (5, 1, 1, NO, -1)]
    assert [(o.tag, o.stage, o.subtile, o.k_offset, o.channel) for o in logical] == expected


def single(tiles: int) -> list[OpDesc]:
    body = PipelineBody().load(0).store(1).barrier().fan(tiles, 2).fan(tiles, 3)
    costs = TargetCostModel(
        {
            0: OpCost(ResourceKind.GLOBAL_MEM, 200, OpRole.GLOBAL_LOAD),
            1: OpCost(ResourceKind.LDS, 20, OpRole.SHARED_STORE),
            2: OpCost(ResourceKind.LDS, 20, OpRole.FRAGMENT_LOAD),
            3: OpCost(ResourceKind.MMA_UNIT, 64, OpRole.COMPUTE),
        }
    )
    return annotate_ops(body.done(), costs)


def roles(ops: list[OpDesc]) -> list[tuple[str, int]]:
    return [(op.role.name, op.subtile) for op in ops]


def test_single_buffer_reorder() -> None:
    assert roles(single_buffer_reorder(single(3), mi355x_single_buffer())) == [
        ("FRAGMENT_LOAD", 1),
        ("FRAGMENT_LOAD", 2),
        ("COMPUTE", 0),
        ("SYNC", 0),
        ("SHARED_STORE", 0),
        ("GLOBAL_LOAD", 0),
        ("COMPUTE", 1),
        ("COMPUTE", 2),
        ("SYNC", 0),
        ("FRAGMENT_LOAD", 0),
    ]


def test_single_buffer_reorder_follows_the_selector() -> None:
    carried = LoopCarriedSpec(OpRole.FRAGMENT_LOAD, 1)
    config = replace(mi355x_single_buffer(), loop_carried=carried)
    result = roles(single_buffer_reorder(single(2), config))
    assert result[0] == ("FRAGMENT_LOAD", 0)
    assert result[1] == ("COMPUTE", 1)
    assert result[-1] == ("FRAGMENT_LOAD", 1)


def test_within_barriers_only_segments_move() -> None:
    arranged = single_buffer_reorder(single(3), mi355x_single_buffer())
    result = optimize_within_barriers(arranged, mi355x_single_buffer())
    syncs = [i for i, op in enumerate(result) if op.role is OpRole.SYNC]
    assert syncs == [3, 8]
    for start, end in ((0, 3), (4, 8), (9, 10)):
        assert sorted(roles(result[start:end])) == sorted(roles(arranged[start:end]))


def test_within_barriers_repairs_a_segment_that_breaks_its_edges() -> None:
    """A compute before the fragment it needs, in one segment: the edge turns them round."""
    fragment = OpDesc(2, subtile=1, latency=20, role=OpRole.FRAGMENT_LOAD)
    compute = OpDesc(3, subtile=1, latency=64, role=OpRole.COMPUTE, resource=ResourceKind.MMA_UNIT)
    result = optimize_within_barriers([compute, fragment], mi355x_single_buffer())
    assert result == [fragment, compute]
