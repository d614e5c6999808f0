"""A verdict on what is named, and the form that ``emit`` would write of it."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.drive.emitting import emitted_form
from pipeloom.drive.forms import Choice
from pipeloom.drive.margins import verdict_of
from pipeloom.drive.opening import Opened, open_source
from pipeloom.drive.sources import Named, Source
from pipeloom.judge.verify import Verdict
from pipeloom.program import Program


@dataclass(frozen=True, slots=True)
class Judged:
    """A program as named, with its verdict. ``emitted`` is None where emit writes this one."""

    opened: Opened
    program: Program
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
    opened = open_source(what, keep_interrupted=keep_interrupted)
    program = opened.program()
    verdict = verdict_of(program, counter_stall=counter_stall, ops=opened.ops)
    return Judged(opened, program, verdict, emitted_form(opened.source))


def emit_note(emitted: Choice | None) -> str:
    """``emit writes another form``: said wherever a schedule is shown that emit would not write."""
    if emitted is None:
        return ""
    return f"pipeloom emit writes its fastest proved form: {emitted.form.words}; {emitted.cost()}"
