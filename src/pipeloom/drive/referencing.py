"""Compare what a kernel stores with a function of the user's own, under several timings.

    def f(x, y, by):                       # arrays and numbers by the names of the launch file
        return {"y": x + by}

    compared = compare_with("my.py:f", file, launch)
    compared.agrees, compared.lines()

Order and result are two questions: a kernel whose accesses are all ordered may compute the wrong
thing, in every run alike. So it runs with memory that is prompt and in order, then with operations
that land as late as waits allow, and at random.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.checks import check_known, nearest
from pipeloom.drive.checking import CheckEffort
from pipeloom.drive.kernel_files import KernelFile
from pipeloom.drive.limiting import OverrunError, limited
from pipeloom.drive.python_files import named_object, raised
from pipeloom.errors import SpecError
from pipeloom.judge.emulate import EmulateError, Linked, Timing, run_kernel
from pipeloom.machine_code.launch_arguments import Scalar
from pipeloom.machine_code.launch_buffers import Buffer
from pipeloom.machine_code.launch_elements import CODED_TYPES, NUMPY_TYPES, numbers
from pipeloom.machine_code.launch_file import LaunchSpec
from pipeloom.plain import to_plain

NOMINAL = "memory that is prompt and in order"
SEEDS = 3
"""Random timings, unless fewer are asked for."""
EFFORT = CheckEffort(SEEDS)
TOLERANCES = {"f32": 1e-4, "f64": 1e-9}
"""Of the largest number wanted: sums in another order round otherwise."""
UNITS = 2.5
"""Of types with fewer bits, so many units in the last place of the largest number wanted."""


def usual_tolerance(kind: str) -> float:
    """How far a number may be off, in parts of the largest one; integers are exact."""
    if kind in TOLERANCES:
        return TOLERANCES[kind]
    if kind in CODED_TYPES:
        return float(UNITS * 2.0 ** -CODED_TYPES[kind].mantissa)
    return UNITS * 2.0**-10 if NUMPY_TYPES[kind][0] == "f" else 0.0


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """One buffer after one run."""

    name: str
    """The buffer."""
    elements: int
    """How many numbers were compared."""
    wrong: int
    """How many are further off than allowed."""
    worst: float
    """The largest difference."""
    allowed: float
    """What was allowed."""
    at: tuple[int, ...] = ()
    """Where it is worst, if any is wrong."""
    got: float = 0.0
    """The kernel's number there."""
    wanted: float = 0.0
    """The function's."""

    def __str__(self) -> str:
        if not self.wrong:
            return f"{self.name}: {self.elements} numbers within {self.allowed:.3g}"
        place = "".join(f"[{index}]" for index in self.at)
        return (
            f"{self.name}: {self.wrong} of {self.elements} numbers differ by more than "
            f"{self.allowed:.3g}; {self.name}{place} is {self.got:.6g}, not {self.wanted:.6g}"
        )


@dataclass(frozen=True, slots=True)
class TimedComparison:
    """All outputs after a run with one timing."""

    timing: str
    """In words."""
    outputs: tuple[OutputComparison, ...] = ()
    """Each buffer that the function returns."""
    stopped: str = ""
    """Why the run has no result."""

    @property
    def agrees(self) -> bool:
        """Whether everything is as wanted."""
        return not self.stopped and not any(one.wrong for one in self.outputs)


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """What a kernel computes, beside what a function computes."""

    reference: str
    """The function, as it was named."""
    runs: tuple[TimedComparison, ...]
    """The first with memory that is prompt and in order, then adversarial ones."""

    @property
    def agrees(self) -> bool:
        """Whether every run agrees."""
        return all(run.agrees for run in self.runs)

    @property
    def nominal(self) -> TimedComparison:
        """The run with memory that is prompt and in order."""
        return self.runs[0]

    def summary(self, ordered: bool) -> str:
        """One line; ``ordered`` is what the judgement said."""
        if self.agrees:
            return f"agrees with {self.reference} in {len(self.runs)} timings"
        if not self.nominal.agrees:
            but = "ORDERED BUT WRONG: " if ordered else "WRONG: "
            return f"{but}with {NOMINAL} it is not what {self.reference} computes"
        others = next(run.timing for run in self.runs if not run.agrees)
        return f"WRONG: agrees with {self.reference} with {NOMINAL}, and not with {others}"

    def lines(self) -> tuple[str, ...]:
        """The numbers of the first run that is wrong; of the nominal one where all agree."""
        shown = next((run for run in self.runs if not run.agrees), self.nominal)
        if shown.stopped:
            return (f"with {shown.timing}: {shown.stopped}",)
        return tuple(f"with {shown.timing}: {one}" for one in shown.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain: dict[str, Any] = to_plain(self)
        return {**plain, "agrees": self.agrees}


def compare_with(
    reference: str,
    file: KernelFile,
    launch: LaunchSpec,
    tolerance: float | None = None,
    effort: CheckEffort = EFFORT,
) -> ReferenceResult:
    """Run a kernel under several timings and compare with a function.

    Args:
        reference: The function as ``my.py:f``.
        file: The kernel.
        launch: Its launch.
        tolerance: How far a number may be off, in parts of the largest one wanted; by the type of
            the buffer unless given, integers exactly.
        effort: Random timings, beside the nominal and the late one; what all runs may take.
    """
    found = named_object(reference, "reference")
    if not callable(found):
        raise SpecError(
            f"{reference} is {type(found).__name__}, no function",
            hint="name a function of the launch's buffers that returns its outputs",
            field="reference",
        )
    wanted = _wanted(reference, found, launch)
    timings = [(NOMINAL, Timing.EARLY, 0), ("operations as late as waits allow", Timing.LATE, 0)]
    timings += [
        (f"random timing {seed}", Timing.RANDOM, seed) for seed in range(1, effort.seeds + 1)
    ]
    runs: list[TimedComparison] = []
    try:
        with limited(effort.seconds, effort.megabytes):
            for words, timing, seed in timings:
                most = effort.max_instructions
                runs.append(_run(words, file, launch, wanted, tolerance, timing, seed, most))
    except OverrunError as over:
        runs.append(TimedComparison(timings[len(runs)][0], stopped=f"it takes {over}"))
    return ReferenceResult(reference, tuple(runs))


def _run(
    words: str,
    file: KernelFile,
    launch: LaunchSpec,
    wanted: Mapping[str, Array],
    tolerance: float | None,
    timing: Timing,
    seed: int,
    limit: int,
) -> TimedComparison:
    contents = launch.contents()
    try:
        result = run_kernel(
            file.kernel,
            grid=launch.grid,
            block=launch.block,
            args=launch.placed(contents),
            dynamic_lds=launch.more_lds(),
            timing=timing,
            seed=seed,
            check_races=False,
            check_wait_states=False,
            max_findings=1000,
            max_instructions=limit,
        )
    except EmulateError as error:
        return TimedComparison(words, stopped=error.message)
    if result.stopped:
        return TimedComparison(words, stopped=result.stopped)
    own = launch.buffers()
    outputs = (
        _compared(own[name], contents[name], want, tolerance) for name, want in wanted.items()
    )
    return TimedComparison(words, tuple(outputs))


def _given(launch: LaunchSpec) -> dict[str, Any]:
    """Arrays and numbers by name, as the function takes them."""
    contents, buffers = launch.contents(), launch.buffers()
    given: dict[str, Any] = {
        name: numbers(array, buffers[name].element, buffers[name].whole_shape())
        for name, array in contents.items()
        if not isinstance(array, Linked)
    }
    for one in launch.args:
        if isinstance(one, Buffer) and one.same_as in given and not one.byte:
            given.setdefault(one.name, given[one.same_as])
        if isinstance(one, Scalar):
            given[one.name] = one.number().item()
    return given


def _wanted(reference: str, function: Callable[..., Any], launch: LaunchSpec) -> dict[str, Array]:
    """What the function returns, by buffer."""
    given = _given(launch)
    parameters = inspect.signature(function).parameters.values()
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        for one in parameters:
            if one.default is one.empty:
                said = f"{reference} takes {one.name}, which the launch does not have"
                check_known(one.name, given, said, "reference", SpecError)
        given = {one.name: given[one.name] for one in parameters if one.name in given}
    try:
        returned = function(**given)
    except Exception as error:
        raise raised(reference, error, f"{reference} raised", "reference") from error
    if not isinstance(returned, Mapping) or not returned:
        raise SpecError(
            f"{reference} returns {type(returned).__name__}, and no outputs by name",
            hint='return {"out": array}',
            field="reference",
        )
    return {str(name): _array(reference, launch, str(name), returned[name]) for name in returned}


def _array(reference: str, launch: LaunchSpec, name: str, value: Any) -> Array:
    aliases = {one.name: one.same_as for one in launch.args if isinstance(one, Buffer)}
    buffer = launch.buffers().get(name)
    if buffer is None:
        same = f"; name {aliases[name]}, which it is the same as" if aliases.get(name) else ""
        raise SpecError(
            f"{reference} returns {name!r}, which is no buffer of the launch{same}",
            hint=nearest(name, launch.buffers()),
            field="reference",
        )
    try:
        found = np.asarray(value, np.float64 if buffer.type[0] not in "iu" else None)
        return found.reshape(buffer.whole_shape())
    except (ValueError, TypeError) as error:
        raise SpecError(
            f"{reference} returns a {name} that does not fit the buffer: {error}",
            hint=f"it has the shape {list(buffer.whole_shape())}",
            field="reference",
        ) from error


def _compared(
    buffer: Buffer, after: Array | Linked, want: Array, tolerance: float | None
) -> OutputComparison:
    array = after.array if isinstance(after, Linked) else after
    shape = buffer.whole_shape()
    got = numbers(array, buffer.element, shape).astype(np.longdouble)
    want = want.astype(np.longdouble)
    share = usual_tolerance(buffer.element) if tolerance is None else tolerance
    finite = np.abs(want[np.isfinite(want)])
    allowed = share * float(finite.max(initial=0))
    with np.errstate(invalid="ignore"):
        off = np.abs(got - want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    off = np.where(same, 0, np.where(np.isnan(off), np.inf, off))
    wrong = off > allowed
    if not wrong.any():
        worst = float(off.max(initial=0))
        return OutputComparison(buffer.name, got.size, 0, worst, allowed)
    at = tuple(int(one) for one in np.unravel_index(int(np.argmax(off)), shape))
    return OutputComparison(
        buffer.name,
        got.size,
        int(wrong.sum()),
        float(off[at]),
        allowed,
        at,
        float(got[at]),
        float(want[at]),
    )
