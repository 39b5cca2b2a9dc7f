"""K against a slow model of it, and however its measurements are cut."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline.slack import BUCKETS, Slack

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)

Updates = list[tuple[int, list[int]]]
"""The clock at each update, and the delays measured there."""


class Model:
    """K one update at a time, from the list of all delays measured.

    The window is a row of eight spans of stream time. K is worked out anew when a delay exceeds
    all in the window and when the clock enters a new span. Measurements leave with their span
    when it has left the window, except the newest ones that there are.
    """

    def __init__(self, window: int, margin: float, start: int = 0) -> None:
        self.span = max(1, math.ceil(window / BUCKETS))
        self.margin, self.k = margin, start
        self.start: tuple[int, int] | None = None
        self.initial = start
        self.measured: list[tuple[int, int]] = []
        self.now: int | None = None

    def peak(self) -> int:
        start = [self.initial] if not self.measured or self.start is not None else []
        return max([0, *start, *(delay for _, delay in self.measured)])

    def update(self, clk: int, delays: list[int]) -> int:
        span = clk // self.span
        if self.now is not None and span > self.now:
            newest = max((when for when, _ in self.measured), default=span)
            kept_from = min(span - BUCKETS + 1, newest)
            self.measured = [m for m in self.measured if m[0] >= kept_from]
            if self.start is not None and self.start[0] < kept_from:
                self.start = None
            self.k = self.estimate()
        self.now = span
        if delays:
            if not self.measured and self.start is None:
                self.start = (span, self.initial)
            before = self.peak()
            self.measured += [(span, delay) for delay in delays]
            if max(delays) > before:
                self.k = self.estimate()
        return self.k

    def estimate(self) -> int:
        known = [Fraction(max(delay, 0)) for _, delay in self.measured]
        if not known:
            return self.peak()
        mean = sum(known) / len(known)
        variance = sum((delay - mean) ** 2 for delay in known) / len(known)
        return self.peak() + math.ceil(self.margin * math.sqrt(variance) - 1e-9)


def observe(slack: Slack, updates: Updates) -> list[int]:
    """K after each update, when they are given together."""
    clk = np.array([clk for clk, _ in updates], dtype=np.int64)
    at = [i for i, (_, delays) in enumerate(updates) for _ in delays]
    delays = [delay for _, delays in updates for delay in delays]
    k = slack.observe(clk, np.array(at, dtype=np.int64), np.array(delays, dtype=np.int64))
    return np.broadcast_to(k, len(updates)).tolist()


@st.composite
def updates(draw: st.DrawFn) -> Updates:
    clk = draw(st.integers(-200, 200))
    made = []
    for _ in range(draw(st.integers(1, 30))):
        clk += draw(st.sampled_from([0, 0, 1, 3, 10, 60, 300]))
        made.append((clk, draw(st.lists(st.integers(-5, 60), max_size=3))))
    return made


settings_of_k = st.tuples(
    st.sampled_from([1, 5, 40, 80, 200]), st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.integers(0, 50)
)


@SETTINGS
@given(updates(), settings_of_k)
def test_k_is_the_windowed_maximum_plus_the_margin(
    made: Updates, chosen: tuple[int, float, int]
) -> None:
    window, margin, start = chosen
    model = Model(window, margin, start)
    expected = [model.update(clk, delays) for clk, delays in made]
    assert observe(Slack(window, margin, start=start), made) == expected


@SETTINGS
@given(updates(), settings_of_k, st.data())
def test_k_does_not_depend_on_how_the_updates_are_cut(
    made: Updates, chosen: tuple[int, float, int], data: st.DataObject
) -> None:
    window, margin, start = chosen
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(made)), max_size=5))), len(made)]
    pieces = Slack(window, margin, start=start)
    k = [value for begin, end in pairwise(cuts) for value in observe(pieces, made[begin:end])]
    whole = Slack(window, margin, start=start)
    assert k == observe(whole, made)
    assert pieces.k == whole.k


def test_k_begins_at_its_start_value_and_grows_with_the_event_that_exceeds_it() -> None:
    slack = Slack(80, 0.0, start=20)
    assert slack.k == 20
    assert observe(slack, [(0, [5]), (1, [20]), (2, [21]), (3, [4])]) == [20, 20, 21, 21]


def test_a_start_value_that_was_too_large_is_forgotten_after_the_window() -> None:
    slack = Slack(80, 0.0, start=500)
    k = observe(slack, [(clk, [3]) for clk in range(0, 200, 5)])
    assert k[:16] == [500] * 16
    assert k[16:] == [3] * 24


def test_k_shrinks_when_the_window_has_moved_past_the_disorder() -> None:
    slack = Slack(80, 0.0)
    k = observe(slack, [(0, [50]), *((clk, [2]) for clk in range(10, 100, 10))])
    assert k == [50] * 8 + [2] * 2


def test_k_shrinks_no_earlier_than_seven_eighths_of_the_window_and_no_later_than_all_of_it() -> (
    None
):
    for measured_at in range(10):
        slack = Slack(80, 0.0)
        observe(slack, [(measured_at, [50])])
        for clk in range(measured_at + 1, 200):
            (k,) = observe(slack, [(clk, [2])])
            if k == 2:
                break
        assert 70 <= clk - measured_at <= 80


def test_k_stays_while_nothing_is_measured_however_long() -> None:
    slack = Slack(80, 0.0)
    assert observe(slack, [(0, [50]), (1000, []), (10**9, [])]) == [50, 50, 50]
    assert observe(slack, [(10**9 + 1, [1]), (10**9 + 20, [1])]) == [50, 1]


def test_a_start_value_stays_while_nothing_is_measured() -> None:
    slack = Slack(80, 0.0, start=30)
    assert observe(slack, [(0, []), (1000, []), (5000, [1])]) == [30, 30, 30]


def test_the_margin_is_so_many_deviations_of_the_delays() -> None:
    slack = Slack(80, 2.0)
    assert observe(slack, [(0, [10, 30])]) == [30 + 2 * 10]


def test_the_deviation_counts_delays_below_zero_as_none() -> None:
    slack = Slack(80, 1.0)
    assert observe(slack, [(0, [-1000, 20])]) == [20 + 10]


def test_events_ahead_of_the_clock_do_not_make_k_negative() -> None:
    slack = Slack(80, 0.0)
    assert observe(slack, [(0, [-5]), (100, [-5]), (200, [-5])]) == [0, 0, 0]


def test_a_fixed_k_never_moves() -> None:
    slack = Slack(80, 1.0, fixed=7)
    assert observe(slack, [(0, [50]), (1000, [60])]) == [7, 7]
    assert slack.k == 7


def test_no_updates_change_nothing() -> None:
    slack = Slack(80, 0.0, start=3)
    assert observe(slack, []) == []
    assert slack.k == 3


@pytest.mark.parametrize("window", [80, 81, 87, 88])
def test_a_window_that_is_no_multiple_of_the_buckets_is_rounded_up(window: int) -> None:
    slack = Slack(window, 0.0)
    k = observe(slack, [(0, [50]), *((clk, [1]) for clk in range(1, 200))])
    assert window <= k.index(1) < window + BUCKETS
