"""Speculation on random cases: every α and retraction, α changing on the way; the end is truth."""

from __future__ import annotations

import random

import pytest

from slackline import Detector, Event, Hierarchy, Run, Speculative, run, simulate, truth
from slackline.cases import case, differences, verify_run, verify_simulate
from slackline.host import Host


def _failures(verdicts):
    return "\n".join(
        f"slackline simulate --speculative --seed {v.case.seed}    # {v.case.description}\n  "
        + "\n  ".join(v.wrong[:5])
        for v in verdicts
        if v.wrong
    )


def test_speculating_in_process_ends_with_truth(seeds):
    failures = _failures(verify_run(seed, speculative=True) for seed in seeds)
    assert not failures, failures


def test_speculating_on_simulated_hosts_ends_with_truth(seeds):
    failures = _failures(verify_simulate(seed, speculative=True) for seed in seeds)
    assert not failures, failures


def test_speculation_ends_with_truth_while_alpha_changes(seeds):
    for seed in seeds[::3]:
        rng = random.Random(seed)
        made = case(seed, speculative=True)
        host = Host(made.hierarchy, made.hierarchy.orderings(Speculative(0.5)))
        result = Run()
        for item in made.arrivals:
            result.record(host.step([item]))
            if rng.random() < 0.2:
                host.set_alpha(rng.choice(list(host.cells)), rng.choice([0, 0.1, 0.33, 0.7, 1]))
        result.record(host.step(host.end()))
        wrong = differences(truth(made.hierarchy, made.arrivals), sorted(result.final))
        assert not wrong, (seed, made.description, wrong[:5])


def test_speculation_is_earlier_and_is_corrected():
    early = late = corrected = 0
    for seed in range(40):
        made = case(seed)
        for alpha in (0, 1):
            result = run(made.hierarchy, made.arrivals, Speculative(alpha))
            total = sum(
                s.latency.mean * s.latency.count for s in result.stats.values() if s.latency.count
            )
            if alpha:
                late += total
            else:
                early += total
                corrected += sum(s.retracted for s in result.stats.values())
    assert early < 0.8 * late
    assert corrected > 100


class Fragile(Detector):
    """Cannot take a C before its A."""

    listens = ("A", "C")
    publishes = ("D",)

    def __init__(self):
        self.open: list[int] = []

    def on_event(self, event, emit):
        if event.type == "A":
            self.open.append(event.data["id"])
        else:
            self.open.remove(event.data["id"])
            emit("D", event.ts, id=event.data["id"])


def _fragile_stream(pairs, delay):
    events = []
    for i in range(pairs):
        events.append((20 * i, Event("T", 20 * i, {}, "clock", i + 1)))
        a = Event("A", 20 * i + 1, {"id": i}, "a", i + 1)
        c = Event("C", 20 * i + 3, {"id": i}, "c", i + 1)
        events += [(20 * i + 1 + delay, a), (20 * i + 3, c)]
    return [event for _, event in sorted(events, key=lambda entry: entry[0])]


def test_a_detector_that_raises_on_premature_events_is_rolled_back_and_stops_speculating():
    hierarchy = Hierarchy("fragile", clock=("T",)).add("D", Fragile(), Speculative(alpha=0))
    events = _fragile_stream(pairs=60, delay=25)
    result = run(hierarchy, events)
    assert result.final == truth(hierarchy, events)
    assert len(result.final) == 60
    assert result.dead_letters == []
    assert result.stats["D"].premature_faults == 3
    assert result.stats["D"].alpha == 1.0


def test_an_error_on_an_event_in_its_right_order_goes_to_the_dead_letters():
    hierarchy = Hierarchy("fragile", clock=("T",)).add("D", Fragile(), Speculative(alpha=0))
    events = _fragile_stream(pairs=20, delay=5)
    orphan = Event("C", 205, {"id": 999}, "c", 21)
    letters = []
    expected = truth(hierarchy, [*events, orphan], letters)
    result = run(hierarchy, [*events[:40], orphan, *events[40:]])
    assert result.final == expected
    assert [letter.event for letter in result.dead_letters] == [orphan]
    assert [event for _, event, _ in letters] == [orphan]
    assert isinstance(result.dead_letters[0].error, ValueError)


def test_a_consumer_can_have_final_output_only_or_all_with_corrections():
    made = case(3, speculative=True)
    everything, final = [], []
    run(made.hierarchy, made.arrivals, Speculative(0), on_output=everything.append)
    run(made.hierarchy, made.arrivals, Speculative(0), on_output=final.append, mode="final")
    assert {entry.kind for entry in final} == {"final"}
    assert {entry.kind for entry in everything} >= {"add", "final"}
    assert [e for e in everything if e.kind == "final"] == final


@pytest.mark.parametrize("retraction", ["full", "on-demand", "auto"])
def test_simulated_hosts_speculate_when_they_are_idle_and_wait_when_they_are_not(retraction):
    from slackline import SimulatedHost

    made = case(12)
    policy = Speculative("auto", retraction)
    latency = {}
    for cost in (0.0, 30.0):
        result = simulate(
            made.hierarchy, made.arrivals, 1, [SimulatedHost("h1", cost)], ordering=policy
        )
        assert result.final == truth(made.hierarchy, made.arrivals)
        latency[cost] = [s.alpha for s in result.stats.values()]
    assert min(latency[0.0]) < 1.0
    assert set(latency[30.0]) == {1.0}
