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
import pytest

from pipeloom.drive.trial import Launchable
from pipeloom.judge.emulate.lds_shadow import Footprint, LocalMemory
from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.write import dealt_rows, layout_conflicts, layout_for
from pipeloom.write.layout import RowOrder, TileLayout
from tests.unit.write.kernels import Shape, built_kernel, built_program, run

pytestmark = pytest.mark.usefixtures("short_search")
Accesses = list[tuple[int, int, frozenset[int]]]
"""(wave, pc, granules) of each instruction executed."""


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Accesses, Accesses]]:
    """Collects the writes and the reads of LDS."""
    writes: Accesses = []
    reads: Accesses = []

    def spy(original: Callable[..., Any], into: Accesses) -> Callable[..., Any]:
        def record(
            self: LocalMemory, number: int, barriers: int, piece: Footprint, *rest: Any
        ) -> Any:
            instruction = self.instructions[number]
            assert instruction is not None
            touched = frozenset(np.arange(self.poisoned.size)[piece.where].tolist())
            into.append((int(self.owner[number]), instruction.pc, touched))
            return original(self, number, barriers, piece, *rest)

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
    ready: Launchable, tile: Sequence[int], groups: int, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[int, int]]:
    """For each load instruction: how many fragments it meets, of how many of its group's piece."""
    with watched(monkeypatch) as (writes, reads):
        assert run(ready, tile[0], tile[1], 0, seed=1).ok
    fragments = {frozenset().union(*parts) for parts in together(ready, reads).values()}
    pieces: dict[tuple[str, int], set[frozenset[int]]] = defaultdict(set)
    for (wave, entry), parts in together(ready, writes).items():
        pieces[entry, wave * groups // ready.emitted.waves] |= set(parts)
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
        ("ping_pong", "bf16", (128, 128, 64, 16, 32)),
        ("four_wave", "fp8", (128, 128, 128, 16, 128)),
        ("gemm_tile", "bf16", (128, 128, 64, 16, 32)),
    ],
)
def test_every_load_instruction_meets_every_fragment_of_its_piece(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    dtype: str,
    shape: Shape,
) -> None:
    groups = len(built_program(name, dtype, shape).groups)
    counts = met(built_kernel(name, dtype, shape), shape, groups, monkeypatch)
    assert {there for _, there in counts} <= {1, 2, 4}
    assert [meets for meets, _ in counts] == [there for _, there in counts]


@pytest.mark.parametrize("target", [t.arch for t in TARGETS])
@pytest.mark.parametrize("side", [16, 32])
@pytest.mark.parametrize("row_bytes", [64, 128, 256])
@pytest.mark.parametrize("fragments", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("slice_bytes", [256, 1024])
def test_dealing_rows_costs_no_conflict(
    target: str, side: int, row_bytes: int, fragments: int, slice_bytes: int
) -> None:
    chip = target_for(target)
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
    order = dealt_rows(target_for("gfx950"), 128, 128, 2, 1024)
    assert order == RowOrder(run=64, ways=2, group=2)
    assert [order.row_at(place) for place in range(8)] == [0, 1, 64, 65, 2, 3, 66, 67]


def test_no_more_is_dealt_than_all_waves_bring_at_once() -> None:
    assert dealt_rows(target_for("gfx942"), 128, 128, 4, 1024).ways == 4
    assert dealt_rows(target_for("gfx942"), 128, 128, 4, 256).ways == 2
    assert dealt_rows(target_for("gfx942"), 128, 96, 3, 1024).ways == 1


def test_waves_together_meet_every_fragment_where_loads_are_narrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4 bytes per lane are two rows: one slice meets two fragments, the waves' slices all four."""
    ready = built_kernel("gemm_tile", "bf16", (128, 128, 32, 16, 16), "gfx942")
    with watched(monkeypatch) as (writes, reads):
        assert run(ready, 128, 128, 0, seed=1).ok
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
