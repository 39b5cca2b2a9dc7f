"""The oracle itself: what it takes, what it leaves out, and what it refuses."""

from typing import Any

import numpy as np
import pytest

from slackline import (
    Detector,
    Emit,
    EmitError,
    Event,
    EventBatch,
    Hierarchy,
    HierarchyError,
    Stable,
    run,
    truth,
)


def event(ts: Any, seq: Any = None, type: Any = "A", publisher: Any = "p", **data: Any) -> Event:
    return Event(type, ts, data, publisher, ts if seq is None else seq)


class Numbered(Detector):
    """Publishes the running number and the time of each event."""

    def __init__(self, listens: Any = ("A",), publishes: str = "T", back: int = 0) -> None:
        self.listens, self.publishes = listens, (publishes,)
        self.back, self.count = back, 0

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        emit(self.publishes[0], event.ts - self.back, n=self.count, of=event.name)


def numbers(hierarchy: Hierarchy, events: Any, type: str = "T") -> list[tuple[int, int]]:
    return [(e.ts, e.data["n"]) for e in truth(hierarchy, events) if e.type == type]


def one(detector: Detector | None = None) -> Hierarchy:
    return Hierarchy("h").add("d", detector or Numbered())


def test_events_are_given_in_total_order_however_they_arrive() -> None:
    assert numbers(one(), [event(3), event(1), event(2)]) == [(1, 1), (2, 2), (3, 3)]


def test_equal_times_are_given_by_type_then_publisher_then_number() -> None:
    events = [
        event(1, 1, "B", "p"),
        event(1, 2, "A", "q"),
        event(1, 1, "A", "q"),
        event(1, 9, "A", "p"),
    ]
    given = [e.data["of"] for e in truth(one(Numbered(("B", "A"))), events)]
    assert given == [("p", "A", 9), ("q", "A", 1), ("q", "A", 2), ("p", "B", 1)]


def test_outputs_are_numbered_per_type_and_published_under_the_detectors_name() -> None:
    class Two(Numbered):
        def on_event(self, event: Event, emit: Emit) -> None:
            emit("T", event.ts)
            emit("U" if event.ts % 2 else "T", event.ts)

    detector = Two()
    detector.publishes = ("T", "U")
    output = truth(one(detector), [event(1), event(2)])
    assert [e.name for e in output] == [("d", "T", 1), ("d", "U", 1), ("d", "T", 2), ("d", "T", 3)]


def test_the_output_is_in_total_order_even_when_outputs_are_dated_back() -> None:
    class Backwards(Numbered):
        def on_event(self, event: Event, emit: Emit) -> None:
            emit("T", -event.ts)

    output = truth(one(Backwards()), [event(1), event(2), event(3)])
    assert [(e.ts, e.seq) for e in output] == [(-3, 3), (-2, 2), (-1, 1)]


def test_upper_detectors_get_what_lower_ones_published_in_total_order() -> None:
    hierarchy = one(Numbered(back=10)).add("up", Numbered(("T", "A"), "U"))
    given = [e.data["of"] for e in truth(hierarchy, [event(5), event(8)]) if e.type == "U"]
    assert given == [("d", "T", 1), ("d", "T", 2), ("p", "A", 5), ("p", "A", 8)]


def test_a_repeated_name_counts_once_and_the_first_to_arrive_wins() -> None:
    events = [event(5, 1), event(9, 2), event(7, 1), event(5, 1, publisher="q"), event(9, 2)]
    assert numbers(one(), events) == [(5, 1), (5, 2), (9, 3)]


@pytest.mark.parametrize(
    "malformed",
    [
        event(float("nan"), 7),
        event(True, 7),
        event(2**62, 7),
        event("3", 7),
        event(3, -1),
        event(3, 7, publisher=None),
        event(3, 7, type=["A"]),
        Event("A", 3, None, "p", 7),  # type: ignore[arg-type]
        None,
        "A",
        Stable("A", 3),
    ],
    ids=repr,
)
def test_a_malformed_event_is_left_out(malformed: Any) -> None:
    assert numbers(one(), [event(1), malformed, event(5)]) == [(1, 1), (5, 2)]


def test_a_malformed_event_does_not_take_the_name_of_a_good_one() -> None:
    assert numbers(one(), [event(1.5, 1), event(2, 1)]) == [(2, 1)]


def test_a_batch_counts_as_its_rows() -> None:
    batch = EventBatch("A", [3, 1], {"v": [1, 2]}, "p", [1, 2])
    assert truth(one(), [batch, event(2, 3)]) == truth(one(), [*batch, event(2, 3)])


def test_a_batch_with_a_missing_time_loses_that_row_only_as_in_a_run() -> None:
    batch = EventBatch("A", [1.0, float("nan"), 3.0], {}, "p", [1, 2, 3])
    assert numbers(one(), [batch]) == [(1, 1), (3, 2)]


@pytest.mark.parametrize(
    "batch",
    [
        EventBatch("A", [1, 2], {"v": [1]}, "p", [1, 2]),
        EventBatch("A", [1, 2], {}, "p", [1]),
        EventBatch("A", 5, {}, "p", [1]),
    ],
    ids=["column", "seq", "scalar"],
)
def test_a_malformed_batch_is_left_out(batch: EventBatch) -> None:
    assert numbers(one(), [event(9), batch]) == [(9, 1)]


@pytest.mark.parametrize(
    "batch",
    [
        EventBatch("A", np.array([1, 2], dtype=object), {}, "p", [1, 2]),
        EventBatch("A", np.array([1, None], dtype=object), {}, "p", [1, 2]),
        EventBatch("A", [1, 2], {}, np.array(["p", "q"]), [1, 1]),  # type: ignore[arg-type]
    ],
    ids=["ints as objects", "objects", "publishers"],
)
def test_a_batch_counts_as_much_as_in_a_run(batch: EventBatch) -> None:
    assert truth(one(), [batch, event(9)]) == run(one(), [batch, event(9)]).final


def test_types_that_nobody_listens_to_do_not_matter() -> None:
    assert numbers(one(), [event(1), event(2, type="Z")]) == [(1, 1)]


class Picky(Numbered):
    """Raises on multiples of three, after it has counted and emitted."""

    def on_event(self, event: Event, emit: Emit) -> None:
        super().on_event(event, emit)
        if event.ts % 3 == 0:
            raise ValueError(f"three at {event.ts}")


def test_an_event_that_a_detector_raises_on_yields_nothing_and_is_a_dead_letter() -> None:
    letters: list[tuple[str, Event, Exception]] = []
    output = truth(one(Picky()), [event(ts) for ts in (6, 2, 3, 4)], letters)
    assert [(e.ts, e.seq, e.data["n"]) for e in output] == [(2, 1, 1), (4, 2, 3)]
    assert [(name, e.ts, str(error)) for name, e, error in letters] == [
        ("d", 3, "three at 3"),
        ("d", 6, "three at 6"),
    ]


def test_dead_letters_need_not_be_asked_for() -> None:
    assert len(truth(one(Picky()), [event(3), event(4)])) == 1


def emitting(type: Any, ts: Any, backset_max: int | None = None) -> Hierarchy:
    class Emitting(Numbered):
        def on_event(self, event: Event, emit: Emit) -> None:
            emit(type, ts)

    detector = Emitting()
    detector.backset_max = backset_max
    return one(detector)


def test_an_undeclared_type_is_an_emit_error_that_names_detector_and_type() -> None:
    with pytest.raises(EmitError, match=r"'d' emitted 'X', .*its publishes are \('T',\)"):
        truth(emitting("X", 1), [event(1)])


@pytest.mark.parametrize("ts", [1.0, "1", None, True])
def test_a_time_that_is_no_int_is_an_emit_error_that_names_detector_and_time(ts: Any) -> None:
    with pytest.raises(EmitError, match=f"'d' emitted 'T' at ts {ts!r}: not an int"):
        truth(emitting("T", ts), [event(1)])


@pytest.mark.parametrize("ts", [2**62, -(2**62), 10**30])
def test_a_time_out_of_range_is_an_emit_error(ts: int) -> None:
    with pytest.raises(EmitError):
        truth(emitting("T", ts), [event(1)])


def test_an_output_may_be_dated_back_as_far_as_was_declared_and_no_further() -> None:
    assert len(truth(emitting("T", 90, backset_max=10), [event(100)])) == 1
    with pytest.raises(EmitError, match="'d' emitted 'T' at ts 89, more than its backset_max 10"):
        truth(emitting("T", 89, backset_max=10), [event(100)])


def test_a_source_may_not_publish_what_a_detector_publishes() -> None:
    with pytest.raises(HierarchyError, match="a source publishes 'T', which detector 'd'"):
        truth(one(), [event(1), event(2, type="T")])


def test_a_hierarchy_that_cannot_run_has_no_truth() -> None:
    with pytest.raises(HierarchyError, match="no detectors"):
        truth(Hierarchy("h"), [event(1)])


def test_truth_can_be_asked_again() -> None:
    hierarchy = one()
    events = [event(2), event(1)]
    assert truth(hierarchy, events) == truth(hierarchy, events)


def test_what_is_emitted_does_not_change_with_the_detectors_state_afterwards() -> None:
    class Growing(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[int] = []

        def on_event(self, event: Event, emit: Emit) -> None:
            self.seen.append(event.ts)
            emit("T", event.ts, seen=self.seen)

    assert [e.data["seen"] for e in truth(one(Growing()), [event(1), event(2)])] == [[1], [1, 2]]
