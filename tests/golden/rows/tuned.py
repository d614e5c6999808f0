"""What tuning chooses of costs that are drawn, for a few problems: a row for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from benchmarks.kernel_results import digest
from pipeloom.declare.gemm_problem import Finish, GemmProblem
from pipeloom.device.hip_errors import DeviceError
from pipeloom.drive.gemm import GemmSpec
from pipeloom.drive.store import Store
from pipeloom.errors import ScheduleError
from pipeloom.judge.simulate.whole_gpu import BlockCost
from pipeloom.machine.gpus import gpu_for
from pipeloom.plain import to_plain
from pipeloom.tuning import candidates
from pipeloom.tuning.binding import DISPATCH, FORMAT, Library, chosen
from pipeloom.tuning.candidates import blocks, bounds, checked_cost
from pipeloom.tuning.engines import Done
from pipeloom.tuning.ranking import LIBRARIES, WRITTEN, Ranked, rank
from pipeloom.tuning.search import tune
from pipeloom.tuning.shapes import DTYPES, problems

SIDES = (32, 128, 256)
PROBLEMS = (
    GemmProblem(2048, 2048, 2048),
    GemmProblem(1000, 300, 8192, layout="TN"),
    GemmProblem(128, 8192, 513, batches=3, finish=Finish(beta=True)),
    GemmProblem(64, 64, 65536),
    GemmProblem(512, 384, 16384, "mxfp4", "bf16"),
)
SHAPES = (
    ((40, 9000), (40, 500)),
    ((300, 96), (96, 4)),
    ((2, 5, 7), (2, 5, 3)),
    ((3,), (3, 3)),
    ((3, 3), (3,)),
)
WORDS = (
    *("4096x4096x8192", "1 2 3", "16;32;64", "llama-3-8b", "qwen-3-32b", "LLAMA-3-70B"),
    *("0x1x2", "4096x4096", "llama-3", "shapes.txt", "", "-3x4x5"),
)


class Drawn:
    """Times a block by a draw that depends on the job alone; some fit nowhere."""

    workers = 2

    def __init__(self, least: dict[GemmSpec, BlockCost]) -> None:
        self._least, self._jobs = least, list[GemmSpec]()

    def submit(self, job: GemmSpec) -> None:
        self._jobs.append(job)

    def next(self) -> Done:
        job = self._jobs.pop()
        draw = Random(str(to_plain(job))).random()
        least = self._least[replace(job, short_ends=False)]
        slow = replace(least, cycles=least.cycles * (1 + draw / 5), ends=2000 * draw + 900)
        return job, None if draw > 7 / 8 else slow

    def stop(self) -> None:
        self._jobs.clear()


def tuned_rows() -> dict[str, Any]:
    """Blocks and their bounds, the plans that are best of each, and what a search ends with."""
    found: dict[str, Any] = {
        f"blocks of {dtype}": f"{len(list(blocks(dtype)))}, {digest(str(list(blocks(dtype))))}"
        for dtype in DTYPES
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "SIDES", SIDES)
        for number, problem in enumerate(PROBLEMS):
            gpu = gpu_for(("MI355X", "MI300X")[number == 1])
            least = bounds(gpu.target, problem.dtype, Store(None), problem.layout)
            costs = [f"{job.block} {cost}" for job, cost in least.items()]
            ranked = {
                how: [_plan(one) for one in rank(gpu, problem, least, w)]
                for how, w in (("written", WRITTEN), ("libraries", LIBRARIES))
            }
            (tuned,) = tune([problem], gpu, engine=partial(Drawn, least), store=Store(None))
            row = {name: str(value) for name, value in tuned.to_dict().items()}
            timed = [f"{t.block} {t.bound_us:.5g} {t.us and round(t.us, 2)}" for t in tuned.trials]
            found[f"{problem} on {gpu.chip}"] = {
                "bounds": [costs[0], f"{len(costs)}, {digest(str(costs))}"],
                **{how: [*rows[:3], digest(str(rows))] for how, rows in ranked.items()},
                **row,
                "trials": timed,
                "spec": str(to_plain(tuned.spec)),
            }
    return found


def _plan(one: Ranked) -> str:
    waits = ", waiting for loads" if one.waits else ""
    return f"{one.job.block} {one.plan}: {one.prediction.seconds * 1e6:.6g} us{waits}"


def asked_rows() -> dict[str, str]:
    """What words ask for, what costs are refused, and which entry of a library serves a shape."""
    found = {}
    for number, word in enumerate(WORDS):
        dtype = DTYPES[number % len(DTYPES)]
        found[f"{word!r} in {dtype}"] = _said(partial(problems, [word], dtype, (16, 48)))
    good = BlockCost(600.0, 1500.0, 512.0, "matrix unit", 2, 3)
    limit = float(candidates.MOST_CYCLES)
    drawn: tuple[tuple[str, tuple[Any, ...]], ...] = (
        *(("cycles", (0.0, 1e-9, limit, limit - 1)), ("ends", (-limit, limit, 1 - limit))),
        *(("matrix", (-1.0, 0.0, limit)), ("least", (-1, 0, 1 << 40)), ("step", (0, 1, 1 << 40))),
        *(("resident", (0, 1, 1 << 40)), ("busy", (-1.0, 0.0, limit))),
        ("unit", ("", "a" * 41, "LDS-array")),
    )
    for name, values in drawn:
        for value in values:
            cost = replace(good, **{name: value})
            found[f"{name} of {value}"] = _said(partial(checked_cost, cost))
    return found | dict(_libraries())


def _said(ask: Callable[[], object]) -> str:
    try:
        said = ask()
    except (ScheduleError, DeviceError) as error:
        return " ".join(str(error).split())
    return ", ".join(map(str, said)) if isinstance(said, tuple) else str(said)


def _libraries() -> Iterator[tuple[str, str]]:
    rng = Random(4)
    sizes: list[Sequence[int]] = [rng.choices((16, 96, 512, 4096, 20000), k=3) for _ in range(6)]
    sizes += [(64, 64, 2**n) for n in range(4, 15)]
    entries = [{"kernel": n, "m": m, "n": k, "k": j} for n, (m, k, j) in enumerate(sizes)]
    for _ in range(20):
        m, n, k = (rng.choice((0, 1, 17, 300, 1111, 9000)) for _ in range(3))
        yield f"nearest to {m}x{n}x{k}", f"{chosen(entries, m, n, k)}"
    for layout, dtype in product(("NT", "TN"), ("bf16", "fp4")):
        table = {"format": FORMAT, "layout": layout, "dtype": dtype, "entries": entries}
        with TemporaryDirectory() as folder:
            (Path(folder) / DISPATCH).write_text(json.dumps(table), "utf-8")
            library = Library(folder)
            for left, out in SHAPES:
                said = _said(partial(library._entry, left, out))
                yield f"{layout} {dtype} of {left} and {out}", said
