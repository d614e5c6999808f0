"""The stand-in keeps the rules of HIP's documentation: order, lateness, captures, handles.

What is tested here is what other tests rely on: a stand-in that forgives would let through what
hardware refuses.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import NON_BLOCKING, TO_DEVICE, TO_HOST, Hip
from pipeloom.device.images import KernelImage
from pipeloom.device.tensors import view_of
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.launching import image_of
from tests.standin.build import StandIn

INVALID, HANDLE, NOT_READY, CAPTURED, INVALIDATED, IMPLICIT = 1, 400, 600, 900, 901, 906


@cache
def image(splits: int = 1) -> KernelImage:
    spec = GemmSpec(
        BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False, splits=splits, batched=splits > 1
    )
    return image_of(gemm_kernel(spec))


class Arrays:
    """A product of 32 x 32 x 64 on a device: A and B are ones."""

    def __init__(self, hip: Hip, device: int = 0) -> None:
        self.hip = hip
        ones = pl.BF16.encode(np.ones((32, 64), np.float32)).astype(np.uint16)
        self.out = np.zeros((32, 32), np.uint16)
        given = {"A": ones, "B": ones, "out": self.out}
        self.there = {n: DeviceArray(hip, device, view_of(a, n)) for n, a in given.items()}
        for name, array in given.items():
            self.there[name].fill(array.ctypes.data)

    def fetched(self) -> float:
        """The one number that every element of the output is, by a copy that waits for nothing."""
        view = self.there["out"]
        stream = self.hip.handle("hipStreamCreateWithFlags", NON_BLOCKING)
        size = self.out.nbytes
        self.hip.call("hipMemcpyAsync", self.out.ctypes.data, view.address, size, TO_HOST, stream)
        self.hip.call("hipStreamSynchronize", stream)
        (found,) = np.unique(pl.BF16.decode(self.out))
        return float(found)


def code_of(hip: Hip, name: str, *arguments: Any) -> int:
    return int(getattr(hip.library, name)(*arguments))


def test_work_is_done_when_somebody_waits(hip: Hip) -> None:
    """And only that of the stream that is waited for."""
    kernel, arrays = pl.prepare(image()), Arrays(hip)
    first, second = (hip.handle("hipStreamCreateWithFlags", NON_BLOCKING) for _ in range(2))
    kernel(**arrays.there, stream=first)
    hip.call("hipStreamSynchronize", second)
    assert arrays.fetched() == 0
    hip.call("hipStreamSynchronize", first)
    assert arrays.fetched() == 64


def test_the_default_stream_waits_for_others(hip: Hip) -> None:
    kernel, arrays = pl.prepare(image()), Arrays(hip)
    blocking = hip.handle("hipStreamCreateWithFlags", 0)
    kernel(**arrays.there, stream=blocking)
    hip.call("hipMemsetAsync", arrays.there["out"].address, 0, 2048, None)
    hip.call("hipStreamSynchronize", None)
    assert arrays.fetched() == 0  # the product came first
    kernel(**arrays.there)
    hip.call("hipStreamSynchronize", blocking)  # has nothing of its own, so nothing is done
    assert arrays.fetched() == 0
    hip.call("hipDeviceSynchronize")
    assert arrays.fetched() == 64


def test_events(hip: Hip) -> None:
    """Recorded in order; times of what is not done are refused."""
    kernel, arrays = pl.prepare(image()), Arrays(hip)
    first, last = hip.handle("hipEventCreate"), hip.handle("hipEventCreate")
    time = ctypes.c_float()
    assert code_of(hip, "hipEventElapsedTime", ctypes.byref(time), first, last) == HANDLE
    hip.call("hipEventRecord", first, None)
    kernel(**arrays.there)
    hip.call("hipEventRecord", last, None)
    assert code_of(hip, "hipEventElapsedTime", ctypes.byref(time), first, last) == NOT_READY
    hip.call("hipEventSynchronize", last)
    hip.call("hipEventElapsedTime", ctypes.byref(time), first, last)
    assert time.value > 0
    hip.call("hipEventDestroy", first)
    assert code_of(hip, "hipEventRecord", first, None) == HANDLE


def test_a_prepared_launch_can_be_captured(hip: Hip) -> None:
    """Nothing is allocated, nothing waits; the graph does the work, as often as it is launched."""
    kernel, arrays = pl.prepare(image()), Arrays(hip)
    stream = hip.handle("hipStreamCreateWithFlags", NON_BLOCKING)
    hip.call("hipStreamBeginCapture", stream, 0)
    kernel(**arrays.there, stream=stream)
    graph = hip.handle_at("hipStreamEndCapture", 1, stream)
    hip.call("hipDeviceSynchronize")
    assert arrays.fetched() == 0
    ready = hip.handle("hipGraphInstantiate", graph, None, None, 0)
    for _ in range(2):
        hip.call("hipMemset", arrays.there["out"].address, 0, 2048)
        hip.call("hipDeviceSynchronize")
        hip.call("hipGraphLaunch", ready, stream)
        hip.call("hipStreamSynchronize", stream)
        assert arrays.fetched() == 64
    hip.call("hipGraphExecDestroy", ready)
    hip.call("hipGraphDestroy", graph)


def test_a_workspace_must_be_there_before_a_capture(hip: Hip) -> None:
    kernel, arrays = pl.prepare(image(splits=2)), Arrays(hip)
    stream = hip.handle("hipStreamCreateWithFlags", NON_BLOCKING)
    hip.call("hipStreamBeginCapture", stream, 0)
    with pytest.raises(pl.DeviceError, match="hipMalloc returned 900") as raised:
        kernel(**arrays.there, stream=stream)
    assert "prepare the kernel before" in str(raised.value.hint)
    broken = ctypes.c_void_p()
    assert code_of(hip, "hipStreamEndCapture", stream, ctypes.byref(broken)) == INVALIDATED
    kernel(**arrays.there, stream=stream)  # now it has one
    hip.call("hipStreamBeginCapture", stream, 0)
    kernel(**arrays.there, stream=stream)
    assert hip.handle_at("hipStreamEndCapture", 1, stream)
    hip.call("hipStreamSynchronize", stream)
    assert arrays.fetched() == 64
    kernel.close()


def test_what_a_capture_forbids(hip: Hip) -> None:
    address = ctypes.c_void_p()
    place = hip.handle("hipMalloc", 64)
    blocking = hip.handle("hipStreamCreateWithFlags", 0)
    assert code_of(hip, "hipStreamBeginCapture", None, 0) == CAPTURED
    for name, arguments, code in (
        ("hipMalloc", (ctypes.byref(address), 64), CAPTURED),
        ("hipFree", (place,), CAPTURED),
        ("hipDeviceSynchronize", (), CAPTURED),
        ("hipStreamSynchronize", (blocking,), CAPTURED),
        ("hipMemset", (place, 0, 64), CAPTURED),
        ("hipMemsetAsync", (place, 0, 64, None), IMPLICIT),
    ):
        hip.call("hipStreamBeginCapture", blocking, 0)
        assert code_of(hip, name, *arguments) == code, name
        ended = code_of(hip, "hipStreamEndCapture", blocking, ctypes.byref(address))
        assert ended == INVALIDATED, name


def test_copies_know_which_memory_is_whose(hip: Hip) -> None:
    there, here = hip.handle("hipMalloc", 64), ctypes.create_string_buffer(64)
    host = ctypes.addressof(here)
    for way, to, source, size in (
        (TO_DEVICE, there, host, 65),
        (TO_HOST, host, there + 1, 64),
        (TO_DEVICE, host, host, 8),
        (TO_HOST, there, there, 8),
        (9, there, host, 8),
    ):
        assert code_of(hip, "hipMemcpy", to, source, size, way) == INVALID
    hip.call("hipFree", there)
    assert code_of(hip, "hipFree", there) == INVALID
    assert code_of(hip, "hipMemcpy", host, there, 8, TO_HOST) == INVALID
    assert code_of(hip, "hipMalloc", ctypes.byref(ctypes.c_void_p()), 1 << 40) == 2


def test_handles_of_another_device(hip: Hip) -> None:
    kernel = pl.prepare(image(), device=2)
    arrays = Arrays(hip, 2)
    kernel(**arrays.there)
    assert hip.number("hipGetDevice") == 0
    with hip.on(2):
        hip.call("hipDeviceSynchronize")
        assert arrays.fetched() == 64
    code = next(iter(image().codes.values()))
    module = hip.handle("hipModuleLoadData", code)
    function = hip.handle("hipModuleGetFunction", module, kernel.name.encode())
    launch = (function, 1, 1, 1, 256, 1, 1, 0, None, None, None)
    assert code_of(hip, "hipModuleLaunchKernel", *launch) == INVALID  # no arguments
    with hip.on(2):
        assert code_of(hip, "hipModuleLaunchKernel", *launch) == HANDLE
    hip.call("hipModuleUnload", module)
    assert code_of(hip, "hipModuleLaunchKernel", *launch) == HANDLE


def test_the_size_of_a_launch(hip: Hip) -> None:
    code = next(iter(image().codes.values()))
    module = hip.handle("hipModuleLoadData", code)
    name = str(image().record["kernel"]).encode()
    function = hip.handle("hipModuleGetFunction", module, name)
    threads = hip.number("hipFuncGetAttribute", 0, function)
    lds = hip.number("hipFuncGetAttribute", 1, function)
    assert threads == image().record["threads"]
    assert lds == image().record["resources"]["lds_bytes"]
    for grid, block, shared, expected in (
        ((0, 1, 1), 256, 0, INVALID),
        ((1, 65536, 1), 256, 0, INVALID),
        ((1 << 24, 1, 1), 256, 0, INVALID),
        ((1, 1, 1), 2048, 0, INVALID),
        ((1, 1, 1), 512, 0, 701),
        ((1, 1, 1), 256, (160 << 10) - lds + 1, 701),
    ):
        given = (function, *grid, block, 1, 1, shared, None, None, None)
        assert code_of(hip, "hipModuleLaunchKernel", *given) == expected


def test_the_host_cannot_read_device_memory(standin: StandIn) -> None:
    """It dies, as it would with memory that no large BAR maps."""
    program = (
        "import ctypes; from pipeloom.device.hip import Hip; hip = Hip.open(); "
        "print('alive', flush=True); ctypes.string_at(hip.handle('hipMalloc', 64), 1); print('no')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **standin.environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "alive\n"
    assert done.returncode < 0
