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

A problem in a file: edges run ``from`` one op ``to`` another, and ops go by their names.

Everything else is written as the types have it (``plain``). ``numbered`` refuses what it cannot
number; the rest of what can be wrong with a file is refused where the types are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeloom.checks import check_int
from pipeloom.errors import ConfigError, GraphError, SpecError
from pipeloom.order.modulo.parts import Budget, Channel, Edge, MachineUnit, Op, Value
from pipeloom.order.modulo.recurrences import critical_recurrence
from pipeloom.plain import from_plain, to_plain

FORMAT = "pipeloom.modulo/1"

_ENDS = {"from": "src", "to": "dst"}


@dataclass(frozen=True, slots=True)
class ModuloProblem:
    """One loop iteration and its machine, as a modulo scheduling problem.

    Construction raises ``ConfigError`` for a value out of range or a name used twice, and
    ``GraphError`` for an edge that does not exist or a cycle no II can satisfy.
    """

    name: str
    """What results and messages call it."""
    units: tuple[MachineUnit, ...]
    """The machine's units."""
    ops: tuple[Op, ...]
    """The operations of one iteration."""
    edges: tuple[Edge, ...] = ()
    """What must come before what."""
    values: tuple[Value, ...] = ()
    """Registers that ops define and read."""
    channels: tuple[Channel, ...] = ()
    """LDS buffers that ops fill and read."""
    budget: Budget = field(default_factory=Budget)
    """Limits on registers, LDS and stages."""
    time_unit: str = field(default="cycle", compare=False)
    """What one unit of time is called in words for people ("step" where it stands for several
    cycles). It is no part of the problem, is not compared and is not written to files."""

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def lifetimes(self) -> tuple[Value | Channel, ...]:
        """Everything that is held from an op that fills it until its last reader lets go."""
        return (*self.values, *self.channels)

    def unit(self, name: str) -> MachineUnit:
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
    def from_dict(cls, data: Mapping[str, object]) -> ModuloProblem:
        """The inverse of ``to_dict``; an op goes by its name or its number.

        An edge without a latency waits for its source's. Raises ``SpecError`` for other data.

        Args:
            data: What ``to_dict`` gave.
        """
        return from_plain(cls, numbered(data), name="the problem")

    @classmethod
    def from_json(cls, text: str) -> ModuloProblem:
        """Read ``to_json`` text.

        Args:
            text: What ``to_json`` gave.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(
                f"the problem is not JSON: {error}", hint="see docs/modulo.md for the form"
            ) from error
        return cls.from_dict(data)

    def to_dict(self) -> dict[str, object]:
        """Plain data that ``from_dict`` reads back to an equal problem; ops go by name."""
        return named(to_plain(self))

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
            check_int(f"units[{unit.name}]", "capacity", unit.capacity, 1)
    unit_names = {unit.name for unit in problem.units}
    for op in problem.ops:
        check_int(f"ops[{op.name}]", "latency", op.latency, 0)
        for use in op.uses:
            if use.unit not in unit_names:
                raise ConfigError(
                    f"op {op.name!r} uses unit {use.unit!r}, which is not declared",
                    hint=f"the units are {', '.join(sorted(unit_names)) or 'none'}",
                    field=f"ops[{op.name}].uses",
                )
            check_int(f"ops[{op.name}].uses[{use.unit}]", "occupancy", use.occupancy, 1)
            check_int(f"ops[{op.name}].uses[{use.unit}]", "offset", use.offset, 0)
        _require_self_compatible(problem, op)
    for limit in ("registers", "lds_bytes", "stages"):
        bound = getattr(problem.budget, limit)
        if bound is not None:
            check_int("budget", limit, bound, 1)
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
        check_int(f"edges[{index}]", "distance", edge.distance, 0)
    loop = critical_recurrence(count, [edge for edge in problem.edges if edge.distance == 0])
    if loop is not None:
        path = " -> ".join(problem.ops[i].name for i in (*loop.ops, loop.ops[0]))
        raise GraphError(
            f"ops {path} wait for each other within one iteration",
            hint="give one edge of the cycle a distance of at least 1",
            field="edges",
        )


def _validate_lifetimes(problem: ModuloProblem) -> None:
    """Every reader must depend on what it reads: otherwise a lifetime could be negative."""
    count = len(problem.ops)
    dependent = {(edge.src, edge.dst, edge.distance) for edge in problem.edges}

    def check(kind: str, held: Value | Channel) -> None:
        name, sources, readers = held.name, held.fills, held.readers
        field = f"{kind}s[{name}]"
        for op in (*sources, *(reader.op for reader in readers)):
            if not 0 <= op < count:
                raise ConfigError(
                    f"{kind} {name!r} names op {op}, but there are {count} ops", field=field
                )
        if not sources or not readers:
            raise ConfigError(f"{kind} {name!r} needs a writer and a reader", field=field)
        for reader in readers:
            check_int(field, "distance", reader.distance, 0)
            check_int(field, "hold", reader.hold, 0)
            if not any((op, reader.op, reader.distance) in dependent for op in sources):
                raise GraphError(
                    f"{kind} {name!r} is read by {problem.ops[reader.op].name!r} at distance "
                    f"{reader.distance}, but no edge of that distance orders the read after "
                    f"its write",
                    hint=f"add an edge from {problem.ops[sources[0]].name!r}",
                    field=field,
                )

    for value in problem.values:
        check_int(f"values[{value.name}]", "registers", value.registers, 1)
        check_int(f"values[{value.name}]", "delay", value.delay, 0)
        check("value", value)
    for channel in problem.channels:
        check_int(f"channels[{channel.name}]", "bytes", channel.bytes, 0)
        if channel.max_buffers is not None:
            check_int(f"channels[{channel.name}]", "max_buffers", channel.max_buffers, 1)
        check("channel", channel)


def _require_distinct(kind: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(
                f"two {kind}s are called {name!r}", hint="give each its own name", field=f"{kind}s"
            )
        seen.add(name)


def named(problem: dict[str, Any]) -> dict[str, Any]:
    """A problem's plain data, as a file has it."""
    names = [op["name"] for op in problem["ops"]]
    for lifetime in (*problem["values"], *problem["channels"]):
        for reader in lifetime["readers"]:
            reader["op"] = names[reader["op"]]
    for value in problem["values"]:
        value["op"] = names[value["op"]]
    for channel in problem["channels"]:
        channel["fills"] = [names[op] for op in channel["fills"]]
    problem["edges"] = [
        {
            "from": names[edge["src"]],
            "to": names[edge["dst"]],
            "latency": edge["latency"],
            "distance": edge["distance"],
        }
        for edge in problem["edges"]
    ]
    del problem["time_unit"]
    return {"format": FORMAT, **problem}


def numbered(data: object) -> dict[str, Any]:
    """The inverse: a problem's plain data, ops by number, with what a file may leave out."""
    if not isinstance(data, Mapping):
        raise SpecError(f"a problem is a mapping, not {type(data).__name__}")
    found: dict[str, Any] = {"name": "loop", "units": [], **data}
    found.pop("format", None)
    if "time_unit" in found:
        raise SpecError("the problem has no key 'time_unit'", hint="files count in any unit")
    ops = _rows(found, "ops")
    numbers = {op.get("name"): number for number, op in enumerate(ops)}

    def number(item: object, where: str) -> int:
        if isinstance(item, str) and item in numbers:
            return numbers[item]
        if type(item) is int and 0 <= item < len(ops):
            return item
        raise SpecError(f"{where} is {item!r}", hint="give an op's name, or its number")

    found["edges"] = edges = _rows(found, "edges")
    for edge in edges:
        for key in edge:
            if key not in (*_ENDS, "latency", "distance"):
                raise SpecError(
                    f"an edge has the key {key!r}", hint="it may have from, to, latency, distance"
                )
        for end, key in _ENDS.items():
            edge[key] = number(edge.pop(end, None), f"edges.{end}")
        edge.setdefault("latency", ops[edge["src"]].get("latency", 0))
    for kind in ("values", "channels"):
        found[kind] = lifetimes = _rows(found, kind)
        for lifetime in lifetimes:
            lifetime["readers"] = readers = _rows(lifetime, "readers")
            for reader in readers:
                reader["op"] = number(reader.get("op"), f"{kind}.readers.op")
    for value in found["values"]:
        value["op"] = number(value.get("op"), "values.op")
    for channel in found["channels"]:
        channel["fills"] = [number(op, "channels.fills") for op in _items(channel, "fills")]
    return found


def _items(record: Mapping[str, Any], key: str) -> Sequence[Any]:
    items = record.get(key, ())
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise SpecError(f"{key} is {items!r}", hint=f"give {key} as a list")
    return items


def _rows(record: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """A copy of the mappings under ``key``."""
    rows = _items(record, key)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SpecError(f"{key}[{number}] is {row!r}", hint="give a mapping")
    return [dict(row) for row in rows]
