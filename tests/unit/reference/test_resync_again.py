"""Synchronising an equal schedule again gives the same one."""

from pipeloom import build_schedule


def test_an_equal_schedule_is_carried_back_too() -> None:
    """Results are kept by value, so the steps of the second are not those that were lifted."""
    spec = {"schedule": "single_buffer", "geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2}}
    first, second = (build_schedule(spec, sync="repaired", reorder=True) for _ in range(2))
    assert first.kernel == second.kernel
