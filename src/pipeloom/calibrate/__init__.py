"""The constants of the model, refitted to measurements: which the data determine, and how well.

    fitted = calibrate(measurements, GFX950)
    fitted.constants["lds_latency"].value, .low, .high, .determined
    write_file("mine.toml", chip_text(GFX950, {"lds_latency": (72, "who measured it")}, "mine"))

``measurements`` is what was measured and how the model sees it, ``refitting`` finds values for
which the two agree, and says which constants the data contradict and which they cannot know,
``probes`` are the loops that determine most of them.
"""

from __future__ import annotations

from pipeloom.calibrate.measurements import MeasuredStream, Measurement, read_measurements
from pipeloom.calibrate.refitting import Calibration, Constant, calibrate

__all__ = [
    "Calibration",
    "Constant",
    "MeasuredStream",
    "Measurement",
    "calibrate",
    "read_measurements",
]
