"""From a tile loop to its pipeline: solve, then peel the phases for the K at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeloom.checks import check_int
from pipeloom.order.modulo import ModuloResult, Objective, Progress, solve_modulo
from pipeloom.reference.pipelining.loop import TileLoop
from pipeloom.reference.pipelining.phases import PipelinedLoop, peel_tile_phases
from pipeloom.reference.pipelining.problem import modulo_problem

DEFAULT_OBJECTIVES = (Objective.STAGES,)
"""Proving the least number of buffers too can take much longer; ask for it where it matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeliningGoal:
    """What strategy MODULO is asked for: a loop, and for which K.

    ``k_tiles`` fixes K modulo the kernel's unrolling, and with it the shape of the epilogue;
    without it the phases serve K from stages - 1 tiles in steps of the unrolling.
    ``work_limit`` bounds the search the same way on every machine (units of about a second);
    ``time_limit`` (seconds) does so by the clock, and then equal input may give unequal output.
    """

    loop: TileLoop
    k_tiles: int | None = None
    objectives: tuple[Objective, ...] = DEFAULT_OBJECTIVES
    work_limit: float | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if self.k_tiles is not None:
            check_int("PipeliningGoal", "k_tiles", self.k_tiles, 1)


def solve_tile_loop(
    goal: PipeliningGoal,
    *,
    stages: int | None = None,
    max_ii: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> ModuloResult:
    """The modulo schedule of the goal's loop, with at most ``stages`` stages."""
    problem = modulo_problem(goal.loop)
    limit = goal.loop.budget.stages
    if stages is not None:
        limit = stages if limit is None else min(limit, stages)
    problem = replace(problem, budget=replace(problem.budget, stages=limit))
    return solve_modulo(
        problem,
        time_limit=goal.time_limit,
        work_limit=goal.work_limit,
        objectives=goal.objectives,
        max_ii=max_ii,
        progress=progress,
    )


def derive_pipeline(goal: PipeliningGoal) -> PipelinedLoop:
    """The pipeline with the smallest II; for a K that would not fill it, with fewer stages.

    A pipeline of s stages needs s - 1 tiles. Fewer tiles take the best schedule of at most
    ``k_tiles + 1`` stages, which always exists: one tile after the other is one of them.
    """
    result = solve_tile_loop(goal)
    if goal.k_tiles is None:
        return peel_tile_phases(goal.loop, result)
    if goal.k_tiles < result.stages - 1:
        result = solve_tile_loop(goal, stages=goal.k_tiles + 1)
    whole = peel_tile_phases(goal.loop, result)
    rest = (goal.k_tiles - whole.base) % whole.unroll
    return whole if rest == 0 else peel_tile_phases(goal.loop, result, rest)
