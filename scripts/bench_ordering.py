"""How well K is learnt: the stream of a kick detector, and real market feeds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench_streams import SECOND, Figure

from slackline import Automaton, Detector, Emit, Event, Hierarchy, KSlack, Run, run, truth

MS = 1_000
FIXED_MS = 500
KSLACK_SECONDS = 120
ORDERED_MIN = 0.95
RATIO_MIN = 8.4


class Kick(Automaton):
    """Near, then not gone, then a peak."""

    listens = ("near", "not_near", "peak")
    publishes = ("kick",)
    backset_max = 0

    def __init__(self) -> None:
        super().__init__()
        away, close = self.state("away"), self.state("close")
        kicked = self.state("kicked", entry=self.publish)
        self.connect(away, close, "near")
        self.connect(close, kicked, "peak")
        self.connect(kicked, kicked, "peak")
        for state in (close, kicked):
            self.connect(state, away, "not_near")

    def publish(self, event: Event, emit: Emit) -> None:
        emit("kick", event.ts)


def kick_hierarchy() -> Hierarchy:
    """One detector, and a clock that it does not listen to."""
    return Hierarchy("kick", clock=("clock",), unit="us").add("kick", Kick())


def kick_stream(seconds: int = KSLACK_SECONDS, seed: int = 1) -> list[Event]:
    """A ball that comes and goes, with delays as a kick detector sees them, in arrival order.

    ``near`` and ``not_near`` swing between 5 and 45 ms, ``peak`` takes 1 to 2 ms; the clock ticks
    2,000 times a second with a delay of 1 ms. About 30 events a second besides the clock's.
    """
    rng = np.random.default_rng(seed)
    arrivals: list[tuple[int, int, Event]] = []
    numbers: Counter[str] = Counter()

    def arrive(type_: str, ts: int, delay_us: float) -> None:
        numbers[type_] += 1
        event = Event(type_, ts, {}, type_, numbers[type_])
        arrivals.append((ts + round(delay_us), len(arrivals), event))

    for ts in range(0, seconds * SECOND, SECOND // 2_000):
        arrive("clock", ts, 1 * MS)
    t = 50 * MS
    while t < seconds * SECOND:
        swing = 25 + 18.5 * np.sin(2 * np.pi * t / (2.3 * SECOND)) + rng.uniform(-1.5, 1.5)
        arrive("near", t, swing * MS)
        stays = int(rng.uniform(40, 120)) * MS
        for _ in range(int(rng.integers(0, 3))):
            arrive("peak", t + int(rng.uniform(0, stays)), rng.uniform(1, 2) * MS)
        swing = 25 + 18.5 * np.sin(2 * np.pi * t / (1.9 * SECOND)) + rng.uniform(-1.5, 1.5)
        arrive("not_near", t + stays, swing * MS)
        arrive("peak", t + stays + int(rng.uniform(1, 40)) * MS, rng.uniform(1, 2) * MS)
        t += stays + int(rng.uniform(20, 100)) * MS
    return [event for _, _, event in sorted(arrivals, key=lambda entry: entry[:2])]


@dataclass(frozen=True, slots=True)
class KickRun:
    """What one policy made of the stream."""

    result: Run
    received: int
    missed: int
    missed_settled: int
    k_ms: float
    latency_ms: float
    exact: bool


def kick_run(arrivals: list[Event], ordering: KSlack) -> KickRun:
    """Run the stream with one policy; ``missed_settled`` counts after the first second."""
    hierarchy = kick_hierarchy()
    result = run(hierarchy, arrivals, ordering)
    stats = result.stats["kick"]
    late = [late for late in result.late if late.clk > SECOND]
    exact = result.final == truth(hierarchy, arrivals)
    latency = stats.latency.mean / MS
    return KickRun(
        result, stats.received, len(result.late), len(late), stats.k / MS, latency, exact
    )


def kslack(quick: bool) -> list[Figure]:
    """Plain K-slack, without repair, so that every event K was too small for is a miss."""
    arrivals = kick_stream(30 if quick else KSLACK_SECONDS)
    plain = kick_run(arrivals, KSlack(margin=0, repair=0))
    wide = kick_run(arrivals, KSlack(margin=0.5, repair=0))
    fixed = kick_run(arrivals, KSlack(k=FIXED_MS * MS, repair=0))
    repaired = kick_run(arrivals, KSlack())
    late = f"{plain.missed} of {plain.received:,} missed"
    return [
        Figure(
            "margin 0: ordered from a cold start",
            100 * (1 - plain.missed / plain.received),
            "%",
            100 * ORDERED_MIN,
            note=late,
        ),
        Figure("margin 0: K", plain.k_ms, "ms"),
        Figure("margin 0: mean latency", plain.latency_ms, "ms"),
        Figure("margin 0.5: missed in the first second", wide.missed - wide.missed_settled, ""),
        Figure("margin 0.5: missed later", wide.missed_settled, "", 0, at_most=True),
        Figure("margin 0.5: K", wide.k_ms, "ms"),
        Figure("margin 0.5: mean latency", wide.latency_ms, "ms"),
        Figure(f"K = {FIXED_MS} ms: mean latency", fixed.latency_ms, "ms"),
        Figure("times faster, margin 0", fixed.latency_ms / plain.latency_ms, "x", RATIO_MIN),
        Figure("times faster, margin 0.5", fixed.latency_ms / wide.latency_ms, "x", RATIO_MIN),
        Figure(
            "with repair (the default): exact",
            float(repaired.exact),
            "",
            1,
            note=f"{repaired.missed} missed",
        ),
    ]


class Feeds(Detector):
    """Counts messages by source; now and then tells how the other sources stand at that moment."""

    EVERY = 500
    listens = ("message",)
    publishes = ("standing",)
    backset_max = 0

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def on_event(self, event: Event, emit: Emit) -> None:
        source = event.data["source"]
        self.counts[source] = self.counts.get(source, 0) + 1
        if self.counts[source] % self.EVERY == 0:
            emit("standing", event.ts, source=source, **self.counts)


def market(data: Path) -> list[Figure]:
    """Six market feeds in the order in which one recorder received them."""
    arrivals = _messages(data)
    hierarchy = Hierarchy("market", unit="ms", sources=("message",)).add("feeds", Feeds())
    result = run(hierarchy, arrivals)
    stats = result.stats["feeds"]
    exact = result.final == truth(hierarchy, arrivals)
    delays = stats.delays["message"]
    return [
        Figure("messages of 6 feeds", stats.received, "", note=f"delays up to {delays.max} ms"),
        Figure("out of order", 100 * stats.reordered / stats.received, "%"),
        Figure("K learnt", stats.k, "ms"),
        Figure("mean latency", stats.latency.mean, "ms"),
        Figure("late", stats.late, "events", 0, at_most=True),
        Figure(
            "exact", float(exact), "", 1, note=f"{len(result.final)} final outputs against truth"
        ),
    ]


def _messages(data: Path) -> list[Event]:
    """The recording's rows that have an event time, as events."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(data, columns=["source", "stream", "E_ms"])
    numbers: Counter[str] = Counter()
    events = []
    columns = (table[name].to_pylist() for name in ("source", "stream", "E_ms"))
    for source, stream, ts in zip(*columns, strict=True):
        if ts is None:
            continue
        publisher = f"{source}/{stream}"
        numbers[publisher] += 1
        events.append(Event("message", ts, {"source": source}, publisher, numbers[publisher]))
    return events
