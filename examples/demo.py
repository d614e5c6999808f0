"""What ``make demo`` runs: from a declaration to proved machine code, one command at a time.

Every step is a command you can run yourself. The last lines say what to look at.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OUTPUT = Path("build") / "demo"
TILE = ["--dtype", "bf16"]
PROVED = ["--sync", "repaired", "--reorder"]

STEPS: tuple[tuple[str, list[str], int], ...] = (
    ("The ping-pong matmul as the specification schedules it", ["show", "ping_pong", *TILE], 0),
    (
        "Can it race? Nothing orders some accesses: only latencies do",
        ["verify", "ping_pong", *TILE],
        3,
    ),
    (
        "The same barriers, new waits, a few loads moved: proved for every trip count",
        ["verify", "ping_pong", *TILE, *PROVED],
        0,
    ),
    (
        "What that costs, in simulated cycles",
        ["compare", "ping_pong", "ping_pong:sync=repaired,reorder=true"],
        0,
    ),
    (
        "A page to look at",
        ["report", "ping_pong", *PROVED, "-o", str(OUTPUT / "ping_pong.html")],
        0,
    ),
    (
        "The kernel, as a code object",
        ["emit", "ping_pong", *PROVED, "-o", str(OUTPUT / "ping_pong.hsaco")],
        0,
    ),
    (
        "Its machine code on 250 x 250 x 512, run at random timings against NumPy",
        ["run", "ping_pong", *PROVED, "--m", "250", "--n", "250", "--timings", "3"],
        0,
    ),
    (
        "Causal attention of two heads, 90 queries and 130 keys, the same way",
        ["run", "attention", "--d", "64", "--causal", "--waves", "2", "--timings", "1"]
        + [f"--size={size}" for size in ("q=90", "keys=130", "heads=2")],
        0,
    ),
)


def main() -> int:
    """Run the steps; stop at the first that does not end as it should."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for title, arguments, expected in STEPS:
        print(f"\n== {title}\n$ pipeloom {' '.join(arguments)}", flush=True)
        code = subprocess.run([sys.executable, "-m", "pipeloom", *arguments]).returncode
        if code != expected:
            print(f"this step ended with exit code {code}, expected {expected}", file=sys.stderr)
            return code or 1
    print(
        f"\nOpen {OUTPUT / 'ping_pong.html'} in a browser: timeline, dependences, verdict, stalls."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
