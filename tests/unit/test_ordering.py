"""The lines of the ordering unit: the same however a stretch of updates is cut into steps."""

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline import Detector, Emit, Event, Hierarchy, KSlack, Punctuated, Unordered
from slackline.events import TS_MAX, TS_MIN
from slackline.messages import Add
from slackline.ordering import OrderingUnit, View
from slackline.step import Along, Arrived, Step
from slackline.tape import Rows, Tape

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)
SECOND, JUMP_MAX = 1000, 10**9

POLICIES = [
    KSlack(),
    KSlack(margin=1.0, window=100),
    KSlack(k=7),
    KSlack(repair=0),
    KSlack(repair=3, horizon_min=20, window=80),
    Punctuated(),
    Punctuated(horizon_min=30),
]


class Ear(Detector):
    def __init__(self, listens: tuple[str, ...], publishes: tuple[str, ...] = ()) -> None:
        self.listens, self.publishes = listens, publishes

    def on_event(self, event: Event, emit: Emit) -> None: ...


def unit_of(ordering: Any, listens: tuple[str, ...] = ("A", "L"), start_k: int = 0) -> OrderingUnit:
    """The unit of a detector that listens to source A and to L, which detector low publishes."""
    hierarchy = Hierarchy("h").add("low", Ear(("A",), ("L",))).add("d", Ear(listens))
    return OrderingUnit(hierarchy["d"], ordering, SECOND, hierarchy.types, JUMP_MAX, start_k)


class Stretch:
    """Clock updates in a row, with what was measured, promised and announced at each."""

    def __init__(self, rng: random.Random, length: int) -> None:
        clk = np.cumsum(rng.choices([0, 1, 5, 40, 300], k=length)) + rng.randint(-100, 100)
        self.clk = clk.astype(np.int64)
        self.measured = [
            (i, rng.choice([0, 0, rng.randint(-3, 90)])) for i in range(length)
            for _ in range(rng.randint(0, 2))
        ]  # fmt: skip
        self.adds = [(i, int(clk[i]) - rng.randint(0, 120), rng.randint(0, 20))
                     for i in range(length) if rng.random() < 0.3]  # fmt: skip
        slow = np.maximum.accumulate(clk - np.array(rng.choices([0, 50, 2000], k=length)))
        self.promised = np.concatenate([[TS_MIN], slow]).astype(np.int64)
        self.announced = np.array([0, *rng.choices([0, 10, 100], k=length)], dtype=np.int64)

    def part(self, begin: int, end: int) -> tuple[Step, dict[str, Arrived], list[Any], Any, Any]:
        before = int(self.clk[begin - 1]) if begin else TS_MIN
        step = Step(begin, before, self.clk[begin:end])
        mine = [(i - begin, delay) for i, delay in self.measured if begin <= i < end]
        messages = [
            Add(Event("L", ts, {}, "low", i + 1), 0, i + 1, 0, lead)
            for i, ts, lead in self.adds
            if begin <= i < end
        ]
        key = ("low", "L")
        promises = {key: Along(self.promised[begin : end + 1], int(self.promised[end]))}
        announced = {key: Along(self.announced[begin : end + 1], int(self.announced[end]))}
        return step, {"A": arrived(mine)} if mine else {}, messages, promises, announced


def arrived(measured: list[tuple[int, int]]) -> Arrived:
    nothing = np.zeros(0, dtype=np.int64)
    rows = Rows(Tape("A"), nothing, nothing.astype(np.int32), nothing, nothing, None, [])
    at = np.array([at for at, _ in measured], dtype=np.int64)
    return Arrived(rows, rows, nothing, at, np.array([d for _, d in measured], dtype=np.int64))


def columns(views: list[View]) -> dict[str, list[int]]:
    return {
        "k": [k for view in views for k in view.k[1:].tolist()],
        "stable": [ts for view in views for ts in view.stable[1:].tolist()],
        "reach": [ts for view in views for ts in view.reach.tolist()],
    }


@SETTINGS
@given(st.sampled_from(POLICIES), st.integers(1, 25), st.integers(0, 2**32), st.data())
def test_the_columns_of_one_step_are_those_of_its_updates_one_by_one(
    ordering: Any, length: int, seed: int, data: st.DataObject
) -> None:
    stretch = Stretch(random.Random(seed), length)
    start_k = seed % 40
    single, pieces = unit_of(ordering, start_k=start_k), unit_of(ordering, start_k=start_k)
    expected = [single.advance(*stretch.part(i, i + 1)) for i in range(length)]
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, length), max_size=4))), length]
    views = [pieces.advance(*stretch.part(a, b)) for a, b in pairwise(cuts) if a < b]
    assert columns(views) == columns(expected)
    assert list(pieces.k_history) == list(single.k_history)
    assert (pieces.k, pieces.stable, pieces.reach) == (single.k, single.stable, single.reach)
    assert {t: (d.count, d.total, d.min, d.max) for t, d in pieces.delays.items()} == {
        t: (d.count, d.total, d.min, d.max) for t, d in single.delays.items()
    }


@SETTINGS
@given(st.sampled_from(POLICIES), st.integers(1, 25), st.integers(0, 2**32))
def test_what_is_stable_and_what_is_in_reach_never_go_back(
    ordering: Any, length: int, seed: int
) -> None:
    view = unit_of(ordering).advance(*Stretch(random.Random(seed), length).part(0, length))
    assert (np.diff(view.stable) >= 0).all()
    assert (np.diff(view.reach) >= 0).all()
    assert (view.reach >= view.stable[1:] - 1).all()
    assert view.reach_now >= view.stable_now - 1


def run_of(clk: list[int], measured: list[tuple[int, int]]) -> tuple[Step, dict[str, Arrived]]:
    return Step(0, TS_MIN, np.array(clk, dtype=np.int64)), {"A": arrived(measured)}


def test_events_up_to_the_clock_less_k_are_in_reach() -> None:
    view = unit_of(KSlack(), ("A",)).advance(*run_of([100, 150, 200], [(1, 30)]), [], {}, {})
    assert view.k.tolist() == [0, 0, 30, 30]
    assert view.reach.tolist() == [100, 120, 170]


def test_a_k_that_grows_does_not_call_back_what_passed() -> None:
    view = unit_of(KSlack(), ("A",)).advance(*run_of([100, 101], [(1, 60)]), [], {}, {})
    assert view.reach.tolist() == [100, 100]


def test_stable_is_the_clock_less_the_horizon() -> None:
    unit = unit_of(KSlack(repair=2, horizon_min=50), ("A",))
    view = unit.advance(*run_of([1000, 2000, 3000], [(1, 20), (2, 400)]), [], {}, {})
    assert view.stable.tolist() == [TS_MIN, 950, 1950, 2200]


def test_without_repair_the_horizon_is_k_itself() -> None:
    unit = unit_of(KSlack(repair=0), ("A",))
    view = unit.advance(*run_of([1000, 2000, 3000], [(1, 20)]), [], {}, {})
    assert view.stable.tolist() == [TS_MIN, 1000, 1980, 2980]
    assert view.reach.tolist() == [1000, 1980, 2980]


def test_nothing_is_stable_beyond_what_a_publisher_promised() -> None:
    unit = unit_of(KSlack(horizon_min=0))
    step = Step(0, TS_MIN, np.array([1000, 2000]))
    promises = {("low", "L"): Along(np.array([TS_MIN, 300, 400]), 500)}
    view = unit.advance(step, {}, [], promises, {})
    assert view.stable.tolist() == [TS_MIN, 300, 400]
    assert (view.stable_now, unit.stable) == (500, 500)


def test_punctuated_lets_pass_only_what_is_stable() -> None:
    unit = unit_of(Punctuated(horizon_min=100), ("A",))
    view = unit.advance(*run_of([1000, 2000], [(1, 10)]), [], {}, {})
    assert view.reach.tolist() == [899, 1899]


def test_a_promise_of_a_source_makes_its_type_stable_at_the_end_of_the_step() -> None:
    unit = unit_of(Punctuated(), ("A",))
    step = Step(0, TS_MIN, np.array([1000]))
    view = unit.advance(step, {}, [], {("", "A"): Along(None, 990)}, {})
    assert (view.stable.tolist(), view.stable_now, view.reach_now) == ([TS_MIN, 0], 990, 989)


def test_when_every_source_has_ended_everything_is_stable() -> None:
    unit = unit_of(KSlack(), ("A",))
    step = Step(0, TS_MIN, np.zeros(0, dtype=np.int64))
    view = unit.advance(step, {}, [], {("", "A"): Along(None, TS_MAX)}, {})
    assert (view.stable_now, view.reach_now) == (TS_MAX, TS_MAX - 1)


def test_an_announced_delay_raises_k_before_it_was_measured() -> None:
    unit = unit_of(KSlack())
    step = Step(0, TS_MIN, np.array([100, 200]))
    view = unit.advance(step, {}, [], {}, {("low", "L"): Along(np.array([0, 0, 70]), 70)})
    assert view.k.tolist() == [0, 0, 70]
    assert unit.advance(Step(2, 200, np.array([300])), {}, [], {}, {}).k.tolist() == [70, 70]


def test_a_fixed_k_hears_no_announcement() -> None:
    unit = unit_of(KSlack(k=5))
    step = Step(0, TS_MIN, np.array([100]))
    view = unit.advance(step, {}, [], {}, {("low", "L"): Along(np.array([70, 70]), 70)})
    assert view.k.tolist() == [5, 5]


def test_a_delay_beyond_all_reason_teaches_nothing() -> None:
    view = unit_of(KSlack(), ("A",)).advance(
        *run_of([100, 200], [(0, JUMP_MAX + 1), (1, 7)]), [], {}, {}
    )
    assert view.k.tolist() == [0, 0, 7]


def test_the_lead_of_a_premature_event_counts_as_delay() -> None:
    unit = unit_of(KSlack())
    message = Add(Event("L", 95, {}, "low", 1), 0, 1, 100, lead=20)
    view = unit.advance(Step(0, TS_MIN, np.array([100])), {}, [message], {}, {})
    assert view.k.tolist() == [0, 25]


def test_a_message_behind_the_last_update_is_measured_in_the_next_step() -> None:
    unit = unit_of(KSlack())
    message = Add(Event("L", 95, {}, "low", 1), 0, 2, 100)
    assert unit.advance(Step(0, TS_MIN, np.array([100])), {}, [message], {}, {}).k[-1] == 0
    assert unit.advance(Step(1, 100, np.array([130])), {}, [], {}, {}).k[-1] == 35


def test_k_history_has_the_clock_and_k_wherever_k_changed() -> None:
    unit = unit_of(KSlack(), ("A",))
    unit.advance(*run_of([100, 110, 120], [(0, 5), (2, 9)]), [], {}, {})
    assert list(unit.k_history) == [(100, 5), (120, 9)]


def test_an_event_passes_at_the_first_update_that_reaches_it_and_not_before_it_came() -> None:
    unit = unit_of(KSlack(k=0), ("A",))
    view = unit.advance(*run_of([100, 110, 120], []), [], {}, {})
    ts, measured_at = np.array([100, 105, 115, 90]), np.array([1, 1, 1, 3])
    assert view.passed(ts, measured_at).tolist() == [1, 2, 3, 3]


def test_an_event_is_late_by_the_mark_that_it_found() -> None:
    unit = unit_of(KSlack(repair=0), ("A",))
    view = unit.advance(*run_of([100, 200, 300], []), [], {}, {})
    assert [view.stable_at(update) for update in (1, 2, 3, 4)] == [TS_MIN, 100, 200, 300]


def test_k_slack_is_held_back_by_a_clock_that_others_have_left_behind() -> None:
    unit = unit_of(KSlack(), ("A",))
    unit.advance(*run_of([1000], [(0, 20)]), [], {}, {})
    assert unit.waiting(("C",), 1000, since=990, newest=1020) == {}
    assert unit.waiting(("C",), 1000, since=990, newest=1021) == {"C": 1000}
    assert unit.waiting(("C",), TS_MIN, since=990, newest=990) == {"C": None}
    assert unit.waiting(("C",), 1000, since=None, newest=1021) == {}


def test_punctuation_is_held_back_by_types_whose_promises_lag_behind_the_horizon() -> None:
    unit = unit_of(Punctuated(horizon_min=100))
    step = Step(0, TS_MIN, np.array([1000]))
    unit.advance(step, {}, [], {("low", "L"): Along(np.array([TS_MIN, 300]), 300)}, {})
    assert unit.waiting(("C",), 1000, since=990, newest=1000) == {"L": 300}
    assert unit.waiting(("C",), 1000, since=200, newest=1000) == {}


def test_a_detector_that_orders_nothing_lets_everything_be_loose() -> None:
    assert unit_of(Unordered()).loose == {"A", "L"}
    assert unit_of(KSlack()).loose == frozenset()


@pytest.mark.parametrize("ordering", POLICIES, ids=repr)
def test_a_step_without_updates_moves_nothing(ordering: Any) -> None:
    unit = unit_of(ordering, ("A",), start_k=3)
    unit.advance(*run_of([1000], [(0, 5)]), [], {}, {})
    before = (unit.k, unit.stable, unit.reach, list(unit.k_history))
    unit.advance(Step(1, 1000, np.zeros(0, dtype=np.int64)), {}, [], {}, {})
    assert (unit.k, unit.stable, unit.reach, list(unit.k_history)) == before
