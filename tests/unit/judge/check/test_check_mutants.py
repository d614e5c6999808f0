"""A sample of `benchmarks/check_mutants.py`: the judge foresees what the emulator shows."""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks.check_kernels import CASES
from benchmarks.check_mutants import judge_both_ways


@pytest.mark.parametrize("name", ["by hand, one buffer", "by hand, two buffers"])
def test_every_weakening_is_foreseen(name: str) -> None:
    for wheel in ("ziglang", "tinygrad"):
        if importlib.util.find_spec(wheel) is None:
            pytest.skip(f"the {wheel} wheel is not installed")
    outcome = judge_both_ways(name, *CASES[name]())
    assert outcome.total > 10
    assert outcome.foreseen == outcome.total
    assert not outcome.missed
    assert not outcome.alarms
