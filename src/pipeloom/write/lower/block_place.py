"""Which part of which problem a workgroup computes, from the ids that the launch gives it.

A workgroup outside of the outputs ends at once. What a launch may ask beyond one problem in whole
trips (an order of blocks, batches, slices of the loop) is ``Placing``'s.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.machine.dispatch import DIVISIBLE, TileOrder
from pipeloom.program import Meaning
from pipeloom.program.index_arrays import per_block
from pipeloom.program.problem_spans import BATCHES, ProblemSpan
from pipeloom.write.addresses import quotient
from pipeloom.write.code import Code
from pipeloom.write.isa import Register
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.global_arrays import scalar_only
from pipeloom.write.lower.memory import Memory
from pipeloom.write.lower.templates import float_bits

POINTER_WORDS, DESCRIPTOR_WORDS = 2, 4
SPARE = 4
"""Scalars that the order of blocks is found in, besides those of the block."""


class WorkgroupPlace:
    """The instructions that find a workgroup's block, in scalars that ``Memory`` has asked for.

    An order of blocks takes four more: words of descriptors that nothing is in until arrays are
    described, and scalars of its own where those are too few.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.meaning: Meaning = memory.meaning
        self.frame: Frame = memory.frame
        self.placing, self.tiles = memory.placing, memory.tiles
        self._spare: list[tuple[str, int]] = []
        if self.placing.order is not None:
            self.frame.work(0)
            self.frame.work(1)
            free = self._free_words()
            more = [(f"order {number}", 0) for number in range(SPARE - len(free))]
            for name, _ in more:
                self.frame.scalar(name)
            self._spare = [*free, *more][:SPARE]

    def _free_words(self) -> list[tuple[str, int]]:
        """Of each descriptor, what neither its pointer nor strides of outer dimensions are in."""
        alone = scalar_only(self.meaning)
        return [
            (f"buffer {array.name}", word)
            for array in self.memory.arrays.values()
            if array.name not in alone
            for word in range(POINTER_WORDS + len(array.node.outer), DESCRIPTOR_WORDS)
        ]

    def locate(self, code: Code, ids: Sequence[Register], inside: str) -> None:
        """Block origins, ``ids`` by dimension of the grid; a block outside the outputs ends here.

        The origin of a workgroup too many may not fit into 32 bits, and so is taken with its high
        half.
        """
        frame, scratch = self.frame, self.frame["scratch"]
        code.comment("where this block is, if it is inside")
        for number, (dim, group) in enumerate(zip(self.meaning.grid, ids, strict=True)):
            origin, size = frame[f"origin {dim}"], frame[f"size {dim}"]
            if dim == self.meaning.until:
                # Blocks near the end have most to do: they go first, so that none is left for last.
                turned = frame["wide scratch"].part(0)
                code("s_add_u32", turned, size, self.tiles[dim] - 1)
                quotient(code, turned, turned, self.tiles[dim])
                code("s_sub_u32", turned, turned, group)
                code("s_sub_u32", turned, turned, 1)
                group = turned
            code("s_mul_i32", origin, group, self.tiles[dim])
            code("s_mul_hi_u32", scratch, group, self.tiles[dim])
            code("s_min_u32", scratch, scratch, 1)
            code("s_sub_u32", scratch, 0, scratch)
            code("s_or_b32", scratch, scratch, origin)
            code("s_cmp_lt_u32", scratch, size)
            code("s_cbranch_scc1", f"{inside}_{number}")
            code("s_endpgm")
            code.label(f"{inside}_{number}")
            code("s_sub_u32", frame[f"left {dim}"], size, origin)
        if self.placing.order is not None:
            self._reorder(code, self.placing.order, ids, f"{inside}_placed")
        self._choose(code, inside)

    def _choose(self, code: Code, inside: str) -> None:
        """What index arrays choose for this block; without a choice inside the array it ends."""
        frame, nodes = self.frame, self.meaning.nodes
        wide, scratch = frame["wide scratch"], frame["scratch"]
        for name, dim in per_block(nodes).items():
            code.comment(f"which {name} this block has, if any")
            quotient(code, scratch, frame[f"origin {dim}"], self.tiles[dim])
            code("s_lshl_b32", scratch, scratch, 2)
            pointer = frame[f"buffer {name}"]
            code("s_add_u32", wide.part(0), pointer.part(0), scratch)
            code("s_addc_u32", wide.part(1), pointer.part(1), 0)
            code("s_load_dword", frame[f"chosen {name}"], wide, 0)
            code.wait(lgkm=0)
            sizes = {one.dim for n in nodes for one in n.chosen if one.index == name}
            for chosen in sorted(sizes):
                label = f"{inside}_{name}_{chosen}"
                code("s_cmp_lt_u32", frame[f"chosen {name}"], frame[f"size {chosen}"])
                code("s_cbranch_scc1", label)
                code("s_endpgm")
                code.label(label)

    def _reorder(self, code: Code, order: TileOrder, ids: Sequence[Register], done: str) -> None:
        """The block that ``order`` has for this workgroup; ``TileOrder.place`` in instructions."""
        frame, (down, across) = self.frame, self.meaning.grid
        rows, columns, total, number = (frame[name].part(word) for name, word in self._spare)
        begin, high, scratch = *(frame["wide scratch"].part(n) for n in (0, 1)), frame["scratch"]
        row, column = frame[f"origin {down}"], frame[f"origin {across}"]
        one, two = frame[f"left {down}"], frame[f"left {across}"]
        chunk = order.xcds * order.per_xcd
        code.comment("which block that is, so that neighbours run on one XCD")
        for count, dim in ((rows, down), (columns, across)):
            code("s_sub_u32", scratch, frame[f"size {dim}"], 1)
            quotient(code, count, scratch, self.tiles[dim])
            code("s_add_u32", count, count, 1)
        code("s_mul_hi_u32", scratch, rows, columns)
        code("s_mul_i32", total, rows, columns)
        code("s_cmp_lg_u32", scratch, 0)
        code("s_cbranch_scc1", done)
        code("s_cmp_ge_u32", total, DIVISIBLE)
        code("s_cbranch_scc1", done)
        code("s_mul_i32", number, ids[0], columns)
        code("s_add_u32", number, number, ids[1])
        quotient(code, begin, number, chunk)
        code("s_mul_i32", begin, begin, chunk)
        code("s_sub_u32", number, number, begin)
        quotient(code, column, number, order.xcds)
        code("s_mul_i32", one, column, order.xcds)
        code("s_sub_u32", number, number, one)
        code("s_sub_u32", row, total, begin)
        code("s_min_u32", row, row, chunk)
        quotient(code, one, row, order.xcds)
        code("s_mul_i32", two, one, order.xcds)
        code("s_sub_u32", two, row, two)
        code("s_mul_i32", one, one, number)
        code("s_min_u32", two, two, number)
        for part in (column, one, two):
            code("s_add_u32", begin, begin, part)
        code("s_mov_b32", high, order.heights[0][1])
        for least, height in order.heights[1:]:
            code("s_cmp_ge_u32", total, least)
            code("s_cselect_b32", high, height, high)
        code("s_min_u32", high, high, rows)
        code("s_mul_i32", row, high, columns)
        self.divide(code, column, begin, row)
        code("s_mul_i32", one, column, row)
        code("s_sub_u32", begin, begin, one)
        code("s_mul_i32", row, column, high)
        code("s_sub_u32", one, rows, row)
        code("s_min_u32", one, one, high)
        self.divide(code, column, begin, one)
        code("s_mul_i32", one, one, column)
        code("s_sub_u32", begin, begin, one)
        code("s_add_u32", row, row, begin)
        for origin, dim in ((row, down), (column, across)):
            code("s_mul_i32", origin, origin, self.tiles[dim])
            code("s_sub_u32", frame[f"left {dim}"], frame[f"size {dim}"], origin)
        code.label(done)

    def choose_slice(self, code: Code, z: Register, tile: int, inside: str) -> None:
        """Which batch and which slice of the loop's dimension ``z`` is; one too many ends here."""
        frame, count = self.frame, self.placing.slices
        if not self.placing.uses_z:
            return
        code.comment("which problem" + (f", which of {count} slices" if count > 1 else ""))
        batch = frame["batch"]
        quotient(code, batch, z, count)
        code("s_cmp_lt_u32", batch, frame[BATCHES])
        code("s_cbranch_scc1", inside)
        code("s_endpgm")
        code.label(inside)
        if count == 1:
            return
        start, reach, scratch = frame["slice start"], frame["reach"], frame["scratch"]
        size = frame[f"size {self.meaning.over}"]
        code("s_mul_i32", scratch, batch, count)
        code("s_sub_u32", start, z, scratch)
        code("s_add_u32", reach, size, count * tile - 1)
        quotient(code, reach, reach, count * tile)
        code("s_mul_i32", reach, reach, tile)
        # From the end on, so that all slices end where a load does if the rows do.
        code("s_mul_i32", start, start, reach)
        code("s_min_u32", start, start, size)
        code("s_sub_u32", start, size, start)
        code("s_min_u32", reach, reach, start)
        code("s_sub_u32", start, start, reach)

    def choose_problem(self, code: Code, number: Register) -> None:
        """Which problem of the meaning's batch this is, and where its block ends."""
        if self.meaning.batch:
            self._batch_indices(code, number)
        if self.meaning.span is not None:
            self._find_span(code, self.meaning.span)
        if self.meaning.since is not None:
            self._find_beginning(code, self.meaning.since)
        if self.meaning.until is not None:
            self._find_end(code, self.meaning.until)

    def _batch_indices(self, code: Code, number: Register) -> None:
        """Which problem of the batch this is: the last dimension goes fastest."""
        frame = self.frame
        first, *others = self.meaning.batch
        code("s_mov_b32", frame[f"index {first}"], number)
        rest, scratch = frame[f"index {first}"], frame["scratch"]
        for dim in reversed(others):
            size, index = frame[f"size {dim}"], frame[f"index {dim}"]
            code("s_mov_b32", index, rest)
            self.divide(code, rest, rest, size)
            code("s_mul_i32", scratch, rest, size)
            code("s_sub_u32", index, index, scratch)

    def _find_span(self, code: Code, span: ProblemSpan) -> None:
        """Which part of the loop's dimension this problem goes along.

        The size along it becomes what there is from that part on: what is left follows.
        """
        frame, over = self.frame, self.meaning.over
        size, scratch, wide = frame[f"size {over}"], frame["scratch"], frame["wide scratch"]
        code.comment(f"how many {over} this problem has")
        if span.lengths:
            code("s_lshl_b32", scratch, frame[f"index {span.per}"], 2)
            pointer = frame[f"buffer {span.lengths}"]
            code("s_add_u32", wide.part(0), pointer.part(0), scratch)
            code("s_addc_u32", wide.part(1), pointer.part(1), 0)
            code("s_load_dword", scratch, wide, 0)
            code.wait(lgkm=0)
            code("s_max_i32", scratch, scratch, 0)
            code("s_min_i32", size, scratch, size)
        if not span.shares:
            return
        start, reach, tile = frame["slice start"], frame["reach"], self.tiles[over]
        # Whole tiles, shared by rounding up: the last problems have fewer, or none.
        code("s_add_u32", reach, size, tile - 1)
        quotient(code, reach, reach, tile)
        code("s_add_u32", reach, reach, frame[f"size {span.shares}"])
        code("s_sub_u32", reach, reach, 1)
        self.divide(code, reach, reach, frame[f"size {span.shares}"])
        code("s_mul_i32", reach, reach, tile)
        code("s_mul_i32", start, reach, frame[f"index {span.shares}"])
        code("s_min_u32", start, start, size)
        code("s_sub_u32", size, size, start)
        code("s_min_u32", reach, reach, size)

    def _find_beginning(self, code: Code, since: str) -> None:
        """Whole tiles in which more is left along ``over`` than from the block's first element of
        ``since`` on are left out; the size becomes what there is behind them."""
        frame, over = self.frame, self.meaning.over
        start, size, tile = frame["slice start"], frame[f"size {over}"], self.tiles[over]
        code.comment(f"where this block begins along {over}")
        code("s_sub_i32", start, size, frame[f"left {since}"])
        code("s_max_i32", start, start, 0)
        quotient(code, start, start, tile)
        code("s_mul_i32", start, start, tile)
        code("s_sub_u32", size, size, start)
        code("s_mov_b32", frame["reach"], size)

    def _find_end(self, code: Code, until: str) -> None:
        """Where less is left along ``over`` than behind the block's last element of ``until``."""
        frame, scratch = self.frame, self.frame["scratch"]
        code.comment(f"how far this block goes along {self.meaning.over}")
        code("s_sub_i32", scratch, frame[f"left {until}"], self.tiles[until])
        code("s_max_i32", scratch, scratch, 0)
        code("s_sub_i32", scratch, frame[f"size {self.meaning.over}"], scratch)
        code("s_max_i32", frame["end"], scratch, 0)
        if self.memory.begins_later:
            code("s_min_u32", frame["end"], frame["end"], frame["reach"])

    def divide(self, code: Code, result: Register, value: Register, divisor: Register) -> None:
        """``result = value // divisor``, of numbers below 2^21.

        As f32: trunc((n + 0.5) * rcp(d)) is exact, because the product errs by less than 2^-22 of
        itself and n + 0.5 over d is at least 0.5 / d from any integer.
        """
        quotient, rate = (self.frame[self.frame.work(n)] for n in (0, 1))
        code("v_mov_b32", rate, divisor)
        code("v_cvt_f32_u32", rate, rate)
        code("v_rcp_f32", rate, rate)
        code("v_mov_b32", quotient, value)
        code("v_cvt_f32_u32", quotient, quotient)
        code("v_add_f32", quotient, float_bits(0.5), quotient)
        code("v_mul_f32", quotient, quotient, rate)
        code("v_cvt_u32_f32", quotient, quotient)
        code("v_readfirstlane_b32", result, quotient)
