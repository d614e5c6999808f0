"""One command on one input of someone who means harm, in a process that is watched.

The process is a fork: it may take 30 s and 1 GB, may write nowhere but in its own folder, and ends
without a traceback. Where it says PROVED, another judge is asked: the executor of programs, the
emulator's own check of races.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time
import traceback
import warnings
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pipeloom
from benchmarks.hostile_cases import Case, files
from pipeloom.cli.main import main
from pipeloom.drive.store import FILE, digest

MOST_SECONDS, MOST_MEMORY = 30, 1 << 30
"""Of a processor: others may use the machine."""
MOST_WAITED = 300
KILLED_MEMORY = 3 << 30
"""What the kernel lets a process have, so that a fault does not take the machine down."""
_TRACEBACK, _OUTSIDE, _WRONG = 99, 98, 97
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Ended:
    """How it went; ``fault`` is empty where nothing is wrong."""

    code: int
    seconds: float
    memory: int
    """Bytes at most, beyond those of the process that forked."""
    fault: str = ""
    proved: bool = False


def warm() -> None:
    """Import all that a command may need, so that no fork does."""
    for module in pkgutil.walk_packages(pipeloom.__path__, "pipeloom."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)


def ran(case: Case, seed: int, place: Path) -> Ended:
    """Make the folder, change the input, run the command in a fork, and say how it ended."""
    rng = random.Random(seed)
    data = case.mutate(case.good(), rng)
    for name in ("in", "out", "tmp", "store"):
        shutil.rmtree(place / name, ignore_errors=True)
        (place / name).mkdir(parents=True, mode=0o700)
    for name in ("fault", "proved"):
        (place / name).unlink(missing_ok=True)
    files(place / "in")
    if case.name == "store rows":
        _write_store(place / "store", data)
    else:
        (place / "in" / case.file).write_bytes(data)
    return _forked(case, case.command(rng), place)


def _forked(case: Case, words: list[str], place: Path) -> Ended:
    started = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = _TRACEBACK
        try:
            code = _in_child(case, words, place)
        finally:
            os._exit(code)
    timed_out = False
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() - started > MOST_WAITED:
            timed_out = True
            os.kill(child, signal.SIGKILL)
            _, status, used = os.wait4(child, 0)
            break
        time.sleep(0.002)
    seconds = time.monotonic() - started
    code = os.waitstatus_to_exitcode(status)
    memory = used.ru_maxrss * 1024
    return Ended(code, seconds, memory, _fault(code, memory, timed_out, place), _proved(place))


def _fault(code: int, memory: int, timed_out: bool, place: Path) -> str:
    told = place / "fault"
    said = told.read_text(encoding="utf-8", errors="replace") if told.exists() else ""
    if timed_out or code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"hang: {MOST_SECONDS} s of a processor, or {MOST_WAITED} s in all"
    if code in (_TRACEBACK, _OUTSIDE, _WRONG) or said:
        return said or "ended without a word"
    if code < 0:
        return f"killed by signal {-code}"
    if memory > MOST_MEMORY:
        return f"memory: {memory >> 20} MB"
    steering = {c for c in _said(place) if (c < " " and c not in "\n\t") or c == "\x7f"}
    if steering:
        return f"steers the terminal: {sorted(steering)!r}"
    return ""


def _said(place: Path) -> str:
    return "".join(
        (place / name).read_bytes().decode("utf-8", "replace") for name in ("said", "errors")
    )


def _proved(place: Path) -> bool:
    return (place / "proved").exists()


def _in_child(case: Case, words: list[str], place: Path) -> int:
    os.setsid()
    for number, most in (
        (resource.RLIMIT_AS, KILLED_MEMORY),
        (resource.RLIMIT_CPU, MOST_SECONDS),
        (resource.RLIMIT_FSIZE, 256 << 20),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(number, (most, most))
    for number, name in ((1, "said"), (2, "errors")):
        handle = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, number)
    os.environ.update(PIPELOOM_STORE=str(place / "store"), TMPDIR=str(place / "tmp"), NO_COLOR="1")
    os.environ.pop("PIPELOOM_STORE_SHARED", None)
    import tempfile

    tempfile.tempdir = str(place / "tmp")
    os.chdir(place)
    told = os.open(place / "fault", os.O_WRONLY | os.O_CREAT, 0o600)
    _watch_writes(place, told)
    warnings.simplefilter("always")
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        with suppress(SystemExit):
            code = main(words)
            sys.stdout.flush()
            if code == 0 and (fault := _unproved(case, words, place)):
                os.write(told, fault.encode("utf-8", "backslashreplace"))
                return _WRONG
            return code
        return 2
    except BaseException:
        lines = traceback.format_exc().splitlines()
        os.write(told, "\n".join(lines[-14:]).encode("utf-8", "backslashreplace"))
        return _TRACEBACK


def _watch_writes(place: Path, told: int) -> None:
    """Whatever is opened to be written, made, moved or removed lies in the folder."""
    inside = (str(place), "/dev/null", "/dev/tty")

    def watch(event: str, args: tuple[Any, ...]) -> None:
        paths: tuple[Any, ...] = ()
        if event == "open":
            path, mode, flags = args
            writes = any(c in mode for c in "wax+") if isinstance(mode, str) else flags & _WRITES
            paths = (path,) if writes else ()
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate"):
            paths = args[:1]
        elif event in ("os.rename", "os.link", "os.symlink"):
            paths = args[:2]
        for path in paths:
            if isinstance(path, int):
                continue
            real = os.path.realpath(os.fsdecode(path))
            if not real.startswith(inside) and "pycache" not in real:
                os.write(told, f"outside: {event} {real}\n".encode())

    sys.addaudithook(watch)


def _unproved(case: Case, words: list[str], place: Path) -> str:
    """What another judge says of something that was called PROVED; empty if nothing."""
    if case.name in ("code objects", "launch files"):
        return _races(place) if words[0] == "check" and "--template" not in words else ""
    if words[0] == "derive":
        return _runs_wrong(place / "out" / "p.json", place)
    if words[0] == "verify":
        return _runs_wrong(place / "in" / case.file, place)
    return ""


def _runs_wrong(path: Path, place: Path) -> str:
    from pipeloom.drive.opening import open_source
    from pipeloom.errors import ScheduleError
    from pipeloom.judge.execute import execute
    from pipeloom.judge.execute.executor import SIZE

    (place / "proved").touch()
    program = open_source(str(path)).program()
    for policy, order, extra in (("worst", "forward", 0), ("random", "reverse", 2)):
        trips = {count.name: count.least + extra for count in program.trips}
        try:
            found = execute(program, trips=trips, policy=policy, order=order, explain=False)
        except ScheduleError as error:
            if error.field == SIZE:
                return ""
            return f"PROVED, and execute refuses it: {error.message}"
        if not found.correct:
            return f"PROVED, and execute shows {found.summary}"
    return ""


def _races(place: Path) -> str:
    """A verdict on a kernel rests on a run of it: made here again, with the emulator's check."""
    from pipeloom.drive.timing_files import launched
    from pipeloom.judge.emulate import run_kernel

    (place / "proved").touch()
    file, start = launched(place / "in" / "k.hsaco", place / "in" / "launch.json")
    for seed in range(2):
        args, _ = start.fresh()
        found = run_kernel(
            file.kernel,
            grid=start.grid,
            block=start.block,
            args=args,
            dynamic_lds=start.dynamic_lds,
            seed=seed,
            max_instructions=20_000,
        )
        if not found.ok or not found.executed:
            said = str(found.findings[:1] or found.stopped or "nothing was executed")
            return f"PROVED, and the emulator says {said[:300]}"
    return ""


def _write_store(folder: Path, data: bytes) -> None:
    """Rows as someone would write them who knows how; what is no JSON goes in as it is."""
    rows: dict[str, bytes] = {}
    try:
        entries = json.loads(data)
        pairs = list(entries.items()) if isinstance(entries, dict) else []
    except (ValueError, RecursionError):
        pairs = []
    db = sqlite3.connect(folder / FILE)
    db.execute(
        "CREATE TABLE entries (key TEXT PRIMARY KEY, digest TEXT NOT NULL,"
        " content BLOB NOT NULL) WITHOUT ROWID"
    )
    db.execute("PRAGMA user_version = 1")
    with suppress(UnicodeEncodeError, sqlite3.Error, ValueError):
        for key, entry in pairs:
            rows[key] = zlib.compress(json.dumps(entry).encode())
            values = (key, digest(entry), rows[key])
            db.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", values)
    if not pairs:
        from benchmarks.hostile_cases import store_entries

        for key in json.loads(store_entries()):
            db.execute("INSERT INTO entries VALUES (?, ?, ?)", (key, "0" * 64, data))
    db.commit()
    db.close()
    os.chmod(folder / FILE, 0o600)
