"""The page of a kernel that others wrote: its main loop on the timeline, with its own disassembly.

    html = fill_page(kernel_page(timing, verdict))

The dictionary is that of ``page_data``, with instructions where a program has steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pipeloom.judge.check.verdict import CheckVerdict, Site, StoryLine
from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import Trace
from pipeloom.machine_code.loop_times import KernelTiming, LoopTiming
from pipeloom.show.cards import Card, resource_cards, speed_cards
from pipeloom.show.page_parts import lost_cycles, verdict_data, whole_page
from pipeloom.show.page_timeline import lane_data
from pipeloom.show.segments import InstructionRows, Rows, segments, stalls_by_step

TIMELINE_EVENTS = 40_000
"""Instructions on a timeline, about: a page of some megabytes."""
TIMELINE_ITERATIONS = 4
ROLES = {
    Kind.MFMA: "matrix",
    Kind.VALU: "vector",
    Kind.TRANS: "vector",
    Kind.PACKED: "vector",
    Kind.LDS_READ: "lds_read",
    Kind.LDS_WRITE: "lds_write",
    Kind.GLOBAL_TO_LDS: "load",
    Kind.GLOBAL_TO_VGPR: "load",
    Kind.GLOBAL_STORE: "store",
    Kind.WAIT: "wait",
    Kind.BARRIER: "barrier",
}


class Disassembly(InstructionRows):
    """The executed instructions by address, cut where loops begin and end."""

    def __init__(self, timing: KernelTiming) -> None:
        program = timing.recorded.program
        self.lines = timing.recorded.lines
        self.positions = sorted(self.lines)
        self.pcs = {at: program[at].instruction.pc for at in self.positions}
        super().__init__(
            [program.group for program in timing.main.loop.programs],
            {at: (f"pc {self.pcs[at]:#x}", self.lines[at].text) for at in self.positions},
        )
        self._by_pc = {self.pcs[at]: number for at, number in self.numbers.items()}
        self._loops = [loop.loop for loop in timing.loops if loop.loop.trips]

    def row(self, pc: int | None) -> int:
        """The row of an address, or -1."""
        return -1 if pc is None else self._by_pc.get(pc, -1)

    def section(self, position: int) -> tuple[int, str]:
        """The innermost loop that holds a position, by number, and its name."""
        inside = [
            (loop.tail - loop.head, n, loop)
            for n, loop in enumerate(self._loops)
            if loop.head <= position <= loop.tail
        ]
        if not inside:
            return -1, "code"
        _, number, loop = min(inside, key=lambda found: found[:2])
        return number, f"loop {self.pcs[loop.head]:#x}"

    def sections(self) -> list[tuple[int, str, list[int]]]:
        """Loop number or -1, name, and rows of each stretch of code."""
        found = []
        for (loop, name), run in groupby(self.positions, self.section):
            found.append((loop, name, [self.numbers[at] for at in run]))
        return found


def kernel_page(
    timing: KernelTiming,
    verdict: CheckVerdict | None = None,
    *,
    iterations: int = TIMELINE_ITERATIONS,
    variant: str = "",
    sources: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """What the page shows of a kernel; ``variant`` is its name on a page of several.

    ``sources`` are the lines that its instructions come from, by address, where they are known.
    """
    known = sources or {}
    rows = Disassembly(timing)
    trace = timing.main.trace
    shown = timing.shown(_shown_iterations(timing.main, iterations))
    lost = lost_cycles(stalls_by_step(trace, rows))
    roles = instruction_roles(trace)
    entries = [
        [
            *(n, f"{pc:x}", rows.label(row), roles.get(at, "other"), -1, stood, "", -1),
            known.get(pc, ""),
        ]
        for n, (_, _, members) in enumerate(rows.sections())
        for row in members
        for at in (rows.positions[row],)
        for pc in (rows.pcs[at],)
        for stood in (lost.get(row, 0.0),)
    ]
    return instruction_page(
        trace,
        shown,
        rows,
        meta={**_meta(timing), "variant": variant},
        cards=_headline(timing, verdict),
        sections=[[name, 0, "", loop == 0] for loop, name, _ in rows.sections()],
        entries=entries,
        verdict=None if verdict is None else _verdict(rows, verdict),
        knobs=[["Loops", [_loop_row(n, loop) for n, loop in enumerate(timing.loops)]]],
        notes=_notes(timing),
    )


def instruction_page(
    trace: Trace,
    shown: Trace | None,
    rows: Rows,
    *,
    meta: Mapping[str, Any],
    cards: Sequence[Card],
    **own: Any,
) -> dict[str, Any]:
    """The page of instructions that are no program's: what a trace tells, and what is ``own``.

    The timeline is that of ``shown``, or one's own.
    """
    if shown is not None:
        found = segments(shown)
        own["timeline"] = lane_data(shown, rows, found, [None] * len(found))
    return whole_page(
        trace,
        stalls_by_step(trace, rows),
        cards,
        {"shape": _matrix_text(trace), "over": "trip", **meta},
        **own,
    )


def instruction_meta(
    program: str,
    tile: str,
    steps: str = "Disassembly",
    *,
    knobs: str = "",
    per_trip: str = "",
    variant: str = "",
) -> dict[str, Any]:
    """What the page is of, and what it calls its parts."""
    return {
        "program": program,
        "tile": tile,
        "knobs": knobs,
        "steps": steps,
        "per_trip": per_trip,
        "variant": variant,
    }


def _matrix_text(trace: Trace) -> str:
    """``16x16x32 bf16 MFMA``: the matrix instruction that a trace has most of; empty without."""
    found = Counter(
        f"{op.m}x{op.n}x{op.k} {op.dtype} MFMA"
        for program in trace.programs
        for one in (*program.loop, *program.prologue, *program.epilogue)
        if (op := one.matrix_op) is not None
    )
    return found.most_common(1)[0][0] if found else ""


def _loop_row(number: int, loop: LoopTiming) -> list[Any]:
    return ["shown" if number == 0 else "other", str(loop), number == 0]


def _shown_iterations(main: LoopTiming, iterations: int) -> int:
    body = sum(len(program.loop) for program in main.loop.programs)
    return min(iterations, max(TIMELINE_EVENTS // body, 2)) if body else 0


def instruction_roles(trace: Trace) -> dict[int, str]:
    """What each instruction does, by its number in the code."""
    return {
        one.entry: ROLES.get(one.kind, "other")
        for program in trace.programs
        for one in (*program.prologue, *program.loop, *program.epilogue)
        if one.entry is not None
    }


def _meta(timing: KernelTiming) -> dict[str, Any]:
    trips = timing.main.loop.trips_per_iteration
    per_trip = "" if trips == 1 else f"{trips} trips of the loop"
    return instruction_meta(timing.name, str(timing.main), knobs="Loops", per_trip=per_trip)


def _headline(timing: KernelTiming, verdict: CheckVerdict | None) -> list[Card]:
    main, held = timing.main, timing.resources
    cycles = f"{main.cycles:.0f}"
    if main.loop.trips:
        why = f"steady state of the simulated loop, pc {main.head_pc:#x} to {main.tail_pc:#x}"
        first = Card(cycles, "cycles per trip", why, "cycles", f"{cycles} per trip")
        rows = [first, *speed_cards(main.trace)]
    else:
        why = "the kernel has no loop that ran twice"
        rows = [Card(cycles, "cycles in all", why, "cycles", f"{cycles} in all")]
    if verdict is not None:
        rows.append(Card(verdict.status.title, "verdict", _meaning(verdict)))
    return rows + resource_cards(
        held.vgprs, held.agprs, held.lds_bytes, held.waves_per_simd, allocated=True
    )


def _notes(timing: KernelTiming) -> list[str]:
    notes = []
    loop = timing.main.loop
    if loop.left_out:
        waves = ", ".join(map(str, loop.left_out))
        notes.append(f"Waves {waves} are in no loop meanwhile, and not simulated.")
    return notes


# --- the verdict -------------------------------------------------------------------------------


def _meaning(verdict: CheckVerdict) -> str:
    """The summary behind the status, which the page says itself."""
    return verdict.summary().removeprefix(verdict.status.title).lstrip(": ")


def _verdict(rows: Disassembly, verdict: CheckVerdict) -> dict[str, Any]:
    def place(site: Site | None) -> list[Any] | None:
        return None if site is None else [site.wave or 0, rows.row(site.pc), None, str(site)]

    def told(line: StoryLine) -> list[Any]:
        where = "" if line.pc is None else f"{line.pc:#x}: "
        return [line.wave, f"{where}{line.text}", [line.wave, rows.row(line.pc), None, line.text]]

    coverage = "; ".join(str(loop) for loop in verdict.loops)
    return verdict_data(verdict, _meaning(verdict), coverage, place, told)
