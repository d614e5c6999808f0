"""Would the constants predict a loop they have not seen? Refit them without it, and look.

Most constants are single numbers of a source. For a few the sources give a range, or nothing;
``UNCERTAIN`` lists those. Each fold leaves the loops of one file out, starts from the
middle of every range, chooses the values within the ranges that fit the other loops best, and then
meets the loops it left out. The values this package uses are not put into the fit. Example::

    fold = refit(frozenset({"fa_mfma_only"}), Evaluator())
    fold.fitted["global_latency"], fold.errors["fa_mfma_only"]

The search is that of ``pipeloom calibrate``, here over low, middle and high of each range: coarse
on purpose, since so few loops cannot tell finer values apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from evidence.calibration import LoopCase, compare, loop_cases
from pipeloom.calibrate.refitting import LoopErrors, Range, descend, middle
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target

# Constants whose sources give a range, or that no source gives: (name, low, high).
UNCERTAIN: tuple[Range, ...] = (
    ("global_latency", 400, 800),
    ("global_bytes_in_flight", 45056, 49152),
    ("global_bytes_per_clk", 40, 50),
    ("vmem_queue_depth", 3, 4),
    ("vmem_min_cycles", 4, 8),
    ("barrier_alone_cycles", 8, 37),
    ("lds_latency", 50, 70),
    ("lds_queue_delay", 8, 24),
    ("lds_write_cycles_per_dword", 3, 5),
    ("branch_cycles", 4, 20),
)
ITERATIONS = 5


@dataclass(frozen=True, slots=True)
class Fold:
    """One refit: what was left out, the values chosen without it, the errors made."""

    left_out: tuple[str, ...]
    fitted: Mapping[str, float]
    seen_error: float  # mean absolute error over the loops of the fit
    errors: Mapping[str, float]  # relative error of each loop left out


class Evaluator(LoopErrors):
    """Relative error of a loop under given values, each computed once."""

    def __init__(self, more: Iterable[LoopCase] = ()) -> None:
        self.cases: dict[str, LoopCase] = {
            case.id: case for case in (*loop_cases(), *more) if case.basis != "micro"
        }
        super().__init__(
            {name: partial(_error, case) for name, case in self.cases.items()},
            {name: target_for(case.arch) for name, case in self.cases.items()},
        )


def _error(case: LoopCase, machine: Target) -> float:
    return compare(case, machine, ITERATIONS).error


def refit(left_out: frozenset[str], evaluator: Evaluator) -> Fold:
    """Choose the uncertain constants without these loops, then meet them."""
    seen = tuple(loop for loop in evaluator.cases if loop not in left_out)
    hidden = tuple(loop for loop in evaluator.cases if loop in left_out)
    start = {name: middle(low, high) for name, low, high in UNCERTAIN}
    values, best = descend(partial(evaluator.mean, seen), start, UNCERTAIN)
    chosen = tuple(values.items())
    return Fold(hidden, values, best, {loop: evaluator.error(loop, chosen) for loop in hidden})


def folds_by_source(evaluator: Evaluator) -> tuple[Fold, ...]:
    """One refit for each file that measured loops come from, in file order."""
    by_source: dict[str, list[str]] = {}
    for case in evaluator.cases.values():
        by_source.setdefault(case.source, []).append(case.id)
    return tuple(refit(frozenset(loops), evaluator) for loops in by_source.values())


def mean_left_out(folds: tuple[Fold, ...]) -> float:
    """Mean absolute error over every loop, each met by the fit that had not seen it."""
    errors = [abs(error) for fold in folds for error in fold.errors.values()]
    return sum(errors) / len(errors)
