"""What is said of programs in files that somebody changed in one place: a row for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from benchmarks.kernel_results import bare, digest
from benchmarks.random_loops import Shape, random_problem
from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, conv2d, gemm, gemm_weights, grouped
from pipeloom.errors import ScheduleError
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.order.modulo import ModuloProblem, least_ii
from pipeloom.program import Program
from pipeloom.program.idle import idles_past_end
from tests.declarations import attention_cases, carry_cases, length_cases

LOOPS: Mapping[str, Callable[[], Loop]] = {
    "gemm": lambda: gemm(16, 16, 32),
    "grouped": lambda: grouped(16, 16, 32),
    "conv2d": lambda: conv2d(16, 16, 16),
    "weights": lambda: gemm_weights(16, 16, 64, "i4", group=32),
    "causal": lambda: attention(16, 32, 32, causal=True),
    "window": attention_cases.sliding_window.declare,
    "pages": attention_cases.document_mask_from_arrays.declare,
    "carries": carry_cases.mean_and_variance_in_one_pass.declare,
    "lengths": length_cases.CASES[0].declare,
}
JUDGED = ("gemm", "carries")
EACH = 45
PROBLEMS = 200
UNUSED = ("target", "provenance", "name")
"""What is not changed."""
Path = tuple[str | int, ...]


def damaged_rows() -> dict[str, dict[str, str]]:
    """By loop and change: why the program is refused, or what becomes of it."""
    found = {}
    for name, make in LOOPS.items():
        rng = Random(name)
        program = arrange(make(), target_for("gfx950"), 1, strategy=in_order).program
        plain: dict[str, Any] = json.loads(json.dumps(program.to_dict()))
        leaves = [
            leaf for leaf in _leaves(plain) if leaf[0] not in ("target", "provenance", "name")
        ]
        meant = [leaf for leaf in leaves if leaf[0] == "meaning"]
        rows = {}
        for number in range(EACH):
            path = rng.choice(meant if number % 2 else leaves)
            other = _other(rng, _at(plain, path), [_at(plain, leaf) for leaf in leaves])
            place = ".".join(map(str, path))
            rows[f"{place} = {other!r}"] = _said(_changed(plain, path, other), name in JUDGED)
        found[name] = rows
    return found


def damaged_modulo_rows() -> dict[str, str]:
    """The same of modulo problems: why one is refused, or how long its loop is at least."""
    found = {}
    for seed in range(PROBLEMS):
        rng = Random(seed)
        shape = Shape(ops=5, lifetimes=True)
        plain: dict[str, Any] = random_problem(seed, shape).to_dict()
        leaves = [leaf for leaf in _leaves(plain) if leaf[0] not in ("format", "name")]
        path = rng.choice(leaves)
        other = _other(rng, _at(plain, path), [_at(plain, leaf) for leaf in leaves])
        try:
            said = str(least_ii(ModuloProblem.from_dict(_changed(plain, path, other))))
        except ScheduleError as error:
            said = " ".join(str(error).split())
        found[f"{seed}: {'.'.join(map(str, path))} = {other!r}"] = said
    return found


def _leaves(plain: Any, path: Path = ()) -> Iterator[Path]:
    items: Any = ()
    if isinstance(plain, dict):
        items = plain.items()
    elif isinstance(plain, list):
        items = enumerate(plain)
    else:
        yield path
    for key, value in items:
        yield from _leaves(value, (*path, key))


def _at(plain: Any, path: Path) -> Any:
    for key in path:
        plain = plain[key]
    return plain


def _other(rng: Random, value: Any, values: list[Any]) -> Any:
    """Another value of the same sort."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice((0, -1, 1, value + 1, value - 1, 2 * value, 3))
    if value is None:
        return rng.choice((0, 1, 2, 40, -1, "none", True))
    same = sorted({v for v in values if isinstance(v, str) and v != value})
    return rng.choice(same)


def _changed(plain: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    key, *rest = path
    changed: Any = dict(plain) if isinstance(plain, dict) else list(plain)
    changed[key] = _changed(plain[key], tuple(rest), value)
    return changed


def _said(plain: dict[str, Any], judged: bool) -> str:
    try:
        program = Program.from_dict(plain)
        said = ["idle past the end"] if idles_past_end(program.meaning) else []
        if judged:
            said += [str(finding) for finding in verify(program).findings]
        return f"taken: {digest(f'{said}{bare(program)}')}"
    except ScheduleError as error:
        return " ".join(str(error).split())
