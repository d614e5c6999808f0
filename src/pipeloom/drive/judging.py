"""A verdict on what is named, and the form that ``emit`` would write of it."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.drive.emitting import emitted_form
from pipeloom.drive.forms import Choice
from pipeloom.drive.sources import Named, Source, Subject, open_source
from pipeloom.judge.verify import Verdict
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.verdict import verify


@dataclass(frozen=True, slots=True)
class Judged:
    """A schedule as named, with its verdict. ``emitted`` is None where emit writes this one."""

    subject: Subject
    compiled: CompiledSchedule
    verdict: Verdict
    emitted: Choice | None


def judge(
    what: Source | Named,
    *,
    keep_interrupted: bool = False,
    counter_stall: bool | None = None,
) -> Judged:
    """Compile what is named, as it is named, and prove it or show how it races.

    ``counter_stall`` is that of ``judge.verify.verify``.
    """
    subject = open_source(what, keep_interrupted=keep_interrupted)
    compiled = subject.compiled()
    verdict = verify(compiled, subject.kernel(compiled), counter_stall=counter_stall)
    return Judged(subject, compiled, verdict, emitted_form(subject.source))


def emit_note(emitted: Choice | None) -> str:
    """``emit writes another form``: said wherever a schedule is shown that emit would not write."""
    if emitted is None:
        return ""
    return f"pipeloom emit writes its fastest proved form: {emitted.form.words}; {emitted.cost()}"
