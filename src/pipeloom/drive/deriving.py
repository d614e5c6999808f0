"""``derive``: the fastest program of a loop that a search finds and the verifier proves.

    found = derive(gemm(256, 256, 64), target_for("gfx950"), waves=8)
    found.program, found.cycles, found.bound, found.unit

Structures of loops are simulated, the modulo solver's order of the same instructions too where they
leave a gap, the best are varied, and the fastest that is proved is kept, with its bound and its
certificate. Results are kept in the store; a search that was stopped goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from math import inf
from typing import Any

from pipeloom.checks import check_int
from pipeloom.collecting import rarely_collected
from pipeloom.declare.loop import Loop
from pipeloom.drive.certifying import CLOSE, Derived, Ended, Progress, described, least_of
from pipeloom.drive.loop_cycles import (
    adds_results,
    beside,
    decided_written,
    fits,
    loop_cycles,
    steady_cycles,
    whole_cycles,
    written_cycles,
)
from pipeloom.drive.loop_room import check_loop, check_room
from pipeloom.drive.store import Store, digest, version
from pipeloom.errors import ConfigError, InternalError, OrderError
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.order.instructions import refinable
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import (
    choices,
    matrix_cycles,
    solved,
    structures,
    timed,
    turning,
    unit_times,
    variations,
    woven,
)
from pipeloom.order.peel import peel
from pipeloom.order.problem_builder import LoopProblem
from pipeloom.order.tasks import Lowered
from pipeloom.order.whole_instructions import whole_instructions
from pipeloom.plain import from_plain, to_plain
from pipeloom.program.problem_spans import shared_out
from pipeloom.program.program import Program

CLOSED = 1.0005
"""One this near leaves the modulo solver nothing to find."""
VARIED = 2
"""Structures that are varied."""
EQUAL, EQUAL_IN_MEMORY, MOST_EQUAL = 1.0005, 1.002, 6
"""Loops that take the same time, more so where memory sets it, and how many of them at most: the
shortest kernel of a usual number of iterations decides."""
NEARLY, MOST_WRITTEN, MOST_LOOKED = 1.03, 3, 12
"""Near to the best, or to the bound; of loops whose programs do not say how fast their instructions
are, so many at most are simulated as written; looked at, where they may lack registers."""
PATIENT, MOST_PATIENT = 1.15, 16
"""How much slower a loop with short ends may be, and how many are looked at: where memory sets the
time of an iteration, the loop does not."""
KEPT = "what was tried is kept, and the next call goes on from there"
MODULO = "or leave the order to the modulo solver: pl.pipeline, pipeloom solve"


def derive(
    loop: Loop,
    target: Target | str,
    waves: int | Mapping[str, int],
    *,
    k_tiles: int | None = None,
    like: Loop | None = None,
    short_ends: bool = False,
    orders: int | None = None,
    keep_interrupted: bool = True,
    progress: Callable[[Progress], None] | None = None,
    store: Store | None = None,
) -> Derived | None:
    """The fastest proved program of a loop; None where it is not made of loads to LDS, reads,
    products and vector ops.

    Raises ``OrderError`` where no order fits registers, LDS and ``k_tiles``, with what to change.
    Ctrl-C ends the search and gives the best so far, or lets the proof come to its end; before
    there is any, a second time, and without ``keep_interrupted`` it is raised at once, with a word
    if what was tried is kept.

    What is found for any number of iterations serves ``k_tiles`` of them too, unless it has more
    stages: the loop is the same, only its epilogue is made for them.

    Args:
        loop: The declaration.
        target: The chip, or its name.
        waves: Waves of the workgroup, or how many along each dimension.
        k_tiles: The number of iterations that the kernel will run; any number unless given, or
            said by the place of a stream.
        like: A loop with the same iterations and another end, whose result then serves this one.
        short_ends: Whether to prefer a short prologue and epilogue to the fastest loop, for kernels
            of few iterations.
        orders: How many orders to try at most, once one fits. Those that are kept count, so that
            the result is the same whatever is kept, but for a whole search.
        keep_interrupted: Whether Ctrl-C gives the best so far.
        progress: Told of each better order.
        store: Where results are kept; the user's cache unless given.
    """
    check_loop("derive", loop)
    target = target if isinstance(target, Target) else target_for(target)
    if orders is not None:
        check_int("derive", "orders", orders, 1)
    loop = whole_instructions(loop, target)
    check_room(loop, target, waves)
    lowered = lower(loop.meaning, target, loop.ops, loop.staged, waves, turning=True)
    if not refinable(lowered):
        return None
    kept = Store.usual() if store is None else store
    k_tiles = loop.fixed_tiles if k_tiles is None else k_tiles
    like = loop.unplaced() if like is None and not shared_out(loop.meaning.span) else like
    key = derived_key(loop, target, waves, k_tiles, short_ends)
    found = kept.load(key, lambda entry: _judged_again(entry, lowered))
    if found is not None:
        return found
    if k_tiles is not None or like is not None:
        made = None
        with suppress(OrderError):
            derived = derive(
                like or loop,
                target,
                waves,
                short_ends=short_ends,
                orders=orders,
                keep_interrupted=keep_interrupted,
                progress=progress,
                store=kept,
            )
            made = derived and _made_for(lowered, derived, k_tiles)
        if made is not None:
            _keep(kept, key, made)
            return made
    log = f"{derived_key(loop, target, waves, k_tiles) if short_ends else key}-search"
    search = _Search(lowered, k_tiles, progress, kept, log, short_ends)
    try:
        with rarely_collected():
            derived = search.result(orders, keep_interrupted)
    except KeyboardInterrupt as stop:
        raise (KeyboardInterrupt(KEPT) if search.kept else stop) from None
    _keep(kept, key, derived)
    return derived


def _keep(store: Store, key: str, derived: Derived) -> None:
    """What a whole search has found; a whole program is not made plain for a store that is off."""
    if derived.complete and store.folder is not None:
        store.write(key, to_plain(derived))


def _judged_again(entry: dict[str, Any], lowered: Lowered) -> Derived:
    """What is kept, if all of it is true: nobody is believed who can write the store.

    The program is of this loop and machine and proved now; its cycles are simulated now; all that
    is said of them follows.
    """
    found = from_plain(Derived, entry)
    program = found.program
    if program.meaning != lowered.meaning or program.target != lowered.target:
        raise ConfigError("it is of another loop", field="store")
    if not verify(peel(program), ops=lowered.ops).proved:
        raise ConfigError("its program is not proved", field="store")
    cycles = loop_cycles(program, lowered.ops)
    again = _proved(lowered, program, found.pattern, cycles, found.tried, found.ended)
    if again != found:
        raise ConfigError("what it says of its program is not so", field="store")
    return found


def derived_key(
    loop: Loop,
    target: Target,
    waves: int | Mapping[str, int],
    k_tiles: int | None = None,
    short_ends: bool = False,
) -> str:
    """Of a result in the store: everything that decides it."""
    used = sorted({n.op for n in loop.meaning.nodes if n.op})
    known = [loop.ops[name] for name in used]
    ops = [
        (o.name, o.arity, o.reduce and o.reduce.value, o.bool_result, *map(to_plain, o.lowering))
        for o in known
    ]
    asked = {
        "version": version(),
        "varied": VARIED,
        "meaning": to_plain(loop.meaning),
        "staged": loop.staged,
        "ops": ops,
        "target": to_plain(target),
        "waves": waves if isinstance(waves, int) else sorted(waves.items()),
        "k_tiles": k_tiles,
        "short_ends": short_ends,
    }
    return digest(asked)[:40]


class _Search:
    """Patterns tried, with their cycles (None where one does not fit), kept as it goes."""

    def __init__(
        self,
        lowered: Lowered,
        k_tiles: int | None,
        progress: Callable[[Progress], None] | None,
        store: Store,
        key: str,
        short_ends: bool,
    ) -> None:
        self.lowered, self.k_tiles, self.progress = lowered, k_tiles, progress
        self.store, self.key = store, key
        least = least_of(lowered)
        self.bound, self.unit = least.cycles, least.unit
        self.close, self.most = EQUAL_IN_MEMORY if self.unit == "memory" else EQUAL, MOST_EQUAL
        if short_ends:
            self.close, self.most = PATIENT, MOST_PATIENT
        self.short_ends = short_ends
        self.tried: dict[Pattern, float | None] = {}
        self.made: dict[Pattern, Program] = {}
        """Of those that may be taken in the end."""
        self.times: dict[tuple[object, ...], list[tuple[LoopProblem, Pattern]]] = {}
        """Who was first to have such times, for whoever has them again."""
        self.log: list[dict[str, Any]] = []
        self.known: dict[Pattern, float | None] = (
            store.load(key, lambda entry: _tried(entry, self.bound)) or {}
        )
        self.least = cache(lambda barriers: unit_times(lowered, barriers)[0].cycles)
        self.choices = choices(lowered)
        self.started = time.monotonic()

    @property
    def found(self) -> list[Pattern]:
        """What fits, the fastest first; of equals, what was tried first."""
        fit = [(cycles, n, p) for n, (p, cycles) in enumerate(self.tried.items()) if cycles]
        return [pattern for _, _, pattern in sorted(fit, key=lambda item: item[:2])]

    @property
    def best(self) -> float:
        """Cycles of the fastest."""
        return min((cycles for cycles in self.tried.values() if cycles), default=float("inf"))

    @property
    def done(self) -> bool:
        """Whether what is left to gain is not worth it."""
        return self.best <= CLOSE * self.bound

    @property
    def kept(self) -> bool:
        """Whether the next search finds in the store what this one has tried."""
        return bool(self.tried) and self.store.read(self.key) is not None

    def result(self, orders: int | None, keep_interrupted: bool) -> Derived:
        """Search and prove; the first Ctrl-C ends the search, or starts the proof again."""
        ended = Ended.INTERRUPT
        try:
            ended = self.run(orders)
            return self.proved(ended)
        except KeyboardInterrupt:
            if not (keep_interrupted and self.found):
                raise
        return self.proved(ended)

    @property
    def equal(self) -> list[Pattern]:
        """Those among which the shortest kernel decides."""
        equal = [p for p in self.found if (self.tried[p] or 0.0) <= self.close * self.best]
        return equal[: self.most]

    def run(self, orders: int | None) -> Ended:
        """Try one after the other, ``orders`` at most, or until one fits; none that a unit forbids
        to be as fast as the best."""
        for pattern in self.patterns():
            if pattern in self.tried or self.least(pattern.barriers) > self.close * self.best:
                continue
            if orders is not None and len(self.tried) >= orders and self.found:
                return Ended.LIMIT
            self.try_(pattern)
        return Ended.ALL_TRIED

    def patterns(self) -> Iterator[Pattern]:
        """Structures, solved ones, then variations of the best, as long as they help.

        Of structures, no more than there are to choose from at the end, if they are at the bound.
        """
        for pattern in structures(self.lowered):
            yield pattern
            if self.best <= CLOSED * self.bound and len(self.equal) == self.most:
                break
        for pattern in turning(self.lowered):
            if self.best > NEARLY * self.bound:
                yield pattern
        exact = solved(self.lowered) if VARIED else ()
        for pattern, enough in zip(exact, (CLOSED, CLOSE), strict=False):
            if self.best > enough * self.bound:
                yield pattern
        while not self.done:
            before = self.best
            for pattern in self.found[:VARIED]:
                for other in variations(pattern, self.choices):
                    yield other
                    if self.done:
                        return
            if self.best == before:
                return

    def try_(self, pattern: Pattern) -> None:
        """Make and simulate one."""
        before = self.best
        if pattern in self.known:
            self.tried[pattern] = self.known[pattern]
        else:
            self.tried[pattern] = self._cycles(pattern)
        self._keep(pattern)
        if self.best < before and self.progress is not None:
            tried, seconds = len(self.tried), time.monotonic() - self.started
            self.progress(Progress(tried, seconds, self.best, self.bound, self.unit, pattern))

    def _cycles(self, pattern: Pattern) -> float | None:
        """Patterns with the same times make the same program, which is simulated once."""
        try:
            times = timed(self.lowered, pattern)
            key = pattern.groups, pattern.loading, pattern.priority, times.timetable
            for loop, same in self.times.setdefault(key, []):
                if loop == times.loop:
                    if same in self.made:
                        self.made[pattern] = self.made[same]
                    return self.tried[same]
            self.times[key].append((times.loop, pattern))
            program = woven(self.lowered, pattern, self.k_tiles, times)
        except OrderError:
            return None
        cycles = steady_cycles(program, workgroups=beside(program, self.lowered.ops))
        if cycles <= self.close * self.best:
            self.made[pattern] = program
        return cycles

    def _keep(self, pattern: Pattern) -> None:
        """Note what was tried, in the store too if it was not there."""
        most = self.close * self.best
        self.made = {p: m for p, m in self.made.items() if (self.tried[p] or 0.0) <= most}
        self.log.append({"pattern": to_plain(pattern), "cycles": self.tried[pattern]})
        if pattern not in self.known:
            self.store.write(self.key, {"tried": self.log})

    def _fastest_written(self) -> dict[Pattern, float]:
        """Of loops that their instructions decide, the fastest, with its cycles."""
        found: dict[Pattern, float] = {}
        near = [p for p in self.found if (self.tried[p] or inf) <= NEARLY * self.best]
        if adds_results(self._program(near[0])):
            some = (p for p in self.found[:MOST_LOOKED] if fits(self._program(p), self.lowered.ops))
            chosen = next(some, near[0])
            return {chosen: self.tried[chosen] or inf}
        if shared_out(self.lowered.meaning.span):  # of those that take as much LDS, the first one
            near = [*{(p.barriers, p.deep, p.beside): p for p in reversed(near)}.values()][::-1]
        for pattern in near[: 3 * MOST_WRITTEN]:
            if len(found) == MOST_WRITTEN or min(found.values(), default=inf) < self.bound + 1:
                break
            program = self._program(pattern)
            if not decided_written(program):
                return {}
            cycles = written_cycles(program, self.lowered.ops)
            if cycles is not None:
                found[pattern] = cycles
        return dict(sorted(found.items(), key=lambda item: item[1])[:1])

    def _program(self, pattern: Pattern) -> Program:
        return self.made.get(pattern) or woven(self.lowered, pattern, self.k_tiles)

    def proved(self, ended: Ended) -> Derived:
        """The fastest, with its proof; raises what is wrong with the first where none fits."""
        if not self.found:
            try:
                woven(self.lowered, next(iter(self.tried)), self.k_tiles)
            except OrderError as error:
                hint = f"{error.hint or 'declare the iteration otherwise'}; {MODULO}"
                raise OrderError(error.message, hint=hint, field=error.field) from error
            raise InternalError(f"{self.lowered.meaning.name} fits, and was not simulated")
        equal = [*(written := self._fastest_written())] or self.equal
        programs = {p: self._program(p) for p in equal}
        pattern = equal[0]
        if len(programs) > 1:
            floor = PATIENT * self.best if self.short_ends else None
            pattern = min(
                programs, key=lambda p: whole_cycles(programs[p], self.tried[p] or 0.0, floor)
            )
        # What an earlier search has kept decides which order is taken, not what is said of it.
        cycles = written.get(pattern) or self.tried[pattern] or self.best
        if pattern in self.known and not written:
            cycles = loop_cycles(programs[pattern], self.lowered.ops)
        return _proved(self.lowered, programs[pattern], pattern, cycles, len(self.tried), ended)


def _tried(entry: dict[str, Any], bound: int) -> dict[Pattern, float | None]:
    """What an earlier search has tried: patterns with their cycles, None where one does not fit."""
    found = {from_plain(Pattern, one["pattern"]): one["cycles"] for one in entry["tried"]}
    for cycles in found.values():
        if cycles is not None and not bound <= float(cycles) < inf:
            raise ConfigError(f"an order takes {cycles} cycles", field="store")
    return found


def _made_for(lowered: Lowered, found: Derived, k_tiles: int | None) -> Derived | None:
    """``found`` for a loop like it, or so many iterations; None where it does not fit."""
    try:
        program = woven(lowered, found.pattern, k_tiles)
    except OrderError:
        return None
    cycles = loop_cycles(program, lowered.ops)
    return _proved(lowered, program, found.pattern, cycles, found.tried, found.ended)


def _proved(
    lowered: Lowered, program: Program, pattern: Pattern, cycles: float, tried: int, ended: Ended
) -> Derived:
    least = least_of(lowered)
    several = beside(program, lowered.ops)
    known = described(lowered, program, cycles, least, pattern, tried, ended, several)
    # Masks in a loop of their own, as ``pipeline`` gives it: the proof is one of masks in every
    # iteration first, so it is one of both.
    verdict = verify(peel(known), ops=lowered.ops)
    if not verdict.proved:
        raise InternalError(f"{pattern} gives a wrong program: {verdict.summary()}")
    return Derived(
        known,
        cycles,
        least.cycles,
        least.unit,
        matrix_cycles(lowered),
        pattern,
        tried,
        ended,
        least.why,
    )
