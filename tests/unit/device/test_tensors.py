"""Arrays of others, as launches see them: their types by DLPack's numbers, their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.device.hip_errors import DeviceError
from pipeloom.device.laid_arrays import ArrayRule, laid_array
from pipeloom.device.tensors import CPU, _tensor, view_of

# dlpack.h: kDLFloat, kDLBfloat, kDLFloat8_e4m3fn, ..._e4m3fnuz, ..._e5m2, ..._e5m2fnuz,
# kDLFloat8_e8m0fnu
CODES = {
    "fp16": (2, 16),
    "bf16": (4, 16),
    "f32": (2, 32),
    "fp8": (10, 8),
    "fp8_fnuz": (11, 8),
    "bf8": (12, 8),
    "bf8_fnuz": (13, 8),
    "e8m0": (14, 8),
}


class Typed:
    """An array of NumPy under another type, or ``offset`` bytes further on."""

    def __init__(self, array: Any, code: int, offset: int = 0) -> None:
        self._array, self._code, self._offset = array, code, offset

    def __dlpack_device__(self) -> Any:
        return CPU, 0

    def __dlpack__(self) -> Any:
        capsule = self._array.__dlpack__()
        tensor = _tensor(capsule)
        tensor.code, tensor.byte_offset = self._code, self._offset
        return capsule


def rule(dtype: str, bits: int) -> ArrayRule:
    return ArrayRule("A", 0, dtype, bits, ("m", "k"), (), 1, False, 1)


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_types_by_the_numbers_of_dlpack(name: str, code: tuple[int, int]) -> None:
    array = np.zeros((4, 6), {8: np.uint8, 16: np.uint16, 32: np.uint32}[code[1]])
    view = view_of(Typed(array, code[0]), "A")
    assert (view.dtype, view.shape, view.strides) == (name, (4, 6), (6, 1))
    assert view.address == array.ctypes.data
    assert view.on_host


@pytest.mark.parametrize(("name", "bits"), [("bf16", 16), ("fp8", 8), ("e8m0", 8), ("fp4", 4)])
def test_codes_may_be_of_any_type_that_is_as_wide(name: str, bits: int) -> None:
    wide = np.zeros((4, 6), np.uint16 if name == "bf16" else np.uint8)
    each = 2 if name == "fp4" else 1
    laid = laid_array(rule(name, bits), view_of(wide, "A"), False)
    assert (laid.sizes, laid.pitch) == ({"m": 4, "k": 6 * each}, 6 * each)
    with pytest.raises(DeviceError, match="A is uint32"):
        laid_array(rule(name, bits), view_of(np.zeros((4, 6), np.uint32), "A"), False)


def test_an_offset_counts_from_where_the_data_begin() -> None:
    array = np.zeros((4, 6), np.float32)
    view = view_of(Typed(array, 2, 64), "A")
    assert view.address == array.ctypes.data + 64
