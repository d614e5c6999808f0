"""Which step retires which op: worked examples, and a naive counter to compare with."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from pipeloom.judge.execute.unrolled import Outstanding


def test_a_wait_retires_whole_ops_in_issue_order() -> None:
    counter = Outstanding[str](63)
    counter.issue("first", 4)
    counter.issue("second", 4)
    assert counter.wait(8) == []
    assert counter.wait(5) == []
    assert counter.wait(4) == ["first"]
    assert counter.wait(1) == []
    assert counter.left() == ["second"]
    assert counter.wait(0) == ["second"]
    assert counter.left() == []


def test_a_looser_wait_later_gives_nothing_back() -> None:
    counter = Outstanding[str](63)
    counter.issue("first", 4)
    counter.wait(0)
    counter.issue("second", 4)
    assert counter.wait(4) == []
    assert counter.left() == ["second"]


def test_back_pressure_before_the_first_entry_and_before_the_last() -> None:
    counter = Outstanding[str](15, stalls=True)
    counter.issue("a", 1)
    counter.issue("b", 14)
    assert counter.issue("c", 1) == (["a"], [])
    assert counter.issue("d", 14) == ([], ["b"])
    assert counter.left() == ["c", "d"]


def test_an_op_larger_than_the_limit_stays_outstanding() -> None:
    counter = Outstanding[str](15, stalls=True)
    assert counter.issue("huge", 40) == ([], [])
    assert counter.left() == ["huge"]
    assert counter.wait(15) == []
    assert counter.wait(14) == []
    assert counter.wait(0) == ["huge"]


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("issue"), st.integers(1, 20)),
        st.tuples(st.just("wait"), st.integers(0, 30)),
    ),
    max_size=40,
)


@given(_STEPS, st.sampled_from([15, 63]))
def test_agrees_with_a_counter_of_single_entries(steps: list[tuple[str, int]], limit: int) -> None:
    """The naive counter holds one item per entry; an op is retired when its last entry left."""
    counter = Outstanding[int](limit, stalls=True)
    entries: deque[int] = deque()
    for number, (what, amount) in enumerate(steps):
        alive = list(dict.fromkeys(entries))
        before: list[int] = []
        if what == "wait":
            retired = counter.wait(amount)
            while amount < limit and len(entries) > amount:
                entries.popleft()
        else:
            before, after = counter.issue(number, amount)
            for at in range(amount):
                while len(entries) >= limit:
                    entries.popleft()
                if at == 0:
                    assert before == [op for op in alive if op not in entries]
                entries.append(number)
            retired = before + after
        assert retired == [op for op in alive if op not in entries]
        assert counter.left() == list(dict.fromkeys(entries))


def test_without_the_assumption_a_full_counter_retires_nothing() -> None:
    counter = Outstanding[str](15)
    for name in "abc":
        assert counter.issue(name, 14) == ([], [])
    assert counter.left() == ["a", "b", "c"]
    assert counter.wait(15) == []
    assert counter.wait(14) == ["a", "b"]
