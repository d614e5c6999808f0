"""Verifier against executor over random kernels, right and broken: the whole table.

    python -m benchmarks.random_kernels                    3,000 cases
    python -m benchmarks.random_kernels --cases 200 --seed 7
    python -m benchmarks.random_kernels --output evidence/random-kernels.md

Each case is a random declaration, lowered at random, synchronised more or less tightly, and mostly
broken by one slip. The executor runs it at trip counts 0 to 5 in hostile orders and at random, and
the verifier judges it:

    wrong         some execution gives a wrong or undefined number, or hangs
    missed        wrong, and the verdict is PROVED
    false alarm   not PROVED, and some finding cannot be made to happen
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.random_programs import cases
from benchmarks.random_programs.judging import page, run
from evidence.evidence_page import commit, write_page


def main(arguments: list[str] | None = None) -> int:
    """Judge the cases and print the table; 1 if the two disagree anywhere."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes that judge")
    parser.add_argument("--output", type=Path, help="also write the ledger here")
    options = parser.parse_args(arguments)
    judgements = run(cases(options.seed, options.cases), options.cases, options.workers)
    if options.output is not None:
        given = " ".join(sys.argv[1:] if arguments is None else arguments)
        made = f"python -m benchmarks.random_kernels {given}"
        write_page(options.output, lambda: page(judgements, options.seed, made, commit()))
    return int(any(j.missed or j.false_alarm for j in judgements))


if __name__ == "__main__":
    sys.exit(main())
