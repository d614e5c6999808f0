"""What no kernel can be written of is refused when it is pipelined, and not first by ``emit``.

Every step is planned as the writer plans it; nothing is written. Loops of types that no kernel
loads or stores (6-bit floats, types with block scales of their own, types of a user's own) are left
alone, since they may be meant for the simulator; doubles are refused by ``check_types``.
"""

from __future__ import annotations

from dataclasses import replace

from pipeloom.declare.loop import Loop
from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import CDNA, PROCESSORS
from pipeloom.machine.dtypes import BF8, BF8_FNUZ, DTYPES, F32, FP4, FP8, FP8_FNUZ, I4, U4, DType
from pipeloom.machine.target import Target
from pipeloom.program import VOCABULARY, NodeKind, Program
from pipeloom.program.meaning import Meaning
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
    _check_blocks(meaning)
    products = any(node.op in PRODUCTS for node in meaning.nodes)
    for node in (*meaning.inputs, *meaning.outputs):
        last = node.type.dims[-1:] == (meaning.over,)
        streamed = node.kind is NodeKind.STREAM and (last or not products)
        if node.type.dtype in (I4, U4, FP4) and not streamed:
            raise ConfigError(
                f"{meaning.name}: {node.name!r} is {node.type}, and two of its elements share a "
                "byte",
                hint=f"stream it, for products with {meaning.over!r} last, or store it in 8 bits",
                field=node.name,
            )
        if node.type.dtype.bits > F32.bits:
            raise ConfigError(
                f"{meaning.name}: {node.name!r} is {node.type}, and kernels compute in f32",
                hint=f"declare {node.name!r} as f32, or as a smaller type",
                field=node.name,
            )
    for node in meaning.nodes:
        if node.kind is NodeKind.OP and node.type.dtype == FP4:
            raise ConfigError(
                f"{meaning.name}: {node.name!r} is computed, and is {FP4}",
                hint="let it be fp8 or i8; streams of fp4 are multiplied as they are, or converted",
                field=node.name,
            )


def _check_blocks(meaning: Meaning) -> None:
    """Refuse what no lane has of numbers for each block: a reduction of them, and parts of one."""
    for node in meaning.nodes:
        dtype, op = node.type.dtype, VOCABULARY.get(node.op)
        given = [meaning[name] for name in node.uses]
        computed = any(n.kind is NodeKind.OP and n.type.dtype.covers > 1 for n in given)
        if computed and op is not None and op.reduce is not None and op.name not in PRODUCTS:
            raise ConfigError(
                f"{meaning.name}: {node.name!r} is {op.name} of {node.uses[0]!r}, which has one "
                "number for each block",
                hint="reduce what the blocks are of, or store their numbers and reduce them in a "
                "second kernel",
                field=node.name,
            )
        if node.kind is NodeKind.OUTPUT and dtype.covers & (dtype.covers - 1):
            raise ConfigError(
                f"{meaning.name}: {node.name!r} has one number for each {dtype.covers} elements",
                hint="blocks of 16, 32, 64, ... elements have numbers that can be stored",
                field=node.name,
            )


def _own(dtype: DType) -> bool:
    """Whether it is a type of a user's own; of those for blocks, that of one element."""
    return dtype not in DTYPES and replace(dtype, name=dtype.code, covers=1) not in DTYPES


def check_writable(program: Program, loop: Loop) -> None:
    """Raise what ``emit`` would say of a step that it cannot write, where types are no matter."""
    target, meaning = program.target, program.meaning
    if (
        any(_own(node.type.dtype) for node in meaning.nodes)
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
