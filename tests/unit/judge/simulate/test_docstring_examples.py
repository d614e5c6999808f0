"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from evidence import calibration
from pipeloom.judge.simulate import bank_conflicts, run_stream
from pipeloom.machine import facts


@pytest.mark.parametrize(
    "module", [bank_conflicts, calibration, run_stream, facts], ids=lambda m: m.__name__
)
def test_examples(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
