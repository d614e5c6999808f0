"""Which writes a read is meant to see, by what they may bring and what they claim."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pipeloom.judge.verify.blame import Blame
from pipeloom.judge.verify.deeds import all_deeds
from pipeloom.judge.verify.meant import Meant
from pipeloom.judge.verify.wants import Identity, Want
from pipeloom.program import Access, Box, Space
from tests.unit.judge.verify.programs import changed, producer_consumer

WANT = Want("input", "X", 3)
RIGHT, WRONG, OTHER = ("X", 3), ("X", 2), ("Y", 3)
CELL = ((0, 1),)


class Stated(Meant):
    """May bring, and claims, what is stated of (site, wave)."""

    def __init__(
        self,
        may: dict[tuple[str, int], set[Identity]],
        claims: dict[tuple[str, int], Identity] | None = None,
        *,
        alike: bool = False,
    ) -> None:
        self._stated, self._claims = may, claims or {}
        step, source = SimpleNamespace(is_copy=True), SimpleNamespace(space=Space.LDS)
        deed = SimpleNamespace(step=step, source=source, alike=alike)
        self._run: Any = SimpleNamespace(deed=lambda moment, wave: deed)

    def may(self, site: Any, waves: tuple[int, ...], cell: object) -> frozenset[Identity]:
        return frozenset().union(*(self._stated[site.moment, wave] for wave in waves))

    def claim(self, site: Any, wave: int) -> Identity:
        return self._claims.get((site.moment, wave), OTHER)


class Site(NamedTuple):
    moment: str


A, B = Site("a"), Site("b")


@pytest.mark.parametrize(
    ("may", "claims", "suspects"),
    [
        # The only copy is followed if it may bring several things, and not if it is surely wrong.
        ({("a", 0): {RIGHT}}, {}, []),
        ({("a", 0): {RIGHT, WRONG}}, {}, []),
        ({("a", 0): {OTHER, WRONG}}, {}, []),
        ({("a", 0): {WRONG}}, {}, [A]),
        # Beside one that may bring it, one that does not is none to follow.
        ({("a", 0): {RIGHT, WRONG}, ("b", 0): {OTHER, WRONG}}, {}, [B]),
        ({("a", 0): {RIGHT}, ("b", 0): {RIGHT, WRONG}}, {}, []),
        # Beside one that claims it, one that does not claim it is none.
        ({("a", 0): {RIGHT, WRONG}, ("b", 0): {RIGHT, WRONG}}, {("b", 0): RIGHT}, [A]),
    ],
)
def test_copies_that_are_not_meant_are_not_followed(
    may: dict[tuple[str, int], set[Identity]],
    claims: dict[tuple[str, int], Identity],
    suspects: Any,
) -> None:
    seen: Any = tuple((one, (0,)) for one in (A, B) if (one.moment, 0) in may)
    found = Stated(may, claims).suspects(seen, CELL, WANT, True)
    assert found is not None
    assert [one for one, _ in seen if (one, 0) in found] == suspects
    assert len(found) == len(suspects)


@pytest.mark.parametrize(("second", "found"), [({RIGHT}, set()), ({RIGHT, WRONG}, None)])
def test_several_waves_are_taken_apart_if_one_may_see_something_else(
    second: set[Identity], found: set[object] | None
) -> None:
    stated = Stated({("a", 0): {RIGHT}, ("a", 1): second})
    assert stated.suspects(((A, (0, 1)),), CELL, WANT, False) == found  # type: ignore[arg-type]


@pytest.mark.parametrize("alike", [False, True])
def test_writes_that_were_meant_are_those_of_the_waves_that_claim_it(alike: bool) -> None:
    """Waves 0 to 2 write; 2 is the one to blame. If all do the same, one speaks for all."""
    stated = Stated(
        {("a", wave): {RIGHT} for wave in range(3)},
        {("a", 0): RIGHT, ("a", 1): OTHER},
        alike=alike,
    )
    blame: Any = SimpleNamespace(
        _run=stated._run,
        _prover=SimpleNamespace(
            meant=stated, sight=SimpleNamespace(writes=lambda *_: [(A, (0, 1, 2))])
        ),
    )
    demand = SimpleNamespace(
        space=Space.LDS, key=("P", 0), want=WANT, wave=0, moment=SimpleNamespace(group=0)
    )
    wrong: Any = SimpleNamespace(demand=demand, cell=CELL, seen=[(SimpleNamespace(site=A), 2)])
    found: list[Any] = list(Blame._meant(blame, wrong))
    assert found == [(A, (0, 1) if alike else (0,))]


@pytest.mark.parametrize("boxes", [(), (((0, 1), (0, 8)),)], ids=["whole", "a box"])
def test_copies_out_of_memory_without_parts_of_their_own_are_alike(boxes: tuple[Box, ...]) -> None:
    target = Access("buffer", boxes, shared=True)
    made = changed(producer_consumer(), "loop", "fill", writes=(target,))
    alike = {
        deed.step.label: deed.alike
        for mine in all_deeds(made).values()
        for deed in mine.values()
        if deed.step.is_copy
    }
    assert alike == {"fill": True, "fetch": False, "store": False}


def test_what_is_missing_of_a_sum_is_what_is_not_left_out() -> None:
    part = ((0, 1),)
    assert Want("sum", "S", 3, ((1, ()),)).missing == "S of iteration 0, 2"
    assert Want("sum", "S", 2, ((0, ()), (1, (part,)))).missing == "S of iteration 1"
