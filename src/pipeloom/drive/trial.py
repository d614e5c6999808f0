"""Try the kernel of any program: run it in the emulator and compare with what it means in NumPy.

    emitted = emit_program(program, judge=verify)
    trial = run_program(emitted, assemble(emitted), sizes={"m": 250, "n": 250, "k": 512}, seed=3)
    trial.ok, trial.summary()

Inputs are made up from the seed: small integers, so that sums are exact, or normal numbers. Rows of
outputs have spare elements that the kernel must leave alone; rows of inputs may have some, full of
NaN, that it must not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pipeloom.checks import check_known, plain_int
from pipeloom.drive.array_places import UNTOUCHED, ArrayPlace
from pipeloom.drive.index_trials import (
    check_stored_once,
    filled,
    filled_sizes,
    gaps,
    made_up_indices,
    overwritten,
)
from pipeloom.drive.runners import InEmulator, Launched, Runner
from pipeloom.judge.emulate import (
    CodeKernel,
    Defect,
    LaunchError,
    Timing,
    load_code_object,
)
from pipeloom.judge.execute.allowed import BoundsCheck, allowed, outside
from pipeloom.machine.dtypes import I32
from pipeloom.machine.source_lines import LineMap
from pipeloom.program import VOCABULARY, Vocabulary, evaluate
from pipeloom.program.block_values import is_exact
from pipeloom.program.evaluate import by_element
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import POSITIVE, Node, NodeKind
from pipeloom.write import AssembledCode, EmittedKernel, launch_record
from pipeloom.write.launch import check_sizes, scalars_of
from pipeloom.write.lower.global_arrays import argument_dims, stride_name
from pipeloom.write.timings import WaveTimings, read_timings

Array = npt.NDArray[Any]

SPARE = 4


class Data(Enum):
    """What inputs hold."""

    INTEGERS = "integers"
    """Small whole numbers, so that sums are exact in any order."""
    NORMAL = "normal"
    """Normally distributed numbers."""


@dataclass(frozen=True, slots=True)
class Launchable:
    """A code object ready to run: loaded once, run often."""

    emitted: EmittedKernel
    """The kernel as it was emitted."""
    kernel: CodeKernel
    """The kernel as it was loaded."""
    line_map: LineMap
    """Where each instruction comes from, by byte offset."""

    @classmethod
    def load(cls, emitted: EmittedKernel, code: AssembledCode) -> Launchable:
        """Load the code object.

        Args:
            emitted: What ``emit`` returned.
            code: What ``assemble`` made of it.
        """
        kernel = load_code_object(code.data).kernel(emitted.name)
        return cls(emitted, replace(kernel, chip=emitted.resources.target), code.line_map)


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a kernel in the emulator, compared with NumPy."""

    sizes: Mapping[str, int]
    """The size of every dimension."""
    seed: int
    """What data, timing and the order of waves were drawn from."""
    findings: tuple[Defect, ...]
    """What the emulator saw go wrong: reads that no wait guards, accesses outside of buffers."""
    wrong: Mapping[str, int]
    """Elements that differ, by output."""
    worst: float
    """The largest difference, relative to what is allowed."""
    spoilt: int
    """Bytes written outside the outputs."""
    executed: int
    """Instructions executed, over all waves."""
    outputs: Mapping[str, Array] = field(default_factory=dict, repr=False, compare=False)
    """The output arrays."""
    timings: WaveTimings | None = field(default=None, repr=False, compare=False)
    """What a timed kernel recorded of its waves, by the emulator's clock, which counts
    instructions."""
    unbounded: Mapping[str, int] = field(default_factory=dict)
    """Elements that may be as large as may be, by output that has some: sums of theirs may overflow
    in some order."""
    untested: tuple[str, ...] = ()
    """Outputs all of whose elements are unbounded: the data shows nothing of them."""

    @property
    def ok(self) -> bool:
        """No finding, every element right, nothing written outside the outputs, and of every output
        something that could have been wrong."""
        return not (self.findings or any(self.wrong.values()) or self.spoilt or self.untested)

    def summary(self) -> str:
        """One line."""
        what = " ".join(f"{d}={n}" for d, n in self.sizes.items()) + f" seed {self.seed}"
        if self.ok:
            free = f", {sum(self.unbounded.values())} elements unbounded"
            return f"{what}: correct ({self.executed} instructions{free if self.unbounded else ''})"
        parts = []
        if self.findings:
            parts.append(f"{len(self.findings)} finding(s), first: {self.findings[0]}")
        parts += [
            f"{count} elements of {name} wrong" for name, count in self.wrong.items() if count
        ]
        if self.spoilt:
            parts.append(f"{self.spoilt} bytes written outside the outputs")
        said = "WRONG" if parts else "NOT COMPARED"
        parts += [
            f"every element of {name} is unbounded, as sums may overflow" for name in self.untested
        ]
        return f"{what}: {said}: " + "; ".join(parts)


def run_program(
    emitted: EmittedKernel,
    code: AssembledCode | Launchable,
    *,
    sizes: Mapping[str, int],
    seed: int = 0,
    data: Data = Data.INTEGERS,
    timing: Timing = Timing.RANDOM,
    scalars: Mapping[str, float] | None = None,
    spare: Mapping[str, int] | None = None,
    order: Mapping[str, tuple[str, ...]] | None = None,
    arrays: Mapping[str, Array] | None = None,
    ops: Vocabulary = VOCABULARY,
    check_races: bool = True,
    runner: Runner | None = None,
) -> Trial:
    """Run the kernel once. ``seed`` decides the data, the timing and the order of waves.

    ``spare`` are further elements of the rows of an array, by its name; ``order`` says how its
    dimensions lie in memory, outermost first, if not in their own order; ``arrays`` are inputs that
    are not made up. Each element must lie within bounds of its own, which follow from the data:
    where no order of its sums rounds, it must be exact. ``runner`` launches it elsewhere than in
    the emulator.
    """
    launch = emitted.launch
    seed = plain_int(seed)
    if type(seed) is not int or seed < 0:
        raise LaunchError(f"seed is {seed!r}", hint="it must be 0 or more, whole", field="seed")
    data, timing = _choice("data", data, Data), _choice("timing", timing, Timing)
    meaning = launch.meaning
    sizes = meaning.all_sizes(whole_sizes(sizes))
    check_sizes(meaning, sizes)
    asked, sizes = sizes, filled_sizes(launch, sizes)
    given = scalar_values(meaning, scalars or {})
    inputs = (*meaning.inputs, *meaning.index_arrays)
    nodes = (*inputs, *meaning.outputs)
    extra = {node.name: SPARE for node in meaning.outputs} | gaps(launch, sizes)
    extra |= dict(spare or {})
    places = {n.name: ArrayPlace.of(n, sizes, extra, (order or {}).get(n.name)) for n in nodes}
    pitches = {n.name: places[n.name].pitch for n in nodes}
    strides = {stride_name(n.name, d): places[n.name].stride(d) for n in nodes for d in n.outer}
    launch.check(sizes, pitches, strides)
    ready = code if isinstance(code, Launchable) else Launchable.load(emitted, code)
    values = {
        node.name: made_up(node, asked, seed + 1_000_003 * at, data)
        for at, node in enumerate(meaning.inputs)
    }
    values |= made_up_indices(meaning, asked)
    values |= _given(meaning, asked, _mapping("arrays", arrays))
    added = [node for node in meaning.outputs if node.adds]
    for node in added:
        values.setdefault(node.name, made_up(node, asked, seed + 7, data))
    values |= {n.name: filled(values[n.name], n, sizes) for n in (*meaning.inputs, *added)}
    kept = check_stored_once(meaning, values, sizes)
    buffers = {n.name: places[n.name].encoded(values[n.name]) for n in inputs}
    buffers |= {n.name: places[n.name].blank() for n in meaning.outputs}
    for node in added:
        places[node.name].shown(buffers[node.name])[...] = values[node.name]
    grid = launch.grid(sizes)
    times = {} if emitted.timing is None else emitted.timing.values(grid)
    shown = {name: places[name].shown(array) for name, array in buffers.items()}
    if runner is None:
        kernels = {emitted.name: (ready.kernel, ready.line_map)}
        runner = InEmulator(launch_record(emitted), kernels, seed, timing, check_races)
    own = {name: value for name, value in times.items() if isinstance(value, np.ndarray)}
    launched = Launched()
    if prod(grid):  # nobody is launched for no element of any output
        launched = runner({**shown, **own}, given)
    spoilt = launched.spoilt
    timings = None
    if emitted.timing is not None:
        timings = read_timings(times[emitted.timing.pointer], emitted.timing)
    expected, bounds = evaluate(meaning, values, given, ops, sizes), dict[str, Array]()
    if data is not Data.INTEGERS or arrays or scalars or not is_exact(meaning):
        bounds = allowed(meaning, values, given, ops, sizes)
    compared, found = dict[str, BoundsCheck](), dict[str, Array]()
    for node in meaning.outputs:
        stored, row = buffers[node.name], -(-places[node.name].row // node.type.dtype.covers)
        got = found[node.name] = places[node.name].decoded(stored)
        if node.name in kept:
            spoilt += overwritten(places[node.name].shown(stored), kept[node.name])
            got = np.where(kept[node.name], got, expected[node.name])
        compared[node.name] = outside(got, expected[node.name], bounds.get(node.name))
        left = np.ascontiguousarray(stored[..., row:]).view(np.uint8)
        spoilt += int((left != UNTOUCHED).sum())
    seen, count = launched.findings, launched.executed
    wanted = argument_dims(meaning)
    sizes = {dim: size for dim, size in asked.items() if dim in wanted}
    return Trial(
        sizes,
        seed,
        seen,
        {name: one.wrong for name, one in compared.items()},
        max((one.worst for one in compared.values()), default=0.0),
        spoilt,
        count,
        found,
        timings,
        {name: one.unbounded for name, one in compared.items() if one.unbounded},
        tuple(name for name, one in compared.items() if one.empty),
    )


def whole_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes by dimension, whole numbers of any kind as ``int``; ``LaunchError`` for no mapping."""
    return {dim: plain_int(size) for dim, size in _mapping("sizes", sizes or 0).items()}


def _mapping(field: str, given: Any) -> Mapping[str, Any]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    raise LaunchError(
        f"{field} is {given!r}, but must be a mapping",
        hint=f'give them by name: {field}={{"m": ...}}',
        field=field,
    )


Choice = TypeVar("Choice", bound=Enum)


def _choice(field: str, given: object, kind: type[Choice]) -> Choice:
    """A member of ``kind``, or the one of that name."""
    names = [str(member.value) for member in kind]
    if not isinstance(given, kind):
        check_known(given, names, f"{field} is {given!r}", field, LaunchError)
    return kind(given)


def _given(
    meaning: Meaning, sizes: Mapping[str, int], arrays: Mapping[str, Any]
) -> dict[str, Array]:
    """Inputs that are not made up, as their types hold them."""
    known = {n.name: n for n in (*meaning.inputs, *meaning.index_arrays)}
    known |= {n.name: n for n in meaning.outputs if n.adds}
    found = {}
    for name, array in arrays.items():
        check_known(name, known, f"{meaning.name} has no input {name!r}", name, LaunchError)
        shape = tuple(sizes[dim] for dim in known[name].dims)
        try:
            whole = known[name].type.dtype == I32
            values = np.asarray(array, np.int32 if whole else np.float32)
        except (TypeError, ValueError) as error:
            raise LaunchError(
                f"the array for {name!r} is no array of numbers: {error}",
                hint=f"pass one of shape {shape}",
                field=name,
            ) from error
        values = by_element(known[name], values, sizes)
        if values.shape != shape:
            raise LaunchError(
                f"the array for {name!r} has shape {values.shape}, but the sizes make it {shape}",
                hint=f"its dimensions are {', '.join(known[name].dims)}",
                field=name,
            )
        found[name] = values if whole else known[name].type.dtype.round(values)
    return found


def scalar_values(meaning: Meaning, scalars: Mapping[str, float]) -> dict[str, float]:
    """Each scalar as given, or as usual; ``LaunchError`` for one that is neither, or unknown."""
    usual = {n.name: n.start for n in meaning.nodes if n.kind is NodeKind.SCALAR}
    scalars = _mapping("scalars", scalars)
    for name in scalars:
        check_known(name, usual, f"{meaning.name} has no scalar {name!r}", name, LaunchError)
    given = {name: value for name, value in usual.items() if value is not None}
    for name, value in scalars.items():
        if not isinstance(value, Real):
            raise LaunchError(f"the scalar {name!r} is {value!r}", hint="pass a number", field=name)
        given[name] = float(value)
    for name in scalars_of(meaning):
        if name not in given:
            raise LaunchError(
                f"{meaning.name} needs the scalar {name!r}",
                hint=f"pass scalars={{{name!r}: ...}}",
                field=name,
            )
        if meaning[name].positive and not POSITIVE[0] <= given[name] <= POSITIVE[1]:
            raise LaunchError(
                f"{meaning.name} relies on a positive {name!r}, and is given {given[name]}",
                hint=f"pass a {name} above 0: from {POSITIVE[0]:.2g} to {POSITIVE[1]:.2g}",
                field=name,
            )
    return given


def made_up(node: Node, sizes: Mapping[str, int], seed: int, data: Data) -> Array:
    """An input's values, as its type holds them; block scales are powers of two near 1."""
    rng = np.random.default_rng(seed)
    shape = [sizes[dim] for dim in node.dims]
    covers = node.type.dtype.covers
    if covers > 1:
        blocks = np.exp2(rng.integers(-2, 3, [*shape[:-1], -(-shape[-1] // covers)]))
        return np.repeat(blocks, covers, axis=-1)[..., : shape[-1]].astype(np.float32)
    if data is Data.INTEGERS:
        values = rng.integers(-3, 4, shape).astype(np.float32)
    else:
        values = rng.standard_normal(shape).astype(np.float32)
    return node.type.dtype.round(values)
