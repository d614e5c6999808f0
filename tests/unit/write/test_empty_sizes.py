"""Arrays without an element: a launch that takes them reads nothing, in any block."""

from __future__ import annotations

import pytest

from pipeloom.declare import Loop, kernels, maximum
from pipeloom.declare.functions import within
from pipeloom.device.contracts import KernelContract
from pipeloom.device.hip_errors import DeviceError
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.judge.verify import verify
from pipeloom.order.in_order import in_order
from pipeloom.write import EmitError, emit_program, launch_record
from tests.unit.write.kernels import ready

pytestmark = pytest.mark.usefixtures("short_search")


def rows() -> Loop:
    """The sum of any number of rows, in blocks of columns."""
    loop = Loop("rows", over="t")
    x = loop.stream("X", "f32", b=1, t=2, n=256)
    total = loop.carry("total", "f32", start=0, b=1, n=256)
    total += within(x, loop.left("t", 2)).sum("t")
    loop.store("out", total)
    return loop


@pytest.fixture(scope="module")
def summed() -> Launchable:
    return ready(emit_program(pipeline(rows(), "gfx950", 1), judge=verify))


@pytest.mark.parametrize("t", [0, 1, 5])
@pytest.mark.parametrize("n", [1, 256, 257, 600])
def test_rows_in_blocks_of_columns(summed: Launchable, t: int, n: int) -> None:
    trial = run_program(summed.emitted, summed, sizes={"b": 2, "t": t, "n": n})
    assert trial.ok, trial.summary()


def test_attention_without_keys_to_values_in_two_blocks() -> None:
    loop = kernels.attention(32, 32, 32)
    attention = ready(emit_program(pipeline(loop, "gfx950", 1, depth=1), judge=verify))
    sizes = {"batch": 1, "heads": 1, "group": 1, "q": 3, "d": 32, "v": 40}
    for keys in (0, 1):
        trial = run_program(attention.emitted, attention, sizes=sizes | {"keys": keys})
        assert trial.ok, trial.summary()


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_rows_without_an_element_along_the_loop(target: str) -> None:
    """Their leading dimension need not be 0: the launch passes 1, which is torch's stride, too."""
    loop = Loop("largest", over="k")
    largest = loop.carry("largest", "f32", start=-3.0, m=16)
    x = loop.stream("X", "f32", m=16, k=32)
    loop.store("out", largest.becomes(maximum(largest, x.max("k"))))
    kernel = ready(emit_program(pipeline(loop, target, 1), judge=verify))
    for k in (0, 1):
        trial = run_program(kernel.emitted, kernel, sizes={"m": 19, "k": k})
        assert trial.ok, trial.summary()


def test_what_an_output_lacks_is_never_empty() -> None:
    """No workgroup would be launched to store it. Of rows there may be none, of the loop too."""
    loop = Loop("largest", over="k")
    x, largest = loop.stream("X", "f32", m=16, k=16, n=16), loop.carry("largest", m=16)
    loop.store("twice", x * 2)
    loop.store("out", largest.becomes(maximum(largest, largest * 2)))
    kernel = ready(emit_program(pipeline(loop, "gfx950", 1, strategy=in_order), judge=verify))
    contract = KernelContract.of(launch_record(kernel.emitted))
    for m, k, n in ((0, 3, 5), (3, 0, 5), (3, 3, 5)):
        sizes = {"m": m, "k": k, "n": n}
        trial = run_program(kernel.emitted, kernel, sizes=sizes)
        assert trial.ok, trial.summary()
        contract.check(sizes, {})
    sizes = {"m": 3, "k": 3, "n": 0}
    with pytest.raises(EmitError, match="along 'n'"):
        run_program(kernel.emitted, kernel, sizes=sizes)
    with pytest.raises(DeviceError, match="along n is 0"):
        contract.check(sizes, {})
