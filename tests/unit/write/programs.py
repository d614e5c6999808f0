"""Programs for the writer's tests: one written by hand, and declarations that become others."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention
from pipeloom.drive.pipeline import pipeline
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import F32, DType, dtype_for
from pipeloom.order.in_order import in_order
from pipeloom.order.roles import Consumer, Producer
from pipeloom.order.strategy import Exact
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Box,
    Group,
    Layout,
    OpDef,
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

RELU = OpDef("acme.relu", 1, lambda a: np.maximum(a, 0), lowering=("v_max_f32 {d}, 0, {0}",))


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
            node="X",
            label=f"load X -> {copy}",
            iteration=iteration,
            is_copy=True,
            reads=(Access("X"),),
            writes=(Access("rows", copy=copy),),
            counter="vmcnt",
            entries=loads,
        )

    def add(copy: int, iteration: int) -> Work:
        return Work(
            node=update,
            label=f"add {copy}",
            iteration=iteration,
            reads=(Access("rows", copy=copy),),
            accumulates=(Access("sum"),),
        )

    store = Work(
        node="total",
        label="store out",
        iteration=None,
        is_copy=True,
        reads=(Access("sum"),),
        writes=(Access("out"),),
        counter="vmcnt",
        entries=1,
    )
    wait = Wait("vmcnt", loads)
    loop = (wait, add(0, 0), load(0, 2), wait, add(1, 1), load(1, 3))
    last = (wait, add(0, 0), Wait("vmcnt", 0), add(1, 1))
    sections = (
        Section(name="prologue", steps=(load(0, 0), load(1, 1))),
        Section(name="loop", trips="T", advance=2, steps=loop),
        Section(name="epilogue", first=Affine(0, (("T", 2),)), steps=last),
        Section(name="store", steps=(store,)),
    )
    registers = Resource(
        name="rows",
        space=Space.REGISTER,
        copies=2,
        layout=lanes(vector),
        type=tile(dtype, b=1, k=rows, c=columns),
    )
    total = Resource(
        name="sum",
        space=Space.REGISTER,
        start=0.0,
        layout=lanes(vector),
        type=tile(F32, b=1, c=columns),
    )
    return Program(
        name="row_sum",
        meaning=meaning,
        target=target_for(arch),
        resources=(registers, total),
        groups=(Group((0,), sections),),
        trips=(TripCount("T"),),
        iterations=Affine(2, (("T", 2),)),
    )


def loading_ahead(unread: bool) -> Program:
    """``row_sum`` with one register, which nobody reads after the last trip's load.

    With ``unread``, what is loaded then goes to another part of it, which nobody reads at all.
    """
    program = with_resource(row_sum(), "rows", type=tile(F32, b=1, k=2, c=256))
    prologue, loop, _, store = program.groups[0].sections
    _, add, load = loop.steps[:3]
    assert isinstance(add, Work)
    assert isinstance(load, Work)
    part, other = (Access("rows", (((0, 1), (row, row + 1), (0, 256)),)) for row in (0, 1))
    first, ahead = (replace(load, iteration=i, writes=(part,)) for i in (0, 1))
    steps: tuple[Step, ...] = (Wait("vmcnt", 0), replace(add, reads=(part,)), ahead)
    if unread:
        steps = (first, *steps[:2], replace(first, writes=(other,)))
    sections = (
        replace(prologue, steps=(first,)),
        replace(loop, advance=1, steps=steps),
        store,
    )
    return replace(
        program,
        groups=(Group((0,), sections),),
        trips=(TripCount("T", 1),),
        iterations=Affine(0, (("T", 1),)),
    )


def exchange(arch: str = "gfx950") -> Program:
    """Two waves: each loads half a row, hands it to the other through LDS, and sums what it got."""
    meaning = row_sum_loop(512).meaning
    update = meaning["total"].uses[0]
    halves = [(0, 256), (256, 512)]
    mine: tuple[Box, ...] = tuple(((0, 1), (0, 1), half) for half in halves)
    theirs = mine[::-1]
    out: tuple[Box, ...] = tuple(((0, 1), half) for half in reversed(halves))

    def copy(label: str, read: Access, write: Access, counter: str, parts: tuple[Box, ...]) -> Work:
        return Work(
            node="X",
            label=label,
            iteration=0,
            is_copy=True,
            reads=(read,),
            writes=(write,),
            parts=parts,
            counter=counter,
            entries=1,
        )

    steps: tuple[Step, ...] = (
        copy("load", Access("X", mine), Access("in"), "vmcnt", mine),
        Wait("vmcnt", 0),
        copy("hand over", Access("in"), Access("lds", mine), "lgkmcnt", mine),
        Wait("lgkmcnt", 0),
        Barrier(),
        copy("take", Access("lds", theirs), Access("rows"), "lgkmcnt", theirs),
        Wait("lgkmcnt", 0),
        Work(
            node=update,
            label="add",
            iteration=0,
            reads=(Access("rows"),),
            accumulates=(Access("sum"),),
            parts=tuple((*box[:1], box[2], box[1]) for box in theirs),
        ),
        Barrier(),
    )
    store = Work(
        node="total",
        label="store out",
        iteration=None,
        is_copy=True,
        reads=(Access("sum"),),
        writes=(Access("out", out),),
        parts=out,
        counter="vmcnt",
        entries=1,
    )
    half = tile(F32, b=1, k=1, c=256)
    return Program(
        name="exchange",
        meaning=meaning,
        target=target_for(arch),
        resources=(
            Resource(name="lds", space=Space.LDS, type=tile(F32, b=1, k=1, c=512)),
            Resource(name="in", space=Space.REGISTER, layout=lanes(), type=half),
            Resource(name="rows", space=Space.REGISTER, layout=lanes(), type=half),
            Resource(
                name="sum",
                space=Space.REGISTER,
                start=0.0,
                layout=lanes(),
                type=tile(F32, b=1, c=256),
            ),
        ),
        groups=(
            Group(
                (0, 1),
                (
                    Section(name="loop", trips="T", advance=1, steps=steps),
                    Section(name="store", steps=(store,)),
                ),
            ),
        ),
        trips=(TripCount("T", 1),),
        iterations=Affine(0, (("T", 1),)),
    )


def with_step(program: Program, old: str, **changes: Any) -> Program:
    """With the steps labelled ``old`` changed."""

    def changed(step: Step) -> Step:
        if isinstance(step, Work) and step.label == old:
            return replace(step, **changes)
        return step

    groups = tuple(
        replace(
            group,
            sections=tuple(
                replace(section, steps=tuple(changed(s) for s in section.steps))
                for section in group.sections
            ),
        )
        for group in program.groups
    )
    return replace(program, groups=groups)


def with_resource(program: Program, name: str, **changes: Any) -> Program:
    """With a resource changed."""
    resources = tuple(replace(r, **changes) if r.name == name else r for r in program.resources)
    return replace(program, resources=resources)


def gemm_loop(
    dtype: str = "bf16", out: str = "bf16", m: int = 64, n: int = 64, k: int = 64
) -> Loop:
    """out = A B^T through LDS."""
    loop = Loop("gemm", over="k")
    a = loop.stream("A", dtype, m=m, k=k)
    b = loop.stream("B", dtype, n=n, k=k)
    c = loop.carry("C", "f32", m=m, n=n)
    c += a.staged() @ b.staged()
    loop.store("out", c if out == "f32" else c.to(out))
    return loop


def epilogue_loop(out: str = "bf16") -> Loop:
    """out = relu(alpha * A B^T + bias), the activation somebody else's op."""
    loop = Loop("gemm_bias", over="k")
    a = loop.stream("A", "bf16", m=64, k=64)
    b = loop.stream("B", "bf16", n=64, k=64)
    bias = loop.resident("bias", "f32", n=64)
    alpha = loop.scalar("alpha")
    c = loop.carry("C", "f32", m=64, n=64)
    c += a.staged() @ b.staged()
    y = loop.apply(RELU, c * alpha + bias)
    loop.store("out", y if out == "f32" else y.to(out))
    return loop


def reduced_loop(largest: bool) -> Loop:
    """out[m] = the largest (or the sum) of a row of A B^T."""
    loop = Loop("rows", over="k")
    a = loop.stream("A", "bf16", m=64, k=64)
    b = loop.stream("B", "bf16", n=32, k=64)
    c = loop.carry("C", "f32", m=64, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c.max("n") if largest else c.sum("n"))
    return loop


@cache
def derived(what: str, arch: str, dtype: str = "bf16", out: str = "bf16") -> Program:
    """A program that ``pipeline`` derives, by the modulo solver."""
    target, exact = target_for(arch), Exact()
    if what == "gemm":
        loop = gemm_loop(dtype, out, k=128 if "fp8" in dtype else 64)
        return pipeline(loop, target, 4, strategy=exact)
    if what == "produced":
        return pipeline(gemm_loop(dtype, out), target, groups=(Producer(1), Consumer(4)))
    if what in ("attention", "causal"):
        loop = attention(64, 32, 32, dtype=dtype, causal=what == "causal", lse=True)
        return pipeline(loop, target, 4, strategy=in_order)
    if what in ("largest", "sums"):
        return pipeline(reduced_loop(what == "largest"), target, {"m": 4}, strategy=exact)
    return pipeline(epilogue_loop(out), target, 4, strategy=exact)
