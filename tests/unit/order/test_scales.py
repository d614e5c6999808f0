"""Block scales of a lane that share a register: against where their codes lie in memory."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import E8M0
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.order.spread import scales
from pipeloom.program import Node, NodeKind, Region, TileType
from pipeloom.program.address_maps import AddressMap, CountedDim, IndexedDim
from pipeloom.program.blocked_matrices import blocked_matrix, in_blocks
from pipeloom.program.index_forms import Digit

OPS = [op for op in target_for("gfx950").matrix_ops if "fp8" in (op.dtype, *op.takes) and op.k > 32]
LANES, CODES = 64, 4


def blocked(rng: Random, shape: tuple[int, int]) -> Node:
    """Scales in blocks whose digits lie in some order; the published one among them."""
    rows = rng.choice(([2, 16], [16, 2], [16], [4, 16], [32], [2, 32]))
    columns = [*rng.choice(([2, 4], [4, 4], [4, 2], [4], [2], [8])), 32]
    counted = []
    for dim, counts in (("m", rows), ("k", columns)):
        digits = [Digit(f"{dim}{n}", count) for n, count in enumerate(counts, 1)]
        counted.append(CountedDim(dim, (Digit(f"{dim} block", along=dim.upper()), *digits)))
    *inner, fastest = (d for one in counted for d in one.digits[1:])
    inner.sort(key=lambda digit: ("k2", "m2", "k1", "m1").index(digit.name))
    if rng.random() < 0.5:
        rng.shuffle(inner)
    order = [one.digits[0] for one in counted] + inner + [fastest]
    dims = ["M", "K", *(f"{digit.name} of array" for digit in order[2:])]
    place = AddressMap(
        tuple(counted), tuple(IndexedDim(d, o.form) for d, o in zip(dims, order, strict=True))
    )
    kind = TileType(("m", "k"), shape, E8M0)
    return Node(name="s", kind=NodeKind.STREAM, type=kind, region=Region.LOOP, at=place)


def together(op: MatrixOp, node: Node, shape: tuple[int, int]) -> tuple[int, int] | None:
    """Blocks of rows and steps of K whose codes a lane finds in one aligned word, for all lanes."""
    matrix = blocked_matrix(node)
    assert matrix is not None
    many = (4 * max(matrix.rows, op.m * 4), 4 * max(matrix.columns, op.k * 4) // 32)
    numbers = np.arange(many[0] * many[1], dtype=np.uint32).reshape(many)
    where = np.empty(numbers.size, np.int64)
    where[in_blocks(node, numbers).ravel()] = np.arange(numbers.size)
    place = where.reshape(many)
    for rows in (2, 1, 4):
        steps = CODES // rows
        if shape[0] % (op.m * rows) or shape[1] % (op.k * steps):
            continue
        words = [
            [
                int(place[op.m * block + lane % op.m, op.k * step // 32 + lane // op.m])
                for step, block in product(range(steps), range(rows))
            ]
            for lane in range(LANES)
        ]
        if all(w[0] % CODES == 0 and w == list(range(w[0], w[0] + CODES)) for w in words):
            return rows, steps
    return None


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_scales_share_a_register_where_they_share_a_word(op: MatrixOp) -> None:
    found = []
    for seed in range(150):
        rng = Random(seed)
        shape = rng.choice((op.m, 2 * op.m, 4 * op.m)), rng.choice((op.k, 2 * op.k, 4 * op.k))
        node = blocked(rng, shape)
        numbers = dict(scales(op, node, shape).numbers)
        found.append(together(op, node, shape))
        assert (numbers["side"], numbers["depth"]) == (op.m, op.k)
        got = (numbers["rows"], numbers["steps"]) if "rows" in numbers else None
        assert got == found[-1], f"seed {seed}"
    assert len(set(found)) > 2, "some share, and some do not"
