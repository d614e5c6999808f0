"""Everything public is explained, and the site's reference has a place for it."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import pipeloom
from website import coverage
from website.names import public_names, records
from website.reference import reference_pages, topic_of


def test_every_class_field_member_function_and_parameter_is_explained() -> None:
    assert coverage.unexplained() == []


class Silent(enum.Enum):
    SAID = 1
    """Explained."""
    UNSAID = 2


@dataclass(frozen=True)
class Half:
    """Half explained."""

    said: int
    """Explained."""
    unsaid: int

    def told(self, one: int, other: int, *rest: int) -> Iterator[int]:
        """Told in part.

        Args:
            one: Explained.
            *rest: Explained.
        """
        yield from (one, other, *rest)

    @property
    def silent(self) -> int:
        return self.said


class Made:
    """Made by hand."""

    def __init__(self, part: int) -> None:
        self.part = part


@dataclass(frozen=True)
class Bare:
    """Explained."""


Bare.__doc__ = "Bare() -> None"


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (Silent, ["Silent", "Silent.UNSAID"]),
        (Half, ["Half.unsaid", "Half.told(other)", "Half.silent"]),
        (Made, ["Made(part)"]),
        (Bare, ["Bare"]),
    ],
)
def test_what_is_not_explained_is_found(kind: type, found: list[str]) -> None:
    missing = [path.removeprefix(f"{__name__}.") for path in coverage._of_class(kind)]
    assert sorted(missing) == sorted(found)


def test_every_public_name_has_one_place() -> None:
    lines = [line for page in reference_pages().values() for line in page.splitlines()]
    places = [line.removeprefix("::: ") for line in lines if line.startswith("::: ")]
    assert len(set(places)) == len(places)
    assert {name.path for name in public_names()} <= set(places)
    assert {f"{kind.__module__}.{kind.__qualname__}" for kind in records()} <= set(places)
    anchors = [line for line in lines if line.startswith("[](){#pipeloom.")]
    assert sorted(anchors) == sorted(f"[](){{#pipeloom.{name}}}" for name in pipeloom.__all__)


def test_a_home_without_a_topic_is_refused() -> None:
    assert topic_of("judge.verify.findings").slug == "results"
    assert topic_of("judge.check.verdict").slug == "checking"
    with pytest.raises(LookupError, match="nowhere"):
        topic_of("nowhere.at_all")
