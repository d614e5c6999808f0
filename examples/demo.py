"""What ``make demo`` runs: declare, compile, look, keep.

Every step is a command you can run yourself; the last line says what was written where.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OUTPUT = Path("build") / "demo"

STEPS = (
    ("What is shipped", ["list"]),
    ("The ping-pong matmul, block by block", ["show", "ping_pong"]),
    (
        "Its compiled schedule, as data for other tools",
        ["compile", "ping_pong", "-o", str(OUTPUT / "ping_pong.json")],
    ),
)


def main() -> int:
    """Run the steps; stop at the first that fails."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for title, arguments in STEPS:
        print(f"\n== {title}\n$ pipeloom {' '.join(arguments)}", flush=True)
        code = subprocess.run([sys.executable, "-m", "pipeloom.cli.main", *arguments]).returncode
        if code:
            return code
    print(f"\nThe results are in {OUTPUT}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
