"""Which matrix instruction a product uses, and what a wave's share of it takes.

The widest plain instruction of 16 x 16 results for the operands' type, of which the product takes
whole ones, or of 32 x 32 where there is no other, or where vector ops of the loop take the results,
unless those only pass (``passing``): under an instruction of twice the length there is room for
three times as many of them; or where a small one has room for a single other.
Operands lie K-wise in lanes: a lane has
``lane_bytes`` of one instruction, and one memory instruction moves up to 16 bytes of it, so one
read may serve two narrow instructions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import lcm

from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.dtypes import DTYPES, E8M0, DType
from pipeloom.machine.matrix_ops import MatrixOp, summed_in
from pipeloom.machine.target import REGISTER_BYTES, Target
from pipeloom.order.passing import passes
from pipeloom.order.shares import Shares, divide
from pipeloom.order.spread import codes_together, scales
from pipeloom.program.block_ops import block_sizes
from pipeloom.program.costs import cost_of
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.steps import Unit
from pipeloom.program.vocabulary import PRODUCTS


@dataclass(frozen=True, slots=True)
class Product:
    """A matmul node: its operands' dimensions and its instruction.

    ``rows`` is the dimension that only the first operand has, ``columns`` that of the second,
    ``depth`` the one they share. Further operands are their block scales.
    """

    node: str
    op: MatrixOp
    rows: str
    columns: str
    depth: str

    @property
    def side(self) -> int:
        """Rows and columns of one instruction."""
        return self.op.m


def wanted_granules(meaning: Meaning, node: Node, target: Target) -> dict[str, int]:
    """What the tile of each dimension of a product is best a multiple of."""
    first, second, *scales = (meaning[name].type for name in node.uses)
    types = first.dtype, second.dtype
    op = _instruction(meaning, node, types, target, large=False, scaled=bool(scales), depth=0)
    shared = set(first.dims) & set(second.dims)
    return {
        dim: op.k if dim in shared else granule
        for kind, granule in ((first, op.m), (second, op.n))
        for dim in kind.dims
    }


def product_of(meaning: Meaning, node: Node, target: Target, *, large: bool = False) -> Product:
    """The product that ``node`` computes, or why no instruction does; ``large``: 32 x 32."""
    first, second, *scales = (meaning[name].type for name in node.uses)
    shared = [d for d in first.dims if d in second.dims]
    if len(first.dims) != 2 or len(second.dims) != 2 or len(shared) != 1:
        raise ConfigError(
            f"{meaning.name}.{node.name}: {first} times {second} is no product of two matrices "
            "that share one dimension",
            hint="give each operand two dimensions, one of them common; a batch is a grid",
            field=node.name,
        )
    depth = shared[0]
    if depth in node.type.dims:
        raise ConfigError(
            f"{meaning.name}.{node.name}: the common dimension {depth!r} is not summed",
            hint="use an elementwise product, or sum over it",
            field=node.name,
        )
    rows, columns = (next(d for d in t.dims if d != depth) for t in (first, second))
    for matrix, scale in zip((first, second), scales, strict=False):
        if set(scale.dims) != set(matrix.dims) or scale.dims[-1] != depth or scale.dtype != E8M0:
            raise ConfigError(
                f"{meaning.name}.{node.name}: {scale} is no block scale of {matrix}",
                hint=f"give it the same dimensions, {depth!r} last, and the type {E8M0}",
                field=node.name,
            )
    types = first.dtype, second.dtype
    if node.type.dtype != summed_in(first.dtype):
        sums = summed_in(first.dtype)
        raise ConfigError(
            f"{meaning.name}.{node.name}: products of {first.dtype} are added up in {sums}, and "
            f"this is {node.type}",
            hint=f"carry it as {sums}, loop.carry(..., pl.{sums.name.upper()}, ...), and convert "
            "the sum after the loop",
            field=node.name,
        )
    sizes = meaning.domain(node).sizes
    op = _instruction(meaning, node, types, target, large, bool(scales), sizes[depth])
    for dim, granule in ((rows, op.m), (columns, op.n), (depth, op.k)):
        if sizes[dim] % granule:
            raise ConfigError(
                f"{meaning.name}.{node.name}: {dim} = {sizes[dim]} is no multiple of {granule}, "
                f"which {op.name} needs",
                hint=f"make {dim} a multiple of {granule}",
                field=node.name,
            )
    return Product(node.name, op, rows, columns, depth)


def in_vectors(meaning: Meaning) -> bool:
    """Whether vector ops of the loop take results or operands of its products, or make them."""
    found = [n for n in meaning.nodes if n.kind is NodeKind.OP and n.region is Region.LOOP]
    products = {n.name for n in found if n.op in PRODUCTS}
    taken = {name for n in found if n.name in products for name in n.uses}
    vectors = [n for n in found if n.name not in products]
    return any((products | taken) & {n.name, *n.operands} for n in vectors)


def crowded(meaning: Meaning, target: Target) -> bool:
    """Whether the small instruction of a product leaves its wave a single issue slot."""
    costs = [cost_of(Unit.MATRIX, target, op=p.op) for p in products(meaning, target).values()]
    return any(cost.matrix - cost.held < 2 * target.issue_cycles.value for cost in costs)


def scales_together(meaning: Meaning, target: Target) -> bool:
    """Whether a lane finds block scales of several small instructions in one register."""
    found = [
        scales(product.op, meaning[name], meaning[name].type.shape)
        for product in products(meaning, target).values()
        for name in meaning[product.node].uses[2:]
    ]
    return any(codes_together(layout) > 1 for layout in found)


def products(meaning: Meaning, target: Target, *, large: bool = False) -> dict[str, Product]:
    """Every matmul of the loop by name."""
    return {
        n.name: product_of(meaning, n, target, large=large)
        for n in meaning.nodes
        if n.kind is NodeKind.OP and n.op in PRODUCTS
    }


def granules(meaning: Meaning, found: dict[str, Product]) -> dict[str, int]:
    """The lengths that shares must be multiples of: of matmul results whole instructions, and what
    ops see together."""
    sizes: dict[str, int] = {}
    for item in found.values():
        for dim in (item.rows, item.columns):
            sizes[dim] = max(sizes.get(dim, 1), item.side)
    for dim, block in block_sizes(meaning.nodes).items():
        sizes[dim] = lcm(sizes.get(dim, 1), block)
    return sizes


def lane_bytes(op: MatrixOp, dtype: DType) -> int:
    """Bytes of one instruction's operand in one lane."""
    return op.m * op.k * dtype.bits // (8 * WAVE_LANES)


def _instruction(
    meaning: Meaning,
    node: Node,
    types: tuple[DType, DType],
    target: Target,
    large: bool,
    scaled: bool,
    depth: int,
) -> MatrixOp:
    """The widest that adds up ``depth`` elements in whole steps, or else the widest."""
    names = [dtype.name for dtype in types]
    known = [op for op in target.matrix_ops if op.scaled is scaled]
    options = [op for op in known if op.multiplies(*names, scaled=scaled)]
    if not options or not all(map(_packs, types)):
        form = "scaled" if scaled else "plain"
        raise ConfigError(
            f"{meaning.name}.{node.name}: pipeloom writes no {form} matrix instruction of "
            f"{target.arch} for {' and '.join(dict.fromkeys(names))}",
            hint=_remedy(types, known, target),
            field=node.name,
        )
    side = max if large else min
    return min(
        options, key=lambda op: (op.m != side(o.m for o in options), depth % op.k != 0, -op.k)
    )


def _packs(dtype: DType) -> bool:
    """Whether whole elements fill a register, as every load and layout has them."""
    return REGISTER_BYTES * 8 % dtype.bits == 0


def _remedy(types: tuple[DType, DType], known: list[MatrixOp], target: Target) -> str:
    """What to declare instead: the types that instructions take, and which of them together."""
    takes = {t: op for op in known for t in DTYPES if t.name in op.operands and _packs(t)}
    mixed = ", ".join(t.name for t, op in takes.items() if op.mixes)
    alone = ", ".join(t.name for t, op in takes.items() if not op.mixes)
    pairs = [f"any two of {mixed}"] * bool(mixed) + [f"two of one type out of {alone}"] * bool(
        alone
    )
    if not pairs:
        return "the chip has none: multiply without block scales, or for gfx950"
    told = f"operands are {', or '.join(pairs)}"
    if any(t.scale is not None for t in types) and any(op.scaled for op in target.matrix_ops):
        return f'{told}; with block scales: loop.apply("scaled_matmul", a, b, scales_a, scales_b)'
    if types[0] != types[1]:
        return f"{told}; store both arrays in one type; what is computed gets it by .to(...)"
    return told


def divided(
    meaning: Meaning,
    target: Target,
    waves: int | Mapping[str, int],
    quadrants: int | None,
    staged: Collection[str],
) -> tuple[dict[str, Product], Shares]:
    """Instructions of all products and the shares of the waves, which go together.

    Large matrix instructions where others need room beside them, if the waves' shares are whole
    ones of them.
    """
    crowds = crowded(meaning, target) and not scales_together(meaning, target)
    kept = not all(passes(meaning, name) for name in products(meaning, target))
    if (in_vectors(meaning) and kept) or crowds:
        try:
            found = products(meaning, target, large=True)
            return found, divide(meaning, waves, granules(meaning, found), quadrants, staged)
        except ConfigError:
            pass
    found = products(meaning, target)
    return found, divide(meaning, waves, granules(meaning, found), quadrants, staged)
