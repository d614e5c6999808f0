"""Synchronised schedules and emitted kernels, made once per session."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.drive.trial import Launchable
from pipeloom.reference.compiled import CompiledSchedule
from tests.unit.write.kernels import built_kernel, proved_schedule


@pytest.fixture(scope="session")
def proved() -> Callable[..., CompiledSchedule]:
    """``proved(name, dtype, shape)``."""
    return proved_schedule


@pytest.fixture(scope="session")
def built() -> Callable[..., Launchable]:
    """``built(name, dtype, shape, target, out_dtype)``."""
    return built_kernel
