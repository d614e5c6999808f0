"""Whether lanes have what an op within blocks needs, by how its operand lies.

A block's halves change places without an exchange where partners lie in one lane: runs of a matrix
result, and its blocks of columns. What is largest in a block is found in lanes, and then across
those that share a row.
"""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.dtypes import E8M0
from pipeloom.order.spread import RUN, may_group
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.resources import Layout
from pipeloom.program.vocabulary import VOCABULARY, InBlocks


def check_reach(loop: str, node: Node, layout: Layout | None) -> None:
    """Raise where lanes would have to exchange what an op within blocks needs."""
    assert node.within is not None
    numbers = {} if layout is None else dict(layout.numbers)
    half, dims = node.within.size // 2, node.type.dims
    fits = False
    if layout is not None and layout.kind == "accumulator" and "only" not in numbers:
        side = numbers["side"]
        columns = (node.within.dim == dims[-1]) != bool(numbers.get("flip"))
        period = RUN * WAVE_LANES // side if columns else side
        power = half & (half - 1) == 0
        fits = len(dims) == 2 and (half % period == 0 or (columns and half < RUN and power))
        if VOCABULARY[node.op].in_blocks is InBlocks.MAX:
            flipped = "flip" in numbers
            fits = len(dims) == 2 and columns and not flipped and node.within.size % period == 0
    elif layout is not None and may_group(layout):
        power = node.within.size & (node.within.size - 1) == 0
        fits = power and node.within.dim == dims[-1]
    if not fits:
        raise ConfigError(
            f"{loop}.{node.name}: blocks of {node.within.size} along {node.within.dim!r} do not "
            f"lie in the lanes of {node.uses[0]!r}",
            hint="let it be the result of a product, or what is computed of one, along its last "
            "dimension: halves of 1, 2 or a multiple of 16 change places, and blocks of 16 or a "
            "multiple have a largest",
            field=node.name,
        )


def check_scale(meaning: Meaning, node: Node) -> None:
    """Raise for block scales that are computed of anything but powers of two, or used again: what
    registers hold of them is their codes."""
    if node.kind is not NodeKind.OP or node.type.dtype.code != E8M0.code:
        return
    again = [n.name for n in meaning.nodes if node.name in n.operands and n.kind is NodeKind.OP]
    power = node.op == "convert" and meaning[node.uses[0]].op == "power_below"
    if again or not power or meaning[node.uses[0]].type.dtype.covers != node.type.dtype.covers:
        raise ConfigError(
            f"{meaning.name}.{node.name}: {node.type} of {node.uses[0]!r}"
            + (f", used by {again[0]!r}" if again else ""),
            hint=f"let scale = pl.power_below(pl.block_amax(x, 'n', {E8M0.covers}) * 2**-8), "
            "store scale.to('e8m0'), and divide by scale",
            field=node.name,
        )
