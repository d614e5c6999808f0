"""Inputs of someone who means harm: 10,000 mutated files, each through the command that takes it.

    python -m benchmarks.hostile_inputs [--count 10000] [--seed 0] [--jobs 2] [--only programs]

Code objects, launch files, programs, specs, tables and rows of the store are changed by a seed
(``hostile_cases``), and run in processes that are watched (``hostile_run``). None may end in a
traceback, take 30 s of a processor or 1 GB, write outside its folder, steer the terminal, or call
PROVED what another judge shows to be wrong. Prints what it found and exits with 1 if that is
anything.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.hostile_cases import CASES, Case
from benchmarks.hostile_run import Ended, ran, warm

TOTAL = 10_000


def planned(count: int, seed: int, only: str | None = None) -> Iterator[tuple[Case, int]]:
    """Kinds in their shares, mixed, each with a seed of its own."""
    chosen = [case for case in CASES if only is None or case.name == only]
    whole = sum(case.share for case in chosen)
    made = dict.fromkeys(chosen, 0)
    for index in range(count):
        # The kind that is furthest behind its share is next.
        case = min(chosen, key=lambda one: (made[one] + 1) / one.share)
        made[case] += 1
        yield case, seed * TOTAL * 1000 + index
    assert whole


def main(argv: Sequence[str] | None = None) -> int:
    """Run them all and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=TOTAL)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=[case.name for case in CASES])
    parser.add_argument("--keep", type=Path, help="folder for the inputs with a fault")
    parser.add_argument("--one", type=int, help="only the case with this seed; prints what it says")
    arguments = parser.parse_args(argv)
    plan = list(planned(arguments.count, arguments.seed, arguments.only))
    if arguments.one is not None:
        plan = [(case, seed) for case, seed in plan if seed == arguments.one]
    warm()
    for case in CASES:
        case.good()
    gc.collect()
    gc.freeze()  # forks then share what is there
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        return _report(_all(plan, Path(folder), arguments.jobs, arguments.keep), len(plan))


def _all(
    plan: Sequence[tuple[Case, int]], folder: Path, jobs: int, keep: Path | None
) -> Iterator[tuple[Case, int, Ended]]:
    """Each job takes every ``jobs``-th case, and tells through a pipe."""
    if jobs == 1:
        for case, seed in plan:
            yield case, seed, _one(case, seed, folder / "case", keep)
        return
    pipes = []
    for job in range(jobs):
        read, write = os.pipe()
        if os.fork() == 0:
            with os.fdopen(write, "w") as out:
                for at in range(job, len(plan), jobs):
                    ended = _one(*plan[at], folder / f"case{job}", keep)
                    out.write(repr((at, ended)) + "\n")
                    out.flush()
            os._exit(0)
        os.close(write)
        pipes.append(os.fdopen(read))
    turn = 0
    while pipes:
        line = pipes[turn % len(pipes)].readline()
        if not line:
            pipes.pop(turn % len(pipes)).close()
            continue
        at, ended = eval(line, {"Ended": Ended})
        yield *plan[at], ended
        turn += 1


def _one(case: Case, seed: int, place: Path, keep: Path | None) -> Ended:
    ended = ran(case, seed, place)
    if ended.fault and keep is not None:
        kept = keep / f"{case.name.replace(' ', '-')}-{seed}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(place, kept)
    return ended


def _report(results: Iterator[tuple[Case, int, Ended]], count: int) -> int:
    started, done = time.monotonic(), 0
    codes: dict[str, Counter[str]] = {case.name: Counter() for case in CASES}
    most = {case.name: [0.0, 0, 0] for case in CASES}
    faults: list[tuple[str, int, str]] = []
    for case, seed, ended in results:
        done += 1
        codes[case.name]["fault" if ended.fault else f"exit {ended.code}"] += 1
        seconds, memory, proved = most[case.name]
        most[case.name] = [
            max(seconds, ended.seconds),
            max(memory, ended.memory),
            proved + ended.proved,
        ]
        if ended.fault:
            faults.append((case.name, seed, ended.fault))
            last = ended.fault.strip().splitlines()[-1][:150]
            print(f"  {case.name} {seed}: {last}", flush=True)
        if done % 200 == 0:
            spent = time.monotonic() - started
            print(f"{done}/{count}, {len(faults)} faults, {spent:.0f} s", file=sys.stderr)
    print(f"\n{done} inputs, {len(faults)} faults, {time.monotonic() - started:.0f} s")
    for name, found in codes.items():
        if found:
            seconds, memory, proved = most[name]
            told = ", ".join(f"{what}: {n}" for what, n in sorted(found.items()))
            print(
                f"  {name:13} {sum(found.values()):5}: {told}; {proved:.0f} proved and judged "
                f"again; at most {seconds:.1f} s, {int(memory) >> 20} MB"
            )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
