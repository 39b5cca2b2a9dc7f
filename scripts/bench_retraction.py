"""Full, on-demand and automatic retraction on detectors of different nature."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from bench_streams import Figure

from slackline import Automaton, Detector, Emit, Event, Hierarchy, Speculative
from slackline.cases import Tally
from slackline.paced import Paced, run_paced

PLAYERS = 22
RETRACTIONS = ("full", "on-demand", "auto")


class Hit(Automaton):
    """A player is near the ball and, before leaving it, the ball is accelerated."""

    publishes = ("hit",)
    listens = ("near", "not_near", "peak")
    backset_max = 0

    def __init__(self) -> None:
        super().__init__()
        self.who = -1
        away, near = self.state("away"), self.state("near", entry=self.remember)
        hit = self.state("hit", entry=self.fire)
        self.connect(away, near, "near")
        self.connect(near, away, "not_near", lambda event: event.data["v"] == self.who)
        self.connect(near, hit, "peak")
        self.connect(hit, near, "near")
        self.connect(hit, away, "not_near", lambda event: event.data["v"] == self.who)

    def remember(self, event: Event, emit: Emit) -> None:
        self.who = event.data["v"]

    def fire(self, event: Event, emit: Emit) -> None:
        emit("hit", event.ts, v=self.who)


class Pass(Detector):
    """Every event changes the state, and most change what is published next."""

    listens = ("near", "not_near", "peak")
    publishes = ("pass",)
    backset_max = 0

    def __init__(self) -> None:
        self.count = self.mixed = 0

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        self.mixed = (self.mixed * 31 + event.ts + event.data["v"]) % 1_000_003
        if self.count % 12 == 0:
            emit("pass", event.ts, v=self.mixed % 10)


class Filter(Detector):
    """Stateless: passes on what it is interested in."""

    listens = ("near", "not_near", "peak")
    publishes = ("interesting",)
    backset_max = 0

    def on_event(self, event: Event, emit: Emit) -> None:
        if event.data["v"] % 3 == 0:
            emit("interesting", event.ts, v=event.data["v"])


class Archive(Detector):
    """A large state of which an event changes little."""

    listens = ("near", "not_near", "peak")
    publishes = ("record",)
    backset_max = 0

    def __init__(self) -> None:
        self.last = {i: [0] * 100 for i in range(PLAYERS)}

    def on_event(self, event: Event, emit: Emit) -> None:
        history = self.last[event.data["v"]]
        history.append(event.ts)
        del history[0]
        if event.type == "peak" and event.ts - history[-3] < 60:
            emit("record", event.ts, v=event.data["v"])


SHAPES: dict[str, Callable[[], Detector]] = {
    "hit": Hit,
    "pass": Pass,
    "filter": Filter,
    "archive": Archive,
}


@dataclass(frozen=True)
class Result:
    """One shape under one retraction."""

    retracted: int
    cascade: int
    latency_ms: float
    alpha: float


def hierarchy(shape: str) -> Hierarchy:
    """The detector under test with three levels above it."""
    detector = SHAPES[shape]()
    made = Hierarchy(shape, clock=("tick",), unit="ms").add("lowest", detector)
    type_ = detector.publishes[0]
    made.add("counts", Tally((type_,), "counted", 2, 0))
    made.add("more", Tally((type_, "counted"), "counted_more", 3, 0))
    made.add("sums", Tally((type_, "counted_more"), "sum", 2, 0))
    made.add("all", Tally(("counted", "counted_more", "sum"), "everything", 3, 0))
    return made


def stream(seconds: float, seed: int = 5) -> list[tuple[float, Event]]:
    """Players come and go, the ball is kicked; proximity is known 5 to 45 ms late."""
    rng = random.Random(seed)
    made: list[tuple[float, Event]] = []
    numbers: dict[str, int] = {}

    def add(type_: str, ts: float, delay: float, v: int) -> None:
        numbers[type_] = numbers.get(type_, 0) + 1
        made.append((ts + delay, Event(type_, int(ts), {"v": v}, type_, numbers[type_])))

    for ms in range(0, int(seconds * 1000), 4):
        add("tick", ms, 1.0, 0)
    ts = 50.0
    while ts < seconds * 1000 - 200:
        who = rng.randrange(PLAYERS)
        add("near", ts, rng.uniform(5, 45), who)
        for _ in range(rng.randrange(4)):  # others pass by
            other = rng.randrange(PLAYERS)
            if other != who:
                add("not_near", ts + rng.uniform(1, 30), rng.uniform(5, 45), other)
        left = ts + rng.uniform(26, 50)
        add("not_near", left, rng.uniform(5, 45), who)
        if rng.random() < 0.5:
            dropped = rng.random() < 0.1  # the ball bounces after the player has left it
            kicked = left + rng.uniform(1, 8) if dropped else ts + rng.uniform(5, 25)
            add("peak", kicked, rng.uniform(1, 2), who)
        ts += rng.uniform(20, 70)
    return sorted(made, key=lambda entry: entry[0])


def measure(shape: str, retraction: str, arrivals: list[tuple[float, Event]]) -> Result:
    """Speculate with all idle CPU and see what has to be taken back."""
    paced: Paced = run_paced(
        hierarchy(shape), arrivals, Speculative("auto", retraction), linger_seconds=0.001
    )
    stats = paced.run.stats
    above = [name for name in stats if name != "lowest"]
    alphas = [a for moment in paced.moments for a in moment.alpha.values()]
    return Result(
        stats["lowest"].retracted,
        sum(stats[name].retracted for name in above),
        1000 * paced.latency(*stats),
        sum(alphas) / len(alphas),
    )


def retraction(quick: bool) -> list[Figure]:
    """What each way of retraction takes back, and the latency it leaves."""
    arrivals = stream(20 if quick else 120)
    figures = []
    for shape in SHAPES:
        results = {way: measure(shape, way, arrivals) for way in RETRACTIONS}
        full, demand, auto = (results[way] for way in RETRACTIONS)
        detail = ", ".join(
            f"{way}: {r.retracted} + {r.cascade} retracted, {r.latency_ms:.1f} ms, α {r.alpha:.2f}"
            for way, r in results.items()
        )
        if shape == "hit":
            fewer = full.retracted / max(demand.retracted, 1)
            smaller = full.cascade / max(demand.cascade, 1)
            figures.append(Figure("hit: retracted, full / on-demand", fewer, "x", 7.0))
            figures.append(Figure("hit: cascade, full / on-demand", smaller, "x", 9.0))
        ratio = auto.latency_ms / min(full.latency_ms, demand.latency_ms)
        figures.append(
            Figure(f"{shape}: latency, auto / better", ratio, "x", 1.02, at_most=True, note=detail)
        )
    return figures
