"""Repeats and holes in sequence numbers, against a set of everything that came."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline.gaps import GAPS_MAX, Gaps

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)

Row = tuple[int, int]
"""A publisher's code and a number."""


def fresh(gaps: Gaps, rows: list[Row]) -> list[bool]:
    codes = np.array([code for code, _ in rows], dtype=np.int32)
    mask = gaps.fresh(codes, np.array([seq for _, seq in rows], dtype=np.int64))
    return [True] * len(rows) if mask is None else mask.tolist()


def expected(seen: set[Row], rows: list[Row]) -> list[bool]:
    mask = []
    for row in rows:
        mask.append(row not in seen)
        seen.add(row)
    return mask


chunks = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), min_size=1, max_size=12), max_size=8
)


@SETTINGS
@given(chunks)
def test_a_row_is_fresh_exactly_when_it_was_not_seen_before(made: list[list[Row]]) -> None:
    gaps, seen = Gaps(), set[Row]()
    for rows in made:
        assert fresh(gaps, rows) == expected(seen, rows)


@SETTINGS
@given(chunks)
def test_what_is_missing_are_the_numbers_below_the_highest_that_have_not_come(
    made: list[list[Row]],
) -> None:
    gaps = Gaps()
    for rows in made:
        fresh(gaps, rows)
    seen = {row for rows in made for row in rows}
    for code in range(3):
        numbers = {seq for owner, seq in seen if owner == code}
        assert gaps.missing(code) == max(numbers, default=0) - len(numbers)


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), min_size=1, max_size=30))
def test_one_call_or_one_for_each_row_is_the_same(rows: list[Row]) -> None:
    whole, single = Gaps(), Gaps()
    assert fresh(whole, rows) == [fresh(single, [row])[0] for row in rows]


@SETTINGS
@given(st.lists(st.integers(1, 5), min_size=1, max_size=10), st.lists(st.integers(0, 40)))
def test_a_permutation_with_repeats_loses_and_doubles_nothing(
    steps: list[int], repeats: list[int]
) -> None:
    """Holes of several sizes, then everything once more: all of it is known."""
    numbers = np.cumsum(steps).tolist()
    gaps = Gaps()
    assert all(fresh(gaps, [(0, seq) for seq in reversed(numbers)]))
    again = [numbers[i % len(numbers)] for i in repeats]
    if again:
        assert not any(fresh(gaps, [(0, seq) for seq in again]))
    filled = sorted(set(range(1, numbers[-1])) - set(numbers))
    if filled:
        assert all(fresh(gaps, [(0, seq) for seq in filled]))
    assert gaps.missing(0) == 0


def test_a_stream_without_holes_is_all_fresh_and_says_so_by_none() -> None:
    gaps = Gaps()
    codes = np.array([0, 1, 0, 1], dtype=np.int32)
    assert gaps.fresh(codes, np.array([1, 1, 2, 2])) is None
    assert gaps.fresh(codes, np.array([3, 3, 4, 4])) is None
    assert gaps.fresh(codes, np.array([3, 5, 4, 6])).tolist() == [False, True, False, True]


def test_publishers_do_not_share_their_numbers() -> None:
    gaps = Gaps()
    assert fresh(gaps, [(0, 1), (0, 2)]) == [True, True]
    assert fresh(gaps, [(5, 1), (5, 2)]) == [True, True]
    assert fresh(gaps, [(5, 1), (0, 1), (0, 3)]) == [False, False, True]


def test_the_first_of_two_equal_rows_in_one_call_is_the_fresh_one() -> None:
    assert fresh(Gaps(), [(0, 3), (0, 1), (0, 3), (0, 1)]) == [True, True, False, False]


def test_memory_stays_bounded_when_numbers_jump() -> None:
    gaps = Gaps()
    for seq in (1, 10**9, 10**15):
        assert fresh(gaps, [(0, seq)]) == [True]
        assert gaps.missing(0) <= GAPS_MAX


def test_a_hole_older_than_what_is_remembered_is_still_taken_for_new() -> None:
    gaps = Gaps()
    fresh(gaps, [(0, 1), (0, 10**9)])
    assert fresh(gaps, [(0, 2)]) == [True]


def test_numbers_may_begin_at_zero() -> None:
    assert fresh(Gaps(), [(0, 0), (0, 1), (0, 2)]) == [True, True, True]


@pytest.mark.parametrize("numbers", [[1, 2, 10**9], [10**6, 2 * 10**6, 3 * 10**6]])
def test_a_repeat_of_a_number_that_came_lately_is_known_after_a_jump(numbers: list[int]) -> None:
    gaps = Gaps()
    for seq in numbers:
        fresh(gaps, [(0, seq)])
    assert fresh(gaps, [(0, numbers[0])]) == [False]


def test_numbers_far_apart_that_come_together_are_known_afterwards() -> None:
    gaps = Gaps()
    rows = [(0, 1), (0, 10**6), (0, 2 * 10**6)]
    assert fresh(gaps, rows) == [True, True, True]
    assert fresh(gaps, rows) == [False, False, False]


def test_an_old_number_that_fills_a_forgotten_hole_is_new_once() -> None:
    gaps = Gaps()
    fresh(gaps, [(0, 1), (0, 10**9)])
    assert [fresh(gaps, [(0, 2)]) for _ in range(3)] == [[True], [False], [False]]


def test_numbers_far_apart_take_no_longer_than_a_moment() -> None:
    """As of a source that numbers its events by the clock: 8 ms for each is generous."""
    gaps, begin = Gaps(), time.process_time()
    for i in range(60):
        assert fresh(gaps, [(0, 10**6 * i + 1)]) == [True]
    assert time.process_time() - begin < 0.5
