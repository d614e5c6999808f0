"""One iteration as a modulo problem: what all builders of one have in common.

    order/task_problem.py          tasks of a lowered loop, in steps of an instruction, rounded up:
                                   its solutions are loops
    order/instruction_problem.py   single instructions; ``relaxed``, in cycles rounded down, forbids
                                   what no loop can do; ``stepped`` is solved as the first is
    order/weave.py, interleave.py  single instructions whose times are known, in ticks: stages,
                                   copies and unrolling follow from it

A builder says how long what takes in its unit of time; who fills and reads what, how large it is
and how the parts become a ``ModuloProblem`` stands here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeloom.order.modulo import Budget, Channel, Edge, MachineUnit, ModuloProblem, Op, Reader
from pipeloom.order.tasks import Lowered, Place, Task
from pipeloom.order.unit_times import Machine
from pipeloom.program.nodes import Region
from pipeloom.program.resources import Space


@dataclass(frozen=True, slots=True)
class LoopProblem:
    """The problem, whose op i is ``tasks[i]``, and the cycles of one step of its time.

    ``channels`` names the rotating places in the order of the problem's channels. Behind the tasks,
    the problem may have ``barriers``, and ops that only mark a time. Each group starts ``stagger``
    barriers after the one before it.
    """

    problem: ModuloProblem
    tasks: tuple[Task, ...]
    quantum: int
    channels: tuple[str, ...]
    barriers: int = 0
    stagger: int = 0


@dataclass(frozen=True, slots=True)
class Rotation:
    """A rotating place, the name of its channel, and the numbers of who fills and who reads it."""

    place: Place
    name: str
    fills: tuple[int, ...]
    readers: tuple[int, ...]

    @property
    def in_lds(self) -> bool:
        """Whether barriers stand between them."""
        return self.place.space is Space.LDS


class ProblemBuilder:
    """Edges and channels, collected in order: the same loop gives the same problem."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.machine = Machine.of(lowered)
        self.tasks = lowered.of(Region.LOOP)
        self.edges: dict[Edge, None] = {}
        self.channels: list[Channel] = []
        self.places: list[str] = []
        """Of each channel."""

    def rotations(self) -> tuple[Rotation, ...]:
        """What an iteration fills and reads; of registers every group has its own."""
        return self.lowered.once("rotations", lambda: tuple(self._rotations()))

    def _rotations(self) -> Iterator[Rotation]:
        fills: dict[tuple[str, str | None], dict[int, None]] = {}
        readers: dict[tuple[str, str | None], dict[int, None]] = {}
        for number, task in enumerate(self.tasks):
            for touched, by in ((task.left, fills), (task.found, readers)):
                for touch in touched:
                    for group in (None, task.group):
                        by.setdefault((touch.place, group), {})[number] = None
        groups = [group.name for group in self.lowered.groups]
        for place in self.lowered.places:
            in_lds = place.space is Space.LDS
            for group in [None] if in_lds else groups if place.rotates else ():
                key = (place.name, group)
                if place.rotates and key in fills and key in readers:
                    name = place.name if group is None else f"{place.name} {group}"
                    yield Rotation(place, name, tuple(fills[key]), tuple(readers[key]))

    def connect(
        self, firsts: Iterable[int], seconds: Sequence[int], latency: int, distance: int = 0
    ) -> None:
        """Each of the second ones starts ``latency`` after each of the first, ``distance``
        iterations later."""
        self.edges |= {Edge(f, s, latency, distance): None for f in firsts for s in seconds}

    def hold(
        self,
        place: Place,
        name: str,
        fills: Sequence[int],
        readers: Iterable[Reader],
        most: int | None = None,
    ) -> None:
        """A channel of a place: taken by the first who fills it, free after the last reader."""
        size = place.type.dtype.bytes(place.type.elements) if place.space is Space.LDS else 0
        self.channels.append(Channel(name, size, tuple(fills), tuple(readers), most))
        self.places.append(place.name)

    def problem(
        self,
        ops: Sequence[Op],
        units: Sequence[MachineUnit] = (),
        *,
        time_unit: str,
        lds: int | None = None,
        stages: int | None = None,
    ) -> ModuloProblem:
        """What was collected, with these ops; ``lds`` bytes are there for what rotates, or all but
        what stays."""
        places = self.lowered.places
        stays = [p.type for p in places if p.space is Space.LDS and not p.rotates]
        kept = sum(kind.dtype.bytes(kind.elements) for kind in stays)
        lds = self.lowered.target.lds_kib.value * 1024 - kept if lds is None else lds
        return ModuloProblem(
            name=self.lowered.meaning.name,
            units=tuple(units),
            ops=tuple(ops),
            edges=tuple(self.edges),
            channels=tuple(self.channels),
            budget=Budget(None, lds, stages),
            time_unit=time_unit,
        )
