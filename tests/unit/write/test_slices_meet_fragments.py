"""The proof takes any load of a piece to touch what any fragment of it reads; here it does.

Watched in the emulator, so the test knows nothing of layouts: which bytes of LDS each instruction
of each wave writes and reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom import compile_schedule
from pipeloom.drive.trial import Launchable, run_gemm
from pipeloom.judge.emulate.lds import LocalMemory
from pipeloom.reference.schedules.gemm_tile import GemmTileSpec, TileSpec
from pipeloom.write import CHIPS, assemble, dealt_rows, emit_kernel, layout_conflicts, layout_for
from pipeloom.write.layout import RowOrder, TileLayout

Where = npt.NDArray[np.int64] | slice
Accesses = list[tuple[int, int, frozenset[int]]]
"""(wave, pc, granules) of each instruction executed."""


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Accesses, Accesses]]:
    """Collects the writes and the reads of LDS."""
    writes: Accesses = []
    reads: Accesses = []

    def spy(original: Callable[..., Any], into: Accesses) -> Callable[..., Any]:
        def record(self: LocalMemory, number: int, barriers: int, where: Where, *rest: Any) -> Any:
            instruction = self.instructions[number]
            assert instruction is not None
            touched = frozenset(np.arange(self.poisoned.size)[where].tolist())
            into.append((int(self.owner[number]), instruction.pc, touched))
            return original(self, number, barriers, where, *rest)

        return record

    with monkeypatch.context() as patch:
        patch.setattr(LocalMemory, "record_write", spy(LocalMemory.record_write, writes))
        patch.setattr(LocalMemory, "record_read", spy(LocalMemory.record_read, reads))
        yield writes, reads


def together(ready: Launchable, accesses: Accesses) -> dict[tuple[int, str], list[frozenset[int]]]:
    """What each wave touches for each entry of the schedule, instruction by instruction."""
    found: dict[tuple[int, str], list[frozenset[int]]] = defaultdict(list)
    for wave, pc, touched in accesses:
        entry = ready.line_map[pc].entry
        assert entry is not None
        found[wave, entry].append(touched)
    return found


def met(
    ready: Launchable, tile: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[int, int]]:
    """For each load instruction: how many fragments it meets, and how many its piece has."""
    emitted = ready.emitted
    with watched(monkeypatch) as (writes, reads):
        assert run_gemm(emitted, ready, M=tile[0], N=tile[1], K=emitted.k_min, seed=1).ok
    fragments = {frozenset().union(*parts) for parts in together(ready, reads).values()}
    pieces: dict[str, set[frozenset[int]]] = defaultdict(set)
    for (_, entry), parts in together(ready, writes).items():
        pieces[entry] |= set(parts)
    counts = []
    for slices in pieces.values():
        whole = frozenset().union(*slices)
        inside = [fragment for fragment in fragments if fragment & whole]
        assert inside
        counts += [(sum(bool(s & f) for f in inside), len(inside)) for s in slices]
    return counts


@pytest.mark.parametrize(
    ("name", "dtype", "shape"),
    [
        ("ping_pong", "bf16", (256, 256, 64, 16, 32)),
        ("ping_pong", "bf16", (128, 128, 64, 16, 32)),
        ("ping_pong", "fp8", (128, 256, 128, 32, 64)),
        ("four_wave", "bf16", (128, 128, 64, 16, 32)),
        ("four_wave", "bf16", (192, 128, 64, 16, 32)),
        ("four_wave", "fp8", (128, 128, 128, 16, 128)),
    ],
)
def test_every_load_instruction_meets_every_fragment_of_its_piece(
    built: Callable[..., Launchable],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    dtype: str,
    shape: tuple[int, int, int, int, int],
) -> None:
    counts = met(built(name, dtype, shape), shape, monkeypatch)
    assert {there for _, there in counts} <= {2, 4}
    assert [meets for meets, _ in counts] == [there for _, there in counts]


@pytest.mark.parametrize("kernel", ["four_wave", "ping_pong", "single_buffer"])
def test_modulo_kernels_too(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tile = TileSpec(BM=128, BN=128, BK=64)
    spec = GemmTileSpec(kernel=kernel, geometry=tile, time_limit=None)
    emitted = emit_kernel(compile_schedule(spec.build()))
    ready = Launchable.load(emitted, assemble(emitted))
    for meets, there in met(ready, (128, 128), monkeypatch):
        assert meets == there


@pytest.mark.parametrize("target", sorted(CHIPS))
@pytest.mark.parametrize("side", [16, 32])
@pytest.mark.parametrize("row_bytes", [64, 128, 256])
@pytest.mark.parametrize("fragments", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("slice_bytes", [256, 1024])
def test_dealing_rows_costs_no_conflict(
    target: str, side: int, row_bytes: int, fragments: int, slice_bytes: int
) -> None:
    chip = CHIPS[target]
    rows = fragments * side
    order = dealt_rows(chip, row_bytes, rows, fragments, slice_bytes)
    layout = TileLayout(row_bytes, layout_for(chip, row_bytes, side).swizzle, order)
    assert layout_conflicts(layout, chip, side) == 0
    places = [order.place(row) for row in range(2 * rows)]
    assert sorted(places) == list(range(2 * rows))
    assert [order.row_at(place) for place in places] == list(range(2 * rows))
    for position in range(2 * rows * layout.chunks):
        row, chunk = layout.source(position)
        assert layout.address(row, chunk) == 16 * position


def test_rows_that_share_all_banks_stay_neighbours() -> None:
    order = dealt_rows(CHIPS["gfx950"], 128, 128, 2, 1024)
    assert order == RowOrder(run=64, ways=2, group=2)
    assert [order.row_at(place) for place in range(8)] == [0, 1, 64, 65, 2, 3, 66, 67]


def test_no_more_is_dealt_than_all_waves_bring_at_once() -> None:
    assert dealt_rows(CHIPS["gfx942"], 128, 128, 4, 1024).ways == 4
    assert dealt_rows(CHIPS["gfx942"], 128, 128, 4, 256).ways == 2
    assert dealt_rows(CHIPS["gfx942"], 128, 96, 3, 1024).ways == 1


def test_waves_together_meet_every_fragment_where_loads_are_narrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4 bytes per lane are two rows: one slice meets two fragments, the waves' slices all four."""
    tile = TileSpec(BM=128, BN=128, BK=64)
    spec = GemmTileSpec(kernel="ping_pong", arch="gfx942", geometry=tile, time_limit=None)
    emitted = emit_kernel(compile_schedule(spec.build()), target="gfx942")
    ready = Launchable.load(emitted, assemble(emitted))
    with watched(monkeypatch) as (writes, reads):
        assert run_gemm(emitted, ready, M=128, N=128, K=emitted.k_min, seed=1).ok
    fragments = {frozenset().union(*parts) for parts in together(ready, reads).values()}
    pieces: dict[str, frozenset[int]] = defaultdict(frozenset)
    loads: dict[tuple[str, int], frozenset[int]] = defaultdict(frozenset)
    for _, pc, touched in writes:
        entry = ready.line_map[pc].entry
        assert entry is not None
        pieces[entry] |= touched
        loads[entry, pc] |= touched
    for (entry, _), touched in loads.items():
        assert all(touched & fragment for fragment in fragments if fragment & pieces[entry])
