"""How many small changes of the source the tests notice.

    python benchmarks/mutation_score.py --seed 6:100
    python benchmarks/mutation_score.py --seed 6:100 --measure tests/unit/sync/test_new.py
    python benchmarks/mutation_score.py --seed 1 2 --again --output evidence/mutation-score.md

prints every mutant that no test noticed and the score: killed, of those that are not equivalent.
Equivalent ones are listed in ``benchmarks/mutation/equivalent.toml``, each with the reason why no
test could tell it from the original.

The suite is run once first, to see which test comes by which mutant; with ``--measure`` and names,
tests that are new or have changed are run again. What became of each mutant is recorded as it ends.
A run takes up those that no test noticed yet; ``--again`` tries the killed ones again, too, each
with the test that killed it first. Tests are tried in rounds: all mutants with a few seconds of
them, those that are left with more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.mutation.mutants import PACKAGES, Mutant, draw
from benchmarks.mutation.reach import RUNS, Reach, load
from benchmarks.mutation.switched import lay_out
from benchmarks.mutation.trial import Bench, Case, Fate
from evidence.evidence_page import Table, cell, commit, write_page

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "pipeloom"
EQUIVALENT = Path(__file__).parent / "mutation" / "equivalent.toml"
SEEDS = Path(__file__).parent / "mutation" / "seeds.toml"
RECORD = Path(__file__).parent / "mutation" / "fates.json"

Record = dict[str, tuple[str, str]]
"""For the key of a mutant: its fate, and the test that failed."""
UNCHANGED = Mutant("__init__.py", 1, 1, 0, 0, "<module>", "", "", -1)
"""No mutant: with it, tests run as they are."""


def reasons() -> dict[str, str]:
    """Why each of the equivalent mutants is one."""
    stated: dict[str, str] = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    return stated


def worth(seed: int) -> str:
    """What its score is worth: whether tests were written for what it left."""
    stated: dict[str, str] = tomllib.loads(SEEDS.read_text("utf-8"))["seeds"]
    return stated.get(str(seed), "Fresh: no test was written for what it left.")


def drawn_of(text: str) -> tuple[int, int]:
    """``5``, or ``5:100``: a seed and how many it draws."""
    seed, _, count = text.partition(":")
    return int(seed), int(count or 300)


def fates(record: Record, mutants: Iterable[Mutant]) -> dict[Mutant, str]:
    """What became of each: an equivalent one is one only if no test noticed it."""
    known = reasons()
    found = {m: record.get(m.key, (Fate.FAULTY.value, ""))[0] for m in mutants}
    return {
        m: "equivalent" if m.key in known and fate != Fate.KILLED.value else fate
        for m, fate in found.items()
    }


def counted(fates: Iterable[str]) -> tuple[Counter[str], str]:
    """How many there are of each fate, and the score in words."""
    counts = Counter(fates)
    judged = counts.total() - counts["equivalent"]
    share = counts["killed"] / max(judged, 1)
    return counts, f"{counts['killed']} of {judged} ({100 * share:.1f} %)"


def page(drawn: Mapping[int, Sequence[Mutant]], record: Record, made: str) -> str:
    """The ledger: what became of the mutants of each seed and package, and which are left."""
    known = reasons()
    of = {seed: fates(record, mutants) for seed, mutants in drawn.items()}
    header = ("killed", "equivalent", "left", "killed of those not equivalent")
    by_seed, by_package = Table(("seed", *header), 1), Table(("package", *header), 1)
    for seed, found in of.items():
        by_seed.put((str(seed),), [_row(found.values())])
    everything = {m: fate for found in of.values() for m, fate in found.items()}
    for part in PACKAGES:
        mine = [fate for m, fate in everything.items() if m.path.startswith(part)]
        by_package.put((f"`{part}`",), [_row(mine)])
    left, same = Table(("left", "line", "fate", "seed"), 1), Table(("equivalent", "reason"), 1)
    for m in sorted(everything, key=lambda m: m.key):
        key, fate = f"`{cell(m.key)}`", everything[m]
        if fate == "equivalent":
            same.put((key,), [(cell(known[m.key]),)])
        elif fate != Fate.KILLED.value:
            seeds = ", ".join(str(seed) for seed, found in of.items() if m in found)
            left.put((key,), [(str(m.line), fate, seeds)])
    return (
        "\n".join(
            [
                "# The mutation score",
                "",
                f"How many small changes of the source the tests notice, at commit {commit()};"
                f" written by `{made}`. Mutants are drawn by a hash of what they change and tried"
                " with tests that run their line, the likeliest first. *killed*: one fails, or"
                " reaches a limit of time or memory; *equivalent*: no test can tell it, for the"
                " reason below; *left*: none that was tried noticed it. Kills may be some commits"
                " older than the rest.",
                "",
                *by_seed.lines(),
                "",
                *(f"- Seed {seed}. {worth(seed)}" for seed in drawn),
                "",
                *by_package.lines(),
                "",
                *(line for each in (left, same) if each.rows for line in (*each.lines(), "")),
            ]
        ).rstrip()
        + "\n"
    )


def _row(fates: Iterable[str]) -> tuple[str, ...]:
    """Counts of killed, equivalent and left, and the score."""
    counts, score = counted(fates)
    left = counts.total() - counts["killed"] - counts["equivalent"]
    return str(counts["killed"]), str(counts["equivalent"]), str(left), score


def rounds(
    alive: dict[str, Mutant],
    record: Record,
    budgets: Sequence[float],
    bench: Bench,
    reach: Reach,
    workers: int,
) -> Iterator[Record]:
    """Try those alive, in rounds with more and more tests; the record, as each trial ends."""
    known = reasons()
    numbers = {key: number for number, key in enumerate(alive)}
    tried: dict[str, frozenset[str]] = dict.fromkeys(alive, frozenset())
    for budget in budgets:
        cases = []
        for key, mutant in alive.items():
            tests = reach.tests_of(mutant, budget, tried[key])
            killer = record.get(key, ("", ""))[1]
            if killer in reach.seconds and killer not in tried[key]:
                tests = {killer: reach.seconds[killer], **tests}
            tried[key] |= set(tests)
            if tests or budget == budgets[0]:
                cases.append(Case(numbers[key], mutant, tests))
        print(f"{len(cases)} with up to {budget:g} s of tests", flush=True)
        for done, (case, fate, failed) in enumerate(bench.trials(cases, workers), 1):
            key = case.mutant.key
            record[key] = (fate.value, failed)
            if fate in (Fate.KILLED, Fate.FAULTY) or key in known:
                del alive[key]  # an equivalent one is tried once, in case its reason is wrong
            if fate is not Fate.KILLED:
                place = f"line {case.mutant.line} of {key}"
                print(f"{done}/{len(cases)} {fate.value}: {place}", flush=True)
            yield record


def false_killers(record: Record, keys: Iterable[str], bench: Bench, reach: Reach) -> set[str]:
    """Tests that fail without any mutant, or are no more, of those that killed one of ``keys``."""
    files = {test.partition("::")[0] for test in reach.seconds}
    tests = {record[key][1] for key in keys if key in record} - {""}
    found = {t for t in tests if t not in reach.seconds and t not in files}
    for gone in sorted(found):
        print(f"fails or is no more: {gone}", flush=True)
    while True:
        left = {t: reach.seconds[t] for t in sorted(tests - found) if t in reach.seconds}
        case = Case(UNCHANGED.number, UNCHANGED, left)
        _, fate, failed = next(iter(bench.trials([case], 1)))
        if fate is not Fate.KILLED:
            return found
        print(f"fails on the unchanged source: {failed}", flush=True)
        found.add(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seed",
        type=drawn_of,
        nargs="+",
        default=[(1, 300)],
        metavar="SEED[:COUNT]",
        help="what to draw, 300 unless given",
    )
    parser.add_argument(
        "--rounds", type=float, nargs="*", default=[20, 60], help="seconds of tests, each more"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "mutation")
    parser.add_argument(
        "--measure",
        nargs="*",
        metavar="TESTS",
        help="run the suite again first, or only tests that are new or have changed",
    )
    parser.add_argument("--again", action="store_true", help="try also those known to be killed")
    parser.add_argument("--record", type=Path, default=RECORD, help="what became of each so far")
    parser.add_argument("--output", type=Path, help="write the ledger here")
    args = parser.parse_args()
    recorded: Path = args.record
    record: Record = json.loads(recorded.read_text("utf-8")) if recorded.exists() else {}
    drawn = {seed: draw(PACKAGE, count, seed) for seed, count in args.seed}
    alive = {m.key: m for mutants in drawn.values() for m in mutants}
    if not args.again:
        dead = {key for key, (fate, _) in record.items() if fate == Fate.KILLED.value}
        alive = {key: m for key, m in alive.items() if key not in dead}
    bench, reach = prepared(alive, args.work, args.measure)
    for now in rounds(alive, record, args.rounds, bench, reach, args.workers):
        recorded.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n", "utf-8")
    keys = {m.key for mutants in drawn.values() for m in mutants}
    wrong = false_killers(record, keys, bench, reach)
    record = {key: fate for key, fate in record.items() if fate[1] == "" or fate[1] not in wrong}
    for seed, mutants in drawn.items():
        counts, score = counted(fates(record, mutants).values())
        print(f"seed {seed}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
        print(score)
    if args.output:
        made = " ".join(["python benchmarks/mutation_score.py", *sys.argv[1:]])
        write_page(args.output, partial(page, drawn, record, made))
    return 0


def prepared(
    alive: Mapping[str, Mutant], work: Path, again: Sequence[str] | None
) -> tuple[Bench, Reach]:
    """A tree in which all of these are asleep, and which tests come by them."""
    work.mkdir(parents=True, exist_ok=True)
    numbered = dict(enumerate(alive.values()))
    left = lay_out(ROOT, work / "tree", numbered)
    reach = load(work)
    if again is not None or not alive.keys() <= reach.known:
        if not again:  # all tests
            for old in work.glob(RUNS):
                old.unlink()
        into = work / RUNS.replace("*", f"{len(list(work.glob(RUNS))):03}")
        bench = Bench(work / "tree", ROOT, left, frozenset())
        bench.measure({n: m.key for n, m in numbered.items()}, again or (), into)
        reach = load(work)
    return Bench(work / "tree", ROOT, left, reach.imported), reach


if __name__ == "__main__":
    sys.exit(main())
