"""The best plan of each problem: bounds first, then the few blocks that could still be best.

    found = tune(problems, gpu_for("MI355X"))
    found[0].plan, found[0].prediction.tflops

For every problem all blocks are ranked by their bounds. The first is derived, proved and simulated,
then the next, until no bound left promises more than ``CLOSE``. That ends with a certificate: no
block of the space is better by more than that, in the model. So there is nothing for a sampler to
learn, and the answer does not depend on how many workers there were, on their order, or on an
earlier run that was stopped: what was timed is in the store, and is not timed again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.gemm import GemmSpec, least_align
from pipeloom.drive.store import Store, digest, version
from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, Prediction, copied_bytes
from pipeloom.machine.gpus import Gpu, gpu_for
from pipeloom.machine.target import Target
from pipeloom.plain import LEFT_OUT_WHILE_USUAL, from_plain, to_plain
from pipeloom.tuning.candidates import block_spec, blocks, bounds, checked_cost, known_block
from pipeloom.tuning.engines import Engine, Inline
from pipeloom.tuning.ranking import WRITTEN, Ranked, Ways, best_use, rank

CLOSE = 1.005
"""A search ends where nothing left can be faster by more."""

Known = dict[GemmSpec, BlockCost | None]


@dataclass(frozen=True, slots=True)
class BlockTrial:
    """One block of a search."""

    block: Block
    """The block of a workgroup."""
    bound_us: float
    """Microseconds that the product takes with it at least."""
    us: float | None
    """Microseconds with its program as derived; None where no order fits."""
    cycles: float | None
    """Cycles of an iteration of that program."""


@dataclass(frozen=True, slots=True, repr=False)
class Tuned:
    """The best plan of a problem, as far as it was searched, and how the search went."""

    problem: GemmProblem
    """What is computed: sizes, types, layout, batches, and what follows the sum."""
    chip: str
    """The GPU that it was tuned for."""
    plan: Plan
    """The block of a workgroup, and into how many parts K is split."""
    cost: BlockCost
    """What the block takes on one compute unit, in cycles."""
    prediction: Prediction
    """What the model says of the whole GPU: seconds, TFLOPS, clock, and what limits it."""
    trials: tuple[BlockTrial, ...]
    """The blocks that were timed, best bound first."""
    candidates: int
    """How many blocks there were to choose from."""
    open_us: float
    """The bound of the best block that was not timed, in microseconds: what could be gained."""
    complete: bool = True
    """Whether the search came to its end."""
    machine: Target | None = field(default=None, metadata=LEFT_OUT_WHILE_USUAL)
    """The compute unit that it was tuned for, where that is a chip of one's own."""

    def __repr__(self) -> str:
        return f"<Tuned {self}>"

    def __str__(self) -> str:
        problem, guess = self.problem, self.prediction
        return (
            f"{problem} {problem.dtype} on {self.chip}: {self.plan}, "
            f"{guess.tflops:.0f} TFLOPS predicted"
        )

    @property
    def gpu(self) -> Gpu:
        """The GPU, as the model knows it."""
        return gpu_for(self.machine or self.chip)

    @property
    def job(self) -> GemmSpec:
        """Of its block, which the store has a program of."""
        problem = self.problem
        return block_spec(self.gpu.target, problem.dtype, self.plan.block, problem.layout)

    @property
    def spec(self) -> GemmSpec:
        """Of its kernel, with what follows the sum."""
        problem = self.problem
        spec = replace(
            self.job,
            splits=self.plan.split,
            batched=problem.batches > 1,
            finish=problem.finish,
        )
        odd = copied_bytes(self.gpu.target, self.problem)
        return replace(spec, align=least_align(spec)) if odd else spec

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for scripts."""
        problem, plan, prediction = self.problem, self.plan, self.prediction
        return {
            "m": problem.m,
            "n": problem.n,
            "k": problem.k,
            "dtype": problem.dtype,
            "layout": problem.layout,
            "batches": problem.batches,
            "finish": str(problem.finish),
            "chip": self.chip,
            "block": to_plain(plan.block),
            "split_k": plan.split,
            "tflops": round(prediction.tflops, 2),
            "microseconds": round(prediction.seconds * 1e6, 3),
            "gap_us": round(prediction.gap_us, 3),
            "clock_ghz": round(prediction.clock_ghz, 3),
            "workgroups": prediction.workgroups,
            "rounds": prediction.rounds,
            "efficiency": round(prediction.efficiency, 4),
            "limit": prediction.limit,
            "parts_us": {name: round(us, 3) for name, us in prediction.parts},
            "loop_cycles": self.cost.cycles,
            "matrix_cycles": self.cost.matrix,
            "timed": len(self.trials),
            "candidates": self.candidates,
            "open_us": round(self.open_us, 3),
            "complete": self.complete,
        }


@dataclass(frozen=True, slots=True)
class TuneProgress:
    """How far a search is."""

    done: int
    """Problems that are done."""
    problems: int
    """Problems in all."""
    timed: int
    """Blocks that were timed."""
    seconds: float
    """Since it began."""
    best: Tuned | None
    """The best so far of the problem at hand."""


class BlockSearch:
    """One problem: what is to be timed next, and what is known of it."""

    def __init__(
        self,
        gpu: Gpu,
        problem: GemmProblem,
        least: Mapping[GemmSpec, BlockCost],
        close: float,
        ways: Ways,
    ) -> None:
        self.gpu, self.problem, self.close, self.ways = gpu, problem, close, ways
        self.ranked = rank(gpu, problem, least, ways)
        self._used: dict[GemmSpec, Ranked | None] = {}

    def needed(self, known: Known, most: int) -> list[GemmSpec]:
        """The next blocks to be timed; none if it is done."""
        best = float("inf")
        missing: list[GemmSpec] = []
        for ranked in self.ranked:
            if ranked.prediction.seconds * self.close >= best or len(missing) >= most:
                break
            for job in self._tries(ranked.job, known):
                if job not in known:
                    missing.append(job)
                elif (used := self.used(job, known)) is not None:
                    best = min(best, used.prediction.seconds)
        return missing[:most]

    def _tries(self, job: GemmSpec, known: Known) -> Iterator[GemmSpec]:
        """A block with its fastest loop; where that waits for loads, with the shortest ends too."""
        yield job
        if job in known and (used := self.used(job, known)) is not None and used.waits:
            yield replace(job, short_ends=True)

    def used(self, job: GemmSpec, known: Known) -> Ranked | None:
        """The best plan with a block that was timed."""
        if job not in self._used:
            cost = known[job]
            self._used[job] = (
                None if cost is None else best_use(self.gpu, self.problem, job, cost, self.ways)
            )
        return self._used[job]

    def result(self, known: Known) -> Tuned | None:
        """The best by the rule, whatever else happens to be known; None before there is any."""
        best: Ranked | None = None
        trials, open_us, complete = [], 0.0, True
        for ranked in self.ranked:
            bound = ranked.prediction.seconds
            if best is not None and bound * self.close >= best.prediction.seconds:
                open_us = open_us or bound * 1e6
                break
            for job in self._tries(ranked.job, known):
                if job not in known:
                    open_us, complete = open_us or bound * 1e6, False
                    continue
                cost, used = known[job], self.used(job, known)
                trials.append(
                    BlockTrial(
                        job.block,
                        bound * 1e6,
                        None if used is None else used.prediction.seconds * 1e6,
                        None if cost is None else cost.cycles,
                    )
                )
                if used is not None and (best is None or used.order < best.order):
                    best = used
        if best is None:
            return None
        cost = known[best.job]
        assert cost is not None
        return Tuned(
            self.problem,
            self.gpu.chip,
            best.plan,
            cost,
            best.prediction,
            tuple(trials),
            len(self.ranked),
            open_us,
            complete,
            self.gpu.own,
        )


def tune(
    problems: Sequence[GemmProblem],
    gpu: Gpu,
    *,
    engine: Callable[[], Engine] | None = None,
    store: Store | None = None,
    close: float = CLOSE,
    ways: Ways = WRITTEN,
    seconds: float | None = None,
    progress: Callable[[TuneProgress], None] | None = None,
) -> list[Tuned]:
    """The best plan of every problem, in their order.

    ``engine`` makes the one that times blocks, if any must be. ``seconds`` ends it early: what is
    then not complete says so. So does Ctrl-C, once every problem has a plan; before that it is
    raised.
    """
    if not 1.0 <= close <= 2.0:
        raise ConfigError(f"close = {close}", hint="use 1 to 2, for example 1.005", field="close")
    kept = Store.usual() if store is None else store
    found = {problem: _kept(kept, gpu, problem, close, ways) for problem in problems}
    open_ = [problem for problem in found if found[problem] is None]
    if open_:
        started = monotonic()
        kinds = {(p.dtype, p.layout) for p in open_}
        least = {(dtype, how): bounds(gpu.target, dtype, kept, how) for dtype, how in kinds}
        runner = _Runner(
            [
                BlockSearch(gpu, problem, least[problem.dtype, problem.layout], close, ways)
                for problem in open_
            ],
            Inline(kept) if engine is None else engine(),
            kept,
            None if seconds is None else started + seconds,
            lambda done, timed, best: (
                progress
                and progress(
                    TuneProgress(
                        len(found) - len(open_) + done,
                        len(found),
                        timed,
                        monotonic() - started,
                        best,
                    )
                )
            ),
        )
        with closing(runner.run()) as results:  # whatever happens, workers end
            for tuned in results:
                found[tuned.problem] = tuned
                if tuned.complete:
                    kept.write(_key(gpu, tuned.problem, close, ways), to_plain(tuned))
    missing = [problem for problem in problems if found[problem] is None]
    if missing:
        raise ConfigError(
            f"no kernel was found for {missing[0]} in {missing[0].dtype}",
            hint="give it more time, or another type",
            field="shapes",
        )
    return [tuned for tuned in map(found.get, problems) if tuned is not None]


class _Runner:
    """All searches at once: a block that is timed serves every one of them."""

    def __init__(
        self,
        searches: list[BlockSearch],
        engine: Engine,
        store: Store,
        deadline: float | None,
        tell: Callable[[int, int, Tuned | None], object],
    ) -> None:
        self.searches, self.engine, self.store = searches, engine, store
        self.deadline, self.tell = deadline, tell
        self.known: Known = {}
        self.flying: set[GemmSpec] = set()
        self.timed = 0

    def run(self) -> Generator[Tuned, None, None]:
        """Results, as the searches end; then what is known of those that were stopped."""
        open_ = list(self.searches)
        total = len(open_)
        try:
            while open_:
                for search in list(open_):
                    self._look_up(search)
                    if not search.needed(self.known, 1):
                        open_.remove(search)
                        tuned = search.result(self.known)
                        self.tell(total - len(open_), self.timed, tuned)
                        if tuned is not None:
                            yield tuned
                if not open_ or self._late():
                    break
                self._submit(open_)
                job, cost = self.engine.next()
                self.flying.discard(job)
                self.known[job] = cost
                self.timed += 1
                self.tell(total - len(open_), self.timed, open_[0].result(self.known))
        except KeyboardInterrupt:
            if any(search.result(self.known) is None for search in open_):
                raise
        finally:
            self.engine.stop()
        rest = [search.result(self.known) for search in open_]
        yield from (tuned for tuned in rest if tuned is not None)

    def _late(self) -> bool:
        """Whether time is up; the first plan of every problem is waited for."""
        return (
            self.deadline is not None
            and monotonic() > self.deadline
            and all(search.result(self.known) is not None for search in self.searches)
        )

    def _look_up(self, search: BlockSearch) -> None:
        """Take from the store what is needed and there, from whoever put it there."""
        while True:
            wanted = [j for j in search.needed(self.known, 1) if j not in self.flying]
            if not wanted:
                return
            known, cost = known_block(wanted[0], self.store)
            if not known:
                return
            self.known[wanted[0]] = cost

    def _submit(self, open_: list[BlockSearch]) -> None:
        """Keep the workers busy: what every problem needs first, then what it may need next."""
        for ahead in range(1, self.engine.workers + 1):
            for search in open_:
                if len(self.flying) >= self.engine.workers:
                    return
                for job in search.needed(self.known, ahead):
                    if job not in self.flying and len(self.flying) < self.engine.workers:
                        self.flying.add(job)
                        self.engine.submit(job)


def _key(gpu: Gpu, problem: GemmProblem, close: float, ways: Ways) -> str:
    sources = sorted(path.name for path in Path(__file__).parent.glob("*.py"))
    made_by = version(*(f"tuning/{name}" for name in sources))
    chip = [gpu.chip, to_plain(gpu.own)]
    return digest(["tuned", made_by, chip, to_plain(problem), close, to_plain(ways)])[:40]


def _kept(store: Store, gpu: Gpu, problem: GemmProblem, close: float, ways: Ways) -> Tuned | None:
    return store.load(
        _key(gpu, problem, close, ways), lambda entry: _predicted_again(entry, gpu, problem, ways)
    )


def _predicted_again(entry: dict[str, Any], gpu: Gpu, problem: GemmProblem, ways: Ways) -> Tuned:
    """What is kept, if it is of this problem and of a block of the space, predicted now."""
    found = from_plain(Tuned, entry)
    if (found.problem, found.chip, found.machine) != (problem, gpu.chip, gpu.own):
        raise ConfigError("it is of another problem", field="store")
    if replace(found.plan.block, short_ends=False) not in blocks(problem.dtype):
        raise ConfigError(f"there is no block {found.plan.block}", field="store")
    again = best_use(gpu, problem, found.job, checked_cost(found.cost), ways)
    if (again.plan, again.prediction) != (found.plan, found.prediction):
        raise ConfigError("what it predicts is not so", field="store")
    return found
