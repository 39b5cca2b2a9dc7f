"""The tape against a sorted list, in any interleaving of what can be done to it."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline import Event
from slackline.events import TS_MIN, Key
from slackline.tape import Rows, Tape

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)
START = Key(TS_MIN, "", "", 0)


def rows_of(tape: Tape, events: list[Event], in_columns: bool, update: int = 1) -> Rows:
    """Events as rows of a tape, each with an update number of its own."""
    return Rows(
        tape,
        np.array([e.ts for e in events], dtype=np.int64),
        np.array([tape.code(e.publisher) for e in events], dtype=np.int32),
        np.array([e.seq for e in events], dtype=np.int64),
        np.arange(update, update + len(events)),
        {"v": np.array([e.data["v"] for e in events])} if in_columns else None,
        None if in_columns else events,
    )


def read(tape: Tape, after: Key = START, upto: Key | None = None) -> list[Event]:
    slices = tape.between(after, upto or Key.end_of(tape.boundary))
    return [event for rows in slices for event in rows.events]


def event(ts: int, seq: int = 1, publisher: str = "p") -> Event:
    return Event("M", ts, {"v": 100 * ts + seq}, publisher, seq)


def key_near(rng: random.Random, events: list[Event]) -> Key:
    """A place at an event, between events, or at an event of another type at the same time."""
    ts = rng.randint(-2, 32)
    choice = rng.randrange(5)
    if choice == 0 and events:
        return rng.choice(events).key
    if choice == 1:
        return Key.end_of(ts)
    if choice == 2:
        return Key(ts, rng.choice(["A", "Z"]), "x", 3)
    if choice == 3 and events:
        return rng.choice(events).key._replace(nth=2)
    return Key(ts, "M", rng.choice("pqr"), rng.randint(0, 9))


class Pair:
    """A tape and the plain list that it must agree with."""

    def __init__(self, shares_events: bool) -> None:
        self.tape = Tape("M")
        self.tape.shares_events = shares_events
        self.events: list[Event] = []
        self.updates: dict[tuple[str, str, int], int] = {}
        self.numbers: dict[str, int] = {}
        self.purged = TS_MIN

    def insert(self, rng: random.Random) -> None:
        new = []
        for _ in range(rng.randint(1, 6)):
            publisher = rng.choice(["q", "p", "r"])
            self.numbers[publisher] = self.numbers.get(publisher, 0) + 1
            new.append(event(rng.randint(0, 30), self.numbers[publisher], publisher))
        first = len(self.updates) + 1
        self.updates |= {e.name: first + i for i, e in enumerate(new)}
        held = self.tape.rows
        in_order = self.tape.insert(rows_of(self.tape, new, rng.random() < 0.6, first))
        assert in_order.events == sorted(new)
        assert in_order.update.tolist() == [self.updates[e.name] for e in sorted(new)]
        assert self.tape.rows == held + len(new)
        self.events += new

    def advance(self, rng: random.Random) -> None:
        before = self.tape.boundary
        ts = rng.randint(-1, 31)
        self.tape.advance(ts)
        assert self.tape.boundary == max(before, ts)

    def purge(self, rng: random.Random) -> None:
        ts = min(rng.randint(-1, 31), self.tape.boundary)
        self.tape.purge(ts)
        self.purged = max(self.purged, ts)

    def between(self, rng: random.Random) -> None:
        after = max(key_near(rng, self.events), Key(self.purged, "", "", 0))
        upto = min(key_near(rng, self.events), Key.end_of(self.tape.boundary))
        expected = [e for e in sorted(self.events) if after < e.key <= upto]
        slices = self.tape.between(after, upto)
        assert [e for rows in slices for e in rows.events] == expected
        assert [n for rows in slices for n in rows.update.tolist()] == [
            self.updates[e.name] for e in expected
        ]
        assert [rows.key(i) for rows in slices for i in range(len(rows))] == [
            e.key for e in expected
        ]
        for rows in slices:
            batch = rows.batch()
            assert batch is not None
            assert batch.events() == rows.events

    def waiting(self, rng: random.Random) -> None:
        times = [e.ts for e in self.events if e.ts > self.tape.boundary]
        assert self.tape.waiting_from() == min(times, default=None)


@SETTINGS
@given(
    st.lists(
        st.sampled_from(["insert", "insert", "advance", "between", "between", "purge", "waiting"]),
        min_size=20,
        max_size=40,
    ),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_the_tape_is_the_sorted_list_of_what_was_inserted(
    actions: list[str], seed: int, shares_events: bool
) -> None:
    rng, pair = random.Random(seed), Pair(shares_events)
    for action in actions:
        getattr(pair, action)(rng)
    pair.tape.advance(100)
    kept = [e for e in sorted(pair.events) if e.ts >= pair.purged]
    assert read(pair.tape, Key(pair.purged, "", "", 0)) == kept
    pair.tape.purge(101)
    assert (pair.tape.rows, read(pair.tape)) == (0, [])


def test_equal_times_are_sorted_by_publisher_and_number_wherever_they_were_inserted() -> None:
    tape = Tape("M")
    tape.insert(rows_of(tape, [event(5, 2, "q"), event(5, 1, "q")], True))
    tape.advance(5)
    tape.insert(rows_of(tape, [event(5, 9, "a"), event(5, 3, "q")], True))
    tape.insert(rows_of(tape, [event(5, 1, "z")], False))
    tape.advance(9)
    assert [(e.publisher, e.seq) for e in read(tape)] == [
        ("a", 9), ("q", 1), ("q", 2), ("q", 3), ("z", 1),
    ]  # fmt: skip


def test_what_lies_behind_the_boundary_cannot_be_read_yet() -> None:
    tape = Tape("M")
    tape.insert(rows_of(tape, [event(5, 1), event(6, 2)], True))
    assert read(tape, upto=Key.end_of(10)) == []
    tape.advance(5)
    assert read(tape, upto=Key.end_of(10)) == [event(5, 1)]
    assert tape.waiting_from() == 6


def test_a_row_inserted_behind_the_boundary_can_be_read_at_once() -> None:
    tape = Tape("M")
    tape.insert(rows_of(tape, [event(1, 1), event(9, 2)], True))
    tape.advance(20)
    tape.insert(rows_of(tape, [event(4, 3), event(15, 4)], True))
    assert [e.ts for e in read(tape)] == [1, 4, 9, 15]


def test_purging_forgets_what_ends_before_a_time_and_not_what_ends_at_it() -> None:
    tape = Tape("M")
    tape.insert(rows_of(tape, [event(4, 1), event(5, 2)], True))
    tape.advance(5)
    tape.purge(5)
    assert (tape.rows, len(read(tape))) == (2, 2)
    tape.purge(6)
    assert (tape.rows, len(read(tape))) == (0, 0)


def test_a_place_of_another_type_at_the_same_time_lies_before_or_behind_all_rows() -> None:
    tape = Tape("M")
    tape.insert(rows_of(tape, [event(5, 1), event(5, 2)], True))
    tape.advance(9)
    assert len(read(tape, after=Key(5, "A", "zzz", 99))) == 2
    assert len(read(tape, after=Key(5, "Z", "", 0))) == 0
    assert len(read(tape, upto=Key(5, "A", "zzz", 99))) == 0
    assert len(read(tape, upto=Key(5, "Z", "", 0))) == 2


def test_columns_stay_columns_and_mixed_rows_become_events() -> None:
    tape = Tape("M")
    tape.insert(rows_of(tape, [event(1, 1)], True))
    tape.insert(rows_of(tape, [event(2, 2)], True))
    tape.advance(5)
    (rows,) = tape.between(START, Key.end_of(5))
    assert rows.columns is not None
    tape.insert(rows_of(tape, [event(2, 9)], False))
    (rows,) = tape.between(START, Key.end_of(5))
    assert rows.columns is None
    assert [e.seq for e in rows.events] == [1, 2, 9]


def test_columns_of_other_names_or_kinds_are_kept_apart_as_events() -> None:
    tape = Tape("M")
    for seq, column in enumerate([{"v": [1]}, {"v": [1.5]}, {"w": ["x"]}, {}], 1):
        columns = {name: np.array(values) for name, values in column.items()}
        one = np.array([seq])
        tape.insert(Rows(tape, one, np.array([tape.code("p")]), one, one, columns, None))
    tape.advance(9)
    data: list[Any] = [e.data for e in read(tape)]
    assert data == [{"v": 1}, {"v": 1.5}, {"w": "x"}, {}]
    assert [type(d.get("v")) for d in data[:2]] == [int, float]


def test_events_with_different_fields_have_no_batch() -> None:
    tape = Tape("M")
    events = [Event("M", 1, {"v": 1}, "p", 1), Event("M", 2, {"w": 1}, "p", 2)]
    assert rows_of(tape, events[:1], False).batch() is not None
    rows = Rows(tape, np.array([1, 2]), np.zeros(2, np.int32), np.array([1, 2]),
                np.array([1, 2]), None, events)  # fmt: skip
    assert rows.batch() is None


def batch_values(values: list[Any]) -> list[Any]:
    tape = Tape("M")
    tape.code("p")
    numbers = np.arange(1, len(values) + 1)
    events = [Event("M", i, {"v": value}, "p", i) for i, value in enumerate(values, 1)]
    rows = Rows(tape, numbers, np.zeros(len(values), np.int32), numbers, numbers, None, events)
    batch = rows.batch()
    return values if batch is None else [e.data["v"] for e in batch]


@pytest.mark.parametrize("values", [[1, 2], [1.5, 2.5], ["a", "bcd"], [True, False], [None, None]])
def test_a_batch_made_of_events_has_their_values(values: list[Any]) -> None:
    assert batch_values(values) == values


@pytest.mark.parametrize(
    "values",
    [[1, "a"], [1, 2.5], [True, 2], [-1, 2**63], [(1, 2), (3, 4)], ["a\x00", "b"]],
    ids=repr,
)
def test_a_batch_made_of_events_does_not_change_their_values(values: list[Any]) -> None:
    shown = [(type(value), value) for value in batch_values(values)]
    assert shown == [(type(value), value) for value in values]


def test_values_that_make_no_column_make_no_batch() -> None:
    assert batch_values([[1], [1, 2]]) == [[1], [1, 2]]
