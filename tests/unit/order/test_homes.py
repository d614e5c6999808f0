"""Who overwrites whom."""

from __future__ import annotations

from pipeloom.declare import Loop, exp2, maximum
from pipeloom.declare.kernels import attention, gemm
from pipeloom.order.homes import Home, find_homes
from tests.unit.order import loops


def homes(loop: Loop) -> dict[str, Home]:
    return find_homes(loop.meaning, loop.ops)


def test_a_sum_is_updated_in_place() -> None:
    assert homes(gemm())["C.next"] == Home(("C.next",), "C", whole=True)


def test_attention_rescales_in_place() -> None:
    """Also its maximum, because the factor comes before: nothing may overwrite what both read."""
    found = homes(attention())
    assert found["O.next"] == Home(("O.next", "O.next.2"), "O", whole=True)
    assert found["m.next"] == Home(("m.next",), "m", whole=True)
    assert "best" not in found["max"].members


def test_two_maxima_are_kept_where_one_is_compared_with_the_other() -> None:
    loop = Loop("growth", over="k")
    x = loop.stream("X", "f32", k=1, n=256)
    top, total = loop.carry("top", n=256), loop.carry("total", n=256)
    new = top.becomes(maximum(top, x.max("k")))
    total += top - new
    loop.store("out", total)
    found = homes(loop)["top.next"]
    assert found == Home(("top.next",), "top", whole=False)
    assert found.rotates


def test_element_wise_ops_overwrite_what_nobody_else_needs() -> None:
    found = homes(attention())
    assert found["P"].members == ("S", "keep", "fma", "P")
    assert found["convert"].members == ("convert",), "another element type"


def test_a_value_needed_later_stays() -> None:
    loop = Loop("kept", over="k")
    x = loop.stream("X", "f32", k=1, n=256)
    y = (x * 2.0).named("y")
    z = exp2(y).named("z")
    total = loop.carry("total", n=256)
    total += (y * z).sum("k")
    loop.store("out", total)
    found = homes(loop)
    assert found["z"].members == ("z",), "y is multiplied with z, so z may not overwrite it"
    assert found["mul"].members[0] == "y"


def test_carries_that_swap_do_not_share() -> None:
    found = homes(loops.two_carries())
    assert [found[f"{name}.held"].carry for name in "ab"] == ["a", "b"]
    assert [found[f"{name}.held"].whole for name in "ab"] == [True, False]


def test_a_skipped_update_is_in_place() -> None:
    assert homes(loops.lazy_maximum())["top.next"].whole
