"""What a launch refuses before anything reaches the device, and how HIP's own errors are told."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pipeloom as pl
from pipeloom.declare.gemm_problem import Finish
from pipeloom.device.array_bytes import ArrayBytes
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import Hip
from pipeloom.device.host_arrays import launch_copied
from pipeloom.device.images import KernelImage
from pipeloom.device.laid_arrays import ArrayRule, laid_array
from pipeloom.device.prepared_kernel import stream_handle
from pipeloom.device.sequence import _check_timing
from pipeloom.device.tensors import view_of
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.launching import image_of

Array = npt.NDArray[Any]
M, N, K = 33, 40, 320


@cache
def image() -> KernelImage:
    """A product of whole trips: K is 320 + i * 320."""
    spec = GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False, any_k=False)
    return image_of(gemm_kernel(spec))


@cache
def scaled() -> KernelImage:
    spec = GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False)
    return image_of(gemm_kernel(replace(spec, finish=Finish(alpha=True))))


def arrays(**others: Any) -> dict[str, Any]:
    usual = {
        "A": np.zeros((M, K), np.uint16),
        "B": np.zeros((N, K), np.uint16),
        "out": np.zeros((M, N), np.uint16),
    }
    return {**usual, **others}


@pytest.fixture
def there(hip: Hip) -> dict[str, DeviceArray]:
    """The usual arrays on device 0."""
    found = {n: DeviceArray(hip, 0, view_of(a, n)) for n, a in arrays().items()}
    for name, array in arrays().items():
        found[name].fill(array.ctypes.data)
    return found


def at(address: int, shape: tuple[int, ...]) -> Any:
    """Something on device 0 that says it lies at an address."""
    described = {"shape": shape, "typestr": "<u2", "data": (address, False), "version": 3}
    return SimpleNamespace(__cuda_array_interface__=described)


@dataclass(frozen=True)
class Place:
    """As PyTorch's devices are."""

    type: str
    index: int


def frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("others", "field", "says"),
    [
        ({"A": np.zeros((M, K), np.float32)}, "A", "bf16"),
        ({"A": np.zeros((M, K), np.float16)}, "A", "bf16"),
        ({"A": np.zeros(M * K, np.uint16)}, "A", "1 dimensions"),
        ({"A": np.zeros((), np.uint16)}, "A", "0 dimensions"),
        ({"A": np.uint16(0)}, "A", "0 dimensions"),
        ({"A": np.zeros((K, M), np.uint16).T}, "A", "contiguous"),
        ({"A": np.zeros((M, K), np.uint16)[:, ::-1]}, "A", "contiguous"),
        ({"A": np.zeros((M, K), np.uint16)[::-1]}, "A", "backwards"),
        ({"A": np.zeros((M, K + 1), np.uint16)[:, :K]}, "A", "multiples of 16 bytes"),
        ({"A": np.zeros((M, K), ">u2")}, "A", "big-endian"),
        ({"A": np.zeros((M, K), "M8[s]")}, "A", "M8"),
        ({"A": [1, 2]}, "A", "DLPack"),
        ({"B": np.zeros((N, K + 64), np.uint16)}, "B", "A has 320"),
        ({"out": np.zeros((M, N + 1), np.uint16)}, "out", "B has 40"),
        ({"out": frozen(np.zeros((M, N), np.uint16))}, "out", "cannot be written"),
        ({"out": np.broadcast_to(np.zeros((1, N), np.uint16), (M, N))}, "out", "written"),
        ({"C": np.zeros((M, N), np.uint16)}, "C", "takes no C"),
        ({"alpha": [1]}, "alpha", "takes no alpha"),
    ],
)
def test_wrong_arrays(hip: Hip, others: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(pl.DeviceError, match=says) as raised:
        pl.launch(image(), **arrays(**others))
    assert raised.value.field == field
    assert hip.library.standin_used(0) == 0


def test_wrong_sizes(hip: Hip) -> None:
    longer = arrays(A=np.zeros((M, 400), np.uint16), B=np.zeros((N, 400), np.uint16))
    with pytest.raises(pl.DeviceError, match=r"400.*takes 320 \+ i \* 320") as raised:
        pl.launch(image(), **longer)
    assert "320 or 640" in str(raised.value.hint)
    with pytest.raises(pl.DeviceError, match="is not given B"):
        pl.launch(image(), A=arrays()["A"], out=arrays()["out"])


def test_a_batch_too_many(hip: Hip) -> None:
    with pytest.raises(pl.DeviceError, match="dimensions"):
        pl.launch(image(), **arrays(A=np.zeros((2, M, K), np.uint16)))


def test_batches_of_a_bias_alone(hip: Hip) -> None:
    """Four groups of workgroups would all write the one output."""
    spec = GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False, batched=True)
    made = gemm_kernel(replace(spec, finish=Finish(bias=True)))
    with pytest.raises(pl.DeviceError, match=r"batches differ: A 1.*bias 4"):
        pl.launch(made, **arrays(bias=np.zeros((4, N), np.float32)))


@pytest.mark.parametrize("value", [True, "2", None, [1], np.zeros(2), 1j])
def test_what_is_no_number(hip: Hip, value: object) -> None:
    kernel = pl.prepare(scaled())
    told = {n: DeviceArray(hip, 0, view_of(a, n)) for n, a in arrays().items()}
    with pytest.raises(pl.DeviceError, match="which is no number") as raised:
        kernel(**told, alpha=value)
    assert raised.value.field == "alpha"


def test_a_failing_launch_leaves_the_current_device(
    hip: Hip, monkeypatch: pytest.MonkeyPatch, there: dict[str, DeviceArray]
) -> None:
    again = pl.prepare(image()).bind(**there)
    monkeypatch.setenv("PIPELOOM_STANDIN_FAIL", "hipModuleLaunchKernel=719")
    with hip.on(2):
        with pytest.raises(pl.DeviceError, match="719"):
            again()
        assert hip.number("hipGetDevice") == 2


def test_the_wrong_chip_and_device(hip: Hip, there: dict[str, DeviceArray]) -> None:
    with pytest.raises(pl.DeviceError, match="for gfx950, and device 1 is gfx942") as raised:
        pl.prepare(image(), device=1)
    assert "device 0" in str(raised.value.hint)
    with pytest.raises(pl.DeviceError, match="no device 7"):
        pl.prepare(image(), device=7)
    other = pl.prepare(image(), device=2)
    with pytest.raises(pl.DeviceError, match="lies on device 0, and the kernel was prepared for 2"):
        other(**there)
    with pytest.raises(pl.DeviceError, match="host's memory"):
        other(**arrays())


def test_numbers_for_arrays_where_outputs_are_made(hip: Hip) -> None:
    with pytest.raises(pl.DeviceError, match="A has 0 dimensions") as raised:
        pl.launch(image(), A=np.zeros((), np.uint16), B=np.zeros((N, K), np.uint16))
    assert raised.value.field == "A"
    assert hip.library.standin_used(0) == 0


@pytest.mark.parametrize("wide", [0, 1, 7])
def test_empty_arrays_are_aligned(hip: Hip, wide: int) -> None:
    """A row of nothing may begin anywhere, with any number of bytes to the next."""
    made = np.ones((M, N), np.uint16)
    a, b = (np.zeros((rows, wide), np.uint16)[:, :0] for rows in (M, N))
    pl.launch(scaled(), A=a, B=b, out=made, alpha=2.0)
    assert not made.any()


def test_null_and_misaligned_pointers(hip: Hip, there: dict[str, DeviceArray]) -> None:
    kernel = pl.prepare(image())
    with pytest.raises(pl.DeviceError, match="null pointer"):
        kernel(**{**there, "B": at(0, (N, K))})
    with pytest.raises(pl.DeviceError, match="begins at"):
        kernel(**{**there, "B": at(there["B"].address + 2, (N, K))})
    there["A"].close()
    with pytest.raises(pl.DeviceError, match="null pointer"):
        kernel(**there)


def test_what_is_not_proved_needs_a_word(hip: Hip) -> None:
    made = image()
    doubtful = KernelImage({**made.record, "verdict": "TIMING"}, made.codes)
    with pytest.raises(pl.DeviceError, match="TIMING, not PROVED") as raised:
        pl.launch(doubtful, **arrays())
    assert "unproved=True" in str(raised.value.hint)
    pl.launch(doubtful, **arrays(), unproved=True)


def test_code_that_hip_refuses(hip: Hip) -> None:
    made = image()
    name, code = next(iter(made.codes.items()))
    cases = {
        200: {name: b"not a code object" + bytes(64)},
        500: {"other": code},
    }
    for number, codes in cases.items():
        with pytest.raises(pl.DeviceError) as raised:
            pl.prepare(KernelImage(made.record, codes))
        assert raised.value.code == number
    # A record that lies about the chip gets past us, and not past HIP.
    with pytest.raises(pl.DeviceError, match="hipErrorNoBinaryForGpu") as raised:
        pl.prepare(KernelImage({**made.record, "target": "gfx942"}, made.codes), device=1)
    assert raised.value.code == 209


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("hipModuleLoadData", 200),
        ("hipMalloc", 2),
        ("hipMemcpy", 1),
        ("hipModuleLaunchKernel", 719),
        ("hipStreamSynchronize", 700),
        ("hipFree", 1),
    ],
)
def test_every_call_may_fail(
    hip: Hip, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    """The call, its number, its name and the remedy are told, and nothing else goes wrong."""
    monkeypatch.setenv("PIPELOOM_STANDIN_FAIL", f"{call}={code}")
    with pytest.raises(pl.DeviceError, match=rf"{call} returned {code}, hipError") as raised:
        pl.launch(image(), **arrays())
    assert raised.value.code == code
    assert raised.value.hint
    if code in (700, 719):
        assert image().record["kernel"] in raised.value.message


def test_memory_that_is_not_there(hip: Hip, there: dict[str, DeviceArray]) -> None:
    """An illegal address is told by a later call, with the kernel that was launched before it."""
    kernel = pl.prepare(image())
    stale = at(there["A"].address, (M, K))
    there["A"].close()
    kernel(**{**there, "A": stale})
    with pytest.raises(pl.DeviceError, match="700, hipErrorIllegalAddress") as raised:
        hip.call("hipDeviceSynchronize")
    assert kernel.name in raised.value.message
    with pytest.raises(pl.DeviceError, match="700"):
        hip.call("hipDeviceSynchronize")  # the device is lost until the process ends


def test_bytes_around_an_output(hip: Hip) -> None:
    """Whatever writes before or behind it is counted."""
    out = np.zeros((M, N), np.uint16)
    with DeviceArray(hip, 0, view_of(out, "out"), guard=64) as there:
        assert there.spoilt() == 0
        hip.call("hipMemset", there.address + there.nbytes, 0, 3)
        hip.call("hipMemset", there.address - 1, 0, 1)
        assert there.spoilt() == 4


def test_streams(hip: Hip, there: dict[str, DeviceArray]) -> None:
    kernel = pl.prepare(image())
    with pytest.raises(pl.DeviceError, match="stream is a str"):
        kernel(**there, stream="first")
    with pytest.raises(pl.DeviceError, match="hipErrorInvalidHandle"):
        kernel(**there, stream=ctypes.addressof(ctypes.create_string_buffer(512)))
    with hip.on(2):
        other = hip.handle("hipStreamCreateWithFlags", 1)
    with pytest.raises(pl.DeviceError, match="belongs to another device"):
        kernel(**there, stream=other)


def test_the_current_stream_is_that_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the device of the kernel, by the calls that PyTorch documents; a stand-in for it."""
    asked: list[int] = []

    def current_stream(device: int) -> SimpleNamespace:
        asked.append(device)
        return SimpleNamespace(cuda_stream=0x5000)

    cuda = SimpleNamespace(is_available=lambda: True, current_stream=current_stream)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert stream_handle(None, 2, torch=True) == 0x5000
    assert stream_handle(None, 2, torch=False) == 0
    assert asked == [2]


def test_tensors_there_with_an_output_on_the_host(
    hip: Hip, there: dict[str, DeviceArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What made them may still be under way on PyTorch's current stream: the kernel goes there."""

    def tensor(name: str, shape: tuple[int, int]) -> SimpleNamespace:
        return SimpleNamespace(
            data_ptr=lambda: there[name].address,
            shape=shape,
            stride=lambda: (shape[1], 1),
            dtype="torch.uint16",
            device=Place("cuda", 0),
        )

    with hip.on(0):
        side = hip.handle("hipStreamCreateWithFlags", 1)
    current = SimpleNamespace(cuda_stream=side)
    cuda = SimpleNamespace(is_available=lambda: True, current_stream=lambda device: current)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    waited: list[Any] = []
    call = hip.call

    def watched(name: str, *arguments: Any) -> Any:
        waited.extend(arguments if name == "hipStreamSynchronize" else ())
        return call(name, *arguments)

    monkeypatch.setattr(hip, "call", watched)
    given = {"A": tensor("A", (M, K)), "B": tensor("B", (N, K))}
    launch_copied(pl.prepare(image()), {**given, "out": arrays()["out"]})
    assert waited == [side]


def test_an_op_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(pl.DeviceError, match="PyTorch is not installed") as told:
        pl.torch_op(image())
    assert told.value.hint


def test_rows_that_are_no_whole_elements_apart() -> None:
    rows = np.zeros(M, [("row", "<u2", (K,)), ("pad", "u1")])["row"]
    with pytest.raises(pl.DeviceError, match="begin every"):
        view_of(rows, "A")


def test_a_negative_view_of_pytorch() -> None:
    tensor = SimpleNamespace(
        dtype="torch.float32",
        device=SimpleNamespace(type="cpu", index=None),
        is_neg=lambda: True,
        data_ptr=lambda: 64,
        stride=lambda: (1,),
        shape=(1,),
    )
    with pytest.raises(pl.DeviceError, match="negative view"):
        view_of(tensor, "bias")


def test_an_output_that_is_an_input(hip: Hip, there: dict[str, DeviceArray]) -> None:
    """On the device by the bytes that both have; of the host, by the range of them."""
    kernel = pl.prepare(image())
    with pytest.raises(pl.DeviceError, match="out lies where A does"):
        kernel(**{**there, "out": at(there["A"].view.address, (M, N))})
    both = np.zeros((M, K + N), np.uint16)
    given = arrays(A=both[:, :K], out=both[:, K:])
    with pytest.raises(pl.DeviceError, match="shares memory"):
        pl.launch(image(), **given)


def test_batches_of_an_output_that_overlap() -> None:
    rule = ArrayRule("out", 0, "bf16", 16, ("m", "n"), (), 1, True, 1)
    one = np.zeros((4, 8), np.uint16)
    over = np.lib.stride_tricks.as_strided(one, (2, 4, 8), (16, 16, 2))
    with pytest.raises(pl.DeviceError, match="begin every"):
        laid_array(rule, view_of(over, "out"), batched=True)
    laid_array(rule, view_of(np.zeros((2, 4, 8), np.uint16), "out"), batched=True)
    heads = ArrayRule("out", 0, "bf16", 16, ("m", "n"), ("head",), 1, True, 1)
    with pytest.raises(pl.DeviceError, match="for each"):
        laid_array(heads, view_of(over, "out"), batched=False)
    laid_array(heads, view_of(np.zeros((4, 2, 8), np.uint16).swapaxes(0, 1), "out"), batched=False)


@pytest.mark.parametrize("seed", range(4))
def test_arrays_that_may_meet(seed: int) -> None:
    """By the bytes of each: none is missed, and columns and heads of one tensor are told apart."""
    rng, whole = np.random.default_rng(seed), np.zeros((6, 4, 8), np.uint16)
    clear = 0
    for _ in range(300):
        views = []
        for _ in range(2):
            cuts = []
            for size in whole.shape:
                begin = int(rng.integers(size))
                cuts.append(slice(begin, int(rng.integers(begin + 1, size + 1))))
            views.append(whole[tuple(cuts)])
        first, second = views
        one, two = view_of(first, "out"), view_of(second, "out")
        told = ArrayBytes.of(one).meets(ArrayBytes.of(two), two.address - one.address)
        assert told or not np.shares_memory(first, second)
        clear += not told and np.may_share_memory(first, second)
    assert clear
    heads = [view_of(whole[:, n], "out") for n in range(2)]
    assert not ArrayBytes.of(heads[0]).meets(ArrayBytes.of(heads[1]), 16)


def test_an_output_that_begins_within_an_input(hip: Hip, there: dict[str, DeviceArray]) -> None:
    kernel = pl.prepare(image())
    begin = there["A"].view.address
    with pytest.raises(pl.DeviceError, match="out lies where A does, 160 bytes further"):
        kernel(**{**there, "out": at(begin + 160, (M, N))})


def test_zeros_of_both_signs_are_two_numbers(hip: Hip, there: dict[str, DeviceArray]) -> None:
    kernel = pl.prepare(image())
    kernel.scalars = ("alpha",)
    keys = [kernel._key({**there, "alpha": value}, 0)[0] for value in (0.0, -0.0)]
    assert keys[0] != keys[1]


def test_records_of_times_with_gaps() -> None:
    """As long as the records, and not theirs: what lies between belongs to somebody else."""
    contract: Any = SimpleNamespace(
        timing_bytes=lambda grid: 256, timing={"pointer": "times"}, name="k"
    )
    _check_timing(contract, view_of(np.zeros(64, np.uint32), "times"), (1, 1, 1))
    with pytest.raises(pl.DeviceError, match="256 bytes of times"):
        _check_timing(contract, view_of(np.zeros(64, np.uint32)[::63], "times"), (1, 1, 1))
