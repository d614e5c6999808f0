"""What counts as the steady state: repetitions of several iterations, warm-up, waves apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest

from pipeloom.judge.simulate import Trace, simulate_stream
from pipeloom.judge.simulate.settled import _simd, steady_cycles_of
from pipeloom.judge.simulate.units import Simd


def with_iterations(*waves: tuple[int, Sequence[int]]) -> Trace:
    """A trace whose waves begin at the given time and then take the given cycles each."""
    count = len(waves[0][1])
    trace = simulate_stream("S", simds=len(waves), iterations=count)
    marks = tuple(tuple(accumulate(cycles, initial=begin)) for begin, cycles in waves)
    return replace(trace, marks=marks)


@pytest.mark.parametrize(
    ("pattern", "mean"),
    [([100], 100.0), ([100, 140], 120.0), ([100, 100, 160], 120.0), ([90, 10, 10, 10], 30.0)],
)
@pytest.mark.parametrize("count", [24, 25, 26, 27])
def test_the_mean_is_over_whole_repetitions(pattern: list[int], mean: float, count: int) -> None:
    cycles = [500] + [pattern[i % len(pattern)] for i in range(count - 2)] + [7]
    assert with_iterations((0, cycles)).steady_cycles_per_iteration == mean


def test_a_long_warm_up_is_left_out() -> None:
    cycles = [400] * 13 + [100, 120] * 6
    assert with_iterations((0, cycles)).steady_cycles_per_iteration == 110.0


def test_waves_in_turn_are_not_in_step() -> None:
    """Each alone takes 100, but the second waits until the first has left: 200 for both."""
    trace = with_iterations((0, [100] * 24), (2400, [100] * 24))
    assert trace.steady_cycles_per_iteration == pytest.approx(200.0)


def test_waves_of_different_pace_are_averaged() -> None:
    trace = with_iterations((0, [100] * 24), (0, [101] * 24))
    assert 100.0 < trace.steady_cycles_per_iteration < 101.0


@pytest.mark.parametrize(
    ("stream", "waves"),
    [
        ("R7 wl2 M3 V5 B", 1),
        ("(wv8+wl0 B M8 R8 G4)x2", 1),
        ("G4 wv4 B R4 wl0 M4 B", 2),
        ("T5 G wv3+wl0 B X3 M7 B S N(3) B branch", 2),
    ],
)
def test_the_number_of_iterations_does_not_matter(stream: str, waves: int) -> None:
    results = {
        round(
            simulate_stream(
                stream, waves_per_simd=waves, stagger=waves == 2, iterations=count
            ).steady_cycles_per_iteration,
            0,
        )
        for count in (30, 31, 32, 60)
    }
    assert len(results) == 1


@pytest.mark.parametrize("waves", [1, 2, 4, 8])
@pytest.mark.parametrize("iterations", [1, 2, 3, 4])
@pytest.mark.parametrize("stream", ["M", "B", "B3 M", "wl0", "G wv0 B R W wl0 X V P S N(7) M B"])
def test_short_runs_of_any_shape_end(stream: str, iterations: int, waves: int) -> None:
    for stagger in {False, waves > 1 and "B" in stream}:
        trace = simulate_stream(
            stream,
            waves_per_simd=waves,
            stagger=stagger,
            iterations=iterations,
            arch="gfx942" if waves == 2 else "gfx950",
        )
        assert trace.steady_cycles_per_iteration > 0
        assert max(trace.matrix_efficiency()) <= 1.0


@pytest.mark.parametrize(
    ("count", "window"), [(1, (0, 1)), (3, (0, 3)), (4, (1, 3)), (5, (1, 4)), (9, (3, 8))]
)
def test_from_four_iterations_on_the_ends_do_not_count(count: int, window: tuple[int, int]) -> None:
    assert with_iterations((0, [100] * count)).steady_window == window


def test_waves_that_no_barrier_holds_together_are_run_to_the_end() -> None:
    """Two that share a SIMD drift apart: the time of the whole loop counts."""
    trace = simulate_stream("V3 N", arch="gfx950", waves_per_simd=2, iterations=6)
    short = steady_cycles_of(trace.programs, trace.machine, 6)
    assert short == trace.steady_cycles_per_iteration


def test_a_simd_is_the_same_some_time_later() -> None:
    """What is compared is how long its units are still busy, and not since when."""

    def busy(now: int) -> Simd:
        simd = Simd()
        simd.matrix_free, simd.valu_free, simd.lds_port = now + 9, now, now + 3
        simd.return_free = now - min(now, 5)
        return simd

    assert _simd(busy(100), 100) == _simd(busy(740), 740)
    assert _simd(busy(100), 100) != _simd(busy(100), 101)
