"""What all tests share: a store of derived programs of their own, fresh in every session."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is taken from, or left in, the user's own cache; workers share one."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    os.environ["PIPELOOM_STORE"] = str(shared / "store")
