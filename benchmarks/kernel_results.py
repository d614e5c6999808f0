"""What deriving, judging, simulating and emitting give of one program, as data that can be kept.

What people read stands in words: the verdict with its findings and margins, cycles, what provenance
says, how many steps and instructions there are. The rest is hashes: of the steps (the program's
JSON without the chip's facts and provenance), of the simulated run event by event, and of the
emitted text.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from pipeloom.declare.loop import Loop
from pipeloom.drive.any_size import emit_any_size
from pipeloom.drive.margins import lay_margins
from pipeloom.drive.pipeline import pipeline
from pipeloom.judge.simulate import Trace
from pipeloom.judge.simulate.issued import simulate, usual_iterations
from pipeloom.judge.verify import Verdict, verify
from pipeloom.program import Program
from pipeloom.show.step_rows import role_of

Make = Callable[[], Program]
"""Makes a program, anew each time."""


def derived(loop: Loop, waves: int | None, arch: str = "gfx950", **how: Any) -> Make:
    """A declared loop, by the search, or as ``how`` says."""
    return lambda: pipeline(loop, arch, waves, **how)


def results(program: Program) -> dict[str, Any]:
    """Everything that is kept of a program; what is not proved is not emitted."""
    verdict = lay_margins(program, verify(program))
    trace = usual_run(program)
    found: dict[str, Any] = {
        "chip": program.target.arch,
        "verdict": judged(verdict),
        "provenance": provenance(program),
        "steps": steps(program),
        "cycles": {
            "iteration": round(trace.steady_cycles_per_iteration, 3),
            "run": trace.total_cycles,
            "limit": trace.limiting_unit(),
        },
    }
    hashes = {"program": digest(bare(program)), "run": digest(run_text(trace))}
    if verdict.proved:
        kernel = emit_any_size(program)
        used = kernel.resources
        found["emitted"] = {
            "instructions": len(kernel.line_map),
            "registers": f"{used.vgprs} vector, {used.agprs} accumulation, {used.sgprs} scalar",
            "lds": used.lds_bytes,
        }
        hashes["emitted"] = digest(kernel.text)
    return found | {"hashes": hashes}


def usual_run(program: Program) -> Trace:
    """It is simulated for as many iterations as commands do."""
    return simulate(program, iterations=usual_iterations(program))


def run_text(trace: Trace) -> str:
    """Every event, mark and cycle of a run."""
    events = "".join(f"{tuple(map(int, event))}\n" for event in trace.events)
    return f"{events}{trace.marks}{trace.total_cycles}"


def judged(verdict: Verdict) -> list[str]:
    """The verdict, what it covers, and one finding of each defect."""
    said = [verdict.summary()]
    for same in verdict.defects():
        said += same[0].describe().splitlines()
    return said


def provenance(program: Program) -> list[str]:
    """How it came about, in words."""
    how = program.provenance
    by = how.ordered
    said = [f"{how.source}; sync {how.synchronised.value}, {how.barriers_added} barriers added"]
    if by is not None:
        said.append(
            f"{by.strategy}: {by.cycles} cycles, at least {by.bound}, {by.stages} stages"
            + (", proved" if by.proved else "")
        )
    said += [f"{move.label} moved by {move.by}" for move in how.moved]
    return [*said, *how.notes]


def steps(program: Program) -> list[str]:
    """How many steps of each kind every section has."""
    said = []
    for group in program.groups:
        for section in group.sections:
            counts = Counter(role_of(program, step) for step in section.steps)
            listed = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
            said.append(f"{len(group.waves)} waves, {section.name}: {listed or 'nothing'}")
    return said


def bare(program: Program) -> str:
    """The program's JSON without what its chip is and how it came about."""
    plain = program.to_dict()
    return json.dumps({k: v for k, v in plain.items() if k not in ("target", "provenance")})


def digest(text: str) -> str:
    """Enough of a hash to tell apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
