"""Weakened kernels in the emulator: noticed or not.

A weakening that the verifier calls unsafe could be harmless in the bytes: the verifier takes any
slice of a load to overlap any read of the same region. Rows are dealt so that this never happens;
one that goes unnoticed is listed with the verifier's finding, for a person to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evidence.emit_cases import Case
from pipeloom.drive.trial import Launchable, run_gemm
from pipeloom.judge.verify import Status
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.verdict import verify
from pipeloom.reference.weaken import weakenings
from pipeloom.write import assemble

TRIPS = (2, 0, 1)


@dataclass
class Waved:
    """A verdict that lets anything through."""

    status: Status = Status.PROVED
    findings: Sequence[object] = ()


def wave_through(compiled: CompiledSchedule, kernel: Kernel) -> Waved:
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
        verdict = verify(weakened.compiled)
        if verdict.status is Status.PROVED:
            tally.harmless.append(weakened.what)
            continue
        emitted = case.emit(weakened.compiled, wave_through)  # type: ignore[arg-type]
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
    depth = emitted.k_min + TRIPS[seed % len(TRIPS)] * emitted.k_step
    bm, bn, *_ = case.shape
    return run_gemm(emitted, ready, M=bm, N=bn, K=depth, seed=seed).ok
