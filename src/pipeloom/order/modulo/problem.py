"""One loop iteration and its machine, as data for a modulo scheduler.

A modulo schedule starts op ``i`` of iteration ``n`` at ``S[i] + n * II``. The initiation
interval II is what every further iteration costs, so it is the number to minimise. A
``ModuloProblem`` states what such a schedule must respect, and nothing about how to find it:

- **edges**: ``S[dst] >= S[src] + latency - distance * II``; the distance counts iterations.
- **units**: op ``i`` holds ``unit`` during ``[S[i] + offset, S[i] + offset + occupancy)``, taken
  modulo II; at most ``capacity`` holds at once (None: no limit). One op may hold several units.
- **registers**: a value is live from ``S[op] + delay`` until its last reader lets go, at
  ``S[reader] + distance * II + hold``. Lifetimes wrap modulo II; the widths of all values live
  in one cycle stay within ``budget.registers``.
- **buffers**: a channel's buffer is taken when the first of its ``fills`` starts and returned when
  its last reader lets go. Buffers rotate, so a lifetime of L cycles needs ``ceil(L / II)`` of
  them; their bytes, summed over channels, stay within ``budget.lds_bytes``.
- **stages**: ``max(S) - min(S) < budget.stages * II``.

Example, a load that takes 8 cycles feeding a multiply that accumulates into itself::

    ModuloProblem(
        name="dot",
        units=(Unit("mem", 1), Unit("mfma", 1)),
        ops=(
            Op("load", 8, (Reservation("mem", 2),)),
            Op("mma", 4, (Reservation("mfma", 4),)),
        ),
        edges=(Edge(0, 1, 8), Edge(1, 1, 4, distance=1)),
    )

has II = 4: the accumulation needs 4 cycles per iteration, and so does the matrix unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipeloom.errors import ConfigError, GraphError
from pipeloom.order.modulo.records import read_problem_form

FORMAT = "pipeloom.modulo/1"


@dataclass(frozen=True, slots=True)
class Unit:
    """A machine resource that ops hold."""

    name: str
    """What reservations call it."""
    capacity: int | None = 1
    """How many ops may hold it at once; None means any number."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A unit held for some cycles by an op."""

    unit: str
    """The unit by name."""
    occupancy: int = 1
    """For how many cycles."""
    offset: int = 0
    """From how many cycles after the op starts."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of the body."""

    name: str
    """Its name, unique in the problem."""
    latency: int = 0
    """Cycles from its start to its result."""
    uses: tuple[Reservation, ...] = ()
    """The units it holds."""
    load: bool = False
    """Whether the EARLY_LOADS objective moves it up."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependence: ``S[dst] >= S[src] + latency - distance * II``."""

    src: int
    """The op that comes first, by index."""
    dst: int
    """The op that waits, by index."""
    latency: int
    """Cycles that must lie between their starts."""
    distance: int = 0
    """How many iterations later the second one runs."""


@dataclass(frozen=True, slots=True)
class Reader:
    """An op that reads a value or buffer."""

    op: int
    """The op by index."""
    distance: int = 0
    """How many iterations later it reads."""
    hold: int = 0
    """Until how many cycles after its start it reads."""


@dataclass(frozen=True, slots=True)
class Value:
    """Registers that an op defines."""

    name: str
    """Its name, unique in the problem."""
    op: int
    """The op that defines it, by index."""
    registers: int
    """How many registers it takes."""
    readers: tuple[Reader, ...]
    """Who reads it; it is live until the last lets go."""
    delay: int = 0
    """From how many cycles after the op's start it takes them. 0 is what a load in flight needs:
    its destination is taken at issue."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A rotating set of LDS buffers."""

    name: str
    """Its name, unique in the problem."""
    bytes: int
    """Bytes of one buffer; 0 rotates without counting against LDS."""
    fills: tuple[int, ...]
    """The ops that fill a buffer, by index."""
    readers: tuple[Reader, ...]
    """Who reads it; a buffer is free when the last lets go."""
    max_buffers: int | None = None
    """The most buffers; None is no limit."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on what a schedule may use; None is no limit."""

    registers: int | None = None
    """The most registers live in one cycle."""
    lds_bytes: int | None = None
    """The most bytes of all buffers."""
    stages: int | None = None
    """The most iterations that overlap."""


@dataclass(frozen=True, slots=True)
class ModuloProblem:
    """One loop iteration and its machine, as a modulo scheduling problem.

    Construction raises ``ConfigError`` for a value out of range or a name used twice, and
    ``GraphError`` for an edge that does not exist or a cycle no II can satisfy.
    """

    name: str
    """What results and messages call it."""
    units: tuple[Unit, ...]
    """The machine's units."""
    ops: tuple[Op, ...]
    """The operations of one iteration."""
    edges: tuple[Edge, ...] = ()
    """What must come before what."""
    values: tuple[Value, ...] = ()
    """Registers that ops define and read."""
    channels: tuple[Channel, ...] = ()
    """LDS buffers that ops fill and read."""
    budget: Budget = Budget()
    """Limits on registers, LDS and stages."""
    time_unit: str = field(default="cycle", compare=False)
    """What one unit of time is called in words for people ("step" where it stands for several
    cycles). It is no part of the problem, is not compared and is not written to files."""

    def __post_init__(self) -> None:
        _validate(self)

    def unit(self, name: str) -> Unit:
        """The unit called ``name``; validation guarantees it exists for every reservation.

        Args:
            name: The unit's name.
        """
        return next(unit for unit in self.units if unit.name == name)

    def with_budget(
        self,
        *,
        registers: int | None = None,
        lds_bytes: int | None = None,
        stages: int | None = None,
    ) -> ModuloProblem:
        """The same problem with the given limits set; limits not given stay as they are.

        Args:
            registers: The most registers live in one cycle.
            lds_bytes: The most bytes of all buffers.
            stages: The most iterations that overlap.
        """
        old = self.budget
        budget = Budget(
            registers=old.registers if registers is None else registers,
            lds_bytes=old.lds_bytes if lds_bytes is None else lds_bytes,
            stages=old.stages if stages is None else stages,
        )
        return replace(self, budget=budget)

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> ModuloProblem:
        """Read a benchmark record of either kind, or this module's own JSON form.

        The kind is told by its keys: ``resources`` for the HLS loops (``S[t] >= S[s] +
        latency(s) + delay - distance * II``), nodes that are mappings for the GPU loops, and
        ``ops`` for our own. Raises ``SpecError`` when it is none of them.

        Args:
            record: Plain data of one of those kinds.
        """
        form = read_problem_form(record)
        ops = tuple(
            Op(op.name, op.latency, tuple(Reservation(*use) for use in op.uses), op.load)
            for op in form.ops
        )
        values = tuple(
            Value(name, op, registers, tuple(Reader(*reader) for reader in readers), delay)
            for name, op, registers, readers, delay in form.values
        )
        channels = tuple(
            Channel(name, size, fills, tuple(Reader(*reader) for reader in readers), limit)
            for name, size, fills, readers, limit in form.channels
        )
        return cls(
            name=form.name,
            units=tuple(Unit(*unit) for unit in form.units),
            ops=ops,
            edges=tuple(Edge(*edge) for edge in form.edges),
            values=values,
            channels=channels,
            budget=Budget(*form.budget),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> ModuloProblem:
        """The inverse of ``to_dict``; ``from_record`` under the name the other types use.

        Args:
            data: What ``to_dict`` gave.
        """
        return cls.from_record(data)

    @classmethod
    def from_json(cls, text: str) -> ModuloProblem:
        """Read ``to_json`` text, or any record ``from_record`` accepts.

        Args:
            text: What ``to_json`` gave.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(
                f"the problem is not JSON: {error}", hint="see docs/modulo.md for the form"
            ) from error
        return cls.from_record(data)

    def to_dict(self) -> dict[str, object]:
        """Plain data that ``from_dict`` reads back to an equal problem; ops go by name."""
        names = [op.name for op in self.ops]

        def readers(items: Iterable[Reader]) -> list[dict[str, object]]:
            return [
                {"op": names[item.op], "distance": item.distance, "hold": item.hold}
                for item in items
            ]

        return {
            "format": FORMAT,
            "name": self.name,
            "units": [{"name": unit.name, "capacity": unit.capacity} for unit in self.units],
            "ops": [
                {
                    "name": op.name,
                    "latency": op.latency,
                    "uses": [
                        {"unit": use.unit, "occupancy": use.occupancy, "offset": use.offset}
                        for use in op.uses
                    ],
                    "load": op.load,
                }
                for op in self.ops
            ],
            "edges": [
                {
                    "from": names[edge.src],
                    "to": names[edge.dst],
                    "latency": edge.latency,
                    "distance": edge.distance,
                }
                for edge in self.edges
            ],
            "values": [
                {
                    "name": value.name,
                    "op": names[value.op],
                    "registers": value.registers,
                    "readers": readers(value.readers),
                    "delay": value.delay,
                }
                for value in self.values
            ],
            "channels": [
                {
                    "name": channel.name,
                    "bytes": channel.bytes,
                    "fills": [names[op] for op in channel.fills],
                    "readers": readers(channel.readers),
                    "max_buffers": channel.max_buffers,
                }
                for channel in self.channels
            ],
            "budget": {
                "registers": self.budget.registers,
                "lds_bytes": self.budget.lds_bytes,
                "stages": self.budget.stages,
            },
        }

    def to_json(self) -> str:
        """``to_dict`` as text; equal problems give equal bytes."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"


def _validate(problem: ModuloProblem) -> None:
    if not problem.ops:
        raise ConfigError("a loop body needs at least one op", field="ops")
    _require_distinct("unit", [unit.name for unit in problem.units])
    _require_distinct("op", [op.name for op in problem.ops])
    _require_distinct("value", [value.name for value in problem.values])
    _require_distinct("channel", [channel.name for channel in problem.channels])
    for unit in problem.units:
        if unit.capacity is not None:
            _require_int(f"units[{unit.name}].capacity", unit.capacity, least=1)
    unit_names = {unit.name for unit in problem.units}
    for op in problem.ops:
        _require_int(f"ops[{op.name}].latency", op.latency, least=0)
        for use in op.uses:
            if use.unit not in unit_names:
                raise ConfigError(
                    f"op {op.name!r} uses unit {use.unit!r}, which is not declared",
                    hint=f"the units are {', '.join(sorted(unit_names)) or 'none'}",
                    field=f"ops[{op.name}].uses",
                )
            _require_int(f"ops[{op.name}].uses[{use.unit}].occupancy", use.occupancy, least=1)
            _require_int(f"ops[{op.name}].uses[{use.unit}].offset", use.offset, least=0)
        _require_self_compatible(problem, op)
    for limit in ("registers", "lds_bytes", "stages"):
        bound = getattr(problem.budget, limit)
        if bound is not None:
            _require_int(f"budget.{limit}", bound, least=1)
    _validate_edges(problem)
    _validate_lifetimes(problem)


def _require_self_compatible(problem: ModuloProblem, op: Op) -> None:
    """An op that holds a unit more often than it exists cannot start at any II."""
    for unit in problem.units:
        mine = [use for use in op.uses if use.unit == unit.name]
        if unit.capacity is None or len(mine) <= unit.capacity:
            continue
        for use in mine:
            held = sum(
                other.offset <= use.offset < other.offset + other.occupancy for other in mine
            )
            if held > unit.capacity:
                raise ConfigError(
                    f"op {op.name!r} holds {unit.name!r} {held} times at once, "
                    f"capacity {unit.capacity}",
                    hint="give its reservations offsets that do not overlap",
                    field=f"ops[{op.name}].uses",
                )


def _validate_edges(problem: ModuloProblem) -> None:
    count = len(problem.ops)
    for index, edge in enumerate(problem.edges):
        for end in (edge.src, edge.dst):
            if not 0 <= end < count:
                raise GraphError(
                    f"edge {index} names op {end}, but there are {count} ops",
                    hint=f"ops are numbered 0 to {count - 1}",
                    field=f"edges[{index}]",
                )
        if type(edge.latency) is not int:
            raise ConfigError(
                f"edge {index} has latency {edge.latency!r}, which is not an integer",
                field=f"edges[{index}].latency",
            )
        _require_int(f"edges[{index}].distance", edge.distance, least=0)
    cycle = _impossible_cycle(problem)
    if cycle is not None:
        path = " -> ".join(problem.ops[i].name for i in (*cycle, cycle[0]))
        raise GraphError(
            f"ops {path} wait for each other within one iteration",
            hint="give one edge of the cycle a distance of at least 1",
            field="edges",
        )


def _impossible_cycle(problem: ModuloProblem) -> tuple[int, ...] | None:
    """A zero-distance cycle of positive latency, which no II satisfies, or None."""
    within = [edge for edge in problem.edges if edge.distance == 0]
    if _is_acyclic(len(problem.ops), within):
        return None
    best = [0] * len(problem.ops)
    parent: list[int] = [-1] * len(problem.ops)
    for _ in range(len(problem.ops) + 1):
        moved = -1
        for edge in within:
            arrival = best[edge.src] + edge.latency
            if arrival > best[edge.dst]:
                best[edge.dst] = arrival
                parent[edge.dst] = edge.src
                moved = edge.dst
        if moved < 0:
            return None
        cycle = _parent_cycle(parent, moved)
        if cycle is not None:
            return cycle
    return None


def _is_acyclic(count: int, edges: list[Edge]) -> bool:
    waiting = [0] * count
    successors: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        waiting[edge.dst] += 1
        successors[edge.src].append(edge.dst)
    ready = [op for op in range(count) if waiting[op] == 0]
    for op in ready:
        for successor in successors[op]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                ready.append(successor)
    return len(ready) == count


def _parent_cycle(parent: list[int], start: int) -> tuple[int, ...] | None:
    seen: list[int] = []
    marked: set[int] = set()
    at = start
    while at >= 0 and at not in marked:
        marked.add(at)
        seen.append(at)
        at = parent[at]
    if at < 0:
        return None
    return tuple(reversed(seen[seen.index(at) :]))


def _validate_lifetimes(problem: ModuloProblem) -> None:
    """Every reader must depend on what it reads: otherwise a lifetime could be negative."""
    count = len(problem.ops)
    dependent = {(edge.src, edge.dst, edge.distance) for edge in problem.edges}

    def check(kind: str, name: str, sources: tuple[int, ...], readers: tuple[Reader, ...]) -> None:
        field = f"{kind}s[{name}]"
        for op in (*sources, *(reader.op for reader in readers)):
            if not 0 <= op < count:
                raise ConfigError(
                    f"{kind} {name!r} names op {op}, but there are {count} ops", field=field
                )
        if not sources or not readers:
            raise ConfigError(f"{kind} {name!r} needs a writer and a reader", field=field)
        for reader in readers:
            _require_int(f"{field}.distance", reader.distance, least=0)
            _require_int(f"{field}.hold", reader.hold, least=0)
            if not any((op, reader.op, reader.distance) in dependent for op in sources):
                raise GraphError(
                    f"{kind} {name!r} is read by {problem.ops[reader.op].name!r} at distance "
                    f"{reader.distance}, but no edge of that distance orders the read after "
                    f"its write",
                    hint=f"add an edge from {problem.ops[sources[0]].name!r}",
                    field=field,
                )

    for value in problem.values:
        _require_int(f"values[{value.name}].registers", value.registers, least=1)
        _require_int(f"values[{value.name}].delay", value.delay, least=0)
        check("value", value.name, (value.op,), value.readers)
    for channel in problem.channels:
        _require_int(f"channels[{channel.name}].bytes", channel.bytes, least=0)
        if channel.max_buffers is not None:
            _require_int(f"channels[{channel.name}].max_buffers", channel.max_buffers, least=1)
        check("channel", channel.name, channel.fills, channel.readers)


def _require_distinct(kind: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(
                f"two {kind}s are called {name!r}", hint="give each its own name", field=f"{kind}s"
            )
        seen.add(name)


def _require_int(field: str, value: object, *, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(
            f"{field} is {value!r}", hint=f"give an integer of at least {least}", field=field
        )
