"""What the model of the machine says of drawn streams and instructions: a row for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from benchmarks.kernel_results import digest, run_text
from pipeloom.errors import ScheduleError
from pipeloom.judge.simulate.bank_conflicts import bank_conflict
from pipeloom.judge.simulate.run_stream import simulate_stream, waves_of_stream
from pipeloom.judge.simulate.settled import steady_cycles_of
from pipeloom.judge.simulate.steady import busy_cycles
from pipeloom.judge.wait_states import judge, read_assembly
from pipeloom.machine.chips import target_for
from tests.golden.rows.answers import answers
from tests.unit.judge.wait_states import test_wait_state_rules as rules

STREAMS = 70
WORDS = (
    *("M", "M4", "R", "R4", "T2", "W2", "V4", "V[max]3", "X2", "P2", "S", "N", "N(3)", "m2"),
    *("G2", "g", "G", "B", "B", "prio(1)", "prio(0)", "wv1", "wv(0)", "wl0", "wl2+wv3", "w"),
    *("(M2 R)x3", "(V X)x2", "M[acc]2", "R1,S2"),
)
MATRIX = (None, None, "16x16x32_f16", "32x32x16_f16", 12, 20)
ARCHES = ("gfx950", "gfx942")
PROGRAMS = 40


def stream_rows() -> dict[str, str]:
    """Drawn loop bodies, simulated: cycles, who waits for what, and every event."""
    return {f"seed {seed}": _simulated(Random(seed)) for seed in range(STREAMS)}


def _simulated(rng: Random) -> str:
    text = " ".join(rng.choices(WORDS, k=rng.randint(1, 14))) + rng.choice(("", " branch"))
    arch, mfma = rng.choice(ARCHES), rng.choice(MATRIX)
    waves, stagger = rng.choice((1, 1, 2, 4)), rng.random() < 0.3
    simds, conflict = rng.choice((None, 1, 3)), rng.choice((1.0, 1.0, 1.5, 2.0))
    iterations, jitter = rng.choice((4, 12, 24)), rng.choice((0.0, 0.0, 0.4))
    try:
        trace = simulate_stream(
            text,
            arch=arch,
            mfma=mfma,
            waves_per_simd=waves,
            stagger=stagger,
            iterations=iterations,
            simds=simds,
            lds_conflict=conflict,
            jitter=jitter,
            seed=3,
        )
        programs = waves_of_stream(
            text,
            target_for(arch),
            mfma=mfma,
            waves_per_simd=waves,
            stagger=stagger,
            simds=simds,
            lds_conflict=conflict,
        )
    except ScheduleError as error:
        return f"{text}: {' '.join(str(error).split())}"
    busy = busy_cycles(programs, target_for(arch))
    settled = steady_cycles_of(programs, target_for(arch), iterations)
    units = ", ".join(f"{unit} {cycles:g}" for unit, cycles in busy.items())
    stalls = Counter(f"{event.cause.name}" for event in trace.events)
    return (
        f"{text}: {trace.steady_cycles_per_iteration:.5g} ({settled:.5g}) cycles, "
        f"{trace.total_cycles} in all, {trace.limiting_unit()}; {units}; "
        f"{', '.join(f'{n} {name}' for name, n in sorted(stalls.items()))}; "
        f"{digest(run_text(trace))}, {answers(trace)}"
    )


def bank_rows() -> dict[str, str]:
    """How much longer drawn addresses take in LDS."""
    found = {}
    for seed in range(24):
        rng = Random(seed)
        stride, width = rng.choice((4, 8, 16, 32, 48, 64, 128, 132)), rng.choice((4, 8, 16))
        mask = rng.choice((0, 16, 48, 112))
        addresses = [lane * stride ^ (lane * 16 & mask) for lane in range(64)]
        said = [bank_conflict(addresses, width, target_for(arch)) for arch in ARCHES]
        found[f"{width} bytes every {stride}, turned by {mask}"] = f"{said[0]:g} and {said[1]:g}"
    return found


def wait_state_rows() -> dict[str, dict[str, str]]:
    """Wait states that a second instruction lacks behind a first, for all pairs of a list; and of
    drawn programs."""
    texts = sorted({text for _, first, second, *_ in rules.CASES for text in (first, second)})
    found: dict[str, dict[str, str]] = {}
    for arch in ARCHES:
        rows = found[arch] = {}
        for first in texts:
            lacks = Counter(said for second in texts for said in _lacking((first, second), arch))
            rows[first] = ", ".join(f"{n} x {said}" for said, n in sorted(lacks.items())) or "none"
        for seed in range(PROGRAMS):
            lines = list(_drawn(Random(seed), texts))
            rows[f"program {seed}"] = "; ".join(_lacking(lines, arch)) or "none"
    return found


def _lacking(lines: list[str] | tuple[str, ...], arch: str) -> Iterator[str]:
    try:
        program, entries = read_assembly("\n".join(lines))
        for one in judge(program, target_for(arch), entries):
            sure = "" if one.certain else ", on some path"
            yield f"{one.at} {one.describe()}, {one.basis.value}{sure}"
    except ScheduleError as error:
        yield " ".join(str(error).split())


def _drawn(rng: Random, texts: list[str]) -> Iterator[str]:
    yield "loop:"
    for _ in range(rng.randint(2, 7)):
        if rng.random() < 0.3:
            yield f"s_nop {rng.randint(0, 4)}"
        yield rng.choice(texts)
        if rng.random() < 0.15:
            yield "s_cbranch_scc0 behind"
    if rng.random() < 0.6:
        yield "s_cbranch_scc1 loop"
    yield "behind:"
    yield rng.choice(texts)
    yield "s_endpgm"
