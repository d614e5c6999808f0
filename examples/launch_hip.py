"""Launch an emitted GEMM on a real GPU through HIP, and compare it with NumPy.

    pipeloom emit ping_pong --target gfx950 --dtype bf16 -o k.hsaco
    python examples/launch_hip.py k.hsaco --m 4096 --n 4096 --k 4096

UNTESTED ON HARDWARE: it was written on a machine without a GPU. The kernels it launches were run
only in pipeloom's emulator, and this script against a stand-in for HIP that calls the emulator.
Expect to fix small things, and please report them.

It needs ROCm's libamdhip64.so and NumPy, nothing else. Kernel name, tile, threads, types and the
layout of the arguments come from k.json, which ``pipeloom emit`` writes beside k.hsaco.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
ARGUMENT_BUFFER, ARGUMENT_SIZE, ARGUMENTS_END = 1, 2, 3
"""HIP_LAUNCH_PARAM_*: the arguments as one buffer, laid out as the kernel reads it."""


class Hip:
    """The few HIP calls that a launch takes, with errors as exceptions."""

    def __init__(self, library: Any = None) -> None:
        try:
            self._library = library or ctypes.CDLL("libamdhip64.so")
        except OSError as error:
            raise SystemExit(f"no HIP runtime here: {error}") from error
        self._library.hipGetErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *arguments: object) -> None:
        """Call a HIP function; raise with its message if it fails."""
        code = getattr(self._library, name)(*arguments)
        if code:
            message = self._library.hipGetErrorString(code).decode()
            raise RuntimeError(f"{name}: {message} ({code})")

    def to_device(self, array: Array) -> int:
        """The address of a copy of an array in device memory."""
        pointer = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        source = array.ctypes.data_as(ctypes.c_void_p)
        size = ctypes.c_size_t(array.nbytes)
        self.call("hipMemcpy", pointer, source, size, HOST_TO_DEVICE)
        assert pointer.value is not None
        return pointer.value

    def to_host(self, address: int, array: Array) -> None:
        """Fill an array from device memory."""
        target = array.ctypes.data_as(ctypes.c_void_p)
        size = ctypes.c_size_t(array.nbytes)
        self.call("hipMemcpy", target, ctypes.c_void_p(address), size, DEVICE_TO_HOST)


def bf16_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def fp8_bits(values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.uint8]:
    """e4m3 of -3 .. 3: OCP (bias 7), as gfx950 has it, or FNUZ (bias 8), as gfx942 has it."""
    one = (8 if dtype == "fp8_fnuz" else 7) << 3
    table = np.array([0, one, one + 8, one + 12], np.uint8)
    bits: npt.NDArray[np.uint8] = table[np.abs(values).astype(int)]
    bits[values < 0] |= 0x80
    return bits


def encode(values: npt.NDArray[np.float32], dtype: str) -> Array:
    """Small integers in the type of A, B or C; all of them are exact in A and B."""
    if dtype == "bf16":
        return bf16_bits(values)
    if dtype.startswith("fp8"):
        return fp8_bits(values, dtype)
    return values.astype({"fp16": np.float16, "f32": np.float32}[dtype])


def pack_arguments(record: Mapping[str, Any], values: Mapping[str, int]) -> bytes:
    """The argument buffer: each value at its offset, as the record lists them."""
    names = [argument["name"] for argument in record["arguments"]]
    if sorted(names) != sorted(values):
        raise SystemExit(f"the kernel takes {', '.join(names)}, not {', '.join(values)}")
    end = max(argument["offset"] + argument["size"] for argument in record["arguments"])
    packed = bytearray(end)
    for argument in record["arguments"]:
        layout = "<Q" if argument["kind"] == "pointer" else "<i"
        struct.pack_into(layout, packed, argument["offset"], values[argument["name"]])
    return bytes(packed)


def read_record(path: Path) -> dict[str, Any]:
    """What ``pipeloom emit`` says of the kernel."""
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}; emit the kernel with -o k.hsaco") from error
    if record.get("format") != "pipeloom-launch-2":
        raise SystemExit(f"{path} does not say how to launch a kernel")
    if record.get("layout", "NT") != "NT" or "then" in record or "before" in record:
        raise SystemExit(f"{path}: this script launches one kernel, NT; pipeloom library does all")
    return record


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("code", type=Path, help="k.hsaco, with k.json beside it")
    parser.add_argument("--m", type=int, default=4096)
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--runs", type=int, default=20, help="for the time")
    return parser


def main(command: Sequence[str] | None = None, library: Any = None) -> int:
    given = arguments().parse_args(command)
    m, n, k = given.m, given.n, given.k
    record = read_record(given.code.with_suffix(".json"))
    k_min, k_step = record["k_min"], record["k_step"]
    if k < k_min or (k - k_min) % k_step:
        raise SystemExit(f"K is {k}, but this kernel takes {k_min} + i * {k_step}")
    tile = record["tile"]
    grid = (-(-n // tile["n"]), -(-m // tile["m"]), 1)

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, k)).astype(np.float32)
    b = rng.integers(-3, 4, (n, k)).astype(np.float32)
    expected = encode(a @ b.T, record["out_dtype"])
    c = np.zeros_like(expected)

    hip = Hip(library)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    hip.call("hipModuleLoad", ctypes.byref(module), str(given.code).encode())
    hip.call("hipModuleGetFunction", ctypes.byref(function), module, record["kernel"].encode())
    device = {
        "A": hip.to_device(encode(a, record["dtype"])),
        "B": hip.to_device(encode(b, record["dtype"])),
        "out": hip.to_device(c),
    }
    sizes = {"m": m, "n": n, "k": k, "ld_A": k, "ld_B": k, "ld_out": n}
    packed = pack_arguments(record, {**device, **sizes})
    buffer, size = ctypes.create_string_buffer(packed, len(packed)), ctypes.c_size_t(len(packed))
    extra = (ctypes.c_void_p * 5)(
        ARGUMENT_BUFFER,
        ctypes.addressof(buffer),
        ARGUMENT_SIZE,
        ctypes.addressof(size),
        ARGUMENTS_END,
    )

    def launch() -> None:
        block = (record["threads"], 1, 1)
        hip.call("hipModuleLaunchKernel", function, *grid, *block, 0, None, None, extra)

    launch()
    hip.call("hipDeviceSynchronize")
    hip.to_host(device["out"], c)
    right = np.array_equal(c, expected)
    print("correct" if right else f"WRONG: {int((c != expected).sum())} of {m * n} elements")

    start, stop, elapsed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
    hip.call("hipEventCreate", ctypes.byref(start))
    hip.call("hipEventCreate", ctypes.byref(stop))
    hip.call("hipEventRecord", start, None)
    for _ in range(given.runs):
        launch()
    hip.call("hipEventRecord", stop, None)
    hip.call("hipEventSynchronize", stop)
    hip.call("hipEventElapsedTime", ctypes.byref(elapsed), start, stop)
    per_run = elapsed.value / given.runs
    print(f"{per_run:.3f} ms, {2e-9 * m * n * k / per_run:.0f} TFLOPS")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
