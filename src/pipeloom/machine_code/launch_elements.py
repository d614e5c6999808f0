"""Elements of launch files: types by name, numbers to arrays and back, arrays from files.

    stored(np.ones(4), "fp4", (4,))          # two bytes: 4-bit codes, low bits first
    numbers(array, "bf16", (4,))             # what they are, as float32
    read_array("q.npy", "bf16")

An array of a type that NumPy lacks holds bit patterns; those of less than a byte are packed.
"""

from __future__ import annotations

import ast
import math
import os

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.errors import SpecError
from pipeloom.files import read_file, reading
from pipeloom.machine.dtypes import DTYPES

NUMPY_TYPES = {
    **{f"{kind}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)},
    "f32": "f4",
    "f64": "f8",
    "fp16": "f2",
    "f16": "f2",
}
"""Types that NumPy has; scalars are of these."""
CODED_TYPES = {
    dtype.name: dtype
    for dtype in DTYPES
    if dtype.name not in NUMPY_TYPES and dtype.exponent and dtype.scale is None
}
"""Types that NumPy lacks: a buffer holds their bit patterns, packed."""
MOST_ELEMENTS = 1 << 25
"""Of all buffers of a launch: they are filled as doubles, and copied for every run."""
_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 1 << 12


def bits_of(kind: str) -> int:
    """Bits of one element."""
    coded = CODED_TYPES.get(kind)
    return 8 * np.dtype(NUMPY_TYPES[kind]).itemsize if coded is None else coded.bits


def packed_shape(kind: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the array that holds ``shape`` elements: of bytes, where they are packed."""
    bits = bits_of(kind)
    if bits % 8 == 0:
        return shape
    return (*shape[:-1], CODED_TYPES[kind].bytes(shape[-1] if shape else 1))


def stored(values: Array, kind: str, shape: tuple[int, ...]) -> Array:
    """Numbers as the type's bit patterns, rounded to the nearest."""
    if kind in NUMPY_TYPES:
        return values.astype(NUMPY_TYPES[kind])
    dtype = CODED_TYPES[kind]
    codes = dtype.encode(values)
    if dtype.bits % 8 == 0:
        return codes.astype(f"u{dtype.bits // 8}")
    packed_shape(kind, shape)
    bits = (codes[..., None] >> np.arange(dtype.bits) & 1).astype(np.uint8)
    return np.packbits(bits.reshape(*shape[:-1], -1), axis=-1, bitorder="little")


def numbers(array: Array, kind: str, shape: tuple[int, ...]) -> Array:
    """The numbers that ``stored`` made an array of; NumPy's own types as they are."""
    if kind in NUMPY_TYPES:
        return array.view(NUMPY_TYPES[kind]).reshape(shape)
    dtype = CODED_TYPES[kind]
    if dtype.bits % 8 == 0:
        codes = array
    else:
        bits = np.unpackbits(array.view(np.uint8), axis=-1, bitorder="little")
        codes = bits.reshape(-1, dtype.bits) @ (1 << np.arange(dtype.bits))
    return np.asarray(dtype.decode(codes.astype(np.int64)), np.float32).reshape(shape)


def read_array(path: str | os.PathLike[str], kind: str, shape: tuple[int, ...] | None) -> Array:
    """The content of a ``.npy`` file, or of any other as the elements' bytes alone.

    Floats are rounded where the type is one that NumPy lacks; else the file must have the type.
    """
    data = _read(path)
    if data[:6] != _MAGIC:
        return _bare(path, data, kind, shape)
    array = _from_npy(path, data)
    coded = CODED_TYPES.get(kind)
    if coded is not None and array.dtype.kind == "f":
        return stored(array, kind, array.shape)
    wanted = np.dtype(NUMPY_TYPES.get(kind, f"u{max(bits_of(kind) // 8, 1)}"))
    if array.dtype != wanted:
        raise SpecError(
            f"{path} holds {array.dtype}, and the buffer is {kind}",
            hint=f"save it as {wanted}" + ("" if coded is None else ", or as floats"),
            field="file",
        )
    return array


def file_shape(path: str | os.PathLike[str], kind: str) -> tuple[int, ...]:
    """How many elements a file holds, along which dimensions."""
    data = _read(path)
    if data[:6] != _MAGIC:
        return (8 * len(data) // bits_of(kind),)
    array = _from_npy(path, data)
    if bits_of(kind) < 8 and array.dtype.kind != "f" and array.ndim:
        return (*array.shape[:-1], array.shape[-1] * 8 // bits_of(kind))
    return array.shape


def _read(path: str | os.PathLike[str]) -> bytes:
    with reading(path, "a file is named from the launch file's folder", "file"):
        return read_file(path, 8 * MOST_ELEMENTS)


def _bare(
    path: str | os.PathLike[str], data: bytes, kind: str, shape: tuple[int, ...] | None
) -> Array:
    held = (8 * len(data) // bits_of(kind),) if shape is None else shape
    dtype = np.dtype(NUMPY_TYPES.get(kind, f"u{max(bits_of(kind) // 8, 1)}"))
    places = packed_shape(kind, held)
    if math.prod(places) * dtype.itemsize != len(data):
        raise SpecError(
            f"{path} has {len(data)} bytes, and the buffer "
            f"{math.prod(places) * dtype.itemsize} ({kind} of {' x '.join(map(str, held))})",
            hint="give the shape of what the file holds",
            field="file",
        )
    return np.frombuffer(data, dtype).reshape(places).copy()


def _from_npy(path: str | os.PathLike[str], data: bytes) -> Array:
    """NumPy's own format, read from its bytes: nothing is unpickled or taken on trust."""
    try:
        wide = data[6] >= 2
        begin = 12 if wide else 10
        length = int.from_bytes(data[8:begin], "little")
        if length > _MOST_HEADER:
            raise ValueError("its header is too long")
        header = ast.literal_eval(data[begin : begin + length].decode("latin1").strip())
        dtype, shape = np.dtype(header["descr"]), tuple(header["shape"])
        whole = all(type(size) is int and size >= 0 for size in shape)
        if dtype.hasobject or dtype.kind not in "iufb" or not whole:
            raise ValueError(f"it holds {dtype} of {shape}, not plain numbers")
        body = data[begin + length :]
        if math.prod(shape) * dtype.itemsize != len(body):
            raise ValueError(f"{dtype} of {shape} is not {len(body)} bytes")
        found = np.frombuffer(body, dtype.newbyteorder("<"))
        if dtype.byteorder == ">":
            found = np.frombuffer(body, dtype).astype(dtype.newbyteorder("<"))
        turned = bool(header["fortran_order"])
    except (ValueError, TypeError, KeyError, IndexError, SyntaxError, MemoryError) as error:
        raise SpecError(
            f"{path} is no array: {error}", hint="write it with numpy.save", field="file"
        ) from error
    ordered = found.reshape(shape[::-1]).T if turned else found.reshape(shape)
    return np.ascontiguousarray(ordered).reshape(shape).copy()
