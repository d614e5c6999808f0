"""Is a kernel's walk a loop? What an argument over all trip counts has to take for granted.

A walk of T trips must read prologue, T times the same body, epilogue: the same entries in every
trip, with K advancing by the same amount from trip to trip.

    trips 0    P P       E        the prologue and the epilogue are the same in every walk,
    trips 2    P P B B   E        body t is body 0 moved by t steps of K,
    trips 3    P P B B B E        and the epilogue moves by as much per trip

A model is code, so only walks that were asked for can be compared: a walk that changes its mind
beyond them goes unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels.interface import Kernel, Step

MORE_TRIPS = 3
"""Trip counts compared beyond those that the caller has examined; at least 2, to see K advance."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """One walk, cut where the iterations begin and end."""

    prologue: tuple[Step, ...]
    bodies: tuple[tuple[Step, ...], ...]
    epilogue: tuple[Step, ...]


def check_loop(kernel: Kernel, compiled: CompiledSchedule, most_trips: int) -> None:
    """Compare the walks of all waves up to a few trips more than ``most_trips``.

    Raises ``ConfigError`` naming the wave and the trip that do not fit.
    """
    longest = max(most_trips, kernel.min_trips) + MORE_TRIPS
    counts = range(longest, kernel.min_trips - 1, -1)
    for members in kernel.groups:
        leader = members[0]
        walks = {trips: kernel.walk(compiled, leader, trips) for trips in counts}
        _check_group(kernel, compiled, members, walks)
        shape = _Shape(kernel, leader)
        model = shape.cut(walks[longest], longest, None)
        previous = shape.cut(walks[longest - 1], longest - 1, len(model.prologue))
        shape.compare_bodies(model)
        for trips in counts:
            parts = shape.cut(walks[trips], trips, len(model.prologue))
            shape.compare_walks(model, previous, parts, longest - trips)
        for wave in members:
            _Shape(kernel, wave).compare_effects(model)


def _check_group(
    kernel: Kernel,
    compiled: CompiledSchedule,
    members: Sequence[int],
    walks: dict[int, tuple[Step, ...]],
) -> None:
    for wave in members[1:]:
        for trips in (max(walks), min(walks)):
            if kernel.walk(compiled, wave, trips) != walks[trips]:
                raise ConfigError(
                    f"kernel {kernel.name}: waves {members[0]} and {wave} of one group walk "
                    f"different steps with {trips} trips",
                    hint="put waves that walk different steps into different groups",
                    field="Kernel.groups",
                )


class _Shape:
    """The comparisons for one wave; each raises where two steps that should agree do not."""

    def __init__(self, kernel: Kernel, wave: int) -> None:
        self._kernel = kernel
        self._wave = wave

    def cut(self, walk: Sequence[Step], trips: int, prologue: int | None) -> _Parts:
        """The parts of a walk; without trips the length of the ``prologue`` decides."""
        starts = [i for i, step in enumerate(walk) if step.iteration is not None]
        first = starts[0] if starts else (len(walk) if prologue is None else prologue)
        end = starts[-1] + 1 if starts else first
        bodies: list[list[Step]] = [[] for _ in range(trips)]
        trip = 0
        for at, step in enumerate(walk):
            if step.index != at:
                raise self._no_loop(f"step {at} of a walk of {trips} trips has index {step.index}")
            if not first <= at < end:
                continue
            if step.iteration is None or not trip <= step.iteration < trips:
                found = "no iteration" if step.iteration is None else f"trip {step.iteration}"
                raise self._no_loop(
                    f"{_words(step)} has {found}, between steps of trip {trip} of {trips}"
                )
            trip = step.iteration
            bodies[trip].append(step)
        return _Parts(tuple(walk[:first]), tuple(map(tuple, bodies)), tuple(walk[end:]))

    def compare_bodies(self, model: _Parts) -> None:
        """Every trip is the first one with K advanced."""
        first, second = model.bodies[0], model.bodies[1]
        for trip, body in enumerate(model.bodies):
            self._same(f"trip {trip}", body, "trip 0", first, second, trip)

    def compare_walks(self, model: _Parts, previous: _Parts, parts: _Parts, less: int) -> None:
        """A walk of fewer trips leaves out the last ones, and its epilogue comes earlier in K."""
        trips = len(parts.bodies)
        where, base = f"{trips} trips", f"{len(model.bodies)} trips"
        self._same(f"the prologue of {where}", parts.prologue, base, model.prologue)
        for trip, body in enumerate(parts.bodies):
            self._same(f"trip {trip} of {where}", body, base, model.bodies[trip])
        self._same(
            f"the epilogue of {where}",
            parts.epilogue,
            base,
            model.epilogue,
            previous.epilogue,
            less,
        )

    def compare_effects(self, model: _Parts) -> None:
        """Every trip touches what the first one does, with K advanced."""
        kernel, wave = self._kernel, self._wave
        base = [kernel.effect(step, wave) for step in model.bodies[0]]
        for trip, body in enumerate(model.bodies):
            for step, first, effect in zip(
                body, base, (kernel.effect(s, wave) for s in body), strict=True
            ):
                if effect is not first and replace(effect, tile=first.tile) != first:
                    raise self._no_loop(f"{_words(step)} touches something else in trip {trip}")

    def _same(
        self,
        where: str,
        steps: Sequence[Step],
        base: str,
        model: Sequence[Step],
        next_model: Sequence[Step] | None = None,
        count: int = 0,
    ) -> None:
        """``steps`` are those of ``model``, moved ``count`` times as far as ``next_model`` is."""
        if len(steps) != len(model):
            raise self._no_loop(f"{where} has {len(steps)} steps, but {len(model)} in {base}")
        if steps == model and not count:
            return
        following = model if next_model is None else next_model
        if len(following) != len(model):
            return  # its own comparison reports that
        for step, first, second in zip(steps, model, following, strict=True):
            if (step.op, step.phase, step.slot, step.origin) != (
                first.op,
                first.phase,
                first.slot,
                first.origin,
            ):
                raise self._no_loop(f"{where} has {_words(step)}, but {_words(first)} in {base}")
            for name, k, k_first, k_second in (
                ("k_base", step.k_base, first.k_base, second.k_base),
                ("K tile", step.tile, first.tile, second.tile),
            ):
                if k_first is None or k_second is None:
                    due = k_first
                else:
                    due = k_first + count * (k_second - k_first)
                if k != due:
                    raise self._no_loop(
                        f"{where}: {_words(step)} has {name} {k}, but it should be {due}"
                    )

    def _no_loop(self, what: str) -> ConfigError:
        return ConfigError(
            f"kernel {self._kernel.name}: the walk of wave {self._wave} is no loop: {what}",
            hint="every trip must walk the same entries with only K advancing; only the number "
            "of trips may depend on K",
            field="Kernel.walk",
        )


def _words(step: Step) -> str:
    own = f" ({step.origin})" if step.origin else ""
    return f"{step.phase.name.lower()}[{step.slot}] {describe_op(step.op)}{own}"
