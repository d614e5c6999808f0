"""Print the model against the measured loops, or write the page of it.

python -m evidence.calibrate            # print
python -m evidence.calibrate --write    # write evidence/calibration.md

Takes a minute or two: most of it refits the uncertain constants with each source left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from evidence.calibration_report import render

PAGE = Path(__file__).parent / "calibration.md"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    generated = render()
    if arguments.write:
        PAGE.write_text(generated, "utf-8")
    else:
        print(generated, end="")


if __name__ == "__main__":
    main()
