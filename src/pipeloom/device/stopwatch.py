"""How long launches take, by HIP's events: each between two of them, on one stream.

    times = timed_launches(hip, 0, [first, second], runs=100, warm_up=10)
    TimeSpread.of(times)                  # median, p20, p80 and minimum, in microseconds

Launches go over several sets of arrays in turn, so that none finds its data in a cache because the
launch before left them there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .hip import Hip


@dataclass(frozen=True, slots=True)
class TimeSpread:
    """Times of many launches, in microseconds."""

    runs: int
    """How many were timed."""
    median: float
    """Half of them took less."""
    p20: float
    """A fifth took less."""
    p80: float
    """Four fifths took less."""
    least: float
    """The shortest."""

    @classmethod
    def of(cls, times: Sequence[float]) -> TimeSpread:
        """Of times in microseconds, at least one.

        Args:
            times: One for every launch.
        """
        ordered = sorted(times)

        def at(share: float) -> float:
            place = share * (len(ordered) - 1)
            low = int(place)
            high = min(low + 1, len(ordered) - 1)
            return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

        return cls(len(ordered), at(0.5), at(0.2), at(0.8), ordered[0])


def timed_launches(
    hip: Hip,
    device: int,
    launches: Sequence[Callable[[], None]],
    *,
    runs: int,
    warm_up: int,
    apart: bool = False,
    track: Callable[[int], None] | None = None,
) -> list[float]:
    """Microseconds of each of ``runs`` launches on the default stream, taken in turn.

    Back to back, or with ``apart`` each after the one before is over: then the time of a launch
    counts too.
    """
    with hip.on(device):
        for number in range(warm_up):
            launches[number % len(launches)]()
        hip.call("hipDeviceSynchronize")
        marks = [hip.handle("hipEventCreate") for _ in range(2 * runs)]
        try:
            for number in range(runs):
                if track is not None:
                    track(number)
                hip.call("hipEventRecord", marks[2 * number], None)
                launches[number % len(launches)]()
                hip.call("hipEventRecord", marks[2 * number + 1], None)
                if apart:
                    hip.call("hipEventSynchronize", marks[2 * number + 1])
            hip.call("hipDeviceSynchronize")
            return [1000 * _elapsed(hip, *marks[2 * n : 2 * n + 2]) for n in range(runs)]
        finally:
            for mark in marks:
                hip.library.hipEventDestroy(mark)


def _elapsed(hip: Hip, first: int, last: int) -> float:
    found = ctypes.c_float()
    hip.call("hipEventElapsedTime", ctypes.byref(found), first, last)
    return found.value
