"""Signals at random moments: 200 of SIGINT and SIGTERM, in every command that takes its time.

    python -m benchmarks.signals [--count 200] [--seed 0] [--jobs 1] [--only derive]

A command is started with folders of its own and gets one signal: SIGINT to its process group, as a
terminal sends it, or to it alone; SIGTERM to it alone, as `kill` and schedulers do. It must end
with 130 or 143 (or have ended before), leave no process, no temporary file, no part of an output
and no traceback; and where it promises the best so far, that is a whole file which is proved.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hostile_cases import CASES
from pipeloom.judge.verify import verify
from pipeloom.program import Program

COMMANDS: dict[str, list[str]] = {
    "derive": ["derive", "in/loop.py:loop", "--waves", "4", "-o", "out/p.json"],
    "solve": ["solve", "ping_pong"],
    "tune": ["tune", "512x512x512", "--jobs", "2", "--page", "out/page", "-o", "out/t.json"],
    "gemm": ["gemm", "64", "64", "64", "--jobs", "2", "-o", "out/k.hsaco"],
    "library": ["library", "64x64x64", "--jobs", "2", "-o", "out/lib"],
    "check": ["check", "in/k.hsaco", "--launch", "in/launch.json", "--witness", "out/w.json"],
    "check --fix": ["check", "in/k.hsaco", "--launch", "in/launch.json", "--fix", "out/f.s"],
    "run": ["run", "four_wave", "--k", "512"],
    "report": ["report", "ping_pong", "-o", "out/r.html"],
    "fix": ["fix", "ping_pong", "-o", "out/f.json"],
    "compare": ["compare", "ping_pong", "four_wave", "-o", "out/c.html"],
    "emit": ["emit", "gemm_tile", "--waves", "8", "-o", "out/k.hsaco"],
    "export": ["export", "gemm_tile", "--tile", "128x128x64", "-o", "out/t.json"],
    "simulate": ["simulate", "ping_pong"],
    "verify": ["verify", "in/program.json"],
}
LOOP = "from pipeloom.declare.kernels import gemm\nloop = gemm(64, 128, 32)\n"
LONGEST = 20
"""Seconds after which a signal comes at the latest."""
MOST_SECONDS = 120
"""For a command to end after its signal: machines are shared."""


@dataclass(frozen=True)
class Shot:
    """One signal, and what came of it; ``fault`` is empty where nothing is wrong."""

    command: str
    sent: signal.Signals
    after: float
    code: int
    fault: str = ""
    finished: bool = False
    """Before the signal came."""
    best: bool = False
    """Gave the best so far."""


def shot(command: str, sent: signal.Signals, after: float, group: bool, place: Path) -> Shot:
    """Start it, wait so long once it listens, send the signal, and look at what is left."""
    for name in ("in", "out", "tmp", "store", "home"):
        (place / name).mkdir(parents=True, mode=0o700)
    for case in CASES:
        if case.name in ("code objects", "launch files", "programs"):
            (place / "in" / case.file).write_bytes(case.good())
    (place / "in" / "loop.py").write_text(LOOP, encoding="utf-8")
    environment = {
        **os.environ,
        "PIPELOOM_STORE": str(place / "store"),
        "TMPDIR": str(place / "tmp"),
        "HOME": str(place / "home"),
    }
    with open(place / "said", "wb") as said, open(place / "errors", "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeloom", *COMMANDS[command]],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=errors,
            start_new_session=True,
        )
        finished = True
        try:
            _wait_until_it_listens(process)
            process.wait(after)
        except subprocess.TimeoutExpired:
            finished = False
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(process.pid, sent)
        try:
            code = process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Shot(command, sent, after, 0, f"still there after {MOST_SECONDS} s")
    code = 128 - code if code < 0 else code
    found, best = _left(process.pid, place), False
    text = (place / "errors").read_text(encoding="utf-8", errors="replace")
    if "Traceback" in text or "Exception ignored" in text:
        found = text[-1500:]
    if code not in (0, 128 + sent) and not finished:
        found = found or f"exit code {code}: {text[-300:]}"
    if code == 128 + sent:
        found, best = found or _partial(command, place), bool(_outputs(place))
    return Shot(command, sent, after, code, found, finished or code == 0, best)


def _wait_until_it_listens(process: subprocess.Popen[bytes]) -> None:
    """What comes before that is the interpreter's own start, which takes long on a busy machine."""
    until = time.monotonic() + MOST_SECONDS
    while process.poll() is None and time.monotonic() < until:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = status.partition("SigCgt:")[2].split(maxsplit=1)[0]
        if int(caught, 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.005)


def _left(session: int, place: Path) -> str:
    """Processes of its session, and files that are nobody's any more."""
    until = time.monotonic() + 10
    while (alive := _alive(session)) and time.monotonic() < until:
        time.sleep(0.1)
    if alive:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)
        return f"processes are left: {alive}"
    litter = [*(place / "tmp").iterdir(), *(place / "out").rglob(".*"), *(place / "in").glob(".*")]
    return f"files are left: {[str(path.relative_to(place)) for path in litter]}" if litter else ""


def _alive(session: int) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(command.decode(errors="replace")[:120])
    return found


def _outputs(place: Path) -> list[Path]:
    return [path for path in (place / "out").rglob("*") if path.is_file()]


def _partial(command: str, place: Path) -> str:
    """An interrupted command has written nothing, or the whole best so far, which is proved."""
    outputs = _outputs(place)
    said = (place / "errors").read_text(encoding="utf-8", errors="replace")
    if not outputs and "best so far" in said and command in ("derive", "tune", "gemm", "library"):
        return "the best so far is promised and not there"
    for path in outputs:
        if path.suffix == ".json":
            data = json.loads(path.read_text(encoding="utf-8"))
            if command == "derive" and not verify(Program.from_dict(data)).proved:
                return "the best so far is not proved"
        elif not path.stat().st_size:
            return f"{path.name} is empty"
    return ""


def usual_seconds(command: str, folder: Path) -> float:
    """How long it takes here and now, without a signal, at most ``LONGEST``."""
    started = time.monotonic()
    shot(command, signal.SIGTERM, LONGEST, group=False, place=folder)
    return time.monotonic() - started


def main(argv: Sequence[str] | None = None) -> int:
    """Send them all and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=list(COMMANDS), action="append")
    arguments = parser.parse_args(argv)
    chosen = arguments.only or list(COMMANDS)
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="signals-") as root:
        spans = {}
        for name in chosen:
            spans[name] = usual_seconds(name, Path(root) / f"usual-{name}")
            print(f"{name}: {spans[name]:.1f} s", file=sys.stderr, flush=True)
        plan = []
        for index in range(arguments.count):
            name = chosen[index % len(chosen)]
            sent = (signal.SIGINT, signal.SIGTERM)[index // len(chosen) % 2]
            group = sent is signal.SIGINT and rng.random() < 0.5
            plan.append((name, sent, rng.random() * spans[name], group, Path(root) / str(index)))

        def one(job: tuple[str, signal.Signals, float, bool, Path]) -> Shot:
            result = shot(*job)
            shutil.rmtree(job[-1], ignore_errors=True)
            return result

        shots = []
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for done, result in enumerate(pool.map(one, plan), 1):
                shots.append(result)
                if result.fault:
                    when = f"{result.sent.name} after {result.after:.2f} s"
                    print(f"{result.command}, {when}: {result.fault}", flush=True)
                if done % 20 == 0:
                    print(f"{done}/{len(plan)}", file=sys.stderr, flush=True)
    return _report(shots)


def _report(shots: Sequence[Shot]) -> int:
    faults = [one for one in shots if one.fault]
    hit = [one for one in shots if not one.finished]
    print(f"\n{len(shots)} signals, {len(hit)} before the command had ended, {len(faults)} faults")
    for name in dict.fromkeys(one.command for one in shots):
        own = [one for one in shots if one.command == name]
        codes = Counter(one.code for one in own)
        told = ", ".join(f"exit {code}: {count}" for code, count in sorted(codes.items()))
        best = sum(one.best for one in own)
        wrong = sum(bool(one.fault) for one in own)
        print(f"  {name:12} {len(own):3}: {told}; best so far {best}; faults {wrong}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
