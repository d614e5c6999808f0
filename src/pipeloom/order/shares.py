"""How waves divide the work: every dimension is cut into quadrants, and each of these into waves.

With 2 waves and 2 quadrants along m = 256, wave 1 has

    quadrant 0   m  64:128        wave 0: 0:64
    quadrant 1   m 192:256        wave 0: 128:192

so that all waves need all of a quadrant's piece of an operand, and a piece can be loaded, awaited
and freed by itself. A dimension may be divided among waves only if no op reduces it: sums across
waves would have to go through LDS. A product may sum over it if what is computed of it comes
through LDS: there waves find what others computed, and divide the dimensions of that product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isqrt, prod

from pipeloom.checks import check_int
from pipeloom.errors import ConfigError
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import NodeKind, Region
from pipeloom.program.tiles import Box
from pipeloom.program.vocabulary import PRODUCTS

Piece = tuple[tuple[str, int], ...]
"""The quadrant number along each dimension that has several, in the order of ``Shares.cuts``."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One dimension: its size, the waves along it, the quadrants of a wave."""

    dim: str
    size: int
    waves: int = 1
    quadrants: int = 1

    @property
    def share(self) -> int:
        """Length of one quadrant of one wave."""
        return self.size // (self.waves * self.quadrants)

    def range(self, quadrant: int, wave: int) -> tuple[int, int]:
        """The quadrant of the ``wave``-th wave along this dimension."""
        start = (quadrant * self.waves + wave) * self.share
        return start, start + self.share

    def whole_quadrant(self, quadrant: int) -> tuple[int, int]:
        """A quadrant of all waves."""
        length = self.share * self.waves
        return quadrant * length, (quadrant + 1) * length


@dataclass(frozen=True, slots=True)
class Shares:
    """The cuts of every dimension; waves number the divided ones, the last fastest.

    ``apart`` are the nodes that sum over a divided dimension, of operands that come through LDS,
    and what is computed of them: their waves divide other dimensions, each node with its cuts.
    """

    cuts: tuple[Cut, ...]
    apart: tuple[tuple[str, tuple[Cut, ...]], ...] = ()

    def of(self, node: str) -> Shares:
        """How waves divide the work of a node, and its result."""
        cuts = dict(self.apart).get(node)
        return self if cuts is None else Shares(cuts)

    def __getitem__(self, dim: str) -> Cut:
        return next(cut for cut in self.cuts if cut.dim == dim)

    @property
    def waves(self) -> int:
        """Waves of the group that computes."""
        return prod(cut.waves for cut in self.cuts)

    @property
    def divided(self) -> tuple[str, ...]:
        """Dimensions of which a wave has a part."""
        return tuple(cut.dim for cut in self.cuts if cut.waves > 1)

    def coordinates(self, wave: int) -> dict[str, int]:
        """Where a wave stands along each dimension."""
        found: dict[str, int] = {}
        for cut in reversed(self.cuts):
            wave, found[cut.dim] = divmod(wave, cut.waves)
        return found

    def pieces(self, dims: Sequence[str]) -> Iterator[Piece]:
        """The quadrants of a value with these dimensions."""
        several = [cut for cut in self.cuts if cut.dim in dims and cut.quadrants > 1]
        for numbers in product(*(range(cut.quadrants) for cut in several)):
            yield tuple((cut.dim, n) for cut, n in zip(several, numbers, strict=True))

    def shape(self, dims: Sequence[str]) -> tuple[int, ...]:
        """What one wave has of one piece."""
        return tuple(self[dim].share for dim in dims)

    def boxes(self, dims: Sequence[str], piece: Piece) -> tuple[Box, ...]:
        """The part of each wave; a single box where all waves have the same."""
        at = dict(piece)
        found = []
        for wave in range(self.waves):
            where = self.coordinates(wave)
            found.append(tuple(self[d].range(at.get(d, 0), where[d]) for d in dims))
        return (found[0],) if len(set(found)) == 1 else tuple(found)

    def whole(self, dims: Sequence[str], piece: Piece) -> Box:
        """A piece of all waves together."""
        at = dict(piece)
        return tuple(self[d].whole_quadrant(at.get(d, 0)) for d in dims)


def part_of(piece: Piece, dims: Sequence[str]) -> Piece:
    """What of a piece matters to a value that has only ``dims``."""
    return tuple((dim, n) for dim, n in piece if dim in dims)


def piece_name(piece: Piece) -> str:
    """``01``: the quadrant numbers."""
    return "".join(str(n) for _, n in piece)


def divide(
    meaning: Meaning,
    waves: int | Mapping[str, int],
    granules: Mapping[str, int],
    quadrants: int | None = None,
    staged: Collection[str] = (),
) -> Shares:
    """The cuts for so many waves, or for the waves given by dimension.

    ``granules`` says of which length a wave's share must be a multiple, by dimension: those of
    matrix instructions. Of two dimensions with granules each is cut into 2, where shares allow it,
    unless ``quadrants`` says otherwise. ``staged`` are the values that go through LDS.
    """
    sizes = {d: s for n in meaning.nodes for d, s in meaning.domain(n).sizes.items()}
    across = _across(meaning, staged)
    free = _divisible(meaning, across)
    preferred = _without_repetition(meaning, free, across)
    if not isinstance(waves, Mapping):
        check_int("pipeline", "waves", waves, 1)
        along = _grid(meaning, waves, {d: sizes[d] // granules.get(d, 1) for d in preferred})
    else:
        along = dict(waves)
        for dim, count in along.items():
            check_int("pipeline.waves", dim, count, 1)
            if count > 1 and (dim not in free or sizes[dim] % (count * granules.get(dim, 1))):
                raise ConfigError(
                    f"{meaning.name}: {count} waves along {dim!r} cannot share it: "
                    + _why_not(meaning, dim, sizes.get(dim), granules.get(dim, 1), free),
                    hint=_instead(dim, free, count * granules.get(dim, 1)),
                    field="waves",
                )
    tiled = [d for d in preferred if d in granules]
    per_side = _quadrants(tiled, sizes, along, granules, quadrants)
    found = Shares(
        tuple(Cut(d, size, along.get(d, 1), per_side.get(d, 1)) for d, size in sizes.items())
    )
    _check_codes(meaning, found)
    return replace(found, apart=tuple(_apart(meaning, found, granules, across)))


def _across(meaning: Meaning, staged: Collection[str]) -> frozenset[str]:
    """The products that sum over what LDS has of a result of the loop."""

    def comes(name: str) -> bool:
        node = meaning[name]
        return node.kind is NodeKind.OP and bool({name, *node.uses[:1]} & {*staged})

    loop = (n for n in meaning.nodes if n.op in PRODUCTS and n.region is Region.LOOP)
    return frozenset(n.name for n in loop if any(map(comes, n.uses[:2])))


def _apart(
    meaning: Meaning, shares: Shares, granules: Mapping[str, int], across: Collection[str]
) -> Iterator[tuple[str, tuple[Cut, ...]]]:
    """The nodes that divide other dimensions than the rest, with their cuts."""
    found: dict[str, tuple[Cut, ...]] = {}
    for node in meaning.nodes:
        if node.kind is not NodeKind.OP:
            continue
        of = {name: found.get(name) for name in node.operands if not meaning[name].kind.is_number}
        summed = {*meaning.domain(node).dims} - {*node.type.dims}
        if node.name in across and summed & {*shares.divided}:
            dims = {d: n // granules.get(d, 1) for d, n in node.type.sizes.items()}
            along = _grid(meaning, shares.waves, dims)
            found[node.name] = tuple(
                replace(cut, waves=along.get(cut.dim, 1), quadrants=1) for cut in shares.cuts
            )
        elif any(of.values()):
            if len({*of.values()}) > 1 or node.init is not None:
                raise ConfigError(
                    f"{meaning.name}.{node.name}: waves divide what it takes in two ways, "
                    f"{' and '.join(of)}",
                    hint=f"divide a dimension of {node.name!r} that nothing sums over",
                    field=node.name,
                )
            found[node.name] = next(cuts for cuts in of.values() if cuts)
        else:
            continue
        yield node.name, found[node.name]


def _check_codes(meaning: Meaning, shares: Shares) -> None:
    """Raise where a tile, or a wave's part of it, ends within an element that stands for several:
    parts that lie in one, all of them, are told from others by shifts only."""
    for node in meaning.nodes:
        covers = node.type.dtype.covers
        if covers == 1 or not node.type.dims:
            continue
        cut = shares[node.type.dims[-1]]
        shared = cut.dim == meaning.over and covers % cut.size == 0
        if (cut.size % covers and not shared) or (cut.share % covers and covers % cut.share):
            raise ConfigError(
                f"{meaning.name}: {node.name!r} is {node.type}, an element for {covers} of "
                f"{cut.dim!r}, of which a tile has {cut.size} and a wave {cut.share}",
                hint=f"choose {cut.dim} a multiple of {covers}, and waves so that each has one or "
                "a half, a quarter, ... of it",
                field=node.name,
            )


def _divisible(meaning: Meaning, across: Collection[str]) -> list[str]:
    """Dimensions of the outputs that no op reduces but ``across``, without those of size 1."""
    reduced = {
        d
        for n in meaning.nodes
        if n.kind is NodeKind.OP and n.name not in across
        for d in meaning.domain(n).dims
        if d not in n.type.dims
    }
    sizes = {d: s for n in meaning.outputs for d, s in n.type.sizes.items()}
    return [d for d, size in sizes.items() if d not in reduced and size > 1]


def _without_repetition(
    meaning: Meaning, free: Sequence[str], across: Collection[str]
) -> list[str]:
    """Those that every matrix product has: waves along another would compute one twice."""
    results = [n for n in meaning.nodes if n.op in PRODUCTS]
    domains = [{*meaning.domain(n).dims} if n.name in across else {*n.type.dims} for n in results]
    common = [d for d in free if all(d in dims for dims in domains)]
    return common or list(free)


def _grid(meaning: Meaning, waves: int, units: Mapping[str, int]) -> dict[str, int]:
    """Waves along each free dimension: near square over the first two, the larger count last.

    ``units`` are how many granules each dimension has.
    """
    if waves == 1:
        return {}
    first = isqrt(waves)
    pairs = sorted(
        ((a, waves // a) for a in range(1, waves + 1) if waves % a == 0),
        key=lambda pair: (abs(pair[0] - first), pair[0] > pair[1]),
    )
    dims = list(units)[-2:]
    for pair in pairs:
        counts = dict(zip(dims, pair[-len(dims) :] if dims else (), strict=True))
        fits = all(units[d] % n == 0 for d, n in counts.items())
        if prod(counts.values()) == waves and fits:
            return counts
    what = ", ".join(f"{d} ({n} parts)" for d, n in units.items())
    raise ConfigError(
        f"{meaning.name}: {waves} waves cannot share the work: "
        + (f"they do not divide {what}" if dims else "every dimension is reduced or has size 1"),
        hint="use another number of waves, 1 always works; only dimensions of an output that no "
        "op reduces can be divided",
        field="waves",
    )


def _why_not(
    meaning: Meaning, dim: str, size: int | None, granule: int, free: Sequence[str]
) -> str:
    if size is None:
        return f"no value of {meaning.name} has that dimension"
    if dim not in free:
        return "it is reduced, or not part of the output"
    return f"it has {size}, and shares are multiples of {granule}"


def _instead(dim: str, free: Sequence[str], whole: int) -> str:
    others = ", ".join(d for d in free if d != dim)
    if dim not in free:
        return f"divide {others or 'nothing'} instead"
    return f"choose {dim} a multiple of {whole}" + (f", or divide {others} instead" * bool(others))


def _quadrants(
    tiled: Sequence[str],
    sizes: Mapping[str, int],
    along: Mapping[str, int],
    granules: Mapping[str, int],
    asked: int | None,
) -> dict[str, int]:
    """By dimension; one that cannot be cut evenly stays whole."""
    count = asked if asked is not None else (2 if len(tiled) == 2 else 1)
    check_int("pipeline", "quadrants", count, 1)
    uneven = [d for d in tiled if sizes[d] % (along.get(d, 1) * granules[d] * count)]
    if uneven and asked is not None:
        dim = uneven[0]
        raise ConfigError(
            f"{count} quadrants do not divide {dim} = {sizes[dim]} of {along.get(dim, 1)} wave(s) "
            f"into multiples of {granules[dim]}",
            hint="leave quadrants out, or make the tile larger",
            field="quadrants",
        )
    return {d: 1 if d in uneven else count for d in tiled}
