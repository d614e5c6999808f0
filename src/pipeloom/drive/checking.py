"""Judge a kernel that others wrote: run it, judge the record, and show what goes wrong.

    checked = check("k.hsaco", grid=(1,), block=(256,), args=[a, b, c, 256, 256, 128])
    print(checked.verdict.summary())

A kernel is a code object, an object file or assembly. The run's result is not compared with any
other: what is judged is whether it depends on timing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.checks import check_int
from pipeloom.drive.kernel_files import Array, KernelFile, Start, open_kernel
from pipeloom.drive.limiting import OverrunError, limited
from pipeloom.drive.recorded_margins import SimulatedClock
from pipeloom.errors import SpecError
from pipeloom.judge.check.early import issued_early
from pipeloom.judge.check.judgement import coverage, judge_run
from pipeloom.judge.check.needless import loosen, needless
from pipeloom.judge.check.prepared import Prepared, study
from pipeloom.judge.check.record import Recorder
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.check.verdict import (
    CheckFinding,
    CheckKind,
    CheckStatus,
    CheckVerdict,
    Site,
    Witness,
    scope,
)
from pipeloom.judge.check.witness import witness
from pipeloom.judge.emulate import (
    CodeKernel,
    CodeObject,
    Directed,
    EmulateError,
    Timing,
    check_hazards,
)
from pipeloom.judge.emulate.arguments import Arguments
from pipeloom.judge.emulate.traps import StepLimitError
from pipeloom.judge.emulate.wave import POISON_WORD

SEEDS = 8
"""Runs that try to show a race, beside the directed ones."""
SHOWN = 3
"""For so many races, and missing wait states, runs are made; the rest is said to be untried."""
MOST_INSTRUCTIONS = 1_000_000
"""Per workgroup; a kernel that runs longer is taken not to end."""
LEFTOVERS = (0, 0x3F803F80)
"""What registers and LDS hold that nothing has written, other than all ones: 0, and 1.0 in bf16."""
_MAX_FINDINGS = 1000
_RACES = (CheckKind.RAW, CheckKind.WAR, CheckKind.WAW, CheckKind.REGISTER)


@dataclass(frozen=True, slots=True)
class CheckEffort:
    """What a check may take, as ``check`` was told."""

    seeds: int = SEEDS
    """Random runs that try to show a race."""
    max_instructions: int = MOST_INSTRUCTIONS
    """A workgroup that issues more is taken not to end."""
    look_for_needless: bool = True
    """Whether waits and barriers that are not needed are looked for."""
    shown: int = SHOWN
    """For so many races, and as many missing wait states, runs are made."""
    seconds: float | None = None
    """Processor time."""
    megabytes: int | None = None
    """Memory."""


USUAL_EFFORT = CheckEffort()


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A verdict, and what it was made from."""

    verdict: CheckVerdict
    """The judgement."""
    file: KernelFile
    """The kernel that was judged."""
    start: Start
    """The launch that it was judged at."""
    study: Prepared | None = None
    """The recorded run as ``correct`` needs it; None where the kernel was not judged."""
    loose: SyncPlan | None = None
    """The waits and barriers that suffice; None where nobody looked for needless ones."""
    complete: bool = False
    """Whether the kernel ran to its end."""
    effort: CheckEffort = USUAL_EFFORT
    """What the check might take, and its correction may."""

    def __repr__(self) -> str:
        return f"<Checked {self.verdict.kernel} ({self.verdict.arch}): {self.verdict.summary()}>"

    def _repr_html_(self) -> str:
        """For notebooks: the verdict."""
        return self.verdict._repr_html_()

    def witness(self) -> dict[str, Any]:
        """What the verdict rests on, for other checkers (``judge.check.witness``)."""
        if self.study is None:
            raise SpecError(
                f"{self.verdict.kernel} was not judged: {self.verdict.reason}",
                hint="there is nothing to witness",
            )
        return witness(self.study, self.verdict)


def check(
    source: str | os.PathLike[str] | bytes | CodeObject | CodeKernel | KernelFile,
    grid: Sequence[int],
    block: Sequence[int],
    args: Arguments,
    *,
    kernel: str | None = None,
    dynamic_lds: int = 0,
    seeds: int = SEEDS,
    max_instructions: int = MOST_INSTRUCTIONS,
    look_for_needless: bool = True,
    shown: int = SHOWN,
    seconds: float | None = None,
    megabytes: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Checked:
    """Judge one kernel at one launch: whether waits and barriers order every access.

    Arrays are copied: the caller's stay as they are.

    Args:
        source: A code object, object file or assembly by path, its bytes, or a kernel that was
            loaded.
        grid: Workgroups along x, y and z.
        block: Work-items of a workgroup along x, y and z.
        args: The explicit arguments in order, as for ``run_kernel``: arrays for pointers, numbers
            or bytes for values.
        kernel: The kernel's name, where the file holds several.
        dynamic_lds: Bytes of LDS that the launch adds to the kernel's own.
        seeds: Random runs that try to show a race, beside the directed ones.
        max_instructions: A workgroup that issues more is taken not to end: NOT JUDGED.
        look_for_needless: Whether to look for waits and barriers that are not needed.
        shown: For so many races, and as many missing wait states, runs are made that show them; 0
            makes none.
        seconds: Processor time that it may take, at most. A kernel that takes longer is NOT JUDGED,
            or, where the judgement itself was done, says what was left out.
        megabytes: Memory that it may take, at most, likewise.
        progress: Told in words what is going on.
    """
    file = source if isinstance(source, KernelFile) else open_kernel(source, kernel)
    start = Start(tuple(grid), tuple(block), args, dynamic_lds)
    effort = CheckEffort(seeds, max_instructions, look_for_needless, shown, seconds, megabytes)
    return check_start(file, start, effort, progress)


def check_start(
    file: KernelFile,
    start: Start,
    effort: CheckEffort = USUAL_EFFORT,
    progress: Callable[[str], None] | None = None,
) -> Checked:
    """``check`` of a kernel that is open, at a launch as a record."""
    check_int("check", "max_instructions", effort.max_instructions, 1)
    work = _Check(file, start, effort, progress or (lambda text: None))
    try:
        with limited(effort.seconds, effort.megabytes):
            checked = work.run(effort.look_for_needless, effort.shown)
    except OverrunError as over:
        checked = work.stopped(str(over))
    return replace(checked, effort=effort)


class _Check:
    def __init__(
        self, file: KernelFile, start: Start, effort: CheckEffort, tell: Callable[[str], None]
    ) -> None:
        self._file, self._start, self._seeds = file, start, effort.seeds
        self._lines = file.lines()
        self._limit, self._tell = effort.max_instructions, tell
        self._random: list[tuple[int, int]] | None = None
        self._doing = "emulating"
        self._so_far: Checked | None = None

    def stopped(self, reason: str) -> Checked:
        """What is known where a limit ended the work: the verdict, if it stands, or none."""
        if self._so_far is None:
            return self._not_judged(f"{self._doing} takes {reason}")
        verdict = self._so_far.verdict
        note = f"{self._doing} was left out: it takes {reason}"
        return replace(self._so_far, verdict=replace(verdict, notes=(*verdict.notes, note)))

    def _not_judged(self, reason: str) -> Checked:
        kernel = self._file.kernel
        return Checked(
            CheckVerdict(kernel.name, kernel.arch, CheckStatus.NOT_JUDGED, reason=reason),
            self._file,
            self._start,
        )

    def run(self, look_for_needless: bool, shown: int) -> Checked:
        kernel = self._file.kernel
        try:
            recorder = Recorder(
                kernel, lambda count: self._tell(f"emulating: {count:,} instructions")
            )
            result, outputs = self._start.run(
                kernel,
                timing=Timing.EARLY,
                max_findings=_MAX_FINDINGS,
                max_instructions=self._limit,
                observer=recorder,
            )
        except EmulateError as error:
            if error.field is not None:
                raise
            reason = error.message
            if isinstance(error, StepLimitError):
                reason += f" ({error.hint})"
            return self._not_judged(reason)
        stopped = result.stopped or ""
        self._limit = max(4 * result.executed, 100_000)
        self._doing = "judging"
        self._tell(f"judging {result.executed:,} instructions")
        found = study(recorder)
        clock = SimulatedClock(found.program, found.arch)
        verdict = judge_run(
            found, recorder, result.findings, self._lines, stopped=stopped, clock=clock
        )
        self._so_far = Checked(verdict, self._file, self._start, found, None, not stopped)
        if shown:
            self._doing = "showing the findings by runs"
            verdict = self._shown(verdict, outputs, found, shown)
            self._so_far = replace(self._so_far, verdict=verdict)
        loose = None
        if look_for_needless and not stopped:
            self._doing = "looking for waits that are not needed"
            self._tell(self._doing)
            loose = loosen(found)
            verdict = replace(
                verdict,
                needless=needless(found, loose, self._lines),
                needless_for=scope(coverage(found, loose), verdict.data),
            )
        return Checked(verdict, self._file, self._start, found, loose, not stopped)

    # --- runs that show it -----------------------------------------------------------------

    def _shown(
        self, verdict: CheckVerdict, wanted: list[Array], found: Prepared, most: int
    ) -> CheckVerdict:
        """Every finding with a run that gives another result, or with what was tried."""
        tried: Counter[CheckKind] = Counter()
        whole: dict[CheckKind, Witness] = {}
        findings = []
        for number, finding in enumerate(verdict.findings, start=1):
            self._tell(f"trying to show finding {number} of {len(verdict.findings)}")
            sort = CheckKind.RAW if finding.kind in _RACES else finding.kind
            if sort not in _SHOWABLE or (sort is CheckKind.RAW and finding.first is None):
                shown = Witness(1, seen=True)
            elif verdict.reason:
                shown = Witness(0, untried="the recorded run has no result to compare with")
            elif sort in _AT_ONCE:
                if sort not in whole:
                    whole[sort] = _AT_ONCE[sort](self, wanted)
                shown = whole[sort]
            elif tried[sort] == most:
                shown = Witness(0, untried=f"only the first {most} of its kind are")
            else:
                tried[sort] += 1
                early = sort is CheckKind.WAIT_STATES
                shown = (
                    self._early(finding, wanted, found) if early else self._witness(finding, wanted)
                )
            findings.append(replace(finding, witness=shown))
        return replace(verdict, findings=tuple(findings))

    def _other_order(self, wanted: list[Array]) -> Witness:
        """The workgroups one by one, the last of the grid first."""
        return Witness(1, self._differs(Timing.EARLY, 0, wanted, last_first=True), last_first=True)

    def _other_leftovers(self, wanted: list[Array]) -> Witness:
        """Other numbers where nothing has written any."""
        for tries, leftover in enumerate(LEFTOVERS, start=1):
            wrong = self._differs(Timing.EARLY, 0, wanted, leftover=leftover)
            if wrong:
                return Witness(tries, wrong, leftover=leftover)
        return Witness(len(LEFTOVERS))

    def _early(self, finding: CheckFinding, wanted: list[Array], found: Prepared) -> Witness:
        """A run in which the instruction that lacks wait states acts before the other."""
        kernel, pc = self._file.kernel, finding.second.pc
        hazards = (h for h in check_hazards(kernel) if h.pc == pc)
        moved = next((issued_early(kernel, found.program, hazard) for hazard in hazards), None)
        if moved is None:
            return Witness(0, untried="the two cannot change places")
        other, first = moved
        wrong = self._differs(Timing.EARLY, 0, wanted, other)
        return Witness(1, wrong, 0, early=(first, pc))

    def _witness(self, finding: CheckFinding, wanted: list[Array]) -> Witness:
        """A run that breaks the order of the finding's pair, or of another pair of the defect."""
        tries = 0
        assert finding.first is not None
        others = ((one.first, one.second) for one in finding.others[: SHOWN - 1])
        for timing in chain.from_iterable(
            _directed(*pair) for pair in ((finding.first, finding.second), *others)
        ):
            tries += 1
            wrong = self._differs(timing, 0, wanted)
            if wrong:
                held = tuple(sorted(timing.held))
                return Witness(tries, wrong, 0, held, timing.eager, timing.slow, timing.release)
        if self._random is None:
            self._random = [
                (seed, self._differs(Timing.RANDOM, seed, wanted))
                for seed in range(1, self._seeds + 1)
            ]
        for seed, wrong in self._random:
            tries += 1
            if wrong:
                return Witness(tries, wrong, seed)
        return Witness(tries)

    def _differs(
        self,
        timing: Timing | Directed,
        seed: int,
        wanted: list[Array],
        kernel: CodeKernel | None = None,
        *,
        last_first: bool = False,
        leftover: int = POISON_WORD,
    ) -> int:
        """How many numbers come out otherwise; all of them where the run breaks down."""
        try:
            result, outputs = self._start.run(
                self._file.kernel if kernel is None else kernel,
                timing=timing,
                seed=seed,
                max_findings=_MAX_FINDINGS,
                max_instructions=self._limit,
                last_first=last_first,
                leftover=leftover,
            )
        except EmulateError:
            return sum(one.size for one in wanted)
        atomics = any("atomic" in name for name in result.instructions)
        return sum(differing(a, b, atomics) for a, b in zip(outputs, wanted, strict=True))


_AT_ONCE = {
    CheckKind.WORKGROUPS: _Check._other_order,
    CheckKind.UNINITIALISED: _Check._other_leftovers,
}
"""One run, or a few, for all findings of a kind."""
_SHOWABLE = {CheckKind.RAW, CheckKind.WAIT_STATES, *_AT_ONCE}


def _directed(first: Site, second: Site) -> Iterator[Directed]:
    """Timings that set out to break the order of two accesses."""
    held = frozenset({first.pc})
    if first.wave == second.wave or first.wave is None or second.wave is None:
        yield Directed(held)
        yield Directed(held, release=second.pc)
        if second.wave is not None:
            yield Directed(held, (second.wave,), (), second.pc)
        return
    ahead, behind = (second.wave,), (first.wave,)
    yield Directed(held, ahead, behind)
    yield Directed(held, behind, ahead)
    yield Directed(held, behind, ahead, second.pc)
    yield Directed(held | {second.pc}, ahead, behind)


def differing(got: Array, wanted: Array, rounding: bool) -> int:
    """Elements that differ; with atomics on floats the order of additions may round otherwise."""
    if got.tobytes() == wanted.tobytes():
        return 0
    if rounding and got.dtype.kind == "f":
        close: npt.NDArray[np.bool_] = np.isclose(got, wanted, 1e-3, 1e-3, equal_nan=True)
        return int((~close).sum())
    size = got.dtype.itemsize
    a, b = (np.frombuffer(x.tobytes(), np.uint8).reshape(-1, size) for x in (got, wanted))
    return int((a != b).any(axis=1).sum())
