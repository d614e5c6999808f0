"""Why no order meets the limits: the limit to name, and what to relax."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipeloom.errors import OrderError
from pipeloom.reference.graph import LoopBody, describe_op
from pipeloom.reference.ops import OpRole
from pipeloom.reference.schedule_config import UNLIMITED_VGPR
from pipeloom.reference.strategies.branch_and_bound import BodySearch
from pipeloom.reference.strategies.contract import LimitReached, NodeBudget, OrderLimits
from pipeloom.reference.strategies.tables import (
    BLOCK_FRAGMENTS,
    BLOCK_LOADS,
    NEVER,
    Tables,
    allowed_peak,
)

_EFFORT = 20_000
"""Nodes spent on each question; an explanation should not cost more than the answer."""


def explain_infeasible(body: LoopBody, limits: OrderLimits) -> OrderError:
    """The error for a body that has no order at all under ``limits``.

    Counts come first, as they need no search; then the first limit that alone makes the
    difference; then all of them.
    """
    if limits.halves:
        for error in _halves_that_cannot_be_blocks(body, limits):
            return error
    blame = (
        ("max_vgpr", replace(limits, max_vgpr=UNLIMITED_VGPR), _too_few_registers),
        ("max_globals", replace(limits, max_globals=0), _too_few_globals),
        ("halves", replace(limits, halves=False), _no_blocks),
    )
    for _, relaxed, error_of in blame:
        if relaxed != limits and _feasible(body, relaxed, allowed_peak(relaxed)):
            return error_of(body, limits)
    active = [name for name, relaxed, _ in blame if relaxed != limits]
    return OrderError(
        f"no order meets these limits together: {', '.join(active)}",
        hint="relax one of them, or give a d=0 edge loop_distance 1",
        field="limits",
    )


def undecided(limits: OrderLimits, nodes: int) -> OrderError:
    """The error for a search cut short before it met any order, or a proof that there is none."""
    return OrderError(
        f"no order that meets the limits was found in {nodes} nodes; there may still be one",
        hint="raise node_limit or time_limit, or relax max_vgpr or max_globals",
        field="node_limit" if limits.time_limit is None else "time_limit",
    )


def _feasible(body: LoopBody, limits: OrderLimits, peak: int) -> bool:
    """Whether an order exists, makespan aside; False also where that cannot be told cheaply."""
    try:
        return (
            BodySearch(Tables(body, limits), NodeBudget(_EFFORT)).find(NEVER - 1, peak)[0]
            is not None
        )
    except LimitReached:
        return False


def _halves_that_cannot_be_blocks(body: LoopBody, limits: OrderLimits) -> Iterator[OrderError]:
    middle = len(body) // 2
    for name, half in (("first", range(middle)), ("second", range(middle, len(body)))):
        if not half:
            continue
        computes = [i for i in half if body.ops[i].role is OpRole.COMPUTE]
        if not computes:
            yield OrderError(
                f"the {name} half has {len(half)} ops but no COMPUTE, "
                "and every block must end in one",
                hint="declare a COMPUTE in each half, or order the body without halves",
                field="halves",
            )
            continue
        held = [i for i in computes if not any(s in half for s in body.successors[i])]
        if not held:
            last = computes[-1]
            after = next(s for s in body.successors[last] if s in half)
            yield OrderError(
                f"the {name} half cannot end in a COMPUTE: "
                f"{describe_op(body.ops[after], after)} must follow "
                f"{describe_op(body.ops[last], last)}, and every other COMPUTE is followed too",
                hint="give that edge loop_distance 1, or move its consumer to the other half",
                field="halves",
            )
        for role, most, limit in (
            (OpRole.FRAGMENT_LOAD, BLOCK_FRAGMENTS, "halves"),
            (OpRole.GLOBAL_LOAD, BLOCK_LOADS, "halves"),
            (OpRole.GLOBAL_LOAD, limits.max_globals or BLOCK_LOADS, "max_globals"),
        ):
            count = sum(body.ops[i].role is role for i in half)
            if count > most * len(computes):
                yield OrderError(
                    f"the {name} half has {count} {role.name} ops, but its {len(computes)} "
                    f"COMPUTEs hold at most {most} each ({limit})",
                    hint=f"declare at most {most * len(computes)} of them in that half"
                    + (", or raise max_globals" if limit == "max_globals" else ""),
                    field=limit,
                )


def _too_few_registers(body: LoopBody, limits: OrderLimits) -> OrderError:
    relaxed = replace(limits, max_vgpr=UNLIMITED_VGPR)
    tables = Tables(body, relaxed)
    search = BodySearch(tables, NodeBudget(_EFFORT))
    needed: int | None = None
    try:
        order, peak = search.find(NEVER - 1, NEVER)[0], NEVER
        while order is not None:
            needed = peak = tables.peak(order)
            order = search.find(NEVER - 1, peak - 1)[0] if peak else None
    except LimitReached:
        needed = None
    if needed is None:
        raise_to = "raise max_vgpr"
        words = "every order needs more"
    else:
        raise_to = f"raise max_vgpr to at least {needed}"
        words = f"every order that meets the other limits needs at least {needed}"
    return OrderError(
        f"max_vgpr is {limits.max_vgpr}, but {words}",
        hint=f"{raise_to}, or lower the vgpr_def of the ops",
        field="max_vgpr",
    )


def _too_few_globals(body: LoopBody, limits: OrderLimits) -> OrderError:
    return OrderError(
        f"max_globals is {limits.max_globals}, but no order keeps the GLOBAL_LOADs that far apart "
        "within the other limits",
        hint="raise max_globals, or 0 for no limit of your own",
        field="max_globals",
    )


def _no_blocks(body: LoopBody, limits: OrderLimits) -> OrderError:
    return OrderError(
        f"no order can become blocks: at most {BLOCK_FRAGMENTS} FRAGMENT_LOADs and {BLOCK_LOADS} "
        "GLOBAL_LOADs before each COMPUTE, half by half, each half ending in a COMPUTE",
        hint="give a d=0 edge that forces the loads together loop_distance 1, "
        "or order the body without halves",
        field="halves",
    )
