"""Which registers hold a tile: accumulation registers or vector ones, packed or one per element."""

from __future__ import annotations

from pipeloom.program import Node, Program, Space
from pipeloom.program.across_rows import comes_transposed, goes_across, turned_tiles
from pipeloom.program.nodes import Region as When
from pipeloom.program.vocabulary import PRODUCTS
from pipeloom.write.lower.register_tiles import WORD


def accumulators(program: Program, *, seldom: bool = False) -> set[str]:
    """What lives beside the vector registers: results of products that no loop computes on; with
    ``seldom`` those, too, on which loops compute under conditions only.

    Vector instructions cannot touch those registers, so outside of loops a move comes before.
    """
    products: set[str] = set()
    others: set[str] = set()
    for _, section, work in program.works():
        if not work.is_copy and program.meaning[work.node].op in PRODUCTS:
            products |= {a.resource for a in (*work.writes, *work.accumulates)}
        elif not work.is_copy and section.trips and not (seldom and work.when):
            others |= {access.resource for access in work.accesses}
    return products - others


def movable_tiles(program: Program) -> set[str]:
    """What accumulation registers may hold where vector registers do not suffice: results of
    products on which loops compute under conditions only, and operands that only matrix
    instructions read, as they are loaded: these and loads can touch accumulation registers, too.
    (Transposed reads of LDS cannot, as writers have them.)"""
    found = {
        resource.name
        for resource in program.resources
        if resource.layout is not None and resource.layout.kind == "operand"
        if not goes_across(resource.layout)
    }
    for _, _, work in program.works():
        product = not work.is_copy and program.meaning[work.node].op in PRODUCTS
        others = (*(work.writes if not work.is_copy else ()), *work.accumulates)
        found -= {a.resource for a in (*others, *(() if product else work.reads))}
    seldom = accumulators(program, seldom=True) - accumulators(program)
    return found - loaded_singly(program) | seldom


def loaded_singly(program: Program) -> set[str]:
    """What is loaded element by element, each to a register of its own.

    Of memory, arrays that are aligned to less than a word, tiles of which a lane has less than one,
    16-bit tiles that lie like matrix results, or are wanted after the loop: runs are
    short, and rows of any length and alignment are wanted beside results; and what is stored as it
    was loaded, where alignment is what is changed. Of LDS, what is read
    across its rows where the chip has no transposed read. (Loads to a half of a register clear the
    other half on chips that protect registers by ECC, as gfx942 does: LLVM,
    ``d16PreservesUnusedBits``.)
    """
    memory = {node.name for node in program.meaning.inputs}
    meaning = program.meaning
    after = {n.name for n in meaning.inputs if n.region is When.AFTER}
    after |= {name for n in meaning.outputs for name in n.uses}
    from_memory, at_end, from_lds = set(), set(), set()
    turned = turned_tiles(program)
    sources: dict[str, Node] = {}
    for _, _, work in program.works():
        if work.is_copy:
            into = {access.resource for access in work.writes}
            if work.reads[0].resource in memory:
                from_memory |= into
                sources |= dict.fromkeys(into, meaning[work.reads[0].resource])
                at_end |= into if work.reads[0].resource in after else set()
            elif work.reads[0].resource not in turned:
                from_lds |= into
    found = {name for name, a in sources.items() if a.align < WORD and a.type.dtype.bits < 8 * WORD}
    for resource in program.resources:
        name, layout, bits = resource.name, resource.layout, resource.type.dtype.bits
        if layout is None or resource.space is not Space.REGISTER:
            continue
        if bits < 32 and name in (from_memory if layout.kind == "accumulator" else at_end):
            found.add(name)
        if layout.kind == "lanes" and name in from_memory:
            together = 1 if "spread" in dict(layout.numbers) else layout["vector"]
            found |= {name} if together * bits < 8 * WORD else set()
        if bits < 32 and goes_across(layout):
            whole = comes_transposed(layout, bits, program.target)
            found |= {name} & (from_memory if whole else from_memory | from_lds)
        if layout.kind == "grid" and name in from_memory and bits < 8 * WORD:
            found.add(name)
    return found
