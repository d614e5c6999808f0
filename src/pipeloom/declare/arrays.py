"""What a declaration says of its arrays beyond tiles: batches, alignment, where tiles lie."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Self

from pipeloom.checks import nearest
from pipeloom.declare.values import DeclaredValues
from pipeloom.errors import GraphError
from pipeloom.program.address_maps import AddressMap, Digit, IndexForm, address_map
from pipeloom.program.nodes import Node


class DeclaredArrays(DeclaredValues):
    """The part of a ``Loop`` that is about arrays."""

    over: str

    def batch(self, *arrays: str, over: tuple[str, ...]) -> None:
        """Inputs and outputs have these dimensions too, before those of their tiles.

        Everything is done for each index of them; an input that lacks one is the same for all.

        Args:
            *arrays: Inputs and outputs by name.
            over: The dimensions, outermost first.
        """
        for name in arrays:
            self._nodes[name] = replace(self._array(name), batch=tuple(over))

    def align(self, *arrays: str, to: int) -> None:
        """Inputs begin at, and have rows of, whole multiples of so many bytes; 16 unless said.

        Args:
            *arrays: Inputs by name.
            to: 4 or 16, and loads straight to LDS are no wider; or 1 or 2, down to the size of an
                element, and the array is loaded to registers element by element.
        """
        for name in arrays:
            self._nodes[name] = replace(self._array(name), align=to)

    def place(
        self,
        array: str,
        at: AddressMap | None = None,
        /,
        **dims: Sequence[Digit] | Digit | IndexForm,
    ) -> None:
        """A stream's tile lies in an array that has other dimensions; outside it reads as zero.

        A tuple of digits is a dimension of the tile, as a number of mixed radix, the last digit
        fastest. Anything else is a dimension of the array, outermost first, with the index along
        it: ``loop.place("X", m=(b, p), k=(r, c), images=b, h=2 * p + r - 1, channels=c)``.

        Args:
            array: The stream's name.
            at: All of that as one value, instead.
            **dims: Tuples of digits, and indices.
        """
        self._nodes[array] = replace(self._array(array), at=at or address_map(dims))

    def _array(self, name: str) -> Node:
        if name not in self._nodes:
            raise GraphError(
                f"loop {self.name!r} has no array {name!r}",
                hint=nearest(name, self._nodes),
                field=name,
            )
        return self._nodes[name]

    @property
    def fixed_tiles(self) -> int | None:
        """How many iterations there are where the place of a stream says it, else None."""
        found = [
            -(-node.at.sizes({})[self.over] // node.type.sizes[self.over])
            for node in self._nodes.values()
            if node.at is not None and not any(d.along for d in node.at.digits(self.over))
        ]
        return max(found, default=None)

    def unplaced(self) -> Self | None:
        """The same with all arrays as matrices, whose loop is the same; None if they are."""
        if all(node.at is None for node in self._nodes.values()):
            return None
        other = copy(self)
        other._nodes = {name: replace(node, at=None) for name, node in self._nodes.items()}
        return other
