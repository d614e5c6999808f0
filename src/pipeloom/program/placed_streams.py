"""Tiles that lie elsewhere (``Node.at``): which maps a kernel can follow, and their sizes.

What is asked of a map is what buffer loads can do: neighbours of a load lie within one tap, the
loop's digits are fixed, and an index outside of the array is known by a bit per tap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from pipeloom.device.block_ends import BlockedEnd, with_ends
from pipeloom.errors import ConfigError, GraphError
from pipeloom.program.address_maps import AddressMap, IndexedDim
from pipeloom.program.blocked_matrices import BlockedMatrix, blocked_matrix
from pipeloom.program.index_forms import Digit
from pipeloom.program.nodes import NARROW, Node, NodeKind

WHOLE_ENTRY = 32
"""Bits of an entry that is not a part of one."""
MOST_TAPS = 31
"""Bits of a register that say which taps of a row lie outside, one left for what is past the
last."""


def check_placed(loop: str, over: str, nodes: Iterable[Node]) -> None:
    """Raise for a map that no kernel follows, with what would do."""
    nodes = tuple(nodes)
    tile_dims = {dim for node in nodes for dim in node.type.dims}
    for node in nodes:
        if node.at is None:
            continue
        place = node.at
        counted = tuple(one.dim for one in place.counted)
        known = {*counted, *(entry.dim for entry in place.entries if not entry.digit)}
        kinds = (NodeKind.STREAM, NodeKind.OUTPUT) if place.entries else (NodeKind.STREAM,)
        if node.kind not in kinds or known != set(node.type.dims):
            raise node.wrong(
                f"is {node.type}, and its place counts {', '.join(known)}",
                hint="a stream has a place, and an output whose rows are entries of an index "
                "array: each dimension of the tile has digits, or an entry",
                of=loop,
            )
        clash = [dim for dim in place.dims if dim in tile_dims or place.dims.count(dim) > 1]
        if clash:
            raise GraphError(
                f"{loop}: {clash[0]!r} is a dimension of {node.name!r}'s array, and of a tile or "
                "of the array again",
                hint="give the array's dimensions names of their own: h, w, channels",
                field=node.name,
            )
        if node.kind is NodeKind.OUTPUT:
            _check_scattered(loop, over, node, place)
            continue
        if any(entry.digit for entry in place.entries):
            _check_paged(loop, over, node, place)
            continue
        matrix = blocked_matrix(node)
        if matrix is not None:
            _check_blocks(loop, over, node, matrix)
            continue
        if over not in counted:
            raise node.wrong(
                f"takes rows that an index array names along {over!r}, which the loop goes along",
                hint="run the loop along columns, and name the rows of a block: "
                f"pl.Loop(..., over={next(iter(counted), 'd')!r})",
                of=loop,
            )
        _check_digits(loop, over, node, place)
        _check_last(loop, over, node, place)
        taps_of(loop, over, node)


def _check_scattered(loop: str, over: str, node: Node, place: AddressMap) -> None:
    """Rows by entries, columns as they are."""
    rows, *columns = place.indexed
    entries = {entry.name for entry in place.entries if entry.dim == node.type.dims[0]}
    alone = len(node.type.dims) == len(place.indexed) == 2 and over not in node.type.dims
    last = place.digits(node.type.dims[-1])[-1:] if alone and len(place.counted) == 1 else ()
    plain = [digit for digit in last if digit.follows == place.dims[-1]]
    by_rows = {name for name, _ in rows.index.factors} <= entries
    if not plain or not by_rows or [one.index for one in columns] != [d.form for d in plain]:
        raise GraphError(
            f"{loop}: output {node.name!r} is stored at "
            + ", ".join(f"{one.dim} = {one.index}" for one in place.indexed),
            hint="scatter rows of an output of two dimensions: loop.place('out', n=(f,), "
            "rows=ids, columns=f) with f = pl.digit('f', 'columns')"
            + (
                f"; and behind the loop, of what is carried: total += x.sum({over!r})"
                if over in node.type.dims
                else ""
            ),
            field=node.name,
        )


def _check_blocks(loop: str, over: str, node: Node, matrix: BlockedMatrix) -> None:
    """Tiles of whole blocks, in each of which neighbours fill registers."""
    dtype = node.type.dtype
    least = NARROW * 8 // dtype.bits if dtype.covers == 1 else dtype.covers
    powers = all(size & (size - 1) == 0 for size in (matrix.rows, matrix.columns))
    if node.type.dims[-1] != over or matrix.run % least or not powers:
        raise node.wrong(
            f"({node.type}) lies in blocks of {matrix.rows} x "
            f"{matrix.columns}, {matrix.run} neighbours along {node.type.dims[-1]!r} together",
            hint=f"let blocks be powers of two, and their fastest digit one of {over!r} with a "
            f"multiple of {least} values",
            of=loop,
        )
    for size, unit, dim in zip(
        node.type.shape, (matrix.rows, matrix.columns), node.type.dims, strict=True
    ):
        if size % unit:
            raise node.wrong(
                f"lies in blocks of {unit} along {dim!r}, and its tile has {size}",
                hint=f"let the tile have a multiple of {unit}",
                of=loop,
            )


def _check_paged(loop: str, over: str, node: Node, place: AddressMap) -> None:
    """Rows of pages that an index array names, or single elements; columns as they are."""
    dims, slots = node.type.dims, place.digits(over)[-1]
    by_page = [one for one in place.indexed if one.index == place.entries[0].form]
    columns = [digit for dim in dims[1:] for digit in place.digits(dim)]
    plain = [digit for digit in columns if digit.follows == place.dims[-1]]
    counted = place.digits(over)[:-1]
    if (
        [dims[0], len(place.entries), len(counted)] != [over, 1, 1]
        or not (len(dims) - 1 == len(columns) == len(plain) <= 1)
        or (counted[0].name, counted[0].follows) != (place.entries[0].digit, place.entries[0].dim)
        or place.entries[0].width < WHOLE_ENTRY
        or not (by_page and slots.count)
        or place.indexed != (*by_page, *_alone(place.dims[1:], (slots, *plain)))
    ):
        raise GraphError(
            f"{loop}: {node.name!r}, {node.type}, lies at "
            + ", ".join(f"{one.dim} = {one.index}" for one in place.indexed),
            hint="a stream of rows in pages: page, slot, c = pl.digit('page', 'table_length'), "
            f"pl.digit('slot', 16), pl.digit('c', 'columns'); loop.place({node.name!r}, "
            f"{over}=(page, slot), {(*dims, 'd')[1]}=(c,), pages=loop.indices('table', page), "
            "slots=slot, columns=c)",
            field=node.name,
        )
    tile = node.type.sizes[over]
    if tile % slots.count and slots.count % tile:
        raise node.wrong(
            f"has pages of {slots.count}, and an iteration takes {tile}",
            hint="let a tile have whole pages, or a page whole tiles",
            of=loop,
        )
    _check_elements(loop, node)


def _alone(dims: Iterable[str], digits: Iterable[Digit]) -> Iterable[IndexedDim]:
    return [IndexedDim(dim, digit.form) for dim, digit in zip(dims, digits, strict=False)]


def _check_digits(loop: str, over: str, node: Node, place: AddressMap) -> None:
    rows = {digit.name for one in place.counted if one.dim != over for digit in one.digits}
    for one in place.indexed:
        mixed = [name for name, _ in one.index.factors if name in rows]
        if len(mixed) > 1:
            raise GraphError(
                f"{loop}: the index along {one.dim!r} of {node.name!r} is {one.index}",
                hint=f"it takes {mixed[0]!r} or {mixed[1]!r}, and digits of {over!r}",
                field=node.name,
            )
        wrong = [name for name, factor in one.index.factors if factor < 1]
        if wrong or not one.index.factors:
            raise GraphError(
                f"{loop}: the index along {one.dim!r} of {node.name!r} is {one.index}",
                hint="an index grows with its digits: give them factors of 1 or more, and flip the "
                "array itself if need be",
                field=node.name,
            )
    loose = [digit.name for digit in place.digits(over) if digit.along]
    if loose and len(place.digits(over)) > 1:
        raise GraphError(
            f"{loop}: digit {loose[0]!r} of {node.name!r} is counted along the loop, and its count "
            "is known only at launch",
            hint="taps and channels are fixed when the kernel is made: pl.digit(name, 3)",
            field=node.name,
        )


def _check_last(loop: str, over: str, node: Node, place: AddressMap) -> None:
    """Neighbours along the last dimension are the loop's fastest digit, whole loads of it."""
    inner, last = place.digits(over)[-1], place.indexed[-1]
    elsewhere = [one for one in place.indexed[:-1] if inner.name in dict(one.index.factors)]
    if last.index != inner.form or elsewhere or node.type.dims[-1] != over:
        raise node.wrong(
            f"has {last.index} along {last.dim!r}, where neighbours lie, and "
            f"its tile ends with {node.type.dims[-1]!r}",
            hint=f"let the last dimension of the tile be {over!r}, and its fastest digit alone the "
            "index along the array's last dimension (channels last); windows that no matrix "
            "multiplies (pools, depth-wise filters) are a view of the padded array, "
            "[h, r, w, s, channels], and x.max('r', 's')",
            of=loop,
        )
    _check_elements(loop, node)
    if len(place.digits(over)) == 1 and place.ends_in_tile(over, node.type.sizes[over]):
        raise node.wrong(
            f"has {inner.count} {last.dim}, no whole number of tiles of {node.type.sizes[over]}",
            hint="put a digit of one value before it, which says where the columns end: "
            f"{over}=(pl.digit('tap', 1), {inner.name})",
            of=loop,
        )
    bits = inner.count * node.type.dtype.bits  # none of a size at launch, which says it itself
    if bits % (8 * node.align):
        whole = -(-bits // (8 * NARROW)) * 8 * NARROW // node.type.dtype.bits
        raise node.wrong(
            f"has {inner.count} {last.dim} of {node.type.dtype}, and loads "
            f"of {node.align} bytes would reach into the next tap",
            hint=f"loop.align({node.name!r}, to={NARROW})"
            if bits % (8 * NARROW) == 0
            else f"pad {last.dim} with zeros to {whole}, and the weights with them",
            of=loop,
        )


def _check_elements(loop: str, node: Node) -> None:
    if node.type.dtype.bits < 8 or node.type.dtype.scale or node.type.dtype.covers > 1:
        raise node.wrong(
            f"is {node.type.dtype}, elements that share bytes",
            hint="a stream with a place has elements of 8, 16 or 32 bits",
            of=loop,
        )
    if node.align < NARROW:
        raise node.wrong(
            f"is aligned to {node.align} bytes, and loads to LDS take {NARROW} at least",
            hint=f"loop.align({node.name!r}, to={NARROW}), and pad rows if need be",
            of=loop,
        )


def taps_of(loop: str, over: str, node: Node) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Which digits of the loop decide whether an index lies outside: fields of a word of bits.

    A field has a bit per combination of its digits: one field of all, or, where that is too many
    bits, one for each digit. The first digit, which is what is past the last column, is among them
    where a tile reaches there.
    """
    assert node.at is not None
    counts = {digit.name: digit.count for digit in node.at.digits(over)}
    ends = node.at.ends_in_tile(over, node.type.sizes[over])
    names = [
        name
        for at, name in enumerate(counts)
        if (ends and at == 0) or any(name in dict(one.index.factors) for one in node.at.checked())
    ]
    fields = tuple((name, counts[name]) for name in names)
    if prod(counts[name] for name in names) <= MOST_TAPS:
        return (fields,) if fields else ()
    apart = tuple((one,) for one in fields)
    mixed = [one for one in node.at.checked() if _digits_of(one, names) > 1]
    if sum(counts[name] + 1 for name in names) > MOST_TAPS + 1 or mixed:
        raise node.wrong(
            f"has {' x '.join(str(n) for _, n in fields)} taps that may lie outside of the array",
            hint=f"a kernel tells {MOST_TAPS} apart, or as many along each dimension together: cut "
            "the window, and add the products up",
            of=loop,
        )
    return apart


def reads_zeros_past(over: str, node: Node) -> bool:
    """Whether a kernel finds zeros past the last of the loop's digits: it is one tap more."""
    assert node.at is not None
    first = node.at.digits(over)[0].name
    return any(first == name for field in taps_of("", over, node) for name, _ in field)


def _digits_of(one: IndexedDim, names: Iterable[str]) -> int:
    return sum(name in dict(one.index.factors) for name in names)


def derived_sizes(over: str, nodes: Iterable[Node], given: Mapping[str, int]) -> dict[str, int]:
    """``given`` with the sizes that follow from arrays which lie elsewhere; raises where they
    disagree. Along the loop there may be more, which reads as zero."""
    nodes = tuple(nodes)
    sizes = _in_blocks(nodes, given)
    for node in nodes:
        if node.at is None or blocked_matrix(node) is not None:
            continue
        if node.kind is NodeKind.OUTPUT and node.type.dims[-1] in sizes:
            # Its columns are the tile's, and may be called otherwise.
            sizes.setdefault(node.at.dims[-1], sizes[node.type.dims[-1]])
        for dim, least in node.at.fixed().items():
            if sizes.setdefault(dim, least) < least:
                raise ConfigError(
                    f"{node.name} has {sizes[dim]} along {dim!r}, and {least} are read of it",
                    hint=f"pass {least} or more",
                    field=dim,
                )
        for dim, size in node.at.sizes(sizes).items():
            had = sizes.setdefault(dim, size)
            past = dim == over and reads_zeros_past(over, node)
            if had < size or (had > size and not past):
                raise ConfigError(
                    f"{node.name} gives {size} along {dim!r}, another array {had}",
                    hint=f"the size along {dim!r} is {node.at.derived()[dim]}",
                    field=dim,
                )
    return sizes


def _in_blocks(nodes: Iterable[Node], given: Mapping[str, int]) -> dict[str, int]:
    """``given`` with the sizes of matrices in blocks, and of their blocks, from each other. The
    last block may be filled in part."""
    found = [(node, matrix) for node in nodes if (matrix := blocked_matrix(node)) is not None]
    each = [
        (node, dim, block, unit)
        for node, matrix in found
        for dim, block, unit in zip(
            node.type.dims, matrix.blocks, (matrix.rows, matrix.columns), strict=True
        )
    ]
    sizes = with_ends(
        given, [BlockedEnd(d, unit, given[b] * unit) for _, d, b, unit in each if b in given]
    )
    for node, dim, block, unit in each:
        if dim not in sizes:
            continue
        count = -(-sizes[dim] // unit)
        whole = sizes.setdefault(block, count) * unit
        if not BlockedEnd(dim, unit, whole).allows(sizes[dim]):
            raise ConfigError(
                f"{node.name} has {sizes[block]} along {block!r}, blocks of {unit} {dim}, and "
                f"{dim!r} is {sizes[dim]}",
                hint=f"pass {count} blocks, the last one filled up",
                field=block,
            )
    for node, _ in found:
        assert node.at is not None
        for dim, count in node.at.fixed().items():
            if sizes.setdefault(dim, count) != count:
                raise ConfigError(
                    f"{node.name} has {sizes[dim]} along {dim!r}, of blocks with {count}",
                    hint=f"pass {count}",
                    field=dim,
                )
    return sizes
