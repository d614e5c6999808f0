"""Which part of which problem a workgroup takes: what a launch adds around a program.

A program computes one block of one problem, for sizes that are whole trips. ``Placing`` says what
the kernel makes of a launch beyond that; none of it is in the program, and no step changes:

    ragged      any size along the loop: arrays are taken to begin with zeros, so many that the rest
                is whole trips. Only the first loads look where the array begins
    batched     workgroup z is a problem of its own, ``bs_A`` elements behind the one before
    unless      an array is not read where a scalar is 0: (("C", "beta"),)
    slices      z also cuts the loop's dimension, each slice summed by itself for a second kernel
    order       which block of C a workgroup takes, so that those of one XCD are neighbours

A workgroup outside of the outputs ends at once, whatever the launch.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.checks import check_int
from pipeloom.machine.dispatch import TileOrder
from pipeloom.program import Meaning
from pipeloom.write.faults import EmitError


@dataclass(frozen=True, slots=True)
class Placing:
    """How a launch places a program; nothing of it by default."""

    ragged: bool = False
    batched: bool = False
    slices: int = 1
    unless: tuple[tuple[str, str], ...] = ()
    order: TileOrder | None = None

    def __post_init__(self) -> None:
        check_int("placing", "slices", self.slices, 1)

    @property
    def uses_z(self) -> bool:
        """Whether the third number of a workgroup says more than its block."""
        return self.batched or self.slices > 1

    def past_ends(self, meaning: Meaning) -> bool:
        """Whether tiles may reach past the ends of arrays; zeros before these take their place."""
        return meaning.ragged and not self.ragged

    def check(self, meaning: Meaning) -> None:
        """Raise ``EmitError`` for a loop that cannot be placed like this."""
        if (self.ragged or self.slices > 1) and not meaning.adds_up:
            raise EmitError(
                f"loop {meaning.name!r} does not just add up what it streams, so zeros before the "
                "first element would count",
                hint="ragged sizes and slices are for sums of products of streams",
                field="ragged",
            )
        if self != ONE_PROBLEM and any(node.at is not None for node in meaning.nodes):
            raise EmitError(
                f"loop {meaning.name!r} has a stream with a place, which says itself what is read",
                hint="emit it for one problem of whole trips",
                field="placing",
            )
        if self.uses_z and meaning.batch:
            raise EmitError(
                f"loop {meaning.name!r} has batch dimensions of its own",
                hint="leave batches to it, and slices out",
                field="batched",
            )
        if self.order is not None and (len(meaning.grid) != 2 or meaning.until or meaning.batch):
            raise EmitError(
                f"the outputs of {meaning.name!r} are cut along {', '.join(meaning.grid)}, which "
                "is no grid of rows and columns",
                hint="leave the order of blocks out",
                field="order",
            )
        if self.uses_z and len(meaning.grid) > 2:
            raise EmitError(
                f"the outputs of {meaning.name!r} are cut along {', '.join(meaning.grid)}, and no "
                "number of a workgroup is left for batches or slices",
                hint="declare two dimensions, or launch the batches one by one",
                field="batched",
            )


ONE_PROBLEM = Placing()
"""Whole trips of one problem."""
