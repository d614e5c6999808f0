"""Three written forms of a modulo problem, read into one plain form.

The form is a bundle of tuples, so that reading knows nothing of ``ModuloProblem`` and that type
can offer ``from_record`` itself. Structure and types are checked here (``SpecError``); whether
the numbers make sense is for the problem to say.

- *HLS loops*: ``resources`` with latency and limit, ``nodes`` as resource indices, ``edges`` as
  ``[source, target, delay, distance]``; an edge waits for the source's latency plus the delay,
  and a resource limits how many of its nodes start in a slot (so the occupancy is 1).
- *GPU loops*: ``nodes`` as mappings with op, unit, latency and occupancy; ``edges`` as ``[source,
  target, latency, distance]``; a unit serves one op at a time; unit NONE needs none, and so does
  occupancy 0 unless the record's own ``res_mii`` shows that it counted such ops for one cycle.
- *our own*: what ``ModuloProblem.to_dict`` writes; ops may be named or numbered, an edge without
  a latency waits for its source's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeloom.errors import SpecError

ReaderForm = tuple[int, int, int]


class OpForm(NamedTuple):
    """An op's fields; ``uses`` as (unit, occupancy, offset)."""

    name: str
    latency: int
    uses: tuple[tuple[str, int, int], ...]
    load: bool


class ProblemForm(NamedTuple):
    """The fields of a problem, in the order of its types' constructors."""

    name: str
    units: tuple[tuple[str, int | None], ...]
    ops: tuple[OpForm, ...]
    edges: tuple[tuple[int, int, int, int], ...]
    values: tuple[tuple[str, int, int, tuple[ReaderForm, ...], int], ...] = ()
    channels: tuple[tuple[str, int, tuple[int, ...], tuple[ReaderForm, ...], int | None], ...] = ()
    budget: tuple[int | None, int | None, int | None] = (None, None, None)


def read_problem_form(record: object) -> ProblemForm:
    """Tell the kind of record by its keys and read it; ``SpecError`` when it is none."""
    if not isinstance(record, Mapping):
        raise SpecError(f"a problem is a mapping, not {type(record).__name__}")
    if "resources" in record:
        return _read_hls(record)
    if "ops" in record:
        return _read_own(record)
    if "nodes" in record:
        return _read_gpu(record)
    raise SpecError(
        f"a problem with the keys {', '.join(sorted(map(str, record))) or '(none)'} is unknown",
        hint="give ops (our form), resources and nodes (HLS loops), or nodes (GPU loops)",
    )


def _read_hls(record: Mapping[str, object]) -> ProblemForm:
    resources = _rows(record, "resources")
    units = tuple(
        (_text(row, "name", "resources"), _optional_int(row, "limit", "resources"))
        for row in resources
    )
    latencies = [_int(row, "latency", "resources") for row in resources]
    ops: list[OpForm] = []
    for index, kind in enumerate(_items(record, "nodes")):
        if type(kind) is not int or not 0 <= kind < len(units):
            raise SpecError(
                f"nodes[{index}] is {kind!r}", hint=f"give a resource, 0 to {len(units) - 1}"
            )
        unit, limit = units[kind]
        uses = () if limit is None else ((unit, 1, 0),)
        ops.append(OpForm(f"{unit}#{index}", latencies[kind], uses, False))
    edges = tuple(
        (src, dst, ops[src].latency + delay, distance)
        for src, dst, delay, distance in _edge_rows(record, len(ops))
    )
    return ProblemForm(_name(record), units, tuple(ops), edges)


def _read_gpu(record: Mapping[str, object]) -> ProblemForm:
    ops: list[OpForm] = []
    units: dict[str, None] = {}
    least = _least_occupancy(record)
    for index, row in enumerate(_rows(record, "nodes")):
        unit = _text(row, "unit", "nodes")
        occupancy = max(least, _int(row, "occupancy", "nodes"))
        held = unit != "NONE" and occupancy > 0
        if held:
            units[unit] = None
        ops.append(
            OpForm(
                f"{_text(row, 'op', 'nodes')}#{index}",
                _int(row, "latency", "nodes"),
                ((unit, occupancy, 0),) if held else (),
                unit == "TMA",
            )
        )
    edges = tuple(_edge_rows(record, len(ops)))
    return ProblemForm(_name(record), tuple((unit, 1) for unit in units), tuple(ops), edges)


def _least_occupancy(record: Mapping[str, object]) -> int:
    """1 if the record's ``res_mii`` is the bound with every op on a unit holding it, else 0.

    Three of the nine published loops have ops of occupancy 0 on a real unit, and their bounds
    (683, 1199, 517) count each for one issue cycle. Reading them otherwise would "beat" a bound
    by answering an easier question.
    """
    busy: dict[str, list[int]] = {}
    for row in _rows(record, "nodes"):
        unit = _text(row, "unit", "nodes")
        if unit != "NONE":
            busy.setdefault(unit, []).append(_int(row, "occupancy", "nodes"))
    plain = max((sum(cycles) for cycles in busy.values()), default=0)
    issued = max((sum(max(1, cycle) for cycle in cycles) for cycles in busy.values()), default=0)
    return 1 if issued != plain and record.get("res_mii") == issued else 0


_TOP_KEYS = ("format", "name", "units", "ops", "edges", "values", "channels", "budget")


def _read_own(record: Mapping[str, object]) -> ProblemForm:
    _known_keys(record, _TOP_KEYS, "the problem")
    units: list[tuple[str, int | None]] = []
    for row in _rows(record, "units", optional=True):
        _known_keys(row, ("name", "capacity"), "a unit")
        units.append((_text(row, "name", "units"), _optional_int(row, "capacity", "units", 1)))
    ops: list[OpForm] = []
    for row in _rows(record, "ops"):
        _known_keys(row, ("name", "latency", "uses", "load"), "an op")
        uses: list[tuple[str, int, int]] = []
        for use in _rows(row, "uses", optional=True):
            _known_keys(use, ("unit", "occupancy", "offset"), "a reservation")
            uses.append(
                (
                    _text(use, "unit", "uses"),
                    _int(use, "occupancy", "uses", 1),
                    _int(use, "offset", "uses", 0),
                )
            )
        load = row.get("load", False)
        if not isinstance(load, bool):
            raise SpecError(f"ops.load is {load!r}", hint="give true or false")
        ops.append(
            OpForm(_text(row, "name", "ops"), _int(row, "latency", "ops", 0), tuple(uses), load)
        )
    index = {op.name: number for number, op in enumerate(ops)}

    def op_of(row: Mapping[str, object], key: str, where: str) -> int:
        return _op_index(row.get(key), index, len(ops), f"{where}.{key}")

    def readers_of(row: Mapping[str, object], where: str) -> tuple[ReaderForm, ...]:
        found: list[ReaderForm] = []
        for reader in _rows(row, "readers"):
            _known_keys(reader, ("op", "distance", "hold"), "a reader")
            found.append(
                (
                    op_of(reader, "op", f"{where}.readers"),
                    _int(reader, "distance", where, 0),
                    _int(reader, "hold", where, 0),
                )
            )
        return tuple(found)

    edges: list[tuple[int, int, int, int]] = []
    for row in _rows(record, "edges", optional=True):
        _known_keys(row, ("from", "to", "latency", "distance"), "an edge")
        src = op_of(row, "from", "edges")
        latency = _int(row, "latency", "edges", ops[src].latency)
        edges.append((src, op_of(row, "to", "edges"), latency, _int(row, "distance", "edges", 0)))
    values: list[tuple[str, int, int, tuple[ReaderForm, ...], int]] = []
    for row in _rows(record, "values", optional=True):
        _known_keys(row, ("name", "op", "registers", "readers", "delay"), "a value")
        values.append(
            (
                _text(row, "name", "values"),
                op_of(row, "op", "values"),
                _int(row, "registers", "values"),
                readers_of(row, "values"),
                _int(row, "delay", "values", 0),
            )
        )
    channels: list[tuple[str, int, tuple[int, ...], tuple[ReaderForm, ...], int | None]] = []
    for row in _rows(record, "channels", optional=True):
        _known_keys(row, ("name", "bytes", "fills", "readers", "max_buffers"), "a channel")
        fills = tuple(
            _op_index(item, index, len(ops), "channels.fills") for item in _items(row, "fills")
        )
        channels.append(
            (
                _text(row, "name", "channels"),
                _int(row, "bytes", "channels"),
                fills,
                readers_of(row, "channels"),
                _optional_int(row, "max_buffers", "channels"),
            )
        )
    budget = record.get("budget", {})
    if not isinstance(budget, Mapping):
        raise SpecError(f"budget is {budget!r}", hint="give registers, lds_bytes or stages")
    _known_keys(budget, ("registers", "lds_bytes", "stages"), "the budget")
    return ProblemForm(
        _name(record),
        tuple(units),
        tuple(ops),
        tuple(edges),
        tuple(values),
        tuple(channels),
        (
            _optional_int(budget, "registers", "budget"),
            _optional_int(budget, "lds_bytes", "budget"),
            _optional_int(budget, "stages", "budget"),
        ),
    )


def _op_index(item: object, index: Mapping[str, int], count: int, where: str) -> int:
    if isinstance(item, str) and item in index:
        return index[item]
    if type(item) is int and 0 <= item < count:
        return item
    raise SpecError(f"{where} is {item!r}", hint="give an op's name, or its number")


def _edge_rows(record: Mapping[str, object], count: int) -> Iterable[tuple[int, int, int, int]]:
    for number, row in enumerate(_items(record, "edges")):
        if (
            not isinstance(row, Sequence)
            or len(row) != 4
            or not all(type(entry) is int for entry in row)
        ):
            raise SpecError(
                f"edges[{number}] is {row!r}", hint="give [source, target, latency, distance]"
            )
        for end in row[:2]:
            if not 0 <= end < count:
                raise SpecError(
                    f"edges[{number}] names node {end}", hint=f"nodes are 0 to {count - 1}"
                )
        yield row[0], row[1], row[2], row[3]


def _name(record: Mapping[str, object]) -> str:
    return _text(record, "name", "the problem") if "name" in record else "loop"


def _known_keys(row: Mapping[str, object], known: Sequence[str], what: str) -> None:
    for key in row:
        if key not in known:
            raise SpecError(f"{what} has the key {key!r}", hint=f"it may have {', '.join(known)}")


def _items(record: Mapping[str, object], key: str) -> Sequence[object]:
    items = record.get(key)
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise SpecError(f"{key} is {items!r}", hint=f"give {key} as a list")
    return items


def _rows(
    record: Mapping[str, object], key: str, *, optional: bool = False
) -> list[Mapping[str, object]]:
    if optional and key not in record:
        return []
    rows: list[Mapping[str, object]] = []
    for number, row in enumerate(_items(record, key)):
        if not isinstance(row, Mapping):
            raise SpecError(f"{key}[{number}] is {row!r}", hint="give a mapping")
        rows.append(row)
    return rows


def _text(row: Mapping[str, object], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise SpecError(f"{where}.{key} is {value!r}", hint="give a string")
    return value


def _int(row: Mapping[str, object], key: str, where: str, default: int | None = None) -> int:
    value = row.get(key, default)
    if type(value) is not int:
        raise SpecError(f"{where}.{key} is {value!r}", hint="give an integer")
    return value


def _optional_int(
    row: Mapping[str, object], key: str, where: str, default: int | None = None
) -> int | None:
    return None if row.get(key, default) is None else _int(row, key, where, default)
