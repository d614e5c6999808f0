"""Bounds of what workgroups add up: against all orders of the terms, in f32."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from pipeloom.program.added_outputs import EXACT, HELD, UNIT, add, bounds_of, widened


def test_sums_that_are_added_hold_in_any_order() -> None:
    """Where they are exact and where they round, of numbers around the last whole ones of f32."""
    assert np.finfo(np.float32).eps == 2 * UNIT
    for seed in range(200):
        rng = np.random.default_rng(seed)
        terms = rng.integers(-3, 4, 4) * 2.0 ** rng.integers(-2, 24, 4)
        bounds = np.zeros(1, HELD)
        add(bounds, ..., bounds_of(terms[:1], terms[:1]))
        for one in terms[1:]:
            add(bounds, ..., bounds_of(np.array([one]), np.array([one])))
        widened(bounds)
        found = {float(_added_in(order)) for order in permutations(terms)}
        low, high = bounds["low"][0], bounds["high"][0]
        assert low <= min(found) <= max(found) <= high
        if np.abs(terms).sum() < EXACT and (terms == np.rint(terms)).all():
            assert low == high


def _added_in(order: tuple[float, ...]) -> np.float32:
    total = np.float32(0)
    for one in order:
        total = np.float32(total + np.float32(one))
    return total
