"""A plugin of pytest: ``pytest --pipeloom-gate`` judges every kernel that Triton compiles.

The run fails with exit code 1 where a finding fails, after all tests have run. With pytest-xdist
every worker sends what it found. pytest loads this file in every run, so the rest is loaded only
with the flag.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin; without the first it does nothing."""
    group = parser.getgroup("pipeloom")
    group.addoption(
        "--pipeloom-gate", action="store_true", help="judge every kernel that Triton compiles"
    )
    group.addoption("--pipeloom-fail-on", default="race,not-judged", help="as pipeloom scan")
    group.addoption("--pipeloom-ignore", action="append", default=[], help="as pipeloom scan")
    group.addoption("--pipeloom-baseline", default=None, help="as pipeloom scan")
    group.addoption("--pipeloom-sarif", default=None, help="write the findings for code scanning")


def pytest_configure(config: pytest.Config) -> None:
    """Load the rest."""
    if config.getoption("--pipeloom-gate"):
        config.pluginmanager.import_plugin("pipeloom.cli.pytest_gate_run")
