"""Which tests come by a mutant's place, and how long each takes: as ``trial`` measures it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutation.mutants import Mutant

RUNS = "reach-*.jsonl"
"""The files of runs, in their order."""
QUICK = 0.3
"""Seconds up to which all cases of a function that is named after the module come first."""
AT_IMPORT = 150
"""So many tests are tried for a place that runs when modules are imported: any may notice."""
BROAD = "tests/golden/test_kernels.py"
"""Tests that notice most of what changes."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What all runs showed; the last one that ran a test says what it comes by."""

    seconds: Mapping[str, float]
    """How long each test takes that passes."""
    tests: Mapping[str, frozenset[str]]
    """By the key of a mutant: the tests that come by its place."""
    imported: frozenset[str]
    """Keys of mutants whose places run when modules are imported."""
    known: frozenset[str]
    """Keys of mutants that were there to be come by."""

    def tests_of(
        self, mutant: Mutant, budget: float, tried: frozenset[str] = frozenset()
    ) -> dict[str, float]:
        """Tests that come by its place and their seconds, ``budget`` in all, the likeliest first.

        First those named after the module, as long as they are quick; then those whose results are
        kept, then those that stand where tests of the package do, one case of every function before
        the second; then all others.
        """
        folder, _, name = mutant.path.rpartition("/")
        mirror, named = f"tests/unit/{folder}/", f"test_{name.removesuffix('.py')}.py"
        found = self.tests.get(mutant.key, frozenset())
        if mutant.key in self.imported:
            likely = [t for t in self.seconds if t.startswith((mirror, BROAD))]
            found |= frozenset(sorted(likely, key=self.seconds.__getitem__)[:AT_IMPORT])
        cases: Counter[str] = Counter()
        ranked = []
        for test in sorted(found, key=lambda t: (self.seconds[t], t)):
            function, took = test.split("[")[0], self.seconds[test]
            before, near = cases[function], test.startswith(mirror)
            if near and named in test and took < QUICK:
                rank = 0.01 * before
            elif test.startswith(BROAD):
                rank = 0.2 + 0.02 * before
            else:
                rank = 0.2 + 0.3 * before if near else 1 + 0.7 * before
            ranked.append((rank + 0.15 * took, test))
            cases[function] += 1
        chosen: dict[str, float] = {}
        for _, test in sorted(ranked):
            took = self.seconds[test]
            if test not in tried and (not chosen or sum(chosen.values()) + took <= budget):
                chosen[test] = took
        return chosen


def load(work: Path) -> Reach:
    """What runs left in ``work``."""
    seconds: dict[str, float] = {}
    reached: dict[str, frozenset[str]] = {}
    imported: set[str] = set()
    known: set[str] = set()
    for file in sorted(work.glob(RUNS)):
        keys: dict[str, str] = {}
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            if "keys" in row:
                keys = row["keys"]
                known |= set(keys.values())
                continue
            here = frozenset(keys[str(number)] for number in row["reached"])
            if row["test"] == "":
                imported |= here
            elif row["passed"]:
                seconds[row["test"]] = row["seconds"]
                reached[row["test"]] = here
            else:
                seconds.pop(row["test"], None)
                reached.pop(row["test"], None)
    tests: dict[str, set[str]] = {}
    for test, keys_of in reached.items():
        for key in keys_of:
            tests.setdefault(key, set()).add(test)
    by_key = {key: frozenset(found) for key, found in tests.items()}
    return Reach(seconds, by_key, frozenset(imported), frozenset(known))
