"""The same data ops with proved waits and barriers: the fastest form, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeloom.drive.forms import Choice, Form, choose_form
from pipeloom.drive.sources import Named, Source, find_schedule
from pipeloom.drive.subjects import open_schedule
from pipeloom.judge.verify import Verdict
from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.compiler import Sync
from pipeloom.reference.ops import OpRole, Phase
from pipeloom.reference.verdict import verify
from pipeloom.reference.words import Labels


@dataclass(frozen=True, slots=True)
class FixJob:
    """What to fix. ``sync`` of the source names a form; without it the fastest is taken.

    What is PROVED stays as it is unless ``force``.
    """

    source: Source
    force: bool = False


@dataclass(frozen=True, slots=True)
class Fixed:
    """The schedule before and after, with both verdicts."""

    header: str
    before: CompiledSchedule
    after: CompiledSchedule
    verdict_before: Verdict
    verdict_after: Verdict
    choice: Choice
    notes: tuple[str, ...]

    @property
    def unchanged(self) -> bool:
        """Whether there was nothing to fix."""
        return self.after is self.before

    def changes(self) -> Iterator[str]:
        """The waits and barriers in front of each data op, where they differ, phase by phase."""
        labels = Labels(self.before)
        for phase in Phase:
            old = _gaps(self.before.phase(phase), labels)
            new = _gaps(self.after.phase(phase), labels)
            name = phase.name.lower()
            if [op for op, _ in old] != [op for op, _ in new]:
                yield f"{name}: ops moved, now {', '.join(op for op, _ in new)}"
                continue
            for (op, was), (_, now) in zip(old, new, strict=True):
                if was != now:
                    change = f"{' '.join(was) or 'nothing'} -> {' '.join(now) or 'nothing'}"
                    yield f"{name}, before {op}: {change}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "before": {p.name.lower(): asdict(self.before.counts(p)) for p in Phase},
            "after": {p.name.lower(): asdict(self.after.counts(p)) for p in Phase},
            "verdict_before": self.verdict_before.status.name,
            "verdict_after": self.verdict_after.status.name,
            "changes": list(self.changes()),
            "notes": self.after.notes,
            "unchanged": self.unchanged,
            "cost": self.choice.to_dict(),
        }


def fix(job: FixJob | Source | Named) -> Fixed:
    """Synchronise a schedule so that it is proved, in its fastest form."""
    job = job if isinstance(job, FixJob) else FixJob(Source.of(job))
    subject = open_schedule(job.source, find_schedule(job.source))
    sync: Sync | None = job.source.sync
    choice = choose_form(
        subject,
        keep_proved=True,
        derive=job.force,
        only=None if sync is None else (sync, job.source.reorder),
    )
    form: Form = choice.form
    after = choice.named.compiled if choice.unchanged else form.compiled
    return Fixed(
        header=subject.header(),
        before=choice.named.compiled,
        after=after,
        verdict_before=choice.verdict,
        verdict_after=choice.verdict if choice.unchanged else verify(after, subject.kernel(after)),
        choice=choice,
        notes=(*subject.notes(), *subject.arch_unused(), *choice.notes),
    )


def _gaps(entries: Sequence[ScheduleEntry], labels: Labels) -> list[tuple[str, list[str]]]:
    """Each data op with the waits and barriers since the one before it; the end closes the last."""
    gaps: list[tuple[str, list[str]]] = []
    pending: list[str] = []
    for entry in entries:
        if entry.op.role is OpRole.SYNC:
            pending.append(labels.of(entry.op))
        elif entry.op.role is not OpRole.FENCE:
            gaps.append((labels.of(entry.op), pending))
            pending = []
    return [*gaps, ("the end", pending)]
