"""One case seen by executor and verifier, and the table of many.

wrong         some execution gives a wrong or undefined number, or hangs
missed        wrong, and the verdict is PROVED
false alarm   not PROVED, and some finding cannot be made to happen
"""

from __future__ import annotations

import sys
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.random_programs.cases import Case
from benchmarks.random_programs.classify import Failure, Setting
from pipeloom.judge.execute import Executor, adversarial_orders, replay
from pipeloom.judge.verify import Finding, FindingKind, Status, verify
from pipeloom.program import NodeKind, Work

HEADS = ("cases", "wrong", "PROVED", "TIMING", "RACE", "findings", "missed", "false alarms")
BAR = 40
RACES = (FindingKind.RAW, FindingKind.WAR)


@dataclass(frozen=True)
class Judgement:
    """One case, seen by both."""

    case: Case
    failure: Failure | None
    status: Status
    findings: int
    failed: tuple[Any, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """Whether the verdict is PROVED."""
        return self.status is Status.PROVED

    @property
    def missed(self) -> bool:
        """Wrong, and PROVED all the same."""
        return self.failure is not None and self.proved

    @property
    def false_alarm(self) -> bool:
        """Not PROVED, and some finding has nothing to show for it."""
        return not self.proved and (bool(self.failed) or not self.findings)

    @property
    def row(self) -> dict[str, int]:
        """What it adds to each column."""
        return {
            "cases": 1,
            "wrong": int(self.failure is not None),
            **{status.name: int(self.status is status) for status in Status},
            "findings": self.findings,
            "missed": int(self.missed),
            "false alarms": int(self.false_alarm),
        }


def settings(executor: Executor) -> Iterator[Setting]:
    """Every order at trips 0 to 2, each with other inputs; then more trips, policies and seeds."""
    program = executor.program
    orders = adversarial_orders(program.waves)
    names = list(program.min_trips)
    for trips in range(3):
        for seed, order in enumerate(orders):
            yield Setting(dict.fromkeys(names, trips), "worst", order, seed % 3)
    if len(names) > 1:
        yield Setting({name: 2 * (name == names[0]) for name in names}, "worst", orders[0], 0)
        yield Setting({name: 2 * (name != names[0]) for name in names}, "worst", orders[-1], 1)
    yield Setting(dict.fromkeys(names, 3), "worst", orders[0], 0)
    for trips, policy in enumerate(("random", "random", "stale", "overrun", "late", "early")):
        yield Setting(dict.fromkeys(names, trips), policy, "random", 3 + trips % 2)


def first_failure(executor: Executor) -> Failure | None:
    """The first execution that is wrong."""
    for how in settings(executor):
        outcome = executor.run(trips=how.trips, policy=how.policy, order=how.order, seed=how.seed)
        if not outcome.correct:
            return Failure(how, outcome)
    return None


def judge(case: Case) -> Judgement:
    """Execute, verify, replay every finding."""
    executor = Executor(case.program)
    start = perf_counter()
    failure = first_failure(executor)
    executed = perf_counter()
    verdict = verify(case.program)
    verified = perf_counter()
    failed = []
    for finding in verdict.findings:
        if finding.status is not Status.PROVED and not shown(executor, finding):
            failed.append(finding)
    seconds = {
        "execute": executed - start,
        "verify": verified - executed,
        "replay": perf_counter() - verified,
    }
    return Judgement(case, failure, verdict.status, len(verdict.findings), tuple(failed), seconds)


def shown(executor: Executor, finding: Finding) -> bool:
    """Whether a finding can be made to happen; a race must be of its own two accesses."""
    outcome = replay(executor, finding, explain=False)
    if outcome.clean and finding.kind is FindingKind.REGISTER:  # a read that reaches no output
        outcome = replay(executor, finding, explain=True)
    if finding.kind in RACES and finding.first is not None:
        return outcome.meeting is not None and outcome.meeting.unordered and not outcome.clean
    return not outcome.clean


def table(
    judgements: Iterable[Judgement], kinds: Callable[[Judgement], Iterable[str]]
) -> list[tuple[str, ...]]:
    """One row per sort of case, the total last: its name, then the columns of ``HEADS``."""
    rows: dict[str, Tally[str]] = {}
    for judgement in judgements:
        for name in (*kinds(judgement), "total"):
            rows.setdefault(name, Tally()).update(judgement.row)
    names = sorted(rows, key=lambda name: (name == "total", name))
    return [(name, *(str(rows[name][head]) for head in HEADS)) for name in names]


def features(judgement: Judgement) -> Iterator[str]:
    """What a program has of what makes proofs hard."""
    program = judgement.case.program
    steps = [s for g in program.groups for _, _, s in g.steps() if isinstance(s, Work)]
    yield f"{len(program.groups)} group(s) of waves"
    if len(program.trips) > 1:
        yield "two loops"
    if program.plain.factors:
        yield "two loops, the first without masks"
    if any(step.when is not None for step in steps):
        yield "steps under a condition"
    if any(step.when is not None and step.counter is not None for step in steps):
        yield "loads under a condition"
    if any(node.kind is NodeKind.LEFT for node in program.meaning.nodes):
        yield "masks and selections by iteration"


def page(judgements: list[Judgement], seed: int, made: str, commit: str) -> str:
    """The ledger, as Markdown."""
    lines = [
        "# Random kernels",
        "",
        f"Written by `{made}` at commit {commit}: {len(judgements)} cases from seed {seed}, "
        "each a random declaration, lowered at random, synchronised more or less tightly and "
        "mostly broken by one slip. *wrong*: some execution gives a wrong or undefined number, or "
        "hangs. *missed*: wrong, and PROVED. *false alarm*: not PROVED, and some finding cannot be "
        "made to happen.",
    ]
    sorts: tuple[tuple[str, Callable[[Judgement], Iterable[str]]], ...] = (
        ("slip", lambda judgement: (judgement.case.kind,)),
        ("programs with", features),
    )
    for title, kinds in sorts:
        rows = [(title, *HEADS), ("---",) * (1 + len(HEADS)), *table(judgements, kinds)]
        lines += ["", *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join(lines) + "\n"


def describe(judgement: Judgement) -> str:
    """A disagreement, with what it takes to see it again."""
    case, failure = judgement.case, judgement.failure
    what = "MISSED" if judgement.missed else "FALSE ALARM"
    lines = [f"{what}: seed {case.seed}: {case.name}"]
    if judgement.missed and failure is not None:
        lines += [str(failure.how), failure.outcome.describe(3)]
    lines += [finding.describe() for finding in judgement.failed[:3]]
    return "\n    ".join(lines)


def progress(done: int, total: int, start: float) -> None:
    """A bar on standard error."""
    if sys.stderr.isatty() or done == total:
        full = BAR * done // max(1, total)
        seconds = perf_counter() - start
        print(
            f"\r[{'#' * full}{'.' * (BAR - full)}] {done}/{total} {seconds:.0f} s",
            end="\n" if done == total else "",
            file=sys.stderr,
        )


def run(some: Iterable[Case], total: int, workers: int = 1) -> list[Judgement]:
    """Judge the cases and print the table; the same whatever the number of workers."""
    if workers == 1:
        return _tabled(map(judge, some), total)
    with ProcessPoolExecutor(workers) as pool:
        return _tabled(pool.map(judge, some, chunksize=10), total)


def _tabled(found: Iterable[Judgement], total: int) -> list[Judgement]:
    start = perf_counter()
    judgements: list[Judgement] = []
    for judgement in found:
        judgements.append(judgement)
        if judgement.missed or judgement.false_alarm:
            print("\n" + describe(judgement))
        progress(len(judgements), total, start)
    for row in (("", *HEADS), *table(judgements, lambda judgement: (judgement.case.kind,))):
        print(f"{row[0]:20}" + "".join(f"{cell:>14}" for cell in row[1:]))
    for what in ("execute", "verify", "replay"):
        print(f"{what}: {sum(j.seconds[what] for j in judgements):.0f} s")
    print(f"{perf_counter() - start:.0f} s in all")
    return judgements
