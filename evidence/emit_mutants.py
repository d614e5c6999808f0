"""Weakened kernels in the emulator: noticed or not.

A weakening that the verifier calls unsafe could be harmless in the bytes: the verifier takes any
slice of a load to overlap any read of the same region. Rows are dealt so that this never happens;
one that goes unnoticed is listed with the verifier's finding, for a person to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evidence.emit_cases import Subject
from evidence.weaken import weakenings
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.judge.emulate import Timing
from pipeloom.judge.verify import Status, proves, verify
from pipeloom.program import Program, Step, Work
from pipeloom.write import assemble
from pipeloom.write.isa import Instruction

TRIPS = (2, 0, 1)
TIMINGS = (Timing.LATE, Timing.RANDOM)
"""In turn, and every other two seeds with a last trip that is not whole."""


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

    among: int = 0
    """Weakenings that there are."""
    harmless: list[str] = field(default_factory=list)
    noticed: int = 0
    first_seed: int = 0
    missed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def unsafe(self) -> int:
        """Not proved any more."""
        return self.noticed + len(self.missed)


def weaken(subject: Subject, seeds: int, every: int = 1) -> Tally:
    """Weaken, emit, run; of so many weakenings one."""
    found = list(weakenings(subject.program()))
    tally = Tally(len(found))
    for weakened in found[::every]:
        verdict = verify(weakened.program)
        if verdict.status is Status.PROVED:
            tally.harmless.append(weakened.what)
            continue
        seed = first_noticed(subject, weakened.program, seeds)
        if seed is not None:
            tally.noticed += 1
            tally.first_seed += seed == 0
        elif proves(recounted(subject, weakened.program)):
            tally.missed.append((weakened.what, STRICTER))
        else:
            tally.missed.append((weakened.what, f"unexplained: {verdict.findings[0].describe()}"))
    return tally


STRICTER = (
    "the program counts a read of several instructions as one entry, the machine each; counted "
    "like that, the verifier proves it: another wait is strict enough"
)


def first_noticed(subject: Subject, program: Program, seeds: int) -> int | None:
    """The first seed whose run goes wrong."""
    emitted = subject.emit(program, wave_through)
    ready = Launchable.load(emitted, assemble(emitted))
    for seed in range(seeds):
        trial = run_program(
            emitted,
            ready,
            sizes=subject.sizes(emitted.launch, TRIPS[seed % len(TRIPS)], ragged=seed % 4 > 1),
            seed=seed,
            timing=TIMINGS[seed % len(TIMINGS)],
            scalars=subject.scalars,
        )
        if not trial.ok:
            return seed
    return None


def recounted(subject: Subject, program: Program) -> Program:
    """With as many entries of LDS reads as the kernel has instructions for them."""
    counts = Counter(
        (line.provenance.section, line.provenance.slot)
        for line in subject.emit(program, wave_through).lines
        if isinstance(line, Instruction)
        and line.provenance is not None
        and line.opcode.name.startswith("ds_read")
    )
    (group,) = program.groups

    def step_of(section: str, slot: int, step: Step) -> Step:
        count = counts[section, slot]
        return replace(step, entries=count) if isinstance(step, Work) and count else step

    sections = tuple(
        replace(
            section, steps=tuple(step_of(section.name, *each) for each in enumerate(section.steps))
        )
        for section in group.sections
    )
    return replace(program, groups=(replace(group, sections=sections),))
