"""How long a loop takes in the simulator, and a whole kernel with it.

A vector op that makes an operand (dequantised weights) is one step of some thirty instructions, and
the writer puts products between them. So of such loops the written instructions are simulated, and
decide which order is the fastest.
"""

from __future__ import annotations

from contextlib import suppress
from math import ceil

from pipeloom import machine_code
from pipeloom.judge.simulate.issued import steady_cycles as settled_cycles
from pipeloom.judge.simulate.issued import total_cycles
from pipeloom.judge.verify import verify
from pipeloom.order.passing import passes
from pipeloom.order.peel import peel
from pipeloom.program.problem_spans import shared_out
from pipeloom.program.program import Program
from pipeloom.program.vocabulary import PRODUCTS, Vocabulary
from pipeloom.write import EmitError, emit_program, occupied

TRIPS = 6
"""Of the loop, simulated for one program of the search."""
MORE = 16
"""Trips more that are tried where a kernel does not take so many."""
WAVES_BESIDE = 16
"""Waves of a compute unit that are simulated at most: with as many, nobody waits for more."""
USUAL = 64
"""Iterations of a usual kernel."""


def steady_cycles(program: Program, trips: int = TRIPS, workgroups: int = 1) -> float:
    """Simulated cycles per iteration of the meaning, in the steady loop; of one of so many
    workgroups that share a compute unit."""
    least, step = program.iterations.at(program.min_trips), program.step
    return settled_cycles(program, least + step * trips, workgroups) / step / workgroups


def beside(program: Program, ops: Vocabulary) -> int:
    """How many workgroups of a loop share a compute unit: as many as there is room for, where the
    launch gives it as many as it likes."""
    if not shared_out(program.meaning.span):
        return 1
    most = -(-WAVES_BESIDE // program.waves)
    try:
        return min(occupied(program, ops=ops).workgroups, most)
    except EmitError:
        return 1


def loop_cycles(program: Program, ops: Vocabulary) -> float:
    """The same; of a loop that makes operands, of the instructions that are written."""
    written = written_cycles(program, ops) if decided_written(program) else None
    return steady_cycles(program, workgroups=beside(program, ops)) if written is None else written


def decided_written(program: Program) -> bool:
    """Whether the instructions that are written say how fast a loop is, and its steps do not: those
    of operands made and results scaled between products, and of addresses where loads are what
    takes long."""
    meaning = program.meaning
    scaled = any(passes(meaning, node.name) for node in meaning.nodes)
    return shared_out(meaning.span) or scaled or makes_operands(program)


def adds_results(program: Program) -> bool:
    """Whether its loop adds to an output: it then takes all the registers that there are."""
    outputs = {node.name for node in program.meaning.outputs if node.adds}
    return any(
        work.is_copy and work.writes[0].resource in outputs
        for _, section, work in program.works()
        if section.trips is not None
    )


def fits(program: Program, ops: Vocabulary) -> bool:
    """Whether its kernel has the registers that it takes."""
    with suppress(EmitError):
        occupied(peel(program), ops=ops)
        return True
    return False


def makes_operands(program: Program) -> bool:
    """Whether vector ops of its loop make operands of products."""
    made = {
        access.resource
        for _, section, work in program.works()
        if section.trips is not None and not work.is_copy
        if program.meaning[work.node].op not in PRODUCTS
        for access in work.writes
    }
    layouts = (program.resource(name).layout for name in made)
    return any(layout is not None and layout.kind == "operand" for layout in layouts)


def written_cycles(program: Program, ops: Vocabulary) -> float | None:
    """Simulated cycles per iteration of the kernel's steady loop, where it has two of the one
    without masks; None if nobody can write it."""
    try:
        kernel = emit_program(peel(program), judge=verify, ops=ops)
    except EmitError:
        return None
    least, step = program.iterations.at(program.min_trips), program.step
    workgroups = beside(program, ops)
    for count in range(TRIPS, TRIPS + MORE):
        with suppress(EmitError):  # a size that it does not take: groups go over iterations
            trace = machine_code.simulate_emitted(
                kernel, program.target, least + step * count, workgroups=workgroups
            )
            return trace.steady_cycles_per_iteration / step / workgroups
    return None


def whole_cycles(program: Program, cycles: float, floor: float | None) -> float:
    """Cycles of a usual kernel: K is filled up to whole trips, half of one on average.

    With ``floor``, which is what an iteration takes then, of the usual number of them.
    """
    least, step = program.iterations.at(program.min_trips), program.step
    count = least + step * TRIPS
    ends = total_cycles(program, count) - count * cycles
    if floor is None:
        return ends + cycles * (USUAL + (step - 1) / 2)
    return ends + floor * (least + step * ceil(max(0, USUAL - least) / step))
