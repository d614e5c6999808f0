"""What the modulo scheduler says of many small random loops: a row for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from benchmarks.kernel_results import digest
from benchmarks.random_loops import Shape, random_problem
from pipeloom.errors import ScheduleError
from pipeloom.order.modulo import (
    ALL_OBJECTIVES,
    ModuloProblem,
    ModuloResult,
    check_modulo,
    expand_modulo,
    explain_ii,
    least_ii,
    render_table,
    solve_modulo,
)
from pipeloom.order.modulo.bounds import enough_ii, most_buffers
from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.list_scheduling import unpipelined
from tests.golden.rows.answers import answers

SHAPES = {
    "small": Shape(),
    "held long": Shape(ops=9, units=3, longest_hold=7, second_use=0.5),
    "carried": Shape(ops=8, edges_per_op=1.8, carried=0.5, longest_latency=9),
    "lifetimes": Shape(ops=6, lifetimes=True, tightness=0.6),
    "tight": Shape(ops=7, units=1, lifetimes=True, tightness=1.0, carried=0.4),
    "larger": Shape(ops=24, units=3, edges_per_op=1.4, longest_latency=14),
}
EACH = 12


def modulo_rows() -> dict[str, dict[str, str]]:
    """For every shape and seed: the bounds, the schedule, why it is no shorter, and as a loop."""
    return {
        name: {f"seed {seed}": _row(random_problem(seed, shape), seed) for seed in range(EACH)}
        for name, shape in SHAPES.items()
    }


def _row(problem: ModuloProblem, seed: int) -> str:
    return "; ".join(_said(problem, seed))


def _said(problem: ModuloProblem, seed: int) -> Iterator[str]:
    longest, plain = unpipelined(Structure(problem))
    yield f"{least_ii(problem)} to {enough_ii(problem)}, {most_buffers(problem)}"
    yield f"unpipelined {longest} {_numbers(plain)}"
    try:
        result = solve_modulo(problem, objectives=ALL_OBJECTIVES[: seed % 3], work_limit=0.05)
    except ScheduleError as error:
        yield str(error)
        return
    yield f"II {result.ii} in {result.stages}: {_numbers(result.starts)}"
    yield from (f"{each.words} ({each.how})" for each in result.certificate.refutations[1:])
    whole = digest(result.to_json() + str(render_table(result)))
    yield f"{result.certificate.why}, {whole}, {answers(result)}"
    if result.ii > 1:
        yield str(explain_ii(problem, result.ii - 1)).replace("\n ", "")
    yield from _as_loop(problem, result)
    yield _broken(problem, result, Random(seed))


def _as_loop(problem: ModuloProblem, result: ModuloResult) -> Iterator[str]:
    try:
        loop = expand_modulo(problem, result.ii, result.starts)
    except ScheduleError as error:
        yield str(error)
        return
    runs = [(list(loop.run(trips)), loop.cycles(trips)) for trips in range(loop.stages + 3)]
    copies = f"{_numbers(loop.value_copies)} {_numbers(loop.channel_copies)}"
    yield f"unrolled {loop.unroll}, copies {copies}, {digest(f'{loop}{runs}')}"


def _broken(problem: ModuloProblem, result: ModuloResult, rng: Random) -> str:
    """What a schedule breaks that is nearly this one."""
    starts = [start + rng.choice((-2, 0, 0, 1)) for start in result.starts]
    found = check_modulo(problem, result.ii, starts)
    return f"moved it breaks {len(found)}: {digest(str(list(map(str, found))))}"


def _numbers(found: Sequence[int]) -> str:
    return " ".join(map(str, found)) or "none"
