"""Counters and summaries that a run reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from slackline.events import IntArray

__all__ = ["DetectorStats", "Latency", "Summary"]


@dataclass(slots=True)
class Summary:
    """Count, mean, deviation and extremes of numbers that are not kept."""

    count: int = 0
    total: int = 0
    squares: float = 0.0
    min: int | None = None
    max: int | None = None

    def add(self, values: IntArray) -> None:
        if not len(values):
            return
        low, high = int(values.min()), int(values.max())
        self.count += len(values)
        self.total += int(values.sum())
        self.squares += float(np.dot(values.astype(np.float64), values))
        self.min = low if self.min is None else min(self.min, low)
        self.max = high if self.max is None else max(self.max, high)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def std(self) -> float:
        if not self.count:
            return math.nan
        return math.sqrt(max(self.squares / self.count - self.mean**2, 0.0))

    def to_dict(self) -> dict[str, Any]:
        known = self.count > 0
        return {
            "count": self.count,
            "mean": round(self.mean, 3) if known else None,
            "std": round(self.std, 3) if known else None,
            "min": self.min,
            "max": self.max,
        }


@dataclass(frozen=True, slots=True)
class Latency:
    """Detection latency of final outputs, in stream time: the clock when published, minus ts."""

    count: int
    mean: float
    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: list[int]) -> Latency:
        if not values:
            return cls(0, math.nan, math.nan, math.nan, math.nan)
        array = np.array(values)
        p50, p99 = np.percentile(array, [50, 99])
        return cls(len(values), float(array.mean()), float(p50), float(p99), float(array.max()))

    def to_dict(self) -> dict[str, Any]:
        if not self.count:
            return {"count": 0, "mean": None, "p50": None, "p99": None, "max": None}
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(slots=True)
class DetectorStats:
    """One detector's side of a run; times are in the hierarchy's unit."""

    ordering: str
    """The policy, as text."""
    k: int
    """The slack K now."""
    k_history: list[tuple[int, int]]
    """``(clk, K)`` wherever K changed."""
    delays: dict[str, Summary]
    """Measured delays of each type it listens to."""
    buffered: int
    """Events received and not yet let through."""
    buffered_max: int
    received: int = 0
    emitted: int = 0
    """Events let through to the detector."""
    reordered: int = 0
    """Events that arrived behind an event which follows them."""
    repaired: int = 0
    """Events that K was too small for and that were put right by replay."""
    replayed: int = 0
    """Events given to the detector again in a replay."""
    late: int = 0
    """Events behind the horizon: on the late channel, not given to the detector."""
    rejected: int = 0
    """Malformed arrivals that may have been meant for it."""
    duplicates: int = 0
    faults: int = 0
    """Events on which the detector raised."""
    published: int = 0
    """Final outputs."""
    retracted: int = 0
    premature_faults: int = 0
    """Times it raised on an event that it should not have been given yet."""
    alpha: float = 1.0
    """How much of K is waited now."""
    retraction: str = "on-demand"
    """How it corrects what it published, now."""
    snapshots: int = 0
    snapshot_bytes_max: int = 0
    """The most memory its snapshots took."""
    latency: Latency = field(default_factory=lambda: Latency.of([]))
    waiting: dict[str, int | None] = field(default_factory=dict)
    """Types that hold it back, each with the time since when (None: never heard)."""

    @property
    def waiting_text(self) -> str:
        """What it waits for, in words; empty when nothing holds it back."""
        return "; ".join(
            f"waiting on {type_} since {'the start' if ts is None else ts}"
            for type_, ts in self.waiting.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["delays"] = {type_: summary.to_dict() for type_, summary in self.delays.items()}
        plain["latency"] = self.latency.to_dict()
        plain["waiting_text"] = self.waiting_text
        return plain
