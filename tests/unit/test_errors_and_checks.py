"""Messages read alike: the field, the value, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from pipeloom import (
    ConfigError,
    GraphError,
    InternalError,
    OpRole,
    OrderError,
    ScheduleError,
    SpecError,
    StructureError,
)
from pipeloom.checks import (
    check_bool,
    check_fields,
    check_instance,
    check_int,
    check_known,
    nearest,
)


def test_a_message_is_followed_by_its_hint() -> None:
    error = ScheduleError("what is wrong", hint="what to do", field="a.b")
    assert str(error) == "what is wrong\n\nhint: what to do"
    assert (error.message, error.hint, error.field) == ("what is wrong", "what to do", "a.b")
    assert str(ScheduleError("alone")) == "alone"


def test_kinds() -> None:
    for kind in (ConfigError, SpecError, GraphError, OrderError, StructureError):
        assert issubclass(kind, ScheduleError)
    assert not issubclass(InternalError, ScheduleError)


@pytest.mark.parametrize("value", [1, 5, 10, OpRole.COMPUTE])
def test_check_int_accepts_the_range(value: int) -> None:
    check_int("T", "f", value, 1, 10)


@pytest.mark.parametrize(
    ("value", "low", "high", "message"),
    [
        (0, 1, None, r"T\.f is 0, but must be at least 1"),
        (11, 1, 10, r"T\.f is 11, but must be between 1 and 10"),
        (True, 0, None, r"T\.f is True, but must be an integer"),
        (1.0, 0, None, r"T\.f is 1\.0, but must be an integer"),
        ("1", 0, None, r"T\.f is '1', but must be an integer"),
        (None, 0, None, r"T\.f is None, but must be an integer"),
    ],
)
def test_check_int_names_field_value_and_remedy(
    value: object, low: int, high: int | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_int("T", "f", value, low, high)
    assert caught.value.field == "T.f"
    assert caught.value.hint


def test_check_int_takes_a_hint_of_its_own() -> None:
    with pytest.raises(ConfigError) as caught:
        check_int("T", "f", -1, 0, hint="count from zero")
    assert caught.value.hint == "count from zero"


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_check_bool_takes_no_substitutes(value: object) -> None:
    with pytest.raises(ConfigError, match=r"T\.f is .*, but must be True or False"):
        check_bool("T", "f", value)
    check_bool("T", "f", True)


def test_check_instance_lists_the_members_of_an_enum() -> None:
    with pytest.raises(ConfigError, match=r"T\.f is 3, but must be of type OpRole") as caught:
        check_instance("T", "f", 3, OpRole)
    assert "OpRole.COMPUTE" in (caught.value.hint or "")
    check_instance("T", "f", OpRole.COMPUTE, OpRole)


def test_nearest_comes_first_and_all_are_listed() -> None:
    assert nearest("alpah", ["alpha", "beta"]) == "did you mean 'alpha'? Valid: alpha, beta"
    assert nearest("zzz", ["alpha", "beta"]) == "valid: alpha, beta"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    check_known("alpha", ["alpha", "beta"], "never said", "f")
    for name in ("alpah", 1):
        with pytest.raises(SpecError) as caught:
            check_known(name, ["alpha", "beta"], "no such name", "f", SpecError)
        assert (caught.value.message, caught.value.field) == ("no such name", "f")
        assert caught.value.hint == nearest(str(name), ["alpha", "beta"])


@dataclass
class Declared:
    count: int
    most: int
    said: bool
    role: OpRole
    free: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": 0}, "Declared.count is 0, but must be at least 1"),
        ({"most": 4}, "Declared.most is 4, but must be between 0 and 3"),
        ({"said": 1}, "Declared.said is 1, but must be True or False"),
        ({"role": 3}, "Declared.role is 3, but must be of type OpRole"),
    ],
)
def test_fields_are_what_their_annotations_say(changed: dict[str, Any], message: str) -> None:
    right = Declared(1, 3, True, OpRole.COMPUTE, (-1,))
    check_fields(right, 1, most=(0, 3))
    with pytest.raises(ConfigError, match=message) as caught:
        check_fields(replace(right, **changed), 1, most=(0, 3, "three at the most"))
    assert ("three" in (caught.value.hint or "")) == ("most" in changed)
