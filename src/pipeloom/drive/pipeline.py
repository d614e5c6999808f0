"""``pipeline``: a declaration in, a program out that is proved right for every trip count.

loop = gemm(256, 256, 64)
program = pipeline(loop, target_for("gfx950"), 4)
program.provenance.ordered.cycles          # per iteration

Left to itself it gives the fastest program that ``derive`` finds. Who says how the loop is to be
ordered (a strategy, limits, groups with jobs of their own) gets that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pipeloom.checks import check_int
from pipeloom.declare.loop import Loop
from pipeloom.drive.certifying import Progress
from pipeloom.drive.deriving import derive
from pipeloom.drive.loop_room import check_loop, check_room, unwoven
from pipeloom.drive.writable import check_types, check_writable
from pipeloom.errors import InternalError, OrderError
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.order.arrange import arrange
from pipeloom.order.peel import peel
from pipeloom.order.roles import Role
from pipeloom.order.strategy import Strategy
from pipeloom.order.unused import without_unused
from pipeloom.order.whole_instructions import whole_instructions
from pipeloom.program.program import Program
from pipeloom.program.vocabulary import Vocabulary
from pipeloom.sync import synchronize


def pipeline(
    loop: Loop,
    target: Target | str,
    waves: int | Mapping[str, int] | None = None,
    *,
    groups: Sequence[Role] | None = None,
    depth: int | None = None,
    stages: int | None = None,
    quadrants: int | None = None,
    k_tiles: int | None = None,
    global_latency: int | None = None,
    strategy: Strategy | None = None,
    otherwise: Strategy | None = None,
    keep_interrupted: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Program:
    """A loop as a program for a chip: lowered, ordered, synchronised and proved; the fastest one,
    if nothing forbids the search.

    Ctrl-C ends the search: the best so far is taken, which provenance says, or nothing without
    ``keep_interrupted``.

    Raises ``ConfigError`` for what cannot be lowered, and ``InternalError`` if the verifier finds
    fault with the result, which it never should.

    Args:
        loop: The declaration.
        target: The chip, or its name.
        waves: How many waves compute, or how many along each dimension.
        groups: Waves with jobs of their own: ``Producer`` and ``Consumer``. Without it all waves do
            everything.
        depth: The most copies of anything that rotates: 2 is double buffering.
        stages: How many iterations may overlap at most.
        quadrants: Into how many parts each wave's product is cut.
        k_tiles: The number of iterations to be run. Without it, and without a place that says it,
            the program runs stages - 1, and then multiples of its unrolling more.
        global_latency: Cycles to assume for a global load, in place of the target's.
        strategy: Who decides the order, such as ``Exact()``; without it the search for the fastest
            does.
        otherwise: Who decides where no strategy was given and the loop does not suit the search; a
            note says why.
        keep_interrupted: Whether Ctrl-C gives the best so far.
        progress: Told of each better order that the search finds.
    """
    check_loop("pipeline", loop)
    target = target if isinstance(target, Target) else target_for(target)
    loop = whole_instructions(loop, target)
    check_types(loop, target)
    check_room(loop, target, waves)
    k_tiles = loop.fixed_tiles if k_tiles is None else k_tiles
    told = (groups, depth, stages, quadrants, global_latency, strategy)
    notes: tuple[str, ...] = ()
    if waves is not None and all(option is None for option in told):
        if k_tiles is not None:
            check_int("pipeline", "k_tiles", k_tiles, 1)
        derived, why = None, ""
        try:
            derived = derive(
                loop,
                target,
                waves,
                k_tiles=k_tiles,
                keep_interrupted=keep_interrupted,
                progress=progress,
            )
        except OrderError as error:  # a strategy may have an order that fits
            why = error.message
        if derived is not None:
            program = peeled(derived.program, loop.ops)
            check_writable(program, loop)
            return program
        why = why or unwoven(loop, target, waves)
        strategy, notes = otherwise, (f"not woven from single instructions: {why}",)
    arranged = arrange(
        loop,
        target,
        waves,
        groups=groups,
        depth=depth,
        stages=stages,
        quadrants=quadrants,
        k_tiles=k_tiles,
        global_latency=global_latency,
        strategy=strategy,
    )
    ordered = arranged.program.provenance.ordered
    if ordered is not None and ordered.interrupted and not keep_interrupted:
        raise KeyboardInterrupt
    ordered_steps = synchronize(arranged.program, barrier_gaps=arranged.barrier_gaps, ops=loop.ops)
    program = peel(without_unused(ordered_steps))
    _require_proof(program, loop.ops)
    check_writable(program, loop)
    if notes:
        how = replace(program.provenance, notes=(*notes, *program.provenance.notes))
        program = program.with_groups(program.groups, how)
    return program


def peeled(program: Program, ops: Vocabulary) -> Program:
    """``program``, which ``derive`` proved, with masks in a loop of their own, and without what
    nobody uses: proved as well."""
    apart = peel(without_unused(program))
    if apart is not program:
        _require_proof(apart, ops)
    return apart


def _require_proof(program: Program, ops: Vocabulary) -> None:
    verdict = verify(program, ops=ops)
    if not verdict.proved:
        raise InternalError(f"the pipeline of {program.name!r} is wrong: {verdict.summary()}")
