"""How many small changes of the source the tests notice.

    python benchmarks/mutation_score.py --measure            # once: which test runs which line
    python benchmarks/mutation_score.py --seed 1 --count 300

prints every mutant that no test noticed and the score: killed, of those that are not equivalent.
Equivalent ones are listed in ``benchmarks/mutation/equivalent.toml``, each with the reason why no
test could tell it from the original.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter
from pathlib import Path

from benchmarks.mutation.mutants import draw
from benchmarks.mutation.reach import collected, load, measure
from benchmarks.mutation.trial import Case, Fate, trials

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).parent / "mutation" / "equivalent.toml"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests per mutant")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--measure", action="store_true", help="run the suite with coverage first")
    parser.add_argument("--only", type=Path, help="a file of keys: try these and no others")
    parser.add_argument("--json", type=Path, help="write each mutant, its fate and the test here")
    args = parser.parse_args()
    reached = args.work / "reach.json"
    if args.measure or not reached.exists():
        measure(ROOT, reached, args.workers)
    reach = load(reached)
    package = ROOT / "src" / "pipeloom"
    drawn = draw(package, args.count, args.seed)
    if args.only:
        asked = set(args.only.read_text("utf-8").splitlines())
        drawn = [m for m in drawn if m.key in asked]
    reasons: dict[str, str] = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    took = dict(zip(reach.tests, reach.seconds, strict=True))
    there = collected(ROOT)
    cases = []
    for mutant in drawn:
        source = (package / mutant.path).read_text("utf-8")
        tests = reach.tests_of(mutant, source, there, args.budget)
        cases.append(Case(mutant, tests, sum(took.get(t, 1.0) for t in tests)))
    fates: dict[str, str] = {}
    killers: dict[str, str] = {}
    for done, (case, fate, failed) in enumerate(trials(ROOT, cases, args.work, args.workers), 1):
        mutant = case.mutant
        name = "equivalent" if fate is not Fate.KILLED and mutant.key in reasons else fate.value
        fates[mutant.key] = name
        killers[mutant.key] = failed
        if fate is not Fate.KILLED:
            print(f"{done}/{len(cases)} {name}: line {mutant.line} of {mutant.key}", flush=True)
    if args.json:
        record = {key: [fate, killers[key]] for key, fate in sorted(fates.items())}
        args.json.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    counts = Counter(fates.values())
    judged = len(fates) - counts["equivalent"]
    killed = counts["killed"]
    print(f"seed {args.seed}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
    print(f"{killed} of {judged} that are not equivalent: {100 * killed / max(judged, 1):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
