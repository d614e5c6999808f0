"""A problem in a file: edges run ``from`` one op ``to`` another, and ops go by their names.

Everything else is written as the types have it (``plain``). ``numbered`` refuses what it cannot
number; the rest of what can be wrong with a file is refused where the types are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeloom.errors import SpecError

FORMAT = "pipeloom.modulo/1"

_ENDS = {"from": "src", "to": "dst"}


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
        for end, field in _ENDS.items():
            edge[field] = number(edge.pop(end, None), f"edges.{end}")
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
