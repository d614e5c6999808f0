"""One mutant against the tests that reach it, in a copy of the tree and a process of its own.

Processes are forked from one that has the slow third-party modules imported already. Each worker
has one copy of the tree, in which one file is changed and put back, so that compiled files stay
good and commands that a test starts see the mutant, too.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from benchmarks.mutation.mutants import Mutant

SLOW_IMPORTS = ("numpy", "pytest", "hypothesis", "ortools.sat.python.cp_model", "rich.console")
MEMORY = 6 << 30
"""Bytes that a mutant may take."""
OURS = 70
"""Exit code of a process in which pytest was not reached."""


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNREACHED = "unreached"
    """No test runs its line."""
    FAULTY = "not tried"
    """The runner could not try it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A mutant and the tests it is tried with."""

    mutant: Mutant
    tests: tuple[str, ...]
    seconds: float
    """How long these tests take on the unchanged source."""


def copy_tree(root: Path, into: Path) -> None:
    """The files of the work tree that git knows of, copied to ``into``."""
    shutil.rmtree(into, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        if (root / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, into / name)


def _run_tests(tree: Path, tests: Sequence[str], log: Path, seconds: float) -> None:
    """Never returns: the process ends with pytest's code, or with one of our own."""
    try:
        _start_tests(tree, tests, log, seconds)
    finally:
        os._exit(OURS)


def _start_tests(tree: Path, tests: Sequence[str], log: Path, seconds: float) -> None:
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(out, stream)
    limit = int(30 + 5 * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(tree)
    sys.path[:] = [str(tree / "src"), str(tree)] + [
        p for p in sys.path if not (Path(p) / "pipeloom").is_dir() and p != ""
    ]
    os.environ["PYTHONPATH"] = f"{tree / 'src'}:{tree}"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(tree / "build" / "pycache")
    for name in [n for n in sys.modules if n.split(".")[0] in ("benchmarks", "pipeloom")]:
        del sys.modules[name]
    import pytest

    temporary = tree / "build" / "tmp"
    temporary.parent.mkdir(exist_ok=True)  # else every test fails, and every mutant seems killed
    os.environ["COLUMNS"] = "10000"  # else pytest cuts off the names of tests that fail
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:pytest_cov"]
    options += ["--no-header", "--tb=line", f"--basetemp={temporary}"]
    os._exit(int(pytest.main([*options, *tests])))  # no clean-up of what was forked


def trials(
    root: Path, cases: Sequence[Case], work: Path, workers: int
) -> Iterator[tuple[Case, Fate, str]]:
    """Each case, its fate and the test that failed, as they end."""
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    trees = [work.resolve() / f"tree{i}" for i in range(workers)]
    for tree in trees:
        copy_tree(root, tree)
    free = list(trees)
    running: dict[int, tuple[Case, Path, Path, bytes, float]] = {}
    waiting = list(reversed(cases))
    while waiting or running:
        while waiting and free:
            case = waiting.pop()
            if not case.tests:
                yield case, Fate.UNREACHED, ""
                continue
            tree = free.pop()
            file = tree / "src" / "pipeloom" / case.mutant.path
            before = file.read_bytes()
            file.write_bytes(case.mutant.applied(before))
            process = os.fork()
            if process == 0:
                _run_tests(tree, case.tests, tree / "log.txt", case.seconds)
            deadline = time.monotonic() + 300 + 30 * case.seconds
            running[process] = (case, tree, file, before, deadline)
        if not running:
            continue
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == 0:
            for late, (*_, deadline) in running.items():
                if time.monotonic() > deadline:
                    os.killpg(late, signal.SIGKILL)
            time.sleep(0.05)
            continue
        case, tree, file, before, _ = running.pop(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        file.write_bytes(before)
        free.append(tree)
        yield case, *_outcome(status, tree / "log.txt")


def _outcome(status: int, log: Path) -> tuple[Fate, str]:
    """The fate, and the test that failed.

    A mutant is killed by a test that fails and has a name, by one that reaches a limit, or where
    the package cannot be imported; whatever else ends pytest says nothing about the mutant.
    """
    code = os.waitstatus_to_exitcode(status)
    text = log.read_text("utf-8", errors="replace")
    lines = [line.split(" - ")[0] for line in text.splitlines()]
    words = [line.split(maxsplit=1) for line in lines if line.startswith(("FAILED ", "ERROR "))]
    failed = [word[1] for word in words if len(word) > 1]  # pytest's own error names no test
    if code == 0:
        return Fate.SURVIVED, ""
    named = bool(failed) and code in (1, 2, 4)  # 4: a module of tests that asks for what is broken
    if named or code < 0 or "while loading conftest" in text:
        return Fate.KILLED, failed[0] if failed else ""
    return Fate.FAULTY, ""
