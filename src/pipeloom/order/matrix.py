"""Which matrix instruction a product uses, and what a wave's share of it takes.

The widest plain instruction of 16 x 16 results for the operands' type, or of 32 x 32 where there is
no other. Operands lie K-wise in lanes: a lane has ``lane_bytes`` of one instruction, and one memory
instruction moves up to 16 bytes of it, so one read may serve two narrow instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import DType
from pipeloom.machine.target import MatrixOp, Target
from pipeloom.program.meaning import Meaning, Node, NodeKind

LANES = 64
REGISTER_BYTES = 4
ACCESS_BYTES = 16
"""What a lane moves at most by one memory instruction."""

SPEED = {
    "bf16": "f16",
    "fp16": "f16",
    "fp8": "fp8",
    "bf8": "fp8",
    "fp8_fnuz": "fp8",
    "bf8_fnuz": "fp8",
    "fp6": "fp6",
    "fp4": "fp4",
    "f32": "f32",
}
"""Element type -> what the target's table calls its instructions; others go by their own name."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matmul node: its operands' dimensions and its instruction.

    ``rows`` is the dimension that only the first operand has, ``columns`` that of the second,
    ``depth`` the one they share.
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


def product_of(meaning: Meaning, node: Node, target: Target) -> Product:
    """The product that ``node`` computes, or why no instruction does."""
    first, second = (meaning[name].type for name in node.uses)
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
    op = _instruction(meaning, node, first.dtype, second.dtype, target)
    sizes = meaning.domain(node).sizes
    for dim, granule in ((rows, op.m), (columns, op.n), (depth, op.k)):
        if sizes[dim] % granule:
            raise ConfigError(
                f"{meaning.name}.{node.name}: {dim} = {sizes[dim]} is no multiple of {granule}, "
                f"which {op.name} needs",
                hint=f"make {dim} a multiple of {granule}",
                field=node.name,
            )
    return Product(node.name, op, rows, columns, depth)


def products(meaning: Meaning, target: Target) -> dict[str, Product]:
    """Every matmul of the loop by name."""
    return {
        n.name: product_of(meaning, n, target)
        for n in meaning.nodes
        if n.kind is NodeKind.OP and n.op == "matmul"
    }


def granules(found: dict[str, Product]) -> dict[str, int]:
    """The lengths that shares of matmul results must be multiples of."""
    sizes: dict[str, int] = {}
    for item in found.values():
        for dim in (item.rows, item.columns):
            sizes[dim] = max(sizes.get(dim, 1), item.side)
    return sizes


def lane_bytes(op: MatrixOp, dtype: DType) -> int:
    """Bytes of one instruction's operand in one lane."""
    return op.m * op.k * dtype.bits // (8 * LANES)


def _instruction(
    meaning: Meaning, node: Node, first: DType, second: DType, target: Target
) -> MatrixOp:
    where = f"{meaning.name}.{node.name}"
    kinds = {SPEED.get(t.name, t.name) if t.scale is None else None for t in (first, second)}
    kind = kinds.pop()
    if kinds or kind is None:
        raise ConfigError(
            f"{where}: no plain matrix instruction takes {first} and {second}",
            hint="convert the operands to one of " + ", ".join(SPEED),
            field=node.name,
        )
    options = [op for op in target.matrix_ops if op.dtype == kind and not op.scaled]
    if not options:
        raise ConfigError(
            f"{where}: {target.arch} has no matrix instruction for {first}",
            hint="its instructions: " + ", ".join(op.name for op in target.matrix_ops),
            field=node.name,
        )
    return min(options, key=lambda op: (op.m, -op.k))
