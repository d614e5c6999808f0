"""Arrays of anyone as kernels see them: an address, sizes, strides, a type, and where they lie.

    view_of(a, "A")        # NumPy, PyTorch, CuPy, JAX: DLPack or __cuda_array_interface__

Types go by DLPack's codes. An array without a name for its type (NumPy's ``uint16`` for bf16,
``uint8`` for fp8 and for pairs of fp4) has the type that the kernel asks for, if the bits agree.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

from .hip_errors import DeviceError

CPU, CUDA, ROCM, ROCM_HOST = 1, 2, 10, 11
"""DLPack's devices: memory of the host, of a GPU (builds of PyTorch say either), and pinned."""
UNSIGNED = 1
TYPES = {
    (0, 8): "i8",
    (0, 32): "i32",
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
CODES = {name: key for key, name in TYPES.items()}
_TYPESTR = {"i": 0, "u": UNSIGNED, "f": 2}


@dataclass(frozen=True, slots=True)
class TensorView:
    """An array; ``strides`` are in its own elements, of which ``lanes`` share a code's place."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    code: int
    bits: int
    lanes: int
    on_host: bool
    device: int
    owner: object
    """Keeps the memory alive."""
    read_only: bool = False
    layout: tuple[object, ...] = field(init=False, repr=False)
    """All of it but the address: what a plan of launches depends on."""

    def __post_init__(self) -> None:
        kind = self.code, self.bits, self.lanes, self.on_host, self.device
        object.__setattr__(self, "layout", (self.shape, self.strides, kind))

    @property
    def dtype(self) -> str:
        """The element type by its name here; empty where it has none."""
        return TYPES.get((self.code, self.bits), "")

    @property
    def words(self) -> str:
        """Type and shape, for messages."""
        kinds = {0: "int", UNSIGNED: "uint", 2: "float"}
        plain = f"{kinds.get(self.code, f'DLPack type {self.code} of ')}{self.bits}"
        return f"{self.dtype or plain} of {' x '.join(map(str, self.shape)) or 'no dimensions'}"

    @property
    def bytes_to_end(self) -> int:
        """From the first element to behind the last."""
        if 0 in self.shape:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        last = sum((size - 1) * stride for size, stride in steps)
        return -(-(last + 1) * self.bits * self.lanes // 8)


def view_of(array: Any, name: str) -> TensorView:
    """The array as it lies; ``DeviceError`` for what has no address."""
    known = getattr(array, "view", None)
    if isinstance(known, TensorView):
        return known
    if hasattr(array, "data_ptr") and hasattr(array, "stride"):
        return _of_torch(array, name)
    described = getattr(array, "__cuda_array_interface__", None)
    if described is not None:
        return _described(array, described, name)
    if hasattr(array, "__array_interface__"):
        return _described(array, array.__array_interface__, name, on_host=True)
    if not hasattr(array, "__dlpack__"):
        raise DeviceError(
            f"{name} is a {type(array).__name__}",
            hint="pass a NumPy array, a tensor of PyTorch, or anything with DLPack",
            field=name,
        )
    kind, device = (int(one) for one in array.__dlpack_device__())
    if kind not in (CPU, CUDA, ROCM, ROCM_HOST):
        raise DeviceError(
            f"{name} lies on a device of DLPack's kind {kind}",
            hint="move it to a ROCm GPU, or to the host",
            field=name,
        )
    try:
        capsule = array.__dlpack__()
    except (BufferError, RuntimeError, TypeError) as error:
        raise DeviceError(f"{name} gives no DLPack: {error}", field=name) from error
    tensor = _tensor(capsule)
    shape = tuple(int(tensor.shape[axis]) for axis in range(tensor.ndim))
    strides = contiguous(shape)
    if tensor.strides:
        strides = tuple(int(tensor.strides[axis]) for axis in range(tensor.ndim))
    return TensorView(
        int(tensor.data or 0) + int(tensor.byte_offset),
        shape,
        strides,
        int(tensor.code),
        int(tensor.bits),
        int(tensor.lanes),
        kind == CPU,
        device,
        (array, capsule),
    )


def _of_torch(tensor: Any, name: str) -> TensorView:
    """PyTorch's, without DLPack: that refuses tensors with a gradient, and other devices."""
    kind = str(tensor.dtype).removeprefix("torch.")
    where = tensor.device
    if kind not in _TORCH or where.type not in ("cpu", "cuda"):
        raise DeviceError(
            f"{name} is {tensor.dtype} on {where}",
            hint="move it to the GPU (cuda), or to the host, as a type that kernels have",
            field=name,
        )
    if has_negative_bit(tensor):
        raise DeviceError(
            f"{name} is a negative view, whose memory has the other sign",
            hint="pass x.resolve_neg()",
            field=name,
        )
    code, bits, lanes = _TORCH[kind]
    return TensorView(
        int(tensor.data_ptr()),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        code,
        bits,
        lanes,
        where.type == "cpu",
        int(where.index or 0),
        tensor,
    )


def has_negative_bit(tensor: Any) -> bool:
    """Whether a tensor of PyTorch stands for the negative of what lies in memory."""
    asked = getattr(tensor, "is_neg", None)
    return bool(asked is not None and asked())


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array without gaps, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _described(
    array: Any, described: dict[str, Any], name: str, on_host: bool = False
) -> TensorView:
    """By the interface of NumPy, or that of Numba and CuPy, which has the same fields."""
    kind, size = described["typestr"][1], 0
    if kind == "V" or kind in _TYPESTR:
        size = int(described["typestr"][2:])
    if kind == "V":  # ml_dtypes name their types by themselves
        known = _ML_DTYPES.get(str(getattr(array, "dtype", "")))
        code = CODES.get(known or "", (UNSIGNED, 8 * size))[0]
    elif kind in _TYPESTR:
        code = _TYPESTR[kind]
    else:
        raise DeviceError(
            f"{name} has elements of NumPy's type {described['typestr']}",
            hint="pass numbers, or their codes as unsigned integers",
            field=name,
        )
    if described["typestr"][0] == ">":
        raise DeviceError(f"{name} is big-endian", hint="pass x.astype('<...')", field=name)
    shape = tuple(map(int, described["shape"]))
    strides = described.get("strides")
    if strides is not None and any(int(s) % size for s in strides):
        raise DeviceError(
            f"{name} has elements of {size} bytes that begin every {min(strides)} bytes",
            hint="strides are whole elements: pass np.ascontiguousarray(x)",
            field=name,
        )
    in_elements = contiguous(shape) if strides is None else tuple(int(s) // size for s in strides)
    address, read_only = described["data"]
    where = getattr(array, "device", 0)
    device = 0 if on_host else int(getattr(where, "id", where) or 0)
    return TensorView(
        int(address or 0),
        shape,
        in_elements,
        code,
        8 * size,
        1,
        on_host,
        device,
        array,
        bool(read_only),
    )


_ML_DTYPES = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "bf8",
    "float8_e4m3fnuz": "fp8_fnuz",
    "float8_e5m2fnuz": "bf8_fnuz",
    "float8_e8m0fnu": "e8m0",
}
"""The types that the package ml_dtypes adds to NumPy, and PyTorch has by the same names."""
_TORCH = {
    **{name: (*CODES[known], 1) for name, known in _ML_DTYPES.items()},
    "float4_e2m1fn_x2": (*CODES["fp4"], 2),
    "float16": (*CODES["fp16"], 1),
    "float32": (*CODES["f32"], 1),
    **{f"uint{bits}": (UNSIGNED, bits, 1) for bits in (8, 16, 32)},
    **{f"int{bits}": (0, bits, 1) for bits in (8, 32)},
}
"""DLPack's code, bits and lanes of PyTorch's types."""
TORCH_TYPES = {
    TYPES[code, bits]: name for name, (code, bits, _) in _TORCH.items() if code != UNSIGNED
}
"""PyTorch's types by their names here."""


class _DLTensor(ctypes.Structure):
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
    return _DLTensor.from_address(pointer_of(capsule, b"dltensor"))
