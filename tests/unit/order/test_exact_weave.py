"""The modulo solver on single instructions: its bound is the machine's, its orders are proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.planned import planned_cycles
from pipeloom.declare.kernels import attention, gemm
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.errors import OrderError
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.machine_code import simulate_emitted
from pipeloom.order import patterns as module
from pipeloom.order.instruction_problem import relaxed, step_cycles, stepped
from pipeloom.order.instructions import refine
from pipeloom.order.modulo import ModuloProblem, ModuloResult, check_modulo, least_ii, solve_modulo
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import (
    bound_of,
    certificate,
    choices,
    register_copies,
    solved,
    structures,
    timed,
    variations,
    woven,
)
from pipeloom.order.tasks import Lowered
from pipeloom.order.unit_times import ISSUE, MATRIX
from pipeloom.order.weave import TICKS, Weaver
from pipeloom.program.nodes import Region
from pipeloom.program.steps import Unit
from pipeloom.write import emit_program

KERNELS = [
    ("gfx950", "bf16", 64, 64, 64, 4),
    ("gfx950", "fp16", 128, 128, 64, 4),
    ("gfx950", "fp8", 128, 256, 128, 4),
    ("gfx950", "bf16", 208, 256, 64, 4),
    ("gfx950", "bf16", 256, 256, 64, 4),
    ("gfx950", "bf16", 256, 256, 64, 8),
    ("gfx942", "fp16", 256, 256, 64, 8),
]


def lowered_gemm(arch: str, dtype: str, m: int, n: int, k: int, waves: int) -> Lowered:
    loop = gemm(m, n, k, dtype)
    return lower(loop.meaning, target_for(arch), loop.ops, loop.staged, waves)


SMALL = lowered_gemm(*KERNELS[0])


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_two_counts_of_the_bound_agree(kernel: tuple[str, str, int, int, int, int]) -> None:
    """Units counted by hand, and the resource and recurrence bounds of the relaxed problem."""
    lowered = lowered_gemm(*kernel)
    bound, unit = bound_of(lowered)
    least, why = certificate(lowered)
    # Fractions of cycles that a load takes of memory are rounded down one by one.
    assert bound - len(relaxed(refine(lowered)).ops) < least <= bound
    assert unit in why


def test_lds_that_holds_one_tile_only_is_a_recurrence() -> None:
    """A load, its latency, a read and two barriers per iteration, if tiles have no second copy."""
    fine = refine(SMALL)
    problem = relaxed(fine)
    size = sum(channel.bytes for channel in problem.channels)
    target = fine.target
    least = target.global_latency.value + target.lds_latency.value
    found, why = least_ii(problem.with_budget(lds_bytes=size))
    assert found > least
    assert "recurrence through reused buffers" in why
    assert least_ii(problem)[0] < least


@pytest.mark.parametrize(
    ("kernel", "pattern"),
    [(KERNELS[0], Pattern(exact=True)), (KERNELS[1], Pattern(exact=True, barriers=2, deep=1))],
)
def test_the_solvers_order_is_proved_and_at_the_bound(
    kernel: tuple[str, str, int, int, int, int], pattern: Pattern
) -> None:
    lowered = lowered_gemm(*kernel)
    program = woven(lowered, pattern)
    assert verify(program).proved
    assert steady_cycles(program) <= 1.01 * bound_of(lowered)[0]
    assert program.content_hash == woven(lowered, pattern).content_hash


@pytest.mark.parametrize(
    ("kernel", "pattern"),
    [
        (KERNELS[0], Pattern(deep=4)),
        (KERNELS[0], Pattern(exact=True)),
        (("gfx950", "fp16", 128, 128, 64, 8), Pattern(barriers=4)),
        (("gfx950", "fp8", 64, 64, 128, 4), Pattern(barriers=2, deep=4)),
        (
            ("gfx942", "fp16", 256, 128, 32, 8),
            Pattern(groups=2, cluster=8, order=("rows", "depth", "columns")),
        ),
    ],
    ids=str,
)
def test_the_plan_takes_as_long_as_what_is_emitted(
    kernel: tuple[str, str, int, int, int, int], pattern: Pattern
) -> None:
    """Both know the machine by the same costs, so they agree within 2 %, where memory binds and
    where the matrix unit does; benchmarks/bench_derive.py compares full tiles."""
    lowered = lowered_gemm(*kernel)
    program = woven(lowered, pattern)
    count = program.iterations.at(program.min_trips) + 4 * program.step
    trace = simulate_emitted(emit_program(program), lowered.target, count)
    cycles = trace.steady_cycles_per_iteration / program.step
    assert cycles == pytest.approx(planned_cycles(lowered, pattern), rel=0.02)


def test_alike_loads_keep_their_order() -> None:
    fine = refine(SMALL)
    registers = register_copies(fine)
    products = Weaver(fine, Pattern(), registers).products
    problem = stepped(fine, products, registers, 1, margin=0, deep=0)
    found = solve_modulo(problem, work_limit=1)
    assert not check_modulo(problem, found.ii, found.starts)
    loads = [(op.name.split()[-1], n) for n, op in enumerate(problem.ops) if op.load]
    for tile in {name.split(".")[0] for name, _ in loads}:
        mine = [found.starts[n] for name, n in loads if name.split(".")[0] == tile]
        assert mine == sorted(mine)
    assert found.ii * step_cycles(fine) <= 1.02 * bound_of(SMALL)[0]


@pytest.mark.parametrize("waves", [4, 8])
def test_what_ops_of_the_solver_take_of_a_step(waves: int) -> None:
    """A load to LDS has two instructions; at a barrier nothing issues, and a SIMD with one wave
    has no products of another."""
    fine = refine(lowered_gemm("gfx950", "bf16", 128, 128, 64, waves))
    registers = register_copies(fine)
    products = Weaver(fine, Pattern(), registers).products
    problem = stepped(fine, products, registers, 1, margin=0, deep=0)
    room = {unit.name: unit.capacity or 0 for unit in problem.units if unit.name.startswith(ISSUE)}
    for op, task in zip(problem.ops, fine.of(Region.LOOP), strict=False):
        slots = sum(use.unit in room and use.offset == 1 for use in op.uses)
        assert slots == min(2 if op.load else task.unit is not Unit.MATRIX, *room.values())
    barrier = [use.unit for use in problem.ops[-1].uses]
    assert all(barrier.count(name) == most for name, most in room.items())
    assert (MATRIX in barrier) == (waves == 4)
    deep = stepped(fine, products, registers, 1, margin=0, deep=1).channels
    lds = [c.max_buffers or 0 for c in problem.channels if c.bytes]
    assert [c.max_buffers or 0 for c in deep if c.bytes] == [*lds[:-1], lds[-1] + 1]


def test_a_load_takes_two_slots_of_a_longer_step() -> None:
    """Behind a product in fp8 there is room for more."""
    fine = refine(lowered_gemm("gfx950", "fp8", 64, 64, 128, 4))
    registers = register_copies(fine)
    products = Weaver(fine, Pattern(), registers).products
    problem = stepped(fine, products, registers, 1, margin=0, deep=0)
    (room,) = [unit for unit in problem.units if unit.name.startswith(ISSUE)]
    assert (room.capacity or 0) > 2
    loads = [[use.unit for use in op.uses] for op in problem.ops if op.load]
    assert {uses.count(room.name) for uses in loads} == {2}


def test_ctrl_c_in_the_solver_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(problem: ModuloProblem, **_: object) -> ModuloResult:
        return replace(solve_modulo(problem, work_limit=1), stopped="interrupted")

    monkeypatch.setattr(module, "solve_modulo", stopped)
    with pytest.raises(KeyboardInterrupt):
        woven(SMALL, Pattern(exact=True))


def test_who_is_solved() -> None:
    assert all(p.exact for p in solved(SMALL))
    assert not any(p.exact for p in structures(SMALL))
    assert {p.exact for p in variations(Pattern(exact=True), choices(SMALL))} == {True}
    assert not list(solved(lowered_gemm(*KERNELS[5])))
    loop = attention()
    lowered = lower(loop.meaning, target_for("gfx950"), loop.ops, loop.staged, 4)
    assert not list(solved(lowered))
    assert certificate(lowered)[0] == bound_of(lowered)[0]
    with pytest.raises(OrderError, match="take turns"):
        woven(lowered_gemm(*KERNELS[5]), Pattern(groups=2, cluster=16, exact=True))


def test_a_barrier_issues_in_the_first_cycle_of_its_step() -> None:
    """Behind a product that starts there, and before all that its operands hold up."""
    found = timed(SMALL, Pattern(exact=True))
    starts, count = found.timetable.starts, len(found.loop.tasks)
    step = step_cycles(refine(SMALL)) * TICKS
    products = [starts[i] for i, t in enumerate(found.loop.tasks) if t.unit is Unit.MATRIX]
    assert len({start % step for start in products}) == 1
    for barrier in starts[count : count + found.loop.barriers]:
        assert 0 < (barrier - products[0]) % step < TICKS
