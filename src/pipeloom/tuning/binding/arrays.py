"""Arrays of anyone with DLPack, as kernels see them: address, sizes, and how far rows are apart."""

from __future__ import annotations

import ctypes
from typing import Any

CPU, ROCM = 1, 10
"""DLPack's devices: memory of the host, and of a ROCm GPU."""
TYPES = {
    (2, 16): "fp16",
    (4, 16): "bf16",
    (2, 32): "f32",
    (10, 8): "fp8",
    (11, 8): "fp8_fnuz",
    (12, 8): "bf8",
    (13, 8): "bf8_fnuz",
    (14, 8): "e8m0",
    (17, 4): "fp4",
}
"""DLPack's (code, bits)."""
BITS = {name: bits for (_, bits), name in TYPES.items()}
UNSIGNED = 1


class LibraryError(Exception):
    """A product that the library cannot compute, or a HIP call that failed."""


class MatrixView:
    """Two or three dimensions of something with DLPack: address, rows, columns, batches, and the
    elements between rows and batches."""

    def __init__(self, array: Any, name: str, dtype: str | None) -> None:
        self.device = int(array.__dlpack_device__()[0])
        self._owner = array.__dlpack__()  # keeps the memory alive
        tensor = _tensor(self._owner)
        if tensor.ndim not in (2, 3):
            raise LibraryError(f"{name} has {tensor.ndim} dimensions, not 2 or 3")
        pairs = tensor.lanes if tensor.bits == 4 else 1
        if tensor.lanes != pairs:
            raise LibraryError(f"{name} has elements of {tensor.lanes} lanes")
        first = tensor.ndim - 2
        self.batches = int(tensor.shape[0]) if first else 1
        self.rows, self.columns = (int(tensor.shape[first + axis]) for axis in (0, 1))
        self.pitch, step = self.columns, 1
        self.stride = self.rows * self.columns if first else 0
        if tensor.strides:
            self.pitch, step = (int(tensor.strides[first + axis]) for axis in (0, 1))
            self.stride = int(tensor.strides[0]) if first else 0
        if self.rows <= 1:
            self.pitch = max(self.pitch, self.columns)
        if (step != 1 and self.columns > 1) or self.pitch < self.columns:
            raise LibraryError(
                f"the rows of {name} are not contiguous: strides {self.pitch}, {step}"
            )
        self.dtype = TYPES.get((tensor.code, tensor.bits), "")
        if dtype is not None and dtype != self.dtype:
            bits = BITS.get(dtype, 0)
            if tensor.code != UNSIGNED or max(bits, 8) != tensor.bits:
                raise LibraryError(f"{name} is not {dtype}")
            self.dtype, pairs = dtype, tensor.bits // bits
        if not self.dtype:
            raise LibraryError(
                f"{name} has elements of DLPack type {tensor.code}, {tensor.bits} bits: say dtype="
            )
        self.bits = BITS[self.dtype]
        self.columns, self.pitch = self.columns * pairs, self.pitch * pairs
        self.stride *= pairs
        self.address = int(tensor.data or 0) + int(tensor.byte_offset)

    def aligned(self, count: int) -> bool:
        """Whether rows and batches begin at multiples of so many bytes."""
        steps = [self.pitch] * (self.rows > 1) + [self.stride] * (self.batches > 1)
        return self.address % count == 0 and all(s * self.bits % (8 * count) == 0 for s in steps)

    @property
    def size(self) -> int:
        """Bytes of all batches, where they follow each other."""
        return self.batches * self.stride * self.bits // 8


class Vector(MatrixView):
    """Numbers of f32, the same for every batch."""

    def __init__(self, array: Any, name: str, length: int) -> None:
        super().__init__(_Row(array), name, None)
        if (self.rows, self.columns, self.dtype) != (1, length, "f32"):
            raise LibraryError(f"{name} must be {length} numbers of f32")


class _Row:
    """An array of one dimension as a matrix of one row."""

    def __init__(self, array: Any) -> None:
        self._array = array[None]

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __dlpack__(self) -> Any:
        return self._array.__dlpack__()


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def _tensor(capsule: object) -> Any:
    """What a capsule points to; one that is never taken out of it frees itself."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return _Tensor.from_address(pointer_of(capsule, b"dltensor"))
