"""A schedule of one's own: ``config`` and ``build_body``, and no word on what its ops touch."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

import pytest

import pipeloom as pl

IN_STEP = pl.WarpStaggerRule.none()


class Tag(IntEnum):
    LOAD_X, LOAD_W, FRAG_X, FRAG_W, MMA = range(5)


LOAD = pl.OpCost(pl.ResourceKind.GLOBAL_MEM, 500, pl.OpRole.GLOBAL_LOAD)
FRAGMENT = pl.OpCost(pl.ResourceKind.LDS, 64, pl.OpRole.FRAGMENT_LOAD, vgpr_def=8)
MMA = pl.OpCost(pl.ResourceKind.MMA_UNIT, 32, pl.OpRole.COMPUTE, vgpr_def=4)
COSTS = pl.TargetCostModel(dict(zip(Tag, (LOAD, LOAD, FRAGMENT, FRAGMENT, MMA), strict=True)))


class DoubleBuffer(pl.PipelineSchedule):
    """A grid of MMAs on two LDS stages, all waves in step, with tags and costs of its own."""

    def __init__(self, rows: int = 2, columns: int = 3, *, swapped: bool = False) -> None:
        self.rows, self.columns, self.swapped = rows, columns, swapped

    def config(self) -> pl.PipelineConfig:
        fields = (1, 0) if self.swapped else (0, 1)
        return replace(
            pl.mi355x_double_buffer(max_globals=0),
            m_mmas=self.rows,
            n_mmas=self.columns,
            warp_stagger=IN_STEP,
            ch0_match_field=fields[0],
            ch1_match_field=fields[1],
        )

    def build_body(self) -> list[pl.OpDesc]:
        rows, columns = (self.columns, self.rows) if self.swapped else (self.rows, self.columns)
        body = pl.PipelineBody()
        for stage in (0, 1):
            k = pl.KOffsetKind.K1 if stage else pl.KOffsetKind.K0
            late = pl.KOffsetKind.K0 if stage else pl.KOffsetKind.K_PREV
            body.load(Tag.LOAD_X, ch=0, stage=1 - stage, sub=rows - 1, k=late)
            body.fan(rows - 1, Tag.LOAD_X, ch=0, stage=stage, k=k)
            body.fan(columns, Tag.LOAD_W, ch=1, stage=stage, k=k)
            body.fan(rows, Tag.FRAG_X, ch=0, stage=stage)
            body.fan(columns, Tag.FRAG_W, ch=1, stage=stage)
            body.grid(rows, columns, Tag.MMA)
        ops = pl.annotate_ops(body.done(), COSTS)
        upright = replace(self.config(), m_mmas=rows, n_mmas=columns)
        ordered = pl.double_buffer_reorder(ops, upright)
        if not self.swapped:
            return ordered
        return [
            replace(op, stage=op.subtile, subtile=op.stage) if op.role is pl.OpRole.COMPUTE else op
            for op in ordered
        ]


class SingleBuffer(pl.PipelineSchedule):
    """One LDS stage and three K steps, the first of which is carried."""

    def config(self) -> pl.PipelineConfig:
        return pl.mi355x_single_buffer()

    def build_body(self) -> list[pl.OpDesc]:
        tag, body = pl.SingleBufferTag, pl.PipelineBody()
        body.frag(tag.LOAD_FRAG, ch=0, sub=1).frag(tag.LOAD_FRAG, ch=0, sub=2)
        body.compute(tag.COMPUTE, sub=0).barrier()
        body.store(tag.STORE_SMEM, ch=0).load(tag.LOAD_DRAM, ch=0)
        body.compute(tag.COMPUTE, sub=1).compute(tag.COMPUTE, sub=2).barrier()
        body.frag(tag.LOAD_FRAG, ch=0, sub=0)
        return pl.annotate_ops(body.done(), pl.mi355x_single_buffer_cost_model())


class Permuted(pl.PipelineSchedule):
    """The ping-pong's ops, loads and fragments of each block in the other order."""

    def __init__(self, knobs: pl.ScheduleConfig | None = None) -> None:
        self.knobs = pl.ScheduleConfig() if knobs is None else knobs

    def config(self) -> pl.PipelineConfig:
        return pl.mi355x_double_buffer()

    def schedule_config(self) -> pl.ScheduleConfig:
        return self.knobs

    def build_body(self) -> list[pl.OpDesc]:
        ordered: list[pl.OpDesc] = []
        block: list[pl.OpDesc] = []
        for op in pl.DeclarativeSchedule().build_body():
            if op.role is pl.OpRole.COMPUTE:
                ordered += [*reversed(block), op]
                block = []
            else:
                block.append(op)
        return ordered


RACY = pl.ScheduleConfig(auto_waits=False, wait_vm_last=40, wait_lgkm_first=0)
ALL = [DoubleBuffer(), DoubleBuffer(2, 2), DoubleBuffer(3, 2, swapped=True), SingleBuffer()]


@pytest.mark.parametrize("schedule", ALL, ids=lambda s: f"{s.name} {vars(s)}")
@pytest.mark.parametrize("sync", ["proven", "repaired"])
def test_it_is_synchronised_proved_and_computes_right(
    schedule: pl.PipelineSchedule, sync: str
) -> None:
    compiled = pl.compile_schedule(schedule, sync=sync)  # type: ignore[arg-type]
    assert pl.verify(compiled).proved
    for trips in range(3):
        assert pl.execute(compiled, trips=trips, order="reverse").correct


def test_a_double_buffer_is_proved_as_it_stands() -> None:
    for schedule in ALL[:3]:
        assert pl.verify(schedule).proved
        assert pl.execute(schedule, trips=2, order="reverse").correct


def test_a_single_buffer_races_until_its_waits_are_derived() -> None:
    """The specification leaves its waits to the compiler."""
    assert pl.verify(SingleBuffer()).status is pl.Status.RACE
    assert not pl.execute(SingleBuffer(), trips=2, order="reverse").correct


@pytest.mark.parametrize("greedy", [False, True])
def test_a_staggered_body_gets_the_verdict_of_the_ping_pong_kernel(greedy: bool) -> None:
    """The same entries under another name touch the same places."""
    strategy = pl.SchedulingStrategy.GREEDY if greedy else pl.SchedulingStrategy.IDENTITY
    compiled = pl.compile_schedule(Permuted(pl.ScheduleConfig(scheduling=strategy)))
    own, shipped = pl.verify(compiled), pl.verify(replace(compiled, schedule="ping_pong"))
    assert own.status is shipped.status
    assert [f.kind for f in own.findings] == [f.kind for f in shipped.findings]
    assert own.findings or own.proved


def test_a_racy_one_is_found_and_the_executor_runs_into_it() -> None:
    assert pl.verify(Permuted()).status is not pl.Status.RACE
    assert pl.verify(Permuted(RACY)).status is pl.Status.RACE
    assert not pl.execute(Permuted(RACY), trips=2, order="reverse").correct


@pytest.mark.parametrize("schedule", [*ALL, Permuted()], ids=lambda s: f"{s.name} {vars(s)}")
def test_it_is_simulated_and_has_a_page(schedule: pl.PipelineSchedule) -> None:
    assert pl.simulate(schedule).steady_cycles_per_iteration > 0
    page = pl.report(schedule)
    assert f"<title>{schedule.name}" in page


def test_more_counted_entries_take_longer() -> None:
    """Without a tile the counts are those of the configuration."""

    class Heavy(DoubleBuffer):
        def config(self) -> pl.PipelineConfig:
            return replace(super().config(), vm_per_load_a=8, vm_per_load_b=8)

    light, heavy = (pl.simulate(s).total_cycles for s in (DoubleBuffer(), Heavy()))
    assert heavy > 1.5 * light


class Tiled(DoubleBuffer):
    """With a tile whose counts the pipeline takes over."""

    def __init__(self, shape: pl.KernelGeometry) -> None:
        self.rows, self.columns, self.swapped = 2, 2, False
        self.shape = shape

    def config(self) -> pl.PipelineConfig:
        return replace(
            super().config(),
            vm_per_load_a=self.shape.vm_per_load_a,
            vm_per_load_b=self.shape.vm_per_load_b,
            lgkm_per_load_a=self.shape.lgkm_per_load_a,
            lgkm_per_load_b=self.shape.lgkm_per_load_b,
        )

    def geometry(self) -> pl.KernelGeometry:
        return self.shape


SMALL = {"BM": 128, "BN": 128, "BK": 64, "MMA_M": 16, "MMA_N": 16, "MMA_K": 32, "elem_bytes": 2}


def test_a_tile_says_how_many_waves_there_are() -> None:
    four = pl.KernelGeometry.four_wave(**SMALL)
    eight = pl.KernelGeometry.ping_pong(**SMALL)
    assert pl.as_program(Tiled(four)).waves == 4
    assert pl.as_program(Tiled(eight)).waves == 8
    assert pl.simulate(Tiled(four)).steady_cycles_per_iteration > 0


def test_a_tile_that_fits_no_waves_asks_for_them() -> None:
    odd = replace(pl.KernelGeometry.four_wave(**SMALL), lgkm_per_load_a=3)
    with pytest.raises(pl.ConfigError, match="fit no grid of waves") as caught:
        pl.verify(Tiled(odd))
    assert caught.value.field == "KernelGeometry.lgkm_per_load_a"
    assert "kernel()" in str(caught.value.hint)


class Miscounted(DoubleBuffer):
    """With a tile that takes fewer loads than the waits count."""

    def __init__(self) -> None:
        self.rows, self.columns, self.swapped = 2, 2, False

    def geometry(self) -> pl.KernelGeometry:
        return pl.KernelGeometry.ping_pong(**{**SMALL, "BM": 256, "BN": 256})


LEFT_AT_4 = pl.DeclarativeSchedule(False, 8, 4, geometry=Miscounted().geometry())


@pytest.mark.parametrize("judge", ["verify", "fix", "simulate", "emit", "as_program"])
@pytest.mark.parametrize("schedule", [Miscounted(), LEFT_AT_4], ids=lambda s: s.name)
def test_waits_that_do_not_fit_the_tile_are_refused_by_every_judge(
    judge: str, schedule: pl.PipelineSchedule
) -> None:
    """A verdict on a tile that the waits do not count would be about no kernel."""
    with pytest.raises(pl.ConfigError) as caught:
        getattr(pl, judge)(schedule)
    assert caught.value.field == "PipelineConfig.vm_per_load_a"


def test_a_kernel_says_which_form_of_the_schedule_it_is() -> None:
    """What is declared is written in its fastest proved form, what is compiled as it is."""

    class Racy(Tiled):
        def schedule_config(self) -> pl.ScheduleConfig:
            return pl.ScheduleConfig(auto_waits=False, wait_vm_last=63, wait_lgkm_first=255)

    racy = Racy(pl.KernelGeometry.four_wave(**SMALL))
    assert pl.verify(racy).status is pl.Status.RACE
    repaired = pl.emit(racy)
    assert repaired.form
    assert repaired.form in repr(repaired)
    compiled = pl.compile_schedule(racy)
    with pytest.raises(pl.ScheduleError, match="RACE"):
        pl.emit(compiled)
    assert pl.emit(pl.fix(racy).after).form == ""


def test_what_ops_leave_open_is_asked_for_by_name() -> None:
    """A load without a K tile, and ops without an operand."""

    class NoChannel(DoubleBuffer):
        def build_body(self) -> list[pl.OpDesc]:
            found = super().build_body()
            return [
                replace(op, channel=-1) if op.role is pl.OpRole.GLOBAL_LOAD else op for op in found
            ]

    class NoTile(DoubleBuffer):
        def build_body(self) -> list[pl.OpDesc]:
            found = super().build_body()
            late = [op for op in found if op.k_offset is pl.KOffsetKind.K_PREV]
            return [replace(op, k_offset=pl.KOffsetKind.NONE) if op in late else op for op in found]

    with pytest.raises(pl.ConfigError, match="of A or of B") as caught:
        pl.verify(NoChannel())
    assert caught.value.field == "OpDesc.channel"
    with pytest.raises(pl.ConfigError, match="which K tile") as caught:
        pl.verify(NoTile())
    assert caught.value.field == "OpDesc.k_offset"


def test_the_result_says_what_was_taken_for_granted() -> None:
    for schedule, waves in ((DoubleBuffer(), "four-wave"), (Permuted(), "ping-pong")):
        (note,) = (n for n in pl.compile_schedule(schedule).notes if "roles" in n)
        assert waves in note


def test_it_is_the_same_with_every_documented_hook() -> None:
    """The other four hooks, with the documented names; they change nothing but a fence."""

    class Hooked(DoubleBuffer):
        def derive_edges(self, body: list[pl.OpDesc]) -> list[pl.DepEdge]:
            return super().derive_edges(body=body)

        def transform_kernel(
            self, ker: list[pl.ScheduleEntry], body: list[pl.OpDesc]
        ) -> list[pl.ScheduleEntry]:
            assert isinstance(body, list)
            fence = pl.OpDesc.schedule_barrier()
            ker.append(pl.ScheduleEntry(fence, len(ker), pl.Phase.KERNEL))
            return ker

        def build_explicit_blocks(
            self, body: list[pl.OpDesc], program: pl.PipelineProgram
        ) -> list[list[pl.OpDesc]]:
            return [list(block.expand()) for block in program.blocks]

        def bootstrap_frags(self) -> list[pl.OpDesc]:
            return []

    plain, hooked = pl.compile_schedule(DoubleBuffer()), pl.compile_schedule(Hooked())
    assert [e.op for e in hooked.kernel[:-1]] == [e.op for e in plain.kernel]
    assert hooked.kernel[-1].op == pl.OpDesc.schedule_barrier()
    assert pl.verify(Hooked()).proved


def test_a_fix_names_loads_as_show_does_and_moves_in_its_notes() -> None:
    """An offset as declared is not the K tile that the loop loads: no line may give one for it."""
    fixed = pl.fix("ping_pong")
    assert isinstance(fixed.after, pl.CompiledSchedule)
    assert not any(" k+" in line or " k-" in line for line in fixed.changes())
    notes = " ".join(fixed.after.notes)
    assert fixed.after.moved
    assert all(move.label in notes for move in fixed.after.moved)


def test_slips_in_a_call_are_told_from_wrong_values() -> None:
    with pytest.raises(pl.ConfigError, match="is a ScheduleConfig, but") as caught:
        pl.DeclarativeSchedule(RACY, pl.mi355x_target())  # type: ignore[call-overload]
    assert "come first" in str(caught.value.hint)
    assert "DoubleBuffer" in repr(DoubleBuffer())


def test_a_class_is_asked_to_be_instantiated() -> None:
    with pytest.raises(pl.ConfigError, match="is a class") as caught:
        pl.verify(DoubleBuffer)  # type: ignore[arg-type]
    assert "DoubleBuffer()" in str(caught.value.hint)
