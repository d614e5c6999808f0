"""One verb per job, for whatever describes a kernel: a program, a loop, a schedule, or a name.

    program = pipeline(loop, target_for("gfx950"), waves=4)
    verify(program).proved
    simulate(program).steady_cycles_per_iteration
    emitted = emit(program, ops=loop.ops)
    run(emitted, sizes={"m": 250, "n": 130, "k": 256}).ok
    verify("ping_pong").summary()

A loop is pipelined for four waves of the target, or as many as can share it: see ``pipeline``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, overload

from pipeloom.checks import check_instance, check_int, plain_int
from pipeloom.declare.loop import Loop
from pipeloom.drive.any_size import emit_any_size
from pipeloom.drive.emitting import EmitJob
from pipeloom.drive.emitting import emit as emit_job
from pipeloom.drive.heads import by_head
from pipeloom.drive.margins import verdict_of
from pipeloom.drive.opening import open_source
from pipeloom.drive.reporting import report as report_job
from pipeloom.drive.simulating import SimulateJob
from pipeloom.drive.solving import Solved, SolveJob, read_objectives
from pipeloom.drive.solving import solve as solve_job
from pipeloom.drive.sources import Source as Asked
from pipeloom.drive.trial import Trial, run_program, scalar_values, whole_sizes
from pipeloom.errors import ConfigError
from pipeloom.judge.execute import Outcome
from pipeloom.judge.execute import execute as execute_program
from pipeloom.judge.simulate.issued import simulate as simulate_program
from pipeloom.judge.simulate.issued import usual_iterations
from pipeloom.judge.simulate.trace import Trace
from pipeloom.judge.verify import Verdict
from pipeloom.machine.target import Target
from pipeloom.order.modulo import ModuloProblem, SolveProgress
from pipeloom.program import VOCABULARY, Program, Vocabulary
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.instruction_counts import check_agreement
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.lift import lift, lift_in_units
from pipeloom.reference.resync import synchronize as synchronize_schedule
from pipeloom.sync import PROVEN, REPAIRED
from pipeloom.sync import synchronize as synchronize_program
from pipeloom.write import EmittedKernel, assemble
from pipeloom.write.launch import check_sizes
from pipeloom.write.lower.global_arrays import dimensions

Source = Program | CompiledSchedule | Loop | PipelineSchedule | str | PathLike[str] | Asked
"""A string is a shipped name, a file, or ``my.py:name``; ``pl.Source`` asks for more of one."""


def as_program(
    source: Source, kernel: Kernel | None = None, target: Target | None = None
) -> Program:
    """What ``source`` is as a program; ``kernel`` is the model of a schedule of your own.

    Args:
        source: A program, schedule or loop, or the name of one.
        kernel: The model of a schedule of your own.
        target: The chip; the source's own unless given.
    """
    _check(source)
    if kernel is not None:
        check_instance("as_program", "kernel", kernel, Kernel)
    if isinstance(source, Program):
        return source
    if isinstance(source, CompiledSchedule):
        return lift(source, kernel, target)
    asked = source if isinstance(source, Asked) else Asked(source)
    named = asked if target is None else replace(asked, arch=target)
    return open_source(named, keep_interrupted=isinstance(source, Loop)).program()


def verify(
    source: Source,
    kernel: Kernel | None = None,
    *,
    counter_stall: bool | None = None,
    ops: Vocabulary | None = None,
) -> Verdict:
    """Prove it right for every trip count, or say what goes wrong and how.

    A schedule whose waits count other instructions than its tile has is refused: a verdict would
    be of neither.

    Args:
        source: A program, schedule or loop, or the name of one.
        kernel: The model of a schedule of your own.
        counter_stall: Whether the issue of a step waits while its counter is full. By default it is
            what the target's vendor states of each counter.
        ops: The ops that it uses, where they are not the shipped ones; a loop has its own.
    """
    if isinstance(source, CompiledSchedule):
        check_agreement(source)
    program = as_program(source, kernel)
    return verdict_of(program, counter_stall=counter_stall, ops=ops or _ops(source))


@overload
def synchronize(
    source: Program,
    *,
    reorder: bool = False,
    keep_barriers: bool = False,
    ops: Vocabulary | None = None,
) -> Program: ...
@overload
def synchronize(
    source: CompiledSchedule,
    kernel: Kernel | None = None,
    reorder: bool = False,
    keep_barriers: bool = False,
) -> CompiledSchedule: ...
def synchronize(
    source: Program | CompiledSchedule,
    kernel: Kernel | None = None,
    reorder: bool = False,
    keep_barriers: bool = False,
    ops: Vocabulary | None = None,
) -> Program | CompiledSchedule:
    """The same work in the same order, with new waits and barriers; the result is PROVED.

    An order that no synchronisation can save raises ``OrderError``, unless steps may move.

    Args:
        source: A program or a compiled schedule.
        kernel: The model of a schedule of your own.
        reorder: Whether the fewest steps move where no synchronisation saves the order. The
            result says which.
        keep_barriers: Whether the barriers stay as they are and only the waits are new.
        ops: The ops of a program that brings its own.
    """
    _check(source)
    if isinstance(source, CompiledSchedule):
        return synchronize_schedule(source, kernel, reorder, keep_barriers)
    check_instance("synchronize", "source", source, Program)
    _only_for_schedules(kernel=kernel)
    method = REPAIRED if keep_barriers else PROVEN
    return synchronize_program(source, method=method, reorder=reorder, ops=ops or VOCABULARY)


def execute(
    source: Source,
    *,
    trips: Mapping[str, int] | int,
    kernel: Kernel | None = None,
    ops: Vocabulary | None = None,
    **options: Any,
) -> Outcome:
    """Run one workgroup with numbers, as badly timed as the memory model allows.

    The options are those of ``judge.execute.execute``: policy, order, seed, arrays, explain.

    Args:
        source: A program, schedule or loop, or the name of one.
        trips: The trip counts by name, or one number for all.
        kernel: The model of a schedule of your own.
        ops: The ops that it uses, where they are not the shipped ones; a loop has its own.
        **options: ``policy`` (when memory is touched), ``order`` (of the waves), ``seed``,
            ``arrays`` (inputs of your own), ``explain`` (list every wrong read), ``trace``,
            ``counter_stall``.
    """
    program = _in_units(source, kernel)
    if isinstance(trips, Mapping):
        trips = {name: plain_int(count) for name, count in trips.items()}
    else:
        check_int("execute", "trips", trips := plain_int(trips), 0)
    return execute_program(program, trips=trips, ops=ops or _ops(source), **options)


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

    Args:
        source: A program, schedule or loop, or the name of one.
        machine: The chip; the program's own unless given.
        kernel: The model of a schedule of your own.
        k_tiles: How many iterations to run.
        jitter: Stretches each global access's latency by a random share of up to this much.
        seed: What the random latencies are drawn from.
    """
    if isinstance(source, CompiledSchedule):
        check_agreement(source)
    named = Asked(source, default_tile="bf16") if isinstance(source, str | PathLike) else source
    program = as_program(named, kernel, machine)
    count = usual_iterations(program) if k_tiles is None else plain_int(k_tiles)
    check_int("simulate", "k_tiles", count, 0)
    return simulate_program(program, machine, iterations=count, jitter=jitter, seed=seed)


def solve(
    source: Source | ModuloProblem,
    *,
    budget: Mapping[str, int] | None = None,
    objectives: Sequence[str] = ("stages", "buffers"),
    max_ii: int | None = None,
    time_limit: float | None = 60.0,
    explain: bool = False,
    progress: Callable[[SolveProgress], None] | None = None,
) -> Solved:
    """The smallest initiation interval of a loop, proved, and why there is no smaller one.

    Ctrl-C ends the search and keeps the best so far.

    Args:
        source: A loop or schedule, the name of one, a problem file, or a ``ModuloProblem``.
        budget: Limits by name: ``registers`` (a lane's, for fragments), ``lds`` (bytes) and
            ``stages``.
        objectives: What to improve at the smallest interval, in order: ``stages``, ``buffers``,
            ``registers``, ``early_loads``.
        max_ii: Only intervals up to it; where there is none, the result says why.
        time_limit: Seconds for the search; None sets no limit.
        explain: Whether to name the constraints that rule out the next smaller interval.
        progress: Told of each interval that is tried.
    """
    job = SolveJob(
        source if isinstance(source, ModuloProblem) else _asked(source),
        budget=dict(budget or {}),
        objectives=read_objectives(objectives),
        max_ii=max_ii,
        time_limit=time_limit,
        explain=explain,
    )
    return solve_job(job, progress)


def emit(
    source: Source,
    *,
    ops: Vocabulary | None = None,
    name: str | None = None,
    allow_timing: bool = False,
    target: str | Target | None = None,
    dtype: str | None = None,
    out_dtype: str | None = None,
    timed: bool = False,
) -> EmittedKernel:
    """Its machine code as text; only what is PROVED is written.

    A program and a compiled schedule are written as they are, or refused with the finding;
    ``fix`` repairs them. A declared schedule (an object or a name) is written in its fastest
    proved form, which may have other waits and barriers than declared, and moved loads. The
    kernel's ``form`` and its ``repr`` say so. To have it as declared or not at all, emit
    ``compile_schedule(schedule)``.

    Args:
        source: A program, schedule or loop, or the name of one.
        ops: Every op of the program; a loop's own are ``loop.ops``.
        name: The kernel's symbol; the program's name unless given.
        allow_timing: Whether a kernel whose order rests on latencies (TIMING) may be written.
        target: For schedules: the chip.
        dtype: For schedules: the element type of the inputs.
        out_dtype: For schedules: the element type of the output.
        timed: Whether every wave records when it began, looped and ended, and where it ran, in a
            buffer that is one argument more; the loop is the same.
    """
    if isinstance(source, Program):
        _only_for_schedules(target=target, dtype=dtype, out_dtype=out_dtype)
        return emit_any_size(
            source, ops=ops or VOCABULARY, name=name, allow_timing=allow_timing, timed=timed
        )
    asked = _asked(source)
    if isinstance(source, CompiledSchedule):
        asked = replace(asked, sync="reference")
    asked = replace(asked, arch=target or asked.arch, dtype=dtype or asked.element_type)
    job = EmitJob(asked, out_dtype, allow_timing=allow_timing, name=name, timed=timed)
    return emit_job(job).kernel


def run(
    source: Source | EmittedKernel,
    *,
    sizes: Mapping[str, int],
    ops: Vocabulary | None = None,
    seed: int = 0,
    **options: Any,
) -> Trial:
    """Run its machine code in the emulator, and compare with what it means in NumPy.

    What was emitted already is taken as it is.

    Args:
        source: What ``emit`` returned, or anything that it takes.
        sizes: The size of every dimension; of attention also ``q_heads`` and ``kv_heads``, instead
            of ``heads`` and ``group``.
        ops: Every op of the program; a loop's own are ``loop.ops``.
        seed: Decides the data, the timing and the order of waves.
        **options: ``data``, ``timing``, ``scalars``, ``spare`` (further elements of rows),
            ``order`` (of dimensions in memory), ``arrays`` (inputs of your own), ``check_races``.
    """
    sizes = whole_sizes(sizes)
    if isinstance(source, Loop):  # before the search, which takes its time
        sizes = by_head(dimensions(source.meaning), sizes)
        check_sizes(source.meaning, sizes)
        scalar_values(source.meaning, options.get("scalars") or {})
    emitted = source if isinstance(source, EmittedKernel) else emit(source, ops=ops)
    sizes = by_head(dimensions(emitted.launch.meaning), sizes)
    code = assemble(emitted)
    return run_program(emitted, code, sizes=sizes, seed=seed, ops=ops or _ops(source), **options)


def report(
    source: Source,
    *,
    kernel: Kernel | None = None,
    k_tiles: int | None = None,
    ops: Vocabulary | None = None,
) -> str:
    """The HTML page of a kernel: timeline, dependences, verdict, stalls, what it occupies.

    Args:
        source: A program, schedule or loop, or the name of one.
        kernel: The model of a schedule of your own.
        k_tiles: How many iterations to simulate.
        ops: The ops of a program that brings its own.
    """
    _check(source)
    what = source if kernel is None else as_program(source, kernel)
    asked = what if isinstance(what, Asked) else Asked(what, default_tile="bf16")
    return report_job(SimulateJob(replace(asked, ops=ops or asked.ops), k_tiles)).page


def _asked(source: Source) -> Asked:
    _check(source)
    return source if isinstance(source, Asked) else Asked(source)


def _in_units(source: Source, kernel: Kernel | None) -> Program:
    """Of a schedule the smallest program that goes through its steps; of others their program."""
    if kernel is not None:
        check_instance("execute", "kernel", kernel, Kernel)
    opened = open_source(_asked(source), keep_interrupted=isinstance(source, Loop))
    compiled = opened.schedule()
    if compiled is None:
        return opened.program()
    return lift_in_units(compiled, kernel or opened.kernel(compiled))


def _ops(source: object) -> Vocabulary:
    return source.ops if isinstance(source, Loop) else VOCABULARY


def _only_for_schedules(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"{name} is for compiled schedules; a program says that itself",
                hint=f"leave {name} out",
                field=name,
            )


def _check(source: object) -> None:
    kinds = (Program, CompiledSchedule, Loop, PipelineSchedule, str, PathLike, Asked)
    if isinstance(source, type) and issubclass(source, PipelineSchedule):
        raise ConfigError(
            f"{source.__name__} is a class, not a schedule",
            hint=f"pass an instance: {source.__name__}()",
            field="source",
        )
    if not isinstance(source, kinds):
        ready = callable(getattr(source, "run", None))
        raise ConfigError(
            f"a {type(source).__name__} is not declared, but made"
            if ready
            else f"a {type(source).__name__} is none of the kernels this takes",
            hint="call its own .run(sizes=...)"
            if ready
            else "pass a Loop, a Program, a schedule, or the name of one; what pl.gemm gives has "
            "a .run() of its own",
            field="source",
        )
