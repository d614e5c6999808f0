"""Weakened kernels in the emulator: noticed or not, and if not, why not.

A weakening that the verifier calls unsafe may still be harmless in the bytes: the verifier takes
any slice of a load to overlap any read of the same region, the kernel's layout knows better.
``explain`` decides that by watching LDS: for each hazard of the verdict and each pair of waves that
it may happen between, do the two entries ever touch the same bytes?
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from benchmarks.emit_cases import Case

from pipeloom.drive.trial import Launchable, run_gemm
from pipeloom.judge.emulate.lds import LocalMemory
from pipeloom.judge.verify.schedules import Status, verify
from pipeloom.judge.verify.schedules.findings import FindingKind, Place
from pipeloom.judge.verify.schedules.obligations import Hazard, check_run
from pipeloom.judge.verify.schedules.run import build_run
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel, kernel_for
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
        if verify(weakened.compiled).status is Status.PROVED:
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
            tally.missed.append((weakened.what, explain(case, weakened.compiled, ready)))
    return tally


def _run(case: Case, ready: Launchable, seed: int) -> bool:
    emitted = ready.emitted
    depth = emitted.k_min + TRIPS[seed % len(TRIPS)] * emitted.k_step
    bm, bn, *_ = case.shape
    return run_gemm(emitted, ready, M=bm, N=bn, K=depth, seed=seed).ok


Footprints = dict[tuple[int, str], set[int]]
"""(wave, entry) -> the granules of LDS that it touches."""


def explain(case: Case, compiled: CompiledSchedule, ready: Launchable) -> str:
    """Why the emulator is right to see nothing, or that we do not know."""
    touched = footprints(case, ready)
    kernel = kernel_for(compiled)
    pairs: dict[tuple[str, str, str], int] = defaultdict(int)
    for trips in sorted(TRIPS):
        for hazard in check_run(build_run(kernel, compiled, kernel.min_trips + trips)).hazards:
            if hazard.kind not in (FindingKind.RAW, FindingKind.WAR) or hazard.is_output:
                return f"unexplained: a {hazard.kind.value} hazard in {hazard.where}"
            assert hazard.first is not None
            for first, second in _wave_pairs(hazard):
                one = Place.of(hazard.first.step, first)
                two = Place.of(hazard.second.step, second)
                mine, other = touched[first, one.entry], touched[second, two.entry]
                if not mine or not other:
                    return f"unexplained: {one} and {two} were not seen to touch LDS"
                if mine & other:
                    return f"unexplained: {one} and {two} share {len(mine & other)} dwords"
                pairs[one.entry, two.entry, hazard.where] += 1
    if not pairs:
        return f"unexplained: no hazard at trip counts {sorted(TRIPS)}"
    told = "; ".join(
        f"{one} and {two} in {where} ({count} pairs of waves and iterations)"
        for (one, two, where), count in pairs.items()
    )
    return f"no byte in common: {told}"


def _wave_pairs(hazard: Hazard) -> Iterator[tuple[int, int]]:
    for first in hazard.first_in.waves:
        for second in hazard.second_in.waves:
            if (first == second) == hazard.same_wave:
                yield first, second


def footprints(case: Case, ready: Launchable) -> Footprints:
    """What each entry of each wave touches, watched over the trip counts that are run."""
    touched: Footprints = defaultdict(set)
    read, write = LocalMemory.record_read, LocalMemory.record_write

    def note(lds: LocalMemory, number: int, granules: Any) -> None:
        access = lds.accesses[number]
        assert access is not None
        entry = ready.line_map[access.instruction.pc].entry
        place = re.match(r"\w+\[\d+\]", entry or "")
        if place is not None:
            touched[access.wave, place.group()].update(granules.ravel().tolist())

    def watched_read(lds: LocalMemory, number: int, barriers: int, granules: Any) -> Any:
        note(lds, number, granules)
        return read(lds, number, barriers, granules)

    def watched_write(
        lds: LocalMemory, number: int, barriers: int, granules: Any, values: Any = None
    ) -> int:
        note(lds, number, granules)
        return write(lds, number, barriers, granules, values)

    with (
        patch.object(LocalMemory, "record_read", watched_read),
        patch.object(LocalMemory, "record_write", watched_write),
    ):
        for seed in range(len(TRIPS)):
            _run(case, ready, seed)
    return touched
