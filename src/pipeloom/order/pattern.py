"""One way to weave a loop: the choices that a search makes."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.order.roles import Loading

WHOLE = 100
"""Percent."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way to weave; every field is a choice of the search.

    ``groups`` of waves, of which ``loading`` says who loads. With ``cluster`` they take turns at
    the matrix unit, so many products at a time; with ``stagger`` each is a barrier behind the one
    before it. ``priority`` lets who is next at the matrix unit go first.
    ``order`` nests the products, outermost first. ``margin`` is added to the LDS latency, ``lead``
    is by how much more reads come early, both in cycles; ``pace`` stretches the time between loads,
    in percent. ``deep`` LDS tiles rotate through one copy more than they need. ``room`` is for how
    many cycles of other instructions there is between two products, where vectors are computed,
    ``quiet`` how many are kept free of them ahead of a barrier, product by product; where groups
    take turns, behind each product.
    ``early`` is by how many iterations more operands that vector ops make may be ahead of their
    products: each costs their registers once more.
    ``lag`` is by how many iterations the last product follows the first at the least, where vectors
    are computed between them: the more, the less one waits for another, and the more registers.
    ``beside`` is how many workgroups the times expect on a compute unit: each has the less of the
    memory, so that its loads need no more copies.
    ``span`` is the part of an iteration that reads take, in percent.
    ``exact`` leaves the times to the modulo solver (``exact_weave``).
    """

    groups: int = 1
    order: tuple[str, ...] = ("depth", "rows", "columns")
    cluster: int = 0
    barriers: int = 1
    margin: int = 16
    lead: int = 0
    pace: int = 100
    deep: int = 0
    room: int = 0
    quiet: tuple[int, ...] = ()
    early: int = 0
    beside: int = 1
    lag: int = 0
    span: int = WHOLE
    exact: bool = False
    loading: Loading = Loading.IN_TURN
    stagger: bool = False
    priority: bool = False
