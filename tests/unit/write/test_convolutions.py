"""Kernels of streams that lie elsewhere, in the emulator, against NumPy; what launches refuse."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.family_cases.convolution import draw_problem
from benchmarks.family_cases.drawn import Kind, awkward
from evidence.weaken import weakenings
from pipeloom.declare.convolutions import Each
from pipeloom.declare.kernels import conv2d, conv3d, gemm
from pipeloom.device.contracts import KernelContract
from pipeloom.device.hip_errors import DeviceError
from pipeloom.device.tensors import view_of
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.errors import ConfigError
from pipeloom.judge.verify import proves
from pipeloom.machine_code.emitted import simulate_emitted
from pipeloom.program import Program
from pipeloom.write import EmitError, assemble, emit_program, launch_record
from pipeloom.write.placing import Placing
from tests.unit.declare.test_places import convolved
from tests.unit.write.kernels import wave_through

pytestmark = pytest.mark.usefixtures("short_search")
CASES: dict[str, Kind] = {
    "uniform": Kind(conv2d(64, 64, 64, pad=1, stride=(2, 1)), "gfx950"),
    "narrow loads": Kind(conv2d(64, 64, 64, pad=1, dilation=2), "gfx942"),
    "per lane": Kind(conv2d(24, 64, 64, 64, pad=2, bias=True, activation="relu"), "gfx950"),
    "many taps": Kind(conv2d(8, 64, 64, 64, taps=7, pad=3, stride=2), "gfx950"),
    "a row of taps": Kind(conv2d(8, 64, 64, 64, taps=(1, 5)), "gfx950"),
    "few channels": Kind(conv2d(24, 64, 64, taps=1), "gfx950"),
    "pointwise": Kind(conv2d(128, 64, 64, taps=1, residual=True), "gfx950"),
    "skipping": Kind(conv2d(128, 64, 64, taps=1, stride=2), "gfx950"),
    "volume": Kind(conv3d(32, 64, 64, pad=1, taps=(2, 3, 3)), "gfx950"),
}


@cache
def program(case: str) -> Program:
    return CASES[case].program()


@cache
def built(case: str) -> Launchable:
    emitted = emit_program(program(case))
    return Launchable.load(emitted, assemble(emitted))


@pytest.mark.parametrize("case", CASES)
def test_random_problems_are_right(case: str) -> None:
    """Sizes down to 1, gaps of NaN between pixels, awkward numbers; nothing outside is written."""
    for seed in range(3):
        problem = draw_problem(
            np.random.default_rng([seed, len(case)]), CASES[case], built(case), seed
        )
        trial = problem.run(built(case))
        assert trial.ok, trial.summary()


def test_against_a_convolution_that_knows_nothing_of_products() -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-2, 3, (2, 6, 7, 64)).astype(np.float32)
    f = rng.integers(-2, 3, (10, 3, 3, 64)).astype(np.float32)
    sizes = {"images": 2, "h": 6, "w": 7, "n": 10}
    arrays = {"X": x, "F": f.reshape(10, -1)}
    kernel = built("uniform")
    trial = run_program(kernel.emitted, kernel, sizes=sizes, arrays=arrays)
    assert trial.ok
    meant = convolved(x, f, (2, 1), (1, 1), (1, 1)).reshape(-1, 10)
    assert np.abs(meant).max() <= 256  # so that bf16 has each
    np.testing.assert_array_equal(trial.outputs["out"], meant)


def test_a_tap_outside_is_not_read() -> None:
    """A NaN in the image reaches the windows that have it, and no other."""
    x = np.zeros((1, 4, 4, 64), np.float32)
    x[0, 0, 0, 0] = np.nan
    kernel = built("uniform")
    arrays = {"X": x, "F": np.ones((4, 576), np.float32)}
    sizes = {"images": 1, "h": 4, "w": 4, "n": 4}
    trial = run_program(kernel.emitted, kernel, sizes=sizes, arrays=arrays)
    assert trial.ok
    spoilt = np.isnan(trial.outputs["out"]).reshape(2, 4, 4).any(-1)
    assert spoilt.tolist() == [[True, True, False, False], [False] * 4]


@pytest.mark.parametrize(
    ("case", "columns", "whole"),
    [("many taps", 392, 448), ("a row of taps", 40, 64), ("few channels", 24, 32)],
)
def test_columns_past_the_last_tap_are_not_read(case: str, columns: int, whole: int) -> None:
    """Weights padded with zeros, beside an image of infinities: no NaN appears."""
    kernel = built(case)
    sizes = {"images": 1, "h": 5, "w": 5, "n": 4, "k": whole}
    f = np.zeros((4, whole), np.float32)
    f[:, :columns] = 1
    channels = CASES[case].loop.meaning.all_sizes(sizes)["c"]
    x = np.full((1, 5, 5, channels), np.inf, np.float32)
    trial = run_program(kernel.emitted, kernel, sizes=sizes, arrays={"X": x, "F": f})
    assert trial.ok
    assert not np.isnan(trial.outputs["out"]).any()


def test_awkward_numbers_are_awkward() -> None:
    """What the random problems draw does hold them."""
    drawn = awkward(np.random.default_rng(1), (64, 64), 0.5)
    assert np.isnan(drawn).any()
    assert np.isinf(drawn).any()


@pytest.mark.parametrize("case", ["uniform", "per lane"])
def test_the_loop_is_that_of_the_product(case: str) -> None:
    """Loads in other places: no order, wait or count changes."""
    loop = CASES[case].loop
    tile = loop.meaning.tile
    plain = pipeline(
        gemm(tile["m"], tile["n"], tile["k"], "bf16"), "gfx950", 4, k_tiles=loop.fixed_tiles
    )
    mine, its = (
        [s for s in p.groups[0].sections if s.trips is not None] for p in (program(case), plain)
    )
    assert [[type(step) for step in s.steps] for s in mine] == [
        [type(step) for step in s.steps] for s in its
    ]


def test_uniform_taps_cost_the_loop_nothing() -> None:
    """Of the emitted instructions: within 3 % of the plain product's loop."""
    plain = emit_program(pipeline(gemm(64, 64, 64), "gfx950", 4, k_tiles=9))
    cycles = [
        simulate_emitted(kernel, k_tiles=41).steady_cycles_per_iteration
        for kernel in (built("uniform").emitted, plain)
    ]
    assert cycles[0] <= 1.03 * cycles[1]


def test_sampled_weakenings_are_noticed() -> None:
    sample = list(weakenings(program("uniform")))[1::12]
    unsafe = [weakened for weakened in sample if not proves(weakened.program)]
    assert unsafe
    for weakened in unsafe:
        emitted = emit_program(weakened.program, judge=wave_through)
        kernel = Launchable.load(emitted, assemble(emitted))
        sizes = {"images": 2, "h": 9, "w": 8, "n": 64}
        trials = (run_program(emitted, kernel, sizes=sizes, seed=seed) for seed in range(4))
        assert any(not trial.ok for trial in trials), weakened.what


def test_a_record_derives_the_sizes() -> None:
    """From the image alone, as a launch through HIP has it."""
    contract = KernelContract.of(launch_record(built("uniform").emitted))
    arrays: dict[str, Any] = {
        "X": np.zeros((2, 5, 6, 64), np.uint16),
        "F": np.zeros((10, 576), np.uint16),
    }

    def sizes(**changed: Any) -> dict[str, int]:
        views = {n: view_of(a, n) for n, a in {**arrays, **changed}.items()}
        return contract.sizes(contract.laid(views))[0]

    found = sizes()
    assert (found["m"], found["k"], found["n"]) == (2 * 3 * 6, 576, 10)
    laid = contract.laid({n: view_of(a, n) for n, a in arrays.items()})
    contract.check(found, laid)
    assert contract.grid(found) == (1, 1, 1)
    with pytest.raises(DeviceError, match="gives 36 along m"):
        sizes(out=np.zeros((35, 10), np.uint16))
    with pytest.raises(DeviceError, match="64 are read"):
        sizes(X=np.zeros((2, 5, 6, 32), np.uint16))
    with pytest.raises(DeviceError, match="gives 576 along k"):
        sizes(F=np.zeros((10, 512), np.uint16))


def test_what_a_block_touches_is_near() -> None:
    """Images may be many; those of one block may not be too large."""
    launch = built("uniform").emitted.launch
    many = launch.meaning.all_sizes({"images": 500, "h": 64, "w": 256, "n": 64})
    launch.check(many, {"X": 512})  # 8 GB of them
    large = launch.meaning.all_sizes({"images": 1, "h": 64, "w": 1 << 16, "n": 64})
    with pytest.raises(EmitError, match="2 GiB or more"):
        launch.check(large, {"X": 512})
    contract = KernelContract.of(launch_record(built("uniform").emitted))
    assert contract.arrays["X"].span == launch.meaning["X"].at.span("k", launch.tiles)  # type: ignore[union-attr]


def test_sizes_that_a_launch_refuses() -> None:
    kernel = built("pointwise")
    with pytest.raises(ConfigError, match="gives 128 along 'k'"):
        run_program(kernel.emitted, kernel, sizes={"images": 1, "h": 2, "w": 2, "n": 4, "k": 256})


def test_no_other_placing() -> None:
    with pytest.raises(EmitError, match="has a stream with a place"):
        emit_program(program("uniform"), placing=Placing(ragged=True))


def test_many_images_and_large_divisors() -> None:
    """Rows are divided exactly: a block in the middle of many images, each of one pixel or row."""
    kernel = built("skipping")
    for sizes in ({"images": 129, "h": 1, "w": 1}, {"images": 1, "h": 1, "w": 255}):
        trial = run_program(
            kernel.emitted, kernel, sizes={**sizes, "n": 3}, data=Data.INTEGERS, seed=2
        )
        assert trial.ok, trial.summary()


def test_each_is_one_or_one_for_each_dimension() -> None:
    both: tuple[Each, ...] = (2, (2, 2), [2, 2])
    meanings = [conv2d(8, 16, 16, stride=each).meaning for each in both]
    assert meanings[0] == meanings[1] == meanings[2]
