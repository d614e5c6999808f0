"""Where sums of products lie, and how they start."""

import pytest

from pipeloom.machine.chips import target_for
from pipeloom.write.faults import RegisterLimitError
from pipeloom.write.isa import Bank
from pipeloom.write.lower.context import Starts
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.liveness import ControlFlow

GFX950 = target_for("gfx950")
POINTS = ControlFlow((0,), ((1,),), (None, None), ((1,), ()), ((), (0,)))


def frame_with(others: int, *sums: int) -> Frame:
    frame = Frame(POINTS, GFX950, waves=4)
    frame.always("others", Bank.VECTOR, others)
    for number, count in enumerate(sums):
        name = f"C{number} #0"
        frame.tile(name, Bank.VECTOR, count, either=True)
        frame.touch(name, writes=True)
        frame.point = 1
        frame.touch(name)
        frame.point = 0
    return frame


def test_sums_need_no_accumulation_registers_where_vector_registers_do() -> None:
    used = frame_with(100, 64, 64).place(8).used
    assert (used[Bank.VECTOR], used[Bank.ACCUMULATOR]) == (228, 0)


def test_the_first_sums_get_what_vector_registers_are_left() -> None:
    frame = frame_with(116, 64, 64, 64, 64)
    used = frame.place(8).used
    assert (used[Bank.VECTOR], used[Bank.ACCUMULATOR]) == (244, 128)
    assert [frame[f"C{n} #0"].bank for n in range(4)] == 2 * [Bank.VECTOR] + 2 * [Bank.ACCUMULATOR]


def test_one_sum_may_lie_in_both_files() -> None:
    frame = frame_with(100, 264)
    used = frame.place(8).used
    assert (used[Bank.VECTOR], used[Bank.ACCUMULATOR]) == (116, 248)
    whole = frame["C0 #0"]
    assert whole.count == 264
    places = [whole.part(i, 4) for i in range(0, 264, 4)]
    assert len({(p.bank, p.index) for p in places}) == 66
    assert [p.bank for p in places].count(Bank.VECTOR) == 4


def test_more_sums_than_both_files_hold() -> None:
    with pytest.raises(RegisterLimitError, match="vector"):
        frame_with(200, 320).place(8)


def test_the_first_product_starts_a_sum() -> None:
    starts = Starts()
    starts.begin("C", 8, zero=True)
    assert starts.take("C", 0, 4)
    assert not starts.take("C", 0, 4)  # the second adds
    starts.close_all()
    assert not starts.take("C", 4, 4)  # a loop's first product may be its hundredth
    assert starts.needed("C") == [4, 5, 6, 7]


@pytest.mark.parametrize(("others", "moved"), [(150, set()), (200, {"K"}), (250, {"K", "V"})])
def test_operands_leave_vector_registers_that_do_not_suffice(others: int, moved: set[str]) -> None:
    """The largest first, and no more than must."""
    frame = Frame(POINTS, GFX950, waves=4)
    frame.always("others", Bank.VECTOR, others)
    for name, count in (("V", 32), ("K", 64)):
        frame.tile(name, Bank.VECTOR, count, movable=True)
        frame.touch(name, writes=True)
        frame.point = 1
        frame.touch(name)
        frame.point = 0
    frame.place(8)
    assert {name for name in ("K", "V") if frame[name].bank is Bank.ACCUMULATOR} == moved


def test_operands_that_fit_nowhere_are_refused() -> None:
    frame = Frame(POINTS, GFX950, waves=4)
    frame.always("others", Bank.VECTOR, 250)
    frame.tile("K", Bank.VECTOR, 300, movable=True)
    frame.touch("K", writes=True)
    frame.point = 1
    frame.touch("K")
    with pytest.raises(RegisterLimitError):
        frame.place(8)


@pytest.mark.parametrize("zero", [True, False])
def test_what_is_read_or_starts_elsewhere_is_written_before(zero: bool) -> None:
    starts = Starts()
    starts.begin("C", 4, zero=zero)
    starts.close(["C"])
    assert not starts.take("C", 0, 4)
    assert starts.needed("C") == [0, 1, 2, 3]


@pytest.mark.parametrize(("others", "fits"), [(60, True), (90, False)])
def test_spare_scalars_are_left_out_where_they_do_not_fit(others: int, fits: bool) -> None:
    frame = Frame(POINTS, GFX950, waves=4)
    frame.scalar("others", others)
    frame.spare("more", 16)
    frame.place(8)
    assert ("more" in frame, "others" in frame) == (fits, True)
