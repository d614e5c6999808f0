"""How far the loop goes in each problem of a batch: sequences have lengths, and may be shared out.

    lengths   an i32 array says how many elements along the loop's dimension a sequence has; those
              behind them read as zero, and are masked like what lies past the end of an array
    shares    problems along one dimension of the batch share the tiles of a loop: each has as many
              as the others, the last ones fewer or none
    turns     the loop goes along its dimension once for each index of another, one after the other

All change how many iterations a workgroup has, and where its first tile lies, and nothing else: a
proof holds for any number of iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeloom.errors import GraphError
from pipeloom.plain import LEFT_OUT_WHILE_USUAL
from pipeloom.program.idle import ends_with_block
from pipeloom.program.nodes import Node, NodeKind, Region

if TYPE_CHECKING:
    from pipeloom.program.meaning import Meaning

LEAST_SHARED = 16
"""Elements of a tile that is shared out: tiles are counted, and divided, below 2^21."""


@dataclass(frozen=True, slots=True)
class ProblemSpan:
    """Which part of the loop's dimension each problem of a batch goes along."""

    lengths: str = ""
    """The index array, of i32, with an entry for each index of ``per``: how many elements that
    problem has. What is below 0 counts as 0, and no problem has more than the arrays."""
    per: str = ""
    """The dimension of the batch whose problems differ in length."""
    shares: str = ""
    """The dimension of the batch whose problems share the tiles of one loop."""
    turns: str = field(default="", metadata=LEFT_OUT_WHILE_USUAL)
    """The dimension of streams, behind those of the batch, for each index of which the loop goes
    along its own once more: what is carried goes on, and tiles end where a turn does."""

    @property
    def differs(self) -> bool:
        """Whether problems go along different parts of it."""
        return bool(self.lengths or self.shares)


def shared_out(span: ProblemSpan | None) -> bool:
    """Whether as many workgroups share a loop as the launch gives it."""
    return span is not None and bool(span.shares)


def turns_of(span: ProblemSpan | None) -> str:
    """The dimension whose indices a loop takes one after the other; empty if there is none."""
    return "" if span is None else span.turns


class Stretch(NamedTuple):
    """What one problem goes along, in tiles and elements."""

    first: int
    """Its first tile."""
    tiles: int
    """How many it has."""
    size: int
    """Elements that the loop's dimension has for it, from the arrays' first one on."""
    turns: int = 1
    """How often it goes along them, each time in further parts of its streams."""


def stretch_of(
    span: ProblemSpan,
    tile: int,
    size: int,
    problem: Mapping[str, int],
    sizes: Mapping[str, int],
    arrays: Mapping[str, Any],
) -> Stretch:
    """What a problem goes along.

    Args:
        span: What the declaration says of it.
        tile: Elements of an iteration.
        size: Elements that the arrays have along the loop's dimension.
        problem: The problem's index by dimension of the batch.
        sizes: The size of each dimension.
        arrays: Whole index arrays by name.
    """
    if span.lengths:
        length = int(np.asarray(arrays[span.lengths])[problem[span.per]])
        size = min(max(length, 0), size)
    tiles = -(-size // tile)
    if not span.shares:
        return Stretch(0, tiles, size, sizes[span.turns] if span.turns else 1)
    each = -(-tiles // max(sizes[span.shares], 1))
    first = min(problem[span.shares] * each, tiles)
    return Stretch(first, min(each, tiles - first), size)


def batch_of(arrays: Iterable[Node], span: ProblemSpan | None) -> tuple[str, ...]:
    """Dimensions along which everything is done again; those of turns are done in one loop."""
    found = max((node.batch for node in arrays), key=len, default=())
    return found[:-1] if turns_of(span) in found[-1:] else found


BATCHES = "batches"
"""What launch records call the number of problems of the same sizes; no dimension has that name."""


def check_batch(meaning: Meaning) -> None:
    """Raise where inputs and outputs disagree on the batch, or problems cannot differ as said."""
    inside = {dim for node in meaning.nodes for dim in node.type.dims}
    for node in meaning.nodes:
        outside = node.kind in (NodeKind.STREAM, NodeKind.RESIDENT, NodeKind.OUTPUT)
        if outside and BATCHES in (*node.dims, *node.type.dims):
            raise node.wrong(
                f"has a dimension {BATCHES!r}, which is what launches call the number of problems",
                hint=f"give it another name, such as {BATCHES[:-2]!r}",
            )
        lacks = node.kind is NodeKind.OUTPUT and not node.adds and node.batch != meaning.batch
        known = {*meaning.batch, turns_of(meaning.span) if node.kind is NodeKind.STREAM else ""}
        wrong = set(node.batch) - known or set(node.batch) & inside
        if lacks or wrong or (node.batch and not outside):
            raise node.wrong(
                f"has the batch dimensions {node.batch}",
                hint="every output has all of them, in one order, or is added to (loop.adds); "
                "inputs have some, tiles none",
            )
        for entry in () if node.at is None else node.at.entries:
            if entry.per and entry.per not in meaning.batch:
                raise GraphError(
                    f"{entry.array!r} has entries per {entry.per!r}, which is no dimension of the "
                    "batch",
                    hint=f"loop.batch(..., over=({entry.per!r}, ...)) for every output",
                    field=entry.array,
                )
    if meaning.span is not None:
        _check_span(meaning, meaning.span)


def _check_span(meaning: Meaning, span: ProblemSpan) -> None:
    loop, over = f"loop {meaning.name!r}", meaning.over
    for what, dim in (("has lengths per", span.per), ("is shared out along", span.shares)):
        if dim and dim not in meaning.batch:
            raise GraphError(
                f"{loop} {what} {dim!r}, which is no dimension of its batch",
                hint=f"loop.batch(..., over=({dim!r}, ...)) for every output",
                field=dim,
            )
    if (span.differs and not meaning.ragged) or any(
        node.region is Region.LOOP for node in meaning.outputs
    ):
        raise GraphError(
            f"{loop}: problems differ in how far they go along {over!r}, and what lies behind the "
            "end of one would count",
            hint=f"mask it, pl.keep(x, loop.left({over!r})), and store after the loop",
            field=over,
        )
    for node in meaning.inputs:
        stream = node.kind is NodeKind.STREAM
        ends = node.type.dims[:1] == (over,) and ends_with_block(meaning, node)
        if stream and not ends:
            raise node.wrong(
                f"is {node.type}, and problems end at different places along {over!r}",
                hint=f"let {over!r} be its first dimension",
                of=loop,
            )
        if node.kind is NodeKind.RESIDENT and over in node.type.dims:
            raise node.wrong(
                f"is {node.type}, the same whatever a problem goes along",
                hint=f"declare a stream along {over!r}",
                of=loop,
            )
    streams = [node for node in meaning.inputs if node.kind is NodeKind.STREAM]
    last = all(node.batch[-1:] == (span.turns,) and node.at is None for node in streams)
    if span.turns and (span.shares or meaning.until or not last):
        raise GraphError(
            f"{loop} takes {span.turns!r} in turns, which is not the last dimension before the "
            "tile of each stream" + (", or ends early" if span.shares or meaning.until else ""),
            hint=f"loop.batch(..., over=(..., {span.turns!r})) for all streams, without a place, "
            "and without it for what is the same in all turns; neither share nor until",
            field=span.turns,
        )
    if span.shares and (meaning.tile[over] < LEAST_SHARED or _asks_size(meaning)):
        raise GraphError(
            f"{loop} is shared out, and takes {meaning.tile[over]} of {over!r} at a time"
            + (f" and asks how many there are of {over!r}" if _asks_size(meaning) else ""),
            hint=f"take {LEAST_SHARED} or more, and look at what is left only",
            field=over,
        )


def _asks_size(meaning: Meaning) -> bool:
    return any(node.along == meaning.over for node in meaning.nodes)
