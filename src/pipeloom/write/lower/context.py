"""What every lowering is given: the program, its tiles and memories, and where it stands.

Which registers a product starts, and which have to be written before.

A sum that starts at 0 needs no register of zeros: its first matrix instruction takes the constant
as what it adds to. That holds where the first product stands in straight code, ahead of any loop
and of anything else that touches the sum; a loop's products add to what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm

from pipeloom.machine.target import Target
from pipeloom.program import Access, Box, Group, Node, NodeKind, Program, Space, Vocabulary, Work
from pipeloom.program.tiles import TileType
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Register
from pipeloom.write.lower.clock import Clock
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.global_arrays import Array
from pipeloom.write.lower.lds import LdsTile
from pipeloom.write.lower.memory import Memory
from pipeloom.write.lower.register_tiles import RegisterTile


class Starts:
    """The registers of one group of waves that still hold their start, by place."""

    def __init__(self) -> None:
        self._open: dict[str, set[int]] = {}
        self._needed: dict[str, set[int]] = {}

    def begin(self, place: str, count: int, zero: bool) -> None:
        """``place`` has ``count`` registers with a start value."""
        (self._open if zero else self._needed)[place] = set(range(count))

    def take(self, place: str, first: int, count: int) -> bool:
        """Whether a product is the first to touch these registers, which then start with it."""
        mine = set(range(first, first + count))
        if not mine <= self._open.get(place, set()):
            return False
        self._open[place] -= mine
        return True

    def close(self, places: Iterable[str]) -> None:
        """Something else touches a place: what it holds so far must be there."""
        for place in places:
            if place in self._open:
                self._needed.setdefault(place, set()).update(self._open.pop(place))

    def close_all(self) -> None:
        """A loop begins."""
        self.close(tuple(self._open))

    def needed(self, place: str) -> list[int]:
        """The registers that have to be written before the first step."""
        return sorted(self._needed.get(place, set()))


@dataclass
class Context:
    """One program being lowered; ``group`` is the group of waves of the step being planned."""

    program: Program
    ops: Vocabulary
    target: Target
    frame: Frame
    memory: Memory
    clock: Clock
    tiles: Mapping[str, RegisterTile]
    lds: Mapping[str, LdsTile]
    name: str
    group: Group
    multiples: dict[str, int] = field(default_factory=dict)
    """Of which number the size of a dimension must be a multiple."""
    pitches: dict[str, int] = field(default_factory=dict)
    """Of how many bytes an array's leading dimension must be a multiple."""
    conditions: frozenset[str] = frozenset()
    """Places that only regions ask for; their masks lie in scalar registers."""
    in_vectors: frozenset[str] = frozenset()
    """Register tiles that lie in vector registers, whatever else there is."""
    may_miss: bool = False
    """Whether streams of the step being written may begin before their arrays do."""
    starts: Starts = field(default_factory=Starts)
    """Of the group being planned."""
    partial: bool = False
    """Whether the step being planned leaves a sum that other steps go on with."""
    _labels: int = 0
    _resources: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._resources = frozenset(resource.name for resource in self.program.resources)

    def require_multiple(self, dim: str, count: int) -> None:
        """What a launch must keep to: no access may reach past the end of a row."""
        self.multiples[dim] = lcm(self.multiples.get(dim, 1), count)

    def require_pitch(self, array: Array, count: int) -> None:
        """The same for the alignment of rows, in bytes."""
        if array.has_pitch:
            self.pitches[array.name] = lcm(self.pitches.get(array.name, 1), count)

    def label(self, what: str) -> str:
        """A label of its own."""
        self._labels += 1
        return f".L{self.name}_{what}_{self._labels}"

    def memory_node(self, access: Access) -> Node | None:
        """The input or output that an access names, if it names one."""
        if access.resource in self._resources or access.resource not in self.program.meaning:
            return None
        node = self.program.meaning[access.resource]
        return node if node.kind.is_input or node.kind is NodeKind.OUTPUT else None

    def brings_to_lds(self, work: Work) -> bool:
        """Whether a step only loads from global memory to LDS."""
        if not work.is_copy or self.memory_node(work.reads[0]) is None:
            return False
        written = [r for r in self.program.resources if r.name == work.writes[0].resource]
        return all(r.space is Space.LDS for r in written) and bool(written)

    def type_of(self, access: Access) -> TileType:
        """Of what an access touches."""
        node = self.memory_node(access)
        return node.type if node else self.program.resource(access.resource).type

    def boxes(self, access: Access, parts: Sequence[Box] = ()) -> list[Box]:
        """By wave of the group; an access of memory without a box touches the step's part."""
        whole = self.type_of(access).whole
        given = access.boxes or (parts if self.memory_node(access) else ())
        if not given:
            return [whole] * len(self.group.waves)
        return list(given) if len(given) > 1 else [given[0]] * len(self.group.waves)

    def register_box(self, access: Access, work: Work) -> Box:
        """The box of a register tile, which must be the same for all waves: they share code."""
        boxes = set(self.boxes(access))
        if len(boxes) > 1:
            raise EmitError(
                f"{work.label}: waves of one group touch different registers of {access.resource}",
                hint="give each wave's part the same place in its registers, or another group",
                field=access.resource,
            )
        return boxes.pop()

    def tile(self, access: Access, work: Work) -> RegisterTile:
        """The register tile of an access."""
        found = self.tiles.get(access.resource)
        if found is None:
            raise EmitError(
                f"{work.label} takes {access.resource}, which is not in registers",
                hint="copy it to registers first",
                field=access.resource,
            )
        return found

    def check_places(self, work: Work) -> None:
        """Raise unless every value lies in its place axis by axis, as lowerings take it to lie.

        By the program's rules it may lie there by the names of dimensions, or leave out some.
        """
        node = self.program.meaning[work.node]
        if work.is_copy:
            values = [(self.type_of(work.reads[0]).dims, work.writes[0])]
        else:
            names = [*node.uses, *([] if node.init is None or work.accumulates else [node.init])]
            values = [
                (self.program.meaning[name].type.dims, access)
                for name, access in zip(names, work.reads, strict=False)
            ]
            written = (*work.writes, *work.accumulates)
            values += [(node.type.dims, access) for access in written]
            self._check_types(work, node, written)
        if work.when is not None:
            values.append((self.program.meaning[work.when].type.dims, work.reads[-1]))
        for dims, access in values:
            number = self.memory_node(work.reads[0] if work.is_copy else access)
            if number is not None and number.kind.is_number:
                continue
            place = self.type_of(access).dims
            shared = set(dims) & set(place)
            if len(dims) != len(place) or any(dims.index(d) != place.index(d) for d in shared):
                raise EmitError(
                    f"{work.label} has a value of dimensions {dims} in {access.resource}, which "
                    f"has {place}",
                    hint="give a place the dimensions of its values, in their order",
                    field=access.resource,
                )
            if work.counter is not None and access.resource in self.tiles:
                self._check_vector(work, access)

    def _check_types(self, work: Work, node: Node, written: Sequence[Access]) -> None:
        """A wider place would hold what the op gives before it is rounded to the node's type."""
        for access in written:
            place, own = self.type_of(access).dtype, node.type.dtype
            if place != own and not (place.is_bool or own.is_bool):
                raise EmitError(
                    f"{work.label} computes {own} in {access.resource}, which is {place}",
                    hint="compute a value in a place of its type",
                    field=access.resource,
                )

    def _check_vector(self, work: Work, access: Access) -> None:
        if self.program.resource(access.resource).space is Space.SCALAR:
            raise EmitError(
                f"{work.label} moves {access.resource} between memory and scalar registers",
                hint="load to registers of lanes, and store from them",
                field=access.resource,
            )

    def registers(self, access: Access) -> Register:
        """The registers of the copy that an access names, once they are placed."""
        return self.frame[place_name(access.resource, access.copy)]

    def note(self, work: Work) -> None:
        """Tell the frame which register tiles a step touches."""
        for access in (*work.reads, *work.accumulates):
            if access.resource in self.tiles:
                box = self.register_box(access, work)
                self.frame.touch(place_name(access.resource, access.copy), box)
        for access in (*work.writes, *work.accumulates):
            if access.resource in self.tiles:
                self.frame.touch(
                    place_name(access.resource, access.copy),
                    self.register_box(access, work),
                    writes=True,
                    surely=access in work.writes and work.when is None,
                    counter=work.counter,
                )


def place_name(resource: str, copy: int) -> str:
    """The frame's name of a copy of a register resource."""
    return f"{resource} #{copy}"
