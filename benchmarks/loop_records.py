"""Published loops, as two collections write them, as modulo problems.

- *HLS loops*: ``resources`` with latency and limit, ``nodes`` as resource indices, ``edges`` as
  ``[source, target, delay, distance]``; an edge waits for the source's latency plus the delay,
  and a resource limits how many of its nodes start in a slot (so the occupancy is 1).
- *GPU loops*: ``nodes`` as mappings with op, unit, latency and occupancy; ``edges`` as ``[source,
  target, latency, distance]``; a unit serves one op at a time; unit NONE needs none, and so does
  occupancy 0 unless the record's own ``res_mii`` shows that it counted such ops for one cycle.
"""

from __future__ import annotations

from typing import Any

from pipeloom.order.modulo import Edge, MachineUnit, ModuloProblem, Op, Reservation


def read_record(record: dict[str, Any]) -> ModuloProblem:
    """A record of either kind, told by its keys."""
    return _hls(record) if "resources" in record else _gpu(record)


def _hls(record: dict[str, Any]) -> ModuloProblem:
    units = tuple(MachineUnit(kind["name"], kind["limit"]) for kind in record["resources"])
    ops = tuple(
        Op(
            f"{units[kind].name}#{index}",
            record["resources"][kind]["latency"],
            () if units[kind].capacity is None else (Reservation(units[kind].name),),
        )
        for index, kind in enumerate(record["nodes"])
    )
    edges = tuple(
        Edge(src, dst, ops[src].latency + delay, distance)
        for src, dst, delay, distance in record["edges"]
    )
    return ModuloProblem(record["name"], units, ops, edges)


def _gpu(record: dict[str, Any]) -> ModuloProblem:
    least = _least_occupancy(record)
    ops: list[Op] = []
    for index, node in enumerate(record["nodes"]):
        occupancy = max(least, node["occupancy"])
        held = node["unit"] != "NONE" and occupancy > 0
        uses = (Reservation(node["unit"], occupancy),) if held else ()
        ops.append(Op(f"{node['op']}#{index}", node["latency"], uses, node["unit"] == "TMA"))
    units = dict.fromkeys(use.unit for op in ops for use in op.uses)
    edges = tuple(Edge(*edge) for edge in record["edges"])
    return ModuloProblem(record["name"], tuple(map(MachineUnit, units)), tuple(ops), edges)


def _least_occupancy(record: dict[str, Any]) -> int:
    """1 if the record's ``res_mii`` is the bound with every op on a unit holding it, else 0.

    Three of the nine published loops have ops of occupancy 0 on a real unit, and their bounds
    (683, 1199, 517) count each for one issue cycle. Reading them otherwise would "beat" a bound
    by answering an easier question.
    """
    busy: dict[str, list[int]] = {}
    for node in record["nodes"]:
        if node["unit"] != "NONE":
            busy.setdefault(node["unit"], []).append(node["occupancy"])
    plain = max((sum(cycles) for cycles in busy.values()), default=0)
    issued = max((sum(max(1, cycle) for cycle in cycles) for cycles in busy.values()), default=0)
    return 1 if issued != plain and record.get("res_mii") == issued else 0
