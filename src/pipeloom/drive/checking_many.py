"""Check many kernels, each at the launch beside it: in parallel, resumable, in a fixed order.

    reports = check_many(jobs_of(["kernels/"]), workers=4)

``k.hsaco`` is launched as ``k.launch.json`` says. A judgement is kept in the store under the bytes
of both files, so that a run that was stopped goes on where it was; what a limit ended is not kept.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipeloom.checks import check_int
from pipeloom.drive.checking import CheckEffort, check_start
from pipeloom.drive.in_processes import in_processes
from pipeloom.drive.kernel_files import Start, open_kernel
from pipeloom.drive.store import Store, version
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.files import read_file
from pipeloom.machine_code.launch_file import load_launch
from pipeloom.reports.from_judges import of_check
from pipeloom.reports.kernel_report import KernelReport

ENDINGS = (".hsaco", ".co", ".o", ".s")
"""Files of a folder that hold a kernel."""
LAUNCH = ".launch.json"
VERDICT_ALONE = CheckEffort(look_for_needless=False)

Tell = Callable[[str, int, int], None]
"""Told what was judged last, how many that makes, and of how many."""


@dataclass(frozen=True, slots=True)
class CheckJob:
    """One kernel file, its launch, and what it may take."""

    file: str
    launch: str
    kernel: str | None = None
    effort: CheckEffort = VERDICT_ALONE

    def key(self) -> str:
        """Of what decides the judgement: kernel, launch with its files, options, this pipeloom."""
        found = hashlib.sha256(version().encode())
        launch = load_launch(self.launch)
        for path in (self.file, *launch.files()):
            found.update(hashlib.sha256(read_file(path)).digest())
        options = launch, self.file, self.kernel, self.effort.seeds, self.effort.max_instructions
        found.update(repr(options).encode())
        return f"report-{found.hexdigest()}"


def launch_beside(path: str) -> str:
    """``k.launch.json`` for ``k.hsaco``."""
    return str(Path(path).with_suffix("")) + LAUNCH


def kernel_files(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files named, and those of folders that have a launch beside them, in order of names."""
    found: list[str] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(str(path))
            continue
        inside = sorted(one for one in path.rglob("*") if one.suffix in ENDINGS and one.is_file())
        mine = [str(one) for one in inside if Path(launch_beside(str(one))).is_file()]
        if not mine:
            raise SpecError(
                f"{path} has no kernel with a launch beside it",
                hint=f"name it k{LAUNCH} beside k.hsaco; pipeloom scan needs no launch",
                field="file",
            )
        found += mine
    return found


def check_file(job: CheckJob, store: Store | None = None) -> KernelReport:
    """The judgement of one file; what keeps it from being judged is its reason."""
    try:
        key = job.key()
        known = None if store is None else store.load(key, KernelReport.from_dict)
        if known is not None:
            return known
        launch = load_launch(job.launch)
        file = open_kernel(job.file, job.kernel or launch.kernel or None)
        checked = check_start(file, Start.of(launch), job.effort)
    except OSError as error:
        return unjudged(job.file, f"cannot read {error.filename}: {error.strerror}")
    except ScheduleError as error:
        return unjudged(job.file, error.message)
    report = of_check(checked.verdict, job.file)
    if store is not None and not report.reason and not checked.verdict.notes:
        store.write(key, report.to_dict())
    return report


def unjudged(file: str, reason: str) -> KernelReport:
    """A file that could not be judged."""
    return KernelReport("check", file, "", "", "NOT JUDGED", f"NOT JUDGED: {reason}", (), reason)


def check_many(
    jobs: Sequence[CheckJob],
    *,
    workers: int = 1,
    store: Store | None = None,
    tell: Tell | None = None,
) -> tuple[KernelReport, ...]:
    """The judgements in the order of the jobs, whatever the number of workers."""
    check_int("check", "jobs", workers, 1)
    found: list[KernelReport] = []
    judged = (
        in_processes(partial(check_file, store=store), jobs, workers, _died)
        if workers > 1 and len(jobs) > 1
        else (check_file(job, store) for job in jobs)
    )
    for number, (job, report) in enumerate(zip(jobs, judged, strict=True), start=1):
        found.append(report)
        if tell is not None:
            tell(job.file, number, len(jobs))
    return tuple(found)


def _died(job: CheckJob) -> KernelReport:
    return unjudged(job.file, "the process that judged it has died")
