"""The worked examples of speculation: what is given to the detector, taken back, given again."""

from __future__ import annotations

import pytest

from slackline import Automaton, Detector, Event, Hierarchy, Speculative, run, truth
from slackline.host import Host
from slackline.messages import Add, Retract, RetractAbove

GIVEN: list[str] = []
"""What the detector under test was given; deliberately not part of its state."""


class Spy(Detector):
    listens = ("A", "B", "C")
    publishes = ("heard",)

    def on_event(self, event, emit):
        GIVEN.append(f"{event.type}{event.ts}")


class Numbered(Automaton):
    """A, then no B, then C gives D, dated back to the A."""

    listens = ("A", "B", "C")
    publishes = ("D",)

    def __init__(self):
        super().__init__()
        self.since = 0
        idle, near = self.state("idle"), self.state("near", self.remember)
        kicked = self.state("kicked", self.fire)
        self.connect(idle, near, "A")
        self.connect(near, idle, "B")
        self.connect(near, kicked, "C")
        self.connect(kicked, near, "A")
        self.connect(kicked, idle, "B")

    def remember(self, event, emit):
        self.since = event.ts

    def fire(self, event, emit):
        emit("D", self.since)


def arrivals(text):
    numbers: dict[str, int] = {}
    events = []
    for word in text.split():
        numbers[word[0]] = numbers.get(word[0], 0) + 1
        events.append(Event(word[0], int(word[1:]), {}, "sensor", numbers[word[0]]))
    return events


# arrival, K after it, what the detector is given: figures 4.5 and 4.6. The very first event waits
# for a second clock event, which confirms it.
FIGURE_4_5 = [
    ("A0", 0, ""),
    ("A2", 0, "A0 A2"),
    ("C1", 0, "A0 C1 A2"),  # back to the snapshot, which is from before A0 here, and again
    ("A3", 2, ""),
    ("B4", 2, ""),
    ("A6", 2, "A3 B4"),
    ("C5", 2, "C5"),
    ("B8", 2, ""),
    ("C7", 2, ""),
    ("A11", 6, "A6 C7 B8"),
    ("B10", 6, ""),
    ("A12", 6, "B10"),
    ("C9", 6, "A0 C1 A2 A3 B4 C5 A6 C7 B8 C9 B10"),
]


def test_a_third_of_k_lets_events_through_as_in_figure_4_5():
    hierarchy = Hierarchy("figure", clock=("A",)).add("spy", Spy(), Speculative(alpha=1 / 3))
    host = Host(hierarchy)
    stream = arrivals(" ".join(word for word, _, _ in FIGURE_4_5))
    for event, (word, k, given) in zip(stream, FIGURE_4_5, strict=True):
        GIVEN.clear()
        host.step([event])
        assert (word, host.cells["spy"].unit.k, " ".join(GIVEN)) == (word, k, given)


def test_speculation_goes_wrong_only_twice_in_figure_4_5():
    hierarchy = Hierarchy("figure", clock=("A",)).add("spy", Spy(), Speculative(alpha=1 / 3))
    stats = run(hierarchy, arrivals(" ".join(w for w, _, _ in FIGURE_4_5))).stats["spy"]
    assert stats.repaired == 2


def test_with_alpha_1_figure_4_5_needs_no_correction_but_for_the_cold_start():
    hierarchy = Hierarchy("figure", clock=("A",)).add("spy", Spy(), Speculative(alpha=1))
    stats = run(hierarchy, arrivals(" ".join(w for w, _, _ in FIGURE_4_5))).stats["spy"]
    assert stats.repaired <= 1


@pytest.fixture
def after_b8():
    """Figure 4.7: A3, C5, A6, C7, B8 were taken prematurely and D3 and D6 were published."""

    def make(retraction):
        hierarchy = Hierarchy("figure", clock=("T",))
        hierarchy.add("D", Numbered(), Speculative(alpha=0, retraction=retraction))
        host = Host(hierarchy)
        said = []
        for event in arrivals("T0 T1 A3 C5 A6 C7 B8 T8"):
            outcome = host.step([event]).get("D")
            said += outcome.messages if outcome else []
        assert [(m.event.ts, m.event.seq) for m in said] == [(3, 1), (6, 2)]
        return host, hierarchy

    return make


def test_full_retraction_of_figure_4_7_sends_one_counter_and_publishes_anew(after_b8):
    host, _ = after_b8("full")
    said = host.step([Event("B", 4, {}, "sensor", 2)])["D"].messages
    assert isinstance(said[0], RetractAbove)
    assert (said[0].type, said[0].seq) == ("D", 0)
    assert [(type(m), m.event.ts, m.event.seq, m.rev) for m in said[1:]] == [(Add, 6, 1, 1)]


def test_on_demand_retraction_of_figure_4_7_sends_the_difference(after_b8):
    host, _ = after_b8("on-demand")
    said = host.step([Event("B", 4, {}, "sensor", 2)])["D"].messages
    assert [(type(m), m.event.ts, m.event.seq, m.rev) for m in said] == [
        (Retract, 3, 1, 0),
        (Retract, 6, 2, 0),
        (Add, 6, 1, 1),
    ]


def test_on_demand_retraction_sends_nothing_when_the_state_is_not_affected(after_b8):
    host, _ = after_b8("on-demand")
    assert host.step([Event("B", 2, {}, "sensor", 2)])["D"].messages == []


def test_full_retraction_takes_back_even_what_is_not_affected(after_b8):
    host, _ = after_b8("full")
    said = host.step([Event("B", 2, {}, "sensor", 2)])["D"].messages
    assert isinstance(said[0], RetractAbove)
    assert [(m.event.ts, m.event.seq) for m in said[1:]] == [(3, 1), (6, 2)]


@pytest.mark.parametrize("retraction", ["full", "on-demand", "auto"])
def test_every_way_of_retraction_ends_with_truth(retraction):
    events = arrivals("A0 A3 C5 A6 C7 A8 B8 B4 A12 C11 B10 A30")
    hierarchy = Hierarchy("figure", clock=("A",))
    hierarchy.add("D", Numbered(), Speculative(alpha=0, retraction=retraction))
    result = run(hierarchy, events)
    assert result.final == truth(hierarchy, events)
    assert any(entry.kind == "retract" for entry in result.log)


def test_what_is_published_early_says_by_how_much():
    hierarchy = Hierarchy("figure", clock=("A",))
    hierarchy.add("D", Numbered(), Speculative(alpha=0))
    host = Host(hierarchy)
    said = []
    for event in arrivals("A0 A10 C1 A20 C20 A21"):
        outcome = host.step([event]).get("D")
        said += outcome.messages if outcome else []
    last = [m for m in said if isinstance(m, Add)][-1]
    assert (host.cells["D"].unit.k, last.clk, last.lead) == (19, 20, 19)
