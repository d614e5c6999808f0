"""The meaning's nodes as tasks: loads, fragment reads, products, vector ops, stores.

staged stream     pieces to LDS by all loading waves together; then every wave reads its part
other stream      every wave loads its part straight to registers
resident          the same, once before the loop; of a staged one every iteration reads its part
op                one task per piece of its work, in every computing wave
output            one task per piece; AFTER the loop, or in it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from pipeloom.errors import ConfigError, InternalError
from pipeloom.machine.target import LOAD_BYTES, REGISTER_BYTES, Target, Traffic
from pipeloom.order.added_once import check_once, check_stored
from pipeloom.order.homes import Home, find_homes
from pipeloom.order.layouts import Layouts, choose_layouts, is_loaded, is_number, short_runs
from pipeloom.order.matrix_choice import Product, divided
from pipeloom.order.node_issues import NodeIssues
from pipeloom.order.partial import in_parts, kept_partial
from pipeloom.order.roles import Role, WaveGroup, wave_groups
from pipeloom.order.shares import Piece, Shares, part_of, piece_name
from pipeloom.order.skipping import needed_under, overwrites
from pipeloom.order.spread import (
    UNIFORM,
    memory_accesses,
    per_lane,
    registers,
    two_blocks_at_once,
)
from pipeloom.order.staging import (
    LDS,
    fetch_sizes,
    load_width,
    patches,
    require_stageable,
    staged_part,
    turned,
    turning_tasks,
    uncut_piece,
    written,
)
from pipeloom.order.tasks import Lowered, Place, Task, Touch
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.resources import Layout, Space
from pipeloom.program.steps import Issue, Unit
from pipeloom.program.tile_views import users_of
from pipeloom.program.tiles import TileType
from pipeloom.program.vocabulary import Vocabulary


def lower(
    meaning: Meaning,
    target: Target,
    ops: Vocabulary,
    staged: Sequence[str],
    waves: int | Mapping[str, int],
    groups: Sequence[Role] | None = None,
    quadrants: int | None = None,
    *,
    turning: bool = False,
) -> Lowered:
    """One iteration of ``meaning`` as tasks of the given waves, and what stands around the loop.

    ``turning``: what is multiplied across its rows may pass registers on its way to LDS.
    """
    found, shares = divided(meaning, target, waves, quadrants, staged)
    short = short_runs(meaning, found, staged, target)
    layouts = choose_layouts(meaning, shares, found, short, staged)
    lowering = _Lowering(
        meaning=meaning,
        target=target,
        ops=ops,
        staged=tuple(staged),
        groups=wave_groups(shares.waves, groups),
        shares=shares,
        products=found,
        layouts=layouts,
        homes=find_homes(meaning, ops),
        turning=turned(meaning, staged, found, layouts, shares, target) if turning else frozenset(),
    )
    lowering.keep_parts()
    lowering.run()
    return Lowered(
        meaning=meaning,
        target=target,
        ops=ops,
        groups=lowering.groups,
        shares=shares,
        places=tuple(lowering.places.values()),
        tasks=tuple(lowering.tasks),
    )


@dataclass
class _Lowering:
    meaning: Meaning
    target: Target
    ops: Vocabulary
    staged: tuple[str, ...]
    groups: tuple[WaveGroup, ...]
    shares: Shares
    products: Mapping[str, Product]
    layouts: Layouts
    homes: Mapping[str, Home]
    turning: frozenset[str]
    places: dict[str, Place] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    tiles: dict[tuple[str, Layout | None, Shares | None, Piece], str] = field(default_factory=dict)

    @cached_property
    def loading(self) -> WaveGroup:
        return next(g for g in self.groups if g.loads)

    @cached_property
    def computing(self) -> WaveGroup:
        return next(g for g in self.groups if g.computes)

    def _counter(self, traffic: Traffic) -> str:
        return self.target.counting(traffic).name

    def run(self) -> None:
        """Loads first, then what reads LDS, then ops and stores in order of declaration."""
        for name in self.staged:
            require_stageable(self.meaning, self.meaning[name], layouts=self.layouts)
        if not self.loading.computes and not self.staged:
            raise ConfigError(
                f"{self.meaning.name} has a group of waves that only load, but stages nothing",
                hint="stage a stream with x.staged(), or leave groups out",
                field="groups",
            )
        inputs = [n for n in self.meaning.nodes if is_loaded(n)]
        for node in inputs:
            if node.name in self.staged:
                self._stage(node)
        for node in inputs:
            for layout, shares in self._wanted_layouts(node):
                self._fetch(node, layout, shares)
        for node in self.meaning.nodes:
            if node.kind is NodeKind.OP:
                self._compute(node)
                self._stage_result(node)
            elif node.kind is NodeKind.OUTPUT:
                self._store(node)

    # --- inputs -----------------------------------------------------------------------------------

    def _stage(self, node: Node) -> None:
        """Pieces of a tile to LDS, each a place of its own so that each is freed by itself."""
        dims, dtype = node.type.dims, node.type.dtype
        loop = node.kind is NodeKind.STREAM
        for piece in self.shares.pieces(dims):
            box = self.shares.whole(dims, piece)
            shape = tuple(stop - start for start, stop in box)
            size = -(-prod(shape) * dtype.bits // (8 * dtype.covers))
            lanes = len(self.loading.waves) * self.target.wave_lanes.value
            width = load_width(size, lanes, self.target.lds_load_bytes(node.align))
            entries = -(-size // (lanes * width))
            place = self._new_place(
                f"lds {node.name}{piece_name(piece)}",
                Space.LDS,
                TileType(dims, shape, dtype),
                (node.name,),
                rotates=loop,
            )
            self.tiles[node.name, None, None, piece] = place.name
            if node.name in self.turning:
                self._turn(node, piece, place)
                continue
            self._add(
                label=f"load {node.name}{piece_name(piece)}",
                node=node.name,
                region=node.region,
                group=self.loading.name,
                piece=piece,
                parts=(box,),
                reads=(Touch(node.name, node.name, (box,), shared=True),),
                writes=(Touch(place.name, node.name, shared=True),),
                is_copy=True,
                counter=self._counter(Traffic.GLOBAL),
                entries=entries,
                issues=(Issue(Unit.LOAD_LDS, entries, bytes=width),),
            )

    def _turn(self, node: Node, piece: Piece, into: Place) -> None:
        """Each wave's rows to registers, and from there to LDS."""
        name = f"{node.name}{piece_name(piece)}"
        (layout, shape), members = patches(into.type.shape, len(self.loading.waves)), (node.name,)
        type_ = TileType(node.type.dims, shape, node.type.dtype)
        held = self._register(f"{name} turning", node.name, type_, members, layout, rotates=True)
        whole = self.shares.whole(node.type.dims, piece)
        self.tasks += turning_tasks(name, node, piece, whole, held, into, self.loading, self.target)

    def _wanted_layouts(self, node: Node) -> Iterator[tuple[Layout, Shares]]:
        """Every layout that some user wants the value in, and of which part, once each."""
        found: dict[tuple[Layout, Shares], None] = {}
        for user in users_of(self.meaning, node.name):
            if user.name in self.products and node.name in user.uses:
                layout = self.layouts.operands[user.name, node.name]
            else:
                layout = self.layouts.values[node.name]
            found[layout, self.shares.of(user.name)] = None
        yield from found

    def _fetch(self, node: Node, layout: Layout, shares: Shares) -> None:
        """A wave's part to registers: from LDS if it is staged, else from memory."""
        dims, dtype, there = node.type.dims, node.type.dtype, self.meaning.loaded(node.name)
        shape, base = shares.shape(dims), there.name
        where = LDS if there.kind is NodeKind.OP else None
        staged, turned_ = where is LDS or base in self.staged, base in self.turning
        users = users_of(self.meaning, node.name) if staged else [there]
        rotates = all(n.region is Region.LOOP for n in users)
        count, width = fetch_sizes(
            replace(there, type=node.type), layout, shape, self.target, staged, turned_
        )
        singly = width * 8 == dtype.bits < 8 * REGISTER_BYTES
        for piece in shares.pieces(dims):
            name = f"{node.name}{piece_name(piece)}"
            boxes = shares.boxes(dims, piece)
            place = self._register(
                name, node.name, TileType(dims, shape, dtype), (base,), layout, rotates=rotates
            )
            if singly:  # each element has a register of its own
                self.places[place.name] = replace(place, registers=per_lane(layout, shape))
            self.tiles[node.name, layout, shares, piece] = place.name
            if staged:
                own = piece if base == node.name else uncut_piece(self.meaning, self.shares, node)
                whole = self.shares.whole(there.type.dims, own)
                source = staged_part(self.tiles, base, where, own, whole, boxes)
            else:
                source = Touch(base, base, boxes)
            self._add(
                label=f"{'read' if staged else 'load'} {place.name}",
                node=base,
                region=Region.LOOP if rotates else node.region,
                group=self.computing.name,
                piece=piece,
                parts=boxes,
                reads=(source,),
                writes=(Touch(place.name, base),),
                is_copy=True,
                counter=self._counter(Traffic.LDS if staged else Traffic.GLOBAL),
                entries=count,
                issues=(Issue(Unit.LDS_READ if staged else Unit.LOAD, count, bytes=width),),
            )

    # --- ops --------------------------------------------------------------------------------------

    def _compute(self, node: Node) -> None:
        domain, shares = self.meaning.domain(node), self.shares.of(node.name)
        home = self.homes.get(node.name)
        for piece in shares.pieces(domain.dims):
            place = self._place_of(node, home, part_of(piece, node.type.dims))
            ahead = _ahead(home)
            result = Touch(place.name, node.name, ahead=ahead)
            reads = tuple(self._read(name, node, piece) for name in node.uses)
            init = () if node.init is None else (self._read(node.init, node, piece),)
            in_place = bool(init) and overwrites(self.homes, node, node.init)
            others = tuple(
                self._read(name, node, piece)
                for name in (node.otherwise, node.when)
                if name is not None
            )
            skips = node.when is not None and overwrites(self.homes, node, node.otherwise)
            when = node.when if skips else self.lazy.get(node.name)
            if when is not None and not skips:
                others = (self._read(when, node, piece),)
            self._add(
                label=f"{node.name}{piece_name(piece)}",
                node=node.name,
                region=node.region,
                group=self.computing.name,
                piece=piece,
                parts=shares.boxes(domain.dims, piece),
                reads=(*reads, *(() if in_place else init), *others),
                writes=() if in_place else (result,),
                accumulates=(result,) if in_place else (),
                onto=init if in_place else (),
                issues=self._issues_of(node),
                when=when,
            )

    def _stage_result(self, node: Node) -> None:
        """What some products take otherwise than it lies: each wave writes its part to LDS."""
        taken = self.layouts.through
        uses = [use for use in self.layouts.operands if use in taken and use[1] == node.name]
        wanted = {(self.layouts.operands[use], self.shares.of(use[0])): None for use in uses}
        dims, home = node.type.dims, self.homes.get(node.name)
        for piece in self.shares.pieces(dims) if wanted else ():
            whole, boxes = self.shares.whole(dims, piece), self.shares.boxes(dims, piece)
            kind = TileType(dims, tuple(q - p for p, q in whole), node.type.dtype)
            name = f"lds {node.name}{piece_name(piece)}"
            into = self._new_place(name, Space.LDS, kind, (node.name,), rotates=True)
            self.tiles[node.name, LDS, None, piece] = into.name
            held = self._place_of(node, home, piece)
            task = written(node, piece, boxes, whole, held, into, self.computing, self.target)
            self.tasks.append(task)
        for layout, shares in wanted:
            self._fetch(node, layout, shares)

    @cached_property
    def _issues_of(self) -> NodeIssues:
        # Asked for when the layouts are what they will be: ``keep_parts`` has changed them.
        given = self.meaning, self.ops, self.target, self.shares
        return NodeIssues(*given, self.products, self.layouts, self.turning)

    @cached_property
    def lazy(self) -> dict[str, str]:
        return needed_under(self.meaning, self.homes)

    def keep_parts(self) -> None:
        """Sums and maxima that need not cross lanes in the loop do not."""
        skipped = dict(self.lazy)
        for node in self.meaning.nodes:
            if node.when is not None and overwrites(self.homes, node, node.otherwise):
                skipped[node.name] = node.when
        values = dict(self.layouts.values)
        for name, how in kept_partial(self.meaning, self.ops, skipped).items():
            values[name] = in_parts(values[name], how)
        self.layouts = replace(self.layouts, values=values)

    def _place_of(self, node: Node, home: Home | None, piece: Piece) -> Place:
        """Where a node's result goes: a new place, or that of what it overwrites."""
        stem = node.name if home is None else home.carry or home.members[0]
        key = (stem, None, None, piece)
        if key in self.tiles:
            return self.places[self.tiles[key]]
        carry = None if home is None or home.carry is None else self.meaning[home.carry]
        shape = self.shares.of(node.name).shape(node.type.dims)
        place = self._register(
            f"{stem}{piece_name(piece)}",
            node.name,
            TileType(node.type.dims, shape, node.type.dtype),
            (node.name,) if home is None else home.members,
            self.layouts.values[node.name],
            start=None if carry is None else carry.start,
            rotates=home is not None and home.rotates,
            carried=carry is not None,
        )
        self.tiles[key] = place.name
        return place

    def _read(self, name: str, user: Node, piece: Piece) -> Touch:
        """The register tile in which a task of ``user`` finds an operand."""
        node, shares = self.meaning[name], self.shares.of(user.name)
        if is_number(node):
            dims = node.type.dims
            boxes = shares.boxes(dims, part_of(piece, dims)) if dims else ()
            return Touch(name, name, boxes)
        part = part_of(piece, node.type.dims)
        if is_loaded(node) or (user.name, name) in self.layouts.through:
            in_product = user.name in self.products and name in user.uses
            layout = (
                self.layouts.operands[user.name, name] if in_product else self.layouts.values[name]
            )
            return Touch(self.tiles[name, layout, shares, part], self.meaning.loaded(name).name)
        if node.kind is NodeKind.CARRY:
            update = self.meaning[node.uses[0]]
            place = self._place_of(update, self.homes[update.name], part)
            return Touch(place.name, update.name, distance=1)
        home = self.homes.get(name)
        return Touch(self._place_of(node, home, part).name, name, ahead=_ahead(home))

    # --- outputs ----------------------------------------------------------------------------------

    def _store(self, node: Node) -> None:
        value = self.meaning[node.uses[0]]
        check_stored(self.meaning.name, node, value)
        dims = node.type.dims
        layout, shares = self.layouts.values[value.name], self.shares.of(value.name)
        shape, dtype = shares.shape(dims), node.type.dtype
        count, width = memory_accesses(layout, shape, dtype)
        if node.adds:
            check_once(self.meaning.name, node, layout, shape, shares)
            count, width = per_lane(layout, shape), REGISTER_BYTES
        elif two_blocks_at_once(layout, shape, dtype):
            count, width = count // 2, width * 2
        for piece in shares.pieces(dims):
            boxes = shares.boxes(dims, piece)
            self._add(
                label=f"store {node.name}{piece_name(piece)}",
                node=value.name,
                region=node.region,
                group=self.computing.name,
                piece=piece,
                parts=boxes,
                reads=(self._read(value.name, node, piece),),
                writes=(Touch(node.name, value.name, boxes),),
                is_copy=True,
                counter=self._counter(Traffic.GLOBAL),
                entries=count,
                issues=(Issue(Unit.STORE, count, bytes=min(width, LOAD_BYTES)),),
            )

    # --- bookkeeping ------------------------------------------------------------------------------

    def _register(
        self,
        name: str,
        value: str,
        type_: TileType,
        members: tuple[str, ...],
        layout: Layout,
        *,
        start: float | None = None,
        rotates: bool = False,
        carried: bool = False,
    ) -> Place:
        scalar = layout == UNIFORM and type_.dtype.is_bool
        return self._new_place(
            name,
            Space.SCALAR if scalar else Space.REGISTER,
            type_,
            members,
            layout=layout,
            start=start,
            registers=0 if scalar else registers(layout, type_.shape, type_.dtype),
            rotates=rotates,
            carried=carried,
        )

    def _new_place(
        self, name: str, space: Space, type_: TileType, members: tuple[str, ...], **rest: object
    ) -> Place:
        kind = self.meaning[name].kind if name in self.meaning else NodeKind.OP
        name = f"{name} tile" if kind.is_input or kind is NodeKind.OUTPUT else name
        stem, number = name, 1
        while name in self.places:
            number += 1
            name = f"{stem}.{number}"
        made = Place(name=name, space=space, type=type_, members=members)
        self.places[name] = place = replace(made, **rest)  # type: ignore[arg-type]
        return place

    def _add(self, **fields: object) -> None:
        task = Task(**fields)  # type: ignore[arg-type]
        if not task.parts:
            raise InternalError(f"task {task.label} has no parts")
        self.tasks.append(task)


def _ahead(home: Home | None) -> int:
    """A rotating home of a carry is one copy ahead: copy 0 holds the start."""
    return 1 if home is not None and home.carry is not None and home.rotates else 0
