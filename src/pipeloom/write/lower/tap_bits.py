"""Which taps of a row lie outside of its array, as the bits of one register.

A field has a bit for every tap that its digits count, and one for what is past the last, the first
tap highest. Shifted left by the number of a tap, the register's highest bit says whether that tap
is outside; with several fields, one shift for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from pipeloom.program.address_maps import IndexedDim
from pipeloom.program.index_forms import Digit

HIGHEST = 31
ALL_BITS = 0xFFFFFFFF
Field = tuple[tuple[str, int], ...]
"""Digits and their counts, the last one fastest."""


@dataclass(frozen=True, slots=True)
class TapBits:
    """The fields of a stream's word, and which digits of the loop there are but the fastest."""

    fields: tuple[Field, ...]
    outer: tuple[Digit, ...]

    @property
    def starts(self) -> list[int]:
        """The first bit of each field, counted from the highest."""
        counts = [taps(field) + 1 for field in self.fields]
        return [sum(counts[:at]) for at in range(len(counts))]

    @property
    def lasts(self) -> list[int]:
        """The bit of each field that stands for what is past its last tap."""
        return [s + taps(f) for s, f in zip(self.starts, self.fields, strict=True)]

    @property
    def past(self) -> int:
        """Those bits."""
        return sum(1 << HIGHEST - last for last in self.lasts)

    @property
    def flat(self) -> bool:
        """Whether one field has all digits but the fastest, and so is their number."""
        names = [[name for name, _ in field] for field in self.fields]
        return names == [[digit.name for digit in self.outer]]

    def of(self, dim: IndexedDim) -> list[tuple[int, int]]:
        """What the loop's digits add to an index, with the bits of the taps that do."""
        factors, found = dict(dim.index.factors), dict[int, int]()
        for field, start in zip(self.fields, self.starts, strict=True):
            if not any(name in factors for name, _ in field):
                continue
            for at, digits in enumerate(product(*(range(count) for _, count in field))):
                named = zip((name for name, _ in field), digits, strict=True)
                reach = sum(factors.get(name, 0) * value for name, value in named)
                found[reach] = found.get(reach, 0) | 1 << HIGHEST - start - at
        return sorted(found.items()) or [(0, ALL_BITS)]

    def weights(self, digit: Digit) -> list[tuple[int, int]]:
        """The fields whose shift a digit adds to, and how much each of it adds."""
        found = []
        for at, field in enumerate(() if self.flat else self.fields):
            names = [name for name, _ in field]
            if digit.name in names:
                found.append((at, taps(field[names.index(digit.name) + 1 :])))
        return found


def taps(field: Field) -> int:
    """How many a field counts."""
    return prod(count for _, count in field)
