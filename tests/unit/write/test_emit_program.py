"""Kernels written from programs alone compute what the programs mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from pipeloom import compile_schedule, load_spec, target_for
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.judge.emulate import LaunchError
from pipeloom.program import VOCABULARY, Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.lift import lift
from pipeloom.write import EmitError, EmittedKernel, assemble, emit_program, launch_record
from tests.unit.write.programs import RELU, derived, exchange, loading_ahead, row_sum

WORDS = VOCABULARY.extended(RELU)
RAGGED = ({"m": 64, "n": 64}, {"m": 100, "n": 68}, {"m": 33, "n": 65})


def ready(emitted: EmittedKernel) -> Launchable:
    return Launchable.load(emitted, assemble(emitted))


@cache
def built(what: str, arch: str, dtype: str = "bf16", out: str = "bf16") -> Launchable:
    return ready(emit_program(derived(what, arch, dtype, out), ops=WORDS))


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_row_sums(arch: str) -> None:
    kernel = ready(emit_program(row_sum(arch)))
    for batch, depth, columns in ((3, 2, 256), (1, 10, 256), (2, 4, 300), (2, 6, 253)):
        sizes = {"b": batch, "k": depth, "c": columns}
        trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=1)
        assert trial.ok, trial.summary()


@pytest.mark.parametrize(
    ("dtype", "rows", "vector"), [("bf16", 1, 4), ("fp16", 2, 8), ("f32", 4, 2), ("f32", 1, 1)]
)
def test_row_sums_of_other_tiles(dtype: str, rows: int, vector: int) -> None:
    """16-bit elements are unpacked before they are added; several rows are added in a lane."""
    kernel = ready(emit_program(row_sum(dtype=dtype, rows=rows, vector=vector, columns=512)))
    sizes = {"b": 2, "k": 6 * rows, "c": 520}
    trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=2)
    assert trial.ok, trial.summary()


@pytest.mark.parametrize(
    ("arch", "dtype", "out"),
    [
        ("gfx950", "bf16", "bf16"),
        ("gfx950", "fp16", "fp16"),
        ("gfx950", "fp8", "f32"),
        ("gfx942", "bf16", "bf16"),
        ("gfx942", "fp8_fnuz", "f32"),
    ],
)
def test_products(arch: str, dtype: str, out: str) -> None:
    kernel = built("gemm", arch, dtype, out)
    depth = kernel.emitted.k_min + kernel.emitted.k_step
    for shape in RAGGED:
        spare = {"A": 16, "B": 32}
        trial = run_program(
            kernel.emitted, kernel, sizes={**shape, "k": depth}, seed=5, spare=spare
        )
        assert trial.ok, trial.summary()
    normal = run_program(
        kernel.emitted, kernel, sizes={"m": 64, "n": 64, "k": depth}, data=Data.NORMAL
    )
    assert normal.ok, normal.summary()


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_registers_through_lds(arch: str) -> None:
    """Boxes of each wave its own; the loop runs at least once, so nothing jumps around it."""
    kernel = ready(emit_program(exchange(arch)))
    assert any(str(line).startswith("ds_write_b128") for line in kernel.emitted.lines)
    for seed, sizes in enumerate(({"b": 2, "k": 1, "c": 512}, {"b": 1, "k": 4, "c": 700})):
        trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=seed)
        assert trial.ok, trial.summary()


@pytest.mark.parametrize(("name", "waves"), [("four_wave", 4), ("ping_pong", 8)])
def test_schedules_of_the_specification(
    proved: Callable[..., CompiledSchedule], name: str, waves: int
) -> None:
    """Lifted on their tile, they are proved and written like any other program."""
    compiled = proved(name, "bf16", (128, 128, 64, 16, 32))
    kernel = ready(emit_program(lift(compiled)))
    assert kernel.emitted.waves == waves
    sizes = {"m": 130, "n": 101, "k": kernel.emitted.k_min + kernel.emitted.k_step}
    trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=4)
    assert trial.ok, trial.summary()


@pytest.mark.parametrize(
    ("arch", "dtype", "tile"),
    [
        ("gfx950", "bf16", {"BM": 128, "BN": 64, "BK": 64, "MMA_K": 32, "elem_bytes": 2}),
        ("gfx942", "fp8_fnuz", {"BM": 64, "BN": 64, "BK": 128, "MMA_K": 32, "elem_bytes": 1}),
    ],
)
def test_a_schedule_that_stages_both_operands_at_once(
    arch: str, dtype: str, tile: dict[str, int]
) -> None:
    """One op for A and B becomes one for each, where it stood."""
    spec = {"schedule": "single_buffer", "geometry": tile}
    compiled = compile_schedule(load_spec(spec), sync="repaired")
    lifted = lift(compiled, target=target_for(arch), dtype=dtype, out="f32")
    kernel = ready(emit_program(lifted))
    sizes = {"m": 130, "n": 61, "k": kernel.emitted.k_min + kernel.emitted.k_step}
    trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=4)
    assert trial.ok, trial.summary()


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_every_number_of_trips(trips: int) -> None:
    kernel = built("gemm", "gfx950")
    depth = kernel.emitted.k_min + trips * kernel.emitted.k_step
    trial = run_program(kernel.emitted, kernel, sizes={"m": 64, "n": 64, "k": depth}, seed=7)
    assert trial.ok, trial.summary()


def test_waves_that_only_load() -> None:
    kernel = built("produced", "gfx950")
    assert kernel.emitted.waves == 5
    depth = kernel.emitted.k_min + kernel.emitted.k_step
    for seed, shape in enumerate(RAGGED):
        trial = run_program(kernel.emitted, kernel, sizes={**shape, "k": depth}, seed=seed)
        assert trial.ok, trial.summary()


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_what_follows_the_loop(arch: str) -> None:
    """A scalar, a row vector and an op of the user's own, before the store."""
    kernel = built("epilogue", arch)
    depth = kernel.emitted.k_min
    for alpha, shape in zip((2.0, -1.0, 0.5), RAGGED, strict=True):
        trial = run_program(
            kernel.emitted,
            kernel,
            sizes={**shape, "k": depth},
            scalars={"alpha": alpha},
            ops=WORDS,
            seed=11,
        )
        assert trial.ok, trial.summary()


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("what", ["largest", "sums"])
def test_rows_reduced_across_lanes(what: str, arch: str) -> None:
    kernel = built(what, arch)
    for rows in (64, 75):
        sizes = {"m": rows, "n": 32, "k": kernel.emitted.k_min}
        trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=3)
        assert trial.ok, trial.summary()


ONE = {"d": 32, "v": 32, "batch": 1, "heads": 1, "group": 1}
INTERLEAVED = {
    "Q": ("batch", "q", "heads", "group", "d"),
    "K": ("batch", "keys", "heads", "d"),
    "out": ("batch", "q", "heads", "group", "v"),
}


@pytest.mark.parametrize(
    ("what", "arch", "dtype"),
    [
        ("attention", "gfx950", "bf16"),
        ("causal", "gfx950", "fp16"),
        ("attention", "gfx942", "fp16"),
        ("causal", "gfx942", "bf16"),
    ],
)
def test_attention(what: str, arch: str, dtype: str) -> None:
    """Two products, a running maximum, a matrix result that is the next product's operand; V is
    read across its rows, and there are any number of keys, none included."""
    kernel = built(what, arch, dtype)
    for seed, (queries, keys) in enumerate(((100, 97), (33, 1), (64, 0))):
        trial = run_program(
            kernel.emitted,
            kernel,
            sizes={**ONE, "q": queries, "keys": keys},
            data=(Data.NORMAL, Data.INTEGERS)[seed % 2],
            seed=seed,
        )
        assert trial.ok, trial.summary()


@pytest.mark.parametrize(("at", "by"), [(0, 10.0), (70, 100.0), (96, 1000.0)])
def test_attention_rescales_where_a_key_stands_out(at: int, by: float) -> None:
    """For some rows only, in any tile; the others keep what they have."""
    kernel = built("attention", "gfx950")
    rng = np.random.default_rng(at)
    q, k = rng.standard_normal((1, 1, 1, 64, 32)), rng.standard_normal((1, 1, 97, 32))
    q[..., ::3, :] = 1 / 32
    k[:, :, at] = by
    trial = run_program(
        kernel.emitted,
        kernel,
        sizes={**ONE, "q": 64, "keys": 97},
        scalars={"scale": 1.0},
        arrays={"Q": q.astype(np.float32), "K": k.astype(np.float32)},
        data=Data.NORMAL,
    )
    assert trial.ok, trial.summary()


def test_heads_in_groups_wherever_they_lie() -> None:
    kernel = built("causal", "gfx950", "fp16")
    sizes = {**ONE, "q": 40, "keys": 70, "batch": 2, "heads": 3, "group": 2}
    for order in (None, INTERLEAVED):
        trial = run_program(kernel.emitted, kernel, sizes=sizes, data=Data.NORMAL, order=order)
        assert trial.ok, trial.summary()
    assert kernel.emitted.launch.grid(sizes) == (12, 1, 1), "the longest blocks of all heads first"


def test_a_batch_fits_into_a_launch() -> None:
    kernel = built("causal", "gfx950", "fp16")
    kernel.emitted.launch.check({**ONE, "q": 64, "keys": 64, "batch": 65536})
    launch = kernel.emitted.launch
    launch.check({**ONE, "q": 64, "keys": 64, "batch": 2**11, "heads": 2**10 - 1})
    with pytest.raises(EmitError, match="2097152 problems"):
        launch.check({**ONE, "q": 64, "keys": 64, "batch": 2**11, "heads": 2**10})
    with pytest.raises(EmitError, match=r"262144 workgroups along z, .* batch of 2"):
        kernel.emitted.launch.check({**ONE, "q": (1 << 24) - 1, "keys": 64, "batch": 2})
    with pytest.raises(EmitError, match="16777216"):
        kernel.emitted.launch.check({**ONE, "q": 64, "keys": 1 << 24})
    order = {"K": ("keys", "d", "heads", "batch")}
    with pytest.raises(LaunchError, match="cannot lie as"):
        run_program(kernel.emitted, kernel, sizes={**ONE, "q": 64, "keys": 64}, order=order)


def test_a_grid_fits_into_a_launch() -> None:
    launch = emit_program(row_sum()).launch
    launch.check({"b": 65535, "k": 2, "c": 256})
    with pytest.raises(EmitError, match="65536 workgroups along y"):
        launch.check({"b": 65536, "k": 2, "c": 256})


@pytest.mark.parametrize("make", [row_sum, lambda: derived("gemm", "gfx950")])
def test_the_same_text_from_json(make: Callable[[], Program]) -> None:
    program = make()
    again = Program.from_json(program.to_json())
    assert emit_program(again).text == emit_program(program).text


def test_lines_name_their_steps() -> None:
    emitted = emit_program(row_sum())
    loads = [line for line in emitted.line_map.values() if line.text.startswith("buffer_load")]
    entries = {line.entry for line in loads}
    assert entries == {
        "prologue[0] load X -> 0",
        "prologue[1] load X -> 1",
        "loop[2] load X -> 0",
        "loop[5] load X -> 1",
    }


def test_registers_are_shared_over_time() -> None:
    """Scratch of the store takes registers that the loop is done with."""
    emitted = emit_program(row_sum())
    assert emitted.resources.vgprs <= 24
    assert emitted.resources.agprs == 0


@pytest.mark.parametrize("unread", [False, True])
def test_a_load_keeps_its_registers_until_a_wait(unread: bool) -> None:
    """Also where nobody reads what it brings: it lands all the same, on whatever is there then."""
    kernel = ready(emit_program(loading_ahead(unread)))
    trial = run_program(kernel.emitted, kernel, sizes={"b": 1, "k": 3, "c": 256}, seed=1)
    assert trial.ok, trial.summary()


def test_the_launch_record() -> None:
    emitted = emit_program(derived("gemm", "gfx950"))
    record = launch_record(emitted)
    assert record["grid"] == ["ceil(n / 64)", "ceil(m / 64)", "1"]
    assert [a["name"] for a in record["arguments"]] == [
        "A", "B", "out", "m", "k", "n", "ld_A", "ld_B", "ld_out",
    ]  # fmt: skip
    assert record["over"] == "k"
    assert (record["k_min"], record["k_step"]) == (emitted.k_min, emitted.k_step)
    assert record["pitch_bytes"] == {"A": 16, "B": 16}
