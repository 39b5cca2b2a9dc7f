"""How many events a second one core takes, and whether that lasts: columns, events, flat."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench_streams import (
    RATE,
    Figure,
    Tally,
    Timed,
    counting,
    out_of_order,
    sensors,
    tally_times,
)

from slackline import Event, EventBatch, Hierarchy, Run, run
from slackline.local import CHUNK_ROWS

COLUMNS_PER_SECOND = 1_000_000
EVENTS_PER_SECOND = 250_000
DISORDER_MIN = 0.95
FLAT_MAX = 1.5
GROWTH_MB_MAX = 64.0
REPEATS = 3


def columns(quick: bool) -> list[Figure]:
    """Sensor events as columns, ordered once, into detectors that define on_batch."""
    figures = []
    _warm_up()
    for publishers in (1, 144):
        for batch_rows, rows, rate in (
            (10, 400_000, RATE),
            (360, 2_000_000, RATE),
            # At the usual rate a batch of 10,000 from one of 144 would span 40 seconds.
            (10_000, 4_000_000, 40 * RATE if publishers > 1 else RATE),
        ):
            arrivals = list(sensors(rows // (4 if quick else 1), publishers, batch_rows, rate=rate))
            name = f"publishers: {publishers}, rows in a batch: {batch_rows:,}"
            figures += _rate(name, counting(), arrivals, COLUMNS_PER_SECOND)
    arrivals = list(sensors(500_000 if quick else 2_000_000, 144, 360))
    shared = _rate("4 detectors, 144 x 360", counting(4), arrivals, COLUMNS_PER_SECOND, 4)
    return [*figures, *shared]


def events(quick: bool) -> list[Figure]:
    """The same stream into a detector that takes one event at a time."""
    _warm_up()
    batches = list(sensors(100_000 if quick else 500_000, 144, 36))
    singles = [event for batch in batches for event in batch]
    one_by_one = counting(in_columns=False)
    return [
        *_rate("on_event, from batches", one_by_one, batches, EVENTS_PER_SECOND),
        *_rate("on_event, from Event objects", one_by_one, singles, EVENTS_PER_SECOND),
    ]


def flat(quick: bool) -> list[Figure]:
    """The cost of an event as a stream grows longer, and the memory it takes."""
    figures = []
    most = 10**6 if quick else 10**7
    for name, hierarchy, longest in (
        ("on_batch", counting(), most),
        ("on_event", counting(in_columns=False), 10**6),
    ):
        costs = costs_us(hierarchy, [10**n for n in range(4, 8) if 10**n <= longest])
        for (begin, end), cost in costs.items():
            figures.append(Figure(f"{name}, events {begin:,} to {end:,}", cost, "µs/event"))
        ratio = max(costs.values()) / min(costs.values())
        figures.append(Figure(f"{name}, dearest / cheapest", ratio, "", FLAT_MAX, at_most=True))
        aged = [old / new for _, old, new in paired_us(hierarchy, longest, longest // 10)]
        ratio = median(aged[len(aged) // 2 :])
        figures.append(Figure(f"{name}, long / fresh stream", ratio, "", FLAT_MAX, at_most=True))
    # A process of its own: a peak remembers everything that was there before.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        small, large, held = pool.submit(_peaks, most // 10, most).result()
    figures.append(Figure(f"peak memory, {most // 10:,} events", small, "MB"))
    figures.append(Figure(f"peak memory, {most:,} events", large, "MB"))
    figures.append(
        Figure("growth of peak memory", large - small, "MB", GROWTH_MB_MAX, at_most=True)
    )
    # All there is within the horizon of one second, and a step on top.
    bound = RATE + CHUNK_ROWS
    figures.append(Figure("most events held back at once", held, "events", bound, at_most=True))
    return figures


def costs_us(
    hierarchy: Hierarchy, marks: list[int], warm: bool = False
) -> dict[tuple[int, int], float]:
    """CPU microseconds for each event between two marks along one stream, made on the way."""
    if not warm:
        _warm_up()
    source = Timed(sensors(marks[-1] + RATE, 144, 36))
    passed: list[tuple[int, float]] = []

    def on_progress(rows: int) -> None:
        if len(passed) < len(marks) and rows >= marks[len(passed)]:
            passed.append((rows, time.process_time() - source.seconds))

    run(hierarchy, source, on_progress=on_progress)
    return {
        (marks[i], marks[i + 1]): (after[1] - before[1]) / (after[0] - before[0]) * 1e6
        for i, (before, after) in enumerate(pairwise(passed))
    }


def paired_us(hierarchy: Hierarchy, events: int, window: int) -> list[tuple[int, float, float]]:
    """Along one stream: how far it is, what an event costs there, and what in a fresh stream.

    The fresh stream runs in the same moment, so that what others do to the machine hits both.
    """
    _warm_up()
    source = Timed(sensors(events, 144, 36))
    points: list[tuple[int, float, float]] = []
    last = (0, time.process_time())

    def on_progress(rows: int) -> None:
        nonlocal last
        if rows >= last[0] + window:
            spent = time.process_time() - source.seconds - last[1]
            fresh = costs_us(hierarchy, [2 * RATE, 2 * RATE + window // 2], warm=True)
            points.append((rows, spent / (rows - last[0]) * 1e6, sum(fresh.values())))
            last = (rows, time.process_time() - source.seconds)

    run(hierarchy, source, on_progress=on_progress)
    return points


def _warm_up() -> None:
    run(counting(), sensors(50_000, 144, 36))
    run(counting(in_columns=False), sensors(50_000, 144, 36))


def _rate(
    name: str,
    hierarchy: Hierarchy,
    arrivals: list[EventBatch] | list[Event],
    target: float,
    detectors: int = 1,
) -> list[Figure]:
    """Events a second of CPU time, best of three; the outputs are checked as well."""
    batches = [item for item in arrivals if isinstance(item, EventBatch)] or _as_batches(arrivals)
    rows = sum(map(len, batches))
    share = out_of_order(batches)
    best, result = _best(lambda: run(hierarchy, arrivals))
    expected = tally_times(batches)
    for i in range(detectors):
        times = [event.ts for event in result.outputs(f"tally{i}")]
        if times != expected or result.late:
            raise AssertionError(f"{name}: the outputs of count{i} are wrong: {times[:5]} ...")
    note = f"{share:.1%} out of order"
    if share < DISORDER_MIN:
        raise AssertionError(f"{name}: only {note}")
    if detectors > 1:
        per = Figure(f"{name}: events", rows / best, "/s", note=note)
        return [per, Figure(f"{name}: deliveries", detectors * rows / best, "/s", target)]
    return [Figure(name, rows / best, "/s", target, note=note)]


def _best(work: Callable[[], Run]) -> tuple[float, Run]:
    best = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        result = work()
        best = min(best, time.process_time() - began)
    return best, result


def _as_batches(events: Iterable[Event | EventBatch]) -> list[EventBatch]:
    times = [event.ts for event in events if isinstance(event, Event)]
    return [EventBatch("sensor", times, {}, "s", range(len(times)))]


def _peaks(small: int, large: int) -> tuple[float, float, int]:
    """Peak memory in MB after a small and a large stream, and the most rows held back."""
    peaks = []
    held = 0
    for size in (small, large):
        result = run(counting(), sensors(size, 144, 36))
        assert len(result.final) == sum(s.received for s in result.stats.values()) // Tally.EVERY
        held = max(stats.buffered_max for stats in result.stats.values())
        peaks.append(_peak_mb())
    return peaks[0], peaks[1], held


def _peak_mb() -> float:
    """The peak of this process; what getrusage says includes the parent's on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
