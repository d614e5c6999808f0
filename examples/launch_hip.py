"""Launch an emitted GEMM on a real GPU through HIP, and compare it with NumPy.

    pipeloom emit ping_pong.toml --target gfx950 --dtype bf16 -o k.hsaco     # or save assemble()
    python examples/launch_hip.py k.hsaco ping_pong_bf16_f32 --m 4096 --n 4096 --k 4096

UNTESTED ON HARDWARE: it was written on a machine without a GPU. The kernels it launches were run
only in pipeloom's emulator. Expect to fix small things, and please report them.

It needs ROCm's libamdhip64.so and NumPy, nothing else; operands are bf16, C is f32.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


class Hip:
    """The few HIP calls that a launch takes, with errors as exceptions."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libamdhip64.so")
        except OSError as error:
            raise SystemExit(f"no HIP runtime here: {error}") from error
        self._library.hipGetErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *arguments: object) -> None:
        """Call a HIP function; raise with its message if it fails."""
        code = getattr(self._library, name)(*arguments)
        if code:
            message = self._library.hipGetErrorString(code).decode()
            raise RuntimeError(f"{name}: {message} ({code})")

    def to_device(self, array: npt.NDArray[Any]) -> ctypes.c_void_p:
        """A copy of an array in device memory."""
        pointer = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        source = array.ctypes.data_as(ctypes.c_void_p)
        size = ctypes.c_size_t(array.nbytes)
        self.call("hipMemcpy", pointer, source, size, HOST_TO_DEVICE)
        return pointer

    def to_host(self, pointer: ctypes.c_void_p, array: npt.NDArray[Any]) -> None:
        """Fill an array from device memory."""
        target = array.ctypes.data_as(ctypes.c_void_p)
        size = ctypes.c_size_t(array.nbytes)
        self.call("hipMemcpy", target, pointer, size, DEVICE_TO_HOST)


def bf16_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("code", type=Path, help="the .hsaco file")
    parser.add_argument("kernel", help="the kernel's name, as in the first lines of its assembly")
    parser.add_argument("--m", type=int, default=4096)
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--tile", type=int, nargs=2, default=(256, 256), help="BM BN")
    parser.add_argument("--threads", type=int, default=512, help="512 ping-pong, else 256")
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    m, n, k = given.m, given.n, given.k

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, k)).astype(np.float32)
    b = rng.integers(-3, 4, (n, k)).astype(np.float32)
    c = np.zeros((m, n), np.float32)

    hip = Hip()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    hip.call("hipModuleLoad", ctypes.byref(module), str(given.code).encode())
    hip.call("hipModuleGetFunction", ctypes.byref(function), module, given.kernel.encode())
    pointers = [hip.to_device(bf16_bits(a)), hip.to_device(bf16_bits(b)), hip.to_device(c)]
    sizes = [ctypes.c_int32(value) for value in (m, n, k, k, k, n)]
    values = [*pointers, *sizes]
    packed = (ctypes.c_void_p * len(values))(
        *(ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values)
    )
    grid = (-(-n // given.tile[1]), -(-m // given.tile[0]), 1)

    def launch() -> None:
        hip.call(
            "hipModuleLaunchKernel", function, *grid, given.threads, 1, 1, 0, None, packed, None
        )

    launch()
    hip.call("hipDeviceSynchronize")
    hip.to_host(pointers[2], c)
    right = np.array_equal(c, a @ b.T)
    print("correct" if right else f"WRONG: {int((c != a @ b.T).sum())} of {m * n} elements")

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
