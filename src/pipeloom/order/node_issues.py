"""The instructions that one task of an op takes, per wave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log2, prod

from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES, widening
from pipeloom.machine.target import REGISTER_BYTES, Target
from pipeloom.order.layouts import Layouts
from pipeloom.order.matrix_choice import Product
from pipeloom.order.shares import Shares
from pipeloom.order.spread import UNIFORM, block_lanes, per_lane, shared_lanes
from pipeloom.program.across_rows import comes_transposed, goes_across
from pipeloom.program.meaning import Meaning
from pipeloom.program.nan_payloads import short_nans
from pipeloom.program.nodes import Node
from pipeloom.program.steps import Issue, Unit
from pipeloom.program.vocabulary import InBlocks, Reduce, Vocabulary

WORD_BITS = 8 * REGISTER_BYTES
EXCHANGE = 3
"""Instructions that join the halves of a row: move, swap, combine."""
ROUNDED = {"bf16": 9, "fp16": 3}
"""Instructions for a pair of elements where the chip has none that converts both."""
PAIR = 2
"""Operands of a mask without a bound."""
PACKED_BITS = 16
"""Elements of which several share a register have at most so many."""
UNPACKED = {"f32": 0.0, "bf16": 1.0, "fp16": 1.5, "u8": 1.0, "fp4": 4.0, "e8m0": 4.0}
"""Instructions that make an f32 of an element in memory; of other types two, a field of bits and
its number."""
ROUNDED_SHORT = {**ROUNDED, "bf16": 5}
"""The same, where a NaN needs no look."""


@dataclass(frozen=True, slots=True)
class NodeIssues:
    """Counts the instructions of ops: by how waves share them, and how values lie over lanes."""

    meaning: Meaning
    ops: Vocabulary
    target: Target
    shares: Shares
    products: Mapping[str, Product]
    layouts: Layouts
    turned: frozenset[str] = frozenset()
    """Of loaded tiles, those that lie in LDS with K in a row."""

    def _joined(self, node: str, operand: str, product: Product) -> int:
        """Registers of an operand that are joined of single elements for a matrix instruction."""
        layout, dtype = self.layouts.operands[node, operand], self.meaning[operand].type.dtype
        rows = not goes_across(layout) or operand in self.turned
        if rows or comes_transposed(layout, dtype.bits, self.target):
            return 0
        words = product.op.m * product.op.k * dtype.bits // (WORD_BITS * WAVE_LANES)
        return words * (WORD_BITS // dtype.bits - 1)

    def __call__(self, node: Node) -> tuple[Issue, ...]:
        """Those of one task of ``node``."""
        product = self.products.get(node.name)
        sizes = self.meaning.domain(node)
        shares = self.shares.of(node.name)
        shape = shares.shape(sizes.dims)
        if product is not None:
            op = product.op
            count = prod(shape) // (op.m * op.n * op.k)
            joins = count * sum(self._joined(node.name, name, product) for name in node.uses[:2])
            return (
                Issue(Unit.MATRIX, count, shape=op.name),
                *((Issue(Unit.VECTOR, joins),) if joins else ()),
            )
        known = self.ops[node.op]
        if known.reduce is not None:
            source = self.meaning[node.uses[0]]
            layout = self.layouts.values.get(node.uses[0], UNIFORM)
            reduced = self.layouts.values[node.name]
            rows, covers = source.type.dims[:-1], source.type.dtype.covers
            single = covers > 1 and known.reduce is not Reduce.ADD
            if single and rows == node.type.dims and source.type.shape[-1] <= covers:
                # Every lane has the one code of its row.
                return (Issue(Unit.VECTOR, per_lane(reduced, shares.shape(node.type.dims))),)
            steps = per_lane(layout, shares.shape(source.type.dims))
            results = per_lane(reduced, shares.shape(node.type.dims))
            across = int(log2(shared_lanes(layout, shape, reduced))) if source.type.dims else 0
            steps = -(-steps // 2) if known.reduce in (Reduce.MAX, Reduce.MIN) else steps
            lowered = known.lowered(self.target.isa)
            if node.op == "sum_squares" and self.target.pair_product(source.type.dtype.name):
                steps = -(-steps // 2)
            else:
                steps *= 1 + (len(lowered.instructions) if lowered else 0)
            joined = (Issue(Unit.VECTOR, EXCHANGE * results * across),) if across else ()
            return (Issue(Unit.VECTOR, max(1, steps)), *joined)
        if known.in_blocks is InBlocks.MAX:
            steps = per_lane(self.layouts.values[node.uses[0]], shape)
            results = per_lane(self.layouts.values[node.name], shape)
            across = int(log2(block_lanes(self.layouts.values[node.name])))
            return Issue(Unit.VECTOR, steps), Issue(Unit.VECTOR, EXCHANGE * results * across)
        lowered = known.lowered(self.target.isa)
        if lowered is None:
            raise ConfigError(
                f"{self.meaning.name}.{node.name}: op {node.op!r} has no lowering to instructions",
                hint="give its OpDef a lowering=(...)",
                field=node.name,
            )
        if node.name in self.meaning.masks:
            return (Issue(Unit.SCALAR),)  # left out of all iterations but the last
        each = per_lane(self.layouts.values[node.name], shares.shape(node.type.dims))
        if self._masks_words(node):
            return (Issue(Unit.VECTOR, each),)
        slow = lowered.slow * each
        plain = (len(lowered.instructions) - lowered.slow) * each
        if node.op == "convert":
            plain = 0 if self._packed(node) or self._unpacked(node) else each
        types = (self.meaning[name].type.dtype.name for name in (node.uses[0], node.name))
        if node.op == "convert" and widening(self.target.encoded_as, *types):
            plain = ceil(each / 2)
        else:
            plain += ceil((self._packed(node) + self._unpacked(node)) * each)
        return tuple(
            Issue(unit, count)
            for unit, count in ((Unit.TRANS, slow), (Unit.VECTOR, plain))
            if count
        )

    def _masks_words(self, node: Node) -> bool:
        """Whether it leaves 0 of whole registers: all elements of one are kept, or none."""
        source, layout = self.meaning[node.uses[0]], self.layouts.values[node.name]
        known, last = self.ops[node.op], node.type.dims[-1:]
        packed = node.type.dtype.bits <= PACKED_BITS and source.type.dtype == node.type.dtype
        runs = layout.kind == "accumulator" and not {"flip", "only"} & {*dict(layout.numbers)}
        return (
            known.masks
            and len(node.uses) == PAIR
            and packed
            and runs
            and (self.meaning[node.uses[1]].type.dims != last)
        )

    def _unpacked(self, node: Node) -> float:
        """Instructions for the operands of one element that are no f32 in a register."""
        kinds = [self.meaning[name] for name in node.uses]
        return sum(
            UNPACKED.get(item.type.dtype.code, 2.0)
            for item in kinds
            if not item.kind.is_number and not item.type.dtype.is_bool
        )

    def _packed(self, node: Node) -> float:
        """Instructions that make one element of the result of an f32, where it is none."""
        dtype = node.type.dtype
        if dtype.bits > PACKED_BITS or dtype.is_bool:
            return 0.0
        moves = node.op == "convert" or self.ops[node.op].masks
        exact = moves and dtype.holds(self.meaning[node.uses[0]].type.dtype)
        one = f"v_cvt_pk_{dtype}_f32" in self.target.extra_instructions
        if one or (exact and dtype.name == "bf16"):
            return 0.5
        known = ROUNDED_SHORT if short_nans(self.meaning, node.name) else ROUNDED
        return known.get(dtype.name, 2) / 2
