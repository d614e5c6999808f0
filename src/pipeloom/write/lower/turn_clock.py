"""Where a loop stands that goes along its dimension in turns: in which part of its streams, and how
far along.

A turn has as many elements as its tiles hold, and at least as many as any step looks ahead, so that
nothing is ever more than one turn ahead. Streams keep the byte offset of the section's iteration,
and where its turn ends, for ``num_records``: what lies behind that reads as zero, whatever the next
turn has there. Behind the last turn nothing begins again, so that nothing is left.

    at + n     is the turn's own while it is below ``turn limit``, else by ``jump`` further on
"""

from __future__ import annotations

from pipeloom.program import Program, Section
from pipeloom.program.problem_spans import turns_of
from pipeloom.write.addresses import quotient
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Register
from pipeloom.write.lower.clock import Clock
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.global_arrays import Array, stride_name
from pipeloom.write.lower.memory import Memory

NEVER = (1 << 31) - 1
"""Elements that no turn has."""


def clock_of(program: Program, memory: Memory, frame: Frame) -> Clock:
    """The clock of a program's loop."""
    made = TurnClock if turns_of(program.meaning.span) else Clock
    return made(program, memory, frame)


class TurnClock(Clock):
    """The clock of a loop in turns: ``turn at`` counts elements within one."""

    def __init__(self, program: Program, memory: Memory, frame: Frame) -> None:
        super().__init__(program, memory, frame)
        self._dim = turns_of(program.meaning.span)
        self._streams: dict[str, Array] = {}
        if not self._past_ends:
            raise EmitError(
                f"loop {program.meaning.name!r} takes {self._dim!r} in turns, and what lies behind "
                "the end of one would count",
                hint=f"mask it: pl.keep(x, loop.left({self.over!r}), 1)",
                field=self.over,
            )
        sections = [section for group in program.groups for section in group.sections]
        steps = [work.iteration or 0 for _, _, work in program.works()]
        moves = [max(section.first.constant, section.advance) for section in sections]
        self._least = max(steps, default=0) + max(moves, default=0)
        for name in ("turn at", "turn length", "turn limit", "turns left"):
            frame.scalar(name)

    def follow(self, array: Array) -> None:
        """Keep the place of a stream."""
        if array.name not in self._streams:
            self._streams[array.name] = array
            for what in ("at", "jump", "end"):
                self._frame.scalar(f"{what} {array.name}")

    def follow_elements(self) -> None:
        """They are counted."""

    def fit(self, code: Code) -> None:
        """How long a turn is, and all of them; without any, nothing is left."""
        frame, size = self._frame, self._frame[f"size {self.over}"]
        length, count = frame["turn length"], frame[f"size {self._dim}"]
        code.comment(f"how far {self.over} goes in each of {self._dim}, in whole tiles")
        code("s_cmp_lg_u32", count, 0)
        code("s_cselect_b32", size, size, 0)
        code("s_add_u32", length, size, self.tile - 1)
        quotient(code, length, length, self.tile)
        code("s_max_u32", length, length, self._least)
        code("s_mul_i32", length, length, self.tile)
        code("s_mul_i32", frame["reach"], length, count)

    def reset(self, code: Code) -> None:
        """A group begins at iteration 0 of the first turn."""
        super().reset(code)
        frame = self._frame
        length, left = frame["turn length"], frame["turns left"]
        code("s_mov_b32", frame["turn at"], 0)
        code("s_sub_u32", left, frame[f"size {self._dim}"], 1)
        code("s_cmp_lt_i32", 0, left)
        code("s_cselect_b32", frame["turn limit"], length, NEVER)
        for array in self._streams.values():
            each, jump = self._each(array), frame[f"jump {array.name}"]
            if array.element > 1:
                code("s_lshl_b32", each, each, array.element.bit_length() - 1)
            elif not array.element:
                code("s_lshr_b32", each, each, 1)
            code("s_mul_i32", jump, *self._memory.counted(code, length, array.over_stride))
            code("s_sub_u32", jump, each, jump)
            code("s_mov_b32", frame[f"at {array.name}"], 0)
            code("s_mov_b32", frame[f"end {array.name}"], frame[f"buffer {array.name}"].part(2))

    def enter(self, code: Code, section: Section) -> None:
        """Bring every stream to the section's first iteration."""
        if section.first.factors != self._base.factors:
            raise EmitError(
                f"section {section.name!r} starts at {section.first}, in a turn that nobody counts",
                hint="let sections follow each other's iterations",
                field=section.name,
            )
        self._move(code, section.first.constant - self._base.constant)
        self._base = section.first

    def advance(self, code: Code, section: Section) -> None:
        """The end of a trip."""
        self._move(code, section.advance)
        left = self._frame["left"]
        code("s_sub_u32", left, left, self.step)

    def _move(self, code: Code, iterations: int) -> None:
        frame, scratch = self._frame, self._frame["scratch"]
        if not iterations:
            return
        at, limit, turned = frame["turn at"], frame["turn limit"], frame["wide scratch"].part(0)
        code("s_add_u32", at, at, iterations * self.tile)
        code("s_cmp_ge_u32", at, limit)
        code("s_cselect_b32", turned, -1, 0)
        for array in self._streams.values():
            place, end = frame[f"at {array.name}"], frame[f"end {array.name}"]
            self._add(code, place, iterations * self.tile, array.over_stride)
            code("s_and_b32", scratch, turned, frame[f"jump {array.name}"])
            code("s_add_u32", place, place, scratch)
            code("s_and_b32", scratch, turned, self._each(array))
            code("s_add_u32", end, end, scratch)
        code("s_and_b32", scratch, turned, frame["turn length"])
        code("s_sub_u32", at, at, scratch)
        left = frame["turns left"]
        code("s_add_u32", left, left, turned)
        code("s_cmp_lt_i32", 0, left)
        code("s_cselect_b32", limit, frame["turn length"], NEVER)

    def offset(self, code: Code, array: Array, iteration: int) -> Register:
        """The scalar offset of a stream's tile at ``iteration`` of the section; its descriptor ends
        with the turn."""
        frame, scratch = self._frame, self._frame["scratch"]
        key = (f"at {array.name}", iteration, 0, array.name)
        known = self._ahead.pop(key, None)
        name = self._ahead[key] = known or self._vacant()
        result, end = frame[name], frame[f"buffer {array.name}"].part(2)
        if known is not None:
            return result
        code("s_add_u32", scratch, frame["turn at"], iteration * self.tile)
        code("s_cmp_ge_u32", scratch, frame["turn limit"])
        code("s_cselect_b32", end, self._each(array), 0)
        code("s_cselect_b32", result, frame[f"jump {array.name}"], 0)
        code("s_add_u32", end, end, frame[f"end {array.name}"])
        self._add(code, result, iteration * self.tile, array.over_stride)
        code("s_add_u32", result, result, frame[f"at {array.name}"])
        code("s_min_u32", result, result, end)
        return result

    def elements_left(self, code: Code, iteration: int, *, again: bool = False) -> Register:
        """How many elements the turn has from the first one of ``iteration`` on."""
        frame, scratch = self._frame, self._frame["scratch"]
        result = frame[self._vacant()]
        self._ahead.clear()
        code("s_add_u32", scratch, frame["turn at"], iteration * self.tile)
        code("s_cmp_ge_u32", scratch, frame["turn limit"])
        code("s_cselect_b32", result, frame["turn length"], 0)
        code("s_sub_u32", result, result, scratch)
        code("s_add_i32", result, result, frame[f"size {self.over}"])
        return result

    def _each(self, array: Array) -> Register:
        """Bytes from turn to turn."""
        return self._frame[f"argument {stride_name(array.name, self._dim)}"]
