"""One declaration and what should become of it: the form of every file beside this one.

A case is a declaration as people write it and a NumPy function of the whole arrays, written
without pipeloom. ``right`` ones are accepted, proved, emitted and right in the emulator at every
size listed; those without a function are refused, when declared or pipelined, with a remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import pipeloom as pl
from pipeloom.order.in_order import in_order

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
NEAR = {"f32": 2.0**-14, "bf16": 2.0**-7, "fp16": 2.0**-9, "fp8": 2.0**-3} | dict.fromkeys(
    ("i8", "u8", "i32"), 0.0
)
"""Of the largest result: half a unit of the output's type, and what the way there loses."""


@dataclass(frozen=True)
class Case:
    """A declaration, and what should become of it."""

    declare: Callable[[], pl.Loop]
    numpy: Callable[..., Any] | None = None
    """Of arrays and scalars by name: the output, or a dictionary of them; None if refused."""
    sizes: tuple[Sizes, ...] = ()
    arrays: Callable[[np.random.Generator, Sizes], Arrays] | None = None
    """Inputs that are not just normal numbers."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    waves: int = 1
    chip: str = "gfx950"
    near: float | None = None
    """The error allowed, of the largest result; what the output's type makes of it unless given."""
    steps: float = 0.0
    """The error allowed in whole numbers: of a tie that rounds the other way."""

    @property
    def name(self) -> str:
        """What tests call it."""
        return self.declare.__name__


def right(
    numpy: Callable[..., Any], *sizes: Sizes, **more: Any
) -> Callable[[Callable[[], pl.Loop]], Case]:
    """The declaration below is accepted and computes what ``numpy`` does."""
    return lambda declare: Case(declare, numpy, sizes, **more)


def refused(declare: Callable[[], pl.Loop]) -> Case:
    """The declaration below is refused, with a remedy."""
    return Case(declare)


def listed(names: Mapping[str, object]) -> tuple[Case, ...]:
    """The cases of a module, from its ``globals()``."""
    return tuple(case for case in names.values() if isinstance(case, Case))


def accepted(case: Case, strategy: Any = in_order) -> tuple[pl.Loop, pl.Program]:
    """The program of a declaration, in the cheapest order; ``ScheduleError`` if refused."""
    loop = case.declare()
    return loop, pl.pipeline(loop, case.chip, waves=case.waves, strategy=strategy)


def check_right(case: Case, strategy: Any = in_order) -> None:
    """Raise ``AssertionError`` unless it is proved, and right at every size."""
    loop, program = accepted(case, strategy)
    assert pl.verify(program).proved
    emitted = pl.emit(program, ops=loop.ops)
    for seed, sizes in enumerate(case.sizes):
        inputs = made(case, loop, sizes, seed)
        trial = pl.run(
            emitted, sizes=sizes, ops=loop.ops, arrays=inputs, scalars=case.scalars, seed=seed
        )
        assert not trial.findings, trial.summary()
        assert not trial.spoilt, trial.summary()
        compare(case, loop, inputs, trial.outputs, f"kernel, {dict(sizes)}")


def made(case: Case, loop: pl.Loop, sizes: Sizes, seed: int) -> dict[str, Array]:
    """Inputs of a run, as their types hold them."""
    rng = np.random.default_rng(seed)
    given = {} if case.arrays is None else case.arrays(rng, sizes)
    found = {}
    for node in loop.meaning.inputs:
        shape = [sizes[dim] for dim in node.dims]
        whole = node.type.dtype.is_integer
        usual = rng.integers(-4, 5, shape) if whole else rng.standard_normal(shape)
        found[node.name] = node.type.dtype.round(np.asarray(given.get(node.name, usual)))
    return found


def compare(case: Case, loop: pl.Loop, inputs: Arrays, outputs: Arrays, what: str) -> None:
    """Raise ``AssertionError`` for outputs that are not what NumPy computes in double precision."""
    assert case.numpy is not None
    wide = {name: np.asarray(array, np.float64) for name, array in inputs.items()}
    with np.errstate(all="ignore"):
        wanted = case.numpy(**wide, **case.scalars)
    wanted = wanted if isinstance(wanted, dict) else {"out": wanted}
    assert set(wanted) == set(outputs), what
    for node in loop.meaning.outputs:
        want, got = np.asarray(wanted[node.name], np.float64), outputs[node.name]
        assert got.shape == want.shape, f"{what}: {node.name} is {got.shape}, not {want.shape}"
        near = NEAR[node.type.dtype.name] if case.near is None else case.near
        finite = np.isfinite(want)
        largest = np.abs(want[finite]).max(initial=0.0)
        np.testing.assert_array_equal(finite, np.isfinite(got), f"{what}: {node.name}")
        np.testing.assert_allclose(
            got[finite],
            want[finite],
            rtol=0,
            atol=near * largest + case.steps,
            err_msg=f"{what}: {node.name}",
        )
        np.testing.assert_array_equal(got[~finite], want[~finite], f"{what}: {node.name}")
