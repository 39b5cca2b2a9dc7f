"""The worked examples of the theory, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slackline import Automaton, Detector, Event, Hierarchy, KSlack, run, truth
from slackline.events import TS_MIN
from slackline.host import Host
from slackline.initialise import jitter_delays


class Echo(Detector):
    """Publishes what it is given, in the order it is given."""

    listens = ("A", "B", "C")
    publishes = ("heard",)

    def on_event(self, event, emit):
        emit("heard", event.ts, what=f"{event.type}{event.ts}")


class KickedAway(Automaton):
    """A, then no B, then C."""

    listens = ("A", "B", "C")
    publishes = ("D",)

    def __init__(self):
        super().__init__()
        idle, near, kicked = self.state("idle"), self.state("near"), self.state("kicked", self.fire)
        self.connect(idle, near, "A")
        self.connect(near, idle, "B")
        self.connect(near, kicked, "C")
        self.connect(kicked, near, "A")
        self.connect(kicked, idle, "B")

    def fire(self, event, emit):
        emit("D", event.ts)


def arrivals(text):
    numbers: dict[str, int] = {}
    events = []
    for word in text.split():
        type_ = word[0]
        numbers[type_] = numbers.get(type_, 0) + 1
        events.append(Event(type_, int(word[1:]), {}, "sensor", numbers[type_]))
    return events


STREAM = "A0 A2 C1 A4 B3 C5 A6 B10 A11 B14 E20 C12"


@dataclass(frozen=True)
class After:
    arrival: str
    clk: int
    k: int
    buffer: str
    output: str


# The first event of a stream waits for a second one of the clock type, which confirms it; what
# is let through when does not depend on that.
FIGURE_3_7 = [
    After("A0", TS_MIN, 0, "A0", ""),
    After("A2", 2, 0, "", "A0 A2"),
    After("C1", 2, 0, "C1", ""),
    After("A4", 4, 3, "A4", "C1 A2"),
    After("B3", 4, 3, "B3 A4", ""),
    After("C5", 4, 3, "B3 A4 C5", ""),
    After("A6", 6, 3, "A4 C5 A6", "B3"),
    After("B10", 6, 3, "A4 C5 A6 B10", ""),
    After("A11", 11, 3, "B10 A11", "A4 C5 A6"),
    After("B14", 11, 3, "B10 A11 B14", ""),
    After("E20", 11, 3, "B10 A11 B14", ""),
    After("C12", 11, 3, "B10 A11 C12 B14", ""),
]


def test_the_ordering_unit_of_figure_3_7_goes_through_the_states_of_the_text():
    hierarchy = Hierarchy("figure", clock=("A",)).add("echo", Echo())
    host = Host(hierarchy)
    received: list[Event] = []
    passed: list[str] = []
    for event, after in zip(arrivals(STREAM), FIGURE_3_7, strict=True):
        outcome = host.step([event]).get("echo")
        said = [] if outcome is None else outcome.messages
        heard = [m.event.data["what"] for m in said if type(m).__name__ == "Add"]
        if event.type in Echo.listens:
            received.append(event)
        # C1 puts the past right: it goes in front of A2, which is given to the detector again.
        passed += [what for what in heard if what not in passed]
        waiting = [f"{e.type}{e.ts}" for e in sorted(received) if f"{e.type}{e.ts}" not in passed]
        assert (
            After(
                f"{event.type}{event.ts}",
                host.clk,
                host.cells["echo"].unit.k,
                " ".join(waiting),
                " ".join(heard),
            )
            == after
        )


def test_only_c1_is_out_of_order_in_figure_3_7_without_repair():
    hierarchy = Hierarchy("figure", clock=("A",)).add("echo", Echo())
    result = run(hierarchy, arrivals(STREAM), KSlack(repair=0))
    assert [late.event.type + str(late.event.ts) for late in result.late] == ["C1"]
    order = [entry.event.data["what"] for entry in result.log if entry.kind == "add"]
    assert order == ["A0", "A2", "B3", "A4", "C5", "A6", "B10", "A11", "C12", "B14"]
    assert result.stats["echo"].k_history == [(4, 3)]


def test_figure_3_7_detects_what_the_ordered_stream_contains():
    hierarchy = Hierarchy("figure", clock=("A",)).add("kick", KickedAway())
    events = arrivals(STREAM)
    result = run(hierarchy, events)
    assert [event.ts for event in result.final] == [1, 5, 12]
    assert result.final == truth(hierarchy, events)


def test_a_clock_of_two_types_learns_their_relative_delay():
    hierarchy = Hierarchy("clocks", clock=("A", "B")).add("echo", Echo())
    host = Host(hierarchy)
    clocks = []
    for event in arrivals("A0 A3 B2 A6 A9 B20"):
        host.step([event])
        clocks.append(host.clk)
    assert clocks[1:] == [3, 3, 6, 9, 21]


def test_two_clock_types_with_different_delays_do_not_run_the_clock_ahead():
    """Times of the text ×10: B is 2.4 quicker than A, and forms an ordered stream with it."""
    events = arrivals("A0 X1 Y0 A30 X31 X55 A60 B89 Y50 A90")

    class Pair(Detector):
        listens = ("X", "Y")
        publishes = ("heard",)

        def on_event(self, event, emit):
            emit("heard", event.ts, what=f"{event.type}{event.ts}")

    hierarchy = Hierarchy("dilemma", clock=("A", "B")).add("pair", Pair())
    result = run(hierarchy, events, KSlack(repair=0), chunk_rows=1)
    order = [entry.event.data["what"] for entry in result.log if entry.kind == "add"]
    assert order == ["Y0", "X1", "X31", "Y50", "X55"]
    assert result.late == []
    assert run(hierarchy, events).final == truth(hierarchy, events)


def test_the_jitter_of_a_position_is_what_it_took_longer_than_the_quickest_before_it():
    assert jitter_delays(ts=[12, 9], ats=[13, 14]).tolist() == [0, 4]


@pytest.mark.parametrize("chunk_rows", [1, 2, 5, 100])
def test_figure_3_7_comes_out_the_same_however_the_arrivals_are_cut(chunk_rows):
    hierarchy = Hierarchy("figure", clock=("A",)).add("kick", KickedAway())
    result = run(hierarchy, arrivals(STREAM), chunk_rows=chunk_rows)
    assert [(e.kind, e.event.ts, e.clk) for e in result.log if e.kind == "add"] == [
        ("add", 1, 4),
        ("add", 5, 11),
        ("add", 12, 11),
    ]
