"""Streams, detectors and measuring for the benchmarks and figures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackline import BatchEmit, Detector, Emit, Event, EventBatch, Hierarchy

Ints = npt.NDArray[np.int64]

RATE = 36_000
"""Positions a second of a stadium's locating system at 70 % of its capacity."""
DELAY_US = 145_000
"""The largest delay there, packing included."""
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number, and what it should be: at least or at most ``target``."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_most: bool = False
    note: str = ""

    @property
    def passes(self) -> bool:
        if self.target is None:
            return True
        return self.value <= self.target if self.at_most else self.value >= self.target

    def __str__(self) -> str:
        verdict = "" if self.target is None else "pass" if self.passes else "short"
        target = ""
        if self.target is not None:
            target = f"{'<=' if self.at_most else '>='} {_number(self.target)}"
        value = f"{_number(self.value)} {self.unit}".strip()
        return f"  {self.name:<44}{value:>22}  {target:>14}  {verdict:<6}{self.note}".rstrip()

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "target": self.target,
            "at_most": self.at_most,
            "passes": self.passes,
            "note": self.note,
        }


def _number(value: float) -> str:
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


class Tally(Detector):
    """Counts rows and says when another ``EVERY`` have passed; in columns."""

    EVERY = 10_000
    listens = ("sensor",)
    publishes = ("tally",)
    backset_max = 0

    def __init__(self, publishes: str = "tally") -> None:
        self.publishes = (publishes,)
        self.count = self.total = 0

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        self.total += event.data["v"]
        if self.count % self.EVERY == 0:
            emit(self.publishes[0], event.ts, n=self.count)

    def on_batch(self, batch: EventBatch, emit: BatchEmit) -> None:
        before = self.count
        self.count += len(batch)
        self.total += int(batch.columns["v"].sum())
        for n in range(before // self.EVERY + 1, self.count // self.EVERY + 1):
            row = n * self.EVERY - before - 1
            emit.at(row)(self.publishes[0], int(batch.ts[row]), n=n * self.EVERY)


class EventTally(Tally):
    """The same, one event at a time."""

    on_batch = None  # type: ignore[assignment]


def counting(detectors: int = 1, in_columns: bool = True) -> Hierarchy:
    """A hierarchy of detectors that share one stream of sensor events."""
    kind = Tally if in_columns else EventTally
    hierarchy = Hierarchy("bench", clock=("sensor",), unit="us", sources=("sensor",))
    for i in range(detectors):
        hierarchy.add(f"count{i}", kind(f"tally{i}"))
    return hierarchy


def sensors(
    events: int, publishers: int, batch_rows: int, seed: int = 1, rate: int = RATE
) -> Iterator[EventBatch]:
    """Sensor events in arrival order, made as they are asked for.

    With one publisher every event has a delay of its own; with several, each packs its events
    into batches, which the network delays, the order of each publisher kept. Delays are uniform
    up to 145 ms less the time that packing takes, but up to 50 ms in any case.
    """
    if publishers == 1:
        yield from _single(events, batch_rows, np.random.default_rng(seed), rate)
    else:
        yield from _packed(events, publishers, batch_rows, np.random.default_rng(seed), rate)


def _single(
    events: int, batch_rows: int, rng: np.random.Generator, rate: int
) -> Iterator[EventBatch]:
    window = max(4 * rate, 4 * batch_rows)
    waiting = np.zeros((0, 2), dtype=np.int64)
    made = 0
    while made < events or len(waiting):
        fresh = np.arange(made, min(made + window, events))
        made += len(fresh)
        ts = fresh * SECOND // rate
        came = np.stack([ts + rng.integers(0, DELAY_US, len(ts)), fresh], axis=1)
        waiting = np.concatenate([waiting, came])
        waiting = waiting[np.argsort(waiting[:, 0], kind="stable")]
        ready = len(waiting)
        if made < events:
            ready = int(np.searchsorted(waiting[:, 0], made * SECOND // rate))
            ready -= ready % batch_rows
        for i in range(0, ready, batch_rows):
            number = waiting[i : min(i + batch_rows, ready), 1]
            yield _batch(number * SECOND // rate, "s", number + 1)
        waiting = waiting[ready:]


def _packed(
    events: int, publishers: int, batch_rows: int, rng: np.random.Generator, rate: int
) -> Iterator[EventBatch]:
    each = events // publishers
    period = SECOND * publishers // rate
    packing = period * (batch_rows - 1)
    delay = max(DELAY_US - packing, 50_000)
    last = np.zeros(publishers, dtype=np.int64)
    offset = np.arange(publishers) * period // publishers
    phase = rng.permutation(publishers) * batch_rows // publishers
    waiting: list[tuple[int, int, int, int]] = []
    rounds = each // batch_rows + 2
    for turn in range(rounds + 1):
        for p in rng.permutation(publishers).tolist() if turn < rounds else ():
            begin = max(0, turn * batch_rows - int(phase[p]))
            end = min(each, (turn + 1) * batch_rows - int(phase[p]))
            if begin >= end:
                continue
            done = int(offset[p]) + (end - 1) * period
            last[p] = max(int(last[p]), done + int(rng.integers(0, delay)))
            waiting.append((int(last[p]), p, begin, end))
        waiting.sort()
        # Whatever a later turn adds is complete, and so arrives, after this.
        horizon = ((turn + 1) * batch_rows - batch_rows) * period if turn < rounds else 2**62
        ready = [entry for entry in waiting if entry[0] < horizon]
        waiting = waiting[len(ready) :]
        for _, p, begin, end in ready:
            number = np.arange(begin, end)
            yield _batch(number * period + int(offset[p]), f"s{p:03d}", number + 1)


def _batch(ts: Ints, publisher: str, seq: Ints) -> EventBatch:
    return EventBatch("sensor", ts, {"sid": seq % 7, "v": seq % 1000}, publisher, seq)


def out_of_order(batches: Iterable[EventBatch]) -> float:
    """The share of events that arrive behind a later one."""
    ts = np.concatenate([batch.ts for batch in batches])
    return float(np.mean(ts < np.maximum.accumulate(ts)))


def tally_times(batches: Iterable[EventBatch]) -> list[int]:
    """When a tally must say so: every so manieth time, of all times in order."""
    ts = np.sort(np.concatenate([batch.ts for batch in batches]))
    return [int(t) for t in ts[Tally.EVERY - 1 :: Tally.EVERY]]


class Timed:
    """Passes items on and keeps the CPU time that making them took apart."""

    def __init__(self, items: Iterable[EventBatch]) -> None:
        self._items = iter(items)
        self.seconds = 0.0

    def __iter__(self) -> Iterator[EventBatch]:
        return self

    def __next__(self) -> EventBatch:
        began = time.process_time()
        try:
            return next(self._items)
        finally:
            self.seconds += time.process_time() - began
