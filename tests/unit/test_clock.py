"""The stream clock: one type, several types, absurd times, and any way of cutting the rows."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline import Detector, Emit, Event, Hierarchy, run, truth
from slackline.clock import StreamClock, Ticks

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)
FAR = 10**15


def clock_of(types: str = "A", jump_max: int = FAR) -> StreamClock:
    clock = StreamClock(tuple(types), jump_max)
    clock.anchor(np.array([0]), at_end=True)
    return clock


def feed(clock: StreamClock, *rows: tuple[str, int]) -> Ticks:
    kinds = np.array([clock.types.index(type) for type, _ in rows], dtype=np.int8)
    return clock.advance(np.array([ts for _, ts in rows], dtype=np.int64), kinds)


def told(text: str) -> list[tuple[str, int]]:
    """Rows from a line such as ``A0 B2``."""
    return [(word[0], int(word[1:])) for word in text.split()]


# ---- one type --------------------------------------------------------------------------------


@SETTINGS
@given(st.lists(st.integers(-50, 50), min_size=1))
def test_with_one_type_the_clock_is_the_largest_time_so_far(times: list[int]) -> None:
    ticks = clock_of().advance(np.array(times))
    assert ticks.clk.tolist() == [max(times[: i + 1]) for i in range(len(times))]
    assert ticks.rows.tolist() == list(range(len(times)))
    assert not len(ticks.quarantined)


def test_the_clock_never_goes_back_from_one_advance_to_the_next() -> None:
    clock = clock_of()
    feed(clock, ("A", 10))
    assert feed(clock, ("A", 3), ("A", 12)).clk.tolist() == [10, 12]
    assert clock.clk == 12


def test_no_rows_leave_the_clock_alone() -> None:
    clock = clock_of()
    feed(clock, ("A", 10))
    assert len(clock.advance(np.zeros(0, dtype=np.int64)).clk) == 0
    assert clock.clk == 10


def test_times_before_zero_are_times_too() -> None:
    clock = StreamClock(("A",), FAR)
    assert feed(clock, ("A", -100), ("A", -90)).clk.tolist() == [-100, -90]


# ---- several types ---------------------------------------------------------------------------


def reference_clock(rows: list[tuple[str, int]]) -> tuple[list[int | None], dict[str, int]]:
    """The clock after each row (None: not moved by it) and the leads, one row at a time."""
    first_type, first = rows[0]
    newest, count, clk = first, 0, first
    leads: dict[str, int] = {}
    open_rows: list[tuple[str, int, int]] = []
    clks: list[int | None] = []
    for type, ts in rows:
        if type == first_type:
            newest, count = max(newest, ts), count + 1
            gap = (newest - first) / max(count - 1, 1)
            for other, other_ts, before in open_rows:
                if newest - before <= 4 * gap:
                    leads[other] = min(leads.get(other, FAR), before - other_ts)
            open_rows = []
            clk = max(clk, ts)
        elif type in leads:
            clk = max(clk, ts + leads[type])
        if type != first_type:
            open_rows.append((type, ts, newest))
        clks.append(clk if type == first_type or type in leads else None)
    return clks, leads


rows_of_three = st.lists(
    st.tuples(st.sampled_from("AAABBC"), st.integers(0, 60)), min_size=1, max_size=40
)
growing = st.lists(
    st.tuples(st.sampled_from("AAABBC"), st.integers(0, 9), st.integers(0, 25)),
    min_size=1,
    max_size=40,
).map(
    lambda parts: [
        (type, 10 * i + jitter - (delay if type != "A" else 0))
        for i, (type, jitter, delay) in enumerate(parts)
    ]
)


@SETTINGS
@given(rows_of_three | growing)
def test_several_types_move_the_clock_as_the_row_by_row_model_does(
    rows: list[tuple[str, int]],
) -> None:
    clock = clock_of("ABC")
    ticks = feed(clock, *rows)
    expected, leads = reference_clock(rows)
    assert ticks.rows.tolist() == [i for i, clk in enumerate(expected) if clk is not None]
    assert ticks.clk.tolist() == [clk for clk in expected if clk is not None]
    assert clock.lead == leads


def cuts_of(count: int, data: st.DataObject) -> list[int]:
    """Where to cut so many rows, both ends included; some pieces may be empty."""
    return [0, *sorted(data.draw(st.lists(st.integers(0, count), max_size=6))), count]


@SETTINGS
@given(rows_of_three | growing, st.data())
def test_any_cutting_of_the_rows_gives_the_same_clock_and_leads(
    rows: list[tuple[str, int]], data: st.DataObject
) -> None:
    whole, pieces = clock_of("ABC"), clock_of("ABC")
    at_once = feed(whole, *rows)
    clk, moved = [], []
    for begin, end in pairwise(cuts_of(len(rows), data)):
        ticks = feed(pieces, *rows[begin:end])
        clk += ticks.clk.tolist()
        moved += (ticks.rows + begin).tolist()
    assert (clk, moved) == (at_once.clk.tolist(), at_once.rows.tolist())
    assert (pieces.clk, pieces.lead, pieces.reference) == (whole.clk, whole.lead, whole.reference)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_type_that_was_placed_between_reference_events_moves_the_clock(at_once: bool) -> None:
    clock = clock_of("AB")
    rows = told("A0 A3 B2 A6 A9 B20")
    for part in [rows] if at_once else [[row] for row in rows]:
        feed(clock, *part)
    assert clock.clk == 21
    assert (clock.reference, clock.lead) == ("A", {"B": 1})


@pytest.mark.parametrize("at_once", [True, False])
def test_a_fast_type_does_not_carry_the_clock_ahead_before_its_delay_is_known(
    at_once: bool,
) -> None:
    """The dilemma of one clock from types with different delays; X and Y are no clock types."""
    stream = told("A0 X1 Y0 A30 X31 X55 A60 B89 Y50 A90")
    clock = clock_of("AB")
    rows = [row for row in stream if row[0] in "AB"]
    before_the_last, last = rows[:-1], rows[-1]
    for part in [before_the_last] if at_once else [[row] for row in before_the_last]:
        feed(clock, *part)
    assert clock.clk == 60
    feed(clock, last)
    assert clock.clk == 90
    assert clock.lead == {"B": 60 - 89}


def test_the_reference_is_the_type_that_comes_first() -> None:
    clock = clock_of("AB")
    assert clock.reference is None
    feed(clock, ("B", 5), ("A", 1))
    assert clock.reference == "B"


def test_a_type_is_not_placed_while_the_reference_is_silent() -> None:
    clock = clock_of("AB")
    feed(clock, *told("A0 A10 A20 A30 A40 A50 A60 B65 A900"))
    assert clock.lead == {}
    feed(clock, ("B", 2000))
    assert clock.clk == 900


@pytest.mark.parametrize(("closing", "placed"), [("A140", True), ("A141", False)])
def test_the_reference_is_silent_after_four_times_its_usual_distance(
    closing: str, placed: bool
) -> None:
    """Eight distances of which seven are 10: the last is four times their mean if it is 70."""
    clock = clock_of("AB")
    feed(clock, *told(f"A0 A10 A20 A30 A40 A50 A60 A70 B71 {closing}"))
    assert ("B" in clock.lead) is placed


def test_a_known_type_keeps_the_clock_going_when_the_reference_falls_silent() -> None:
    clock = clock_of("AB")
    feed(clock, *told("A0 A10 B8 A20 B100 B200"))
    assert clock.clk == 200 + (10 - 8)


def test_a_smaller_lead_replaces_a_larger_one() -> None:
    clock = clock_of("AB")
    feed(clock, *told("A0 A10 B2 A20"))
    assert clock.lead == {"B": 8}
    feed(clock, *told("B19 A30 B25 A40"))
    assert clock.lead == {"B": 1}


def test_of_rows_between_two_reference_rows_the_latest_counts_whenever_it_came() -> None:
    for between in (["B9", "B2"], ["B2", "B9"]):
        clock = clock_of("AB")
        for row in ["A0", "A10", *between, "A20"]:
            feed(clock, *told(row))
        assert clock.lead == {"B": 1}


def test_many_rows_between_two_reference_rows_count_however_they_are_cut() -> None:
    rows = [("A", 0), ("A", 1000), *[("B", 1000 + i) for i in range(600)], ("A", 2000)]
    whole, single = clock_of("AB"), clock_of("AB")
    feed(whole, *rows)
    for row in rows:
        feed(single, row)
    assert single.lead == whole.lead


# ---- absurd times ----------------------------------------------------------------------------


def test_a_time_decades_ahead_is_quarantined_and_does_not_move_the_clock() -> None:
    clock = clock_of(jump_max=100)
    ticks = feed(clock, *told("A0 A10 A99999 A20"))
    assert ticks.quarantined.tolist() == [2]
    assert ticks.rows.tolist() == [0, 1, 3]
    assert (clock.clk, ticks.released) == (20, False)


def test_a_jump_of_exactly_the_most_allowed_is_believed() -> None:
    clock = clock_of(jump_max=100)
    assert not len(feed(clock, *told("A0 A100 A200 A300")).quarantined)
    assert feed(clock, ("A", 401)).quarantined.tolist() == [0]
    assert clock.clk == 300


def test_a_jump_of_exactly_the_most_allowed_is_believed_beside_one_that_is_not() -> None:
    assert feed(clock_of(jump_max=100), *told("A0 A100 A201")).quarantined.tolist() == [2]


def test_a_time_far_in_the_past_is_no_jump() -> None:
    clock = clock_of(jump_max=100)
    feed(clock, *told("A0 A50"))
    assert not len(feed(clock, ("A", -(10**9))).quarantined)
    assert clock.clk == 50


@pytest.mark.parametrize("at_once", [True, False])
def test_three_in_a_row_that_agree_are_believed(at_once: bool) -> None:
    clock = clock_of(jump_max=100)
    rows = told("A0 A10 A90000 A90001 A90002 A90003")
    ticks = [feed(clock, *part) for part in ([rows] if at_once else [[row] for row in rows])]
    assert sum(len(t.quarantined) for t in ticks) == 2
    assert [t.released for t in ticks].count(True) == 1
    assert clock.clk == 90003


def test_three_that_do_not_agree_are_not_believed() -> None:
    clock = clock_of(jump_max=100)
    ticks = feed(clock, *told("A0 A90000 A80000 A70000 A60000 A10"))
    assert ticks.quarantined.tolist() == [1, 2, 3, 4]
    assert clock.clk == 10


def test_a_sane_time_among_absurd_ones_starts_the_count_anew() -> None:
    clock = clock_of(jump_max=100)
    ticks = feed(clock, *told("A0 A90000 A90001 A5 A90002 A90003"))
    assert ticks.quarantined.tolist() == [1, 2, 4, 5]
    assert clock.clk == 5


@SETTINGS
@given(
    st.lists(st.one_of(st.integers(0, 30), st.integers(1000, 1030)), min_size=1, max_size=20),
    st.data(),
)
def test_with_one_type_any_cutting_gives_the_same_clock_and_quarantine(
    times: list[int], data: st.DataObject
) -> None:
    rows = [("A", ts) for ts in times]
    whole, pieces = clock_of(jump_max=100), clock_of(jump_max=100)
    at_once = feed(whole, *rows)
    quarantined, released = [], False
    for begin, end in pairwise(cuts_of(len(rows), data)):
        ticks = feed(pieces, *rows[begin:end])
        quarantined += (ticks.quarantined + begin).tolist()
        released |= ticks.released
    assert pieces.clk == whole.clk
    assert (quarantined, released) == (at_once.quarantined.tolist(), at_once.released)


def test_a_jump_that_was_believed_is_believed_however_the_rows_are_cut() -> None:
    rows = told("A0 A10 B90000 B90001 B90002 B90003 B90004")
    whole, single = clock_of("AB", jump_max=100), clock_of("AB", jump_max=100)
    at_once = feed(whole, *rows).quarantined.tolist()
    one_by_one = [i for i, row in enumerate(rows) if len(feed(single, row).quarantined)]
    assert one_by_one == at_once


# ---- the start -------------------------------------------------------------------------------


def test_the_clock_starts_when_two_times_agree() -> None:
    clock = StreamClock(("A",), 100)
    assert not clock.anchor(np.array([], dtype=np.int64))
    assert not clock.anchor(np.array([90000]))
    assert not clock.anchor(np.array([90000, 500]))
    assert clock.anchor(np.array([90000, 500, 600]))
    assert feed(clock, ("A", 90000)).quarantined.tolist() == [0]
    assert not len(feed(clock, ("A", 550)).quarantined)


def test_at_the_end_the_clock_settles_for_the_smallest_time() -> None:
    clock = StreamClock(("A",), 100)
    assert clock.anchor(np.array([90000, 500]), at_end=True)
    assert feed(clock, ("A", 90000), ("A", 500)).quarantined.tolist() == [0]


def test_an_anchor_once_found_stays() -> None:
    clock = StreamClock(("A",), 100)
    clock.anchor(np.array([500, 501]))
    clock.anchor(np.array([10, 11]))
    assert feed(clock, ("A", 550)).quarantined.tolist() == []
    assert clock.clk == 550


# ---- in a run --------------------------------------------------------------------------------


class Every(Detector):
    publishes = ("T",)

    def __init__(self, listens: tuple[str, ...]) -> None:
        self.listens = listens

    def on_event(self, event: Event, emit: Emit) -> None:
        emit("T", event.ts, of=event.name)


def event(type: str, ts: int, seq: int, **data: Any) -> Event:
    return Event(type, ts, data, "p", seq)


@pytest.mark.parametrize("chunk_rows", [1, 100])
def test_a_run_goes_on_after_one_clock_event_from_the_far_future(chunk_rows: int) -> None:
    hierarchy = Hierarchy("h").add("d", Every(("A",)))
    absurd = event("A", 10**15, 3)
    arrivals = [event("A", 10, 1), event("A", 20, 2), absurd, event("A", 30, 4)]
    result = run(hierarchy, arrivals, chunk_rows=chunk_rows)
    assert [entry.event for entry in result.quarantined] == [absurd]
    assert result.clk == 30
    assert result.final == truth(hierarchy, [e for e in arrivals if e != absurd])


@pytest.mark.parametrize("chunk_rows", [1, 2, 100])
def test_a_run_believes_a_real_gap_and_takes_the_quarantined_back(chunk_rows: int) -> None:
    hierarchy = Hierarchy("h").add("d", Every(("A",)))
    times = [10, 20, 10**15, 10**15 + 10, 10**15 + 20, 10**15 + 30, 10**15 + 40]
    arrivals = [event("A", ts, i + 1) for i, ts in enumerate(times)]
    result = run(hierarchy, arrivals, chunk_rows=chunk_rows)
    assert result.quarantined == []
    assert result.final == truth(hierarchy, arrivals)


@pytest.mark.parametrize("chunk_rows", [1, 3])
def test_a_run_takes_the_quarantined_back_when_a_type_without_a_lead_has_jumped(
    chunk_rows: int,
) -> None:
    far = 10**15
    rows = [("A", 0), ("A", 10), *[("B", far + i) for i in range(6)]]
    rows += [("A", far + 10 + i) for i in range(6)]
    arrivals = [event(type, ts, i) for i, (type, ts) in enumerate(rows, 1)]
    hierarchy = Hierarchy("h").add("d", Every(("A", "B")))
    result = run(hierarchy, arrivals, chunk_rows=chunk_rows)
    assert result.quarantined == []
    assert result.final == truth(hierarchy, arrivals)


def test_there_may_be_many_clock_types() -> None:
    types = tuple(f"s{i}" for i in range(130))
    hierarchy = Hierarchy("h").add("d", Every(types))
    arrivals = [event(type, i, 1) for i, type in enumerate(types)]
    assert run(hierarchy, arrivals).final == truth(hierarchy, arrivals)
