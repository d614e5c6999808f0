"""What no kernel can be written of is refused when it is pipelined, and not first by ``emit``.

Every step is planned as the writer plans it; nothing is written. Loops of types that no kernel
loads or stores (6-bit floats, types with block scales of their own, types of a user's own) are left
alone, since they may be meant for the simulator; doubles are refused by ``check_types``.
"""

from __future__ import annotations

from pipeloom.declare.loop import Loop
from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import CDNA, PROCESSORS
from pipeloom.machine.dtypes import BF8, BF8_FNUZ, DTYPES, F32, FP4, FP8, FP8_FNUZ, I4, U4
from pipeloom.machine.target import Target
from pipeloom.program import NodeKind, Program
from pipeloom.program.vocabulary import PRODUCTS
from pipeloom.write import EmitError
from pipeloom.write.lower.global_arrays import arrays_of
from pipeloom.write.writers import occupied

BYTES = tuple(dtype.code for dtype in (FP8, BF8, FP8_FNUZ, BF8_FNUZ))
"""Floats of 8 bits, of which a chip has two."""


def check_types(loop: Loop, target: Target) -> None:
    """Refuse arrays of elements that no register holds, and floats of another chip's in vector ops.

    What a chip's instructions convert is what its matrix instructions multiply.
    """
    meaning = loop.meaning
    for node in meaning.nodes:
        for name in (node.name, *node.uses):
            dtype = meaning[name].type.dtype
            if node.kind is not NodeKind.OP or node.op in PRODUCTS or dtype.code not in BYTES:
                continue
            if not target.multiplies(dtype.code):
                own = filter(target.multiplies, BYTES)
                raise ConfigError(
                    f"{meaning.name}: {target.arch} converts no {dtype}, which {name!r} is",
                    hint=f"its 8-bit floats are {', '.join(own) or 'none'}",
                    field=name,
                )
    for node in (*meaning.inputs, *meaning.outputs):
        streamed = node.kind is NodeKind.STREAM and node.type.dims[-1:] == (meaning.over,)
        if node.type.dtype in (I4, U4, FP4) and not streamed:
            raise ConfigError(
                f"{meaning.name}: {node.name!r} is {node.type}, and two of its elements share a "
                "byte",
                hint=f"kernels read those along the loop only: stream it with {meaning.over!r} "
                "last, or store it in 8 bits",
                field=node.name,
            )
        if node.type.dtype.bits > F32.bits:
            raise ConfigError(
                f"{meaning.name}: {node.name!r} is {node.type}, and kernels compute in f32",
                hint=f"declare {node.name!r} as f32, or as a smaller type",
                field=node.name,
            )


def check_writable(program: Program, loop: Loop) -> None:
    """Raise what ``emit`` would say of a step that it cannot write, where types are no matter."""
    target, meaning = program.target, program.meaning
    if (
        any(node.type.dtype not in DTYPES for node in meaning.nodes)
        or target.isa != CDNA
        or target.encoded_as not in PROCESSORS
    ):
        return
    try:
        arrays_of(meaning)
    except EmitError:
        return
    try:
        occupied(program, ops=loop.ops)
    except EmitError as error:
        raise ConfigError(
            f"{program.name} has an order, but no kernel of it can be written: {error.message}",
            hint=error.hint,
            field=error.field,
        ) from error
