"""Weakened kernels in the emulator: noticed or not.

A weakening that the verifier calls unsafe could be harmless in the bytes: the verifier takes any
slice of a load to overlap any read of the same region. Rows are dealt so that this never happens;
one that goes unnoticed is listed with the verifier's finding, for a person to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evidence.emit_cases import Case
from evidence.weaken import weakenings
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.judge.verify import Status, verify
from pipeloom.program import Program
from pipeloom.write import assemble

TRIPS = (2, 0, 1)


@dataclass
class Waved:
    """A verdict that lets anything through."""

    status: Status = Status.PROVED
    findings: Sequence[Any] = ()


def wave_through(program: Program) -> Waved:
    """In place of the verifier."""
    return Waved()


@dataclass
class Tally:
    """What became of one kernel's weakenings; of those not noticed, also why."""

    harmless: list[str] = field(default_factory=list)
    noticed: int = 0
    first_seed: int = 0
    missed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def unsafe(self) -> int:
        """Not proved any more."""
        return self.noticed + len(self.missed)


def weaken(case: Case, seeds: int) -> Tally:
    """Weaken, emit, run."""
    tally = Tally()
    for weakened in weakenings(case.proved()):
        program = case.program(weakened.compiled)
        verdict = verify(program)
        if verdict.status is Status.PROVED:
            tally.harmless.append(weakened.what)
            continue
        emitted = case.emit(program, wave_through)
        ready = Launchable.load(emitted, assemble(emitted))
        for seed in range(seeds):
            if not _run(case, ready, seed):
                tally.noticed += 1
                tally.first_seed += seed == 0
                break
        else:
            tally.missed.append((weakened.what, f"unexplained: {verdict.findings[0].describe()}"))
    return tally


def _run(case: Case, ready: Launchable, seed: int) -> bool:
    emitted = ready.emitted
    depth = emitted.launch.least + TRIPS[seed % len(TRIPS)] * emitted.launch.step
    bm, bn, *_ = case.shape
    sizes = {"m": bm, "n": bn, "k": depth}
    return run_program(emitted, ready, sizes=sizes, seed=seed).ok
