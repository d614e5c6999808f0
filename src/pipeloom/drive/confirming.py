"""Confirm definite findings of a scan by emulation, where a launch is known.

    confirmed(scanned, file, "k.launch.json").findings[0].confirmed    # "128 numbers differ ..."

The kernel is judged at the launch (``check``), and runs are made in which a pair of instructions
meets. A finding is confirmed if such a run gives other numbers for one of its pairs. One that is
not confirmed is no less a finding: the launch may not come there, or its data may not show it.
"""

from __future__ import annotations

from dataclasses import replace

from pipeloom.drive.checking import CheckEffort, check_start
from pipeloom.drive.kernel_files import KernelFile, Start
from pipeloom.errors import ScheduleError
from pipeloom.judge.check.verdict import CheckFinding, CheckStatus
from pipeloom.judge.scan import KernelScan, ScanFinding
from pipeloom.machine_code.launch_file import load_launch

MOST_SHOWN = 8
"""Defects of a kernel, of either sort, for which runs are made."""


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
