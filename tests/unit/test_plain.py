"""Values to plain data and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pytest

from pipeloom import SpecError
from pipeloom.plain import from_plain, key_paths, to_plain


class Colour(IntEnum):
    RED = 0
    DARK_BLUE = 7


@dataclass(frozen=True)
class Inner:
    x: int
    y: int = 2


@dataclass(frozen=True)
class Outer:
    number: int
    ratio: float = 0.5
    name: str = "n"
    on: bool = False
    colour: Colour = Colour.RED
    inner: Inner = field(default_factory=lambda: Inner(1))
    maybe: Inner | None = None
    many: tuple[Inner, ...] = ()
    table: Mapping[str, int] = field(default_factory=dict)


FULL = Outer(
    1,
    2.5,
    "s",
    True,
    Colour.DARK_BLUE,
    Inner(3, 4),
    Inner(5),
    (Inner(6), Inner(7, 8)),
    {"a": 1},
)


def test_plain_form() -> None:
    assert to_plain(FULL) == {
        "number": 1,
        "ratio": 2.5,
        "name": "s",
        "on": True,
        "colour": 7,
        "inner": {"x": 3, "y": 4},
        "maybe": {"x": 5, "y": 2},
        "many": [{"x": 6, "y": 2}, {"x": 7, "y": 8}],
        "table": {"a": 1},
    }


@pytest.mark.parametrize("value", [FULL, Outer(0)])
def test_round_trip(value: Outer) -> None:
    assert from_plain(Outer, to_plain(value)) == value


def test_missing_keys_take_their_defaults() -> None:
    assert from_plain(Outer, {"number": 4}) == Outer(4)


def test_overlay_changes_single_keys_of_a_nested_default() -> None:
    data = {"number": 1, "inner": {"y": 9}}
    assert from_plain(Outer, data, overlay=True).inner == Inner(1, 9)
    with pytest.raises(SpecError, match="inner lacks x"):
        from_plain(Outer, data)


def test_a_field_without_a_nested_default_has_nothing_to_overlay() -> None:
    with pytest.raises(SpecError, match="maybe lacks x"):
        from_plain(Outer, {"number": 1, "maybe": {"y": 1}}, overlay=True)


@pytest.mark.parametrize("spelling", [7, "DARK_BLUE", "dark_blue", "Dark_Blue"])
def test_enums_by_code_or_name_in_any_case(spelling: object) -> None:
    assert from_plain(Outer, {"number": 1, "colour": spelling}).colour is Colour.DARK_BLUE


def test_an_integer_is_a_number_but_not_the_other_way_round() -> None:
    assert from_plain(Outer, {"number": 1, "ratio": 3}).ratio == 3.0
    with pytest.raises(SpecError, match=r"number is 3\.0, but must be an integer"):
        from_plain(Outer, {"number": 3.0})


@pytest.mark.parametrize(
    ("data", "message", "where"),
    [
        ([], r"Outer is \[\], but must be a mapping", None),
        ({"nubmer": 1}, "Outer has no key 'nubmer'", "nubmer"),
        ({1: 2}, "Outer has no key 1", "1"),
        ({}, "Outer lacks number", None),
        ({"number": True}, "number is True, but must be an integer", "number"),
        ({"number": None}, "number is None, but must be an integer", "number"),
        ({"number": 1, "on": 1}, "on is 1, but must be true or false", "on"),
        ({"number": 1, "name": 1}, "name is 1, but must be a string", "name"),
        ({"number": 1, "ratio": "x"}, "ratio is 'x', but must be a number", "ratio"),
        ({"number": 1, "ratio": True}, "ratio is True, but must be a number", "ratio"),
        ({"number": 1, "colour": 3}, "colour is 3, which is not a Colour", "colour"),
        ({"number": 1, "colour": "rde"}, "colour is 'rde', which is not a Colour", "colour"),
        ({"number": 1, "colour": True}, "colour is True, which is not", "colour"),
        ({"number": 1, "colour": 7.0}, "colour is 7.0, which is not", "colour"),
        ({"number": 1, "colour": [7]}, r"colour is \[7\], which is not", "colour"),
        ({"number": 1, "inner": {"z": 1}}, "inner has no key 'z'", "inner.z"),
        ({"number": 1, "many": 3}, "many is 3, but must be a list", "many"),
        ({"number": 1, "many": {"x": 1}}, "many is .* but must be a list", "many"),
        ({"number": 1, "many": [{"x": "q"}]}, r"many\[0\].x is 'q', but", "many[0].x"),
        ({"number": 1, "table": 3}, "table is 3, but must be a mapping", "table"),
        ({"number": 1, "table": {"a": "b"}}, "table.a is 'b', but", "table.a"),
        ({"number": 1, "inner": None}, "inner is None, but must be a mapping", "inner"),
    ],
)
def test_errors_name_the_key_and_hint(data: Any, message: str, where: str | None) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        from_plain(Outer, data)
    assert caught.value.field == where
    assert caught.value.hint


def test_the_nearest_key_is_suggested() -> None:
    with pytest.raises(SpecError) as caught:
        from_plain(Outer, {"numbr": 1})
    assert (caught.value.hint or "").startswith("did you mean 'number'?")


def test_a_field_with_no_plain_form_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd:
        z: complex

    with pytest.raises(SpecError, match="z cannot be read back"):
        _ = from_plain(_resolved(Odd), {"z": 1})


def _resolved(cls: type[Any]) -> type[Any]:
    """Annotations of a local class as types, since get_type_hints cannot see them by name."""
    cls.__annotations__ = {"z": complex}
    return cls


def test_key_paths() -> None:
    assert list(key_paths(Outer)) == [
        "number",
        "ratio",
        "name",
        "on",
        "colour",
        "inner.x",
        "inner.y",
        "maybe.x",
        "maybe.y",
        "many",
        "table.*",
    ]
