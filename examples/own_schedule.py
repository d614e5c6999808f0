"""A schedule of your own: a fused QKV projection, X times three weight tiles (a 2x3 MMA grid).

Run it: ``python examples/own_schedule.py``. Everything a new kernel needs is in this file: its op
tags, what they cost, the shape of its pipeline, the ops of one iteration, what they touch."""

from dataclasses import replace
from enum import IntEnum

from rich.console import Console

import pipeloom as pl
from pipeloom.show.terminal import render_program


class Tag(IntEnum):
    LOAD_X, LOAD_W, FRAG_X, FRAG_W, MMA = range(5)


LOAD = pl.OpCost(pl.ResourceKind.GLOBAL_MEM, 500, pl.OpRole.GLOBAL_LOAD)
FRAGMENT = pl.OpCost(pl.ResourceKind.LDS, 64, pl.OpRole.FRAGMENT_LOAD, vgpr_def=8)
MMA = pl.OpCost(pl.ResourceKind.MMA_UNIT, 32, pl.OpRole.COMPUTE, vgpr_def=4)
COSTS = pl.TargetCostModel(dict(zip(Tag, (LOAD, LOAD, FRAGMENT, FRAGMENT, MMA), strict=True)))

Q_K_V = 3


class QkvProjection(pl.PipelineSchedule):
    def config(self) -> pl.PipelineConfig:
        return replace(pl.mi355x_double_buffer(2, 4, max_globals=0), n_mmas=Q_K_V)

    def schedule_config(self) -> pl.ScheduleConfig:
        return pl.ScheduleConfig(scheduling=pl.SchedulingStrategy.CSP, auto_drain=True)

    def build_body(self) -> list[pl.OpDesc]:
        body = pl.PipelineBody()
        for stage in (0, 1):
            k = pl.KOffsetKind.K1 if stage else pl.KOffsetKind.K0
            late = pl.KOffsetKind.K0 if stage else pl.KOffsetKind.K_PREV
            body.load(Tag.LOAD_X, ch=0, stage=1 - stage, sub=1, k=late)
            body.load(Tag.LOAD_X, ch=0, stage=stage, sub=0, k=k)
            body.fan(Q_K_V, Tag.LOAD_W, ch=1, stage=stage, k=k)
            body.fan(2, Tag.FRAG_X, ch=0, stage=stage)
            body.fan(Q_K_V, Tag.FRAG_W, ch=1, stage=stage)
            body.grid(2, Q_K_V, Tag.MMA)
        return pl.double_buffer_reorder(pl.annotate_ops(body.done(), COSTS), self.config())

    def kernel(self, compiled: pl.CompiledSchedule) -> pl.GridKernel:
        return pl.GridKernel.for_schedule(compiled, waves=(2, 4), staggered=True)


if __name__ == "__main__":
    schedule, console = QkvProjection(), Console(highlight=False)
    compiled = pl.compile_schedule(schedule)
    console.print(render_program(pl.as_program(compiled, schedule.kernel(compiled))))
    console.print("reference sync:", pl.verify(compiled, schedule.kernel(compiled)).summary())
    proven = pl.compile_schedule(schedule, sync="proven")
    console.print("proven sync:   ", pl.verify(proven, schedule.kernel(proven)).summary())
