"""One verb per job, for whatever describes a kernel: a ``Program`` or a compiled schedule.

    program = pipeline(loop, target_for("gfx950"), waves=4)
    verify(program).proved
    simulate(program).steady_cycles_per_iteration
    emitted = emit(program, ops=loop.ops)
    run(emitted, sizes={"m": 250, "n": 130, "k": 256}).ok

A ``Loop`` says what is computed, not in which order: ``pipeline`` makes a program of it first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from pipeloom.checks import check_instance
from pipeloom.declare.loop import Loop
from pipeloom.errors import ConfigError
from pipeloom.judge.execute import Outcome
from pipeloom.judge.execute import execute as execute_program
from pipeloom.judge.simulate.lower import ITERATIONS
from pipeloom.judge.simulate.lower import simulate as simulate_program
from pipeloom.judge.simulate.trace import Trace
from pipeloom.judge.verify import Verdict
from pipeloom.judge.verify import verify as verify_program
from pipeloom.machine.target import Target
from pipeloom.program import VOCABULARY, Program, Vocabulary
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.instruction_counts import check_agreement
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.lift import lift

if TYPE_CHECKING:
    from pipeloom.drive.program_trial import ProgramTrial
    from pipeloom.drive.trial import Trial
    from pipeloom.write import EmittedKernel

Source = Program | CompiledSchedule


def as_program(
    source: Source, kernel: Kernel | None = None, target: Target | None = None
) -> Program:
    """``source`` itself, or what it lifts to; ``kernel`` is the model of a schedule of your own."""
    _check(source)
    if kernel is not None:
        check_instance("as_program", "kernel", kernel, Kernel)
    return source if isinstance(source, Program) else lift(source, kernel, target)


def verify(
    source: Source, kernel: Kernel | None = None, *, counter_stall: bool | None = None
) -> Verdict:
    """Prove it right for every trip count, or say what goes wrong and how.

    ``counter_stall`` is that of ``judge.verify.verify``.
    """
    return verify_program(as_program(source, kernel), counter_stall=counter_stall)


@overload
def synchronize(
    source: Program, *, reorder: bool = False, keep_barriers: bool = False
) -> Program: ...
@overload
def synchronize(
    source: CompiledSchedule,
    kernel: Kernel | None = None,
    reorder: bool = False,
    keep_barriers: bool = False,
    *,
    loop_barriers: Sequence[int] | None = None,
) -> CompiledSchedule: ...
def synchronize(
    source: Source,
    kernel: Kernel | None = None,
    reorder: bool = False,
    keep_barriers: bool = False,
    *,
    loop_barriers: Sequence[int] | None = None,
) -> Source:
    """The same work in the same order, with new waits and barriers; the result is PROVED.

    With ``keep_barriers`` only the waits are new. An order that no synchronisation can save raises
    ``OrderError``; with ``reorder`` the fewest steps move instead, and the result says which.
    ``loop_barriers`` is that of ``reference.resync.synchronize``, for compiled schedules.
    """
    from pipeloom.reference.resync import synchronize as synchronize_schedule
    from pipeloom.sync import PROVEN, REPAIRED
    from pipeloom.sync import synchronize as synchronize_program

    _check(source)
    if isinstance(source, CompiledSchedule):
        return synchronize_schedule(
            source, kernel, reorder, keep_barriers, loop_barriers=loop_barriers
        )
    _only_for_schedules(kernel=kernel, loop_barriers=loop_barriers)
    method = REPAIRED if keep_barriers else PROVEN
    return synchronize_program(source, method=method, reorder=reorder)


def execute(
    source: Source,
    *,
    trips: Mapping[str, int] | int,
    kernel: Kernel | None = None,
    ops: Vocabulary = VOCABULARY,
    **options: Any,
) -> Outcome:
    """Run one workgroup with numbers, as badly timed as the memory model allows.

    The options are those of ``judge.execute.execute``: policy, order, seed, arrays, explain.
    """
    return execute_program(as_program(source, kernel), trips=trips, ops=ops, **options)


def simulate(
    source: Source,
    machine: Target | None = None,
    kernel: Kernel | None = None,
    k_tiles: int | None = None,
    *,
    jitter: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Run one workgroup over ``k_tiles`` iterations on one compute unit.

    By default 32 of them, or the next number that the program can run.
    """
    if isinstance(source, CompiledSchedule) and source.geometry is not None:
        check_agreement(source.config, source.schedule_config, source.geometry)
    program = as_program(source, kernel, machine)
    count = usual_iterations(program) if k_tiles is None else k_tiles
    return simulate_program(program, machine, iterations=count, jitter=jitter, seed=seed)


def usual_iterations(program: Program, least: int = ITERATIONS) -> int:
    """The first number from ``least`` on that a program can run; its only one, if it is that."""
    trips = program.min_trips
    base = program.iterations.at(trips)
    step = dict(program.iterations.factors).get(program.trips[-1].name, 0) if trips else 0
    return base + max(0, -(-(least - base) // step)) * step if step else base


def emit(
    source: Source,
    *,
    ops: Vocabulary = VOCABULARY,
    name: str | None = None,
    allow_timing: bool = False,
    **schedule: Any,
) -> EmittedKernel:
    """Its machine code as text, if the verdict allows it.

    ``ops`` must hold every op of a program: a loop's own are ``loop.ops``. ``name`` is the symbol.
    A compiled schedule says neither type nor chip, so it takes the options of ``emit_kernel``.
    """
    from pipeloom.write import emit_kernel, emit_program

    _check(source)
    if isinstance(source, CompiledSchedule):
        return emit_kernel(source, allow_timing=allow_timing, **schedule)
    _only_for_schedules(**schedule)
    return emit_program(source, ops=ops, name=name, allow_timing=allow_timing)


def run(
    source: Source | EmittedKernel,
    *,
    sizes: Mapping[str, int],
    ops: Vocabulary = VOCABULARY,
    seed: int = 0,
    **options: Any,
) -> ProgramTrial | Trial:
    """Run its machine code in the emulator, and compare with what it means in NumPy.

    ``sizes`` are those of every dimension. What was emitted already is taken as it is. The options
    are those of ``run_program``: data, timing, scalars, spare, check_races.
    """
    from pipeloom.drive.program_trial import run_program
    from pipeloom.drive.trial import run_gemm
    from pipeloom.write import EmittedKernel, assemble

    emitted = source if isinstance(source, EmittedKernel) else emit(source, ops=ops)
    code = assemble(emitted)
    if emitted.launch is not None:
        return run_program(emitted, code, sizes=sizes, seed=seed, ops=ops, **options)
    shape = [sizes.get(dim, 0) for dim in "mnk"]
    return run_gemm(emitted, code, M=shape[0], N=shape[1], K=shape[2], seed=seed, **options)


def report(
    source: Source, *, kernel: Kernel | None = None, k_tiles: int | None = None, **options: Any
) -> str:
    """The HTML page: timeline, dependences, verdict, stalls. Options as of ``PageOptions``."""
    from pipeloom.show.page import render_page

    program = as_program(source, kernel)
    trace = simulate(program, k_tiles=k_tiles)
    return render_page(program, verify(program), trace, **options)


def _only_for_schedules(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"{name} is for compiled schedules; a program says that itself",
                hint=f"leave {name} out",
                field=name,
            )


def _check(source: object) -> None:
    if isinstance(source, Program | CompiledSchedule):
        return
    if isinstance(source, Loop):
        raise ConfigError(
            f"loop {source.name!r} says what is computed, but in no order yet",
            hint=f"pass pipeline({source.name}, target_for('gfx950'), waves=4)",
            field="source",
        )
    raise ConfigError(
        f"a {type(source).__name__} is no kernel",
        hint="pass a Program, which pipeline gives, or a CompiledSchedule, which compile_schedule "
        "gives",
        field="source",
    )
