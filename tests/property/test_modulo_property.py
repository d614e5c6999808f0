"""What must hold for every modulo problem, on random ones of random shape."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.random_loops import Shape, random_problem
from pipeloom.order.modulo import (
    ModuloProblem,
    check_modulo,
    expand_modulo,
    explain_ii,
    solve_modulo,
)
from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.list_scheduling import unpipelined

SHAPES = st.builds(
    Shape,
    ops=st.integers(1, 14),
    units=st.integers(1, 3),
    longest_hold=st.integers(1, 6),
    longest_latency=st.integers(0, 12),
    second_use=st.sampled_from((0.0, 0.3)),
    edges_per_op=st.sampled_from((0.5, 1.0, 1.8)),
    carried=st.sampled_from((0.0, 0.2, 0.5)),
)
PROBLEMS = st.builds(random_problem, st.integers(0, 10_000), SHAPES)


@settings(max_examples=60, deadline=None)
@given(PROBLEMS)
def test_result_is_valid_proved_and_between_its_bounds(problem: ModuloProblem) -> None:
    result = solve_modulo(problem)
    assert not check_modulo(problem, result.ii, result.starts)
    assert result.proved
    assert result.lower_bound == result.ii >= max(1, result.res_mii, result.rec_mii)
    longest, starts = unpipelined(Structure(problem))
    assert not check_modulo(problem, longest, starts)
    assert result.ii <= longest
    assert min(result.starts) == 0
    assert result.stages == max(result.starts) // result.ii + 1


@settings(max_examples=30, deadline=None)
@given(PROBLEMS)
def test_the_ii_below_is_explained_and_the_ii_itself_is_not(problem: ModuloProblem) -> None:
    result = solve_modulo(problem)
    assert explain_ii(problem, result.ii) is None
    if result.ii > 1:
        explanation = explain_ii(problem, result.ii - 1)
        assert explanation is not None
        assert explanation.minimal


@settings(max_examples=40, deadline=None)
@given(PROBLEMS, st.integers(0, 9))
def test_phases_run_every_op_of_every_iteration_once(problem: ModuloProblem, trips: int) -> None:
    result = solve_modulo(problem)
    done = list(expand_modulo(problem, result.ii, result.starts).run(trips))
    assert sorted(done) == sorted((op, n) for op in range(len(problem.ops)) for n in range(trips))
