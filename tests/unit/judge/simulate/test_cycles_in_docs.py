"""Cycles that pages state by hand are those that the simulator gives today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from pipeloom import build_schedule, verify
from pipeloom.drive.programs import simulate
from pipeloom.reference.compiler import Sync

ROOT = Path(__file__).parents[4]
TILES = {
    "bf16": {"BK": 64, "MMA_K": 32, "elem_bytes": 2},
    "fp8": {"BK": 128, "MMA_K": 128, "elem_bytes": 1},
}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_what_a_proof_costs() -> None:
    """docs/verdicts.md has the table of benchmarks/bench_repair.py."""
    spec = importlib.util.spec_from_file_location(
        "bench_repair", ROOT / "benchmarks" / "bench_repair.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert "\n".join(module.rows()) in page("verdicts.md")


@pytest.mark.parametrize("name", ["four_wave", "ping_pong"])
def test_orders_beside_the_modulo_schedule(name: str) -> None:
    """The simulated columns of docs/modulo.md, per K tile."""
    shown = {
        tuple(cells[:2]): cells[-2:]
        for line in page("modulo.md").splitlines()
        if (cells := [cell.strip() for cell in line.strip("| ").split("|")])
        and cells[0].startswith(("four-wave", "ping-pong"))
    }
    words = name.replace("_", "-")
    ways: tuple[tuple[str, Sync], ...] = (
        (f"{words}, specification's waits", "reference"),
        (f"{words}, proven waits", "proven"),
    )
    for row, sync in ways:
        for number, tile in enumerate(TILES.values()):
            spec = {"schedule": name, "geometry": tile}
            compiled = build_schedule(spec, sync=sync, reorder=sync == "proven")
            per_tile = simulate(compiled, k_tiles=34).steady_cycles_per_iteration / 2
            assert shown[row, verify(compiled).status.name][number] == f"{per_tile:.0f}", row
