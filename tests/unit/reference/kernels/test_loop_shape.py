"""A kernel model whose walk is no loop is refused, with the wave and the trip that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest

from pipeloom import CompiledSchedule, ConfigError, OpDesc, Phase, build_schedule
from pipeloom.drive.programs import verify
from pipeloom.reference.kernels import (
    KERNELS,
    Effect,
    FourWaveKernel,
    Step,
    WalkBuilder,
    kernel_for,
)
from pipeloom.reference.kernels.shape import MORE_TRIPS, check_loop
from pipeloom.reference.ops import OpTag
from pipeloom.reference.resync import synchronize

Edit = Callable[[list[Step], int, int], list[Step]]
"""(steps of a walk, wave, trips) -> other steps."""


@lru_cache(maxsize=1)
def proved() -> CompiledSchedule:
    return synchronize(build_schedule("four_wave"), reorder=True)


class Edited(FourWaveKernel):
    """The four-wave kernel with another walk."""

    name = "edited"
    edit: Edit

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[Step, ...]:
        steps = self.edit(list(super().walk(compiled, wave, trips)), wave, trips)
        return tuple(replace(step, index=at) for at, step in enumerate(steps))


def kernel_with(edit: Edit) -> FourWaveKernel:
    kernel = Edited.for_schedule(proved())
    assert isinstance(kernel, Edited)
    kernel.edit = edit
    return kernel


def drop_waits_of_trip(number: int) -> Edit:
    def edit(steps: list[Step], wave: int, trips: int) -> list[Step]:
        waits = (OpTag.WAIT_VM, OpTag.WAIT_LGKM)
        return [s for s in steps if not (s.iteration == number and s.op.tag in waits)]

    return edit


def other_tile(steps: list[Step], wave: int, trips: int) -> list[Step]:
    return [
        replace(s, tile=s.tile + 1) if s.iteration == 3 and s.tile is not None else s for s in steps
    ]


def longer_prologue(steps: list[Step], wave: int, trips: int) -> list[Step]:
    extra = Step(0, OpDesc.set_prio(1), Phase.PROLOGUE, 0, None, 0)
    return [extra, *steps] if trips == 1 else steps


def epilogue_by_trips(steps: list[Step], wave: int, trips: int) -> list[Step]:
    return steps[:-1] if trips == 1 else steps


def other_epilogue_tile(steps: list[Step], wave: int, trips: int) -> list[Step]:
    return [
        replace(s, k_base=s.k_base + 1) if s.phase is Phase.EPILOGUE and trips == 2 else s
        for s in steps
    ]


def swapped(steps: list[Step], wave: int, trips: int) -> list[Step]:
    at = next((i for i, s in enumerate(steps) if s.iteration == 2), None)
    if at is not None:
        steps[at], steps[at + 1] = steps[at + 1], steps[at]
    return steps


def unlabelled(steps: list[Step], wave: int, trips: int) -> list[Step]:
    at = [i for i, s in enumerate(steps) if s.iteration == 0]
    if at:
        steps[at[3]] = replace(steps[at[3]], iteration=None)
    return steps


def backwards(steps: list[Step], wave: int, trips: int) -> list[Step]:
    return [
        s if s.iteration is None else replace(s, iteration=trips - 1 - s.iteration) for s in steps
    ]


def one_wave_lags(steps: list[Step], wave: int, trips: int) -> list[Step]:
    barrier = Step(0, OpDesc.barrier(), Phase.PROLOGUE, -1, None, 0, None, "stagger")
    return [barrier, *steps] if wave == 2 else steps


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (drop_waits_of_trip(2), r"wave 0 is no loop: trip 2 has \d+ steps, but \d+ in trip 0"),
        (other_tile, r"wave 0 is no loop: trip 3: kernel\[\d+\] .* has K tile \d+, but .* be \d+"),
        (longer_prologue, r"the prologue of 1 trips has \d+ steps"),
        (epilogue_by_trips, r"the epilogue of 1 trips has \d+ steps, but \d+ in"),
        (other_epilogue_tile, r"the epilogue of 2 trips: epilogue\[0\] .* has k_base 7, .* be 6"),
        (swapped, r"wave 0 is no loop: trip 2 has kernel\[1\] .*, but kernel\[0\]"),
        (unlabelled, r"kernel\[3\] .* has no iteration, between steps of trip 0"),
        (backwards, r"has trip \d, between steps of trip \d"),
        (one_wave_lags, r"waves 0 and 2 of one group walk different steps with \d trips"),
    ],
)
def test_a_walk_that_is_no_loop_is_refused(edit: Edit, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_loop(kernel_with(edit), proved(), 3)


def test_an_effect_that_depends_on_the_trip_is_refused() -> None:
    class Forgetful(FourWaveKernel):
        name = "forgetful"

        def effect(self, step: Step, wave: int) -> Effect:
            effect = super().effect(step, wave)
            forget = step.iteration == 4 and wave == 3 and effect.register_writes
            return replace(effect, register_writes=()) if forget else effect

    with pytest.raises(ConfigError, match=r"wave 3 is no loop: .* something else in trip 4"):
        check_loop(Forgetful.for_schedule(proved()), proved(), 3)


def test_verify_refuses_a_walk_that_changes_after_the_state_repeats() -> None:
    """The waits of trip 5 are missing; the state has repeated long before, so nothing else
    would notice."""
    examined = verify(proved()).coverage.checked[-1]
    late = examined + MORE_TRIPS - 1
    with pytest.raises(ConfigError, match=f"wave 0 is no loop: trip {late} has"):
        verify(proved(), kernel_with(drop_waits_of_trip(late)))


def test_what_lies_beyond_the_walks_compared_goes_unseen() -> None:
    """The limit that docs/memory-model.md states."""
    beyond = verify(proved()).coverage.checked[-1] + MORE_TRIPS
    assert verify(proved(), kernel_with(drop_waits_of_trip(beyond))).proved


def test_a_barrier_of_the_kernel_itself_may_stand_in_the_loop() -> None:
    class Paced(FourWaveKernel):
        name = "paced"

        def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[Step, ...]:
            walk = WalkBuilder()
            walk.entries(compiled.prologue, 0)
            for trip in range(trips):
                walk.own_barrier("pace", Phase.KERNEL, 2 * (trip + 1), trip)
                walk.entries(compiled.kernel, 2 * (trip + 1), trip)
            walk.entries(compiled.epilogue, 2 * (trips + 1))
            return walk.done()

    assert verify(proved(), Paced.for_schedule(proved())).proved


@pytest.mark.parametrize("name", KERNELS)
def test_the_shipped_kernels_are_loops(name: str) -> None:
    compiled = build_schedule(name)
    check_loop(kernel_for(compiled), compiled, 4)
