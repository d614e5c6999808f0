"""Decode attention: lengths from an array, splits, several new tokens; in the emulator against
attention in double precision."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pipeloom.declare import Loop, keep, within
from pipeloom.declare.kernels import decode_attention, decode_latent, decode_reduce
from pipeloom.device.contracts import KernelContract
from pipeloom.device.tensors import view_of
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.errors import ConfigError, GraphError
from pipeloom.judge.verify import Status, verify
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine_code import simulate_emitted
from pipeloom.order.whole_instructions import whole_instructions
from pipeloom.plain import from_plain, to_plain
from pipeloom.program import Meaning, Program, Step, Work
from pipeloom.program.index_forms import digit
from pipeloom.write import assemble, emit_program, launch_record
from pipeloom.write.lower.register_kinds import accumulators

pytestmark = pytest.mark.usefixtures("short_search")
Array = np.ndarray[Any, Any]
DEPTH, TILE = 32, 32


@cache
def built(
    group: int | None = None,
    page: int | None = None,
    waves: int = 1,
    scales: str | None = None,
) -> Launchable:
    cache = "fp8" if scales else None
    loop = decode_attention(16, TILE, DEPTH, cache=cache, scales=scales, group=group, page=page)
    emitted = emit_program(pipeline(loop, "gfx950", {"v": waves}))
    return Launchable.load(emitted, assemble(emitted))


def attention(q: Array, k: Array, v: Array, seen: Array) -> Array:
    """Row by row, in double precision; a row that sees nothing is 0."""
    found = np.zeros((len(q), v.shape[1]))
    for row, (query, count) in enumerate(zip(q, seen, strict=True)):
        if count > 0:
            scores = k[:count] @ query.astype(np.float64) * len(query) ** -0.5
            weights = np.exp(scores - scores.max())
            found[row] = weights / weights.sum() @ v[:count]
    return found


def joined(out: Array, lse: Array) -> Array:
    """What the splits say together, [splits, q, v] and [splits, q]."""
    with np.errstate(invalid="ignore"):
        factors = np.nan_to_num(np.exp(lse - lse.max(0)))
    whole = np.maximum(factors.sum(0), 1e-30)
    return np.asarray((out * factors[..., None]).sum(0) / whole[..., None])


@pytest.mark.parametrize(
    ("group", "page", "splits", "waves"),
    [
        *((None, None, 1, 1), (None, None, 3, 1), (3, None, 2, 1)),
        *((3, 64, 2, 1), (None, 1, 2, 2), (None, 16, 1, 2)),
    ],
)
def test_sequences_of_any_length(
    group: int | None, page: int | None, splits: int, waves: int
) -> None:
    """No key, one, some, or more than there are; NaN wherever no key is. Pages in any
    order, one that does not exist, and anything in the table behind them."""
    kernel, rng = built(group, page, waves), np.random.default_rng(splits)
    keys, rows, heads, batch = 128 if page == 64 else 80, 6, 2, 4
    lengths = np.array([-3, 1, 49, keys + 5])
    kept = np.clip(lengths, 0, keys)
    k, v = rng.standard_normal((2, batch, heads, keys, DEPTH)).astype(np.float32)
    for b, length in enumerate(kept):
        k[b, :, length:] = v[b, :, length:] = np.nan
    q = rng.standard_normal((batch, heads, rows, DEPTH)).astype(np.float32)
    sizes = {"batch": batch, "heads": heads, "splits": splits, "q": rows}
    arrays: dict[str, Any] = {"lengths": lengths, "Q": q, "K": k, "V": v}
    if page is None:
        sizes |= {"keys": keys, "d": DEPTH, "v": DEPTH}
    else:
        table, arrays["K"], arrays["V"] = paged(rng, kept, page, k, v)
        arrays["table"], pages = table, arrays["K"].shape[1]
        sizes |= {"table_length": table.shape[1], "pages": pages, "slots": page}
        sizes |= {"c": DEPTH, "w": DEPTH}
    trial = run_program(kernel.emitted, kernel, sizes=sizes, arrays=arrays, data=Data.NORMAL)
    assert trial.ok, trial.summary()
    out, lse = trial.outputs["out"], trial.outputs["lse"]
    tokens = rows // (group or rows)
    for b, length in enumerate(kept):
        seen = length - (tokens - 1 - np.arange(rows) // (group or rows))
        for h in range(heads):
            meant = attention(q[b, h], k[b, h], v[b, h], seen)
            got = joined(out[b, h].astype(np.float64), lse[b, h].astype(np.float64))
            assert np.abs(got - meant).max() < 0.02
            empty = np.isneginf(lse[b, h])
            assert (out[b, h][empty] == 0).all()
            assert empty.all() == (length == 0)


def paged(
    rng: np.random.Generator, lengths: Array, page: int, k: Array, v: Array
) -> tuple[Array, Array, Array]:
    """Keys and values in pages, and the table that says where; the last sequence's first page
    does not exist, and so its keys and values are 0."""
    batch, heads, keys, _ = k.shape
    width = -(-keys // page)
    pages = batch * width + 3
    table = rng.permutation(pages)[: batch * width].reshape(batch, width).astype(np.int32)
    found = np.full((2, heads, pages, page, DEPTH), np.nan, np.float32)
    for b, length in enumerate(lengths):
        for at in range(length):
            found[:, :, table[b, at // page], at % page] = k[b, :, at], v[b, :, at]
        table[b, -(-length // page) :] = rng.choice([-1, pages, 2**31 - 1, -(2**31)])
    table[3, 0] = pages
    k[3, :, :page] = v[3, :, :page] = 0
    return table, found[0], found[1]


def test_caches_of_8_bits_in_pages() -> None:
    """With a scale for each token, which lies in pages as its key does, NaN where no key is.
    Values come as columns, four keys of either block of a product at a time."""
    kernel, rng, page = built(page=16, scales="token"), np.random.default_rng(5), 16
    text = kernel.emitted.text
    assert "ds_read_b64_tr_b8" in text
    assert "ds_read_u8" not in text
    assert "v_cvt_scalef32_pk_bf16_fp8" in text
    keys, rows, heads, batch = 80, 6, 2, 4
    lengths = np.array([0, 1, 49, keys])
    k, v = rng.standard_normal((2, batch, heads, keys, DEPTH)).astype(np.float32) * 3
    factors = rng.uniform(0.1, 2, (2, batch, heads, keys)).astype(np.float32)
    held = kernel.emitted.launch.meaning["K"].type.dtype
    meant_k, meant_v = held.round(k) * factors[0, ..., None], held.round(v) * factors[1, ..., None]
    for b, length in enumerate(lengths):
        k[b, :, length:] = v[b, :, length:] = factors[:, b, :, length:] = np.nan
    q = rng.standard_normal((batch, heads, rows, DEPTH)).astype(np.float32)
    table = rng.permutation(batch * keys // page).reshape(batch, -1)
    sizes = {"batch": batch, "heads": heads, "splits": 2, "q": rows, "c": DEPTH, "w": DEPTH}
    sizes |= {"table_length": table.shape[1], "pages": table.size, "slots": page}
    arrays: dict[str, Any] = {"lengths": lengths, "Q": q, "table": table}
    for name, one in {"K": k, "V": v, "k_scale": factors[0], "v_scale": factors[1]}.items():
        arrays[name] = in_pages(one, table, page)
    trial = run_program(kernel.emitted, kernel, sizes=sizes, arrays=arrays, data=Data.NORMAL)
    assert trial.ok, trial.summary()
    out, lse = (trial.outputs[name].astype(np.float64) for name in ("out", "lse"))
    for b, length in enumerate(lengths):
        for h in range(heads):
            seen = np.full(rows, length)
            meant = attention(q[b, h], meant_k[b, h], meant_v[b, h], seen)
            assert np.abs(joined(out[b, h], lse[b, h]) - meant).max() < 0.06


@cache
def latent() -> Program:
    return pipeline(decode_latent(16, TILE, 64, 32, page=16), "gfx950", {"v": 2})


def test_sums_that_are_seldom_scaled_may_leave_the_vector_registers() -> None:
    """The output is scaled where a maximum rises; scores are computed on in every iteration."""
    program = latent()
    assert not accumulators(program)
    assert accumulators(program, seldom=True) == {"O"}


def test_values_that_are_columns_of_keys() -> None:
    """One array, one tile: a product takes its rows, another the columns, which waves share."""
    emitted, rng, page = emit_program(latent()), np.random.default_rng(6), 16
    keys, rows, batch = 80, 6, 3
    lengths = np.array([0, 49, keys])
    k = rng.standard_normal((batch, 1, keys, 96)).astype(np.float32)
    q = rng.standard_normal((batch, rows, 96)).astype(np.float32)
    table = rng.permutation(batch * keys // page).reshape(batch, -1)
    cut = in_pages(k, table, page)[0]
    sizes = {"batch": batch, "splits": 2, "q": rows, "c": 96, "v": 64}
    sizes |= {"table_length": table.shape[1], "pages": table.size, "slots": page}
    arrays = {"lengths": lengths, "Q": q, "table": table, "K": cut}
    trial = run_program(emitted, assemble(emitted), sizes=sizes, arrays=arrays, data=Data.NORMAL)
    assert trial.ok, trial.summary()
    out, lse = (trial.outputs[name].astype(np.float64) for name in ("out", "lse"))
    for b, length in enumerate(lengths):
        seen = np.full(rows, length)
        meant = attention(q[b], k[b, 0], k[b, 0, :, :64], seen)
        assert np.abs(joined(out[b], lse[b]) - meant).max() < 0.02


def test_a_read_of_other_columns_is_no_proof() -> None:
    """What the second product takes is followed through the view to the tile of keys."""
    program = latent()
    assert verify(program).status is Status.PROVED
    moved = 0

    def wrong(step: Step) -> Step:
        nonlocal moved
        if not isinstance(step, Work) or not step.is_copy or moved:
            return step
        if not step.writes[0].resource.startswith("V"):
            return step
        moved += 1
        read = step.reads[0]
        boxes = tuple((rows, (start + 16, stop + 16)) for rows, (start, stop) in read.boxes)
        return replace(step, reads=(replace(read, boxes=boxes),))

    groups = tuple(
        replace(
            group,
            sections=tuple(
                replace(section, steps=tuple(map(wrong, section.steps)))
                for section in group.sections
            ),
        )
        for group in program.groups
    )
    assert moved == 1
    assert verify(replace(program, groups=groups)).status is not Status.PROVED


def test_views_that_are_no_part_of_a_tile_are_refused() -> None:
    def viewed(**how: Any) -> Loop:
        loop = Loop("viewed", over="keys")
        q = loop.resident("Q", "bf16", q=16, d=64)
        k = loop.stream("K", "bf16", keys=32, d=64)
        scores = keep(q @ k.staged(), loop.left("keys", 32), 1)
        v = loop.view("V", scores if how.get("computed") else k, **how.get("dims", {}))
        total = loop.carry("O", q=16, v=64)
        total += scores.to("bf16") @ v.staged()
        loop.store("out", total)
        return loop

    with pytest.raises(GraphError, match="of keep"):
        _ = viewed(computed=True, dims={"keys": 32, "v": 64}).meaning
    with pytest.raises(GraphError, match="v = 65 for d = 64"):
        _ = viewed(dims={"keys": 32, "v": 65}).meaning


def in_pages(values: Array, table: Array, page: int) -> Array:
    """[batch, heads, keys, ...] as [heads, pages, slots, ...], where a table says."""
    batch, heads, keys, *rest = values.shape
    cut = values.reshape(batch, heads, keys // page, page, *rest).swapaxes(1, 2)
    found = np.empty((table.size, heads, page, *rest), values.dtype)
    found[table.reshape(-1)] = cut.reshape(-1, heads, page, *rest)
    return found.swapaxes(0, 1)


def test_scales_that_no_kernel_takes_are_refused() -> None:
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"dtype": "fp8", "scales": "token"}, "no room in fp8"),
        ({"scales": "row"}, "scales per 'row'"),
    )
    for how, said in refused:
        with pytest.raises(ConfigError, match=said):
            decode_attention(16, TILE, DEPTH, **how)


def test_a_workgroup_runs_its_own_share() -> None:
    """Instructions go with the keys of a sequence, not with the longest one."""
    kernel = built()
    sizes = {"batch": 1, "heads": 1, "splits": 1, "q": 4, "keys": 16 * TILE, "d": DEPTH, "v": DEPTH}

    def executed(length: int, splits: int) -> int:
        trial = run_program(
            kernel.emitted,
            kernel,
            sizes=sizes | {"splits": splits},
            arrays={"lengths": np.array([length])},
            data=Data.NORMAL,
        )
        assert trial.ok, trial.summary()
        return trial.executed

    short, long = executed(TILE, 1), executed(16 * TILE, 1)
    assert long > 2 * short
    assert executed(TILE, 4) < 5 * short


def test_the_simulator_finds_lengths_and_shares() -> None:
    """It walks the scalar unit's way to the trips, a division in vector registers included."""
    emitted = built().emitted
    tiles = (emitted.launch.least + 8 * emitted.launch.step) // TILE
    assert 100 < simulate_emitted(emitted, k_tiles=tiles).steady_cycles_per_iteration < 10_000


def test_workgroups_share_a_compute_unit() -> None:
    """What one waits for others use, but none gets more than its share of the bandwidth."""
    emitted = built(waves=2).emitted
    tiles = (emitted.launch.least + 12 * emitted.launch.step) // TILE
    alone, both = (simulate_emitted(emitted, k_tiles=tiles, workgroups=n) for n in (1, 2))
    assert len(both.programs) == 4
    assert {p.simd for p in both.programs} == {0, 1, 2, 3}
    cycles, shared = (t.steady_cycles_per_iteration for t in (alone, both))
    memory = alone.utilisation()["memory bandwidth"] * cycles
    assert max(cycles, 2 * memory) <= shared < 1.5 * cycles
    with pytest.raises(ConfigError, match="workgroups"):
        simulate_emitted(emitted, k_tiles=tiles, workgroups=emitted.resources.workgroups + 1)


def test_splits_are_put_together() -> None:
    """In their order, also where some or all of them have no key."""
    emitted = emit_program(pipeline(decode_reduce(16, 32, "f32"), "gfx950", 1))
    kernel = Launchable.load(emitted, assemble(emitted))
    rng = np.random.default_rng(3)
    for splits, rows in ((1, 5), (4, 19)):
        lse = rng.standard_normal((splits, rows)).astype(np.float32) * 30
        lse[rng.random(lse.shape) < 0.3] = -np.inf
        lse[:, 2] = -np.inf
        parts = rng.standard_normal((splits, rows, 32)).astype(np.float32)
        parts[np.isneginf(lse)] = 0
        sizes = {"splits": splits, "r": rows, "v": 32}
        trial = run_program(emitted, kernel, sizes=sizes, arrays={"O": parts, "L": lse})
        assert not trial.findings
        assert not trial.spoilt
        meant = joined(parts.astype(np.float64), lse.astype(np.float64))
        np.testing.assert_allclose(trial.outputs["out"], meant, atol=1e-5)


def test_a_record_says_how_to_launch_it() -> None:
    """Lengths are an array, splits come from the outputs, and problems go along x, where a launch
    may have millions."""
    kernel = built()
    contract = KernelContract.of(launch_record(kernel.emitted))
    arrays: dict[str, Any] = {
        "Q": np.zeros((3, 2, 4, DEPTH), np.uint16),
        "K": np.zeros((3, 2, 50, DEPTH), np.uint16),
        "V": np.zeros((3, 2, 50, DEPTH), np.uint16),
        "lengths": np.zeros(3, np.int32),
        "out": np.zeros((3, 2, 7, 4, DEPTH), np.float32),
        "lse": np.zeros((3, 2, 7, 4), np.float32),
    }
    laid = contract.laid({name: view_of(array, name) for name, array in arrays.items()})
    sizes, batches = contract.sizes(laid)
    contract.check(sizes, laid, batches)
    assert contract.grid(sizes) == (3 * 2 * 7, 1, 1)


def test_a_span_is_part_of_the_meaning() -> None:
    meaning = decode_attention(16, TILE, DEPTH).meaning
    assert from_plain(Meaning, to_plain(meaning)) == meaning


@pytest.mark.parametrize("pages", [3, 5, 6])
def test_any_number_of_pages_a_tile(pages: int) -> None:
    """The scalar unit loads 1, 2, 4 or 8 entries: more than a tile has, and more than the table."""
    tile, slots = 16 * pages, 16
    loop = Loop("largest", over="keys")
    x = loop.stream("X", "f32", keys=tile, d=64)
    most = loop.carry("most", "f32", start=-1e30, d=64)
    most.becomes(loop.apply("max", most, x.max("keys")))
    loop.store("out", most)
    loop.batch("out", over=("batch",))
    page, slot, c = digit("page", "table_length"), digit("slot", slots), digit("c", "c")
    table = loop.indices("table", page, per="batch")
    loop.place("X", keys=(page, slot), d=(c,), pages=table, slots=slot, c=c)
    loop.lengths("lengths", per="batch")
    kernel = emit_program(pipeline(loop, "gfx950", 1))
    width = 2 * pages + 1
    entries = np.random.default_rng(pages).permutation(3 * width).reshape(3, width)
    entries[1, 1] = -1
    arrays = {"table": entries, "lengths": np.array([0, tile + 5, width * slots])}
    sizes = {"batch": 3, "table_length": width, "pages": 3 * width, "slots": slots, "c": 64}
    trial = run_program(kernel, assemble(kernel), sizes=sizes, arrays=arrays)
    assert trial.ok, trial.summary()


def test_pages_that_no_kernel_follows_are_refused() -> None:
    def placed(slots: int = 16, **changed: Any) -> Loop:
        loop = Loop("placed", over="k")
        x = loop.stream("X", "f32", k=32, n=64)
        most = loop.carry("most", "f32", start=-1e30, n=64)
        most.becomes(loop.apply("max", most, x.max("k")))
        loop.store("out", most)
        loop.batch("out", over=("b",))
        page, slot, column = digit("page", "length"), digit("slot", slots), digit("c", "c")
        where: dict[str, Any] = {"k": (page, slot), "n": (column,)}
        table = loop.indices("t", page, per=changed.get("per", "b"))
        where |= {"pages": changed.get("factor", 1) * table, "slots": slot, "c": column}
        loop.place("X", **where)
        return loop

    assert placed().meaning.index_arrays[0].dims == ("b", "length")
    for loop, said in (
        (placed(24), "pages of 24, and an iteration takes 32"),
        (placed(factor=2), "lies at pages = 2 \\* t"),
        (placed(per="d"), "entries per 'd'"),
    ):
        with pytest.raises(GraphError, match=said):
            _ = loop.meaning


def shared(tile: int = 16, **how: Any) -> Loop:
    loop = Loop("shared", over="k")
    x = loop.stream("X", "f32", k=tile, n=64)
    found = keep(x, loop.left("k", tile), 1)
    most = loop.carry("most", "f32", start=-1e30, n=64)
    most.becomes(loop.apply("max", most, found.max("k")))
    if how.get("size"):
        most = most * loop.size("k")
    loop.store("out", most)
    loop.batch("out", over=("part",))
    loop.share(how.get("along", "part"))
    return loop


def test_what_cannot_be_shared_is_refused() -> None:
    assert shared().meaning.ragged
    for how, said in (
        ({"along": "parts"}, "no dimension of its batch"),
        ({"tile": 8}, "takes 8 of 'k' at a time"),
        ({"size": True}, "asks how many there are"),
    ):
        with pytest.raises(GraphError, match=said):
            _ = shared(**how).meaning


@pytest.mark.parametrize("shares", [False, True])
def test_tiles_that_are_shared_out_stay_as_long_as_they_were_declared(shares: bool) -> None:
    """Others become whole matrix instructions: which part has what, nobody asks of them."""
    loop = Loop("parts", over="k")
    a, b = (
        loop.stream(name, "bf16", **{"k": 16, dim: 32}) for name, dim in (("A", "m"), ("B", "n"))
    )
    c = loop.carry("C", m=32, n=32)
    c += within(a, loop.left("k", 16)).to("bf16") @ b
    loop.store("out", c)
    if shares:
        loop.batch("out", over=("part",))
        loop.share("part")
    assert whole_instructions(loop, GFX950).meaning.tile["k"] == (16 if shares else 32)
