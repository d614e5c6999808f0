"""Which tests reach a line, and how long each takes: from runs of the suite, or of parts of it."""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutation.mutants import PACKAGES, Mutant

RUNS = "reach-*.json"
"""The files of runs, in their order."""
NEIGHBOURS = 40
"""So many tests are tried for a line that runs when its module is imported."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of tests showed."""

    lines: dict[str, dict[int, tuple[int, ...]]]
    """For a file and a line: the tests that ran it, as places in ``tests``."""
    tests: tuple[str, ...]
    seconds: tuple[float, ...]
    """How long each test took."""
    sources: dict[str, str]
    """The files as they were, so that lines are found again after small edits."""

    def reaching(self, mutant: Mutant, source: str) -> set[str]:
        """Those that run the changed lines of ``source``, the file as it is now."""
        by_line = self.lines.get(mutant.path, {})
        at = _lines_before(self.sources.get(mutant.path, ""), source, mutant)
        return {self.tests[test] for line in at for test in by_line.get(line, ())}

    def around(self, mutant: Mutant) -> set[str]:
        """Those that run any line of the file."""
        by_line = self.lines.get(mutant.path, {})
        return {self.tests[test] for tests in by_line.values() for test in tests}


@dataclass(frozen=True, slots=True)
class Reach:
    """What all runs showed, the last one that ran a test says what it reaches."""

    runs: tuple[Run, ...]

    @property
    def seconds(self) -> dict[str, float]:
        """How long each test took."""
        return {t: s for run in self.runs for t, s in zip(run.tests, run.seconds, strict=True)}

    def tests_of(
        self, mutant: Mutant, source: str, there: frozenset[str], budget: float
    ) -> tuple[str, ...]:
        """Those that run the changed lines of ``source``, the file as it is now.

        Those that are ``there`` and stand where tests of the package do come first, those named
        after the module ahead; one case of every function, the fastest ahead, then second cases,
        and so on. ``budget`` seconds of them are returned, and of tests that came since the suite
        was measured those that stand where tests of the package do.
        """
        measured: set[str] = set()
        found: set[str] = set()
        around: set[str] = set()
        for run in reversed(self.runs):
            found |= run.reaching(mutant, source) - measured
            around |= run.around(mutant) - measured
            measured |= set(run.tests)
        mirror = "/".join(("tests/unit", *mutant.path.split("/")[:-1], ""))
        named = f"test_{mutant.path.rsplit('/', 1)[-1].removesuffix('.py')}.py"
        took = self.seconds
        order = _each_function_once((found or around) & there, mirror, named, took)
        if not found:
            order = order[:NEIGHBOURS]
        chosen: list[str] = []
        spent = 0.0
        for test in order:
            spent += took[test]
            if chosen and spent > budget:
                break
            chosen.append(test)
        since = sorted(
            (t for t in there - measured if t.startswith(mirror)), key=lambda t: (named not in t, t)
        )
        return (*chosen, *since[:NEIGHBOURS])


def _each_function_once(
    found: set[str], mirror: str, named: str, took: Mapping[str, float]
) -> list[str]:
    """By where they stand, how many cases of the same function come before, and time."""
    cases: Counter[str] = Counter()
    ranked = []
    for test in sorted(found, key=lambda t: (took[t], t)):
        function = test.split("[")[0]
        away = not test.startswith(mirror)
        ranked.append((away, cases[function], named not in test, took[test], test))
        cases[function] += 1
    return [test for *_, test in sorted(ranked)]


def _lines_before(old: str, new: str, mutant: Mutant) -> list[int]:
    """Where the mutant's lines stood in the file that was measured."""
    at = range(mutant.line, mutant.end_line + 1)
    if old == new:
        return list(at)
    matcher = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    moved = {
        block.b + i + 1: block.a + i + 1
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    }
    return [moved[line] for line in at if line in moved]


def measure(root: Path, work: Path, workers: int, tests: Sequence[str] = ()) -> None:
    """Run tests below ``root`` with coverage by test, into a file of its own in ``work``.

    All of them, unless some are named: tests that came or changed since the suite was measured.
    """
    work.mkdir(parents=True, exist_ok=True)
    if not tests:
        for old in work.glob(RUNS):
            old.unlink()
    into = work / RUNS.replace("*", f"{len(list(work.glob(RUNS))):03}")
    rules = work / "rules.ini"  # not coverage.*: those are deleted when a run begins
    files = "\n".join(
        f"    src/pipeloom/{part}{'' if part.endswith('.py') else '/*'}" for part in PACKAGES
    )
    rules.write_text(f"[run]\ninclude =\n{files}\ndata_file = {work / 'coverage'}\n", "utf-8")
    junit = work / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "worksteal"]
    command += ["-p", "no:cacheprovider", "--ignore", "tests/browser", "--cov"]
    command += [f"--cov-config={rules}", "--cov-context=test", "--cov-report="]
    subprocess.run([*command, f"--junitxml={junit}", *tests], cwd=root, check=False)
    digest(root, work / "coverage", junit, into)


def collected(root: Path) -> frozenset[str]:
    """The tests that there are now."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return frozenset(line for line in run.stdout.splitlines() if "::" in line)


def digest(root: Path, data: Path, junit: Path, into: Path) -> None:
    """Write what ``load`` reads, from coverage's database and pytest's times."""
    from coverage import CoverageData  # a development tool: only where it is asked for

    coverage = CoverageData(str(data))
    coverage.read()
    contexts: dict[str, dict[int, list[str]]] = {}
    package = root / "src" / "pipeloom"
    for file in coverage.measured_files():
        if Path(file).is_relative_to(package):
            name = Path(file).relative_to(package).as_posix()
            contexts[name] = coverage.contexts_by_lineno(file)
    took: dict[str, float] = {}
    for case in ET.parse(junit).iter("testcase"):
        if case.find("failure") is None and case.find("error") is None:
            place = reported_id(root, case.attrib["classname"], case.attrib["name"])
            took[place] = float(case.attrib["time"])
    tests: dict[str, int] = {}
    lines: dict[str, dict[int, list[int]]] = {}
    for name, by_line in sorted(contexts.items()):
        for line, ran in sorted(by_line.items()):
            ids = {test.split("|")[0] for test in ran if "::" in test}
            known = sorted(i for i in ids if i in took)
            lines.setdefault(name, {})[line] = [tests.setdefault(t, len(tests)) for t in known]
    if not tests:
        raise SystemExit(f"no test that passed ran a line of {', '.join(PACKAGES)}: see {junit}")
    record: dict[str, object] = {
        "lines": lines,
        "tests": list(tests),
        "seconds": [took[t] for t in tests],
    }
    record["sources"] = {name: (package / name).read_text("utf-8") for name in lines}
    into.write_text(json.dumps(record), "utf-8")


def reported_id(root: Path, classname: str, name: str) -> str:
    """What pytest calls the test that its report has as ``classname`` and ``name``."""
    parts = classname.split(".")
    files = (
        n
        for n in range(len(parts), 0, -1)
        if root.joinpath(*parts[:n]).with_suffix(".py").is_file()
    )
    file = next(files, len(parts))
    return "::".join(["/".join(parts[:file]) + ".py", *parts[file:], name])


def load(work: Path) -> Reach:
    """What ``measure`` wrote."""
    return Reach(tuple(_run(json.loads(f.read_text("utf-8"))) for f in sorted(work.glob(RUNS))))


def _run(raw: dict[str, Any]) -> Run:
    lines = {
        name: {int(line): tuple(tests) for line, tests in by_line.items()}
        for name, by_line in raw["lines"].items()
    }
    return Run(lines, tuple(raw["tests"]), tuple(raw["seconds"]), raw["sources"])
