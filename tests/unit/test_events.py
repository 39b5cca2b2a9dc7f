"""Events and batches: their order, their equality, and what makes one malformed."""

import dataclasses
import pickle
import random
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline import Event, EventBatch, Stable
from slackline.events import TS_MAX, TS_MIN, Key, fault_of, make_event, same_data

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)

keys = st.tuples(
    st.integers(-3, 3),
    st.sampled_from(["A", "AB", "B", "é"]),
    st.sampled_from(["p", "q"]),
    st.integers(0, 3),
)


def event(
    type: Any = "A", ts: Any = 5, data: Any = None, publisher: Any = "p", seq: Any = 1
) -> Event:
    return Event(type, ts, {"v": 1} if data is None else data, publisher, seq)


# ---- the total order -------------------------------------------------------------------------


@SETTINGS
@given(st.lists(keys))
def test_events_sort_by_time_then_type_then_publisher_then_number(made: list[Any]) -> None:
    events = [event(type, ts, {}, publisher, seq) for ts, type, publisher, seq in made]
    assert [(e.ts, e.type, e.publisher, e.seq) for e in sorted(events)] == sorted(made)


@SETTINGS
@given(keys, keys)
def test_the_four_comparisons_agree_with_the_keys(one: Any, other: Any) -> None:
    a, b = (event(type, ts, {}, publisher, seq) for ts, type, publisher, seq in (one, other))
    assert (a < b, a <= b, a > b, a >= b) == (one < other, one <= other, one > other, one >= other)


def test_the_order_does_not_look_at_the_data() -> None:
    assert not event(data={"v": 2}) < event(data={"v": 1})
    assert event(data={"v": object()}) <= event(data={"v": object()})


def test_the_end_of_a_time_lies_behind_all_its_events_and_before_the_next_time() -> None:
    at_five = event(type="zzz é 𝄞", ts=5, publisher="zzz", seq=10**9)
    assert at_five.key < Key.end_of(5) < event(type="A", ts=6, publisher="", seq=0).key


def test_places_of_unordered_events_lie_behind_the_event_they_follow() -> None:
    place = event(ts=5, seq=1).key
    assert place < place._replace(nth=1) < place._replace(nth=2) < event(ts=5, seq=2).key


# ---- one event -------------------------------------------------------------------------------


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        event().ts = 6  # type: ignore[misc]


def test_an_event_is_named_by_publisher_type_and_number() -> None:
    assert event("A", 5, {}, "p", 7).name == ("p", "A", 7)


@pytest.mark.parametrize(
    "change", [{"type": "B"}, {"ts": 6}, {"data": {"v": 2}}, {"publisher": "q"}, {"seq": 2}]
)
def test_events_are_equal_only_when_every_field_is(change: dict[str, Any]) -> None:
    assert event() == event()
    assert hash(event()) == hash(event())
    assert event() != dataclasses.replace(event(), **change)


def test_an_event_equals_nothing_but_events() -> None:
    assert event() != ("A", 5, {"v": 1}, "p", 1)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"v": np.array([1, 2])}, {"v": np.array([1, 2])}, True),
        ({"v": np.array([1, 2])}, {"v": np.array([1, 3])}, False),
        ({"v": np.array([1, 2])}, {"v": np.array([1, 2, 3])}, False),
        ({"v": np.array([1, 2])}, {"v": [1, 2]}, True),
        ({"v": np.int64(3)}, {"v": 3}, True),
        ({"v": np.float64(3)}, {"v": 4}, False),
        ({"v": {"w": np.array([1])}}, {"v": {"w": np.array([1])}}, True),
        ({"v": {"w": np.array([1])}}, {"v": {"w": np.array([2])}}, False),
        ({"v": 1}, {"v": 1, "w": 2}, False),
        ({"v": 1}, {"w": 1}, False),
        ({}, {}, True),
    ],
)
def test_data_with_numpy_values_is_compared_by_value(one: Any, other: Any, equal: bool) -> None:
    assert (event(data=one) == event(data=other)) is equal
    assert (event(data=other) == event(data=one)) is equal
    assert same_data(one, other) is equal


def test_data_may_be_any_mapping() -> None:
    assert event(data=MappingProxyType({"v": 1})) == event(data={"v": 1})


def test_data_with_arrays_inside_lists_is_compared_by_value() -> None:
    assert event(data={"v": [np.array([1, 2])]}) == event(data={"v": [np.array([1, 2])]})


def test_not_a_number_equals_itself_since_a_replay_emits_it_anew() -> None:
    assert event(data={"v": float("nan")}) == event(data={"v": float("nan")})


def test_the_quick_constructor_makes_the_same_event() -> None:
    quick = make_event("A", 5, {"v": 1}, "p", 1)
    assert quick == event()
    assert repr(quick) == repr(event())
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.seq = 2  # type: ignore[misc]


def test_events_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(event())) == event()


def test_a_source_that_has_ended_promises_more_than_any_time() -> None:
    assert Stable.ended("A").ts >= TS_MAX


# ---- batches ---------------------------------------------------------------------------------


def test_a_batch_gives_its_rows_as_events_in_its_own_order() -> None:
    batch = EventBatch("A", [7, 5], {"v": [1.5, 2.5], "w": ["x", "y"]}, "p", [3, 4])
    assert len(batch) == 2
    assert list(batch) == [
        event("A", 7, {"v": 1.5, "w": "x"}, "p", 3),
        event("A", 5, {"v": 2.5, "w": "y"}, "p", 4),
    ]


def test_the_values_of_a_batch_become_plain_python_values() -> None:
    columns = {"v": np.array([1], dtype=np.int16), "w": np.array([[1, 2]]), "b": np.array([True])}
    (only,) = EventBatch("A", np.array([7], dtype=np.int32), columns, "p", np.array([3]))
    assert (type(only.ts), type(only.seq)) == (int, int)
    assert [type(value) for value in only.data.values()] == [int, list, bool]
    assert only.data == {"v": 1, "w": [1, 2], "b": True}


def test_rows_of_a_batch_without_columns_have_empty_data_of_their_own() -> None:
    one, other = EventBatch("A", [1, 2], {}, "p", [1, 2])
    assert (one.data, other.data) == ({}, {})
    assert one.data is not other.data


def test_column_names_may_be_any_text() -> None:
    names = ["with 'quotes'", 'and "more"', "line\nbreak", "{v0}", "lambda", "\\", "é"]
    (only,) = EventBatch("A", [1], {name: [i] for i, name in enumerate(names)}, "p", [1])
    assert only.data == {name: i for i, name in enumerate(names)}


def test_an_empty_batch_has_no_events() -> None:
    batch = EventBatch("A", [], {"v": []}, "p", [])
    assert (len(batch), list(batch)) == (0, [])
    assert "empty" in repr(batch)


def test_a_slice_of_a_batch_is_a_batch_of_those_rows() -> None:
    batch = EventBatch("A", [1, 2, 3, 4], {"v": [1, 2, 3, 4]}, "p", [1, 2, 3, 4])
    assert list(batch[1:3]) == list(batch)[1:3]
    assert batch[1:3].publisher == "p"


def merged() -> EventBatch:
    return EventBatch.merged(
        "A",
        np.array([1, 2, 3]),
        {"v": np.array([7, 8, 9])},
        np.array([1, 0, 1], dtype=np.int32),
        ["q", "p"],
        np.array([1, 1, 2]),
    )


def test_a_merged_batch_knows_the_publisher_of_each_row() -> None:
    assert list(merged().publisher) == ["p", "q", "p"]
    assert [(e.publisher, e.seq, e.data["v"]) for e in merged()] == [
        ("p", 1, 7),
        ("q", 1, 8),
        ("p", 2, 9),
    ]


def test_a_slice_of_a_merged_batch_keeps_the_publishers_of_its_rows() -> None:
    assert list(merged()[1:]) == list(merged())[1:]
    assert list(merged()[1:].publisher) == ["q", "p"]


def test_a_merged_batch_of_one_publisher_names_it_once() -> None:
    batch = EventBatch.merged(
        "A", np.array([1, 2]), {}, np.array([0, 0], dtype=np.int32), ["p"], np.array([1, 2])
    )
    assert batch.publisher == "p"
    assert [e.publisher for e in batch] == ["p", "p"]


# ---- malformed events ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fine",
    [
        event(),
        event(ts=TS_MIN + 1),
        event(ts=TS_MAX - 1),
        event(ts=np.int64(5), seq=np.int32(3)),
        event(ts=np.uint8(5)),
        event(data=MappingProxyType({})),
        event(publisher=""),
    ],
)
def test_a_well_formed_event_has_no_fault(fine: Event) -> None:
    assert fault_of(fine) is None


@pytest.mark.parametrize(
    ("malformed", "says"),
    [
        (event(type=""), "type must be a non-empty str, got str ''"),
        (event(type=None), "type must be a non-empty str, got NoneType"),
        (event(type=["A"]), "type must be a non-empty str, got list"),
        (event(ts=5.0), "ts must be an int, got float 5.0"),
        (event(ts=float("nan")), "ts must be an int, got float nan"),
        (event(ts=True), "ts must be an int, got bool True"),
        (event(ts=np.bool_(True)), "ts must be an int"),
        (event(ts="5"), "ts must be an int, got str '5'"),
        (event(ts=None), "ts must be an int, got NoneType"),
        (event(ts=TS_MAX), "ts must lie between"),
        (event(ts=TS_MIN), "ts must lie between"),
        (event(ts=10**30), "ts must lie between"),
        (event(publisher=None), "publisher must be a str, got NoneType"),
        (event(publisher=b"p"), "publisher must be a str, got bytes"),
        (event(seq=-1), "seq must be an int"),
        (event(seq=1.0), "seq must be an int"),
        (event(seq=True), "seq must be an int"),
        (event(seq=10**30), "seq must be an int"),
        (event(data=[("v", 1)]), "data must be a mapping, got list"),
        (event(data=5), "data must be a mapping, got int"),
        ("event", "expected an Event or an EventBatch, got str 'event'"),
        (None, "expected an Event or an EventBatch, got NoneType"),
        ({"type": "A", "ts": 5}, "expected an Event or an EventBatch, got dict"),
    ],
)
def test_a_fault_names_the_field_what_was_expected_and_what_came(
    malformed: object, says: str
) -> None:
    fault = fault_of(malformed)
    assert fault is not None
    assert says in fault


def test_a_fault_shows_long_values_shortened() -> None:
    fault = fault_of(event(ts="x" * 10_000))
    assert fault is not None
    assert len(fault) < 200


def test_shuffled_events_sort_back_to_one_order() -> None:
    events = [event(type, ts, {}, publisher, seq) for ts in (1, 2) for type in "AB"
              for publisher in "pq" for seq in (1, 2)]  # fmt: skip
    shuffled = random.Random(1).sample(events, len(events))
    assert sorted(shuffled) == events
