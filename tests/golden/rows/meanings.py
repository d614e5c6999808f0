"""What is said of the values of meanings that are drawn, and of those that people declare, inside
and behind every end of a loop: a row for each."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from benchmarks.kernel_results import digest
from benchmarks.random_programs.declarations import random_meaning
from pipeloom.errors import ScheduleError
from pipeloom.program import Meaning
from pipeloom.program.idle import End, Inputs, _values, adds_up, idles_past_end
from pipeloom.program.nan_payloads import short_nans
from pipeloom.program.past_end import needs_finite, noticed, reduced
from tests.declarations.test_declarations import CASES

DRAWN = 120


def value_range_rows() -> dict[str, str]:
    """Ranges of all values as hashes, by end, and what follows from them in words."""
    found = {
        f"seed {seed}": "; ".join(_said(random_meaning(Random(f"values {seed}"))))
        for seed in range(DRAWN)
    }
    for case in CASES:
        try:
            found[case.name] = "; ".join(_said(case.declare().meaning))
        except ScheduleError as error:
            found[case.name] = " ".join(str(error).split())
    return found


def _said(meaning: Meaning) -> Iterator[str]:
    for inputs in Inputs:
        idle = "idle past the end" if idles_past_end(meaning, inputs) else "not idle"
        yield f"{inputs.value}: {idle}, adds up {adds_up(meaning, inputs)}"
        values = [{name: str(v) for name, v in _values(meaning, e, inputs).items()} for e in End]
        yield " ".join(map(digest, map(str, values)))
        dims = sorted({dim for node in meaning.nodes for dim in node.type.dims})
        seen = [(dim, noticed(meaning, dim, inputs), reduced(meaning, dim)) for dim in dims]
        yield digest(str(seen))
    short = [node.name for node in meaning.nodes if short_nans(meaning, node.name)]
    yield f"needs finite {needs_finite(meaning)}, {sorted(meaning.masks)}, {digest(str(short))}"
