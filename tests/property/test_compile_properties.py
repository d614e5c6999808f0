"""Any configuration compiles with every op in its place, or raises ScheduleError.

The declarations here are random in everything a user can set: knobs, sizes, costs, latencies,
grids from 1x1 to 4x4, loads of any stage and offset. A third outcome (another exception, a lost
or doubled op, a result that does not survive its own plain form) is a bug.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pipeloom import (
    AMDScheduleHints,
    BlockSizing,
    CompiledSchedule,
    DeclarativeSchedule,
    FragOrder,
    KernelGeometry,
    KOffsetKind,
    LoopCarriedSpec,
    OpCost,
    OpDesc,
    OpRole,
    Phase,
    Pipeline4Wave,
    PipelineBody,
    PipelineConfig,
    PipelineSchedule,
    ResourceKind,
    ScheduleConfig,
    ScheduleError,
    SchedulingStrategy,
    SingleBufferSchedule,
    TargetCostModel,
    TargetProfile,
    WarpStaggerRule,
    annotate_ops,
    build_schedule,
    compile_schedule,
    double_buffer_reorder,
    mi355x_cost_model,
    mi355x_double_buffer,
    mi355x_single_buffer,
)

COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEARCHLESS = [SchedulingStrategy.IDENTITY, SchedulingStrategy.GREEDY]
"""Whole-iteration search has its own tests; random large bodies are not the place for it."""

small = st.integers(0, 20)


def knobs(strategies: Sequence[SchedulingStrategy]) -> st.SearchStrategy[ScheduleConfig]:
    return st.builds(
        ScheduleConfig,
        scheduling=st.sampled_from(strategies),
        sched_barrier_mask=st.integers(0, 1 << 10),
        auto_waits=st.booleans(),
        drain_lgkm_mask=st.integers(0, 1 << 10),
        auto_drain=st.booleans(),
        lds_contention_penalty=small,
        wait_lgkm_first=st.sampled_from([0, 3, 8, 254, 255]),
        wait_vm_last=small,
        lgkm_per_load_a=small,
        lgkm_per_load_b=small,
        lgkm_after_last=st.booleans(),
        minimal_barriers=st.booleans(),
        omit_mma_set_prio=st.booleans(),
        max_vgpr=st.just(999999),
        global_before_frag=st.booleans(),
        barrier_before_pre_ops=st.booleans(),
        inter_block_lgkm_drain=st.booleans(),
        partial_prologue_drain=st.booleans(),
        wrap_waits_with_sched_barrier=st.booleans(),
    )


sizings = st.builds(BlockSizing, st.integers(1, 9), st.integers(1, 7), st.integers(0, 2))
staggers = st.one_of(
    st.just(WarpStaggerRule.none()),
    st.just(WarpStaggerRule.auto()),
    st.integers(0, 5).map(WarpStaggerRule.fixed),
)


@st.composite
def pipelines(draw: st.DrawFn, m: int = 2, n: int = 2) -> PipelineConfig:
    return replace(
        mi355x_double_buffer(draw(st.integers(1, 9)), draw(st.integers(1, 9))),
        depth=draw(st.sampled_from([2, 2, 2, 3])),
        m_mmas=m,
        n_mmas=n,
        block_sizing=draw(sizings),
        frag_order=draw(st.builds(FragOrder, st.booleans())),
        warp_stagger=draw(staggers),
        lgkm_per_load_a=draw(small),
        lgkm_per_load_b=draw(small),
        cross_stage_rotation=draw(st.booleans()),
        mma_serial=draw(st.booleans()),
    )


latencies = st.dictionaries(
    st.sampled_from(["LOAD_A", "LOAD_B", "MMA_LOAD_A", "MMA_LOAD_B", "MMA"]), st.integers(0, 400)
)


class Drawn(PipelineSchedule):
    """A declaration that is nothing but its drawn values."""

    def __init__(
        self, config: PipelineConfig, knobs: ScheduleConfig, body: list[OpDesc], arrange: bool
    ) -> None:
        self._config, self._knobs, self._body, self._arrange = config, knobs, body, arrange

    def config(self) -> PipelineConfig:
        return self._config

    def schedule_config(self) -> ScheduleConfig:
        return self._knobs

    def build_body(self) -> list[OpDesc]:
        return double_buffer_reorder(self._body, self._config) if self._arrange else self._body

    def bootstrap_frags(self) -> list[OpDesc]:
        return [op for op in self._body if op.role is OpRole.FRAGMENT_LOAD][:1]

    def __repr__(self) -> str:
        return f"Drawn({self._config}, {self._knobs}, {self._body}, {self._arrange})"


@st.composite
def own_bodies(draw: st.DrawFn) -> Drawn:
    """Per half: a completion load, loads of any kind, own-stage fragments, an m x n grid."""
    m, n = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    costs = mi355x_cost_model().with_latency(draw(latencies))
    body: list[OpDesc] = []
    odd = draw(st.sampled_from([False, False, False, True]))
    for half in (0, 1):
        builder = PipelineBody()
        builder.load(0, ch=0, stage=1 - half, sub=1, k=KOffsetKind(0 if half else 3))
        for _ in range(draw(st.integers(0, m + n))):
            channel = draw(st.integers(0, 1))
            stage = draw(st.integers(0, 2)) if odd else half
            k = draw(st.sampled_from(list(KOffsetKind))) if odd else KOffsetKind(half)
            builder.load(channel, ch=channel, stage=stage, sub=draw(st.integers(0, 3)), k=k)
        builder.fan(m, 3, ch=0, stage=half).fan(n, 4, ch=1, stage=half).grid(m, n, 5)
        body += annotate_ops(builder.done(), costs)
    arrange = draw(st.booleans()) or not odd
    if not arrange:
        body = draw(st.permutations(body))
    return Drawn(draw(pipelines(m, n)), draw(knobs(SEARCHLESS)), body, arrange)


def author_ops(compiled: CompiledSchedule, phase: Phase) -> Counter[OpDesc]:
    return Counter(e.op for e in compiled.phase(phase) if not e.op.is_framework)


def place(op: OpDesc) -> tuple[int, int, int]:
    return op.tag, op.stage, op.subtile


def check_in_place(compiled: CompiledSchedule, schedule: PipelineSchedule) -> None:
    declared = Counter(op for op in schedule.build_body() if not op.is_framework)
    assert Counter(op for op in compiled.body if not op.is_framework) == declared
    assert author_ops(compiled, Phase.KERNEL) == declared
    assert sorted(compiled.order) == list(range(len(compiled.body)))
    for phase in Phase:
        entries = compiled.phase(phase)
        assert [e.time_slot for e in entries] == list(range(len(entries)))
        assert all(e.phase is phase for e in entries)
    if compiled.config.depth == 1:
        return
    prefetches = Counter(place(op) for op in declared.elements() if is_prefetch(op))
    prologue = author_ops(compiled, Phase.PROLOGUE)
    loads = [op for op in prologue.elements() if op.role is OpRole.GLOBAL_LOAD]
    assert Counter(place(op) for op in loads) == prefetches
    assert all(op.k_offset == KOffsetKind(op.stage) for op in loads)
    drained = Counter({op: count for op, count in declared.items() if not is_prefetch(op)})
    assert author_ops(compiled, Phase.EPILOGUE) == drained


def is_prefetch(op: OpDesc) -> bool:
    return op.role is OpRole.GLOBAL_LOAD and op.k_offset.is_prefetch


def check_helpful(error: ScheduleError, names: str = "") -> None:
    assert names in error.message
    assert error.hint, f"no hint: {error.message}"


def compile_or_refuse(schedule: PipelineSchedule) -> None:
    """The property itself."""
    try:
        compiled = compile_schedule(schedule)
    except ScheduleError as error:
        event(f"refused: {type(error).__name__}")
        check_helpful(error)
        return
    event("compiled")
    check_in_place(compiled, schedule)
    assert CompiledSchedule.from_dict(json.loads(compiled.to_json())) == compiled


@settings(COMMON, max_examples=150)
@given(own_bodies())
def test_own_bodies(schedule: Drawn) -> None:
    compile_or_refuse(schedule)


@settings(COMMON, max_examples=60)
@given(knobs(SEARCHLESS), pipelines(), latencies, small, small)
def test_ping_pong(
    config: ScheduleConfig, pipeline: PipelineConfig, latency: dict[str, int], a: int, b: int
) -> None:
    target = TargetProfile(mi355x_cost_model().with_latency(latency), pipeline)
    compile_or_refuse(DeclarativeSchedule(False, a, b, config, target))


@settings(COMMON, max_examples=25)
@given(knobs([SchedulingStrategy.CSP]), st.sampled_from([0, 1]))
def test_ping_pong_with_search(config: ScheduleConfig, max_globals: int) -> None:
    pipeline = mi355x_double_buffer(max_globals=max_globals)
    quiet = replace(config, lds_contention_penalty=0)
    target = TargetProfile(mi355x_cost_model(), pipeline)
    compile_or_refuse(DeclarativeSchedule(False, 8, 4, quiet, target))


costs_per_load = st.integers(1, 12)


@settings(COMMON, max_examples=40)
@given(
    knobs(list(SchedulingStrategy)),
    pipelines(),
    st.builds(
        KernelGeometry,
        BM=st.just(256),
        BN=st.just(256),
        BK=st.just(64),
        MMA_M=st.just(16),
        MMA_N=st.just(16),
        MMA_K=st.just(32),
        elem_bytes=st.just(2),
        simd_width=st.just(8),
        is_fp8=st.just(False),
        vm_per_load_a=costs_per_load,
        vm_per_load_b=costs_per_load,
        lgkm_per_load_a=small,
        lgkm_per_load_b=small,
    ),
)
def test_four_wave(config: ScheduleConfig, pipeline: PipelineConfig, shape: KernelGeometry) -> None:
    target = TargetProfile(mi355x_cost_model(), pipeline)
    compile_or_refuse(Pipeline4Wave(shape, config, target))


@settings(COMMON, max_examples=60)
@given(
    st.integers(1, 6),
    st.builds(
        AMDScheduleHints,
        m_mmas=st.integers(1, 6),
        n_mmas=st.integers(1, 6),
        k_mmas=st.integers(1, 6),
        mma_m=st.sampled_from([16, 32]),
        mma_n=st.sampled_from([16, 32]),
        a_loads_per_thread=st.integers(0, 4),
        b_loads_per_thread=st.integers(0, 4),
    ),
    st.sampled_from([*[OpRole.FRAGMENT_LOAD] * 4, OpRole.GLOBAL_LOAD, OpRole.COMPUTE, OpRole.NONE]),
    st.sampled_from([0, 0, 0, 1, 2, 7]),
)
def test_single_buffer(tiles: int, hints: AMDScheduleHints, role: OpRole, selector: int) -> None:
    costs = TargetCostModel(
        {
            0: OpCost(ResourceKind.GLOBAL_MEM, 200, OpRole.GLOBAL_LOAD),
            1: OpCost(ResourceKind.LDS, 20, OpRole.SHARED_STORE),
            2: OpCost(ResourceKind.LDS, 20, OpRole.FRAGMENT_LOAD),
            3: OpCost(ResourceKind.MMA_UNIT, 64, OpRole.COMPUTE),
        }
    )
    carried = LoopCarriedSpec(role, selector)
    pipeline = replace(mi355x_single_buffer(), loop_carried=carried)
    compile_or_refuse(SingleBufferSchedule(tiles, hints, TargetProfile(costs, pipeline)))


@settings(COMMON, max_examples=100)
@given(
    st.sampled_from([KernelGeometry.ping_pong, KernelGeometry.four_wave]),
    st.fixed_dictionaries(
        {
            "BM": st.sampled_from([0, 16, 48, 64, 128, 192, 256, 512]),
            "BN": st.sampled_from([1, 16, 64, 128, 256, 512]),
            "BK": st.sampled_from([8, 16, 32, 64, 96, 128, 256]),
            "MMA_M": st.sampled_from([4, 16, 32]),
            "MMA_N": st.sampled_from([4, 16, 32]),
            "MMA_K": st.sampled_from([4, 8, 16, 32, 64, 128]),
            "elem_bytes": st.sampled_from([1, 2, 3, 4, 8]),
        }
    ),
)
def test_a_shape_has_whole_counts_or_is_an_error(make: Any, shape: dict[str, int]) -> None:
    try:
        geometry = make(**shape)
    except ScheduleError as error:
        check_helpful(error, "KernelGeometry")
        return
    waves, columns = (8, 4) if make == KernelGeometry.ping_pong else (4, 2)
    rows = waves * 64 * geometry.simd_width // geometry.BK
    assert (geometry.vm_per_load_a - 1) * rows < geometry.BM / 2 <= geometry.vm_per_load_a * rows
    reads = geometry.lgkm_per_load_b * columns * 2 * geometry.MMA_N // geometry.BN
    assert geometry.lgkm_per_load_a * 4 * geometry.MMA_M // geometry.BM == reads
    assert reads >= geometry.BK // geometry.MMA_K
    assert geometry.lds_bytes <= 160 * 1024


PROGRAM = """
import hashlib, json, sys
from pipeloom import build_schedule
for spec in json.load(sys.stdin):
    print(hashlib.sha256(build_schedule(spec).to_json().encode()).hexdigest())
"""


def digests_in_a_new_process(specs: list[dict[str, Any]], seed: str) -> tuple[str, ...]:
    source = os.path.dirname(os.path.dirname(sys.modules["pipeloom"].__file__ or ""))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(specs),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
    )
    return tuple(done.stdout.split())


def test_the_same_bytes_in_every_process_and_hash_seed() -> None:
    specs: list[dict[str, Any]] = [
        {"schedule": "ping_pong"},
        {"schedule": "ping_pong", "schedule_config": {"scheduling": "greedy"}},
        {"schedule": "ping_pong", "geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2}},
        {"schedule": "ping_pong", "schedule_config": {"omit_mma_set_prio": True, "max_vgpr": 999}},
        {"schedule": "four_wave"},
        {"schedule": "four_wave", "geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2}},
        {"schedule": "single_buffer"},
        {"schedule": "single_buffer", "num_k_tiles": 5},
    ]
    here = tuple(
        hashlib.sha256(build_schedule(spec).to_json().encode()).hexdigest() for spec in specs
    )
    assert len(set(here)) == len(specs)
    for seed in ("0", "1", "2"):
        assert digests_in_a_new_process(specs, seed) == here
