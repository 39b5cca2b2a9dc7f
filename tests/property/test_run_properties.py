"""Whatever arrives, however it is cut, repeated or broken: what a run must end with.

The streams are small and random: two types, several publishers, delays from none to far beyond
the horizon. Every run is of one detector whose output depends on the order of all its input.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackline import (
    Detector,
    Emit,
    Event,
    EventBatch,
    Hierarchy,
    KSlack,
    Ordering,
    Punctuated,
    Run,
    Speculative,
    Stable,
    run,
    truth,
)
from slackline.host import Host


class Tally(Detector):
    """Publishes every second event, with a sum in which the order of all before it shows."""

    publishes = ("T",)

    def __init__(self, *listens: str) -> None:
        self.listens = listens
        self.count = self.total = 0

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        self.total = (self.total * 31 + event.data["v"]) % 1_000_003
        if self.count % 2 == 0:
            emit("T", event.ts - event.data["v"], total=self.total, n=self.count)


class ColumnTally(Tally):
    """The same in columns."""

    def on_batch(self, batch: EventBatch, emit: Any) -> None:
        for row, event in enumerate(batch):
            self.on_event(event, emit.at(row))


def hierarchy_of(detector: Detector, clock: tuple[str, ...] = ()) -> Hierarchy:
    return Hierarchy("h", clock=clock).add("tally", detector)


one_type = hierarchy_of(Tally("A"))
two_types = hierarchy_of(Tally("A", "B"))
one_clock = hierarchy_of(Tally("A", "B"), ("A",))

ORDERINGS: list[Ordering] = [
    KSlack(),
    KSlack(margin=1.0, window=500),
    KSlack(k=30),
    KSlack(repair=0),
    KSlack(repair=1, horizon_min=50),
    Punctuated(),
    Punctuated(horizon_min=100),
]
SPECULATIVE: list[Ordering] = [
    Speculative(alpha=0.0, retraction="full"),
    Speculative(alpha=0.0, retraction="on-demand"),
    Speculative(alpha=0.6, retraction="auto"),
]
DELAYS = [0, 0, 0, 5, 40, 300]
FAR_DELAYS = [*DELAYS, 900, 2500]


@st.composite
def streams(draw: st.DrawFn, types: str = "AB", delays: list[int] | None = None) -> list[Event]:
    """Events in arrival order; times repeat, and publishers number theirs as they occur."""
    parts = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 1, 7, 120]),
                st.sampled_from([(type, publisher) for type in types for publisher in "pq"]),
                st.sampled_from(delays or FAR_DELAYS),
                st.integers(0, 9),
            ),
            min_size=1,
            max_size=30,
        )
    )
    ts, numbers, made = 1000, dict[Any, int](), []
    for i, (step, source, delay, v) in enumerate(parts):
        ts += step
        numbers[source] = numbers.get(source, 0) + 1
        made.append((ts + delay, i, Event(source[0], ts, {"v": v}, source[1], numbers[source])))
    return [event for _, _, event in sorted(made, key=lambda entry: entry[:2])]


def run_cut(hierarchy: Hierarchy, parts: list[list[Any]], ordering: Ordering) -> Run:
    """A run whose arrivals are taken part by part."""
    host = Host(hierarchy, hierarchy.orderings(ordering))
    result = Run(clk=host.clk)
    for part in [*parts, host.end()]:
        result.record(host.step(part))
    result.conclude([host], host.intake)
    return result


@st.composite
def cuts(draw: st.DrawFn, items: list[Any]) -> list[list[Any]]:
    places = draw(st.lists(st.integers(0, len(items)), max_size=6))
    return [items[a:b] for a, b in pairwise([0, *sorted(places), len(items)])]


@st.composite
def mixed(draw: st.DrawFn, items: list[Any], others: st.SearchStrategy[Any]) -> list[Any]:
    """Some more things in between."""
    result = list(items)
    for other in draw(st.lists(others, min_size=1, max_size=6)):
        result.insert(draw(st.integers(0, len(result))), other)
    return result


def essence(result: Run) -> dict[str, Any]:
    """Everything about a run that may not depend on how its arrivals were handed over."""
    stats = result.stats["tally"]
    return {
        "final": result.final,
        "late": sorted((late.event, late.stable) for late in result.late),
        "clk": result.clk,
        "k": stats.k,
        "k_history": stats.k_history,
        "counts": (stats.received, stats.emitted, stats.late, stats.buffered, stats.reordered),
    }


# ---- cutting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("hierarchy", [one_type, two_types, one_clock], ids=["A", "AB", "AB by A"])
@given(data=st.data())
def test_any_cutting_of_the_arrivals_gives_the_same_run(
    hierarchy: Hierarchy, data: st.DataObject
) -> None:
    arrivals = data.draw(streams("A" if hierarchy is one_type else "AB"))
    ordering = data.draw(st.sampled_from(ORDERINGS))
    parts = data.draw(cuts(arrivals))
    whole = essence(run_cut(hierarchy, [arrivals], ordering))
    assert essence(run_cut(hierarchy, parts, ordering)) == whole
    assert essence(run(hierarchy, arrivals, ordering, chunk_rows=1)) == whole


def test_the_clock_that_a_late_event_found_does_not_depend_on_the_cutting() -> None:
    times = [("A", 1001), ("B", 1000), ("A", 1008)]
    arrivals = [Event(type, ts, {"v": 0}, "p", i) for i, (type, ts) in enumerate(times, 1)]
    found = [
        [late.clk for late in run(two_types, arrivals, KSlack(repair=0), chunk_rows=rows).late]
        for rows in (1, 1000)
    ]
    assert found == [[1001], [1001]]


class Dated(Detector):
    """Dates what it publishes back by as much as the event says."""

    listens = ("A",)
    publishes = ("L",)

    def on_event(self, event: Event, emit: Emit) -> None:
        emit("L", event.ts - 10 * event.data["v"], v=event.data["v"])


two_levels = hierarchy_of(Tally("L", "B")).add("low", Dated())


@given(data=st.data(), arrivals=streams())
def test_a_hierarchy_ends_the_same_however_its_arrivals_are_cut(
    data: st.DataObject, arrivals: list[Event]
) -> None:
    whole = run(two_levels, arrivals)
    parts = run_cut(two_levels, data.draw(cuts(arrivals)), KSlack())
    assert parts.final == whole.final
    assert {late.event for late in parts.late} == {late.event for late in whole.late}


def test_a_broken_promise_is_seen_however_the_arrivals_are_cut() -> None:
    early = [Event("A", ts, {"v": 0}, "p", ts) for ts in (1, 2)]
    later = [Event("A", ts, {"v": 0}, "p", ts) for ts in (50, 200, 300)]
    arrivals = [*early, Stable("A", 100), *later]
    one, whole = (run(one_type, arrivals, Punctuated(), chunk_rows=rows).late for rows in (1, 1000))
    assert [late.event for late in one] == [late.event for late in whole]


# ---- batches ---------------------------------------------------------------------------------


def batched(arrivals: list[Event]) -> Iterator[Event | EventBatch]:
    """Neighbours of one publisher and type as a batch."""
    together: list[Event] = []
    for event in [*arrivals, None]:
        if event and together and event.name[:2] == together[0].name[:2]:
            together.append(event)
            continue
        if together:
            first = together[0]
            columns = {"v": [e.data["v"] for e in together]}
            ts, seq = [e.ts for e in together], [e.seq for e in together]
            yield EventBatch(first.type, ts, columns, first.publisher, seq)
        together = [event] if event else []


@pytest.mark.parametrize(
    "detector", [Tally("A", "B"), ColumnTally("A", "B")], ids=["event", "batch"]
)
@given(data=st.data())
def test_a_stream_handed_over_in_batches_gives_the_same_final_output(
    detector: Detector, data: st.DataObject
) -> None:
    hierarchy = hierarchy_of(detector)
    arrivals = data.draw(streams())
    ordering = data.draw(st.sampled_from(ORDERINGS))
    chunk_rows = data.draw(st.sampled_from([2, 5, 1000]))
    some = data.draw(st.integers(0, len(arrivals)))
    expected = run(two_types, arrivals, ordering)
    for batches in ([*batched(arrivals)], [*arrivals[:some], *batched(arrivals[some:])]):
        result = run(hierarchy, batches, ordering, chunk_rows=chunk_rows)
        assert result.final == expected.final
        assert sorted(late.event for late in result.late) == sorted(
            late.event for late in expected.late
        )


def test_the_batches_are_long_enough_to_be_given_as_columns() -> None:
    given = []

    class Watch(ColumnTally):
        def on_batch(self, batch: EventBatch, emit: Any) -> None:
            given.append(len(batch))

    events = [Event("A", ts, {"v": 1}, "p", ts) for ts in range(1, 30)]
    run(hierarchy_of(Watch("A")), [*batched(events)])
    assert given


# ---- what must not matter --------------------------------------------------------------------


malformed = st.sampled_from(
    [
        Event("A", float("nan"), {"v": 1}, "p", 1),  # type: ignore[arg-type]
        Event("A", 10**30, {"v": 1}, "p", 1),
        Event("A", "1000", {"v": 1}, "p", 1),  # type: ignore[arg-type]
        Event("B", 1000, {"v": 1}, "p", -5),
        Event("B", 1000, {"v": 1}, None, 1),  # type: ignore[arg-type]
        Event("A", 1000, [1], "q", 1),  # type: ignore[arg-type]
        Event(["A"], 1000, {"v": 1}, "p", 1),  # type: ignore[arg-type]
        EventBatch("A", [1000, 1001], {"v": [1]}, "p", [1, 2]),
        EventBatch("B", [True, False], {"v": [1, 2]}, "p", [1, 2]),
        EventBatch("A", [float("nan")], {"v": [1]}, "p", [1]),
        None,
        "A",
    ]
)


@given(arrivals=streams(), ordering=st.sampled_from(ORDERINGS), data=st.data())
def test_malformed_arrivals_change_nothing_but_what_is_rejected(
    arrivals: list[Event], ordering: Ordering, data: st.DataObject
) -> None:
    with_malformed = data.draw(mixed(arrivals, malformed))
    clean = run(two_types, arrivals, ordering)
    for chunk_rows in (1, 1000):
        result = run(two_types, with_malformed, ordering, chunk_rows=chunk_rows)
        assert essence(result) == essence(clean)
        assert len(result.rejected) == len(with_malformed) - len(arrivals)
        assert result.stats["tally"].rejected == len(result.rejected)


@st.composite
def with_repeats(draw: st.DrawFn, arrivals: list[Event]) -> list[Event]:
    result = list(arrivals)
    for place in draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=8)):
        again = place % len(result)
        result.insert(draw(st.integers(again + 1, len(result))), result[again])
    return result


def without_counts_of_repeats(result: Run) -> dict[str, Any]:
    return {what: value for what, value in essence(result).items() if what != "counts"}


@given(arrivals=streams("A"), ordering=st.sampled_from(ORDERINGS), data=st.data())
def test_repeated_arrivals_change_nothing_but_the_count_of_duplicates(
    arrivals: list[Event], ordering: Ordering, data: st.DataObject
) -> None:
    repeated = data.draw(with_repeats(arrivals))
    clean = run(one_type, arrivals, ordering)
    for chunk_rows in (1, 3, 1000):
        result = run(one_type, repeated, ordering, chunk_rows=chunk_rows)
        assert essence(result) == essence(clean)
        assert result.stats["tally"].duplicates == len(repeated) - len(arrivals)


@given(arrivals=streams(delays=DELAYS), data=st.data())
def test_repeats_of_the_clock_type_among_others_change_no_final_output(
    arrivals: list[Event], data: st.DataObject
) -> None:
    """They do change K: at a repeated clock event, too, the delays of others are measured."""
    repeated = data.draw(with_repeats(arrivals))
    for hierarchy in (two_types, one_clock):
        result = run(hierarchy, repeated, chunk_rows=data.draw(st.sampled_from([1, 4, 1000])))
        assert result.final == run(hierarchy, arrivals).final == truth(hierarchy, arrivals)
        assert result.late == []


# ---- exactness -------------------------------------------------------------------------------


@given(
    arrivals=streams(),
    hierarchy=st.sampled_from([two_types, one_clock]),
    chunk_rows=st.sampled_from([1, 3, 1000]),
)
def test_without_repair_every_event_is_given_in_order_or_is_on_the_late_channel(
    arrivals: list[Event], hierarchy: Hierarchy, chunk_rows: int
) -> None:
    result = run(hierarchy, arrivals, KSlack(repair=0), chunk_rows=chunk_rows)
    stats = result.stats["tally"]
    assert stats.received == len(arrivals)
    assert stats.received == stats.emitted + stats.late
    assert stats.late == len(result.late)
    late = {entry.event.name for entry in result.late}
    assert len(late) == len(result.late)
    assert result.final == truth(hierarchy, [e for e in arrivals if e.name not in late])


@given(
    arrivals=streams(),
    ordering=st.sampled_from([*ORDERINGS, *SPECULATIVE]),
    hierarchy=st.sampled_from([two_types, one_clock]),
    chunk_rows=st.sampled_from([1, 3, 1000]),
)
def test_the_final_output_is_the_truth_of_what_was_not_late(
    arrivals: list[Event], ordering: Ordering, hierarchy: Hierarchy, chunk_rows: int
) -> None:
    result = run(hierarchy, arrivals, ordering, chunk_rows=chunk_rows)
    late = {entry.event.name for entry in result.late}
    assert result.final == truth(hierarchy, [e for e in arrivals if e.name not in late])
    assert result.stats["tally"].buffered == 0


@given(
    numbers=st.lists(st.tuples(st.integers(0, 999), st.sampled_from("AB"), st.sampled_from("pq")),
                     min_size=1, max_size=30),
    ordering=st.sampled_from([None, KSlack(k=0), KSlack(margin=2.0), Punctuated(), *SPECULATIVE]),
    chunk_rows=st.sampled_from([1, 4, 1000]),
)  # fmt: skip
def test_any_arrival_order_of_times_within_one_second_ends_in_truth(
    numbers: list[Any], ordering: Ordering | None, chunk_rows: int
) -> None:
    """The list is the arrival order: any permutation of any times."""
    arrivals = [
        Event(type, ts, {"v": ts % 10}, publisher, i + 1)
        for i, (ts, type, publisher) in enumerate(numbers)
    ]
    result = run(one_clock, arrivals, ordering, chunk_rows=chunk_rows)
    assert result.late == []
    assert result.final == truth(one_clock, arrivals)


def test_times_within_one_second_end_in_truth_with_several_clock_types_too() -> None:
    times = [("A", 403), ("B", 0), ("A", 0), ("B", 598), ("A", 0)]
    arrivals = [Event(type, ts, {"v": 0}, "p", i) for i, (type, ts) in enumerate(times, 1)]
    result = run(two_types, arrivals, chunk_rows=1)
    assert result.late == []
    assert result.final == truth(two_types, arrivals)


@pytest.mark.parametrize("ordering", [KSlack(), *SPECULATIVE])
def test_late_events_of_one_step_are_put_right_with_snapshots_between_them(
    ordering: Ordering,
) -> None:
    times = [*range(0, 800, 2), 101, 799, 301, 801]
    arrivals = [Event("A", ts, {"v": ts % 10}, "p", i) for i, ts in enumerate(times, 1)]
    parts = [arrivals[i : i + 40] for i in range(0, 400, 40)]
    result = run_cut(one_type, [*parts, arrivals[400:]], ordering)
    assert result.stats["tally"].replayed > 300
    assert result.final == truth(one_type, arrivals)


@given(arrivals=streams(), ordering=st.sampled_from([*ORDERINGS, *SPECULATIVE]))
def test_the_log_adds_up_to_the_final_output(arrivals: list[Event], ordering: Ordering) -> None:
    """Each name is added, perhaps retracted and added again with more revisions, then final."""
    result = run(two_types, arrivals, ordering, chunk_rows=1)
    standing: dict[Any, tuple[int, Event]] = {}
    revisions: dict[Any, int] = {}
    final = []
    for entry in result.log:
        name = entry.event.name
        if entry.kind == "add":
            assert name not in standing
            assert entry.rev == revisions.get(name, -1) + 1
            standing[name], revisions[name] = (entry.rev, entry.event), entry.rev
        else:
            assert standing.pop(name) == (entry.rev, entry.event)
            final += [entry.event] if entry.kind == "final" else []
    assert standing == {}
    assert sorted(final) == result.final
