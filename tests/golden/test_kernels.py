"""Small kernels are made, judged, timed and written as they were: the net under every change.

Besides, what is said of random programs, and of times on whole GPUs.

    pytest tests/golden/test_kernels.py --update-golden

A file of ``kernels/`` holds what ``benchmarks.kernel_results`` gives of one kernel. A change that
alters none of them has kept what the package does. One that is meant to writes the files anew with
the line above, and its commit says why: a faster loop, a wait less, a bug that is gone. What
differs is then read in the commit's diff, kernel by kernel.

Nothing here depends on the machine or the time it has. It does depend on the solver: its version
is the one of the lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kernel_results import results
from pipeloom.drive.store import OFF, VARIABLE
from tests.golden.rows.checked import checked_rows, looping_rows
from tests.golden.rows.damaged import damaged_modulo_rows, damaged_rows
from tests.golden.rows.judged import judged_rows, meaning_rows
from tests.golden.rows.loops import lowered_rows, woven_rows
from tests.golden.rows.machine import bank_rows, stream_rows, wait_state_rows
from tests.golden.rows.meanings import value_range_rows
from tests.golden.rows.modulo import modulo_rows
from tests.golden.rows.modulo_parts import modulo_part_rows
from tests.golden.rows.parts import (
    cost_rows,
    layout_rows,
    load_rows,
    op_rows,
    placing_rows,
)
from tests.golden.rows.places import place_rows, value_rows
from tests.golden.rows.reference import body_rows, schedule_rows
from tests.golden.rows.reference_parts import instruction_rows, step_rows, tile_shape_rows
from tests.golden.rows.synchronised import sync_rows
from tests.golden.rows.tiles import FAMILIES, tile_rows
from tests.golden.rows.tuned import asked_rows, tuned_rows
from tests.golden.small_kernels import SMALL
from tests.golden.tables import random_verdicts, whole_gpu

KEPT = Path(__file__).with_name("kernels")
WANTED: Mapping[str, Callable[[], Any]] = {
    **{name: partial(lambda make: results(make()), make) for name, make in SMALL.items()},
    "random programs": random_verdicts,
    "whole GPUs": whole_gpu,
    "drawn modulo loops": modulo_rows,
    "drawn settings of schedules": schedule_rows,
    "drawn bodies": body_rows,
    "drawn programs judged": judged_rows,
    "changed programs": damaged_rows,
    "changed modulo problems": damaged_modulo_rows,
    "weakened kernels checked": checked_rows,
    "looping kernels checked": looping_rows,
    "tuned for drawn costs": tuned_rows,
    "what tuning is asked": asked_rows,
    "drawn streams": stream_rows,
    "bank conflicts": bank_rows,
    "wait states": wait_state_rows,
    "costs of instructions": cost_rows,
    "layouts of tiles": layout_rows,
    "loads of tiles": load_rows,
    "places and boxes": placing_rows,
    "numbers of ops": op_rows,
    "declarations past their ends": meaning_rows,
    "small loops as tasks": lowered_rows,
    "small loops woven": woven_rows,
    "drawn programs synchronised": sync_rows,
    "values behind ends": value_range_rows,
    "parts of the modulo scheduler": modulo_part_rows,
    "changed schedules": step_rows,
    "tiles of schedules": tile_shape_rows,
    "instructions of schedules": instruction_rows,
    "tiles that lie elsewhere": place_rows,
    "values of tiles that lie elsewhere": value_rows,
    **{f"drawn tiles {family}": partial(tile_rows, family) for family in FAMILIES},
}
REMEDY = (
    "if that is meant: pytest tests/golden/test_kernels.py --update-golden, and why in the commit"
)


def kept_in(name: str) -> Path:
    """The file of a kernel's results."""
    return KEPT / f"{name.replace(' ', '-')}.json"


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """What is no longer as it was, field by field; a row more, of what is new, changes none."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in before or now:
            yield from differences(before.get(key), now.get(key), f"{place}{key}: ")
    elif before != now:
        yield f"{place}was {before}, is {now}"


@pytest.mark.parametrize("name", WANTED)
def test_results_are_as_they_were(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv(VARIABLE, OFF)
    now = json.loads(json.dumps(WANTED[name]()))
    file = kept_in(name)
    if request.config.getoption("--update-golden"):
        file.write_text(json.dumps(now, indent=1) + "\n", "utf-8")
        return
    before = json.loads(file.read_text("utf-8")) if file.exists() else {}
    found = list(differences(before, now))
    assert not found, "\n".join([f"{name} has changed:", *found, REMEDY])


def test_every_file_is_of_a_kernel(request: pytest.FixtureRequest) -> None:
    stale = set(KEPT.glob("*.json")) - {kept_in(name) for name in WANTED}
    if request.config.getoption("--update-golden"):
        for file in stale:
            file.unlink()
        return
    assert not stale, REMEDY
