"""Which layout every register tile has: decided by matrix instructions, followed by all others.

Matrix results lie as the unit writes them, and what is computed from them element by element lies
the same way; factors and row reductions lie as a projection. Values that are loaded, and carries,
lie as their users want. What nobody decides is dealt to lanes row-major.

A product of a matrix result (attention's P) takes it as it lies, if lanes go by the dimension that
is not summed; then K comes in the order of that result, and the other operand is loaded to match.

An operand that vector ops compute of loaded tiles (dequantised weights) is computed where the
product wants it: all that it is computed of is loaded in the layout of the operand, in its runs of
K, and so is a loaded operand that vector ops take, too.

Where 16 bytes of a lane feed two matrix instructions, and LDS can be filled in any order, runs of K
are *short*: each instruction then has a box of K of its own, and is a step by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES, REGISTER_BYTES, Target
from pipeloom.order.block_reach import check_reach, check_scale
from pipeloom.order.lane_grid import grid_layouts
from pipeloom.order.matrix_choice import Product, lane_bytes
from pipeloom.order.shares import Shares
from pipeloom.order.spread import (
    RUN,
    UNIFORM,
    accumulator,
    grouped,
    lanes,
    operand,
    project,
    run_of,
    scales,
    ungrouped,
)
from pipeloom.program.blocked_matrices import blocked_matrix
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.resources import Layout
from pipeloom.program.tile_views import users_of
from pipeloom.program.vocabulary import VOCABULARY


@dataclass(frozen=True, slots=True)
class Layouts:
    """``values``: by node, as element-wise ops find it. ``operands``: by product and operand."""

    values: Mapping[str, Layout]
    operands: Mapping[tuple[str, str], Layout]
    through: frozenset[tuple[str, str]] = frozenset()
    """Products and operands of theirs that are computed and staged, and go through LDS because they
    lie otherwise."""


def is_number(node: Node) -> bool:
    """A kernel argument, an immediate, a place in the array: read by name, never kept."""
    return node.kind.is_number


def is_loaded(node: Node) -> bool:
    """Whether it comes from global memory, in whatever layout its reader wants."""
    return node.kind in (NodeKind.STREAM, NodeKind.RESIDENT, NodeKind.VIEW)


def short_runs(
    meaning: Meaning, products: Mapping[str, Product], staged: Collection[str], target: Target
) -> set[str]:
    """Products whose operands, both from LDS, lie in runs of what one instruction takes."""
    found = set()
    for product in products.values():
        uses = [meaning[name] for name in meaning[product.node].uses]
        depth = meaning.domain(meaning[product.node]).sizes[product.depth]
        halves = {2 * lane_bytes(product.op, use.type.dtype) for use in uses} == {LOAD_BYTES}
        narrow = all(target.lds_load_bytes(use.align) == REGISTER_BYTES for use in uses)
        from_lds = all(meaning.loaded(use.name).name in staged for use in uses)
        if halves and narrow and from_lds and depth % (2 * product.op.k) == 0:
            found.add(product.node)
    return found


def choose_layouts(
    meaning: Meaning,
    shares: Shares,
    products: Mapping[str, Product],
    short: Collection[str] = (),
    staged: Collection[str] = (),
) -> Layouts:
    """The layout of every register tile; raises where two users cannot agree.

    ``short`` names the products whose operands lie in short runs.
    """
    chooser = _Chooser(meaning, shares, products, short, staged=staged)
    try:
        chooser.settle()
    except ConfigError:
        if products:
            found = _apart(meaning, shares, products, short)
        else:
            grid = grid_layouts(meaning, shares)
            found = None if grid is None else Layouts(grid, {})
        if found is None:
            raise
        return found
    if not products and not chooser.is_even():
        grid = grid_layouts(meaning, shares)
        if grid is not None:
            return Layouts(grid, {})
    return Layouts(chooser.known, chooser.operands(), chooser.through)


def _apart(
    meaning: Meaning, shares: Shares, products: Mapping[str, Product], short: Collection[str]
) -> Layouts | None:
    """The same, where vector ops take what products have as columns as their results want it: what
    is summed of a column then lies where the product has that column. None if that is none either.
    """
    chooser = _Chooser(meaning, shares, products, short, apart=True)
    try:
        chooser.settle()
        return Layouts(chooser.known, chooser.operands())
    except ConfigError:
        return None


@dataclass
class _Chooser:
    meaning: Meaning
    shares: Shares
    products: Mapping[str, Product]
    short: Collection[str]
    apart: bool = False
    """Whether vector ops take the loaded columns of products in a layout of their own."""
    staged: Collection[str] = ()
    known: dict[str, Layout] = field(default_factory=dict)

    def settle(self) -> None:
        """Decide by propagation; what stays open is dealt to lanes, one value at a time."""
        self._place_worked()
        by_lane, in_run = self._computed_operands()
        for product in self.products.values():
            node = self.meaning[product.node]
            first, last = node.type.dims
            flip = last in by_lane or first in in_run
            if (last in by_lane or first in in_run) and (first in by_lane or last in in_run):
                raise ConfigError(
                    f"{self.meaning.name}.{node.name}: lanes would have to go by {first!r} and by "
                    f"{last!r}, for different products that use the result",
                    hint="stage one of the two products' operands through memory",
                    field=node.name,
                )
            apart = not {first, last} & (by_lane | in_run) and node.name in self._added()
            self.known[node.name] = accumulator(product.side, flip=flip or apart)
        while True:
            while self._pass():
                pass
            open_ = [n for n in self.meaning.nodes if self._wants_layout(n)]
            if not open_:
                break
            node = max(open_, key=lambda n: (len(n.type.dims), is_loaded(n)))
            shape = self.shares.of(node.name).shape(node.type.dims)
            one = prod(shape) == 1 or self._is_one(node)
            self.known[node.name] = UNIFORM if one else lanes(shape, node.type.dtype)
        for node in self.meaning.nodes:
            if node.kind is NodeKind.OP and node.name not in self.products:
                self._check(node)

    def _added(self) -> set[str]:
        """What added outputs are computed of: lanes go along their rows, so that the elements of
        one instruction lie beside each other."""
        found: set[str] = set()
        more = [name for out in self.meaning.outputs if out.adds for name in out.uses]
        while more:
            name = more.pop()
            found.add(name)
            more += () if name in self.products else self.meaning[name].operands
        return found

    def _is_one(self, node: Node) -> bool:
        """Whether one code stands for all that a wave has of a value."""
        shape, covers = self.shares.shape(node.type.dims), node.type.dtype.covers
        matrix = blocked_matrix(node)
        rows = matrix.rows if matrix is not None and matrix.shared else 1
        return covers > 1 and shape[-1] <= covers and prod(shape[:-1]) <= rows

    def _as_codes(self, layout: Layout, node: Node) -> Layout:
        """Where a value lies whose elements may share codes."""
        alone = len(node.type.dims) == 1 and self._is_one(node)
        return UNIFORM if alone else grouped(layout, node.type.dtype)

    def is_even(self) -> bool:
        """Whether lanes share all that is dealt to them row-major evenly."""
        for name, layout in self.known.items():
            if layout.kind == "lanes":
                numbers = dict(layout.numbers)
                dealt = prod(self.shares.of(name).shape(self.meaning[name].type.dims))
                dealt *= numbers.get("spread", 1)
                once = WAVE_LANES * numbers["vector"]
                if dealt % once and once % dealt:
                    return False
        return True

    def operands(self) -> dict[tuple[str, str], Layout]:
        found: dict[tuple[str, str], Layout] = {}
        for product in self.products.values():
            node = self.meaning[product.node]
            computed = [n for n in node.uses if self._lies_computed(product, n)]
            worked = any(self._lies_worked(n) for n in node.uses[:2])
            for name in node.uses[2:]:
                if not is_loaded(self.meaning[name]):
                    raise ConfigError(
                        f"{self.meaning.name}.{node.name}: the scales {name!r} are computed",
                        hint="load block scales from memory",
                        field=node.name,
                    )
                item = self.meaning[name]
                shape = self.shares.shape(item.type.dims)
                found[node.name, name] = scales(product.op, item, shape)
            for name in node.uses[:2]:
                dims = self.meaning[name].type.dims
                if self._lies_worked(name):
                    found[node.name, name] = self.known[name]
                    self._check_worked(product, name)
                    continue
                if name not in computed:
                    found[node.name, name] = operand(
                        product.op,
                        dims,
                        product.depth,
                        permuted=bool(computed),
                        short=node.name in self.short and not worked,
                    )
                    continue
                layout = self.known[name]
                wanted = accumulator(product.side, flip=dims[0] == product.depth)
                if layout != wanted:
                    raise ConfigError(
                        f"{self.meaning.name}.{node.name}: operand {name!r} lies as {layout.kind} "
                        f"{dict(layout.numbers)}, but a product takes only a matrix result of side "
                        f"{product.side} as it lies",
                        hint="compute it from a matrix product of the same type, or load it",
                        field=node.name,
                    )
                found[node.name, name] = layout
        return found

    # --- operands that vector ops make, or take ---------------------------------------------------

    def _place_worked(self) -> None:
        """Operands of products that are computed of loaded tiles, or that vector ops take too."""
        for product in self.products.values():
            for name in self.meaning[product.node].uses[:2]:
                if name not in self.known and self._is_worked(name):
                    self.known[name] = self._operand_for(product, name)

    def _operand_for(self, product: Product, name: str) -> Layout:
        item = self.meaning[name].type
        others = set(self.meaning[product.node].uses[:2]) - {name}
        # A result has K in runs of its own.
        beside_result = any(self._lies_computed(product, other) for other in others)
        run = RUN if beside_result else run_of(product.op, item.sizes[product.depth], item.dtype)
        return operand(product.op, item.dims, product.depth, run=run)

    def _check_worked(self, product: Product, name: str) -> None:
        if self.known[name] != self._operand_for(product, name):
            raise ConfigError(
                f"{self.meaning.name}.{product.node}: operand {name!r} already has a "
                "register layout that another product requires",
                hint="compute it twice, under two names",
                field=product.node,
            )

    def _lies_worked(self, name: str) -> bool:
        return name in self.known and self.known[name].kind == "operand"

    def _is_worked(self, name: str) -> bool:
        node = self.meaning[name]
        if not is_loaded(node):
            return node.kind is NodeKind.OP and not self._is_computed(name)
        if self.apart and any(
            name == p.uses[1] for p in map(self.meaning.__getitem__, self.products)
        ):
            return False
        users = users_of(self.meaning, name)
        others = [n for n in users if n.name not in self.products]
        return bool(others) and all(n.kind is NodeKind.OP for n in others)

    def _lies_computed(self, product: Product, name: str) -> bool:
        """Whether a product takes it as it was computed."""
        return self._is_computed(name) and (product.node, name) not in self.through

    @cached_property
    def through(self) -> frozenset[tuple[str, str]]:
        """Of staged results, those that lie across for a product, by what others take."""
        by_lane, in_run, found = set[str](), set[str](), set[tuple[str, str]]()
        for product in self.products.values():
            for name in filter(self._is_computed, self.meaning[product.node].uses[:2]):
                others = set(self.meaning[name].type.dims) - {product.depth}
                if self._is_staged(name) and (product.depth in by_lane or others & in_run):
                    found.add((product.node, name))
                    continue
                in_run.add(product.depth)
                by_lane |= others
        return frozenset(found)

    def _is_staged(self, name: str) -> bool:
        """Whether a result, or what it masks, is to go through LDS."""
        node = self.meaning[name]
        mask = node.op in VOCABULARY and VOCABULARY[node.op].masks
        return name in self.staged or (mask and node.uses[0] in self.staged)

    def _is_computed(self, name: str) -> bool:
        """Whether it is computed of a product, or of what is carried."""
        node = self.meaning[name]
        if node.kind is NodeKind.CARRY or name in self.products:
            return True
        return node.kind is NodeKind.OP and any(map(self._is_computed, node.operands))

    # --- propagation ------------------------------------------------------------------------------

    def _computed_operands(self) -> tuple[set[str], set[str]]:
        by_lane: set[str] = set()
        in_run: set[str] = set()
        for product in self.products.values():
            for name in self.meaning[product.node].uses:
                if self._lies_computed(product, name):
                    in_run.add(product.depth)
                    by_lane |= set(self.meaning[name].type.dims) - {product.depth}
        return by_lane, in_run

    def _wants_layout(self, node: Node) -> bool:
        if node.name in self.known or is_number(node) or node.kind is NodeKind.OUTPUT:
            return False
        if not is_loaded(node):
            return True
        return any(user.name not in self.products for user in users_of(self.meaning, node.name))

    def _pass(self) -> bool:
        before = len(self.known)
        for node in self.meaning.nodes:
            if node.kind is NodeKind.CARRY:
                self._same(node.name, node.uses[0])
            elif node.kind is NodeKind.OP:
                if node.init is not None:
                    self._same(node.name, node.init)
                if node.name not in self.products:
                    self._spread(node)
        return len(self.known) > before

    def _same(self, a: str, b: str) -> None:
        """Two values in one place."""
        for one, other in ((a, b), (b, a)):
            undecided = other not in self.known and not is_number(self.meaning[other])
            if one in self.known and undecided:
                found = self._project(self.known[one], one, other)
                if found is not None:
                    self.known[other] = found

    def _dims(self, node: Node) -> tuple[str, ...]:
        """The dimensions of its work, in the order in which they lie: a reduction's operand's."""
        if set(node.type.dims) != set(self.meaning.domain(node).dims):
            return self.meaning[node.uses[0]].type.dims
        return node.type.dims

    def _spread(self, node: Node) -> None:
        dims = self._dims(node)
        full = self._full(node)
        if full is None:
            return
        sizes = dict(zip(dims, self.shares.of(node.name).shape(dims), strict=True))
        others = [n for n in (node.otherwise, node.when) if n is not None]
        for name in (node.name, *node.uses, *others):
            item = self.meaning[name]
            if name not in self.known and not is_number(item):
                found = project(full, dims, sizes, item.type.dims)
                if found is not None:
                    self.known[name] = self._as_codes(found, item)

    def _full(self, node: Node) -> Layout | None:
        """How the whole domain lies, from an operand (or the result) that has all of it."""
        dims = self._dims(node)
        for name in (*node.uses, node.name):
            item = self.meaning[name]
            grouped_ = name in self.known and "group" in dict(self.known[name].numbers)
            alike = node.type.dtype.covers > 1 and node.within is None
            if name in self.known and (alike or not grouped_) and set(item.type.dims) == set(dims):
                return self._as_dims(ungrouped(self.known[name]), item.type.dims, dims)
        if len(dims) != 2:
            return None
        for name in (*node.uses, node.name):
            layout = self.known.get(name)
            numbers = {} if layout is None else dict(layout.numbers)
            rows = layout is not None and layout.kind == "accumulator" and "only" in numbers
            if rows and self._in_blocks(dims, numbers["side"]):
                by_lane = (self.meaning[name].type.dims[0] == dims[0]) == (numbers["only"] == 0)
                return accumulator(numbers["side"], flip=not by_lane)
        return None

    def _in_blocks(self, dims: tuple[str, ...], side: int) -> bool:
        return all(size % side == 0 for size in self.shares.shape(dims))

    def _as_dims(
        self, layout: Layout, have: tuple[str, ...], want: tuple[str, ...]
    ) -> Layout | None:
        sizes = dict(zip(have, self.shares.shape(have), strict=True))
        return project(layout, have, sizes, want)

    def _project(self, layout: Layout, have: str, want: str) -> Layout | None:
        return self._as_dims(layout, self.meaning[have].type.dims, self.meaning[want].type.dims)

    def _check(self, node: Node) -> None:
        """All operands lie as the domain does, or the op would have to move them."""
        dims = self._dims(node)
        full = self._full(node)
        sizes = dict(zip(dims, self.shares.of(node.name).shape(dims), strict=True))
        check_scale(self.meaning, node)
        if node.within is not None:
            check_reach(self.meaning.name, node, self.known.get(node.uses[0]))
        for name in (*node.uses, node.name):
            item = self.meaning[name]
            if is_number(item) or not item.type.dims:
                continue
            wanted = None if full is None else project(full, dims, sizes, item.type.dims)
            wanted = None if wanted is None else self._as_codes(wanted, item)
            wanted = UNIFORM if full in (None, UNIFORM) and self._is_one(item) else wanted
            if wanted is None or self.known.get(name) != wanted:
                raise ConfigError(
                    f"{self.meaning.name}.{node.name}: {name!r} ({item.type}) does not lie where "
                    f"{node.op} over {', '.join(dims)} needs it",
                    hint="use smaller tiles (fewer elements per lane), keep the dimensions of "
                    "all operands in one order, reduce the last one, or make what is inside a "
                    "reduced one a multiple of 64 lanes x 16 bytes",
                    field=node.name,
                )
