"""Between which two numbers a value lies, in whatever order its sums are taken.

A program may take sums in any order and in any parts, and rounds each part. So two right executions
may differ, and a comparison must allow for that much and for no more. Per element:

    a sum of numbers on one grid       exact, while the sum of sizes fits the type: every order
                                       gives the same number
    any other sum of n terms           within n roundings of the sum of their sizes
    a function of what is not exact    between what it gives for the least and the largest operands,
                                       or all that it can give, if it turns between them
    what may overflow in some order    anything, NaN too, and what follows from a NaN
    a function that NumPy rounds       within a few units of double precision, before its own type

Whole numbers stay exact through products, sums and conversions, and what follows from exact numbers
without a sum is exact too: only sums of what exp2 or a division gave are ever in doubt.

    S = A @ B      exact: whole numbers
    P = exp2(S)    exact: one function of an exact number
    l += sum(P)    8 terms of about 1: within 8 * 2 ** -24 * 8
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from pipeloom.array_kinds import Array, Flags
from pipeloom.machine.dtypes import DType
from pipeloom.program import VOCABULARY, Meaning, Node, NodeKind, OpDef, Region, Vocabulary
from pipeloom.program.block_values import aligned, apply_node
from pipeloom.program.ranges import ANYTHING, Range, result
from pipeloom.program.vocabulary import PRODUCTS, Reduce

NEAR = 2.0**-48
"""What two ways through NumPy's functions of doubles may differ by, relative to the result."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What an element may be at least and at most; the same array where that is one number."""

    low: Array
    high: Array

    @property
    def exact(self) -> bool:
        """Whether it is one number everywhere."""
        return self.low is self.high

    @property
    def anything(self) -> Flags:
        """Where it may be any number, and NaN."""
        return np.asarray(np.isneginf(self.low) & np.isposinf(self.high))

    @property
    def open(self) -> Flags:
        """Where it may be more than one number."""
        nan = np.isnan(self.low) & np.isnan(self.high)
        return np.asarray((self.low != self.high) & ~nan)


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """So many terms, the sum of the sizes of finite ones, what they are in doubt by, and their
    common grid."""

    terms: int
    size: Array
    doubt: Array
    grid: float

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.terms + other.terms,
            self.size + other.size,
            self.doubt + other.doubt,
            min(self.grid, other.grid),
        )

    def slack(self, dtype: DType) -> Array | None:
        """How far from the sum any order of its terms may lead; None if every order is exact."""
        unit = 2.0 ** -(dtype.mantissa + 1)
        whole = dtype.is_integer and self.grid >= 1  # exact modulo a power of two
        fits = whole or (
            float(self.size.max(initial=0.0)) * unit <= self.grid
            and not self.may_overflow(dtype).any()
        )
        if fits and not self.doubt.any():
            return None
        slack = self.doubt + self.terms * unit * (self.size + self.doubt)
        on_grid = (self.doubt == 0) & (self.size * unit <= self.grid)
        return np.asarray(np.where(on_grid, 0.0, slack))

    def may_overflow(self, dtype: DType) -> Flags:
        """Where some order of its terms may lead to an infinity, or NaN."""
        return ~(np.asarray(self.size + self.doubt) <= dtype.largest)


class Enclosure:
    """Follows an evaluation region by region and encloses every value of it."""

    def __init__(
        self, meaning: Meaning, ops: Vocabulary = VOCABULARY, near: float = NEAR, least: float = 0.0
    ) -> None:
        self._meaning = meaning
        self._near, self._least = near, least
        self._ops = ops
        self._carries = [n for n in meaning.nodes if n.kind is NodeKind.CARRY]
        self._update = {carry.name: carry.uses[0] for carry in self._carries}
        self._ranges: dict[str, Bounds] = {}
        self._sums: dict[str, Sum] = {}
        self._last: Region | None = None
        self.exact = True

    def follow(self, region: Region, values: Mapping[str, Array]) -> Mapping[str, Bounds]:
        """The ranges of all values so far, those of ``region`` anew; as ``look`` is shown them."""
        for carry in self._carries:
            if self._last is None:
                self._ranges[carry.name] = _exactly(values[carry.name])
            elif self._last is Region.LOOP:
                self._ranges[carry.name] = self._ranges[self._update[carry.name]]
        self._last = region
        with np.errstate(all="ignore"):
            for node in self._meaning.nodes:
                if node.region is region and node.kind is not NodeKind.CARRY:
                    found = self._ranges[node.name] = self._range(node, values)
                    self.exact &= found.exact
        return self._ranges

    def _range(self, node: Node, values: Mapping[str, Array]) -> Bounds:
        if node.kind is NodeKind.OUTPUT and not self._ranges[node.uses[0]].exact:
            used = self._ranges[node.uses[0]]
            return _rounded(used.low, used.high, node.type.dtype)
        if node.kind is not NodeKind.OP:
            return _exactly(values[node.name])
        op = self._ops[node.op]
        if op.reduce is Reduce.ADD:
            found = self._summed(node, op, values)
        else:
            found = self._corners(node, op, values)
        return found if node.when is None else self._chosen(node, found)

    def _corners(self, node: Node, op: OpDef, values: Mapping[str, Array]) -> Bounds:
        """A function of its operands at their ends, and at zero; anything that it may give where
        it turns between them."""
        ranges = {name: self._ranges[name] for name in (*node.uses, *_some(node.init))}
        if not op.rounded and node.when is None and all(r.exact for r in ranges.values()):
            return _exactly(values[node.name])
        low = high = None
        some, every = np.zeros((), np.bool_), np.ones((), np.bool_)
        for point in _points(ranges):
            found = np.asarray(
                apply_node(self._meaning, node, point, self._ops, wide=True), np.float64
            )
            low = found if low is None else np.fmin(low, found)
            high = found if high is None else np.fmax(high, found)
            some, every = some | np.isnan(found), every & np.isnan(found)
        assert low is not None
        assert high is not None
        if op.turns:
            low, high = self._between(node, ranges, low, high)
        if op.rounded:
            low, high = low - self._doubt(low), high + self._doubt(high)
        lost = some & ~every  # a number or NaN
        low, high = np.where(lost, -np.inf, low), np.where(lost, np.inf, high)
        return _rounded(low, high, node.type.dtype)

    def _between(
        self, node: Node, ranges: Mapping[str, Bounds], low: Array, high: Array
    ) -> tuple[Array, Array]:
        """All that a function gives of operands between their ends, where those differ."""
        shape = np.shape(low)

        def laid(name: str, array: Array) -> Array:
            dims = self._meaning[name].type.dims
            return np.broadcast_to(aligned(array, dims, node.type.dims), shape)

        used = [Bounds(laid(n, ranges[n].low), laid(n, ranges[n].high)) for n in node.uses]
        places = np.logical_or.reduce([bounds.open for bounds in used])
        low, high = low.copy(), high.copy()
        for at in zip(*np.nonzero(places), strict=True):
            found = result(node.op, [_as_range(b.low[at], b.high[at]) for b in used], 1)
            low[at], high[at] = (-np.inf, np.inf) if found.nan else (found.low, found.high)
        return low, high

    def _doubt(self, value: Array) -> Array:
        """How far a function's result may be from NumPy's."""
        return np.where(np.isfinite(value), self._near * np.abs(value) + self._least, 0.0)

    def _summed(self, node: Node, op: OpDef, values: Mapping[str, Array]) -> Bounds:
        meaning = self._meaning
        sum_ = self._terms(node, op, values)
        if node.init is not None:
            own = self._update.get(node.init) == node.name and node.when is None
            before = self._sums.get(node.name) if own else None
            if before is None:
                start, value = self._ranges[node.init], values[node.init]
                doubt = _radius(start, value)
                before = Sum(1, _size(value), doubt, grid(value))
                onto = node.type.dims
                dims = meaning[node.init].type.dims
                before = replace(
                    before,
                    size=aligned(before.size, dims, onto),
                    doubt=aligned(before.doubt, dims, onto),
                )
            sum_ = before + sum_
            if own:
                self._sums[node.name] = sum_
        value = values[node.name]
        if node.when is not None:  # what it would be if it were taken
            found = apply_node(meaning, node, values, self._ops, wide=True)
            value = np.asarray(node.type.dtype.round(found))
        slack = sum_.slack(node.type.dtype)
        if slack is None:
            return _exactly(np.asarray(value, np.float64))
        sure = np.isinf(value)  # infinities come in every order, overflows in some
        over = sum_.may_overflow(node.type.dtype)
        low, high = np.where(sure, value, value - slack), np.where(sure, value, value + slack)
        return _rounded(np.where(over, -np.inf, low), np.where(over, np.inf, high), node.type.dtype)

    def _terms(self, node: Node, op: OpDef, values: Mapping[str, Array]) -> Sum:
        """The terms of a sum, without what it starts with."""
        meaning = self._meaning
        domain = meaning.domain(node)
        over = tuple(i for i, dim in enumerate(domain.dims) if dim not in node.type.dims)
        count = prod(s for d, s in domain.sizes.items() if d not in node.type.dims)
        shape = tuple(s for d, s in domain.sizes.items() if d in node.type.dims)

        def laid(name: str, array: Array) -> Array:
            return aligned(array, meaning[name].type.dims, domain.dims)

        if node.op in PRODUCTS:
            sizes = [laid(name, _size(values[name])) for name in node.uses]
            size = op.apply(*sizes, over=over)
            doubt = np.zeros(())
            if not all(self._ranges[name].exact for name in node.uses):
                radii = [
                    laid(name, _radius(self._ranges[name], values[name])) for name in node.uses
                ]
                most = [a + r for a, r in zip(sizes, radii, strict=True)]
                doubt = np.maximum(op.apply(*most, over=over) - size, 0.0)
            step = prod(grid(values[name]) for name in node.uses)
        else:
            each = replace(op, reduce=None)
            term = each.apply(*(laid(name, values[name]) for name in node.uses))
            least = most_ = term
            for point in _points({name: self._ranges[name] for name in node.uses}):
                found = each.apply(*(laid(name, point[name]) for name in node.uses))
                least, most_ = np.fmin(least, found), np.fmax(most_, found)
            if op.rounded:
                least, most_ = least - self._doubt(term), most_ + self._doubt(term)
            size = _size(term).sum(axis=over)
            doubt = _radius(Bounds(least, most_), term).sum(axis=over)
            step = grid(term)
        return Sum(
            count,
            np.broadcast_to(np.asarray(size, np.float64), shape),
            np.broadcast_to(np.asarray(doubt, np.float64), shape),
            step,
        )

    def _chosen(self, node: Node, taken: Bounds) -> Bounds:
        """A value under a condition: both where that is in doubt."""
        assert node.when is not None
        assert node.otherwise is not None
        when, other = self._ranges[node.when], self._ranges[node.otherwise]
        ends = [
            aligned(array, self._meaning[name].type.dims, node.type.dims)
            for name, array in (
                (node.when, when.low),
                (node.when, when.high),
                (node.otherwise, other.low),
                (node.otherwise, other.high),
            )
        ]
        no, yes = (ends[0] == 0) & (ends[1] == 0), (ends[0] != 0) & (ends[1] != 0)
        low = np.where(yes, taken.low, np.where(no, ends[2], np.fmin(taken.low, ends[2])))
        high = np.where(yes, taken.high, np.where(no, ends[3], np.fmax(taken.high, ends[3])))
        return _rounded(low, high, node.type.dtype)


def grid(values: Array) -> float:
    """The largest power of two of which all finite numbers are multiples; infinite for zeros."""
    array = np.asarray(values, np.float64)
    some = array[np.isfinite(array) & (array != 0)]
    if not some.size:
        return np.inf
    mantissa, exponent = np.frexp(some)
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return float(2.0 ** int((exponent - 53 + lowest).min()))


def _size(value: Array) -> Array:
    """How large, of what is finite."""
    return np.where(np.isfinite(value), np.abs(value), 0.0)


def _points(ranges: Mapping[str, Bounds]) -> Iterator[dict[str, Array]]:
    """Operands at every choice of their ends, at the zeros where they may be on either side, and at
    NaN where they may be anything."""
    ends = {n: (r.low,) if r.exact else tuple(_ends(r)) for n, r in ranges.items()}
    for chosen in product(*ends.values()):
        yield dict(zip(ends, chosen, strict=True))


def _ends(found: Bounds) -> Iterator[Array]:
    yield from (found.low, found.high)
    either = (found.low < 0) & (found.high > 0)
    if either.any():  # 1 / x has two results there
        yield from (np.where(either, zero, found.low) for zero in (0.0, -0.0))
    if found.anything.any():
        yield np.where(found.anything, np.nan, found.low)


def _as_range(low: float, high: float) -> Range:
    anything = np.isnan(low) or np.isnan(high) or (np.isneginf(low) and np.isposinf(high))
    return ANYTHING if anything else Range(float(low), float(high))


def _exactly(value: Array) -> Bounds:
    return Bounds(value, value)


def _some(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _radius(found: Bounds, value: Array) -> Array:
    """How far it may be from a value: infinitely, where either is not finite and in doubt."""
    if found.exact:
        return np.zeros(np.shape(value))
    radius = np.maximum(value - found.low, found.high - value)
    return np.where(found.open, np.where(np.isfinite(value), radius, np.inf), 0.0)


def _rounded(low: Array, high: Array, dtype: DType) -> Bounds:
    """As the type holds them; what one end of becomes NaN may be anything."""
    ends = [np.asarray(dtype.round(end), np.float64) for end in (low, high)]
    lost = Bounds(low, high).anything | (np.isnan(ends[0]) != np.isnan(ends[1]))
    if lost.any():
        return Bounds(
            np.where(lost, -np.inf, np.fmin(*ends)), np.where(lost, np.inf, np.fmax(*ends))
        )
    if np.array_equal(ends[0], ends[1], equal_nan=True):
        return _exactly(ends[0])
    return Bounds(np.fmin(*ends), np.fmax(*ends))
