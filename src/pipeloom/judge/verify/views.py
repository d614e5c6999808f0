"""How the elements of a value lie in storage: views, and copies from one place to another.

A ``View`` says, for each dimension of a value, along which axis of the storage it runs and by how
much its coordinates differ (value = storage + offset); axis -1 means that it has one coordinate
there, the offset itself. Axes are matched by the names of their dimensions, and where names differ
by their order, leaving out those of size one. Value and storage have as many elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.program.tiles import Box, overlap, volume

View = tuple[tuple[int, int], ...]


def size(span: tuple[int, int]) -> int:
    """Coordinates in a range."""
    return span[1] - span[0]


def view(dims: Sequence[str], box: Box, onto: Sequence[str], place: Box) -> View | None:
    """How ``box`` of a value with ``dims`` lies in ``place`` of storage with dimensions ``onto``.

    None if the two have different shapes.
    """
    if volume(box) == 1:
        return tuple((-1, start) for start, _ in box) if volume(place) == 1 else None
    if set(dims) <= set(onto):
        axes = [onto.index(dim) for dim in dims]
        rest = [place[a] for a in range(len(onto)) if a not in axes]
        fits = all(size(place[a]) == size(span) for a, span in zip(axes, box, strict=True))
        if fits and all(size(span) == 1 for span in rest):
            return tuple((a, span[0] - place[a][0]) for a, span in zip(axes, box, strict=True))
    wide = [axis for axis, span in enumerate(place) if size(span) > 1]
    found: list[tuple[int, int]] = []
    for span in box:
        if size(span) == 1:
            found.append((-1, span[0]))
            continue
        axis = wide.pop(0) if wide else -1
        if axis < 0 or size(place[axis]) != size(span):
            return None
        found.append((axis, span[0] - place[axis][0]))
    return None if wide else tuple(found)


def value_box(how: View, cell: Box) -> Box:
    """The part of a value that lies in ``cell`` of the storage."""
    return tuple(
        (offset, offset + 1) if axis < 0 else (cell[axis][0] + offset, cell[axis][1] + offset)
        for axis, offset in how
    )


def same_in(cell: Box, a: View, b: View) -> bool:
    """Whether two views say the same about every element of ``cell``."""
    if a == b:
        return True
    if len(a) != len(b) or value_box(a, cell) != value_box(b, cell):
        return False
    return all(
        p == q or all(axis < 0 or size(cell[axis]) == 1 for axis in (p, q))
        for (p, _), (q, _) in zip(a, b, strict=True)
    )


def storage_cell(how: View, part: Box, place: Box) -> Box:
    """Where in ``place`` the ``part`` of a value lies; along other axes all of ``place``."""
    cell = list(place)
    for (axis, offset), span in zip(how, part, strict=True):
        if axis >= 0:
            cell[axis] = (span[0] - offset, span[1] - offset)
    return tuple(cell)


def behind(how: View, cell: Box, move: View, source: Box) -> tuple[View, Box] | None:
    """Through a copy: view and cell in the source of what ``how`` says of ``cell`` in the target.

    ``move`` is the view of the source (as the value) in the target. None if one element of the
    source would have to be several of the value.
    """
    back = {axis: (at, offset) for at, (axis, offset) in enumerate(move) if axis >= 0}
    found: list[tuple[int, int]] = []
    for axis, offset in how:
        if axis >= 0 and axis in back:
            at, moved = back[axis]
            found.append((at, offset - moved))
        elif axis >= 0:
            if size(cell[axis]) > 1:
                return None
            found.append((-1, cell[axis][0] + offset))
        else:
            found.append((-1, offset))
    place = tuple(
        span if axis < 0 else (cell[axis][0] + offset, cell[axis][1] + offset)
        for (axis, offset), span in zip(move, source, strict=True)
    )
    return tuple(found), place


def cells(box: Box, boxes: Sequence[Box]) -> list[Box]:
    """``box`` cut so that each of ``boxes`` covers a piece wholly or not at all."""
    pieces = [box]
    for other in boxes:
        common = overlap(box, other)
        if common is None or common == box:
            continue
        for axis, (start, stop) in enumerate(common):
            for at in (start, stop):
                if not any(p[axis][0] < at < p[axis][1] for p in pieces):
                    continue
                cut = []
                for piece in pieces:
                    low, high = piece[axis]
                    if low < at < high:
                        cut.append((*piece[:axis], (low, at), *piece[axis + 1 :]))
                        cut.append((*piece[:axis], (at, high), *piece[axis + 1 :]))
                    else:
                        cut.append(piece)
                pieces = cut
    return pieces
