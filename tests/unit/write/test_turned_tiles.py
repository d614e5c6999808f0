"""Tiles that are turned on their way to LDS, in registers, in LDS, and in a kernel that runs."""

from __future__ import annotations

import numpy as np
import pytest

from pipeloom.declare.kernels import attention
from pipeloom.drive.trial import run_program
from pipeloom.judge.verify import verify
from pipeloom.machine.dtypes import BF16
from pipeloom.machine.gfx942 import GFX942
from pipeloom.order.node_tasks import lower
from pipeloom.order.patterns import turning, woven
from pipeloom.order.peel import peel
from pipeloom.program import Layout, Resource, Space
from pipeloom.program.across_rows import turned_tiles
from pipeloom.program.tiles import TileType
from pipeloom.write import EmitError, assemble, emit_program
from pipeloom.write.lower.lds import lds_tiles
from pipeloom.write.lower.patches import column_runs
from pipeloom.write.lower.register_tiles import register_tile


def patched(rows: int, columns: int, high: int) -> Resource:
    layout = Layout("lanes", (("vector", 2), ("rows", high)))
    type_ = TileType(("k", "n"), (rows, columns), BF16)
    return Resource(name="V", space=Space.REGISTER, type=type_, layout=layout)


@pytest.mark.parametrize(("rows", "columns", "high"), [(4, 128, 4), (4, 64, 2), (8, 64, 4)])
def test_lanes_share_all_elements_in_patches(rows: int, columns: int, high: int) -> None:
    tile = register_tile(patched(rows, columns, high))
    held = tile.coordinates.reshape(-1, 2)
    assert len(np.unique(held, axis=0)) == len(held) == rows * columns
    for run in column_runs(tile.resource, tile.slots):
        column = tile.coordinates[run]
        assert (np.diff(column[..., 0], axis=0) == 1).all(), "rows that follow each other"
        assert (np.diff(column[..., 1], axis=0) == 0).all(), "of one column"
        assert (column[0, :, 0] % high == 0).all()
    assert sorted(s for run in column_runs(tile.resource, tile.slots) for s in run) == [
        *range(tile.slots)
    ]


@pytest.mark.parametrize(("rows", "columns", "high"), [(6, 128, 4), (4, 32, 2), (2, 384, 4)])
def test_patches_that_lanes_do_not_share_are_refused(rows: int, columns: int, high: int) -> None:
    with pytest.raises(EmitError, match="do not share"):
        register_tile(patched(rows, columns, high))


def test_attention_in_turns_with_turned_values() -> None:
    """Right numbers; and in LDS a column's elements follow each other, 8 bytes for a product."""
    loop = attention(256, 32, 64)
    lowered = lower(loop.meaning, GFX942, loop.ops, loop.staged, 8, turning=True)
    program = peel(woven(lowered, next(turning(lowered))))
    assert turned_tiles(program) == {"lds V"}
    tiles = {r.name: register_tile(r) for r in program.resources if r.space is Space.REGISTER}
    lying = lds_tiles(program, GFX942, tiles)[0]["lds V"]
    keys, columns = np.meshgrid(np.arange(32), np.arange(64), indexing="ij")
    places = lying.address(np.stack([keys, columns], axis=-1), 0) - lying.base
    assert sorted(places.ravel()) == [*range(0, 32 * 64 * 2, 2)]
    quads = places.reshape(8, 4, 64)
    assert (np.diff(quads, axis=1) == 2).all()
    assert (quads[:, 0] % 8 == 0).all()
    emitted = emit_program(program, judge=verify)
    text = emitted.text
    assert "ds_read_u16" not in text
    assert text.count("ds_write_b32") == text.count("v_perm_b32") - text.count("v_add3_u32") // 2
    sizes = {"q": 70, "keys": 75, "d": 64, "v": 64, "batch": 1, "heads": 1, "group": 1}
    assert run_program(emitted, assemble(emitted), sizes=sizes).ok
