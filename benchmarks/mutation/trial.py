"""Mutants against tests, in one process per worker that has all of them imported and is forked.

A mutant that acts when modules are imported is tried in a process of its own, and one that cannot
stand beside the original in a tree of its own, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from benchmarks.mutation.inside import ASKED
from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.switched import VARIABLE

NOT_MEASURED = "tests/browser"
"""Tests that fail without a browser."""


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNREACHED = "unreached"
    """No test comes by its place."""
    FAULTY = "not tried"
    """The runner could not try it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A mutant and the tests it is tried with."""

    number: int
    mutant: Mutant
    tests: Mapping[str, float]
    """With how long each takes on the unchanged source."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where mutants are tried: the trees, and which of them need more than a fork."""

    tree: Path
    """With all mutants asleep."""
    source: Path
    """The package as it is, below ``src``."""
    left: Collection[int]
    """Numbers of those that are not in the tree."""
    imported: Collection[str]
    """Keys of those that act when modules are imported."""

    def measure(self, keys: Mapping[int, str], tests: Sequence[str], into: Path) -> None:
        """Run tests, all unless some are named, and write what they come by into a file."""
        into.write_text(json.dumps({"keys": keys}) + "\n", "utf-8")
        ask = {"cases": [], "into": str(into)}
        run = _pytest(self.tree, ask, [*(tests or ["tests"]), f"--ignore={NOT_MEASURED}"])
        if run.wait() not in (0, 1):
            raise SystemExit(f"the tests could not be run: see {self.tree / 'build'}")

    def trials(self, cases: Sequence[Case], workers: int) -> Iterator[tuple[Case, Fate, str]]:
        """Each case, its fate and the test that failed, as they end."""
        forked = []
        for case in cases:
            if not case.tests:
                yield case, Fate.UNREACHED, ""
            elif case.number in self.left:
                yield from self._tried([[case]], self._changed(case.mutant))
            elif case.mutant.key in self.imported:
                yield from self._tried([[case]], self.tree, awake=case.number)
            else:
                forked.append(case)
        shares = [forked[n::workers] for n in range(workers)]
        yield from self._tried([share for share in shares if share], self.tree)

    def _changed(self, mutant: Mutant) -> Path:
        """A tree in which a mutant stands in the place of the original."""
        tree = self.tree.with_name("changed")
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(self.tree, tree, ignore=shutil.ignore_patterns("build"))
        (tree / "build").mkdir()
        file = Path("src") / "pipeloom" / mutant.path
        (tree / file).write_bytes(mutant.applied((self.source / file).read_bytes()))
        return tree

    def _tried(
        self, shares: Sequence[Sequence[Case]], tree: Path, awake: int | None = None
    ) -> Iterator[tuple[Case, Fate, str]]:
        running = []
        for worker, share in enumerate(shares):
            into = tree / "build" / f"fates{worker}.jsonl"
            into.unlink(missing_ok=True)
            asked = [{"number": c.number, "tests": dict(c.tests)} for c in share]
            files = sorted({test.partition("::")[0] for c in share for test in c.tests})
            ask = {"cases": asked, "into": str(into)}
            running.append((_pytest(tree, ask, files, awake, worker), into, list(share)))
        while running:
            time.sleep(0.2)
            for entry in list(running):
                process, into, waiting = entry
                ended = process.poll() is not None
                for case, fate, test in _new(into, waiting):
                    waiting.remove(case)
                    yield case, fate, test
                if not ended:
                    continue
                running.remove(entry)
                for case in waiting:
                    # Tests that cannot be imported have noticed it, where there is but one mutant.
                    alone = awake is not None or tree != self.tree
                    yield case, Fate.KILLED if alone else Fate.FAULTY, ""


def _new(into: Path, waiting: Iterable[Case]) -> list[tuple[Case, Fate, str]]:
    if not into.exists():
        return []
    cases = {case.number: case for case in waiting}
    rows = [json.loads(line) for line in into.read_text("utf-8").splitlines()]
    return [
        (cases[row["number"]], Fate(row["fate"]), row["test"])
        for row in rows
        if row["number"] in cases
    ]


def _pytest(
    tree: Path,
    ask: Mapping[str, object],
    tests: Sequence[str],
    awake: int | None = None,
    worker: int = 0,
) -> subprocess.Popen[bytes]:
    asked = tree / "build" / f"asked{worker}.json"
    asked.write_text(json.dumps(ask), "utf-8")
    env = dict(os.environ, PYTHONPATH=f"{tree / 'src'}:{tree}")
    env |= {"PYTHONPYCACHEPREFIX": str(tree / "build" / "pycache"), ASKED: str(asked)}
    if awake is not None:
        env[VARIABLE] = str(awake)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.mutation.inside"]
    for unused in ("cacheprovider", "xdist", "pytest_cov"):
        command += ["-p", f"no:{unused}"]
    command += ["--no-header", "--tb=no", f"--basetemp={tree / 'build' / f'tmp{worker}'}"]
    with (tree / "build" / f"log{worker}.txt").open("wb") as log:
        return subprocess.Popen([*command, *tests], cwd=tree, env=env, stdout=log, stderr=log)
