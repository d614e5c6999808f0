"""What elements past the end of a dimension can be: whether a reduction would notice them.

A tile may reach past the end of its array, where inputs read as zero and computed values are
whatever ops make of that. A sum notices what is not 0 there, a maximum what is larger than an
element that exists. Zeros are none any more where they are multiplied by an array's infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from pipeloom.program.idle import (
    MOST_LEFT,
    Inputs,
    adds_up,
    ends_with_block,
    idles_before,
    idles_past,
    idles_past_end,
    usual_values,
)
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.ranges import ANYTHING, Range, exactly, joined, result, stored
from pipeloom.program.vocabulary import PRODUCTS, VOCABULARY, Reduce

if TYPE_CHECKING:
    from pipeloom.program.meaning import Meaning

NEUTRAL = {Reduce.ADD: 0.0, Reduce.MAX: -inf, Reduce.MIN: inf, Reduce.ANY: 0.0}


def needs_finite(meaning: Meaning) -> bool:
    """Whether its kernels may be wrong where an array or a scalar holds an infinity or a NaN:
    iterations past an end change nothing, or reductions past another one notice nothing, only
    without them."""
    if meaning.until is not None and not idles_past(meaning, meaning.until, Inputs.ALL):
        return True
    if meaning.since is not None and not idles_before(meaning, meaning.since, Inputs.ALL):
        return True
    if meaning.ragged and not idles_past_end(meaning, Inputs.ALL):
        return True
    if meaning.adds_up and not meaning.ragged and not adds_up(meaning):
        return True
    others = {dim for node in meaning.inputs for dim in node.type.dims} - {meaning.over}
    return any(noticed(meaning, dim, Inputs.ALL) for dim in others)


def noticed(meaning: Meaning, dim: str, inputs: Inputs = Inputs.FINITE) -> list[tuple[str, str]]:
    """(node, operand): reductions over a dimension that would notice elements past its end.

    Of a product whose operands are both loaded, nothing is known to. Its loads end with rows, which
    launches ask of sizes; what vector ops take is loaded as widely as tiles allow, and past the end
    of a row the next one begins.
    """
    usual = {name: value.range for name, value in usual_values(meaning, inputs).items()}
    pasts = {wide: _past(meaning, dim, usual, wide=wide) for wide in (False, True)}
    found = []
    for name, operand in reduced(meaning, dim):
        node = meaning[name]
        op, past = VOCABULARY[node.op], pasts[node.op not in PRODUCTS]
        assert op.reduce is not None
        terms = [past[n] if dim in meaning[n].type.dims else usual[n] for n in node.uses]
        each = result(node.op, terms, 1)
        if each.number == NEUTRAL[op.reduce]:
            continue
        if op.reduce is Reduce.MAX and not each.nan and each.high <= usual[node.uses[0]].low:
            continue
        found.append((name, operand))
    return found


def reduced(meaning: Meaning, dim: str) -> list[tuple[str, str]]:
    """(node, operand): what is reduced over a dimension; of a product one that is computed."""
    found = []
    for node in meaning.nodes:
        op = VOCABULARY.get(node.op)
        if op is None or op.reduce is None or not _reduces(meaning, node, dim):
            continue
        uses = [n for n in node.uses if dim in meaning[n].type.dims]
        if node.op in PRODUCTS:
            uses = [n for n in uses if meaning[n].kind is NodeKind.OP]
        found += [(node.name, name) for name in uses[:1]]
    return found


def _reduces(meaning: Meaning, node: Node, dim: str) -> bool:
    return dim in meaning.domain(node).dims and dim not in node.type.dims


def _past(
    meaning: Meaning, dim: str, usual: Mapping[str, Range], *, wide: bool
) -> dict[str, Range]:
    """Every value that has the dimension, past its end; carries as they start, if they stay so.

    ``wide`` loads bring what lies behind the end of a row with its last elements.
    """
    carries = [n for n in meaning.nodes if n.kind is NodeKind.CARRY and dim in n.type.dims]
    guess = {n.name: stored(n.type.dtype, exactly(n.start or 0.0)) for n in carries}
    for _ in carries:
        past = _once(meaning, dim, usual, guess, wide=wide)
        changed = [n.name for n in carries if past[n.uses[0]] != guess[n.name]]
        if not changed:
            return past
        guess |= dict.fromkeys(changed, ANYTHING)
    return _once(meaning, dim, usual, guess, wide=wide)


def _once(
    meaning: Meaning,
    dim: str,
    usual: Mapping[str, Range],
    carried: Mapping[str, Range],
    *,
    wide: bool,
) -> dict[str, Range]:
    past: dict[str, Range] = {}
    for node in meaning.nodes:
        past[node.name] = usual[node.name]
        if dim not in node.type.dims:
            continue
        if node.kind is NodeKind.CARRY:
            past[node.name] = carried[node.name]
        elif node.kind in (NodeKind.STREAM, NodeKind.RESIDENT):
            reaches_on = wide and len(node.type.dims) > 1 and node.type.dims[-1] == dim
            if ends_with_block(meaning, node) if dim == meaning.over else not reaches_on:
                past[node.name] = exactly(0)
        elif node.kind is NodeKind.VIEW and dim in meaning[node.uses[0]].type.dims:
            past[node.name] = past[node.uses[0]]
        elif node.kind is NodeKind.LEFT:
            past[node.name] = Range(-MOST_LEFT, 0.0)
        elif node.kind is NodeKind.OP:
            past[node.name] = _computed(meaning, node, past)
    return past


def _computed(meaning: Meaning, node: Node, past: Mapping[str, Range]) -> Range:
    sizes = meaning.domain(node).sizes
    count = 1
    for dim, size in sizes.items():
        count *= 1 if dim in node.type.dims else size
    value = result(node.op, [past[name] for name in node.uses], count)
    if node.init is not None:
        reduce = VOCABULARY[node.op].reduce if node.op in VOCABULARY else None
        value = joined(reduce, past[node.init], value)
    if node.otherwise is not None:
        value = value | past[node.otherwise]
    return stored(node.type.dtype, value)
