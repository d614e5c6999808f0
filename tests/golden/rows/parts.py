"""What small functions give for many drawn arguments: a row for each sort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from math import inf
from random import Random
from typing import Any

import numpy as np

from benchmarks.kernel_results import digest
from pipeloom.errors import ScheduleError
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import BF16, E8M0, F32, FP4, FP8, DType
from pipeloom.order import spread
from pipeloom.order.arrange import fewest_points
from pipeloom.order.gaps import Gaps, WideWork, evenly, least_cut
from pipeloom.order.load_boxes import even_rows, load_boxes
from pipeloom.order.modulo.reservations import first_free, last_free
from pipeloom.order.slots import Slots
from pipeloom.program.costs import cost_of
from pipeloom.program.ranges import Range, joined, result, stored
from pipeloom.program.resources import Layout
from pipeloom.program.steps import Unit
from pipeloom.program.tiles import contains, overlap, shifted, subtract, volume
from pipeloom.program.vocabulary import VOCABULARY, Reduce

TYPES = (F32, BF16, FP4, E8M0)
SHAPES = ((16, 16), (16, 32), (32, 64), (64, 256), (4, 96), (8, 7), (128,), (96,), (2, 16, 32))
ENDS = (-inf, -3.0, -1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 7.0, 3e38, inf)
DRAWS = 40


def layout_rows() -> dict[str, dict[str, str]]:
    """How tiles lie over lanes: the registers and accesses of each, and what is left of it where
    dimensions go."""
    found: dict[str, dict[str, str]] = {}
    for name, layout in _layouts():
        rows = found[name] = {}
        for shape, dtype in product(SHAPES[1:], TYPES):
            rows[f"{dtype} {'x'.join(map(str, shape))}"] = _lies(layout, shape, dtype)
    return found


def _layouts() -> Iterator[tuple[str, Layout]]:
    yield "uniform", spread.UNIFORM
    for side, flip in product((16, 32), (False, True)):
        yield f"result of {side}{', flipped' if flip else ''}", spread.accumulator(side, flip=flip)
    for op in target_for("gfx950").matrix_ops[::6]:
        for depth, run in (("k", 0), ("m", 0), ("k", 8)):
            made = spread.operand(op, ("m", "k"), depth, run=run, short=not run and depth == "m")
            yield f"operand of {op.name}, {depth}, runs of {run}", made
    for vector in (1, 2, 4, 8):
        yield f"lanes by {vector}", Layout("lanes", (("vector", vector),))
    yield "lanes, spread", Layout("lanes", (("vector", 2), ("spread", 8)))


def _lies(layout: Layout, shape: tuple[int, ...], dtype: DType) -> str:
    dims = ("m", "k", "n")[: len(shape)]
    sizes = dict(zip(dims, shape, strict=True))
    said: list[object] = []
    try:
        said.append(spread.per_lane(layout, shape))
        said.append(spread.registers(layout, shape, dtype))
        said.append(spread.memory_accesses(layout, shape, dtype))
        said.append(spread.two_blocks_at_once(layout, shape, dtype))
        said.append(str(spread.lanes(shape, dtype).numbers))
        said.append(str(spread.grouped(layout, dtype).numbers))
        for kept in (dims[:1], dims[-1:], dims[::-1]):
            left = spread.project(layout, dims, sizes, kept)
            said.append(None if left is None else f"{left.kind} {dict(left.numbers)}")
            if left is not None:
                said.append(spread.shared_lanes(layout, shape, left))
    except (ScheduleError, KeyError, ValueError, ZeroDivisionError) as error:
        said.append(type(error).__name__)
    return ", ".join(map(str, said))


def load_rows() -> dict[str, str]:
    """The loads that bring a tile."""
    return {
        f"{dtype} {'x'.join(map(str, shape))} by {lanes} lanes, {widest} bytes": ", ".join(
            f"{one.box} {one.entries} {one.width}: {len(even_rows(one, 2))}"
            for one in load_boxes(shape, dtype, lanes, widest)
        )
        for shape in (*SHAPES[:-1], (24, 80), (6, 192), (48, 48))
        for dtype in (F32, BF16, FP8)
        for lanes, widest in ((64, 16), (256, 16), (128, 4))
    }


def placing_rows() -> dict[str, str]:
    """Slots that are taken, gaps that are filled, points of a circle, boxes cut out of boxes."""
    found = {}
    for seed in range(DRAWS):
        rng = Random(seed)
        found[f"seed {seed}"] = "; ".join(
            str(said) for said in (*_slots(rng), *_gaps(rng), *_circle(rng), *_boxes(rng))
        )
    return found


def _slots(rng: Random) -> Iterator[object]:
    ii, issue = rng.choice((64, 100, 130)), 4.0
    slots = Slots([float(rng.randrange(ii)) for _ in range(14)], float(ii), issue)
    slots.drop(rng.randrange(ii), rng.randrange(ii))
    for _ in range(4):
        low = rng.randrange(-ii, ii)
        yield slots.take(low, low + rng.randrange(-8, 60), low + rng.randrange(60))
    pairs = list(slots.pairs(10.0, 90.0))
    yield pairs
    if pairs:
        slots.take_pair(pairs[0])
    yield slots.take(0.0, 50.0, 3.0 * ii)


def _gaps(rng: Random) -> Iterator[object]:
    gaps = Gaps(rng.choice((6, 8, 13)), rng.choice((0, 2, 3)))
    work = []
    for _ in range(rng.randint(1, 6)):
        low = rng.randrange(12)
        high, span = low + rng.randrange(-1, 9), rng.randint(1, 4)
        work.append(WideWork(low, low, high, rng.choice((8, 40, 64)), rng.choice((0, 20)), span))
        gaps.add(low, work[-1].cost, port=work[-1].port, span=span)
    yield evenly(work, gaps)
    yield gaps.used, gaps.port, gaps.uneven
    yield [gaps.weight(gap, 40, 2) for gap in range(5)]
    yield [gaps.has_room(gap, 20, 2, 45) for gap in range(8)]
    spans = [(rng.randrange(9), rng.randint(1, 5)) for _ in range(4)]
    yield least_cut(rng.randrange(20), gaps.count, spans)


def _circle(rng: Random) -> Iterator[object]:
    ii = rng.randint(3, 12)
    starts = [rng.randrange(30) for _ in range(5)]
    yield fewest_points([(at, at + rng.randrange(1, 12)) for at in starts], ii)
    for _ in range(3):
        slots, low = rng.getrandbits(ii), rng.randrange(-20, 20)
        high = low + rng.randrange(-1, 2 * ii)
        yield first_free(slots, low, high, ii), last_free(slots, low, high, ii)


def _boxes(rng: Random) -> Iterator[object]:
    def box() -> tuple[tuple[int, int], ...]:
        firsts = [rng.randrange(6) for _ in range(2)]
        return tuple((first, first + rng.randint(1, 5)) for first in firsts)

    one, other = box(), box()
    yield one, other, overlap(one, other), contains(one, other), contains(other, one)
    yield sorted(subtract(one, other)), volume(one), shifted(one, (2, -3))


def op_rows() -> dict[str, str]:
    """What every op gives of some numbers, and in which range of some ranges."""
    found = {}
    for name in VOCABULARY.ops:
        op = VOCABULARY[name]
        rng = Random(name)
        said: list[str] = []
        for count in (1, 1, 3, 64):
            for _ in range(10):
                operands = [_range(rng) for _ in range(op.arity)]
                given = result(name, operands, count)
                said.append(f"{_spelled(given)} {_spelled(stored(FP8, given))}")
        values = [np.array([rng.randrange(-8, 9) / 4 for _ in range(24)])]
        values += [np.array([float(rng.randrange(4)) for _ in range(24)]) for _ in range(3)]
        with np.errstate(all="ignore"):
            got = _applied(op, values[: op.arity])
        facts = {f.name: getattr(op, f.name) for f in fields(op) if f.name != "function"}
        known = " ".join(fact for fact, value in facts.items() if value is True)
        found[name] = f"{known}, {digest(str(facts))}; {said[:2]}, {digest(str(said))}; {got}"
    for reduce in (*Reduce, None):
        rng = Random(1)
        pairs = [(_range(rng), _range(rng)) for _ in range(12)]
        found[f"joined by {reduce}"] = ", ".join(_spelled(joined(reduce, *pair)) for pair in pairs)
    return found


def _applied(op: Any, values: list[Any]) -> str:
    """To four digits, which hold on any machine."""
    if op.name.endswith("matmul"):
        return "a product"
    try:
        got = op.apply(*(value.astype(np.float32) for value in values))
    except (TypeError, ValueError, AttributeError) as error:
        return type(error).__name__
    return " ".join(f"{float(one):.4g}" for one in np.ravel(got))


def _range(rng: Random) -> Range:
    low, high = sorted(rng.choice(ENDS) for _ in range(2))
    return Range(low, high, rng.random() < 0.2)


def _spelled(one: Range) -> str:
    return f"{one.low:.5g} to {one.high:.5g}{' or NaN' if one.nan else ''}"


def cost_rows() -> dict[str, str]:
    """What an instruction of every unit costs."""
    found = {}
    for arch, unit in product(("gfx942", "gfx950"), Unit):
        target = target_for(arch)
        ops = target.matrix_ops if unit is Unit.MATRIX else (None,)
        for op, size, conflict in product(ops, (0, 4, 8, 16), (1.0, 2.0)):
            if op is not None and size:
                continue
            cost = cost_of(unit, target, op=op, bytes_per_lane=size, conflict=conflict)
            name = f"{arch} {unit.name} {'' if op is None else op.name}{size} {conflict:g}"
            found[name] = str(cost)
    return found
