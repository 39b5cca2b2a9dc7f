"""How early to process events: α for a host from its load, then for each detector from its delays.

Theory of operation. Idle CPU is spent on waiting less. The host's *pressure* p follows the busy
factor like a congestion window: below the target zone it is halved (after an overload, from the
bisection line on, lowered in small steps), above the zone it goes back to 1 at once, where
nothing speculates. p is the attenuation α of the thesis for every detector with a common α.

With ``alpha="auto"`` each detector turns the pressure into a wait of its own. Waiting less than
K buys latency; what it costs are the events that arrive after the wait is over, each of which
makes the detector replay. The share of latency kept is ``wait / K``. The cost is the CPU share of
the repairs to be expected at that wait: how many there will be follows from the delays that were
really measured, what one costs from how much busier the host was with them than it is without.
The detector takes the wait that minimises the sum of both, with the pressure as the price of CPU,
so CPU goes where a shorter wait buys the most latency for the least replay: a heavy tail of
delays is not waited for, a broad body is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slackline.events import IntArray

__all__ = [
    "BUSY_ZONE",
    "SPAN_SECONDS",
    "DelaySample",
    "Pressure",
    "RepairCost",
    "Work",
    "choose_wait",
]

SPAN_SECONDS = 0.5
"""How often the load is looked at."""
BUSY_ZONE = (0.8, 0.9)
STEP = 0.05
PRESSURE_MIN = 1 / 1024
QUANTILES = (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
PRICE = 64.0
"""What all CPU of a host is worth at pressure ½, in waits of one detector: so high that halving
the pressure from 1 on lets detectors in a few at a time, those first that replay least."""
REPAIR_SECONDS = 0.001
"""What a repair is taken to cost until that was measured."""
LEARNING = 0.25
SAMPLE_ROWS = 2048
SAMPLE_ROWS_PER_STEP = 64


class Pressure:
    """Follows the busy factor, once per span: 1 means no speculation."""

    def __init__(self, zone: tuple[float, float] = BUSY_ZONE, step: float = STEP) -> None:
        self.value = 1.0
        self._low, self._high = zone
        self._step = step
        self._last_minimum = 1.0
        self._slow = False

    def follow(self, busy: float) -> float:
        """The pressure after a span in which the host was busy for this share of its time."""
        if busy > self._high:
            self._last_minimum = self.value
            self.value = 1.0
            self._slow = False
        elif busy < self._low:
            target = self.value - self._step if self._slow else self.value / 2
            if not self._slow and (1 - self._last_minimum) / 2 > target:
                self._slow = True
                target = self.value - self._step
            self.value = max(target, 0.0 if self._slow else PRESSURE_MIN)
        return self.value


class RepairCost:
    """Learns what a repair costs a host from its busy factor with few and with many of them."""

    def __init__(self) -> None:
        self.seconds = REPAIR_SECONDS
        self._calm = 0.0
        """How busy the host is without repairs."""

    def learn(self, busy: float, repairs_per_second: float) -> None:
        if repairs_per_second < 1:
            self._calm += LEARNING * (busy - self._calm) if self._calm else busy
        elif busy > self._calm:
            cost = (busy - self._calm) / repairs_per_second
            self.seconds += LEARNING * (cost - self.seconds)


class DelaySample:
    """A sample of the delays measured last, without what lower levels saved by speculating."""

    def __init__(self) -> None:
        self._ring = np.zeros(SAMPLE_ROWS, dtype=np.int64)
        self._next = 0
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def add(self, delays: IntArray) -> None:
        if len(delays) > SAMPLE_ROWS_PER_STEP:
            delays = delays[:: -(-len(delays) // SAMPLE_ROWS_PER_STEP)]
        places = (self._next + np.arange(len(delays))) % SAMPLE_ROWS
        self._ring[places] = delays
        self._next = (self._next + len(delays)) % SAMPLE_ROWS
        self._known = min(self._known + len(delays), SAMPLE_ROWS)

    def sorted(self) -> IntArray:
        return np.sort(self._ring[: self._known])


@dataclass(frozen=True, slots=True)
class Work:
    """What a detector had to do in a span: all per second of stream time."""

    events: float
    """Events that arrived."""
    steps: float
    """Steps in which any did; late events of one step share a replay."""
    repair_seconds: float
    """CPU time that a repair takes."""


def choose_wait(sample: IntArray, k: int, pressure: float, work: Work) -> int:
    """How long a detector should wait, given its sorted delays."""
    if pressure >= 1 or not len(sample) or k <= 0:
        return k
    price = PRICE * pressure / (1 - pressure)
    best, best_cost = k, 1.0
    for quantile in QUANTILES:
        place = min(int(quantile * len(sample)), len(sample) - 1)
        wait = min(max(int(sample[place]), 0), k)
        late = sample[np.searchsorted(sample, wait, side="right") :]
        share = len(late) / len(sample)
        repairs = min(work.events * share, work.steps)
        cost = wait / k + price * repairs * work.repair_seconds
        if cost < best_cost or (cost == best_cost and wait < best):
            best, best_cost = wait, cost
    return best


def wait_of(alpha: float, k: IntArray) -> IntArray:
    """α·K, rounded up to whole units."""
    if alpha == 1.0:
        return k
    wait: IntArray = np.ceil(alpha * k - 1e-9).astype(np.int64)
    return wait


def alpha_of(wait: int, k: int) -> float:
    """The α at which ``wait_of`` gives back this wait."""
    return 1.0 if k <= 0 or wait >= k else max(0.0, math.floor(wait / k * 1e12) / 1e12)
