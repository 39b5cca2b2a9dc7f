"""K, the slack of one detector: how long its events have to wait for their elders.

K is the largest delay measured within a window of stream time, plus a margin of λ standard
deviations. It grows with the event that shows it too small and shrinks when the window has
moved past the disorder. The window is kept as a ring of buckets, so that K changes only where a
delay exceeds all others in the window or where the clock enters a new bucket: between those
points it stands still, which is what lets a whole batch be released at once. When nothing at
all was measured for a window, the last bucket stays: silence is no evidence of order.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from slackline.events import IntArray

__all__ = ["Slack"]

BUCKETS = 8


@dataclass(slots=True)
class _Bucket:
    index: int
    peak: int = 0
    count: int = 0
    total: float = 0.0
    squares: float = 0.0


class Slack:
    """Learns K from delays; with ``fixed`` it stays what it is."""

    def __init__(
        self, window: int, margin: float, fixed: int | None = None, start: int = 0
    ) -> None:
        self._bucket_len = max(1, math.ceil(window / BUCKETS))
        self._margin = margin
        self._fixed = fixed
        self._start = start
        self._buckets: deque[_Bucket] = deque()
        self.k = fixed if fixed is not None else start

    def observe(self, clk: IntArray, at: IntArray, delays: IntArray) -> IntArray | int:
        """K after each update: an array along ``clk``, or one number if it did not change.

        ``delays[i]`` was measured at update ``at[i]``; ``at`` ascends.
        """
        if self._fixed is not None or not len(clk):
            return self.k
        index = clk // self._bucket_len
        first, last = int(index[0]), int(index[-1])
        if first == last and self._buckets and self._buckets[-1].index == first:
            peak = max(bucket.peak for bucket in self._buckets)
            if not len(delays) or int(delays.max()) <= peak:
                self._count(delays)
                return self.k
        k = np.empty(len(clk), dtype=np.int64)
        starts = [0, *(np.flatnonzero(np.diff(index)) + 1).tolist(), len(clk)]
        rows = np.searchsorted(at, starts).tolist()
        for i in range(len(starts) - 1):
            begin, end = starts[i], starts[i + 1]
            self._enter(int(index[begin]))
            inside = slice(rows[i], rows[i + 1])
            k[begin:end] = self._follow(end - begin, at[inside] - begin, delays[inside])
        return k

    def _enter(self, index: int) -> None:
        """Move the window's end to bucket ``index`` and let K shrink to what is left in it."""
        if not self._buckets:
            self._buckets.append(_Bucket(index, peak=self._start))
            return
        if index <= self._buckets[-1].index:
            return
        while self._buckets[0].index <= index - BUCKETS and (
            len(self._buckets) > 1 and self._buckets[1].count
        ):
            self._buckets.popleft()
        if self._buckets[-1].count:
            self._buckets.append(_Bucket(index))
        else:
            self._buckets[-1].index = index
        self.k = self._estimate()

    def _follow(self, updates: int, at: IntArray, delays: IntArray) -> IntArray | int:
        """K at each update inside one bucket."""
        old = max(bucket.peak for bucket in self._buckets)
        if not len(delays) or int(delays.max()) <= old:
            self._count(delays)
            return self.k
        peaks = np.full(updates, old, dtype=np.int64)
        np.maximum.at(peaks, at, delays)
        peaks = np.maximum.accumulate(peaks)
        grows = np.flatnonzero(np.diff(peaks, prepend=old))
        bucket = self._buckets[-1]
        k = np.full(updates, self.k, dtype=np.int64)
        ends = np.searchsorted(at, grows, side="right").tolist()
        counted = 0
        for update, end in zip(grows.tolist(), ends, strict=True):
            self._count(delays[counted:end])
            counted = end
            bucket.peak = int(peaks[update])
            self.k = self._estimate()
            k[update:] = self.k
        self._count(delays[counted:])
        return k

    def _count(self, delays: IntArray) -> None:
        if len(delays) and self._buckets:
            bucket = self._buckets[-1]
            bucket.peak = max(bucket.peak, int(delays.max()))
            bucket.count += len(delays)
            if self._margin:
                known = np.maximum(delays, 0).astype(np.float64)
                bucket.total += float(known.sum())
                bucket.squares += float(np.dot(known, known))

    def _estimate(self) -> int:
        peak = max(bucket.peak for bucket in self._buckets)
        if not self._margin:
            return peak
        count = sum(bucket.count for bucket in self._buckets)
        if not count:
            return peak
        mean = sum(bucket.total for bucket in self._buckets) / count
        variance = sum(bucket.squares for bucket in self._buckets) / count - mean * mean
        return peak + math.ceil(self._margin * math.sqrt(max(variance, 0.0)) - 1e-9)
