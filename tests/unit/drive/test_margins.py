"""Margins from simulation: beside the findings of both judges, and what they decide."""

from __future__ import annotations

import numpy as np
import pytest

from pipeloom.drive import margins
from pipeloom.drive.checking import check
from pipeloom.drive.judging import judge
from pipeloom.drive.margins import lay_margins
from pipeloom.drive.programs import emit
from pipeloom.drive.sources import Source
from pipeloom.judge.verify import Status, verify
from pipeloom.program import Program
from pipeloom.write.faults import GateError


def _of(tile: str) -> Program:
    return judge(Source("four_wave", tile=tile, dtype="fp8")).program


@pytest.mark.parametrize(
    ("tile", "least", "status"),
    [("256x256x128", 799, Status.TIMING), ("64x64x128", -57, Status.RACE)],
)
def test_the_size_that_failed_on_gpus_meets_in_simulation(
    tile: str, least: int, status: Status
) -> None:
    """modular 35abc1128e: fp8 at 64 rows was wrong without trips, larger tiles never.

    The nominal clock keeps the accesses of both apart.
    """
    program = _of(tile)
    verdict = verify(program)
    assert verdict.status is Status.TIMING
    laid = lay_margins(program, verdict)
    at_once = [f for f in laid.findings if f.trips == 0 and f.simulated is not None]
    assert min(f.simulated for f in at_once if f.simulated is not None) == least
    assert laid.status is status
    assert {id(f.counterexample) for f in laid.findings} == {
        id(f.counterexample) for f in verdict.findings
    }
    for state in Status:
        for kind in {f.kind for f in laid.findings}:
            mine = [f.simulated for f in laid.findings if (f.status, f.kind) == (state, kind)]
            assert mine == sorted(mine, key=lambda one: -(1 << 30) if one is None else one)


def test_what_meets_in_simulation_is_not_emitted() -> None:
    """By nominal latencies alone it is TIMING, which may be asked for."""
    with pytest.raises(GateError, match="is RACE, so it is not emitted"):
        emit(_of("64x64x128"), allow_timing=True)


def test_a_program_without_instructions_keeps_its_verdict() -> None:
    found = judge(Source("ping_pong"))
    assert found.verdict == verify(found.program)
    assert "by nominal latencies" in found.verdict.findings[0].describe()


def test_what_is_proved_is_not_simulated() -> None:
    program = judge(Source("single_buffer", sync="proven")).program
    verdict = verify(program)
    assert verdict.proved
    assert lay_margins(program, verdict) is verdict


def test_a_run_beyond_the_budget_has_nominal_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(128, dtype=np.int32)
    args = [x, np.zeros_like(x)]
    simulated = check("examples/exchange.s", (1,), (128,), args, shown=0).verdict.findings[0]
    monkeypatch.setattr(margins, "BUDGET", 100)
    nominal = check("examples/exchange.s", (1,), (128,), args, shown=0).verdict.findings[0]
    assert (simulated.nominal, nominal.nominal) == (False, True)
    assert "in simulation" in simulated.describe()
    assert "by nominal latencies" in nominal.describe()
    assert simulated.second.pc == nominal.second.pc
