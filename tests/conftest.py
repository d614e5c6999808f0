"""What all tests share: drawn examples, a store of derived programs, a calm garbage collector."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

import tests.own_asserts  # noqa: F401, before anything of the package

# There is a worker for each core: threads of BLAS would only wait for each other, and busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pipeloom.device.hip import Hip
from pipeloom.drive import deriving
from pipeloom.order import patterns
from tests.standin.build import StandIn

# The same examples on every machine and in every run; HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the results in tests/golden/kernels"
    )


def pytest_collection_finish() -> None:
    """Thousands of collected tests are not garbage: nobody need look at them again and again.

    Collecting young objects less often saves a sixth of the suite's time besides; they are freed
    by counting, and what few cycles there are can wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is taken from, or left in, the user's own cache; workers share one."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    os.environ["PIPELOOM_STORE"] = str(shared / "store")
    os.environ["PIPELOOM_PROGRESS"] = "off"  # lines that come after some time are no test's


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that want a derived program, and not the fastest: structures are not varied, and
    those of loops that are shared out are few."""
    monkeypatch.setattr(deriving, "VARIED", 0)
    monkeypatch.setattr(patterns, "LOADED", patterns.LOADED[:1])


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """The stand-in for HIP, compiled once for all workers, with an emulator of this one's own."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with StandIn.start(shared) as started:
        yield started


@pytest.fixture
def hip(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hip]:
    """HIP as a test finds it: three devices, nothing loaded; and what was allocated is freed."""
    for name, value in standin.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Hip, "_opened", {})
    assert ctypes.CDLL(str(standin.library)).hipDeviceReset() == 0
    found = Hip.open()
    yield found
    monkeypatch.delenv("PIPELOOM_STANDIN_FAIL", raising=False)
    found.library.hipDeviceReset()
