# The public names: `__init__.py` reads this file.
from .measurements import (
    MeasuredStream as MeasuredStream,
    Measurement as Measurement,
    read_measurements as read_measurements,
)
from .refitting import (
    Calibration as Calibration,
    Constant as Constant,
    calibrate as calibrate,
)
