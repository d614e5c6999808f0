"""A chip that nobody makes: other counters under other names, less LDS, slower matrix results.

Its record says whose encoding it has, so its programs become machine code that runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

import pipeloom as pl

GFX950 = pl.target_for("gfx950")
QUICK = pl.Exact(work_limit=1.0)


def made_up(value: int, unit: str) -> pl.Fact[int]:
    return pl.Fact(value, unit, pl.FactKind.ASSUMED, "made up for a test")


ACME = replace(
    GFX950,
    arch="acme1",
    chip="Acme One",
    processor="gfx950",
    mfma_result_states=made_up(9, "wait states beyond the passes"),
    wait_rules=tuple(
        replace(rule, states=replace(rule.states, always=6))
        if rule.danger.name == "SCALAR_TO_MEMORY"
        else rule
        for rule in GFX950.wait_rules
    ),
    lds_kib=made_up(24, "KiB"),
    counters=(
        pl.Counter("loadcnt", made_up(3, "entries"), counts=pl.Traffic.GLOBAL),
        pl.Counter("dscnt", made_up(31, "entries"), counts=pl.Traffic.LDS),
        pl.Counter("teacnt", made_up(7, "cups")),
    ),
)


def lds_bytes(program: pl.Program) -> int:
    return sum(r.bytes for r in program.resources if r.space is pl.Space.LDS)


def waits(program: pl.Program) -> dict[str, set[int]]:
    """By counter, the counts of all waits."""
    found: dict[str, set[int]] = {}
    for group in program.groups:
        for _, _, step in group.steps():
            if isinstance(step, pl.Wait):
                found.setdefault(step.counter, set()).add(step.count)
    return found


@pytest.fixture(scope="module")
def program() -> pl.Program:
    return pl.pipeline(pl.kernels.gemm(64, 64, 64), ACME, waves=4, strategy=QUICK)


def test_it_is_proved_and_runs_right(program: pl.Program) -> None:
    assert pl.verify(program).proved
    assert pl.execute(program, trips=1, order="reverse").correct


def test_its_counters_are_waited_for(program: pl.Program) -> None:
    found = waits(program)
    assert set(found) == {"loadcnt", "dscnt"}
    assert max(found["loadcnt"]) < 3


def test_its_lds_is_enough_for_fewer_copies(program: pl.Program) -> None:
    """A MI355X keeps three tiles of each operand, which would be 48 KiB."""
    usual = pl.pipeline(pl.kernels.gemm(64, 64, 64), GFX950, waves=4, strategy=QUICK)
    assert max(waits(usual)["vmcnt"]) > 3
    assert lds_bytes(usual) > 24 * 1024 >= lds_bytes(program)
    assert cycles(program) > 1.5 * cycles(usual)


def cycles(program: pl.Program) -> float:
    """Simulated cycles of one iteration; a trip of the loop has several."""
    ((_, per_trip),) = program.iterations.factors
    return pl.simulate(program).steady_cycles_per_iteration / per_trip


def test_slower_memory_is_simulated_slower(program: pl.Program) -> None:
    slow = ACME.with_value("global_latency", 5000, "made up for a test")
    assert pl.simulate(program, slow).total_cycles > pl.simulate(program).total_cycles


def test_a_file_needs_no_registry(program: pl.Program) -> None:
    again = pl.Program.from_json(program.to_json())
    assert again == program
    assert again.target.counter("teacnt").limit.value == 7
    assert pl.verify(again).proved


def test_its_page_names_it(program: pl.Program) -> None:
    assert "acme1" in pl.report(program)


@pytest.fixture(scope="module")
def emitted(program: pl.Program) -> pl.EmittedKernel:
    return pl.emit(program)


def test_its_machine_code_runs(emitted: pl.EmittedKernel) -> None:
    """Waits are named and counted as the encoding can, LDS and wait states are the chip's."""
    assert emitted.target == ACME.arch
    assert emitted.resources.lds_bytes <= 24 * 1024
    counts = {int(n) for n in re.findall(r"lgkmcnt\((\d+)\)", emitted.text)}
    assert counts <= set(range(16))
    for sizes in ({"m": 64, "n": 64}, {"m": 100, "n": 70}):
        trial = pl.run(emitted, sizes={**sizes, "k": emitted.k_min + emitted.k_step})
        assert trial.ok, trial.summary()


def idle(text: str) -> int:
    """Wait states that a kernel spends in s_nop."""
    return sum(int(n) + 1 for n in re.findall(r"s_nop (\d+)", text))


def test_its_wait_states_are_inserted_and_judged(
    program: pl.Program, emitted: pl.EmittedKernel
) -> None:
    """The same kernel for the usual chip leaves fewer; run on this one, they are missed."""
    hasty = replace(
        ACME, wait_rules=GFX950.wait_rules, mfma_result_states=GFX950.mfma_result_states
    )
    quick = pl.emit(replace(program, target=hasty))
    assert idle(quick.text) < idle(emitted.text)
    sizes = {"m": 64, "n": 64, "k": quick.k_min}
    assert pl.run(quick, sizes=sizes).ok
    wrong = replace(quick, resources=replace(quick.resources, target=ACME))
    trial = pl.run(wrong, sizes=sizes)
    assert {str(finding.kind.value) for finding in trial.findings} == {"wait-states"}


def test_an_encoding_that_no_assembler_knows_is_refused(program: pl.Program) -> None:
    alone = replace(program, target=replace(ACME, processor=""))
    with pytest.raises(pl.EmitError, match="no assembler is known for 'acme1'"):
        pl.emit(alone)


def test_an_instruction_set_that_nobody_writes_is_refused(program: pl.Program) -> None:
    other = replace(program, target=replace(ACME, isa="acme"))
    with pytest.raises(pl.EmitError, match="nobody writes 'acme', the instruction set of acme1"):
        pl.emit(other)


def test_a_chip_that_counts_no_loads_is_refused() -> None:
    blind = replace(ACME, counters=ACME.counters[1:])
    with pytest.raises(pl.ConfigError, match="acme1 has no counter of global accesses"):
        pl.pipeline(pl.kernels.gemm(64, 64, 64), blind, waves=4, strategy=QUICK)


def test_a_counter_that_counts_nothing_of_a_kernel() -> None:
    """It may be there, and even be waited for; who would have to know what that means says so."""
    tea = replace(GFX950, counters=(*GFX950.counters, ACME.counter("teacnt")))
    program = pl.pipeline(pl.kernels.row_sum(), tea, waves=1, depth=2, strategy=QUICK)
    assert pl.run(program, sizes={"b": 1, "k": 5, "n": 256}).ok
    (group,) = program.groups
    first, *rest = group.sections
    patient = replace(first, steps=(pl.Wait("teacnt", 0), *first.steps))
    idle = replace(program, groups=(replace(group, sections=(patient, *rest)),))
    assert pl.verify(idle).proved
    with pytest.raises(pl.ConfigError, match="the simulator does not know counter 'teacnt'"):
        pl.simulate(idle)
    with pytest.raises(pl.EmitError, match="'teacnt', which counts no memory accesses"):
        pl.emit(idle)


PHASED = replace(ACME, barriers=(*ACME.barriers, pl.BarrierKind("mbarrier", phases=2)))


def phased(program: pl.Program, barrier: pl.Barrier) -> pl.Program:
    """The program for a chip with such barriers, and one of them first of all."""
    (group,) = program.groups
    first, *rest = group.sections
    first = replace(first, steps=(barrier, *first.steps))
    groups = (replace(group, sections=(first, *rest)),)
    return replace(program, target=PHASED, groups=groups)


def test_a_barrier_with_phases_and_expected_arrivals_is_stated(program: pl.Program) -> None:
    """No judge knows them yet, and each says so; the format does not change when one does."""
    made = phased(program, pl.Barrier("mbarrier", phase=1, arrivals=3, copy=2, arrive_only=True))
    again = pl.Program.from_json(made.to_json())
    assert again == made
    assert again.groups[0].sections[0].steps[0] == made.groups[0].sections[0].steps[0]
    judges: list[Callable[[pl.Program], object]] = [
        pl.verify,
        pl.simulate,
        lambda p: pl.execute(p, trips=1),
    ]
    for judge in judges:
        with pytest.raises(pl.ScheduleError, match="phases"):
            judge(made)
    for phase, arrivals in ((2, 3), (0, None), (0, 0)):
        with pytest.raises(pl.ConfigError, match=r"phase|arrivals"):
            phased(program, pl.Barrier("mbarrier", phase=phase, arrivals=arrivals))
