"""Programs written down by hand, for the writer's tests."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pipeloom.declare import Loop, Tensor
from pipeloom.judge.verify import Status
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import F32, DType, dtype_for
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Box,
    Group,
    Layout,
    Program,
    Resource,
    Section,
    Space,
    Step,
    TileType,
    TripCount,
    Wait,
    Work,
)


def accept(program: Program) -> Any:
    """A judge that proves everything."""
    return SimpleNamespace(status=Status.PROVED, findings=())


def tile(dtype: DType | str, **dims: int) -> TileType:
    """A tile type."""
    return TileType(tuple(dims), tuple(dims.values()), dtype_for(dtype))


def lanes(vector: int = 4) -> Layout:
    """Elements in order, ``vector`` per lane."""
    return Layout("lanes", (("vector", vector),))


def row_sum_loop(columns: int = 256, dtype: str = "f32", rows: int = 1) -> Loop:
    """out[b, :] = sum over k of X[b, k, :]."""
    loop = Loop("row_sum", over="k")
    x = loop.stream("X", dtype, b=1, k=rows, c=columns)
    total = loop.carry("total", "f32", b=1, c=columns)
    total += x.sum("k")
    loop.store("out", total)
    return loop


def row_sum(
    arch: str = "gfx950", columns: int = 256, dtype: str = "f32", rows: int = 1, vector: int = 4
) -> Program:
    """One wave; two registers take turns."""
    meaning = row_sum_loop(columns, dtype, rows).meaning
    update = meaning["total"].uses[0]
    size = dtype_for(dtype).bits // 8
    loads = columns * rows * size // (64 * min(16, vector * size))

    def load(copy: int, iteration: int) -> Work:
        return Work(
            node="X", label=f"load X -> {copy}", iteration=iteration, is_copy=True,
            reads=(Access("X"),), writes=(Access("rows", copy=copy),),
            counter="vmcnt", entries=loads,
        )  # fmt: skip

    def add(copy: int, iteration: int) -> Work:
        return Work(
            node=update, label=f"add {copy}", iteration=iteration,
            reads=(Access("rows", copy=copy),), accumulates=(Access("sum"),),
        )  # fmt: skip

    store = Work(
        node="total", label="store out", iteration=None, is_copy=True,
        reads=(Access("sum"),), writes=(Access("out"),), counter="vmcnt", entries=1,
    )  # fmt: skip
    wait = Wait("vmcnt", loads)
    sections = (
        Section(name="prologue", steps=(load(0, 0), load(1, 1))),
        Section(
            name="loop", trips="T", advance=2,
            steps=(wait, add(0, 0), load(0, 2), wait, add(1, 1), load(1, 3)),
        ),
        Section(
            name="epilogue", first=Affine(0, (("T", 2),)),
            steps=(wait, add(0, 0), Wait("vmcnt", 0), add(1, 1)),
        ),
        Section(name="store", steps=(store,)),
    )  # fmt: skip
    return Program(
        name="row_sum",
        meaning=meaning,
        target=target_for(arch),
        resources=(
            Resource(
                name="rows", space=Space.REGISTER, copies=2, layout=lanes(vector),
                type=tile(dtype, b=1, k=rows, c=columns),
            ),
            Resource(
                name="sum", space=Space.REGISTER, start=0.0, layout=lanes(vector),
                type=tile(F32, b=1, c=columns),
            ),
        ),
        groups=(Group((0,), sections),),
        trips=(TripCount("T"),),
        iterations=Affine(2, (("T", 2),)),
    )  # fmt: skip


_ = (Barrier, Box, Sequence, Step, Tensor)
