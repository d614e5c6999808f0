"""Whatever describes a kernel, as the ``Program`` that judges take."""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.lower import ITERATIONS
from pipeloom.judge.simulate.lower import simulate as simulate_program
from pipeloom.judge.simulate.trace import Trace
from pipeloom.machine.target import Target
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.instruction_counts import check_agreement
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.lift import lift

Source = Program | CompiledSchedule


def as_program(
    source: Source, kernel: Kernel | None = None, target: Target | None = None
) -> Program:
    """``source`` itself, or what it lifts to; ``kernel`` is the model of a schedule of your own."""
    if isinstance(source, Program):
        return source
    if isinstance(source, CompiledSchedule):
        return lift(source, kernel, target)
    raise ConfigError(
        f"a {type(source).__name__} is no kernel",
        hint="pass a Program, or a CompiledSchedule, which compile_schedule gives",
        field="source",
    )


def simulate(
    source: Source,
    machine: Target | None = None,
    kernel: Kernel | None = None,
    k_tiles: int = ITERATIONS,
    *,
    jitter: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Run one workgroup over ``k_tiles`` iterations on one compute unit."""
    if isinstance(source, CompiledSchedule) and source.geometry is not None:
        check_agreement(source.config, source.schedule_config, source.geometry)
    program = as_program(source, kernel, machine)
    return simulate_program(program, machine, iterations=k_tiles, jitter=jitter, seed=seed)
