"""The same data ops with proved waits and barriers: the fastest form, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeloom.drive.forms import Choice, choose_form
from pipeloom.drive.opening import open_source
from pipeloom.drive.sources import Named, Source
from pipeloom.judge.verify import Verdict, verify
from pipeloom.program import Barrier, Program, Wait, Work
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import OpRole, OpTag, Phase
from pipeloom.reference.words import Labels
from pipeloom.show.step_rows import label_of, waves_text

Fixable = CompiledSchedule | Program
Steps = list[tuple[str, str]]
"""The kind of each (``wait``, ``barrier``, ``op``), and its label."""
TAGS: Mapping[int, str] = {OpTag.WAIT_VM: "wait", OpTag.WAIT_LGKM: "wait", OpTag.BARRIER: "barrier"}
KINDS: Mapping[type, str] = {Wait: "wait", Barrier: "barrier", Work: "op"}


@dataclass(frozen=True, slots=True)
class FixJob:
    """What to fix, and whether to touch what is proved."""

    source: Source
    """The schedule, program or loop. Its ``sync`` names a form; without it the fastest is taken."""
    force: bool = False
    """Whether what is PROVED is synchronised anew, too."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Schedule or program before and after, with both verdicts."""

    header: str
    """What was fixed, in words."""
    tile: str
    """The tile type it was simulated with."""
    before: Fixable
    """The schedule or program as given."""
    after: Fixable
    """The proved one; the same object where nothing changed."""
    verdict_before: Verdict
    """The verdict on ``before``."""
    verdict_after: Verdict
    """The verdict on ``after``: PROVED."""
    choice: Choice
    """Which form was taken, and what it costs in cycles."""
    notes: tuple[str, ...]
    """What else is worth knowing."""

    def __repr__(self) -> str:
        before, after = self.verdict_before.status.name, self.verdict_after.status.name
        return f"<Fixed {self.header}: {before} -> {after}, {self.choice.form.words}>"

    @property
    def unchanged(self) -> bool:
        """Whether there was nothing to fix."""
        return self.after is self.before

    def changes(self) -> Iterator[str]:
        """The waits and barriers in front of each data op, where they differ, phase by phase."""
        for name, before, after in self._listed():
            old, new = _gaps(before), _gaps(after)
            if [op for op, _ in old] != [op for op, _ in new]:
                yield f"{name}: ops moved; the note on the order names each"
                continue
            for (op, was), (_, now) in zip(old, new, strict=True):
                if was != now:
                    change = f"{' '.join(was) or 'nothing'} -> {' '.join(now) or 'nothing'}"
                    yield f"{name}, before {op}: {change}"

    def counts(self) -> Iterator[tuple[str, str, str]]:
        """Phase or section; its waits before and after, as text; its barriers likewise."""
        for name, before, after in self._listed():
            waits, barriers = (
                f"{kind}s {_count(before, kind)} -> {_count(after, kind)}"
                for kind in ("wait", "barrier")
            )
            yield name, waits, barriers

    def _listed(self) -> Iterator[tuple[str, Steps, Steps]]:
        before, after = _listed(self.before), _listed(self.after)
        for name in {**before, **after}:
            yield name, before.get(name, []), after.get(name, [])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "before": _counted(self.before),
            "after": _counted(self.after),
            "verdict_before": self.verdict_before.status.name,
            "verdict_after": self.verdict_after.status.name,
            "changes": list(self.changes()),
            "notes": notes_of(self.after),
            "unchanged": self.unchanged,
            "cost": self.choice.to_dict(),
            "tile": self.tile,
        }


def fix(job: FixJob | Source | Named) -> Fixed:
    """Synchronise a schedule, program or loop so that it is proved, in its fastest form.

    Raises ``OrderError`` with the finding where no wait, barrier or move repairs it.

    Args:
        job: What to fix, or a ``FixJob`` that says more.
    """
    job = job if isinstance(job, FixJob) else FixJob(Source.of(job))
    opened = open_source(job.source)
    choice = choose_form(
        opened,
        keep_proved=True,
        derive=job.force,
        only=None if job.source.sync is None else (job.source.sync, job.source.reorder),
    )
    before, form = opened.written("reference"), choice.form
    verdict, notes = choice.verdict, (*opened.arch_unused(), *choice.notes)
    if choice.unchanged:
        notes = (*opened.notes(), *notes)
    else:
        verdict = verify(opened.program(form.sync, form.reorder), ops=opened.ops)
    return Fixed(
        header=opened.header(),
        tile=opened.tile_text(),
        before=before,
        after=before if choice.unchanged else opened.written(form.sync, form.reorder),
        verdict_before=choice.verdict,
        verdict_after=verdict,
        choice=choice,
        notes=notes,
    )


def notes_of(made: Fixable) -> tuple[str, ...]:
    """What is said of how it came about."""
    return made.provenance.notes if isinstance(made, Program) else made.notes


def _counted(made: Fixable) -> dict[str, dict[str, int]]:
    if isinstance(made, CompiledSchedule):
        return {p.name.lower(): asdict(made.counts(p)) for p in Phase}
    return {
        name: {f"{kind}s": _count(steps, kind) for kind in KINDS.values()}
        for name, steps in _listed(made).items()
    }


def _count(steps: Steps, kind: str) -> int:
    return sum(found == kind for found, _ in steps)


def _listed(made: Fixable) -> dict[str, Steps]:
    """By phase or section, all but fences and priorities, which synchronising leaves alone."""
    if isinstance(made, CompiledSchedule):
        labels = Labels(made)
        return {
            phase.name.lower(): [
                (TAGS.get(entry.op.tag, "op"), labels.of(entry.op, offset=False))
                for entry in made.phase(phase)
                if entry.op.role is not OpRole.FENCE
            ]
            for phase in Phase
        }
    return {
        f"{waves_text(group.waves)}, {section.name}" if made.groups[1:] else section.name: [
            (KINDS[type(step)], label_of(step)) for step in section.steps if type(step) in KINDS
        ]
        for group in made.groups
        for section in group.sections
    }


def _gaps(steps: Steps) -> list[tuple[str, list[str]]]:
    """Each data op with the waits and barriers since the one before it; the end closes the last."""
    gaps: list[tuple[str, list[str]]] = []
    pending: list[str] = []
    for kind, label in (*steps, ("op", "the end")):
        if kind == "op":
            gaps.append((label, pending))
            pending = []
        else:
            pending.append(label)
    return gaps
