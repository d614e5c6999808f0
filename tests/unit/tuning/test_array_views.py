"""Arrays of others, as a library sees them: their types by DLPack's numbers, their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.tuning.binding.arrays import LibraryError, MatrixView, _tensor

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
        return self._array.__dlpack_device__()

    def __dlpack__(self) -> Any:
        capsule = self._array.__dlpack__()
        tensor = _tensor(capsule)
        tensor.code, tensor.byte_offset = self._code, self._offset
        return capsule


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_types_by_the_numbers_of_dlpack(name: str, code: tuple[int, int]) -> None:
    array = np.zeros((4, 6), {8: np.uint8, 16: np.uint16, 32: np.uint32}[code[1]])
    view = MatrixView(Typed(array, code[0]), "A", None)
    assert (view.dtype, view.rows, view.columns, view.pitch) == (name, 4, 6, 6)
    assert view.address == array.ctypes.data


@pytest.mark.parametrize("name", ["bf16", "fp8", "e8m0", "fp4"])
def test_bytes_may_be_of_any_type_that_is_as_wide(name: str) -> None:
    wide = np.zeros((4, 6), np.uint16 if name == "bf16" else np.uint8)
    each = 2 if name == "fp4" else 1
    view = MatrixView(wide, "A", name)
    assert (view.dtype, view.columns, view.pitch) == (name, 6 * each, 6 * each)
    with pytest.raises(LibraryError, match="A is not"):
        MatrixView(np.zeros((4, 6), np.uint32), "A", name)


def test_an_offset_counts_from_where_the_data_begin() -> None:
    array = np.zeros((4, 6), np.float32)
    view = MatrixView(Typed(array, 2, 64), "A", None)
    assert view.address == array.ctypes.data + 64
