"""Which block of C a workgroup takes: every one once, what the kernel computes, and near others."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeloom.declare import Loop
from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import run_program
from pipeloom.judge.simulate.whole_gpu import Block, Plan, traffic
from pipeloom.machine.dispatch import TileOrder
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.gpus import gpu_for
from pipeloom.write import EmitError, EmittedKernel, Placing, assemble, emit_program

pytestmark = pytest.mark.usefixtures("short_search")

ORDERS = st.builds(
    lambda xcds, per, heights: TileOrder(
        xcds, per, tuple((40 * n * n, height) for n, height in enumerate(heights))
    ),
    st.integers(1, 9),
    st.integers(1, 40),
    st.lists(st.integers(1, 20), min_size=1, max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(ORDERS, st.integers(1, 45), st.integers(1, 45))
def test_every_block_is_taken_once(order: TileOrder, rows: int, columns: int) -> None:
    grid = [(row, column) for row in range(rows) for column in range(columns)]
    assert sorted(order.place(*at, rows, columns) for at in grid) == grid


@cache
def emitted() -> EmittedKernel:
    spec = GemmSpec(BM=128, BN=96, waves_m=2, waves_n=2, batched=True, search=False)
    return gemm_kernel(spec).kernel


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(0, 2**32), st.integers(0, 127))
@example(3000, 3000, 2**31, 5)
def test_kernels_compute_the_same(rows: int, columns: int, number: int, less: int) -> None:
    """The instructions before the loop, one by one, for grids from one block to millions."""
    order = emitted().launch.placing.order
    assert order is not None
    row, column = divmod(number % (rows * columns), columns)
    found = _placed(emitted(), 128 * rows - less, 96 * columns, row, column)
    assert found == order.place(row, column, rows, columns)


def _placed(emitted: EmittedKernel, m: int, n: int, row: int, column: int) -> tuple[int, int]:
    lines = [line.strip() for line in emitted.text.splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.startswith("// where this block is"))
    end = next(i for i, line in enumerate(lines) if line.endswith("_placed:"))
    offsets = {a.offset: {"m": m, "n": n}[a.name] for a in emitted.arguments if a.name in "mn"}
    values: dict[str, int] = {"s2": column, "s3": row}
    for line in lines[:begin]:
        if match := re.fullmatch(r"s_load_dword (s\d+), s\[0:1\], (\w+)", line):
            values[match[1]] = offsets.get(int(match[2], 0), 0)
    scc, at = 0, begin
    while at < end:
        name, *operands = lines[at].replace(",", "").split()
        at += 1
        if name in ("//", "s_nop") or name.endswith(":"):
            continue
        assert name != "s_endpgm", "a block inside of C ended"
        if name == "s_cbranch_scc1":
            at = lines.index(f"{operands[0]}:") if scc else at
        elif name.startswith("s_cmp_"):
            x, y = (_value(values, operand) for operand in operands)
            scc = int({"lt": x < y, "ge": x >= y, "lg": x != y}[name.split("_")[2]])
        elif name == "s_cselect_b32":
            values[operands[0]] = _value(values, operands[1 if scc else 2])
        else:
            values[operands[0]] = _OPS[name](*(_value(values, o) for o in operands[1:])) % 2**32
    # The first lines have the same origins as the last, for the workgroup's own numbers.
    down, across = (
        match[1]
        for line in lines[begin : begin + 20]
        if (match := re.fullmatch(r"s_mul_i32 (s\d+), s[23], \w+", line))
    )
    return values[down] // 128, values[across] // 96


def _value(values: dict[str, int], operand: str) -> int:
    return values[operand] if operand[0] in "sv" else int(operand, 0)


def _float(function: Callable[..., np.float32]) -> Callable[..., int]:
    def apply(*words: int) -> int:
        return int(function(*np.array(words, np.uint32).view(np.float32)).view(np.uint32))

    return apply


_OPS: dict[str, Callable[..., int]] = {
    "s_mov_b32": lambda x: x,
    "v_mov_b32": lambda x: x,
    "v_readfirstlane_b32": lambda x: x,
    "s_add_u32": lambda x, y: x + y,
    "s_sub_u32": lambda x, y: x - y,
    "s_mul_i32": lambda x, y: x * y,
    "s_mul_hi_u32": lambda x, y: x * y >> 32,
    "s_lshr_b32": lambda x, y: x >> y,
    "s_or_b32": lambda x, y: x | y,
    "s_min_u32": min,
    "v_cvt_f32_u32": lambda x: int(np.float32(x).view(np.uint32)),
    "v_cvt_u32_f32": lambda x: int(np.uint32(x).view(np.float32)),
    "v_rcp_f32": _float(lambda x: np.float32(1) / x),
    "v_add_f32": _float(lambda x, y: x + y),
    "v_mul_f32": _float(lambda x, y: x * y),
}


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (64, 32), (3, 200), (100, 7), (40, 40)])
def test_the_model_assumes_what_kernels_do(rows: int, columns: int) -> None:
    """Bytes into all L2s, workgroups being dispatched in turn and every XCD a round at a time."""
    gpu, block = gpu_for("MI355X"), Block(256, 256, 64)
    problem = GemmProblem(rows * block.m, columns * block.n, 4096)
    order = TileOrder.of(GFX950, block.m, block.n)
    taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number in range(rows * columns):
        round_, xcd = number // order.xcds // order.per_xcd, number % order.xcds
        place = order.place(*divmod(number, columns), rows, columns)
        taken.setdefault((round_, xcd), []).append(place)
    reach = sum(len({r for r, _ in t}) + len({c for _, c in t}) for t in taken.values())
    fill = reach * block.m * problem.k * problem.in_bytes[0]
    assert traffic(gpu, problem, Plan(block, blocked=False)).fill == pytest.approx(fill, rel=0.05)
    best = traffic(gpu, problem, Plan(block)).fill
    assert best * 0.9 < fill < best * 1.4


def test_an_order_of_blocks_needs_rows_and_columns() -> None:
    loop = Loop("sums", over="k")
    total = loop.carry("sum", m=64)
    total += loop.stream("X", "f32", m=64, k=16).sum("k")
    loop.store("out", total)
    with pytest.raises(EmitError, match="no grid of rows and columns"):
        Placing(order=TileOrder.of(GFX950, 64, 64)).check(loop.meaning)


def _one_stream() -> Loop:
    loop = Loop("one_stream", over="k")
    total = loop.carry("sum", m=4, n=64)
    total += loop.stream("W", "f32", k=8, m=4, n=64).sum("k")
    loop.store("out", total)
    return loop


def _product() -> Loop:
    loop = Loop("product", over="k")
    total = loop.carry("sum", m=32, n=32)
    total += loop.stream("X", "bf16", m=32, k=32).staged() @ loop.stream("W", "bf16", n=32, k=32)
    loop.store("out", total)
    return loop


@pytest.mark.parametrize("declare", [_one_stream, _product])
def test_what_a_block_chooses_goes_with_its_place(declare: Callable[[], Loop]) -> None:
    """The choice is that of the block a workgroup takes in the end, and finding that block spoils
    no stride of the chosen array; one stream has few words of descriptors for it."""
    loop = declare()
    loop.choose("W", over="e", by="experts", per="m")
    placing = Placing(order=TileOrder(2, 2, ((0, 2),)))
    kernel = emit_program(pipeline(loop, "gfx950", 1), placing=placing)
    tiles, experts = loop.meaning.tile, np.array([0, 2, 1, -1, 2])
    sizes = {"m": 5 * tiles["m"] - 3, "n": 3 * tiles["n"], "m_blocks": 5, "e": 3}
    sizes |= {"k": kernel.launch.least}
    arrays = {"experts": experts}
    trial = run_program(kernel, assemble(kernel), sizes=sizes, arrays=arrays)
    assert trial.ok, trial.summary()
