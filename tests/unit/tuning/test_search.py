"""The search: its answer is the best of the space, whoever computed it, in whatever order."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.gemm import GemmSpec
from pipeloom.drive.store import FILE, Store, digest, version
from pipeloom.errors import InternalError, ScheduleError
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost
from pipeloom.machine.gpus import gpu_for
from pipeloom.plain import to_plain
from pipeloom.tuning import candidates, engines, search
from pipeloom.tuning.candidates import block_spec, bounds, cost_key
from pipeloom.tuning.engines import Done, Inline
from pipeloom.tuning.ranking import rank
from pipeloom.tuning.search import TuneProgress, tune

GPU = gpu_for("MI355X")
SIDES = (64, 128, 256)
SHAPES = [GemmProblem(2048, 2048, 2048), GemmProblem(1000, 300, 4096), GemmProblem(128, 8192, 512)]


@cache
def _bounds() -> dict[GemmSpec, BlockCost]:
    return bounds(GPU.arch, "bf16", Store(None))


def _timed(job: GemmSpec) -> BlockCost | None:
    """Some cost above the bound that depends on the job alone; one block in eight fits nowhere."""
    draw = random.Random(repr(job)).random()
    least = _bounds()[replace(job, short_ends=False)]
    slow = BlockCost(least.cycles * (1 + draw / 5), 2000 * draw + 1200, least.matrix, least.unit)
    return None if draw > 7 / 8 else slow


def _all_jobs() -> list[GemmSpec]:
    return [one for job in _bounds() for one in (job, replace(job, short_ends=True))]


class Shuffled:
    """Gives jobs back in a random order."""

    def __init__(self, workers: int, seed: int) -> None:
        self.workers, self.seen = workers, 0
        self._draw = random.Random(seed)
        self._jobs: list[GemmSpec] = []

    def submit(self, job: GemmSpec) -> None:
        self._jobs.append(job)

    def next(self) -> Done:
        self.seen += 1
        job = self._jobs.pop(self._draw.randrange(len(self._jobs)))
        return job, _timed(job)

    def stop(self) -> None:
        self._jobs.clear()


@pytest.fixture(autouse=True)
def small_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "SIDES", SIDES)
    monkeypatch.setattr(search, "bounds", lambda *_: _bounds())


def test_the_answer_is_the_best_of_all(tmp_path: Path) -> None:
    found = tune(SHAPES, GPU, engine=lambda: Shuffled(1, 0), store=Store(tmp_path), close=1.0)
    costs = {job: cost for job in _bounds() if (cost := _timed(job)) is not None}
    for one in found:
        fastest = rank(GPU, one.problem, costs)
        # Of a loop that waits for loads there is one with shorter ends.
        short = [replace(ranked.job, short_ends=True) for ranked in fastest if ranked.waits]
        more = {job: cost for job in short if (cost := _timed(job)) is not None}
        best = rank(GPU, one.problem, {**costs, **more})[0]
        assert (one.plan, one.prediction) == (best.plan, best.prediction)
        assert len(one.trials) < one.candidates
        assert one.complete
        assert one.open_us >= one.prediction.seconds * 1e6


def test_workers_and_order_change_nothing(tmp_path: Path) -> None:
    answers = [
        tune(SHAPES, GPU, engine=lambda w=w, s=s: Shuffled(w, s), store=Store(tmp_path / f"{w}{s}"))  # type: ignore[misc]
        for w, s in ((1, 0), (4, 1), (7, 2))
    ]
    assert answers[0] == answers[1] == answers[2]
    # The second time nothing is asked of an engine, and the answer is the same.
    assert (
        tune(SHAPES, GPU, engine=lambda: pytest.fail("asked"), store=Store(tmp_path / "10"))
        == (answers[0])
    )


def test_stopped_early_it_says_so_and_goes_on(tmp_path: Path) -> None:
    store, told = Store(tmp_path), list[TuneProgress]()
    first = tune(SHAPES, GPU, engine=lambda: Shuffled(1, 0), store=store, close=1.0, seconds=0.0)
    assert not all(one.complete for one in first)
    whole = tune(
        SHAPES, GPU, engine=lambda: Shuffled(1, 0), store=store, close=1.0, progress=told.append
    )
    assert all(one.complete for one in whole)
    assert [p.done for p in told] == sorted(p.done for p in told)
    assert told[-1].done == len(SHAPES)
    for early, late in zip(first, whole, strict=True):
        assert early.prediction.seconds >= late.prediction.seconds


def test_progress_counts_the_blocks_that_an_engine_timed(tmp_path: Path) -> None:
    told, engine = list[TuneProgress](), Shuffled(1, 0)
    tune(SHAPES[:1], GPU, engine=lambda: engine, store=Store(tmp_path), progress=told.append)
    assert {p.timed for p in told} == set(range(1, engine.seen + 1))


class Clocked(Shuffled):
    """A block takes a second; the first ``unfit`` of them fit nowhere."""

    def __init__(self, unfit: int = 0) -> None:
        super().__init__(1, 0)
        self.now, self.unfit = 0.0, unfit

    def next(self) -> Done:
        self.now += 1
        job, cost = super().next()
        return job, None if self.seen <= self.unfit else cost


@pytest.mark.parametrize("seconds", [4.5, 9.5, 1000.0])
def test_a_deadline_ends_the_search_when_it_comes(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    engine = Clocked()
    monkeypatch.setattr(search, "monotonic", lambda: engine.now)
    found = tune(SHAPES, GPU, engine=lambda: engine, store=Store(None), close=1.0, seconds=seconds)
    if seconds < 1000:
        assert engine.seen == int(seconds) + 1
        assert not all(one.complete for one in found)
    else:
        assert engine.seen > 10
        assert all(one.complete for one in found)


@pytest.mark.parametrize("unfit", [0, 3])
def test_every_problem_has_a_plan_before_a_deadline_counts(
    monkeypatch: pytest.MonkeyPatch, unfit: int
) -> None:
    """One block less, and a problem would have none."""
    engine = Clocked(unfit)
    monkeypatch.setattr(search, "monotonic", lambda: engine.now)
    found = tune(SHAPES, GPU, engine=lambda: engine, store=Store(None), close=1.0, seconds=0.5)
    assert [one.problem for one in found] == SHAPES
    needed = engine.seen
    assert needed > unfit

    class Stopped(Clocked):
        def next(self) -> Done:
            if self.seen == needed - 1:
                raise KeyboardInterrupt
            return super().next()

    with pytest.raises(KeyboardInterrupt):
        tune(SHAPES, GPU, engine=lambda: Stopped(unfit), store=Store(None), close=1.0)


def _nothing(entry: dict[str, Any]) -> None:
    entry.clear()


def _faster(entry: dict[str, Any]) -> None:
    entry["prediction"]["tflops"] *= 2


def _larger_block(entry: dict[str, Any]) -> None:
    entry["plan"]["block"]["m"] = 10**9


def _cost_of_nothing(entry: dict[str, Any]) -> None:
    entry["cost"]["cycles"] = 0.0


def _named(entry: dict[str, Any]) -> None:
    entry["cost"]["unit"] = "*/ #include </etc/passwd> /*"


def _another_chip(entry: dict[str, Any]) -> None:
    entry["chip"] = "MI300X"


@pytest.mark.parametrize(
    "change", [_nothing, _faster, _larger_block, _cost_of_nothing, _named, _another_chip]
)
def test_a_changed_plan_is_made_again(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    store = Store(tmp_path)
    before = tune(SHAPES[:1], GPU, engine=lambda: Shuffled(1, 0), store=store)
    (key,) = store.keys()
    entry = store.read(key)
    assert entry is not None
    change(entry)
    store.write(key, entry)
    with pytest.warns(UserWarning, match="is damaged"):
        again = tune(SHAPES[:1], GPU, engine=lambda: Shuffled(1, 0), store=store)
    assert again == before


@pytest.mark.parametrize("cost", [{}, 7, {"cycles": -1.0}, {"cycles": float("nan")}])
def test_a_changed_cost_of_a_block_is_timed_again(tmp_path: Path, cost: object) -> None:
    store, job = Store(tmp_path), next(iter(_bounds()))
    whole = to_plain(_bounds()[job])
    store.write(
        cost_key(job), {"cost": {**whole, **cost} if isinstance(cost, dict) and cost else cost}
    )
    with pytest.warns(UserWarning, match="is damaged"):
        assert candidates.known_block(job, store) == (False, None)
    store.write(cost_key(job), {"cost": whole})
    assert candidates.known_block(job, store) == (True, _bounds()[job])


def test_bounds_of_other_blocks_are_not_taken(tmp_path: Path) -> None:
    store = Store(tmp_path)
    few = {block: block_spec(GPU.arch, "bf16", block) for block in [Block(64, 64, 64)]}
    rows = [[to_plain(job.block), to_plain(cost)] for job, cost in _bounds().items()]
    with pytest.raises(ScheduleError, match="other blocks"):
        candidates._bounds({"bounds": rows}, few)
    store.write("key", {"bounds": []})
    with pytest.warns(UserWarning, match="is damaged"):
        assert store.load("key", lambda entry: candidates._bounds(entry, few)) is None


def test_an_interrupt_gives_the_best_so_far_or_is_raised(tmp_path: Path) -> None:
    class Interrupted(Shuffled):
        def next(self) -> Done:
            if self.seen == most:
                raise KeyboardInterrupt
            return super().next()

    most = 0
    with pytest.raises(KeyboardInterrupt):
        tune(SHAPES, GPU, engine=lambda: Interrupted(1, 0), store=Store(tmp_path), close=1.0)
    most = 2
    (found,) = tune(
        SHAPES[:1], GPU, engine=lambda: Interrupted(1, 0), store=Store(tmp_path), close=1.0
    )
    assert not found.complete
    assert len(found.trials) <= most


def test_nothing_fits(tmp_path: Path) -> None:
    class Nothing(Shuffled):
        def next(self) -> Done:
            return self._jobs.pop(), None

    with pytest.raises(ScheduleError, match="no kernel was found for 2048x2048x2048"):
        tune(SHAPES[:1], GPU, engine=lambda: Nothing(1, 0), store=Store(tmp_path))
    with pytest.raises(ScheduleError, match=r"close = 0\.5"):
        tune(SHAPES, GPU, close=0.5)


def test_a_block_is_timed_for_real_and_kept() -> None:
    job = block_spec("gfx950", "bf16", Block(64, 64, 64))
    store = Store.usual()
    cost = candidates.time_block(job, store)
    least = _bounds()[job]
    assert cost is not None
    assert least.cycles <= cost.cycles < 1.05 * least.cycles
    assert least.ends <= cost.ends < 3000
    assert candidates.known_block(job, store) == (True, cost)
    assert len(candidates.entries(job, store)) == 2
    engine = Inline(store)
    engine.submit(job)
    assert engine.next() == (job, cost)
    engine.submit(job)
    engine.stop()
    with pytest.raises(IndexError):
        engine.next()


def test_a_fault_of_ours_leaves_a_block_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise InternalError("a wrong program")

    monkeypatch.setattr(candidates, "derive", broken)
    job = block_spec("gfx950", "bf16", Block(32, 32, 64))
    with pytest.warns(UserWarning, match="is left out: a wrong program"):
        assert candidates.time_block(job, Store(tmp_path)) is None
    assert candidates.known_block(job, Store(tmp_path)) == (True, None)


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    job = block_spec("gfx950", "bf16", Block(32, 32, 64))
    engine = engines.Processes(Store(tmp_path), 1)
    engine.submit(job)
    while not engine._pool._processes:
        time.sleep(0.01)
    (process,) = engine._pool._processes.values()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    found = engine.next()
    engine.stop()
    assert found == (job, candidates.time_block(job, Store(tmp_path)))


def test_a_worker_leaves_an_interrupt_to_its_parent(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group, and a worker may still be starting."""
    job = block_spec("gfx950", "bf16", Block(32, 32, 64))
    engine = engines.Processes(Store(tmp_path), 1)
    engine.submit(job)
    (process,) = engine._pool._processes.values()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    assert engine.next()[0] == job
    assert not engine._deaths
    engine.stop()


_PARENT = """
import sys, time
from pathlib import Path
from pipeloom.drive.store import Store
from pipeloom.judge.simulate.whole_gpu import Block
from pipeloom.tuning import engines
from pipeloom.tuning.candidates import block_spec

engine = engines.Processes(Store(Path(sys.argv[1])), 2)
for size in (32, 64):
    engine.submit(block_spec("gfx950", "bf16", Block(size, 32, 64)))
engine.next()
print("working", flush=True)
time.sleep(600)
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """They hold its standard output open: reading it ends when all of them have."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", _PARENT, str(tmp_path)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "working\n"
    parent.kill()
    assert parent.communicate(timeout=60)[0] == ""


_SCRIPT = """
import pickle, sys, time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from pipeloom.drive.store import Store, digest
from pipeloom.plain import to_plain
from pipeloom.tuning import engines, search
from pipeloom.tuning.candidates import cost_key

gpu, shapes, least, timed = pickle.loads(Path(sys.argv[1]).read_bytes())

def slow(job, store):
    cost = timed[job]
    time.sleep(0.02)
    plain = None if cost is None else to_plain(cost)
    store.write(cost_key(job), {"job": to_plain(job), "cost": plain})
    print("timed", flush=True)
    return cost

engines.time_block = slow
search.bounds = lambda *_: least
found = search.tune(shapes, gpu, store=Store(Path(sys.argv[2])), close=1.0)
print(digest([to_plain(one) for one in found]))
"""


def test_killed_at_random_moments_it_resumes(tmp_path: Path) -> None:
    """Nothing that was timed is timed again, two that share the store end as one run in one go."""
    data = tmp_path / "data"
    data.write_bytes(
        pickle.dumps((GPU, SHAPES, _bounds(), {job: _timed(job) for job in _all_jobs()}))
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}

    def start(folder: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _SCRIPT, str(data), str(tmp_path / folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    whole = tune(SHAPES, GPU, engine=lambda: Shuffled(1, 0), store=Store(None), close=1.0)
    needed = len({trial.block for one in whole for trial in one.trials})
    draw, kills = random.Random(5), 2
    timed: list[str] = []
    for _ in range(kills):
        run = start("killed")
        assert run.stdout is not None
        for _ in range(draw.randrange(1, 4)):
            timed += run.stdout.readline().split()
        time.sleep(draw.random() / 50)
        run.send_signal(signal.SIGKILL)
        timed += run.communicate()[0].split()
    both = [start("killed"), start("killed")]
    for run in both:
        *more, answer = run.communicate()[0].split()
        assert answer == digest([to_plain(one) for one in whole])
        assert len(timed) + len(more) <= needed


def test_a_damaged_store_is_reported_and_the_answer_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = tune(SHAPES[:1], GPU, engine=lambda: Shuffled(1, 0), store=store)
    for path in tmp_path.glob(f"{FILE}*"):
        path.unlink()
    (tmp_path / FILE).write_bytes(b"nothing of a database" * 300)
    with pytest.warns(UserWarning, match="set aside"):
        after = tune(SHAPES[:1], GPU, engine=lambda: Shuffled(1, 0), store=store)
    assert to_plain(after[0]) == to_plain(before[0])
    assert (tmp_path / f"{FILE}.aside1").exists()


def test_without_ray_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ScheduleError, match="Ray, which is not installed"):
        engines.OnRay(Store(None))


@pytest.mark.parametrize("same", [True, False])
def test_what_another_pipeloom_timed_is_refused(
    same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Ray, whose one task is done at once."""
    job, cost = next(iter(_bounds().items()))
    made_by = version() if same else "another"
    stand = SimpleNamespace(
        is_initialized=lambda: True,
        cluster_resources=lambda: {"CPU": 3},
        remote=lambda **_: lambda _: SimpleNamespace(remote=lambda job: "task"),
        wait=lambda tasks, num_returns: (tasks, []),
        get=lambda task: (made_by, cost, {}),
    )
    monkeypatch.setitem(sys.modules, "ray", stand)
    engine = engines.OnRay(Store(None))
    assert engine.workers == 3
    engine.submit(job)
    if same:
        assert engine.next() == (job, cost)
    else:
        with pytest.raises(ScheduleError, match="another pipeloom than this one"):
            engine.next()
