"""A declared value in one line: ``C.next = matmul(A, B) + C, f32 256x256``."""

from __future__ import annotations

from pipeloom.program import Node, NodeKind

_KINDS = {
    NodeKind.STREAM: "a tile of memory per iteration",
    NodeKind.RESIDENT: "a tile of memory",
    NodeKind.SCALAR: "an argument",
    NodeKind.CONSTANT: "a constant",
    NodeKind.LEFT: "elements left",
    NodeKind.SIZE: "elements in all",
}


def node_text(node: Node, *, sized: bool = True) -> str:
    """What gives the value and its type; with its sizes, unless those are not of elements."""
    sizes = "x".join(str(size) for size in node.type.shape) if sized else ""
    kind = f"{node.type.dtype}{' ' * bool(sizes)}{sizes}"
    if node.kind is NodeKind.OP:
        added = f" + {node.init}" if node.init is not None else ""
        where = f" where {node.when}, else {node.otherwise}" if node.when is not None else ""
        return f"{node.name} = {node.op}({', '.join(node.uses)}){added}{where}, {kind}"
    if node.kind is NodeKind.OUTPUT:
        return f"{node.name} = {', '.join(node.uses)}, stored as {kind}"
    if node.kind is NodeKind.CARRY:
        return f"{node.name}: {', '.join(node.uses)} of the iteration before, {kind}"
    return f"{node.name}: {_KINDS[node.kind]}, {kind}"
