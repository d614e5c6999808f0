"""``simulate_emitted``: the waves of an emitted kernel, walked, lowered and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeloom.checks import check_int
from pipeloom.errors import ConfigError
from pipeloom.judge.simulate import Kind, Trace, WaveOp, WaveProgram, simulate_programs
from pipeloom.judge.simulate.instruction import Track
from pipeloom.judge.simulate.issued import ITERATIONS, beside
from pipeloom.judge.simulate.settled import steady_cycles_of
from pipeloom.machine.target import Target
from pipeloom.machine_code.executed_lines import Executed, WavePath, walk_wave
from pipeloom.machine_code.lowering import lower_line, read_line, values_of, with_values
from pipeloom.machine_code.pressure import live_counts
from pipeloom.write import EmittedKernel
from pipeloom.write.isa import Instruction, ServedStep

SETTLED = 6
"""Trips after which a loop goes on as it is."""
LENGTHS = 1 << 20
"""Where a kernel that is walked finds its problem's length."""


def simulate_emitted(
    emitted: EmittedKernel,
    machine: Target | None = None,
    k_tiles: int | None = None,
    *,
    arguments: Mapping[int, int] | None = None,
    workgroups: int = 1,
    jitter: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Simulate the emitted instructions themselves: a workgroup on one compute unit, or several.

    Each computes one whole tile of its outputs, unless ``arguments`` say otherwise.

    Args:
        emitted: What ``emit`` returned.
        machine: The chip; the kernel's own unless given.
        k_tiles: How many iterations to run; without it the first number from 32 on that the kernel
            can run.
        arguments: The kernel's, as 32-bit words by byte offset.
        workgroups: How many share the compute unit, as many at most as it has room for. A trip of
            the loop is then one of each of them.
        jitter: Stretches each global access's latency by a random share of up to this much.
        seed: What the random latencies are drawn from.
    """
    chosen = emitted.resources.target if machine is None else machine
    count = _usual_iterations(emitted) if k_tiles is None else k_tiles
    most = emitted.resources.workgroups
    check_int("simulation", "workgroups", workgroups, 1, most)
    programs, trips = emitted_programs(emitted, chosen, count, arguments=arguments)
    every = beside(programs, workgroups, chosen)
    return simulate_programs(every, chosen, trips, jitter=jitter, seed=seed)


def loop_cycles(emitted: EmittedKernel, machine: Target) -> float:
    """Cycles of a trip of its loop, settled, on any chip."""
    launch = emitted.launch
    tiles = (emitted.k_min + SETTLED * emitted.k_step) // launch.tiles[launch.meaning.over]
    programs, trips = emitted_programs(emitted, machine, tiles)
    return steady_cycles_of(programs, machine, trips)


def emitted_programs(
    emitted: EmittedKernel,
    machine: Target,
    k_tiles: int,
    *,
    arguments: Mapping[int, int] | None = None,
) -> tuple[tuple[WaveProgram, ...], int]:
    """One program per wave, and how often they run their loops."""
    words = _arguments(emitted, k_tiles) if arguments is None else arguments
    lowered: dict[tuple[int, bool, int], WaveOp] = {}
    read = {
        n: read_line(line) for n, line in enumerate(emitted.lines) if isinstance(line, Instruction)
    }
    values = values_of(read)

    def lower(step: Executed, live: int) -> WaveOp:
        key = step.line, step.jumped, live
        if key not in lowered:
            found = lower_line(read[step.line], machine, jumped=step.jumped)
            found = replace(with_values(found, values[step.line]), live=live, line=step.line)
            lowered[key] = _placed(found, step.instruction.provenance)
        return lowered[key]

    def program(wave: int, path: WavePath) -> WaveProgram:
        parts = (path.prologue, _one_trip(path, wave), path.epilogue)
        live = live_counts([[step.line for step in part] for part in parts], read)
        before, loop, after = (
            tuple(lower(step, count) for step, count in zip(part, counts, strict=True))
            for part, counts in zip(parts, live, strict=True)
        )
        return WaveProgram(wave % machine.simds.value, loop, before, after, groups[wave])

    paths = [walk_wave(emitted.lines, wave, words) for wave in range(emitted.waves)]
    groups = _groups(paths)
    programs = tuple(program(wave, path) for wave, path in enumerate(paths))
    trips = {len(path.iterations) for path in paths}
    if len(trips) != 1:
        raise ConfigError(
            f"waves of {emitted.name} run their loops {sorted(trips)} times",
            hint="the simulator takes kernels whose waves all run the loop equally often",
            field="emitted",
        )
    return programs, trips.pop()


def _placed(found: WaveOp, source: ServedStep | None) -> WaveOp:
    """The instruction with the step that it serves."""
    if source is None:
        return found
    named = found.unit not in (Track.SCALAR, Track.SYNC) or found.kind is Kind.BARRIER
    return replace(
        found,
        section=source.section,
        entry=None if source.slot < 0 else source.slot,
        label=source.what if named else found.label,
    )


def _one_trip(path: WavePath, wave: int) -> tuple[Executed, ...]:
    """The path of every trip; only the branch back differs, in the last one."""
    if not path.iterations:
        return ()
    first = path.iterations[0]
    lines = [step.line for step in first]
    if any([step.line for step in trip] != lines for trip in path.iterations):
        raise ConfigError(
            f"the trips of wave {wave} take different branches",
            hint="the simulator takes kernels whose loop runs the same lines every time",
            field="emitted",
        )
    return first


def _groups(paths: Sequence[WavePath]) -> list[int]:
    """Waves that end at the same line form a group, numbered by their first wave."""
    known: dict[int, int] = {}
    ends = [
        max((*path.prologue, *path.epilogue), key=lambda step: step.line).line for path in paths
    ]
    return [known.setdefault(end, len(known)) for end in ends]


def _usual_iterations(emitted: EmittedKernel) -> int:
    tile = emitted.launch.tiles.get(emitted.launch.meaning.over, 1)
    base, step = emitted.k_min // tile, emitted.k_step // tile
    return base + max(0, -(-(ITERATIONS - base) // step)) * step if step else base


def _arguments(emitted: EmittedKernel, iterations: int) -> dict[int, int]:
    """Arguments of one whole tile over so many iterations, with densely packed arrays."""
    launch = emitted.launch
    over = launch.meaning.over
    sizes = dict.fromkeys(launch.meaning.batch, 1)
    sizes |= {**launch.tiles, over: iterations * launch.tiles.get(over, 1)}
    nodes = (*launch.meaning.inputs, *launch.meaning.outputs)
    places = [node.at for node in nodes if node.at is not None]
    for place in places:
        sizes |= place.least_sizes(launch.tiles)
    sizes |= {one.dim: 1 for node in nodes for one in node.chosen}
    if not places:  # their iterations are fixed, and a loop is timed over more
        launch.check(sizes)
    values = {**sizes, "batches": 1}
    for node in nodes:
        values[f"ld_{node.name}"] = launch.pitch(node.name, sizes)
    words: dict[int, int] = {}
    for argument in emitted.arguments:
        words |= {argument.offset + at: 0 for at in range(0, argument.size, 4)}
        words[argument.offset] = values.get(argument.name, 0)
    span = launch.meaning.span
    if span is not None and span.lengths:
        pointer = next(a.offset for a in emitted.arguments if a.name == span.lengths)
        words |= {pointer: LENGTHS, LENGTHS: sizes[over]}
    return words
