"""The answer to a modulo problem: a schedule, its bound, and why no smaller II is possible."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from pipeloom.order.modulo.measure import UnitTable
from pipeloom.plain import to_plain

T = TypeVar("T")

RESULT_FORMAT = "pipeloom.modulo-result/1"


class SolveStatus(Enum):
    """How a search ended."""

    PROVED = "proved"
    """All that was asked for is settled."""
    STOPPED = "stopped"
    """A limit or Ctrl-C ended the search."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """IIs that are impossible, and why."""

    first: int
    """The smallest of them."""
    last: int
    """The largest of them."""
    how: str
    """The method that refuted them."""
    words: str
    """The cause, in words."""


@dataclass(frozen=True, slots=True)
class BoundCertificate:
    """Why a lower bound holds: one refutation covers every II below it, in order."""

    lower_bound: int
    """No II below it is possible."""
    proved: bool
    """Whether a schedule of that II was found."""
    refutations: tuple[Refutation, ...]
    """Why not smaller."""
    stopped: str | None = None
    """What ended the search early; None where nothing did."""

    @property
    def why(self) -> str:
        """One sentence a person can read."""
        if self.proved:
            if not self.refutations:
                return f"II = {self.lower_bound} is the least a loop can have"
            return f"II = {self.lower_bound} is optimal: {self.refutations[-1].words}"
        return (
            f"II >= {self.lower_bound} is proved, smaller than found: "
            f"{self.stopped or 'search ended'}"
        )


@dataclass(frozen=True, slots=True)
class ObjectiveValue:
    """A secondary objective's value, and whether it is proved best given those before it."""

    objective: str
    """The objective's name."""
    value: int
    """What the schedule reaches."""
    proved: bool
    """Whether nothing better is possible, given the objectives before it."""


@dataclass(frozen=True, slots=True)
class ModuloResult:
    """A checked modulo schedule: op ``i`` of iteration ``n`` starts at ``starts[i] + n * ii``."""

    problem: str
    """The problem's name."""
    ops: tuple[str, ...]
    """The ops' names."""
    ii: int
    """The initiation interval: cycles that every further iteration costs."""
    starts: tuple[int, ...]
    """When each op starts; the first at 0."""
    proved: bool
    """Whether no smaller II is possible."""
    lower_bound: int
    """No II below it is possible."""
    res_mii: int
    """The bound that the units set."""
    rec_mii: int
    """The bound that dependence cycles set."""
    recurrence: tuple[str, ...]
    """The ops of the critical dependence cycle."""
    stages: int
    """Iterations that overlap."""
    buffers: tuple[tuple[str, int], ...]
    """Buffers that each channel needs, whether or not a budget limits them."""
    lds_bytes: int
    """Their bytes."""
    register_peak: int
    """The most registers live in one cycle, whether or not a budget limits them."""
    unit_tables: tuple[UnitTable, ...]
    """Which op holds which unit in which slot."""
    certificate: BoundCertificate
    """Why the bound holds."""
    objectives: tuple[ObjectiveValue, ...] = ()
    """What the further objectives reached."""
    stopped: str | None = None
    """What ended the search early, be it at the II or at an objective; None where nothing did."""

    @property
    def status(self) -> SolveStatus:
        """Whether all that was asked for is settled; STOPPED can still be the best there is."""
        return SolveStatus.PROVED if self.stopped is None else SolveStatus.STOPPED

    def __repr__(self) -> str:
        claim = "proved" if self.proved else f"at least {self.lower_bound}"
        size = f"{len(self.ops)} ops, {self.stages} stages"
        return f"<ModuloResult {self.problem}: II {self.ii} ({claim}), {size}>"

    def stage(self, op: int) -> int:
        """The pipeline stage of op ``op``, counted from 0.

        Args:
            op: The op by index.
        """
        return self.starts[op] // self.ii

    def slot(self, op: int) -> int:
        """The slot modulo II in which op ``op`` starts.

        Args:
            op: The op by index.
        """
        return self.starts[op] % self.ii

    def to_dict(self) -> dict[str, object]:
        """Plain data, the same for equal results; it holds no times of day or durations."""
        certificate = self.certificate
        return {
            "format": RESULT_FORMAT,
            "problem": self.problem,
            "ii": self.ii,
            "proved": self.proved,
            "status": self.status.value,
            "stopped": self.stopped,
            "lower_bound": self.lower_bound,
            "res_mii": self.res_mii,
            "rec_mii": self.rec_mii,
            "recurrence": list(self.recurrence),
            "stages": self.stages,
            "buffers": [{"channel": name, "count": count} for name, count in self.buffers],
            "lds_bytes": self.lds_bytes,
            "register_peak": self.register_peak,
            "starts": [
                {"op": name, "start": start, "stage": start // self.ii, "slot": start % self.ii}
                for name, start in zip(self.ops, self.starts, strict=True)
            ],
            "units": [
                {
                    "unit": table.unit,
                    "capacity": table.capacity,
                    "busy": table.busy,
                    "holds": [
                        {"slots": [first, last], "ops": [self.ops[op] for op in ops]}
                        for first, last, ops in _runs(table.slots)
                        if ops
                    ],
                }
                for table in self.unit_tables
            ],
            "certificate": {
                "why": certificate.why,
                "stopped": certificate.stopped,
                "refutations": to_plain(certificate.refutations),
            },
            "objectives": to_plain(self.objectives),
        }

    def to_json(self) -> str:
        """``to_dict`` as text; equal results give equal bytes."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"


def _runs(slots: Sequence[T]) -> list[tuple[int, int, T]]:
    """Slots grouped into runs with the same holders: (first, last, holders)."""
    runs: list[tuple[int, int, T]] = []
    for slot, holders in enumerate(slots):
        if runs and runs[-1][2] == holders:
            runs[-1] = (runs[-1][0], slot, holders)
        else:
            runs.append((slot, slot, holders))
    return runs


def render_table(result: ModuloResult) -> list[list[str]]:
    """The modulo reservation table as rows of cells, for whoever draws it.

    The first row is the header: ``slots``, then one column per unit. Each further row is a run of
    slots with the same holders, ``first`` or ``first-last``, and per unit the ops that hold it,
    each with its stage after ``@``.
    """
    rows = [["slots", *(table.unit for table in result.unit_tables)]]
    slots = [[table.slots[slot] for table in result.unit_tables] for slot in range(result.ii)]
    for first, last, holders in _runs(slots):
        cells = [str(first) if first == last else f"{first}-{last}"]
        for ops in holders:
            cells.append(", ".join(f"{result.ops[op]}@{result.stage(op)}" for op in ops))
        rows.append(cells)
    return rows
