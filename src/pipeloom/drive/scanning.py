"""Scan the kernels of many files: one judgement each, in the order of the files.

    report = scan(["build/", "libkernels.a"], jobs=2)
    report.exit_code, [one.kernel for one in report.kernels]

Where a launch is known, runs of the emulator confirm definite findings. A kernel
that cannot be judged says why. Limits are per kernel: what is counted (``MOST_WORK``) ends at the
same place on every machine, seconds of a core and memory where they are set.

Confirm definite findings of a scan by emulation, where a launch is known.

    confirmed(scanned, file, "k.launch.json").findings[0].confirmed    # "128 numbers differ ..."

The kernel is judged at the launch (``check``), and runs are made in which a pair of instructions
meets. A finding is confirmed if such a run gives other numbers for one of its pairs. One that is
not confirmed is no less a finding: the launch may not come there, or its data may not show it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipeloom.checks import check_int
from pipeloom.drive.checking import CheckEffort, check_start
from pipeloom.drive.checking_many import launch_beside
from pipeloom.drive.code_objects import FoundCode, code_objects, files_of
from pipeloom.drive.in_processes import in_processes
from pipeloom.drive.kernel_files import KernelFile, Start, assembled
from pipeloom.drive.limiting import OverrunError, limited
from pipeloom.errors import ScheduleError
from pipeloom.judge.check.verdict import CheckFinding, CheckStatus
from pipeloom.judge.emulate import EmulateError, load_code_object
from pipeloom.judge.scan import KernelScan, ScanFinding, scan_kernel
from pipeloom.machine_code.launch_file import load_launch
from pipeloom.write.assemble import link_object

MOST_SHOWN = 8
"""Defects of a kernel, of either sort, for which runs are made."""


SECONDS = 60
"""Of one core, for one kernel."""
MEGABYTES = 1000
"""That a kernel may take beyond what the process has."""

Progress = Callable[[str, int, int], None]
"""Told what was scanned last, how many files that makes, and of how many."""


@dataclass(frozen=True, slots=True)
class ScanReport:
    """All kernels that were found, in the order of the files."""

    kernels: tuple[KernelScan, ...]
    """What was found in each; a file without a kernel that can be read has one without a name."""

    @property
    def exit_code(self) -> int:
        """4 with a definite defect, 3 with a possible one, 6 where a kernel was not judged."""
        if any(one.defects(definite=True) for one in self.kernels):
            return 4
        if any(one.defects(definite=False) for one in self.kernels):
            return 3
        return 6 if any(one.reason for one in self.kernels) else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kernels": [one.to_dict() for one in self.kernels]}


def scan(
    paths: Sequence[str | os.PathLike[str]],
    *,
    launch: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    seconds: int = SECONDS,
    megabytes: int = MEGABYTES,
    progress: Progress | None = None,
) -> ScanReport:
    """Scan every kernel of some files and folders; no launch is needed.

    Args:
        paths: Code objects, object files, assembly, bundles, archives, host programs, folders.
        launch: A launch file for kernels of its name, to confirm definite findings by emulation;
            ``k.launch.json`` beside ``k.hsaco`` is taken where none is given.
        jobs: Processes. The report is the same whatever their number.
        seconds: Of one core, for one kernel; more is NOT JUDGED.
        megabytes: Memory of one kernel; more is NOT JUDGED.
        progress: Told what was scanned last.
    """
    check_int("scan", "jobs", jobs, 1)
    check_int("scan", "seconds", seconds, 1)
    check_int("scan", "megabytes", megabytes, 1)
    files = files_of(tuple(os.fspath(path) for path in paths))
    given = None if launch is None else os.fspath(launch)
    if given is not None:
        load_launch(given)
    judge = partial(scan_file, seconds=seconds, megabytes=megabytes, launch=given)
    tell = progress or (lambda text, done, total: None)
    found: list[KernelScan] = []
    scanned = in_processes(judge, files, jobs, _died) if jobs > 1 else map(judge, files)
    for number, (path, kernels) in enumerate(zip(files, scanned, strict=True), start=1):
        found += kernels
        tell(path, number, len(files))
    return ScanReport(tuple(found))


def _died(path: str) -> list[KernelScan]:
    return [KernelScan(path, "", "", reason="the process that scanned it has died")]


def scan_file(
    path: str, seconds: int = SECONDS, megabytes: int = MEGABYTES, launch: str | None = None
) -> list[KernelScan]:
    """All kernels of one file, by name."""
    known = launch or launch_beside(path)
    found: list[KernelScan] = []
    for code in code_objects(path):
        found += _scan_code(code, seconds, megabytes, known if os.path.isfile(known) else None)
    return found


def _scan_code(
    code: FoundCode, seconds: int, megabytes: int, launch: str | None
) -> list[KernelScan]:
    if code.fault:
        return [KernelScan(code.name, "", "", reason=code.fault)]
    try:
        text, data = "", code.data
        if code.is_assembly:
            text, data = assembled(data.decode("utf-8", "replace"), code.name)
        elif data[16:18] == b"\x01\x00":
            data = link_object(data)
        loaded = load_code_object(data)
    except ScheduleError as error:
        return [KernelScan(code.name, "", "", reason=error.message)]
    found = []
    for name in sorted(loaded.kernels):
        kernel = loaded.kernels[name]
        try:
            with limited(seconds, megabytes):
                file = KernelFile(kernel, data, code.name, text)
                scanned = scan_kernel(kernel, code.name, file.lines())
            if launch is not None:
                scanned = confirmed(scanned, file, launch, seconds=seconds, megabytes=megabytes)
            found.append(scanned)
        except OverrunError as error:
            reason = f"it takes {error} (--seconds, --megabytes)"
            found.append(KernelScan(code.name, name, kernel.arch, reason=reason))
        except EmulateError as error:
            found.append(KernelScan(code.name, name, kernel.arch, reason=error.message))
    return found


def confirmed(
    scanned: KernelScan,
    file: KernelFile,
    launch: str,
    *,
    seconds: float | None = None,
    megabytes: int | None = None,
) -> KernelScan:
    """The same scan, its definite findings with what runs of this launch show of them.

    A launch that cannot be run confirms nothing; the scan says so among what is not known.

    Args:
        scanned: What the scan found.
        file: The kernel that was scanned.
        launch: The path of a launch file; one for another kernel is left alone.
        seconds: Processor time that it may take, at most.
        megabytes: Memory that it may take, at most.
    """
    if not scanned.defects(definite=True):
        return scanned
    try:
        known = load_launch(launch)
        if known.kernel not in ("", scanned.kernel):
            return scanned
        effort = CheckEffort(
            look_for_needless=False, shown=MOST_SHOWN, seconds=seconds, megabytes=megabytes
        )
        verdict = check_start(file, Start.of(known), effort).verdict
    except ScheduleError as error:
        return _unconfirmed(scanned, launch, error.message)
    if verdict.status is CheckStatus.NOT_JUDGED:
        return _unconfirmed(scanned, launch, verdict.reason)
    findings = tuple(_with(one, verdict.findings) for one in scanned.findings)
    return replace(scanned, findings=findings)


def _unconfirmed(scanned: KernelScan, launch: str, reason: str) -> KernelScan:
    what = f"what the launch {launch} would show: {reason}"
    return replace(scanned, not_known=(*scanned.not_known, (what, 1)))


def _with(finding: ScanFinding, seen: tuple[CheckFinding, ...]) -> ScanFinding:
    if not (finding.definite and finding.kind.is_defect):
        return finding
    mine = {finding.second.pc, *(one.pc for one in finding.others)}
    if finding.first is not None:
        mine.add(finding.first.pc)
    for one in seen:
        shown = one.witness is not None and (one.witness.wrong or one.witness.seen)
        if shown and any(pair <= mine for pair in _pairs(one)):
            return replace(finding, confirmed=str(one.witness))
    return finding


def _pairs(finding: CheckFinding) -> list[set[int]]:
    """The instructions of every pair of a defect, by pc."""
    if finding.first is None:
        return [{finding.second.pc}]
    sites = [(finding.first, finding.second), *((p.first, p.second) for p in finding.others)]
    return [{first.pc, second.pc} for first, second in sites]
