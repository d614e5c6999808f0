"""Reductions see what exists: masks that a declaration leaves out are put in.

A tile may reach past the end of its arrays. Where a sum, a maximum or a product would notice what
lies there, the value is masked first, as if the declaration had said so:

    x.max("n")      keep(x, n left, 1).max("n")
    e.sum("n")      within(e, n left).sum("n"); nothing, where e is 0 past the end anyway

So sizes need not be multiples of tiles, along the loop's dimension or another. A plain sum of
products of streams is left as it is: launches of any size begin it with zeros. So is any other sum
that a mask along the loop would not free of what loads take at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf

from pipeloom.machine.dtypes import BOOL, F32
from pipeloom.program.idle import adds_up, ends_with_block
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.past_end import noticed, reduced
from pipeloom.program.tiles import TileType
from pipeloom.program.vocabulary import PRODUCTS, VOCABULARY, Reduce


@lru_cache(maxsize=64)
def masked(meaning: Meaning) -> Meaning:
    """The same for whole tiles, and right past the ends of arrays.

    A declaration is asked for its meaning at every turn: the last ones are the same objects, which
    know already what they were asked.
    """
    others = sorted({d for n in meaning.inputs for d in n.type.dims} - {meaning.over})
    if (not adds_up(meaning) or _takes_rows(meaning)) and (
        not meaning.ragged or _notices_in_tiles(meaning)
    ):
        dims = [*others, meaning.over]
        tries = [_along(meaning, dims)]
        tries.append(_held(tries[0]))
        if not meaning.adds_up:
            tries.append(_along(meaning, dims, all_rows=True))
        for whole in tries:
            if whole.ragged:
                return whole
    return _along(meaning, others)


def _held(meaning: Meaning) -> Meaning:
    """With carried values that stay as they are in iterations past the end: a state, which decays
    and is added to, would go on decaying.

    Not where an update is skipped under a condition: it changes its value in place, and what may
    be skipped is not chosen from afterwards.
    """
    if any(node.when is not None for node in meaning.nodes):
        return meaning
    work = _Masking(list(meaning.nodes))
    after = [n for n in meaning.nodes if n.region is Region.AFTER]
    used = {name for node in after for name in node.operands}
    for node in meaning.nodes:
        if node.kind is NodeKind.CARRY and node.name in used:
            work.hold(meaning, node)
    return work.meaning(meaning)


def _takes_rows(meaning: Meaning) -> bool:
    """Whether vector ops take streams whose rows go along the loop, where zeros before the arrays
    leave rows of whole loads only."""
    streams = [n for n in meaning.inputs if n.kind is NodeKind.STREAM]
    rows = {n.name for n in streams if n.type.dims == (meaning.over,)}
    rows |= {n.name for n in streams if not ends_with_block(meaning, n)}
    return any(
        rows & set(node.operands) and node.kind is NodeKind.OP and node.op not in PRODUCTS
        for node in meaning.nodes
    )


def _notices_in_tiles(meaning: Meaning) -> bool:
    """Whether what an iteration reduces of its own tile sees what lies past the end."""
    return bool(noticed(meaning, meaning.over))


def _along(meaning: Meaning, dims: list[str], *, all_rows: bool = False) -> Meaning:
    """Masked past the ends of these dimensions, where that is noticed.

    With ``all_rows`` products take streams masked, too: what else they multiply asks for places.
    """
    work, over = _Masking(list(meaning.nodes)), meaning.over
    if over in dims:
        for node in meaning.inputs:
            if node.kind is NodeKind.STREAM and not ends_with_block(meaning, node):
                work.mask_stream(meaning, node, products=all_rows)
    found = work.meaning(meaning)
    for dim in dims:
        for name, operand in noticed(found, dim):
            work.mask_operand(found, name, operand, dim)
        found = work.meaning(meaning)
    if over in dims and not any(found.is_left(node.name, over) for node in found.nodes):
        for name, operand in reduced(found, over):  # nothing is noticed; that is said by a mask
            work.mask_operand(found, name, operand, over)
        found = work.meaning(meaning)
    return found


@dataclass
class _Masking:
    nodes: list[Node]
    made: dict[tuple[str, str, str, Region], str] = field(default_factory=dict)

    def meaning(self, like: Meaning) -> Meaning:
        return replace(like, nodes=tuple(self.nodes)) if self.made else like

    @property
    def table(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    def mask_stream(self, meaning: Meaning, node: Node, *, products: bool) -> None:
        """Zero behind the end of rows that go along the loop, where the next row begins."""
        users = [n for n in meaning.nodes if node.name in n.operands]
        direct = all(n.kind is NodeKind.OP and (products or n.op not in PRODUCTS) for n in users)
        for user in users if direct else ():
            if not meaning.ends(user, meaning.over):
                self.mask_operand(meaning, user.name, node.name, meaning.over, Reduce.ADD)

    def mask_operand(
        self, meaning: Meaning, user: str, operand: str, dim: str, how: Reduce | None = None
    ) -> None:
        """Let a node take its operand masked, by what its reduction does not notice."""
        node = self.table[user]
        how = how or VOCABULARY[node.op].reduce
        assert how is not None
        value = self.table[operand]
        if how is Reduce.ADD and value.type.dtype.is_bool:
            how = Reduce.ANY
        region = node.region if value.kind is NodeKind.CARRY else value.region
        if dim == meaning.over and region is Region.BEFORE:
            region = Region.LOOP
        key = (operand, dim, how.value, region)
        if key not in self.made:
            self.made[key] = self._made(meaning, value, dim, how, region)
        name, at = self.made[key], self.nodes.index(node)
        self.nodes[at] = replace(
            node, uses=tuple(name if use == operand else use for use in node.uses)
        )

    def hold(self, meaning: Meaning, carry: Node) -> None:
        """Let a carried value become its next one where the iteration has an element."""
        over = meaning.over
        size = meaning.tile[over]
        left = TileType((over,), (size,), F32)
        places = Node(name=f"{over} left", kind=NodeKind.LEFT, type=left, region=Region.LOOP)
        self._first(places)
        here = self._inside(places, Region.LOOP, over)
        if over not in carry.type.dims:
            here = self._any(here, over)
        node = Node(
            name=self._fresh(f"{carry.name}.held"),
            kind=NodeKind.OP,
            type=carry.type,
            op="select",
            uses=(here, carry.uses[0], carry.name),
            region=Region.LOOP,
        )
        self._behind([here, carry.uses[0]], node)
        at = self.nodes.index(self.table[carry.name])
        self.nodes[at] = replace(self.nodes[at], uses=(node.name,))
        self.made[carry.name, over, "held", Region.LOOP] = node.name

    def _any(self, inside: str, dim: str) -> str:
        name = f"{dim} here"
        if name not in self.table:
            tile = TileType((), (), BOOL)
            uses = (inside,)
            node = Node(
                name=name, kind=NodeKind.OP, type=tile, op="any", uses=uses, region=Region.LOOP
            )
            self._behind(uses, node)
        return name

    def _made(self, meaning: Meaning, value: Node, dim: str, how: Reduce, region: Region) -> str:
        along = Region.LOOP if dim == meaning.over else Region.BEFORE
        left = TileType((dim,), (value.type.sizes[dim],), F32)
        places = Node(name=f"{dim} left", kind=NodeKind.LEFT, type=left, region=along)
        self._first(places)
        uses = [value.name, places.name]
        op, tile = "within", value.type
        if how is Reduce.MAX:
            op, uses = "keep", [*uses, self._constant(1.0)]
        elif how in (Reduce.MIN, Reduce.ANY):
            inside = self._inside(places, along, dim)
            other = [inside, value.name, self._constant(inf)]
            op, uses = ("select", other) if how is Reduce.MIN else ("mul", [value.name, inside])
            tile = replace(tile, dtype=BOOL) if how is Reduce.ANY else tile
        node = Node(
            name=self._fresh(f"{value.name}.inside"),
            kind=NodeKind.OP,
            type=tile,
            op=op,
            uses=tuple(uses),
            region=region,
        )
        self._behind([value.name, *uses], node)
        return node.name

    def _inside(self, places: Node, region: Region, dim: str) -> str:
        name = f"{dim} inside"
        if name not in self.table:
            tile = replace(places.type, dtype=BOOL)
            uses = (places.name, self._constant(1.0))
            node = Node(name=name, kind=NodeKind.OP, type=tile, op="ge", uses=uses, region=region)
            self._behind(uses, node)
        return name

    def _constant(self, number: float) -> str:
        for node in self.nodes:
            if node.kind is NodeKind.CONSTANT and node.start == number:
                return self._first(node)
        tile, region = TileType((), (), F32), Region.BEFORE
        name = self._fresh(f"{number:g}")
        return self._first(
            Node(name=name, kind=NodeKind.CONSTANT, type=tile, start=number, region=region)
        )

    def _first(self, node: Node) -> str:
        """A value that needs no other, before all others."""
        known = self.table.get(node.name)
        if known is not None:
            self.nodes.remove(known)
        self.nodes.insert(0, known or node)
        return node.name

    def _behind(self, names: tuple[str, ...] | list[str], node: Node) -> None:
        at = max(i for i, n in enumerate(self.nodes) if n.name in names)
        self.nodes.insert(at + 1, node)

    def _fresh(self, stem: str) -> str:
        name, number = stem, 1
        while name in self.table:
            number += 1
            name = f"{stem}.{number}"
        return name
