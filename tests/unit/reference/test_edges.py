"""Section 4 of the specification: every rule on a small body, and the order of the edges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import (
    DeclarativeSchedule,
    DepEdge,
    DepKind,
    EdgeRule,
    KOffsetKind,
    LoopCarriedSpec,
    OpDesc,
    OpRole,
    PipelineConfig,
    derive_cross_stage_rotation_edges,
    derive_edges_from_ops,
    double_buffer_edge_rules,
    filter_spurious_cross_stage_flow,
    mi355x_double_buffer,
    mi355x_single_buffer,
    single_buffer_edge_rules,
)
from pipeloom.reference.edges import Selector, default_edge_rules

K0, K1, K_PREV = KOffsetKind.K0, KOffsetKind.K1, KOffsetKind.K_PREV
FLOW, ANTI = DepKind.FLOW, DepKind.ANTI
DOUBLE = mi355x_double_buffer()
SINGLE = mi355x_single_buffer()

Quad = tuple[int, int, DepKind, int]


def load(channel: int, stage: int, k: KOffsetKind = K0, sub: int = 0) -> OpDesc:
    return OpDesc(channel, stage, sub, k, role=OpRole.GLOBAL_LOAD, channel=channel)


def frag(channel: int, stage: int, sub: int = 0) -> OpDesc:
    return OpDesc(3 + channel, stage, sub, role=OpRole.FRAGMENT_LOAD, channel=channel)


def mma(row: int, column: int = 0) -> OpDesc:
    return OpDesc(5, row, column, role=OpRole.COMPUTE)


def derived(ops: list[OpDesc], config: PipelineConfig = DOUBLE) -> list[Quad]:
    return [quad(e) for e in derive_edges_from_ops(ops, config)]


def quad(edge: DepEdge) -> Quad:
    return edge.producer, edge.consumer, edge.kind, edge.loop_distance


class TestDoubleBuffer:
    def test_rule_1_fragment_feeds_the_mmas_of_its_row_or_column(self) -> None:
        # half 0 is [0, 4): A row 1, B column 0, two MMAs; half 1 has only spectators
        ops = [frag(0, 0, 1), frag(1, 0, 0), mma(1, 0), mma(0, 1)]
        ops += [OpDesc(9)] * 4
        assert derived(ops) == [(0, 2, FLOW, 0), (1, 2, FLOW, 0)]

    def test_rule_1_needs_the_same_half(self) -> None:
        assert derived([frag(0, 0, 0), mma(0)]) == []

    def test_rule_1_needs_the_half_of_the_fragments_stage(self) -> None:
        rest = [OpDesc(9), OpDesc(9)]
        assert derived([frag(0, 1), mma(0), *rest]) == []
        assert derived([*rest, frag(0, 0), mma(0)]) == []
        assert derived([*rest, frag(0, 1), mma(0)]) == [(2, 3, FLOW, 0)]
        # a stage above 1 counts as the second half
        assert derived([*rest, frag(0, 2), mma(0)]) == [(2, 3, FLOW, 0)]

    def test_rule_1_matches_through_the_configured_fields(self) -> None:
        swapped = replace(DOUBLE, ch0_match_field=1, ch1_match_field=0)
        ops = [frag(0, 0, 1), mma(0, 1), OpDesc(9), OpDesc(9)]
        assert derived(ops, swapped) == [(0, 1, FLOW, 0)]
        assert derived(ops) == []

    def test_rules_2_and_3_chain_the_accumulators(self) -> None:
        assert derived([mma(0, 1), mma(0, 1)]) == [(0, 1, FLOW, 0), (1, 0, FLOW, 1)]
        assert derived([mma(0, 1), mma(1, 1)]) == []
        assert derived([mma(0, 1), mma(0, 0)]) == []
        # the same cell twice in one half is no pair
        assert derived([mma(0), mma(0), OpDesc(9), OpDesc(9)]) == []

    @pytest.mark.parametrize(("k", "distance"), [(K_PREV, 0), (K0, 1), (K1, 1)])
    def test_rules_4_and_5_load_and_fragment_of_one_buffer(
        self, k: KOffsetKind, distance: int
    ) -> None:
        edges = [(0, 1, FLOW, distance)]
        if k is not K_PREV:
            edges.append((1, 0, ANTI, 0))
        assert derived([load(0, 1, k), frag(0, 1, 1)]) == edges

    def test_rules_4_and_5_need_the_same_channel_and_stage(self) -> None:
        assert derived([load(0, 0), frag(1, 0)]) == []
        assert derived([load(0, 1), frag(0, 0)]) == []

    def test_rules_come_in_order_then_producers_then_consumers(self) -> None:
        ops = [mma(0), frag(0, 0), load(0, 0), mma(0), frag(0, 1), load(0, 1, K_PREV)]
        assert derived(ops) == [
            (1, 0, FLOW, 0),  # rule 1, stage 0 in half 0
            (4, 3, FLOW, 0),  # rule 1, stage 1 in half 1
            (0, 3, FLOW, 0),  # rule 2
            (3, 0, FLOW, 1),  # rule 3
            (2, 1, FLOW, 1),  # rule 4
            (5, 4, FLOW, 0),
            (1, 2, ANTI, 0),  # rule 5
        ]

    def test_halves_of_an_odd_body_split_below_n_over_2(self) -> None:
        # n = 3: half 0 is op 0 alone
        assert derived([mma(0), mma(0), OpDesc(9)]) == [(0, 1, FLOW, 0), (1, 0, FLOW, 1)]

    def test_the_ping_pong_has_the_counted_edges(self) -> None:
        schedule = DeclarativeSchedule()
        edges = schedule.derive_edges(schedule.build_body())
        by_rule = {
            "1": sum(e.kind is FLOW and e.loop_distance == 0 for e in edges),
            "anti": sum(e.kind is ANTI for e in edges),
        }
        # rule 1: 2 halves x 4 fragments x 2 MMAs; rule 2: 4; rule 4 with K_PREV: 1 load x 2 frags
        assert by_rule["1"] == 16 + 4 + 2
        # rule 5: the 7 other loads x the 2 fragments of their channel and stage
        assert by_rule["anti"] == 14
        # rule 3: 4; rule 4 with d=1: 7 x 2
        assert sum(e.loop_distance == 1 for e in edges) == 4 + 14


def single_body(fragments: int = 3) -> list[OpDesc]:
    body = [OpDesc(2, subtile=i, role=OpRole.FRAGMENT_LOAD) for i in range(1, fragments)]
    body.append(OpDesc(3, role=OpRole.COMPUTE))
    body.append(OpDesc.barrier())
    body.append(OpDesc(1, role=OpRole.SHARED_STORE))
    body.append(OpDesc(0, role=OpRole.GLOBAL_LOAD))
    body += [OpDesc(3, subtile=i, role=OpRole.COMPUTE) for i in range(1, fragments)]
    body.append(OpDesc.barrier())
    body.append(OpDesc(2, role=OpRole.FRAGMENT_LOAD))
    return body


class TestSingleBuffer:
    def test_all_rules_in_order(self) -> None:
        # 0 F1, 1 F2, 2 C0, 3 bar, 4 store, 5 load, 6 C1, 7 C2, 8 bar, 9 F0
        assert derived(single_body(), SINGLE) == [
            (0, 6, FLOW, 0),  # 1 non-carried fragments to their computes
            (1, 7, FLOW, 0),
            (3, 4, FLOW, 0),  # 2 first barrier to store
            (4, 8, FLOW, 0),  # 3 store to second barrier
            (8, 9, FLOW, 0),  # 4 second barrier to carried fragment
            (0, 3, ANTI, 0),  # 5 non-carried fragments to first barrier
            (1, 3, ANTI, 0),
            (9, 2, FLOW, 1),  # 6 carried fragment to carried compute
            (5, 4, FLOW, 1),  # 7 load to store
            (9, 4, ANTI, 1),  # 8 carried fragment to store
        ]

    def test_rule_1_takes_the_first_match_only(self) -> None:
        ops = [
            OpDesc(2, subtile=1, role=OpRole.FRAGMENT_LOAD),
            OpDesc(3, subtile=1, role=OpRole.COMPUTE),
            OpDesc(3, subtile=1, role=OpRole.COMPUTE),
        ]
        assert derived(ops, SINGLE) == [(0, 1, FLOW, 0)]

    def test_carried_means_the_configured_subtile(self) -> None:
        config = replace(SINGLE, loop_carried=LoopCarriedSpec(OpRole.FRAGMENT_LOAD, 1))
        ops = [
            OpDesc(2, subtile=1, role=OpRole.FRAGMENT_LOAD),
            OpDesc(3, subtile=1, role=OpRole.COMPUTE),
            OpDesc(3, subtile=0, role=OpRole.COMPUTE),
        ]
        assert derived(ops, config) == [(0, 1, FLOW, 1)]

    def test_a_third_barrier_has_no_edges(self) -> None:
        ops = [OpDesc.barrier(), OpDesc.barrier(), OpDesc.barrier()]
        ops.append(OpDesc(1, role=OpRole.SHARED_STORE))
        assert derived(ops, SINGLE) == [(0, 3, FLOW, 0), (3, 1, FLOW, 0)]


class TestRotation:
    # Half 0 is ops 0-2: 0 is a cross-stage A fragment. Half 1 is ops 3-5: 3 a cross-stage B one.
    OPS = (frag(0, 1, 0), mma(0, 1), mma(1, 0), frag(1, 0, 0), mma(0, 1), mma(1, 0))

    def test_added_edges(self) -> None:
        assert [quad(e) for e in derive_cross_stage_rotation_edges(self.OPS)] == [
            (1, 0, ANTI, 0),  # channel 0 matches row 0: own partition must have read it
            (0, 4, FLOW, 0),  # other partition, from partition 0: same iteration
            (3, 2, FLOW, 1),  # channel 1 matches column 0, from partition 1: the next iteration
            (5, 3, ANTI, 0),
        ]

    @pytest.mark.parametrize(
        "fragment",
        [frag(0, 0, 0), frag(0, 1, 1)],
        ids=["own stage", "subtile other than 0"],
    )
    def test_other_fragments_do_not_rotate(self, fragment: OpDesc) -> None:
        assert derive_cross_stage_rotation_edges([fragment, *self.OPS[1:3], *[OpDesc(9)] * 3]) == []

    def test_spurious_flow_is_dropped_and_nothing_else(self) -> None:
        spurious = DepEdge(0, 1, FLOW, 0)
        kept = [
            DepEdge(0, 4, FLOW, 0),  # to the other partition
            DepEdge(0, 1, ANTI, 0),  # not FLOW
            DepEdge(1, 4, FLOW, 0),  # not from a fragment
            DepEdge(0, 3, FLOW, 0),  # not to a COMPUTE
        ]
        assert filter_spurious_cross_stage_flow(self.OPS, [spurious, *kept]) == kept
        own = [frag(0, 0, 0), *self.OPS[1:]]
        assert filter_spurious_cross_stage_flow(own, [spurious]) == [spurious]


class TestRulesAreData:
    def test_depth_picks_the_table(self) -> None:
        assert default_edge_rules(DOUBLE) == double_buffer_edge_rules()
        assert default_edge_rules(replace(DOUBLE, depth=3)) == double_buffer_edge_rules()
        assert default_edge_rules(SINGLE) == single_buffer_edge_rules()
        assert (len(double_buffer_edge_rules()), len(single_buffer_edge_rules())) == (5, 8)

    def test_a_users_rule_extends_or_replaces_the_table(self) -> None:
        mine = EdgeRule(Selector(OpRole.COMPUTE), Selector(OpRole.COMPUTE), DepKind.OUTPUT, 2)
        ops = [mma(0, 0), mma(1, 0)]
        alone = [quad(e) for e in derive_edges_from_ops(ops, DOUBLE, (mine,))]
        assert alone == [(0, 1, DepKind.OUTPUT, 2), (1, 0, DepKind.OUTPUT, 2)]
        ops.append(load(0, 0))
        extended = derive_edges_from_ops(ops, DOUBLE, (*double_buffer_edge_rules(), mine))
        assert [quad(e) for e in extended] == alone

    def test_rules_read_as_sentences(self) -> None:
        texts = [str(rule) for rule in double_buffer_edge_rules() + single_buffer_edge_rules()]
        assert texts[1] == (
            "COMPUTE -> COMPUTE FLOW d=0: same stage and subtile; producer in half 0; "
            "different halves"
        )
        assert texts[3].startswith("GLOBAL_LOAD -> FRAGMENT_LOAD FLOW d=0 from a K_PREV load")
        assert texts[5].endswith("same subtile; first match only")
        assert texts[6] == "SYNC[0] -> SHARED_STORE FLOW d=0"
        assert len(set(texts)) == len(texts)
