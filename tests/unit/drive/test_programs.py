"""The verbs take compiled schedules as they take programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.drive.opening import open_source
from pipeloom.drive.programs import as_program
from pipeloom.errors import SpecError
from pipeloom.judge.simulate.issued import usual_iterations

pytestmark = pytest.mark.usefixtures("short_search")

TILE = {"BM": 128, "BN": 128, "BK": 64, "MMA_M": 16, "MMA_N": 16, "MMA_K": 32, "elem_bytes": 2}


@pytest.fixture(scope="module")
def compiled() -> pl.CompiledSchedule:
    return pl.synchronize(pl.build_schedule({"schedule": "four_wave", "geometry": TILE}))


def test_proved_executed_simulated_and_shown(compiled: pl.CompiledSchedule) -> None:
    assert pl.verify(compiled).proved
    assert pl.execute(compiled, trips=1).correct
    assert pl.simulate(compiled).total_cycles == pl.simulate(compiled, k_tiles=32).total_cycles
    assert "four_wave" in pl.report(compiled, k_tiles=8)


def test_names_and_sources_are_taken_as_commands_take_them(tmp_path: Path) -> None:
    tiled = pl.Source("four_wave", tile="fp8")
    assert pl.simulate("four_wave").total_cycles == pl.simulate(tiled).total_cycles
    assert pl.simulate("ping_pong", k_tiles=4).iterations
    assert pl.emit(tiled).text == pl.emit("four_wave", dtype="fp8").text
    page = tmp_path / "page.html"
    assert main(["report", "single_buffer", "-o", str(page)]) == 0
    assert pl.report("single_buffer") == page.read_text(encoding="utf-8")


def test_emitted_and_run(compiled: pl.CompiledSchedule) -> None:
    emitted = pl.emit(compiled, target="gfx950", dtype="bf16")
    trial = pl.run(emitted, sizes={"m": 65, "n": 128, "k": emitted.k_min}, seed=1)
    assert trial.ok, trial.summary()


def test_the_usual_number_of_iterations() -> None:
    program = pl.pipeline(pl.kernels.row_sum(), pl.target_for("gfx950"), waves=1, depth=3)
    base = program.iterations.at(program.min_trips)
    ((_, step),) = program.iterations.factors
    count = usual_iterations(program)
    assert 32 <= count < 32 + step
    assert (count - base) % step == 0
    assert usual_iterations(program, 1) == base
    straight = replace(program, trips=(*program.trips, pl.TripCount("unused")))
    assert usual_iterations(straight) == base


def test_a_chip_of_ones_own_travels_as_the_object_it_is() -> None:
    own = replace(pl.target_for("gfx950"), arch="gfx950x", chip="Mine")
    assert as_program(pl.Source("ping_pong", dtype="bf16", arch=own)).target is own
    assert open_source(pl.Source("gemm_tile", arch=own)).machine() is own
    assert open_source(pl.Source(pl.kernels.gemm(64, 64, 64), arch=own)).machine() is own
    with pytest.raises(SpecError, match="derived for arch gfx942, not for gfx950x"):
        open_source(pl.Source("gemm_tile", ("arch=gfx942",), arch=own))
