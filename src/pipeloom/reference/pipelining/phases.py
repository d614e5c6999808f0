"""Prologue, kernel and epilogue of a tile loop, from a modulo schedule.

With s stages and a kernel unrolled u times (so that every rotating buffer and register has the same
number in every pass), the phases sum

    tiles = base + u * trips        base = s - 1 + rest,  rest in 0 .. u - 1

K tiles: s - 1 are under way when the loop starts, and ``rest`` more rows stand at the head of the
epilogue. So one compiled schedule serves the K of one residue modulo u, from ``base`` tiles up; a
shorter K takes a schedule with fewer stages.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.errors import ConfigError
from pipeloom.order.modulo import Expansion, ModuloResult, expand_modulo
from pipeloom.order.modulo.circle import fewest_points
from pipeloom.order.modulo.expand import Step
from pipeloom.reference.compiled import INTERRUPTED, ScheduleEntry
from pipeloom.reference.graph import DepEdge
from pipeloom.reference.ops import OpDesc, OpRole, Phase
from pipeloom.reference.pipelining.barriers import crossing_intervals, kernel_gaps
from pipeloom.reference.pipelining.loop import TileLoop
from pipeloom.reference.pipelining.problem import modulo_problem


@dataclass(frozen=True, slots=True)
class PipelinedLoop:
    """A tile loop at its depth. ``body`` holds the ops of one pass, tile by tile.

    ``result`` counts in steps of ``quantum`` cycles.
    ``order`` is the permutation of ``body`` that the kernel runs; ``counts`` is how many copies of
    each rotating buffer and register there are.
    """

    result: ModuloResult
    quantum: int
    stages: int
    unroll: int
    base: int
    counts: tuple[tuple[str, int], ...]
    body: tuple[OpDesc, ...]
    edges: tuple[DepEdge, ...]
    order: tuple[int, ...]
    prologue: tuple[ScheduleEntry, ...]
    kernel: tuple[ScheduleEntry, ...]
    epilogue: tuple[ScheduleEntry, ...]
    barrier_gaps: tuple[int, ...]
    """Kernel entries before which a barrier stalls nobody, enough of them for a proof."""

    @property
    def cycles_per_tile(self) -> int:
        """The initiation interval in cycles."""
        return self.result.ii * self.quantum

    def notes(self) -> tuple[str, ...]:
        """What was derived, as lines for a report."""
        result = self.result
        bound = "proved least" if result.proved else f"at least {result.lower_bound} steps"
        loose = [item.objective for item in result.objectives if not item.proved]
        unproved = f"; not proved least: {', '.join(loose)}" if loose else ""
        copies = ", ".join(f"{count} x {name}" for name, count in self.counts)
        return (
            f"{self.cycles_per_tile} cycles per K tile ({bound}), in steps of {self.quantum}: "
            f"{result.certificate.why}",
            f"{self.stages} stages, kernel of {self.unroll} K tile(s), {copies}{unproved}",
            f"for K of {self.base} + {self.unroll} * trips tiles",
            *((INTERRUPTED,) if result.stopped == "interrupted" else ()),
        )


def peel_tile_phases(loop: TileLoop, result: ModuloResult, rest: int = 0) -> PipelinedLoop:
    """The phases of ``result`` for K tiles ``base + unroll * trips``; see the module's words."""
    expansion = expand_modulo(modulo_problem(loop), result.ii, result.starts)
    if not 0 <= rest < expansion.unroll:
        raise ConfigError(
            f"rest is {rest}, but the kernel sums {expansion.unroll} K tiles per pass",
            hint=f"use 0 to {expansion.unroll - 1}",
            field="rest",
        )
    counts = rotation_counts(loop, expansion)
    size, unroll = len(loop.ops), expansion.unroll
    slots = fewest_points(crossing_intervals(loop, result, counts), result.ii)
    body = tuple(loop.placed(op, tile, counts) for tile in range(unroll) for op in range(size))
    return PipelinedLoop(
        result=result,
        quantum=loop.quantum,
        stages=expansion.stages,
        unroll=unroll,
        base=expansion.stages - 1 + rest,
        counts=tuple(counts.items()),
        body=body,
        edges=_unrolled_edges(loop, unroll),
        order=tuple(step.iteration % unroll * size + step.op for step in expansion.kernel),
        prologue=_entries(loop, expansion.prologue, Phase.PROLOGUE, counts),
        kernel=_entries(loop, expansion.kernel, Phase.KERNEL, counts),
        epilogue=_entries(loop, expansion.epilogues[rest], Phase.EPILOGUE, counts),
        barrier_gaps=kernel_gaps(slots, expansion.kernel, result.ii),
    )


def rotation_counts(loop: TileLoop, expansion: Expansion) -> dict[str, int]:
    """Copies of each rotating buffer and register set, by name.

    A register set is both a value and a channel of the problem; what rotates is the larger.
    """
    buffers = len(loop.buffers)
    channels = expansion.channel_copies
    counts = {b.name: channels[n] for n, b in enumerate(loop.buffers)}
    for n, item in enumerate(loop.registers):
        counts[item.name] = max(channels[buffers + n], expansion.value_copies[n])
    return counts


def _entries(
    loop: TileLoop, steps: tuple[Step, ...], phase: Phase, counts: dict[str, int]
) -> tuple[ScheduleEntry, ...]:
    return tuple(
        ScheduleEntry(
            loop.placed(step.op, step.iteration, counts),
            slot,
            phase,
            loop.ops[step.op].desc.role is OpRole.GLOBAL_LOAD,
        )
        for slot, step in enumerate(steps)
    )


def _unrolled_edges(loop: TileLoop, unroll: int) -> tuple[DepEdge, ...]:
    """The edges of one pass: an edge of distance d from tile t reaches tile t + d."""
    size = len(loop.ops)
    return tuple(
        DepEdge(
            tile * size + edge.producer,
            (tile + edge.loop_distance) % unroll * size + edge.consumer,
            edge.kind,
            (tile + edge.loop_distance) // unroll,
        )
        for tile in range(unroll)
        for edge in loop.edges
    )
