"""How long a report and a trace take, from nothing to the written file, and how big they are.

python benchmarks/bench_report.py
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 3
COMMANDS = (
    ("report ping_pong", ["report", "ping_pong", "-o"], "r.html"),
    ("report four_wave", ["report", "four_wave", "-o"], "r.html"),
    ("report ping_pong --sync proven", ["report", "ping_pong", "--sync", "proven", "-o"], "r.html"),
    ("trace ping_pong", ["trace", "ping_pong", "-o"], "t.json"),
)


def main() -> None:
    """Print the table: best and worst of a few runs of the whole command."""
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f}, {RUNS} runs each")
    print(f"{'command':<34} {'best s':>7} {'worst s':>8} {'MB':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments, file in COMMANDS:
            target = Path(folder) / file
            times = []
            for _ in range(RUNS):
                begin = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "pipeloom.cli.main", *arguments, str(target)],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                times.append(time.perf_counter() - begin)
            size = target.stat().st_size / 1e6
            print(f"{name:<34} {min(times):>7.2f} {max(times):>8.2f} {size:>6.2f}")


if __name__ == "__main__":
    main()
