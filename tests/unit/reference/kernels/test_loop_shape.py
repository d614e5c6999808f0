"""The walks of kernel models are loops: what an argument over all trip counts takes for granted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import CompiledSchedule, Phase, build_schedule
from pipeloom.reference.kernels import KERNELS, EntryRun, Kernel, kernel_for
from pipeloom.reference.kernels.grid import GridKernel

TRIPS = 5


def models(name: str, compiled: CompiledSchedule) -> list[Kernel]:
    """Those of a schedule: the shipped one, and grids where it has two stages."""
    if name == "single_buffer":
        return [kernel_for(compiled)]
    grids = [GridKernel.for_schedule(compiled, waves=(2, 2), staggered=s) for s in (False, True)]
    return [kernel_for(compiled), *grids]


def seen(kernel: Kernel, wave: int, step: EntryRun, base: int) -> object:
    """What a step is and touches, with K counted from ``base``."""
    effect = kernel.effect(step, wave)
    tile = None if step.tile is None else step.tile - base
    touched = replace(effect, tile=None if effect.tile is None else effect.tile - base)
    return step.op, step.phase, step.slot, step.origin, step.k_base - base, tile, touched


@pytest.mark.parametrize("name", KERNELS)
def test_every_trip_is_the_first_with_k_advanced(name: str) -> None:
    compiled = build_schedule(name)
    for kernel in models(name, compiled):
        advance = kernel.tiles_per_iteration
        for wave in range(kernel.waves):
            found: dict[object, list[list[object]]] = {}
            for trips in range(kernel.min_trips, kernel.min_trips + TRIPS):
                walk = kernel.walk(compiled, wave, trips)
                assert [step.index for step in walk] == list(range(len(walk)))
                assert [s.phase for s in walk] == sorted(s.phase for s in walk)
                assert {s.iteration for s in walk if s.phase is Phase.KERNEL} == set(range(trips))
                for part in (Phase.PROLOGUE, *range(trips), Phase.EPILOGUE):
                    in_loop = not isinstance(part, Phase)
                    base = advance * (part if in_loop else trips if part else 0)
                    at = [s for s in walk if (s.iteration if in_loop else s.phase) == part]
                    rows = [seen(kernel, wave, step, base) for step in at]
                    found.setdefault("loop" if in_loop else part, []).append(rows)
            for rows_of_part in found.values():
                assert all(rows == rows_of_part[0] for rows in rows_of_part)


@pytest.mark.parametrize("name", KERNELS)
def test_waves_of_a_group_walk_the_same_steps(name: str) -> None:
    compiled = build_schedule(name)
    for kernel in models(name, compiled):
        for members in kernel.groups:
            assert len({kernel.walk(compiled, wave, 3) for wave in members}) == 1
