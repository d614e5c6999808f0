"""What arrays hold, by name: one alias for each, for all who take or give them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Numbers of any type."""
Flags = NDArray[np.bool_]
"""Whether, of each."""
Words = NDArray[np.uint32]
"""32 bits: registers, lane by lane, and what lies in memory."""
Octets = NDArray[np.uint8]
"""Bytes."""
Places = NDArray[np.int64]
"""Addresses, offsets and positions."""
Indices = NDArray[np.intp]
"""What picks elements of another array, such as lanes."""
