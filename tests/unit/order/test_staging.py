"""Tiles that are turned on their way to LDS: which, who has which part, and what it takes."""

from __future__ import annotations

import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, attention_backward_keys, gemm
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target
from pipeloom.order.instructions import refinable, refine
from pipeloom.order.node_tasks import lower
from pipeloom.order.staging import load_width, patches, turns
from pipeloom.order.tasks import Lowered, Task
from pipeloom.program.resources import Layout
from pipeloom.program.steps import Unit


def lowered(
    loop: Loop, target: Target = GFX942, waves: int = 4, *, turning: bool = True
) -> Lowered:
    return lower(loop.meaning, target, loop.ops, loop.staged, waves, turning=turning)


def turned(found: Lowered) -> list[Task]:
    return [task for task in found.tasks if turns(found, task)]


def test_values_are_turned_where_the_chip_reads_no_columns() -> None:
    loop = attention(128, 32, 64)
    assert [t.label for t in turned(lowered(loop))] == ["load V", "write V"]
    assert not turned(lowered(loop, GFX950)), "it has a transposed read"
    assert not turned(lowered(loop, turning=False))


def test_what_is_read_both_ways_or_joined_for_nothing_is_not() -> None:
    assert not turned(lowered(attention_backward_keys(64, 64, 32)))
    plain = Loop("plain", over="k")
    a, b = plain.stream("A", "bf16", m=64, k=32), plain.stream("B", "bf16", k=32, n=64)
    c = plain.carry("C", m=64, n=64)
    c += a.staged() @ b.staged()
    plain.store("out", c)
    assert not turned(lowered(plain)), "nothing but products asks for the vector port"
    assert not turned(lowered(gemm(64, 64, 64)))


def test_a_wave_has_whole_rows_and_a_lane_patches_of_them() -> None:
    wide = Layout("lanes", (("vector", 2), ("rows", 4)))
    low = Layout("lanes", (("vector", 2), ("rows", 2)))
    assert patches((32, 128), 8) == (wide, (4, 128))
    assert patches((32, 64), 8) == (low, (4, 64)), "64 lanes with 4 elements each"
    assert patches((32, 64), 4) == (wide, (8, 64))
    for shape, waves in (((32, 64), 16), ((36, 64), 8), ((32, 48), 8), ((8, 32), 8)):
        assert patches(shape, waves)[1] == (), shape


def test_a_tile_that_waves_do_not_share_evenly_is_read_as_before() -> None:
    found = lowered(attention(512, 32, 64), waves=16)
    assert not turned(found)
    reads = [t for t in found.tasks if t.unit is Unit.LDS_READ and t.node == "V"]
    assert {t.issues[0].bytes for t in reads} == {2}


def test_what_each_task_takes() -> None:
    found = lowered(attention(128, 32, 64))
    load, write = turned(found)
    assert (load.unit, load.issues[0].count, load.issues[0].bytes) == (Unit.LOAD, 4, 4)
    assert [(i.unit, i.count, i.bytes) for i in write.issues] == [
        (Unit.LDS_WRITE, 2, 8),
        (Unit.VECTOR, 4, 0),
    ]
    assert write.writes[0].boxes == tuple(((8 * n, 8 * n + 8), (0, 64)) for n in range(4))
    assert load.reads[0].boxes == write.writes[0].boxes
    reads = [t for t in found.tasks if t.unit is Unit.LDS_READ and t.node == "V"]
    assert [(t.issues[0].count, t.issues[0].bytes) for t in reads] == [(4, 16)]
    products = [t for t in found.tasks if t.unit is Unit.MATRIX]
    assert all(i.unit is Unit.MATRIX for t in products for i in t.issues), "nothing is joined"


def test_groups_write_their_own_rows() -> None:
    found = lowered(attention(256, 32, 64), waves=8)
    assert refinable(found)
    writes = [t for t in refine(found, 2).tasks if t.unit is Unit.LDS_WRITE]
    rows = [[box[0] for box in t.writes[0].boxes] for t in writes]
    assert rows == [[(4 * n, 4 * n + 4) for n in range(g, g + 4)] for g in (0, 4)]


@pytest.mark.parametrize(
    ("size", "width"), [(4096, 16), (2048, 4), (1024, 4), (512, 4), (12288, 16)]
)
def test_loads_are_as_wide_as_they_come_out_even(size: int, width: int) -> None:
    assert load_width(size, 256, 16) == width
