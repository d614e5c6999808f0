"""Whether iterations past the end leave what is carried as it is.

A kernel runs whole trips, so it may run more iterations than its arrays take. Those read zeros, and
nothing is left along the loop's dimension; with ``until``, it also leaves iterations out in which
less is left than along that one. Either is right only if such an iteration changes no carried value
that is used after the loop. That a declaration looks at what is left does not say so: it may mask
one sum and forget another, or multiply a masked zero by what has become infinite.

One iteration is followed in abstract values: the range of numbers that a value can have
(``ranges``), the carried value that it still is, and what it says about what is left. A carried
value may be whatever any number of iterations makes of its start. What is not known to be kept
counts as changed.

    P = exp2(masked * scale - top)     masked: -infinity; scale: above 0; top: at least its start
    O += P @ V                         P is 0 and so is what is read of V: O stays, even a NaN

``Inputs`` says for which arrays and scalars that holds: for all, or for those without infinities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from math import inf, prod
from types import MappingProxyType
from typing import TYPE_CHECKING

from pipeloom.machine.dtypes import F32
from pipeloom.program.nodes import POSITIVE, Node, NodeKind, Region
from pipeloom.program.only_adds import only_adds
from pipeloom.program.ranges import ANYTHING, Range, exactly, held, joined, result, stored
from pipeloom.program.vocabulary import VOCABULARY, Reduce

if TYPE_CHECKING:
    from pipeloom.program.meaning import Meaning


class End(Enum):
    """Behind which end an iteration lies: of the arrays, of ``until``, of neither, before ``since``
    or before the arrays begin, or at elements that they have."""

    ARRAYS = "arrays"
    UNTIL = "until"
    SINCE = "since"
    NONE = "none"
    BEFORE = "before"
    INSIDE = "inside"


class Inputs(Enum):
    """What arrays and scalars hold: any number, infinity and NaN, or finite numbers only, of which
    what is carried stays finite, too."""

    ALL = "all"
    FINITE = "finite"


MOST_LEFT = 2.0**31
"""Sizes are below."""
UNHURRIED = 4
"""Iterations after which a carried value that still grows may become anything that way."""


@dataclass(frozen=True, slots=True)
class _Value:
    """What is known of a value: the numbers it can have, and where it comes from."""

    range: Range
    carry: str | None = None
    """It is what this carried value was before the iteration."""
    left: bool = False
    """It is what is left along the loop's dimension, in an iteration behind ``until``; or along
    ``since``, in one before."""
    enough: bool = False
    """It is more than that: never less than what is left along ``until``, or along the loop's."""

    @property
    def number(self) -> float | None:
        return self.range.number


_ANY = _Value(ANYTHING)


def idles_past_end(meaning: Meaning, inputs: Inputs = Inputs.FINITE) -> bool:
    """Whether arrays may have any size, and a kernel run more iterations than they take.

    What is stored per iteration is dropped there by every writer, what is read must be zeros or
    masked, and what is stored after the loop must not notice.
    """
    stored = [n for n in meaning.outputs if n.region is Region.LOOP]
    if len(stored) == len(meaning.outputs):
        return _masks_tails(meaning) or not _mixes(meaning)
    masked = stored or any(meaning.is_left(n.name, meaning.over) for n in meaning.nodes)
    return bool(masked) and _masks_tails(meaning) and _idles(meaning, End.ARRAYS, inputs)


def idles_past(meaning: Meaning, until: str, inputs: Inputs = Inputs.FINITE) -> bool:
    """Whether iterations may be left out in which less is left than along ``until``."""
    stored = any(n.region is Region.LOOP for n in meaning.outputs)
    return not stored and until == meaning.until and _idles(meaning, End.UNTIL, inputs)


def idles_before(meaning: Meaning, since: str, inputs: Inputs = Inputs.FINITE) -> bool:
    """Whether iterations may be left out in which more is left than along ``since``; if nobody asks
    for sizes, which a kernel then takes those off."""
    inside = [n for n in meaning.outputs if n.region is Region.LOOP or meaning.over in n.type.dims]
    stored = any(n.region is not Region.LOOP or not n.adds for n in inside)
    asked = any(n.kind is NodeKind.SIZE and n.along == meaning.over for n in meaning.nodes)
    differs = meaning.span is not None and meaning.span.differs
    elsewhere = differs or any(n.at is not None for n in meaning.inputs)
    first = not (stored or asked or elsewhere) and since in meaning.grid
    values = _values(meaning, End.SINCE, inputs) if first else {}
    zeros = first and all(values[node.uses[0]].number == 0 for node in inside)
    return zeros and _idles(meaning, End.SINCE, inputs)


def adds_up(meaning: Meaning, inputs: Inputs = Inputs.ALL) -> bool:
    """Whether zeros before the arrays begin change nothing: what is streamed is added up, whichever
    elements a tile has.

    Zero times a value that is infinite would be NaN: that depends on the inputs. Where nothing but
    streams is stored as they are, the zeros are stored before them; beside sums, nobody says where.
    """
    if not (only_adds(meaning) or _in_whole_tiles(meaning)):
        return False
    values = _values(meaning, End.BEFORE, inputs)
    sums = any(node.region is Region.AFTER for node in meaning.outputs)
    for node in meaning.nodes:
        if meaning.is_left(node.name, meaning.over):
            return False
        if node.region is not Region.LOOP:
            continue
        copied = node.kind is NodeKind.OUTPUT and meaning[node.uses[0]].kind is NodeKind.STREAM
        if node.kind is NodeKind.OUTPUT and (sums or not copied):
            return False
        if node.kind is not NodeKind.OP:
            continue
        reduces = meaning.over in set(meaning.domain(node).dims) - set(node.type.dims)
        op = VOCABULARY.get(node.op)
        if (
            reduces
            and (op is None or op.reduce is not Reduce.ADD)
            and not _of_one_code(meaning, node)
        ):
            return False
        terms = [values[name].range for name in node.uses]
        if reduces and result(node.op, terms, 1).number != 0:
            return False
    return _idles(meaning, End.BEFORE, inputs)


def _of_one_code(meaning: Meaning, node: Node) -> bool:
    """Whether it reduces a stream of which a tile has one code along the loop, there or not."""
    stream, over = meaning[node.uses[0]], meaning.over
    dims = [d for d in meaning.domain(node).dims if d not in node.type.dims]
    alone = stream.kind is NodeKind.STREAM and stream.type.dims[-1] == over and dims == [over]
    return alone and stream.type.dtype.covers == stream.type.sizes[over]


def _in_whole_tiles(meaning: Meaning) -> bool:
    """Whether sizes along the loop are whole tiles, for a stream has a code for each, or several:
    then zeros before the arrays are, too, and every tile has the elements that it is said to."""
    kinds = (n.type for n in meaning.inputs if n.kind is NodeKind.STREAM)
    codes = (t for t in kinds if t.dims[-1] == meaning.over and t.dtype.covers > 1)
    return any(t.dtype.covers % t.sizes[meaning.over] == 0 for t in codes)


def usual_values(meaning: Meaning, inputs: Inputs = Inputs.FINITE) -> Mapping[str, _Value]:
    """Every value at the elements that its arrays have."""
    return _values(meaning, End.INSIDE, inputs)


def ends_with_block(meaning: Meaning, node: Node) -> bool:
    """Whether what lies past the end of ``over`` in an array also lies past its block's: it reads
    as zero, and is not stored. Behind a row that goes along ``over`` the next one begins, or what
    a leading dimension leaves between them."""
    dims, shape = node.type.dims, node.type.shape
    if meaning.over not in dims or len(dims) == 1:
        return True
    return dims[-1] != meaning.over and all(s == 1 for s in shape[: dims.index(meaning.over)])


def _mixes(meaning: Meaning) -> bool:
    """Whether elements along ``over`` have to do with each other."""
    return any(
        node.kind is NodeKind.CARRY
        or meaning.over in set(meaning.domain(node).dims) - set(node.type.dims)
        for node in meaning.nodes
    )


def _masks_tails(meaning: Meaning) -> bool:
    """Whether what lies behind rows along ``over`` stays in places past the end, or is masked.

    The next row begins there, so elements past the end may be anything: nothing may sum over them,
    carry them or store them otherwise than in such places, which no writer stores.
    """
    loose = {
        node.name
        for node in meaning.inputs
        if node.kind is not NodeKind.RESIDENT and not ends_with_block(meaning, node)
    }
    for node in meaning.nodes:
        if not loose & set(node.operands) or node.kind is NodeKind.OUTPUT:
            continue
        if meaning.over not in node.type.dims:
            return False
        if loose & set(node.operands[1:]) or not meaning.ends(node, meaning.over):
            loose.add(node.name)
    return not any(n.kind is NodeKind.CARRY and loose & set(n.uses) for n in meaning.nodes)


def _idles(meaning: Meaning, end: End, inputs: Inputs) -> bool:
    """Whether an iteration behind this end changes nothing that is used after the loop."""
    values = _values(meaning, end, inputs)
    outlive = {
        used
        for node in meaning.nodes
        if node.region is Region.AFTER
        for used in node.operands
        if meaning[used].kind is NodeKind.CARRY
    }
    return all(values[meaning[name].uses[0]].carry == name for name in outlive)


@lru_cache(maxsize=256)
def _values(meaning: Meaning, end: End, inputs: Inputs) -> Mapping[str, _Value]:
    """Every value in an iteration behind this end, after any others; asked again and again."""
    return MappingProxyType(_iteration(meaning, _carried(meaning, inputs), end, inputs))


@lru_cache(maxsize=256)
def _carried(meaning: Meaning, inputs: Inputs) -> Mapping[str, Range]:
    """What each carried value can be before any iteration."""
    carries = [node for node in meaning.nodes if node.kind is NodeKind.CARRY]
    starts = {n.name: stored(n.type.dtype, exactly(n.start or 0.0)) for n in carries}

    def once_more(ranges: Mapping[str, Range]) -> dict[str, Range]:
        values = _iteration(meaning, ranges, End.NONE, inputs)
        return {n.name: starts[n.name] | values[n.uses[0]].range for n in carries}

    ranges, steps = starts, 0
    while True:
        grown = {name: ranges[name] | more for name, more in once_more(ranges).items()}
        if grown == ranges:
            return once_more(ranges)  # also true, and nearer if it was let grow too far
        if steps >= UNHURRIED:
            grown = {name: grown[name].beyond(ranges[name]) for name in grown}
        ranges, steps = grown, steps + 1


def _iteration(
    meaning: Meaning, carried: Mapping[str, Range], end: End, inputs: Inputs
) -> dict[str, _Value]:
    """Every value in an iteration behind this end."""
    values: dict[str, _Value] = {}
    for node in meaning.nodes:
        if node.kind is NodeKind.CARRY:
            values[node.name] = _Value(carried[node.name], carry=node.name)
        elif node.kind is NodeKind.OP:
            values[node.name] = _computed(meaning, node, values, inputs)
        elif node.kind is NodeKind.VIEW:
            values[node.name] = values[node.uses[0]]
        else:
            values[node.name] = _given(meaning, node, end, inputs)
    return values


def _given(meaning: Meaning, node: Node, end: End, inputs: Inputs) -> _Value:
    """A value that comes from outside."""
    finite = inputs is Inputs.FINITE
    if node.kind is NodeKind.CONSTANT:
        assert node.start is not None
        return _Value(stored(node.type.dtype, exactly(node.start)))
    past = end is End.BEFORE or (end is End.ARRAYS and ends_with_block(meaning, node))
    if node.kind is NodeKind.STREAM and past:
        return _Value(exactly(0))
    if node.kind is NodeKind.SCALAR and node.positive:
        return _Value(Range(*POSITIVE))
    if node.kind is NodeKind.SIZE:
        return _Value(Range(0.0, MOST_LEFT))
    if node.kind is NodeKind.LEFT:
        along = node.type.dims[0]
        spent = along == meaning.over
        most = 0.0 if spent and end is End.ARRAYS else MOST_LEFT
        less = {End.UNTIL: meaning.over, End.SINCE: meaning.since}.get(end)
        more = {End.UNTIL: meaning.until, End.SINCE: meaning.over}.get(end)
        return _Value(
            Range(1.0 if end is End.INSIDE else -MOST_LEFT, most),
            left=along == less,
            enough=along == more,
        )
    return _Value(held(node.type.dtype, finite=finite))


def _computed(meaning: Meaning, node: Node, values: Mapping[str, _Value], inputs: Inputs) -> _Value:
    of = [_where(meaning, node.when, name, values) for name in node.uses]
    if node.op == "select":
        of[1] = _where(meaning, node.uses[0], node.uses[1], values)
    sizes = meaning.domain(node).sizes
    count = prod(size for dim, size in sizes.items() if dim not in node.type.dims)
    value = _Value(result(node.op, [v.range for v in of], count))
    rule = _RULES.get(node.op) if node.op in VOCABULARY else None
    value = value if rule is None else rule(value, *of)
    if node.op == "sub" and of[0].carry is not None and of[0].carry == of[1].carry:
        own = of[0].range
        finite = inputs is Inputs.FINITE or not (own.infinite or own.nan)
        value = _Value(exactly(0)) if finite else value
    if node.init is not None:
        reduce = VOCABULARY[node.op].reduce if node.op in VOCABULARY else None
        start = values[node.init]
        both = _Value(joined(reduce, start.range, value.range))
        value = _JOINS[reduce](both, start, value) if reduce in _JOINS else both
    if node.when is not None and node.otherwise is not None:
        value = _choose(values[node.when], value, values[node.otherwise])
    return _as_stored(meaning, node, value)


def _where(
    meaning: Meaning, condition: str | None, name: str, values: Mapping[str, _Value]
) -> _Value:
    """A value where a condition holds: what has been compared lies on its side of the other."""
    value, asked = values[name], None if condition is None else meaning[condition]
    if asked is None or asked.op not in ("gt", "ge", "lt", "le") or asked.when is not None:
        return value
    larger, smaller = asked.uses if asked.op in ("gt", "ge") else asked.uses[::-1]
    low, high = value.range.low, value.range.high
    if name == larger:
        low = max(low, values[smaller].range.low)
    elif name == smaller:
        high = min(high, values[larger].range.high)
    else:
        return value
    return replace(value, range=Range(low, high)) if low <= high else value


def _as_stored(meaning: Meaning, node: Node, value: _Value) -> _Value:
    """A result as the node's type holds it."""
    dtype = node.type.dtype
    known = value if dtype.holds(F32) else replace(value, left=False, enough=False)
    if value.carry is not None and not dtype.holds(meaning[value.carry].type.dtype):
        known = replace(known, carry=None)
    return replace(known, range=stored(dtype, value.range))


def _add(total: _Value, a: _Value, b: _Value) -> _Value:
    for one, other in ((a, b), (b, a)):
        if one.number == 0:
            return other
    return total


def _sub(rest: _Value, a: _Value, b: _Value) -> _Value:
    return a if b.number == 0 else rest


def _mul(product: _Value, a: _Value, b: _Value) -> _Value:
    for one, other in ((a, b), (b, a)):
        if one.number == 1:
            return other
    return product


def _div(ratio: _Value, a: _Value, b: _Value) -> _Value:
    return a if b.number == 1 else ratio


def _fma(total: _Value, a: _Value, b: _Value, c: _Value) -> _Value:
    product = _Value(result("mul", (a.range, b.range), 1))
    return _add(total, _mul(product, a, b), c)


def _max(larger: _Value, a: _Value, b: _Value) -> _Value:
    return _extreme(larger, a, b, -inf)


def _min(smaller: _Value, a: _Value, b: _Value) -> _Value:
    return _extreme(smaller, a, b, inf)


def _extreme(value: _Value, a: _Value, b: _Value, never: float) -> _Value:
    """Of a NaN and a number it is the number, so only what is never NaN is kept."""
    for one, other in ((a, b), (b, a)):
        if one.number == never and not other.range.nan:
            return other
    same = a.carry if a.carry == b.carry else None
    return replace(value, carry=same, enough=never < 0 and (a.enough or b.enough))


def _choose(condition: _Value, a: _Value, b: _Value) -> _Value:
    if condition.number is not None:
        return a if condition.number else b
    return _Value(a.range | b.range, carry=a.carry if a.carry == b.carry else None)


def _mask(_: _Value, value: _Value, kept: _Value, otherwise: float) -> _Value:
    return _choose(kept, value, _Value(exactly(otherwise)))


def _keep(value: _Value, a: _Value, left: _Value, least: _Value) -> _Value:
    return _mask(value, a, _reaches(_truth("ge", left, least), left, least), -inf)


def _clear(value: _Value, a: _Value, left: _Value, least: _Value) -> _Value:
    return _mask(value, a, _reaches(_truth("ge", left, least), left, least), 0)


def _within(value: _Value, a: _Value, left: _Value) -> _Value:
    return _mask(value, a, _truth("ge", left, _Value(exactly(1))), 0)


def _truth(op: str, a: _Value, b: _Value) -> _Value:
    return _Value(result(op, (a.range, b.range), 1))


def _reaches(truth: _Value, a: _Value, b: _Value) -> _Value:
    """a >= b or a > b: never where less is left than enough, always the other way round."""
    if a.left and b.enough:
        return _Value(exactly(0))
    return _Value(exactly(1)) if b.left and a.enough else truth


_RULES: Mapping[str, Callable[..., _Value]] = MappingProxyType(
    {
        "add": _add,
        "sub": _sub,
        "mul": _mul,
        "div": _div,
        "fma": _fma,
        "max": _max,
        "min": _min,
        "keep": _keep,
        "within": _within,
        "clear": _clear,
        "select": lambda _, condition, a, b: _choose(condition, a, b),
        "convert": lambda _, a: a,
        "gt": _reaches,
        "ge": _reaches,
        "lt": lambda truth, a, b: _reaches(truth, b, a),
        "le": lambda truth, a, b: _reaches(truth, b, a),
    }
)
"""What is known of a result beyond its range: what it still is."""

_JOINS: Mapping[Reduce | None, Callable[..., _Value]] = MappingProxyType(
    {Reduce.ADD: _add, Reduce.MAX: _max, Reduce.MIN: _min}
)
