"""Print the model against the measured loops, or write it into the performance page.

python benchmarks/calibrate.py            # print
python benchmarks/calibrate.py --write    # update docs/performance-model.md

Takes a minute or two: most of it refits the uncertain constants with each source left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeloom.judge.simulate.calibration_report import render, replace_generated

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance-model.md"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help=f"update {PAGE.name}")
    arguments = parser.parse_args()
    generated = render()
    if arguments.write:
        PAGE.write_text(replace_generated(PAGE.read_text("utf-8"), generated), "utf-8")
    else:
        print(generated, end="")


if __name__ == "__main__":
    main()
