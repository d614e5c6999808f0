"""Whether iterations past the end leave what is carried as it is.

A kernel runs whole trips, so it may run more iterations than its arrays take. Those read zeros, and
nothing is left along the loop's dimension; with ``until``, it also leaves iterations out in which
less is left than along that one. Either is right only if such an iteration changes no carried value
that is used after the loop. That a declaration looks at what is left does not say so: it may mask
one sum and forget another.

One iteration is followed in abstract values: a number that all elements have, a carried value as it
was before, what is left, something positive, or anything. Anything is taken to be finite, but for a
carried value that starts at infinity, which it still is where an array is empty; a scalar that is
usually positive, to be so. What is not known to be kept counts as changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import inf, isinf, isnan, prod
from types import MappingProxyType

import numpy as np

from pipeloom.machine.dtypes import F32
from pipeloom.program.meaning import Meaning, Node, NodeKind, Region
from pipeloom.program.vocabulary import VOCABULARY, Reduce


class End(Enum):
    """Behind which end an iteration lies: of the arrays, or of ``until``."""

    ARRAYS = "arrays"
    UNTIL = "until"


@dataclass(frozen=True, slots=True)
class _Value:
    """A ``number``, the value of a ``carry`` before the iteration, or what little is known."""

    number: float | None = None
    carry: str | None = None
    left: End | None = None
    """It is what is left along the loop's dimension: too little, by which end."""
    enough: bool = False
    """It is never less than what a mask has to ask for."""
    positive: bool = False
    finite: bool = True


_ANY = _Value()
_NONE = _Value(0.0)
_LOWEST = _Value(-inf)


def idles_past_end(meaning: Meaning) -> bool:
    """Whether arrays may have any size, and a kernel run more iterations than they take.

    What is stored per iteration must be dropped there, what is read must be zeros or masked, and
    what is stored after the loop must not notice.
    """
    stored = [n for n in meaning.outputs if n.region is Region.LOOP]
    if not all(_ends_with_block(meaning, node) for node in stored):
        return False
    if len(stored) == len(meaning.outputs):
        return _masks_tails(meaning) or not _mixes(meaning)
    masked = any(meaning.is_left(n.name, meaning.over) for n in meaning.nodes)
    return masked and _masks_tails(meaning) and _idles(meaning, End.ARRAYS)


def idles_past(meaning: Meaning, until: str) -> bool:
    """Whether iterations may be left out in which less is left than along ``until``."""
    stored = any(n.region is Region.LOOP for n in meaning.outputs)
    return not stored and until == meaning.until and _idles(meaning, End.UNTIL)


def _ends_with_block(meaning: Meaning, node: Node) -> bool:
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
    """Whether streams with rows along ``over`` are used where something is left, and only there."""
    for stream in meaning.inputs:
        if stream.kind is NodeKind.RESIDENT or _ends_with_block(meaning, stream):
            continue
        for user in meaning.nodes:
            masked = stream.name not in user.operands[1:] and meaning.ends(user, meaning.over)
            if stream.name in user.operands and not masked:
                return False
    return True


def _idles(meaning: Meaning, end: End) -> bool:
    """Whether an iteration behind this end changes nothing that is used after the loop."""
    values: dict[str, _Value] = {}
    for node in meaning.nodes:
        values[node.name] = _value(meaning, node, values, end)
    outlive = {
        used
        for node in meaning.nodes
        if node.region is Region.AFTER
        for used in node.operands
        if meaning[used].kind is NodeKind.CARRY
    }
    return all(values[meaning[name].uses[0]].carry == name for name in outlive)


def _value(meaning: Meaning, node: Node, values: Mapping[str, _Value], end: End) -> _Value:
    if node.kind is NodeKind.CONSTANT:
        assert node.start is not None
        return _number(node.start, end)
    if node.kind is NodeKind.STREAM:
        return _NONE if end is End.ARRAYS and _ends_with_block(meaning, node) else _ANY
    if node.kind is NodeKind.CARRY:
        return _Value(carry=node.name, finite=not isinf(node.start or 0.0))
    if node.kind is NodeKind.SCALAR:
        return _Value(positive=node.positive)
    if node.kind is NodeKind.LEFT:
        along = node.type.dims[0]
        spent = end if along == meaning.over else None
        return _Value(left=spent, enough=end is End.UNTIL and along == meaning.until)
    if node.kind is not NodeKind.OP:
        return _ANY
    result = _result(meaning, node, [values[name] for name in node.uses], end)
    if node.init is not None and node.op in VOCABULARY:
        reduce = VOCABULARY[node.op].reduce
        joined = {Reduce.ADD: _add, Reduce.MAX: _max, Reduce.MIN: _min}.get(reduce or Reduce.ANY)
        result = _ANY if joined is None else joined(values[node.init], result)
    if node.when is not None and node.otherwise is not None:
        condition, otherwise = values[node.when], values[node.otherwise]
        result = _choose(condition, result, otherwise)
    return _stored(meaning, node, result, end)


def _stored(meaning: Meaning, node: Node, value: _Value, end: End) -> _Value:
    """A result as the node's type holds it."""
    if value.number is not None:
        dtype = node.type.dtype
        return value if dtype.is_bool else _number(_rounded(node, value.number), end)
    if value.carry is not None and node.type.dtype not in (F32, meaning[value.carry].type.dtype):
        return _ANY
    return value


def _rounded(node: Node, number: float) -> float:
    return float(node.type.dtype.round(np.array([number], np.float32))[0])


def _number(number: float, end: End) -> _Value:
    if isnan(number):
        return _ANY
    return _Value(number, enough=end is End.ARRAYS and number >= 1, positive=0 < number < inf)


def _result(meaning: Meaning, node: Node, of: list[_Value], end: End) -> _Value:
    if node.op not in VOCABULARY:
        return _ANY
    numbers = [value.number for value in of]
    if all(number is not None for number in numbers):
        sizes = meaning.domain(node).sizes
        count = prod(size for dim, size in sizes.items() if dim not in node.type.dims)
        op = VOCABULARY[node.op]
        with np.errstate(all="ignore"):
            each = float(op.function(*(np.float32(number or 0.0) for number in numbers)))
            return _number(each * (count if op.reduce is Reduce.ADD else 1), end)
    known = _RULES.get(node.op)
    result = _ANY if known is None else known(*of)
    if all(value.finite for value in of) or result.carry is not None:
        return result
    return replace(_ANY if node.op in _OF_FINITE else result, finite=False)


def _add(a: _Value, b: _Value) -> _Value:
    for one, other in ((a, b), (b, a)):
        if one.number == 0:
            return other
        if one.number == -inf and other.number != inf:
            return _LOWEST
    return _Value(positive=a.positive and b.positive)


def _sub(a: _Value, b: _Value) -> _Value:
    return a if b.number == 0 else _LOWEST if a.number == -inf and b.number is None else _ANY


def _mul(a: _Value, b: _Value) -> _Value:
    for one, other in ((a, b), (b, a)):
        if one.number == 0 and other.number is None:
            return _NONE
        if one.number == 1:
            return other
        if one.number == -inf and other.positive:
            return _LOWEST
    return _Value(positive=a.positive and b.positive)


def _div(a: _Value, b: _Value) -> _Value:
    if b.number == 1:
        return a
    return a if a.number in (0, -inf) and b.positive else _Value(positive=a.positive and b.positive)


def _max(a: _Value, b: _Value) -> _Value:
    for one, other in ((a, b), (b, a)):
        if one.number == -inf:
            return other
    if a == b:
        return a
    return _Value(enough=a.enough or b.enough, positive=a.positive or b.positive)


def _min(a: _Value, b: _Value) -> _Value:
    for one, other in ((a, b), (b, a)):
        if one.number == inf:
            return other
    return a if a == b else _Value(positive=a.positive and b.positive)


def _keep(value: _Value, left: _Value, least: _Value) -> _Value:
    return _LOWEST if _short(left, least) or value.number == -inf else _ANY


def _short(left: _Value, least: _Value) -> bool:
    """Whether it is known that less is left."""
    return left.left is not None and least.enough


def _choose(condition: _Value, a: _Value, b: _Value) -> _Value:
    if condition.number is not None:
        return a if condition.number else b
    return a if a == b else _ANY


def _exceeds(a: _Value, b: _Value) -> _Value:
    """a > b."""
    never = a.number == -inf or b.number == inf or _short(a, b)
    return _NONE if never else _ANY


def _reaches(a: _Value, b: _Value) -> _Value:
    """a >= b."""
    return _NONE if _short(a, b) else _ANY


_RULES: Mapping[str, Callable[..., _Value]] = MappingProxyType(
    {
        "add": _add,
        "sub": _sub,
        "mul": _mul,
        "matmul": lambda a, b: _NONE if 0 in (a.number, b.number) else _ANY,
        "div": _div,
        "fma": lambda a, b, c: _add(_mul(a, b), c),
        "max": _max,
        "min": _min,
        "keep": _keep,
        "within": lambda value, left: _NONE if left.left is End.ARRAYS else _ANY,
        "select": _choose,
        "convert": lambda a: a,
        "gt": _exceeds,
        "lt": lambda a, b: _exceeds(b, a),
        "ge": _reaches,
        "le": lambda a, b: _reaches(b, a),
    }
)
"""What is known of a result by its operands, where not all of them are numbers."""

_OF_FINITE = frozenset({"add", "sub", "mul", "matmul", "div", "fma"})
"""Ops that may give NaN of an infinity, whatever the other operand."""
