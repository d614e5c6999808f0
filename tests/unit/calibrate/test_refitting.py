"""Refits: the model's own figures with noise give the constants back, and wrong ones are found."""

from __future__ import annotations

import numpy as np
import pytest

from pipeloom.calibrate import Calibration, MeasuredStream, calibrate
from pipeloom.calibrate.probes import PROBES
from pipeloom.calibrate.refitting import RANGES, descend, points, refine
from pipeloom.errors import ConfigError
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target

NOISE = 0.03
QUICK = ("branch", "branch_long", "wait", "nop", "exp", "valu_chain", "barrier_alone", "lds_read")
ASKED = (
    *("branch_cycles", "wait_cycles", "nop_cycles_per_count", "trans_cycles", "lds_latency"),
    *("valu_dependent_cycles", "barrier_alone_cycles", "global_latency"),
)
QUICK_RANGES = tuple(one for one in RANGES if one[0] in ASKED)


def measured(true: Target, seed: int, ids: tuple[str, ...] = QUICK) -> list[MeasuredStream]:
    """What a chip with these constants would take, each figure off by some 3 %."""
    rng = np.random.default_rng(seed)
    return [
        probe.measured(
            true.arch, probe.modelled(true) * (1 + NOISE * rng.standard_normal()), "simulated"
        )
        for probe in PROBES
        if probe.id in ids
    ]


def changed(**values: float) -> Target:
    target = GFX950
    for name, value in values.items():
        target = target.with_value(name, value, "wrong on purpose")
    return target


def inside(found: Calibration, true: Target) -> bool:
    facts = dict(true.facts())
    return all(
        one.low <= facts[name].value <= one.high
        for name, one in found.constants.items()
        if one.determined
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_constants_come_back_within_their_intervals(seed: int) -> None:
    found = calibrate(measured(GFX950, seed), GFX950, QUICK_RANGES)
    assert found.changed == ()
    assert inside(found, GFX950)
    assert set(found.determined) == {one[0] for one in QUICK_RANGES} - {"global_latency"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"lds_latency": 100, "branch_cycles": 32},
        {"barrier_alone_cycles": 40, "valu_dependent_cycles": 12},
        {"trans_cycles": 12, "wait_cycles": 8},
    ],
    ids=lambda wrong: " and ".join(wrong),
)
def test_two_wrong_constants_are_found(wrong: dict[str, float]) -> None:
    true = changed(**wrong)
    found = calibrate(measured(true, 5), GFX950, QUICK_RANGES)
    assert set(found.changed) == set(wrong)
    assert inside(found, true)
    assert max(map(abs, found.after.values())) < 4 * NOISE < max(map(abs, found.before.values()))


def test_what_no_loop_depends_on_is_not_determined() -> None:
    found = calibrate(measured(GFX950, 1, ("branch", "nop")), GFX950, QUICK_RANGES)
    unknown = found.constants["lds_latency"]
    assert not unknown.determined
    assert unknown.loops == ()
    assert found.target.lds_latency == GFX950.lds_latency


def test_two_constants_that_one_loop_mixes_have_wide_intervals() -> None:
    """The read's latency and the wait behind it are a sum: alone, the loop tells neither."""
    ranges = tuple(one for one in QUICK_RANGES if one[0] in ("lds_latency", "branch_cycles"))
    alone = calibrate(measured(GFX950, 1, ("branch", "lds_read")), GFX950, ranges)
    with_more = calibrate(measured(GFX950, 1, (*QUICK,)), GFX950, ranges)
    for name in ("lds_latency", "branch_cycles"):
        assert alone.constants[name].low <= with_more.constants[name].value
    assert with_more.constants["branch_cycles"].determined


def test_too_little_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 loops"):
        calibrate(measured(GFX950, 1, ("nop",)), GFX950)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two measurements are called 'nop'"):
        calibrate(measured(GFX950, 1) + measured(GFX950, 2, ("nop",)), GFX950)


def test_every_probe_runs_in_the_model_and_is_for_a_constant_that_exists() -> None:
    known = {name for name, _, _ in RANGES}
    assert known <= {name for name, _ in GFX950.facts()}
    for probe in PROBES:
        assert probe.modelled(GFX950) > 0
        assert set(probe.tells) <= known


def test_descent_finds_the_least_of_a_bowl() -> None:
    ranges = (("a", 0.0, 100.0), ("b", 0.0, 10.0))

    def bowl(values: tuple[tuple[str, float], ...]) -> float:
        of = dict(values)
        return (of["a"] - 37) ** 2 + (of["b"] - 4) ** 2

    coarse, _ = descend(bowl, {"a": 0.0, "b": 0.0}, ranges)
    fine, least = refine(bowl, coarse, ranges)
    assert abs(fine["a"] - 37) <= 2
    assert fine["b"] == 4.0
    assert least <= 4
    assert points(3, 4, 9) == (3.0, 4.0)
