"""``simulate_emitted``: the waves of an emitted kernel, walked, lowered and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate import Instruction, Trace, WaveProgram, simulate_programs
from pipeloom.judge.simulate.instruction import Unit
from pipeloom.lift.lowering import lower_line
from pipeloom.lift.walk import Executed, WavePath, walk_wave
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.write import EmittedKernel
from pipeloom.write.gemm.scalars import ARGUMENTS

Steps = Mapping[tuple[str, int], tuple[str, int, str]]
"""Where an instruction says it is from -> section, slot and label of that step of the program."""
NO_STEPS: Steps = MappingProxyType({})
_NAMED = (Unit.MATRIX, Unit.LDS, Unit.GLOBAL)
"""What does an entry's work; the rest of it is arithmetic."""


def simulate_emitted(
    emitted: EmittedKernel,
    machine: Target | None = None,
    k_tiles: int = 32,
    *,
    arguments: Mapping[int, int] | None = None,
    steps: Sequence[Steps] = (),
    jitter: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Run one workgroup of the kernel over ``k_tiles`` K tiles (by default on its own chip).

    The kernels of schedules and programs compute one whole tile. One of your own needs
    ``arguments``: as 32-bit words by byte offset, which then decide the loop count instead.
    ``steps``, one mapping per wave, lead from the entries of a schedule to the steps of its
    program.
    """
    chosen = target_for(emitted.target) if machine is None else machine
    programs, trips = emitted_programs(emitted, chosen, k_tiles, arguments=arguments, steps=steps)
    return simulate_programs(programs, chosen, trips, jitter=jitter, seed=seed)


def emitted_programs(
    emitted: EmittedKernel,
    machine: Target,
    k_tiles: int,
    *,
    arguments: Mapping[int, int] | None = None,
    steps: Sequence[Steps] = (),
) -> tuple[tuple[WaveProgram, ...], int]:
    """One program per wave, and how often they run their loops."""
    words = _arguments(emitted, k_tiles) if arguments is None else arguments
    lowered: dict[tuple[int, int, bool], Instruction] = {}

    def lower(wave: int, path: Sequence[Executed]) -> tuple[Instruction, ...]:
        known = steps[wave] if steps else NO_STEPS
        for step in path:
            if (id(known), step.line, step.jumped) not in lowered:
                found = lower_line(step, machine)
                serves = known.get((found.section, -1 if found.entry is None else found.entry))
                if serves is not None:
                    section, slot, label = serves
                    name = label if found.unit in _NAMED else found.label
                    found = replace(found, section=section, entry=slot, label=name)
                lowered[id(known), step.line, step.jumped] = found
        return tuple(lowered[id(known), step.line, step.jumped] for step in path)

    paths = [walk_wave(emitted.lines, wave, words) for wave in range(emitted.waves)]
    groups = _groups(paths)
    programs = tuple(
        WaveProgram(
            simd=wave % machine.simds.value,
            group=groups[wave],
            prologue=lower(wave, path.prologue),
            loop=lower(wave, _one_trip(path, wave)),
            epilogue=lower(wave, path.epilogue),
        )
        for wave, path in enumerate(paths)
    )
    trips = {len(path.iterations) for path in paths}
    if len(trips) != 1:
        raise ConfigError(
            f"waves of {emitted.name} run their loops {sorted(trips)} times",
            hint="the simulator takes kernels whose waves all run the loop equally often",
            field="emitted",
        )
    return programs, trips.pop()


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
    """Waves on the same path form a group, numbered by their first wave."""
    known: dict[tuple[int, ...], int] = {}
    keys = [
        tuple(step.line for part in (path.prologue, path.epilogue) for step in part)
        for path in paths
    ]
    return [known.setdefault(key, len(known)) for key in keys]


def _arguments(emitted: EmittedKernel, iterations: int) -> dict[int, int]:
    """Arguments for one whole tile, with arrays densely packed."""
    launch = emitted.launch
    if launch is None:
        return _gemm_arguments(emitted, iterations)
    sizes = dict(launch.tiles)
    over = launch.meaning.over
    if over in sizes:
        sizes[over] *= iterations
    launch.check(sizes)
    words: dict[int, int] = {}
    for argument in emitted.arguments:
        words |= {argument.offset + at: 0 for at in range(0, argument.size, 4)}
        if argument.name in sizes:
            words[argument.offset] = sizes[argument.name]
        elif argument.name.startswith("ld_"):
            words[argument.offset] = launch.pitch(argument.name[3:], sizes)
    return words


def _gemm_arguments(emitted: EmittedKernel, k_tiles: int) -> dict[int, int]:
    """Arguments of the shipped kernels for one tile of C, with densely packed matrices."""
    shape = emitted.geometry
    if shape is None:
        raise ConfigError(
            f"kernel {emitted.name} has no tile shape, so its arguments are not known",
            hint="pass arguments=, as 32-bit words by byte offset",
            field="arguments",
        )
    m, n, k = shape.BM, shape.BN, k_tiles * shape.BK
    emitted.check_problem(m, n, k)
    values = {"M": m, "N": n, "K": k, "lda": k, "ldb": k, "ldc": n}
    words: dict[int, int] = {}
    for argument in ARGUMENTS:
        words |= {argument.offset + at: 0 for at in range(0, argument.size, 4)}
        words[argument.offset] = values.get(argument.name, 0)
    return words
