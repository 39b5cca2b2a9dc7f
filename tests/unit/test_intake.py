"""What gets in, what is rejected and why: arrivals of every malformed kind."""

from typing import Any

import numpy as np
import pytest

from slackline import Detector, Emit, Event, EventBatch, Hierarchy, HierarchyError, Stable, run
from slackline.events import TS_MAX, TS_MIN
from slackline.intake import Intake
from slackline.messages import Delay, Heard, Promise, Tick

NAN = float("nan")


def event(
    ts: Any = 5, seq: Any = 7, type: Any = "A", publisher: Any = "p", data: Any = None
) -> Event:
    return Event(type, ts, {"v": 1} if data is None else data, publisher, seq)


def batch(
    ts: Any, seq: Any = None, publisher: Any = "p", type: Any = "A", **columns: Any
) -> EventBatch:
    return EventBatch(type, ts, columns, publisher, range(1, 1 + len(ts)) if seq is None else seq)


def intake() -> Intake:
    return Intake(["A", "B"], {"T": "low"})


def came(intake: Intake, *arrivals: Any) -> list[Event]:
    """What got in, by arrival."""
    groups = intake.sort(arrivals).groups
    rows = [pair for g in groups for pair in zip(g.index.tolist(), g.as_events(), strict=True)]
    return [event for _, event in sorted(rows, key=lambda pair: pair[0])]


# ---- what gets in ----------------------------------------------------------------------------


def test_events_are_grouped_by_type_and_numbered_by_arrival() -> None:
    arrivals = [event(1), event(2, type="B"), event(3, 8), event(4, 9, publisher="q")]
    groups = {group.type: group for group in intake().sort(arrivals).groups}
    assert groups["A"].index.tolist() == [0, 2, 3]
    assert groups["A"].ts.tolist() == [1, 3, 4]
    assert groups["A"].seq.tolist() == [7, 8, 9]
    assert [groups["A"].names[code] for code in groups["A"].codes] == ["p", "p", "q"]
    assert groups["A"].as_events() == [arrivals[0], arrivals[2], arrivals[3]]
    assert groups["B"].index.tolist() == [1]


def test_the_rows_of_a_batch_are_numbered_one_by_one() -> None:
    arrivals = [event(1, 9), batch([2, 3], v=[1, 2]), event(4, 10), batch([5], [3], v=[3])]
    (group,) = intake().sort(arrivals).groups
    assert group.index.tolist() == [0, 1, 2, 3, 4]
    assert group.ts.tolist() == [1, 2, 3, 4, 5]
    assert group.as_events() == [
        e for a in arrivals for e in (a if isinstance(a, EventBatch) else [a])
    ]


def test_batches_of_one_shape_stay_columns() -> None:
    (group,) = intake().sort([batch([2, 3], v=[1, 2]), batch([5], [3], "q", v=[3])]).groups
    assert group.columns is not None
    assert group.columns["v"].tolist() == [1, 2, 3]
    assert [group.names[code] for code in group.codes] == ["p", "p", "q"]


@pytest.mark.parametrize(
    "other", [batch([5], [3], v=[1.5]), batch([5], [3], w=[1]), batch([5], [3], v=[[1, 2]]),
              batch(np.array([5], dtype=np.int16), [3], v=[1]), batch([5], [3])]
)  # fmt: skip
def test_batches_of_different_shapes_get_in_together(other: EventBatch) -> None:
    one = batch([2, 3], v=[1, 2])
    into = intake()
    assert came(into, one, other) == [*one, *other]
    assert into.rejected == []


def test_an_empty_batch_is_nothing() -> None:
    into = intake()
    assert came(into, batch([], v=[]), event(), batch([], v=[])) == [event()]
    assert into.rejected == []


def test_a_group_keeps_the_rows_that_are_selected() -> None:
    for arrivals in ([event(1), event(2, 8)], [batch([1, 2], [7, 8], v=[1, 1])]):
        (group,) = intake().sort(arrivals).groups
        kept = group.select(np.array([False, True]))
        assert (kept.ts.tolist(), kept.seq.tolist(), kept.index.tolist()) == ([2], [8], [1])
        assert kept.as_events() == [event(2, 8)]


def test_numpy_numbers_get_in() -> None:
    into = intake()
    assert came(into, event(np.int64(5), np.int32(7)), event(np.uint8(6), 8)) == [
        event(5),
        event(6, 8),
    ]
    assert into.rejected == []


def test_a_subclass_of_event_gets_in() -> None:
    class Special(Event):
        pass

    into = intake()
    assert [e.ts for e in came(into, event(1), Special("A", 2, {}, "p", 8), event(3, 9))] == [
        1,
        2,
        3,
    ]


def test_types_that_nobody_wants_are_counted_by_rows() -> None:
    into = intake()
    assert came(into, event(type="Z"), event(), batch([1, 2, 3], type="Z")) == [event()]
    assert (into.ignored, into.rejected) == ({"Z": 4}, [])


def test_a_source_may_not_publish_what_a_detector_publishes() -> None:
    for item in (event(type="T"), batch([1], type="T")):
        with pytest.raises(HierarchyError, match="a source publishes 'T', which detector 'low'"):
            intake().sort([item])


# ---- malformed events ------------------------------------------------------------------------


MALFORMED_EVENTS = {
    "nan time": (event(NAN), "ts must be an int, got float nan"),
    "float time": (event(5.0), "ts must be an int, got float 5.0"),
    "infinite time": (event(float("inf")), "ts must be an int, got float inf"),
    "text time": (event("5"), "ts must be an int, got str '5'"),
    "no time": (event(None), "ts must be an int, got NoneType"),
    "list time": (event([5]), "ts must be an int, got list"),
    "array time": (event(np.array([5])), "ts must be an int, got ndarray"),
    "time too large": (event(TS_MAX), "ts must lie between"),
    "time too small": (event(TS_MIN), "ts must lie between"),
    "time beyond int64": (event(2**63), "ts must lie between"),
    "huge time": (event(10**30), "ts must lie between"),
    "nan number": (event(seq=NAN), "seq must be an int"),
    "negative number": (event(seq=-1), "seq must be an int"),
    "huge number": (event(seq=10**30), "seq must be an int"),
    "no number": (event(seq=None), "seq must be an int"),
    "no publisher": (event(publisher=None), "publisher must be a str, got NoneType"),
    "bytes publisher": (event(publisher=b"p"), "publisher must be a str, got bytes"),
    "no data": (Event("A", 5, None, "p", 7), "data must be a mapping, got NoneType"),  # type: ignore[arg-type]
    "list data": (event(data=[1]), "data must be a mapping, got list"),
    "empty type": (event(type=""), "type must be a non-empty str"),
    "no type": (event(type=None), "type must be a non-empty str"),
    "unhashable type": (event(type=["A"]), "type must be a non-empty str"),
    "number type": (event(type=3), "type must be a non-empty str"),
    "a dict": ({"type": "A", "ts": 5}, "expected an Event or an EventBatch, got dict"),
    "a tuple": (("A", 5), "expected an Event or an EventBatch, got tuple"),
    "none": (None, "expected an Event or an EventBatch, got NoneType"),
    "text": ("A", "expected an Event or an EventBatch, got str"),
    "bytes": (b"\x00\xff", "expected an Event or an EventBatch, got bytes"),
}


@pytest.mark.parametrize(("malformed", "says"), MALFORMED_EVENTS.values(), ids=MALFORMED_EVENTS)
def test_a_malformed_event_is_rejected_with_its_reason_and_the_others_get_in(
    malformed: Any, says: str
) -> None:
    into = intake()
    others = [event(1, 1), event(2, 2), event(3, 3, "B")]
    assert came(into, others[0], malformed, *others[1:]) == others
    (rejected,) = into.rejected
    assert rejected.item is malformed
    assert says in rejected.reason


@pytest.mark.parametrize(("malformed", "says"), MALFORMED_EVENTS.values(), ids=MALFORMED_EVENTS)
def test_a_malformed_event_alone_is_rejected_just_so(malformed: Any, says: str) -> None:
    into = intake()
    assert came(into, malformed) == []
    assert [says in rejected.reason for rejected in into.rejected] == [True]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("malformed", "field"), [(event(True), "ts"), (event(seq=True), "seq")], ids=["ts", "seq"]
)
def test_a_bool_is_no_number(malformed: Event, field: str, alone: bool) -> None:
    into = intake()
    others = [] if alone else [event(2, 2)]
    assert came(into, malformed, *others) == others
    (rejected,) = into.rejected
    assert f"{field} must be an int" in rejected.reason
    assert "got bool True" in rejected.reason


def test_the_reason_names_the_event() -> None:
    into = intake()
    came(into, event(NAN, 42, publisher="shelf 9"))
    assert "'shelf 9'" in into.rejected[0].reason
    assert "42" in into.rejected[0].reason


def test_rejected_arrivals_are_counted_by_the_type_they_were_meant_for() -> None:
    into = intake()
    came(into, event(NAN), event(NAN, type="B"), None, event(type=""), event(seq=-1))
    assert into.rejected_by_type == {"A": 2, "B": 1, None: 2}


def test_a_rejected_event_still_takes_a_place_among_the_arrivals() -> None:
    (group,) = intake().sort([event(1), None, event(NAN), event(type="Z"), event(2)]).groups
    assert group.index.tolist() == [0, 4]


# ---- malformed batches -----------------------------------------------------------------------


MALFORMED_BATCHES = {
    "short column": (batch([1, 2], v=[1]), "column 'v' has 1 rows, ts has 2"),
    "long column": (batch([1, 2], v=[1, 2, 3]), "column 'v' has 3 rows, ts has 2"),
    "scalar column": (batch([1, 2], v=7), "column 'v' has no rows, ts has 2"),
    "short numbers": (batch([1, 2], [1], v=[1, 2]), "column 'seq' has 1 rows, ts has 2"),
    "scalar numbers": (batch([1, 2], 1, v=[1, 2]), "seq must be a column of ints"),
    "text times": (batch(["1", "2"]), "ts must be a column of ints, got <U1"),
    "bool times": (batch([True, False]), "ts must be a column of ints, got bool"),
    "object times": (batch([1, None]), "ts must be a column of ints, got object"),
    "huge times": (batch([1, 10**30]), "ts must be a column of ints, got object"),
    "dates": (batch(np.array(["2020-01-01"], dtype="M8[s]")), "ts must be a column of ints"),
    "nested times": (batch([[1, 2], [3, 4]]), "ts must be a column of ints"),
    "text numbers": (batch([1], ["x"]), "seq must be a column of ints"),
    "bool numbers": (batch([1], [True]), "seq must be a column of ints"),
    "no publisher": (batch([1], publisher=None), "publisher must be a str, got None"),
    "number publisher": (batch([1], publisher=7), "publisher must be a str, got 7"),
    "empty type": (batch([1], type=""), "type must be a non-empty str"),
    "unhashable type": (batch([1], type=["A"]), "type must be a non-empty str"),
}


@pytest.mark.parametrize(("malformed", "says"), MALFORMED_BATCHES.values(), ids=MALFORMED_BATCHES)
def test_a_malformed_batch_is_rejected_with_its_reason_and_the_others_get_in(
    malformed: EventBatch, says: str
) -> None:
    into = intake()
    good = batch([8, 9], [8, 9], v=[1, 2])
    assert came(into, event(1, 1), malformed, good, event(3, 3)) == [
        event(1, 1), *good, event(3, 3),
    ]  # fmt: skip
    (rejected,) = into.rejected
    assert rejected.item is malformed
    assert says in rejected.reason


def test_a_batch_whose_time_is_one_number_is_rejected() -> None:
    into = intake()
    assert came(into, EventBatch("A", 5, {}, "p", 1), event()) == [event()]
    assert len(into.rejected) == 1


def test_a_batch_with_publishers_that_do_not_fit_is_rejected() -> None:
    into = intake()
    assert came(into, batch([1, 2], publisher=np.array(["p", "q", "r"])), event()) == [event()]
    assert len(into.rejected) == 1


@pytest.mark.parametrize(
    ("ts", "seq", "good"),
    [
        ([1.0, NAN, 3.0], [1, 2, 3], [1, 3]),
        ([1.0, 2.5, 3.0], [1, 2, 3], [1, 3]),
        ([1.0, float("inf"), 1e300], [1, 2, 3], [1]),
        ([TS_MIN, 2, TS_MAX], [1, 2, 3], [2]),
        (np.array([1, 2**64 - 1, 3], dtype=np.uint64), [1, 2, 3], [1, 3]),
        ([1, 2, 3], [-1, 2, TS_MAX], [2]),
        ([1, 2, 3], [1, NAN, 3], [1, 3]),
    ],
)
def test_rows_of_a_batch_without_a_proper_time_or_number_are_rejected_alone(
    ts: Any, seq: Any, good: list[int]
) -> None:
    into = intake()
    got = came(into, batch(ts, seq, v=[1, 2, 3]))
    assert [e.ts for e in got] == good
    assert [type(e.ts) for e in got] == [int] * len(good)
    assert len(into.rejected) == 3 - len(good)
    assert into.rejected_by_type == {"A": 3 - len(good)}


def test_a_time_that_is_no_int_is_rejected_beside_batches_of_another_shape() -> None:
    into = intake()
    got = came(into, batch([1], v=[1]), batch([2.5], [2], v=[2]), batch([3], [3], w=[3]))
    assert [e.ts for e in got] == [1, 3]
    assert len(into.rejected) == 1


def test_a_missing_time_is_rejected_beside_batches_of_another_shape() -> None:
    into = intake()
    got = came(into, batch([1], v=[1]), batch([NAN], [2], v=[2]), batch([3], [3], w=[3]))
    assert [e.ts for e in got] == [1, 3]
    assert len(into.rejected) == 1


def test_the_reason_of_a_rejected_row_names_the_event_and_what_is_wrong() -> None:
    into = intake()
    came(into, batch([1, TS_MAX], [41, 42], publisher="shelf 9", v=[1, 2]))
    reason = into.rejected[0].reason
    assert "shelf 9" in reason
    assert "42" in reason
    assert "no int" not in reason


def test_a_rejected_row_is_kept_as_it_came() -> None:
    into = intake()
    came(into, batch([1.0, 2.5], v=[1, 2]))
    assert into.rejected[0].item.ts == 2.5


# ---- everything else among the arrivals ------------------------------------------------------


def test_messages_are_sorted_by_kind() -> None:
    sorted_ = intake().sort(
        [Tick("A", 5), Promise("low", "T", 9), Promise("low", "T", 7), Delay("low", "T", 3),
         Delay("low", "T", 2), Heard("h1", 50), Stable("A", 4), Stable("A", 2), event()]
    )  # fmt: skip
    assert sorted_.ticks == [(0, Tick("A", 5))]
    assert sorted_.promises == {("low", "T"): 9, ("", "A"): 4}
    assert sorted_.delays == {("low", "T"): 2}
    assert sorted_.heard == {"h1": 50}
    assert [group.index.tolist() for group in sorted_.groups] == [[8]]


@pytest.mark.parametrize(
    "malformed",
    [Stable("A", NAN), Stable("A", "5"), Stable("A", None), Stable(["A"], 5), Stable("A", 5.5),
     Stable("A", 2**70), Stable("A", True)],
    ids=repr,
)  # fmt: skip
def test_a_malformed_promise_of_a_source_is_rejected(malformed: Stable) -> None:
    into = intake()
    assert into.sort([malformed]).promises == {}
    assert len(into.rejected) == 1


# ---- in a run --------------------------------------------------------------------------------


class Count(Detector):
    listens = ("A",)
    publishes = ("T",)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        emit("T", event.ts, n=self.count)


@pytest.mark.parametrize("chunk_rows", [1, 100])
def test_a_run_over_every_malformed_arrival_counts_the_good_ones(chunk_rows: int) -> None:
    bad = [malformed for malformed, _ in (MALFORMED_EVENTS | MALFORMED_BATCHES).values()]
    arrivals = [event(ts, ts) for ts in range(1, len(bad) + 1)]
    mixed = [item for pair in zip(arrivals, bad, strict=True) for item in pair]
    result = run(Hierarchy("h").add("d", Count()), mixed, chunk_rows=chunk_rows)
    assert [e.data["n"] for e in result.final] == list(range(1, len(bad) + 1))
    assert len(result.rejected) == len(bad)
    assert result.stats["d"].rejected == len(bad)


def test_a_malformed_batch_is_rejected_whole_however_arrivals_are_cut() -> None:
    malformed = batch([1, 2, 3, 4], v=[1, 2])
    for chunk_rows in (2, 100):
        result = run(Hierarchy("h").add("d", Count()), [malformed], chunk_rows=chunk_rows)
        assert result.final == []
