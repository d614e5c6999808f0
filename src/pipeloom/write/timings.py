"""What a timed kernel recorded: cycles per trip, the clock, and where each wave ran.

    timings = read_timings(records, emitted.timing)      # after the launch
    timings.cycles_per_trip, timings.clock_mhz, timings.placement

The shader clocks of different XCCs do not agree, so that only times of one wave are subtracted from
each other; across waves it is the constant clock, of 100 MHz on gfx942 and gfx950, that compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.errors import ConfigError
from pipeloom.write.lower.wave_clocks import (
    AFTER,
    BEGIN,
    BEGIN_CONSTANT,
    END,
    END_CONSTANT,
    HW_ID,
    LEFT,
    LOOP,
    RECORD_WORDS,
    STEP,
    XCC_ID,
    TimingRecord,
)

Numbers = npt.NDArray[np.int64]

CONSTANT_MHZ = 100.0
"""Of ``s_memrealtime`` on gfx942 and gfx950; hipDeviceAttributeWallClockRate says it in kHz."""


@dataclass(frozen=True)
class WaveTimings:
    """The records of all waves of a launch; arrays have one number per wave."""

    waves: int
    """Waves of a workgroup."""
    words: npt.NDArray[np.uint32]
    """The records, one row per wave, as the kernel stored them."""
    constant_mhz: float = CONSTANT_MHZ
    """The rate of the constant clock."""

    @cached_property
    def prologue(self) -> Numbers:
        """Cycles from a wave's begin to its loop; to the loop's end where it did not loop."""
        end = np.where(self.trips > 0, self._clock(LOOP), self._clock(AFTER))
        return end - self._clock(BEGIN)

    @cached_property
    def loop(self) -> Numbers:
        """Cycles in the loop; 0 where it was not entered."""
        return np.where(self.trips > 0, self._clock(AFTER) - self._clock(LOOP), 0)

    @cached_property
    def epilogue(self) -> Numbers:
        """Cycles from the loop's end until all that the wave stores is stored."""
        return self._clock(END) - self._clock(AFTER)

    @cached_property
    def total(self) -> Numbers:
        """Cycles from begin to end."""
        return self._clock(END) - self._clock(BEGIN)

    @cached_property
    def trips(self) -> Numbers:
        """Trips of the loop, by the elements that were left at its begin."""
        left = self.words[:, LEFT].astype(np.int32).astype(np.int64)
        step = np.maximum(self.words[:, STEP].astype(np.int64), 1)
        return np.maximum(-(-left // step), 0)

    @property
    def cycles_per_trip(self) -> float:
        """The median over the waves that looped; 0 where none did."""
        looped = self.trips > 0
        return float(np.median(self.loop[looped] / self.trips[looped])) if looped.any() else 0.0

    @property
    def clock_mhz(self) -> float | None:
        """The shader clock against the constant one, median over the waves; None if too short."""
        ticks = self._clock(END_CONSTANT) - self._clock(BEGIN_CONSTANT)
        long = ticks > 0
        if not long.any():
            return None
        return float(np.median(self.total[long] / ticks[long])) * self.constant_mhz

    @property
    def microseconds(self) -> float:
        """From the first wave's begin to the last one's end, by the constant clock."""
        begin, end = self._clock(BEGIN_CONSTANT), self._clock(END_CONSTANT)
        return float(end.max() - begin.min()) / self.constant_mhz

    @property
    def placement(self) -> Mapping[tuple[int, int, int], int]:
        """Waves by XCC, shader engine and compute unit (HW_ID: CU in bits 8-11, SE in 13-14)."""
        where, xcc = self.words[:, HW_ID], self.words[:, XCC_ID] & 15
        units = zip(
            xcc.tolist(), (where >> 13 & 3).tolist(), (where >> 8 & 15).tolist(), strict=True
        )
        return dict(sorted(Counter(units).items()))

    def _clock(self, word: int) -> Numbers:
        pair = self.words[:, word : word + 2].astype(np.uint64)
        return (pair[:, 0] | pair[:, 1] << np.uint64(32)).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        units = self.placement
        return {
            "waves": len(self.words),
            "cycles_per_trip": round(self.cycles_per_trip, 2),
            "trips": [int(self.trips.min()), int(self.trips.max())],
            "prologue": float(np.median(self.prologue)),
            "epilogue": float(np.median(self.epilogue)),
            "total": float(np.median(self.total)),
            "clock_mhz": None if (mhz := self.clock_mhz) is None else round(mhz, 1),
            "microseconds": round(self.microseconds, 3),
            "compute_units": len(units),
            "xccs": len({xcc for xcc, _, _ in units}),
        }


def read_timings(
    records: npt.NDArray[Any] | bytes, timing: TimingRecord, constant_mhz: float = CONSTANT_MHZ
) -> WaveTimings:
    """The records that a launch of a timed kernel stored.

    Args:
        records: The buffer after the launch.
        timing: The kernel's ``timing``.
        constant_mhz: The rate of the constant clock.
    """
    data = records if isinstance(records, bytes) else np.ascontiguousarray(records).tobytes()
    size = 4 * RECORD_WORDS * timing.waves
    if not data or len(data) % size:
        raise ConfigError(
            f"{len(data)} bytes are no records of workgroups of {timing.waves} waves",
            hint=f"pass the whole buffer: {size} bytes per workgroup",
            field="records",
        )
    words = np.frombuffer(data, np.uint32).reshape(-1, RECORD_WORDS)
    found = WaveTimings(timing.waves, words, constant_mhz)
    if not found._clock(END).all():
        missing = int((found._clock(END) == 0).sum())
        raise ConfigError(
            f"{missing} of {len(words)} waves stored no record",
            hint="the launch must be of the timed kernel, and over before the buffer is read",
            field="records",
        )
    return found
