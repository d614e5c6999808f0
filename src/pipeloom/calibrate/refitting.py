"""Which constants the measurements contradict, what they are instead, and which nobody can know.

    fitted = calibrate(loops, GFX950)
    fitted.changed                     # constants whose old value the data rule out
    fitted.constants["lds_latency"]    # 72, between 69 and 75

Constants are freed one at a time, the one that explains most first, as long as the data demand it:
so few loops could be explained by many constants at once, and wrongly. Then each constant is moved
through its range, with the freed ones fitted again at every point; where the fit stays as good
within its errors, the constant may be: that is its interval. One that may be anywhere in its range
is not determined, and keeps its old value and its old source.

Values within ranges that make an error small: coordinate descent, coarse or fine.

The model is a simulator: whole numbers, steps and plateaus, no derivatives. So values are tried one
constant after the other, at a few points of its range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from pipeloom.calibrate.measurements import Measured
from pipeloom.errors import ConfigError
from pipeloom.machine.target import Target

Range = tuple[str, float, float]
"""A constant's name, and between which values it is looked for."""
Values = tuple[tuple[str, float], ...]
"""A value for each constant, in a fixed order: a key for what was computed."""
Cost = Callable[[Values], float]

_LEAST = 1e-9
"""What counts as better."""


RANGES: tuple[Range, ...] = (
    ("issue_cycles", 4, 5),
    ("trans_cycles", 4, 16),
    ("valu_dependent_cycles", 4, 16),
    ("wait_cycles", 1, 16),
    ("nop_cycles_per_count", 1, 8),
    ("branch_cycles", 4, 40),
    ("barrier_shared_cycles", 0, 32),
    ("barrier_alone_cycles", 1, 64),
    ("mfma_operand_cycles", 4, 16),
    ("mfma_dependent_extra", 0, 16),
    ("packed_after_mfma_cycles", 4, 24),
    ("lds_latency", 40, 140),
    ("lds_queue_delay", 4, 24),
    ("lds_queue_depth", 4, 16),
    ("lds_write_cycles_per_dword", 2, 8),
    ("vmem_queue_depth", 2, 8),
    ("vmem_min_cycles", 4, 16),
    ("global_latency", 300, 1500),
    ("global_bytes_in_flight", 24576, 65536),
    ("global_bytes_per_clk", 24, 64),
)
"""Between which values each constant of the model is looked for, whatever chip it is."""
GAIN = 12.0
"""By how much the sum of squared errors must fall for a constant to be freed: 3.5 standard
deviations, since twenty are asked."""
WITHIN = 6.63
"""How far that sum may rise inside an interval: 99 % for one constant."""
_SCANNED = 11


@dataclass(frozen=True, slots=True)
class Constant:
    """What the data say of one constant."""

    name: str
    old: float
    value: float
    low: float
    high: float
    """The interval, of 99 %, within the range that was searched."""
    determined: bool
    """Whether the interval is shorter than the range."""
    loops: tuple[str, ...]
    """Loops that depend on it; none means that nothing was measured that could tell."""

    @property
    def changed(self) -> bool:
        """Whether the data rule the old value out."""
        return self.determined and not self.low <= self.old <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "old": self.old,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "determined": self.determined,
            "changed": self.changed,
            "loops": len(self.loops),
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """The refit: the constants, and how far the model was from the data before and after."""

    target: Target
    """The chip with the constants that the data determine."""
    constants: Mapping[str, Constant]
    before: Mapping[str, float]
    """Relative error of each loop with the old constants."""
    after: Mapping[str, float]
    noise: float
    """By what the stated errors of the measurements had to be multiplied: above 1, the model is
    further off than they say."""

    @property
    def changed(self) -> tuple[str, ...]:
        """The constants whose old value the data rule out."""
        return tuple(name for name, one in self.constants.items() if one.changed)

    @property
    def determined(self) -> tuple[str, ...]:
        """The constants that the data determine."""
        return tuple(name for name, one in self.constants.items() if one.determined)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "arch": self.target.arch,
            "loops": len(self.before),
            "mean_error_before": round(mean_error(self.before.values()), 4),
            "mean_error_after": round(mean_error(self.after.values()), 4),
            "noise": round(self.noise, 2),
            "changed": list(self.changed),
            "constants": {name: one.to_dict() for name, one in self.constants.items()},
        }


def mean_error(errors: Any) -> float:
    """Mean of the absolute relative errors."""
    found = [abs(error) for error in errors]
    return sum(found) / len(found) if found else 0.0


class LoopErrors:
    """Relative error of each loop under given constants, each computed once."""

    def __init__(
        self, loops: Mapping[str, Callable[[Target], float]], machines: Mapping[str, Target]
    ) -> None:
        self._loops, self._bases = loops, machines
        self._machines: dict[tuple[str, Values], Target] = {}
        self._errors: dict[tuple[str, Values], float] = {}
        self.relevant: dict[str, frozenset[str]] = {}
        """The constants that a loop depends on, where that is known: others are left alone."""

    def error(self, loop: str, values: Values) -> float:
        """Modelled over measured, less one."""
        if (asked := self.relevant.get(loop)) is not None:
            values = tuple(one for one in values if one[0] in asked)
        key = (loop, values)
        if key not in self._errors:
            self._errors[key] = self._loops[loop](self._machine(loop, values))
        return self._errors[key]

    def mean(self, loops: Sequence[str], values: Values) -> float:
        """Mean absolute error."""
        return sum(abs(self.error(loop, values)) for loop in loops) / len(loops)

    def evaluated(self) -> tuple[tuple[str, Values], ...]:
        """What has been computed so far, in order: who looked at which loop."""
        return tuple(self._errors)

    def _machine(self, loop: str, values: Values) -> Target:
        machine = self._bases[loop]
        key = (machine.arch, values)
        if key not in self._machines:
            for name, value in values:
                machine = machine.with_value(name, value, "refit")
            self._machines[key] = machine
        return self._machines[key]


def calibrate(
    loops: Sequence[Measured], base: Target, ranges: Sequence[Range] = RANGES
) -> Calibration:
    """Refit the constants of a chip to what was measured on it."""
    mine: dict[str, Measured] = {}
    for loop in loops:
        if loop.arch == base.arch and mine.setdefault(loop.id, loop) is not loop:
            raise ConfigError(
                f"two measurements are called {loop.id!r}",
                hint="give each file once, and each loop an id of its own",
                field="measurements",
            )
    if len(mine) < 2:
        raise ConfigError(
            f"{len(mine)} loops of {base.arch} were measured",
            hint="a refit needs two or more; pipeloom calibrate --probes lists loops to measure",
            field="measurements",
        )
    return _Refit(mine, base, ranges).result()


def _error(loop: Measured, machine: Target) -> float:
    return loop.modelled(machine) / loop.measured - 1.0


class _Refit:
    def __init__(
        self, loops: Mapping[str, Measured], base: Target, ranges: Sequence[Range]
    ) -> None:
        self._base, self._loops = base, loops
        known = dict(base.facts())
        self._old = {name: float(known[name].value) for name, _, _ in ranges if name in known}
        self._ranges = {
            name: (name, min(low, self._old[name]), max(high, self._old[name]))
            for name, low, high in ranges
            if name in known
        }
        errors = {name: partial(_error, loop) for name, loop in loops.items()}
        self._errors = LoopErrors(errors, dict.fromkeys(loops, base))
        self._noise = 1.0
        self._touched: dict[str, tuple[str, ...]] = dict.fromkeys(self._ranges, ())
        self._look(self._old)

    def _look(self, values: Mapping[str, float]) -> bool:
        """Which loops change where a constant moves away from these values; whether any is new."""
        errors, found = self._errors, dict(self._touched)
        errors.relevant = {}
        usual = tuple(values.items())
        for name, low, high in self._ranges.values():
            moved = [tuple({**values, name: at}.items()) for at in points(low, high, 5)]
            found[name] = tuple(
                loop
                for loop in self._loops
                if loop in self._touched[name]
                or any(errors.error(loop, v) != errors.error(loop, usual) for v in moved)
            )
        new, self._touched = found != self._touched, found
        errors.relevant = {
            loop: frozenset(name for name, loops in found.items() if loop in loops)
            for loop in self._loops
        }
        return new

    def _cost(self, values: Values) -> float:
        """The sum of squared errors, in units of what the measurements allow."""
        return sum(
            (self._errors.error(name, values) / (loop.error * self._noise)) ** 2
            for name, loop in self._loops.items()
        )

    def result(self) -> Calibration:
        values, free = self._freed()
        if free and self._look(values):
            values, free = self._freed()
        degrees = max(len(self._loops) - len(free), 1)
        self._noise = max((self._cost(tuple(values.items())) / degrees) ** 0.5, 1.0)
        constants = {name: self._constant(name, values, free) for name in self._ranges}
        target, fitted = self._base, tuple(values.items())
        for name, one in constants.items():
            if one.determined:
                target = target.with_value(name, one.value, "refit")
        usual = tuple(self._old.items())
        return Calibration(
            target,
            constants,
            {name: self._errors.error(name, usual) for name in self._loops},
            {name: self._errors.error(name, fitted) for name in self._loops},
            self._noise,
        )

    def _freed(self) -> tuple[dict[str, float], list[str]]:
        values, free = dict(self._old), list[str]()
        cost = self._cost(tuple(values.items()))
        while True:
            trials = {
                name: refine(self._cost, values, [self._ranges[name]])
                for name, touched in self._touched.items()
                if touched and name not in free
            }
            if not trials:
                return values, free
            chosen = min(trials, key=lambda name: (trials[name][1], name))
            if cost - trials[chosen][1] < GAIN:
                return values, free
            free.append(chosen)
            values, cost = refine(
                self._cost, trials[chosen][0], [self._ranges[name] for name in free]
            )

    def _constant(self, name: str, values: Mapping[str, float], free: Sequence[str]) -> Constant:
        _, low, high = self._ranges[name]
        if not self._touched[name]:
            return Constant(name, self._old[name], values[name], low, high, False, ())
        others = [self._ranges[other] for other in free if other != name]
        best = self._cost(tuple(values.items()))
        steps = sorted({*points(low, high, _SCANNED), values[name]})
        rise = {values[name]: 0.0}
        for at in steps:
            if at != values[name]:
                start = {**values, name: at}
                near = [around(other, values, 0.2) for other in others]
                rise[at] = descend(self._cost, start, near, 5, 1)[1] - best
        inside = [at for at in steps if rise[at] <= WITHIN]
        first, last = inside[0], inside[-1]
        for a, b in pairwise(steps):
            if b == first:
                first = b - (b - a) * _share(WITHIN - rise[b], rise[a] - rise[b])
            if a == last and last == inside[-1]:
                last = a + (b - a) * _share(WITHIN - rise[a], rise[b] - rise[a])
        determined = first > low or last < high
        return Constant(
            name, self._old[name], values[name], first, last, determined, self._touched[name]
        )


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 1.0


def middle(low: float, high: float) -> float:
    """Of a range; whole numbers stay whole."""
    return (low + high) // 2


def points(low: float, high: float, count: int) -> tuple[float, ...]:
    """So many values from low to high, at least a step of 1 apart."""
    if count == 3:
        return low, middle(low, high), high
    found = [low + (high - low) * n / (count - 1) for n in range(count)]
    return tuple(dict.fromkeys(float(round(value)) for value in found))


def descend(
    cost: Cost, start: Mapping[str, float], ranges: Sequence[Range], count: int = 3, passes: int = 2
) -> tuple[dict[str, float], float]:
    """The best values found and their cost, from ``start`` on; constants in the order given."""
    values = dict(start)
    best = cost(tuple(values.items()))
    for _ in range(passes):
        before = dict(values)
        for name, low, high in ranges:
            for candidate in points(low, high, count):
                trial = {**values, name: candidate}
                found = cost(tuple(trial.items()))
                if found < best - _LEAST:
                    best, values = found, trial
        if values == before:
            break
    return values, best


def around(one: Range, values: Mapping[str, float], share: float) -> Range:
    """The part of a range within a share of it on either side of a value."""
    name, low, high = one
    reach = share * (high - low)
    return name, max(low, values[name] - reach), min(high, values[name] + reach)


def refine(
    cost: Cost, start: Mapping[str, float], ranges: Sequence[Range], count: int = 9
) -> tuple[dict[str, float], float]:
    """The same, then again between the neighbours of what was found."""
    values, _ = descend(cost, start, ranges, count)
    near = [around(one, values, 1 / (count - 1)) for one in ranges]
    return descend(cost, values, near, count)
