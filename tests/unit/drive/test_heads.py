"""Query heads and key heads, by the dimensions that a kernel has."""

from __future__ import annotations

import pytest

from pipeloom.drive.heads import by_head
from pipeloom.errors import ConfigError

DIMS = ("batch", "heads", "group", "q")


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"q_heads": 32, "kv_heads": 8}, {"heads": 8, "group": 4}),
        ({"q_heads": 6}, {"heads": 6, "group": 1}),
        ({"kv_heads": 3}, {"heads": 3, "group": 1}),
        ({"heads": 8, "group": 4}, {"heads": 8, "group": 4}),
        ({"q": 5}, {"q": 5}),
    ],
)
def test_heads_as_people_count_them(given: dict[str, int], sizes: dict[str, int]) -> None:
    assert by_head(DIMS, given) == sizes
    assert by_head(DIMS, {**given, "batch": 2}) == {**sizes, "batch": 2}


def test_a_kernel_without_heads_is_left_alone() -> None:
    assert by_head(("m", "n"), {"q_heads": 2}) == {"q_heads": 2}


@pytest.mark.parametrize(
    "given",
    [{"q_heads": 8, "group": 2}, {"q_heads": 8, "kv_heads": 3}, {"q_heads": 0}, {"kv_heads": -1}],
)
def test_heads_that_do_not_fit(given: dict[str, int]) -> None:
    with pytest.raises(ConfigError) as error:
        by_head(DIMS, given)
    assert error.value.hint
