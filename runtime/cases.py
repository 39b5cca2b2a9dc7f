"""Random hierarchies and streams, made from a seed: the testing kit.

``case(seed)`` always makes the same case. Every delay stays inside the default horizon, so
whatever runs a case must end with exactly ``truth``; ``differences`` says where it does not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackline.automaton import Automaton
from slackline.detector import BatchEmit, Detector, Emit
from slackline.events import Event, EventBatch
from slackline.hierarchy import Hierarchy
from slackline.local import Run, run
from slackline.policy import KSlack, Ordering, Punctuated, Speculative
from slackline.simulate import random_faults, simulate
from slackline.truth import truth

__all__ = ["Case", "Verdict", "case", "differences", "verify_run", "verify_simulate"]

DELAY_MAX = 400
BURST_MAX = 400
"""Together below the default horizon of one second."""


class Absence(Automaton):
    """First, then no breaker, then last: the pattern with a negated middle."""

    def __init__(self, listens: tuple[str, str, str], publishes: str, backset: int) -> None:
        super().__init__()
        self.listens, self.publishes = listens, (publishes,)
        self.backset, self.first_ts = backset, 0
        first, breaker, last = listens
        idle, armed = self.state("idle"), self.state("armed", entry=self.remember)
        fired = self.state("fired", entry=self.fire)
        self.connect(idle, armed, first)
        self.connect(armed, idle, breaker)
        self.connect(armed, armed, first)
        self.connect(armed, fired, last, guard=lambda event: event.ts >= self.first_ts)
        self.connect(fired, armed, first)
        self.connect(fired, idle, breaker)

    def remember(self, event: Event, emit: Emit) -> None:
        self.first_ts = event.ts

    def fire(self, event: Event, emit: Emit) -> None:
        ts = self.first_ts if self.backset < 0 else event.ts - self.backset
        emit(self.publishes[0], ts, v=event.data["v"], since=self.first_ts)


class Tally(Detector):
    """Publishes every ``every``-th event with a running sum."""

    def __init__(self, listens: tuple[str, ...], publishes: str, every: int, backset: int) -> None:
        self.listens, self.publishes = listens, (publishes,)
        self.every, self.backset = every, backset
        self.count = self.total = 0

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        self.total = (self.total * 31 + event.data["v"]) % 1_000_003
        if self.count % self.every == 0:
            emit(self.publishes[0], event.ts - self.backset, v=self.total % 10, n=self.count)


class Crowd(Detector):
    """Publishes when at least ``least`` events lie within ``span``; dates into the future."""

    def __init__(self, listens: tuple[str, ...], publishes: str, span: int, least: int) -> None:
        self.listens, self.publishes = listens, (publishes,)
        self.span, self.least = span, least
        self.times: list[int] = []

    def on_event(self, event: Event, emit: Emit) -> None:
        self.times = [ts for ts in self.times if ts > event.ts - self.span] + [event.ts]
        if len(self.times) >= self.least:
            emit(self.publishes[0], event.ts + self.span // 4, v=len(self.times))
            self.times.clear()


class Changes(Detector):
    """Publishes when the value of a publisher differs from its last one, in columns or not."""

    def __init__(self, listens: tuple[str, ...], publishes: str, modulus: int, names: bool) -> None:
        self.listens, self.publishes = listens, (publishes,)
        self.modulus, self.names_rows, self.last = modulus, names, -1

    def on_event(self, event: Event, emit: Emit) -> None:
        value = event.data["v"] % self.modulus
        if value != self.last:
            self.last = value
            emit(self.publishes[0], event.ts, v=value)

    def on_batch(self, batch: EventBatch, emit: BatchEmit) -> None:
        values = batch.columns["v"] % self.modulus
        changed = np.flatnonzero(np.diff(values, prepend=self.last))
        for row in changed.tolist():
            if self.names_rows:
                emit.at(row)
            emit(self.publishes[0], int(batch.ts[row]), v=int(values[row]))
        self.last = int(values[-1])


@dataclass(frozen=True, slots=True)
class Case:
    """A hierarchy, arrivals in arrival order, and how they were made."""

    seed: int
    hierarchy: Hierarchy
    arrivals: list[Event | EventBatch]
    ordering: Ordering | dict[str, Ordering] | None
    description: str


ALPHAS = (0, 0.1, 0.33, 0.7, 1, "auto")
RETRACTIONS = ("full", "on-demand", "auto")


def case(seed: int, events_max: int = 240, speculative: bool = False) -> Case:
    """The case of this seed; ``speculative`` gives every detector a speculative policy."""
    rng = random.Random(f"slackline {seed}")
    hierarchy, sources = _hierarchy(rng)
    count = rng.randint(1, events_max)
    disorder = rng.choice([0.0, 0.05, 0.3, 0.6, 0.95])
    events = _arrivals(rng, sources, count, disorder)
    arrivals: list[Event | EventBatch] = list(events)
    if rng.random() < 0.5:
        arrivals = _batched(rng, events)
    orderings: list[Ordering | dict[str, Ordering] | None] = [
        None,
        KSlack(),
        KSlack(margin=0.5),
        KSlack(window=300, margin=rng.choice([0, 1])),
        KSlack(k=rng.choice([0, 5, 100])),
        Punctuated(),
        {node.name: KSlack() if rng.random() < 0.5 else Punctuated() for node in hierarchy},
    ]
    ordering = rng.choice(orderings)
    if speculative:
        ordering = {
            node.name: Speculative(rng.choice(ALPHAS), rng.choice(RETRACTIONS))
            for node in hierarchy
        }
        if rng.random() < 0.5:
            ordering = ordering[rng.choice(list(ordering))]
    description = (
        f"{len(hierarchy)} detectors on {len(hierarchy.levels)} levels, {count} events of "
        f"{len(sources)} types, disorder {disorder:.0%}, clock {hierarchy.clock or 'all'}, "
        f"ordering {ordering}"
    )
    return Case(seed, hierarchy, arrivals, ordering, description)


def _hierarchy(rng: random.Random) -> tuple[Hierarchy, list[str]]:
    sources = [f"s{i}" for i in range(rng.randint(1, 4))]
    clock: Iterable[str] = rng.choice([(), sources[:1], sources[:2]])
    hierarchy = Hierarchy("random", clock=clock)
    below = list(sources)
    for level in range(rng.randint(1, 5)):
        published = []
        for i in range(rng.randint(1, 3)):
            name = f"d{level}{i}"
            hierarchy.add(name, _detector(rng, below, f"t{level}{i}"))
            published.append(f"t{level}{i}")
        below = [*rng.sample(below, min(2, len(below))), *published]
    return hierarchy, sources


def _detector(rng: random.Random, types: list[str], publishes: str) -> Detector:
    some = tuple(rng.sample(types, rng.randint(1, min(3, len(types)))))
    backset = rng.choice([0, 0, 0, rng.randint(1, 60)])
    kind = rng.randrange(4)
    if kind == 0:
        three = (some * 3)[:3]
        return Absence(
            (three[0], three[1], three[2]) if len(set(three)) == 3 else _three(rng, types),
            publishes,
            rng.choice([backset, -1]),
        )
    if kind == 1:
        return Tally(some, publishes, rng.randint(1, 5), backset)
    if kind == 2:
        return Crowd(some, publishes, rng.randint(4, 80), rng.randint(2, 4))
    return Changes(some, publishes, rng.randint(2, 4), rng.random() < 0.5)


def _three(rng: random.Random, types: list[str]) -> tuple[str, str, str]:
    return (rng.choice(types), rng.choice(types), rng.choice(types))


def _arrivals(rng: random.Random, sources: list[str], count: int, disorder: float) -> list[Event]:
    """Events of several publishers, each with delays of its own, sometimes in bursts."""
    publishers = [
        (type_, f"p{i}", rng.randint(0, DELAY_MAX // 2))
        for type_ in sources
        for i in range(rng.randint(1, 3))
    ]
    spread = rng.choice([1, 3, 10, 40])
    burst_from = rng.randint(0, count * spread)
    burst = rng.choice([0, 0, BURST_MAX])
    numbers: Counter[tuple[str, str]] = Counter()
    made: list[tuple[float, int, Event]] = []
    ts = rng.choice([0, 1_000_000])
    first = ts
    for i in range(count):
        ts += rng.choice([0, rng.randint(0, 2 * spread)])
        type_, publisher, base = rng.choice(publishers)
        numbers[type_, publisher] += 1
        delay = base if disorder else 0
        if rng.random() < disorder:
            delay = base + rng.randint(0, DELAY_MAX // 2)
            if burst_from <= ts - first <= burst_from + 20 * spread:
                delay += rng.randint(0, burst)
        data: dict[str, Any] = {"v": rng.randint(0, 9)}
        event = Event(type_, ts, data, publisher, numbers[type_, publisher])
        made.append((ts + delay, i, event))
    return [event for _, _, event in sorted(made, key=lambda entry: entry[:2])]


def _batched(rng: random.Random, events: list[Event]) -> list[Event | EventBatch]:
    """Cut arrivals into batches where one publisher speaks several times in a row."""
    result: list[Event | EventBatch] = []
    run: list[Event] = []
    for event in [*events, None]:
        if (
            event is not None
            and run
            and (event.type, event.publisher)
            == (
                run[-1].type,
                run[-1].publisher,
            )
        ):
            run.append(event)
            continue
        if len(run) > 1 and rng.random() < 0.8:
            values = np.array([e.data["v"] for e in run])
            times, numbers = [e.ts for e in run], [e.seq for e in run]
            result.append(EventBatch(run[0].type, times, {"v": values}, run[0].publisher, numbers))
        else:
            result += run
        run = [] if event is None else [event]
    return result


def differences(expected: list[Event], got: list[Event]) -> list[str]:
    """What is missing from ``got`` and what it has too much, a line each; empty if exact."""
    if expected == got:
        return []
    wanted, found = set(expected), set(got)
    lines = [f"missing  {event}" for event in expected if event not in found]
    lines += [f"too much {event}" for event in got if event not in wanted]
    lines += [f"doubled  {event}" for event, count in Counter(got).items() if count > 1]
    return lines or ["the same events in another order"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case went: ``wrong`` is empty when the final output was exactly truth."""

    case: Case
    run: Run
    wrong: list[str]


def verify_run(seed: int, chunk_rows: int | None = None, speculative: bool = False) -> Verdict:
    """Run the case of this seed in process, cut into steps at random or as told."""
    made = case(seed, speculative=speculative)
    rows = chunk_rows or random.Random(seed).choice([1, 3, 17, 100, 8192])
    result = run(made.hierarchy, made.arrivals, made.ordering, chunk_rows=rows)
    return Verdict(made, result, _wrong(made, result))


def verify_simulate(seed: int, hosts: int = 3, speculative: bool = False) -> Verdict:
    """Run the case of this seed on simulated hosts with bad links, partitions and stalls."""
    made = case(seed, speculative=speculative)
    times = [ts for item in made.arrivals for ts in np.atleast_1d(item.ts).tolist()]
    names = [f"h{i + 1}" for i in range(hosts)]
    faults = random_faults(seed, names, min(times), max(times) + made.hierarchy.second)
    result = simulate(
        made.hierarchy, made.arrivals, seed, names, faults=faults, ordering=made.ordering
    )
    return Verdict(made, result, _wrong(made, result))


def _wrong(made: Case, result: Run) -> list[str]:
    """What breaks the guarantee: a final output that is not truth, a log that does not add up."""
    lines = differences(truth(made.hierarchy, made.arrivals), result.final)
    lines += [f"late     {late.event}: {late.cause}" for late in result.late]
    state: dict[tuple[str, str, int], str] = {}
    follows = {None: ["add"], "add": ["retract", "final"], "retract": ["add"], "final": []}
    for entry in result.log:
        before = state.get(entry.event.name)
        if entry.kind not in follows[before]:
            lines.append(f"log      {entry.kind} after {before}: {entry.event}")
        state[entry.event.name] = entry.kind
    lines += [f"log      {name} never became final" for name, k in state.items() if k == "add"]
    return lines
