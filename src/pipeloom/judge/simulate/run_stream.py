"""Simulate a loop given as text. See stream.py for the notation.

>>> trace = simulate_stream("R4 wl0 M8 branch", arch="gfx950", mfma="16x16x32_f16")
>>> round(trace.steady_cycles_per_iteration)
233
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeloom.checks import check_bool, check_instance, check_int, check_number
from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.engine import simulate_programs
from pipeloom.judge.simulate.instruction import MAX_CONFLICT, Kind, WaveOp, WaveProgram
from pipeloom.judge.simulate.stream import StreamOptions, parse_stream
from pipeloom.judge.simulate.trace import Trace
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.facts import Fact, FactKind
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.machine.target import Target

MAX_WAVES_PER_SIMD = 8

MfmaName = str | int | Mapping[str, object] | MatrixOp | None


def simulate_stream(
    stream: str | Sequence[str],
    *,
    arch: str | Target = ANY_CHIP,
    mfma: MfmaName = None,
    waves_per_simd: int = 1,
    stagger: bool = False,
    iterations: int = 24,
    simds: int | None = None,
    lds_conflict: float = 1.0,
    jitter: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Run a loop body, given as a stream of instructions, on every wave of a workgroup.

    Args:
        stream: The body as text. Of several texts SIMD s runs the s-th, and from the first on again
            where there are fewer texts than SIMDs: the code paths by which hipBLASLt keeps
            neighbouring SIMDs apart.
        arch: The chip, or its name.
        mfma: What ``M`` is: a name (``16x16x32_f16``), a number of cycles, or the ``mfma`` object
            of a measured record.
        waves_per_simd: Waves on each SIMD.
        stagger: Whether the waves form two groups, the later wave slots being group B, which starts
            one barrier later: it executes one more barrier before its loop, and group A one more
            after.
        iterations: Trips of the loop.
        simds: SIMDs that have waves; all of them unless given.
        lds_conflict: The factor of bank conflicts of every LDS operation; 1 is none.
        jitter: Stretches each global access's latency by a random share of up to this much.
        seed: What the random latencies are drawn from.
    """
    machine = arch if isinstance(arch, Target) else target_for(arch)
    programs = waves_of_stream(
        stream,
        machine,
        mfma=mfma,
        waves_per_simd=waves_per_simd,
        stagger=stagger,
        simds=simds,
        lds_conflict=lds_conflict,
    )
    return simulate_programs(programs, machine, iterations, jitter=jitter, seed=seed)


def waves_of_stream(
    stream: str | Sequence[str],
    machine: Target,
    *,
    mfma: MfmaName = None,
    waves_per_simd: int = 1,
    stagger: bool = False,
    simds: int | None = None,
    lds_conflict: float = 1.0,
) -> tuple[WaveProgram, ...]:
    """What each wave of a workgroup executes; the arguments are those of ``simulate_stream``."""
    texts = tuple(stream) if isinstance(stream, (list, tuple)) else (stream,)
    for text in texts:
        check_instance("simulation", "stream", text, str)
    if not texts:
        raise ConfigError("no stream", hint="give one text, or one per code path", field="stream")
    check_bool("simulation", "stagger", stagger)
    check_number("simulation", "lds_conflict", lds_conflict, 1.0, MAX_CONFLICT)
    options = StreamOptions(_matrix_op(mfma, machine), lds_conflict)
    bodies = [parse_stream(text, machine, options) for text in texts]
    return stream_programs(
        bodies, machine, waves_per_simd=waves_per_simd, stagger=stagger, simds=simds
    )


def stream_programs(
    bodies: Sequence[tuple[WaveOp, ...]],
    machine: Target,
    *,
    waves_per_simd: int,
    stagger: bool,
    simds: int | None = None,
) -> tuple[WaveProgram, ...]:
    """One program per wave; wave w runs on SIMD ``w % simds``, the upper half is group B."""
    barriers = [sum(one.kind is Kind.BARRIER for one in body) for body in bodies]
    if len(set(barriers)) > 1:
        raise ConfigError(
            f"the code paths have {', '.join(map(str, barriers))} barriers",
            hint="every path needs the same number, or the waves hang",
            field="stream",
        )
    count = machine.simds.value if simds is None else simds
    check_int("simulation", "simds", count, 1, machine.simds.value)
    check_int("simulation", "waves_per_simd", waves_per_simd, 1, MAX_WAVES_PER_SIMD)
    if stagger and waves_per_simd % 2:
        raise ConfigError(
            f"stagger needs two wave groups of equal size, not {waves_per_simd} waves per SIMD",
            hint="use an even waves_per_simd, or stagger=False",
            field="stagger",
        )
    if stagger and not barriers[0]:
        raise ConfigError(
            "stagger starts group B one barrier later, but the stream has no barrier",
            hint="add a B to the stream, or use stagger=False",
            field="stagger",
        )
    extra = (WaveOp.barrier(label="stagger"),)
    programs = []
    for wave in range(count * waves_per_simd):
        group = int(stagger and wave >= count * waves_per_simd // 2)
        simd = wave % count
        program = WaveProgram(simd=simd, loop=bodies[simd % len(bodies)], group=group)
        if stagger and group == 0:
            program = replace(program, epilogue=extra)
        elif stagger:
            program = replace(program, prologue=extra)
        programs.append(program)
    return tuple(programs)


def _matrix_op(mfma: MfmaName, machine: Target) -> MatrixOp:
    """The MFMA meant by a name, a cycle count or a measured record's object."""
    if isinstance(mfma, MatrixOp):
        return mfma
    if mfma is None:
        return machine.matrix_ops[0]
    if isinstance(mfma, Mapping):
        cycles, shape = mfma.get("cycles"), mfma.get("shape")
        if isinstance(shape, str):
            try:
                op = machine.matrix_op(shape)
            except ConfigError:
                if cycles is None:
                    raise
            else:
                if isinstance(cycles, int) and cycles != op.cycles.value:
                    return replace(op, cycles=_of_cycles(cycles).cycles)
                return op
        if cycles is None and not isinstance(shape, str):
            raise ConfigError(
                f"mfma = {dict(mfma)} names neither the cycles nor the shape",
                hint="give cycles as a number, or shape as a name like 16x16x32_f16",
                field="mfma",
            )
        return _of_cycles(shape if cycles is None else cycles)
    if isinstance(mfma, str):
        return machine.matrix_op(mfma)
    return _of_cycles(mfma)


def _of_cycles(cycles: object) -> MatrixOp:
    if not isinstance(cycles, int) or isinstance(cycles, bool) or not 4 <= cycles <= 1024:
        raise ConfigError(
            f"mfma = {cycles!r} cycles", hint="use 4 to 1024, or an MFMA's name", field="mfma"
        )
    return MatrixOp(0, 0, 0, "any", Fact(cycles, "cycles", FactKind.ASSUMED, "the caller"))
