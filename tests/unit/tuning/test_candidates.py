"""Every block that is timed can be written: the writer itself is asked, not a rule about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeloom.drive.store import Store
from pipeloom.judge.simulate.whole_gpu import Block
from pipeloom.program import Program
from pipeloom.tuning import candidates
from pipeloom.tuning.candidates import GRIDS, SIDES, block_spec, require_written, time_block
from pipeloom.write import EmitError

LAYOUTS = ("NT", "NN", "TN", "TT")


def some_blocks() -> list[tuple[str, str, str, Block]]:
    """Every side along M and N in every layout, waves and types in turn."""
    found = []
    for number, (m, layout) in enumerate((m, layout) for m in SIDES for layout in LAYOUTS):
        n = SIDES[(3 * number + 1) % len(SIDES)]
        if max(m, n) <= 4 * min(m, n):
            dtype, deep = (("bf16", 64), ("fp8", 128))[number % 3 == 2]
            waves = next(grid for grid in (GRIDS[number % 3], GRIDS[0]) if _shares(m, n, grid))
            found.append(("gfx950", dtype, layout, Block(m, n, deep, *waves)))
    return [*found, *(("gfx942", "bf16", layout, Block(96, 160, 32)) for layout in LAYOUTS)]


def _shares(m: int, n: int, grid: tuple[int, int]) -> bool:
    return m % (16 * grid[0]) == 0 and n % (16 * grid[1]) == 0


@pytest.mark.parametrize(("arch", "dtype", "layout", "block"), some_blocks(), ids=str)
def test_the_writer_takes_tiles_of_every_side_in_every_layout(
    arch: str, dtype: str, layout: str, block: Block
) -> None:
    require_written(block_spec(arch, dtype, block, layout))


@pytest.mark.parametrize("refuses", ["the first order", "what is derived"])
def test_what_the_writer_refuses_is_no_candidate(
    refuses: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Program] = []

    def occupied(program: Program, **_: object) -> None:
        asked.append(program)
        if refuses == "the first order" or len(asked) > 1:
            raise EmitError("it cannot be written")

    monkeypatch.setattr(candidates, "occupied", occupied)
    job = block_spec("gfx950", "bf16", Block(32, 32, 64), "NT")
    assert time_block(job, Store(tmp_path)) is None
    assert len(asked) == (1 if refuses == "the first order" else 2)
    assert candidates.known_block(job, Store(tmp_path)) == (True, None)
