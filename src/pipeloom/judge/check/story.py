"""From an unordered pair to words: both places, why nothing orders them, how they can meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeloom.judge.check.pairs import Conflict
from pipeloom.judge.check.prepared import GroupStudy, Prepared
from pipeloom.judge.check.record import LDS
from pipeloom.judge.check.retirement import NEVER, SyncPlan
from pipeloom.judge.check.verdict import CheckKind, Site, StoryLine
from pipeloom.judge.emulate.disassembly import instruction_text
from pipeloom.judge.emulate.register_numbers import register_name
from pipeloom.judge.emulate.step import MicroOp

Lines = Mapping[int, str]
"""pc -> ``file:line``."""

KINDS = {
    Conflict.RAW: CheckKind.RAW,
    Conflict.WAR: CheckKind.WAR,
    Conflict.WAW: CheckKind.WAW,
    Conflict.REGISTER_READ: CheckKind.REGISTER,
    Conflict.REGISTER_WRITE: CheckKind.REGISTER,
}
_SECOND = {
    Conflict.RAW: "reads the bytes that the other is to write",
    Conflict.WAR: "overwrites the bytes that the other is to read",
    Conflict.WAW: "writes the bytes that the other writes",
    Conflict.REGISTER_READ: "reads a register that the load is to fill",
    Conflict.REGISTER_WRITE: "writes a register that the load may fill later",
}


def site(step: MicroOp, lines: Lines, wave: int | None = None) -> Site:
    """An instruction with its place."""
    one = step.instruction
    return Site(one.pc, instruction_text(one), wave, lines.get(one.pc, ""))


class PairStory:
    """One pair of one group, put into words."""

    def __init__(
        self, study: Prepared, group: GroupStudy, row: Sequence[int], lines: Lines
    ) -> None:
        self._study, self._group, self._lines = study, group, lines
        self.v, self.first_time, self.w, self.second_time, kind, buffer, self.cell = row
        self.kind, self.buffer = Conflict(kind), buffer
        timelines = group.order.timelines
        sync = study.sync
        self.first_at = int(timelines[self.v].path[self.first_time])
        self.second_at = int(timelines[self.w].path[self.second_time])
        retired = timelines[self.v].retired(sync)[self.first_time]
        self.retires_at = None if retired == NEVER else int(timelines[self.v].path[retired // 2])
        self._barriers = [_numbered(group, wave, sync) for wave in (self.v, self.w)]
        self.issue_epoch = int(np.searchsorted(self._barriers[0], 2 * self.first_time))
        self.need_epoch = int(np.searchsorted(self._barriers[1], 2 * self.second_time))

    @property
    def first(self) -> Site:
        return site(self._study.program[self.first_at], self._lines, self.v)

    @property
    def second(self) -> Site:
        return site(self._study.program[self.second_at], self._lines, self.w)

    def where(self) -> str:
        """The bytes or the register."""
        if self.kind in (Conflict.REGISTER_READ, Conflict.REGISTER_WRITE):
            return register_name(self.cell)
        return self._study.place(self.buffer, self.cell)

    def why(self) -> str:
        """What fails to order the two."""
        wait = (
            "no wait of its wave ever covers the first"
            if self.retires_at is None
            else f"the first is waited for only at {self._text(self.retires_at)}"
        )
        if self.v == self.w:
            return wait + ", which is no time before the second"
        if self.issue_epoch >= self.need_epoch:
            return (
                f"no barrier lies between them: wave {self.v} issues the first after its barrier "
                f"{self.issue_epoch}, wave {self.w} the second after its barrier {self.need_epoch}"
            )
        if len(self._barriers[0]) < self.need_epoch:
            return (
                f"{wait}, and wave {self.v} ends: barrier {self.need_epoch} waits for others only"
            )
        return (
            f"{wait}, after wave {self.v}'s barrier {self.need_epoch}, which wave {self.w} is past"
        )

    def lines(self) -> tuple[StoryLine, ...]:
        """An interleaving in which they meet."""
        program = self._study.program
        first = StoryLine(
            self.v, f"{self.first.text}: in flight", program[self.first_at].instruction.pc
        )
        second = StoryLine(
            self.w,
            f"{self.second.text}: {_SECOND[self.kind]}",
            program[self.second_at].instruction.pc,
        )
        story = []
        if self.v != self.w:
            if self.issue_epoch >= self.need_epoch:
                if self.need_epoch:
                    story += [self._passes(0, self.need_epoch), self._passes(1, self.need_epoch)]
                story += [first, second]
            else:
                story += [first, self._passes(0, self.need_epoch)]
                story += [self._passes(1, self.need_epoch), second]
        else:
            story += [first, second]
        if self.retires_at is not None:
            text = f"{self._words(self.retires_at)}: only here is the first over"
            story.append(StoryLine(self.v, text, program[self.retires_at].instruction.pc))
        return tuple(story)

    def _passes(self, which: int, number: int) -> StoryLine:
        wave = (self.v, self.w)[which]
        barriers, path = self._barriers[which], self._group.order.timelines[wave].path
        ends = number > len(barriers)
        at = int(path[-1] if ends else path[int(barriers[number - 1]) // 2])
        text = "its end" if ends else f"s_barrier: its barrier {number}"
        return StoryLine(wave, text, self._study.program[at].instruction.pc)

    def _words(self, at: int) -> str:
        return instruction_text(self._study.program[at].instruction)

    def _text(self, at: int) -> str:
        return f"pc {self._study.program[at].instruction.pc:#x} ({self._words(at)})"


def _numbered(
    group: GroupStudy, wave: int, sync: SyncPlan
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = group.order.timelines[wave].barrier_times(
        sync
    )
    return found


__all__ = ["KINDS", "LDS", "PairStory", "site"]
