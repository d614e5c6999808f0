"""compile_schedule: the passes joined, hooks honoured, nothing lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest

from pipeloom import (
    Certificate,
    CompiledSchedule,
    ConfigError,
    DeclarativeSchedule,
    DepEdge,
    DepKind,
    EdgeRule,
    LoopBody,
    OpDesc,
    OpRole,
    OpTag,
    Ordering,
    OrderLimits,
    Phase,
    PipelineProgram,
    ScheduleConfig,
    ScheduleEntry,
    SchedulingStrategy,
    SingleBufferSchedule,
    StructureError,
    compile_schedule,
)
from pipeloom.reference.compiler import Sync
from pipeloom.reference.edges import Selector


class Plain(DeclarativeSchedule):
    """The ping-pong in its declared order, to hang hooks on."""

    def __init__(self, **knobs: bool) -> None:
        super().__init__(config=ScheduleConfig(**knobs))  # type: ignore[arg-type]


BASE = compile_schedule(Plain())


def test_the_result_carries_its_inputs() -> None:
    schedule = DeclarativeSchedule(lgkm_a=8, lgkm_b=4)
    compiled = compile_schedule(schedule)
    assert isinstance(compiled, CompiledSchedule)
    assert compiled.schedule == "ping_pong"
    assert compiled.config == schedule.config()
    assert compiled.schedule_config == schedule.schedule_config()
    assert compiled.body == tuple(schedule.build_body())
    assert compiled.edges == tuple(schedule.derive_edges(schedule.build_body()))
    assert sorted(compiled.order) == list(range(24))
    assert compiled.certificate.strategy == "csp"


def test_body_and_edges_stay_in_the_order_they_were_built_in() -> None:
    class Last:
        name = summary = "half by half, reversed loads last"

        def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
            half = len(body) // 2
            roles = [op.role is OpRole.COMPUTE for op in body.ops]
            order = sorted(range(len(body)), key=lambda i: (i >= half, roles[i] and 0, i))
            return Ordering(tuple(order), Certificate("mine", 1, 2, 0, False, 3))

    compiled = compile_schedule(Plain(), strategy=Last())
    assert compiled.body == BASE.body
    assert compiled.certificate == Certificate("mine", 1, 2, 0, False, 3)


def test_limits_come_from_both_configurations() -> None:
    seen: list[OrderLimits] = []

    class Spy:
        name = summary = "spy"

        def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
            seen.append(limits)
            return Ordering(tuple(range(len(body))), Certificate("spy", 0, 0, 0, False, 0))

    knobs = ScheduleConfig(max_vgpr=77, lds_contention_penalty=5)
    compile_schedule(DeclarativeSchedule(config=knobs), strategy=Spy())
    assert seen == [
        OrderLimits(
            halves=True, max_globals=1, max_vgpr=77, lds_contention_penalty=5, mma_serial=True
        )
    ]


def test_edge_rules_extend() -> None:
    mine = EdgeRule(Selector(OpRole.COMPUTE), Selector(OpRole.COMPUTE), DepKind.OUTPUT, 3)

    class Extended(Plain):
        def edge_rules(self) -> tuple[EdgeRule, ...]:
            return (*super().edge_rules(), mine)

    extra = compile_schedule(Extended()).edges[len(BASE.edges) :]
    assert len(extra) == 8 * 7
    assert {(e.kind, e.loop_distance) for e in extra} == {(DepKind.OUTPUT, 3)}


def test_derive_edges_replaces() -> None:
    class Free(Plain):
        def derive_edges(self, body: Sequence[OpDesc]) -> list[DepEdge]:
            return []

    assert compile_schedule(Free()).edges == ()


def test_explicit_blocks_replace_single_blocks() -> None:
    class Explicit(Plain):
        def build_explicit_blocks(
            self, body: Sequence[OpDesc], program: PipelineProgram
        ) -> list[list[OpDesc]]:
            own = [OpDesc.set_prio(3), *program.blocks[0].fragments, *program.blocks[0].loads]
            rest: list[list[OpDesc]] = [[] for _ in program.blocks[1:]]
            return [[*own, program.blocks[0].mma], *rest]

    compiled = compile_schedule(Explicit())
    assert compiled.kernel[0].op == OpDesc.set_prio(3)
    cut = BASE.ops_per_block()[0]
    assert [e.op for e in compiled.kernel[5:]] == [e.op for e in BASE.kernel[cut:]]
    assert compiled.epilogue == BASE.epilogue


def test_transform_kernel_has_the_last_word_at_every_depth() -> None:
    def with_fence(entries: list[ScheduleEntry]) -> tuple[ScheduleEntry, ...]:
        fence = ScheduleEntry(OpDesc.schedule_barrier(), len(entries), Phase.KERNEL)
        return (*entries, fence)

    class Double(Plain):
        def transform_kernel(
            self, ker: list[ScheduleEntry], body: list[OpDesc]
        ) -> tuple[ScheduleEntry, ...]:
            return with_fence(ker)

    class Single(SingleBufferSchedule):
        def transform_kernel(
            self, ker: list[ScheduleEntry], body: list[OpDesc]
        ) -> tuple[ScheduleEntry, ...]:
            return with_fence(ker)

    for schedule in (Double(), Single()):
        last = compile_schedule(schedule).kernel[-1]
        assert last.op.tag == OpTag.SCHEDULE_BARRIER
    assert compile_schedule(Double()).kernel[:-1] == BASE.kernel


def test_transform_kernel_may_drop_and_insert_without_counting_slots() -> None:
    class Edited(Plain):
        def transform_kernel(
            self, ker: list[ScheduleEntry], body: list[OpDesc]
        ) -> list[ScheduleEntry]:
            kept = [entry for entry in ker if entry.op.tag != OpTag.WAIT_VM]
            fence = ScheduleEntry(OpDesc.schedule_barrier(), 0, Phase.KERNEL)
            return [*kept[:3], fence, *kept[3:]]

    kernel = compile_schedule(Edited()).kernel
    assert [entry.time_slot for entry in kernel] == list(range(len(kernel)))
    assert kernel[3].op == OpDesc.schedule_barrier()
    assert OpTag.WAIT_VM not in {entry.op.tag for entry in kernel}


def test_bootstrap_fragments_appear_with_partial_drain() -> None:
    fragment = OpDesc(3, role=OpRole.FRAGMENT_LOAD, channel=0)

    class Bootstrapped(Plain):
        def bootstrap_frags(self) -> list[OpDesc]:
            return [fragment]

    prologue = compile_schedule(Bootstrapped(partial_prologue_drain=True)).prologue
    assert prologue[-1].op == fragment
    assert prologue[-2].op == OpDesc.barrier()


def test_a_losing_hook_is_caught() -> None:
    class Losing(Plain):
        def build_explicit_blocks(
            self, body: Sequence[OpDesc], program: PipelineProgram
        ) -> list[list[OpDesc]]:
            return [[block.mma] for block in program.blocks]

    with pytest.raises(StructureError, match=r"declared 1 time\(s\), but the kernel has it 0"):
        compile_schedule(Losing())


def test_a_duplicating_hook_is_caught() -> None:
    class Doubling(SingleBufferSchedule):
        def transform_kernel(
            self, ker: list[ScheduleEntry], body: list[OpDesc]
        ) -> tuple[ScheduleEntry, ...]:
            return (*ker, replace(ker[0], time_slot=len(ker)))

    with pytest.raises(StructureError, match=r"declared 1 time\(s\), but the kernel has it 2"):
        compile_schedule(Doubling())


def test_an_authors_op_of_role_sync_is_accounted_for_too() -> None:
    mine = OpDesc(9, role=OpRole.SYNC)

    class Dropping(SingleBufferSchedule):
        def build_body(self) -> list[OpDesc]:
            body = super().build_body()
            return [*body, mine]

        def transform_kernel(
            self, ker: list[ScheduleEntry], body: list[OpDesc]
        ) -> tuple[ScheduleEntry, ...]:
            return tuple(ker[:-1])

    with pytest.raises(StructureError, match="SYNC"):
        compile_schedule(Dropping())


def test_at_depth_1_the_declared_order_stands() -> None:
    class Greedy(SingleBufferSchedule):
        def schedule_config(self) -> ScheduleConfig:
            return ScheduleConfig(scheduling=SchedulingStrategy.GREEDY)

    compiled = compile_schedule(Greedy())
    assert compiled.order == tuple(range(len(compiled.body)))
    assert compiled.certificate.strategy == "identity"
    assert compiled.notes[0].startswith("scheduling=GREEDY has no effect at depth 1")


def test_time_slots_and_phases() -> None:
    for phase in Phase:
        entries = BASE.phase(phase)
        assert [e.time_slot for e in entries] == list(range(len(entries)))
        assert {e.phase for e in entries} == {phase}


def test_repaired_keeps_the_barriers_that_proven_derives() -> None:
    schedule = DeclarativeSchedule()
    counts = {
        sync: compile_schedule(schedule, sync=sync, reorder=sync != "reference").counts(
            Phase.KERNEL
        )
        for sync in get_args(Sync)
    }
    assert counts["repaired"].barriers == counts["reference"].barriers > counts["proven"].barriers


def test_an_unknown_sync_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of reference, proven, repaired") as caught:
        compile_schedule(DeclarativeSchedule(), sync="repair")  # type: ignore[arg-type]
    assert "repaired" in (caught.value.hint or "")
