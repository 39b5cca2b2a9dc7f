"""Speculation on a deep hierarchy: latency, α and load over 65 seconds with bursts."""

from __future__ import annotations

import random

import numpy as np
from bench_streams import Figure

from slackline import (
    BatchEmit,
    Detector,
    Emit,
    Event,
    EventBatch,
    Hierarchy,
    KSlack,
    Ordering,
    Speculative,
)
from slackline.cases import Absence, Crowd, Tally
from slackline.paced import Paced, run_paced

SECONDS = 65
LEVELS = 15
ZONES = 6
TRANSMITTERS = [("ball", 2000)] * 4 + [("player", 200)] * 130
BURSTS = ((12, 14), (30, 33), (50, 52))
SLOWNESS = 0.5
"""The processor is taken to be twice as fast as this one: K-slack keeps it half busy."""
MS = 1000  # the hierarchy is in microseconds


class Zone(Detector):
    """An object enters a stripe of the field."""

    listens = ("position",)
    backset_max = 0

    def __init__(self, number: int) -> None:
        self.publishes = (f"z{number}",)
        self.number = number
        self.inside: dict[int, bool] = {}

    def on_event(self, event: Event, emit: Emit) -> None:
        who, now = event.data["who"], int(event.data["x"]) // 1000 % ZONES == self.number
        if now and not self.inside.get(who, False):
            emit(self.publishes[0], event.ts, v=who % 10)
        self.inside[who] = now

    def on_batch(self, batch: EventBatch, emit: BatchEmit) -> None:
        who = batch.columns["who"]
        now = batch.columns["x"].astype(np.int64) // 1000 % ZONES == self.number
        order = np.argsort(who, kind="stable")
        sorted_who, sorted_now = who[order], now[order]
        starts = np.flatnonzero(np.diff(sorted_who, prepend=-1))
        before = np.empty_like(sorted_now)
        before[1:] = sorted_now[:-1]
        before[starts] = [self.inside.get(w, False) for w in sorted_who[starts].tolist()]
        entered = np.sort(order[sorted_now & ~before])
        for row in entered.tolist():
            emit.at(row)(self.publishes[0], int(batch.ts[row]), v=int(who[row]) % 10)
        ends = np.append(starts[1:], len(who)) - 1
        self.inside.update(zip(sorted_who[ends].tolist(), sorted_now[ends].tolist(), strict=True))


def hierarchy(seed: int = 1) -> Hierarchy:
    """70 detectors on 15 levels; one in ten of the upper ones dates back by 50 to 150 ms."""
    rng = random.Random(seed)
    result = Hierarchy("deep", clock=("position",), unit="us")
    for number in range(ZONES):
        result.add(f"zone{number}", Zone(number))
    below = [f"z{number}" for number in range(ZONES)]
    recent = list(below)
    for level in range(2, LEVELS + 1):
        published = []
        for i in range(5 if level <= 9 else 4):
            name = f"l{level}_{i}"
            back = rng.choice([0] * 9 + [rng.randint(50, 150) * MS])
            three = (*rng.sample(below, min(2, len(below))), rng.choice(recent))
            kind = rng.randrange(3)
            detector: Detector
            if kind == 0:
                detector = Absence((three[0], three[-1], three[1]), name, back)
            elif kind == 1:
                detector = Tally(tuple(dict.fromkeys(three)), name, rng.randint(2, 3), back)
            else:
                detector = Crowd(tuple(dict.fromkeys(three)), name, rng.randint(200, 800) * MS, 3)
            result.add(name, detector)
            published.append(name)
        recent = [*recent[-4:], *below]
        below = published
    return result


def stream(seconds: float = SECONDS, seed: int = 2) -> list[tuple[float, EventBatch]]:
    """Positions in packets of ten with the time of their arrival, in arrival order."""
    rng = np.random.default_rng(seed)
    packets: list[tuple[float, EventBatch]] = []
    for who, (kind, rate) in enumerate(TRANSMITTERS):
        count = int(seconds * rate)
        ts = (np.arange(count) * (1_000_000 / rate) + who).astype(np.int64)
        speed = np.full(count, 2500.0 if kind == "ball" else 700.0)
        for begin, end in BURSTS:
            speed[(ts >= begin * 1_000_000) & (ts < end * 1_000_000)] *= 3
        turn = np.cumsum(rng.normal(0, 0.02, count))
        x = 30_000 + np.cumsum(speed / rate * np.cos(turn))
        for i in range(0, count, 10):
            part = slice(i, i + 10)
            last = int(ts[part][-1])
            if kind == "ball":
                delay = rng.uniform(500, 5_000)
            else:
                delay = min(5_000 + rng.lognormal(np.log(8_000), 0.9), 100_000)
            if any(begin <= last / 1e6 < end for begin, end in BURSTS):
                delay *= 1.4
            columns = {"who": np.full(len(ts[part]), who), "x": x[part]}
            seq = np.arange(i + 1, i + 1 + len(ts[part]))
            batch = EventBatch("position", ts[part], columns, f"tx{who:03}", seq)
            packets.append((last + delay, batch))
    packets.sort(key=lambda packet: packet[0])
    return packets


def speculation(quick: bool) -> list[Figure]:
    """Mean detection latency above the sensors: K-slack, static α, and α by itself."""
    packets = stream(10 if quick else SECONDS)
    made = hierarchy()
    above = [name for level in made.levels[1:] for name in level]
    policies: dict[str, Ordering] = {
        "K-slack": KSlack(),
        "α 0.5": Speculative(0.5, "on-demand"),
        "auto": Speculative(),
    }
    runs: dict[str, Paced] = {}
    figures = []
    for name, policy in policies.items():
        paced = runs[name] = run_paced(made, packets, policy, slowness=SLOWNESS)
        busy = sum(moment.busy for moment in paced.moments) / len(paced.moments)
        latency = 1000 * paced.latency(*above)
        note = f"busy {busy:.2f}, {len(paced.run.late)} late, {len(paced.run.final)} outputs"
        figures.append(Figure(f"latency, {name}", latency, "ms", note=note))
    ratio = runs["auto"].latency(*above) / runs["K-slack"].latency(*above)
    figures.append(Figure("latency, auto / K-slack", ratio, "x"))
    return figures
