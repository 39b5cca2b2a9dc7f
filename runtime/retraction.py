"""Which way of correcting published events is cheaper for one detector, as measured.

*Full* retraction takes back everything behind the wrong place with one counter per type and
publishes it anew: nothing is compared, but every detector above replays. *On-demand* retraction
replays first, compares states and outputs on the way, and sends only the difference. Each
repair tells what both would have cost, in units of one event processed; a moving average with
hysteresis decides. While full retraction is in use, some repairs are done on demand all the
same, since only they tell how much would have been saved.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Chooser", "Repair"]

MEMORY = 0.1
"""Weight of the newest repair in the average."""
HYSTERESIS = 1.15
PROBE_EVERY = 16
SNAPSHOT_EVENTS, SNAPSHOT_BYTES_PER_EVENT = 4.0, 256.0
"""A snapshot costs as much as so many events, plus one per so many bytes."""
COMPARE_EVENTS = 0.5
CASCADE_EVENTS = 8.0
"""What one retracted event costs the detectors above, until that was measured."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair that was done on demand."""

    replayed: int
    spared: int
    """Events that need not be replayed because the past held again."""
    snapshots: int
    state_bytes: int
    published: int
    """Outputs behind the wrong place: what full retraction takes back."""
    changed: int
    """Those that really changed."""


class Chooser:
    """Chooses ``full`` or ``on-demand`` for the next repair of one detector."""

    def __init__(self, retraction: str) -> None:
        self._fixed = retraction if retraction != "auto" else None
        self.now = self._fixed or "on-demand"
        self.cascade = CASCADE_EVENTS
        self._full = self._on_demand = 0.0
        self._repairs = 0

    def choose(self) -> str:
        """The way for the next repair; on demand now and then, to learn."""
        self._repairs += 1
        if self._fixed is None and self._repairs % PROBE_EVERY == 0:
            return "on-demand"
        return self.now

    def learn(self, repair: Repair) -> None:
        """Take in what a repair on demand has shown."""
        if self._fixed is not None:
            return
        snapshot = SNAPSHOT_EVENTS + repair.state_bytes / SNAPSHOT_BYTES_PER_EVENT
        full = repair.replayed + repair.spared + repair.published * self.cascade
        on_demand = (
            repair.replayed
            + repair.snapshots * snapshot
            + repair.published * COMPARE_EVENTS
            + repair.changed * self.cascade
        )
        self._full += MEMORY * (full - self._full)
        self._on_demand += MEMORY * (on_demand - self._on_demand)
        if self.now == "on-demand" and self._on_demand > HYSTERESIS * self._full:
            self.now = "full"
        elif self.now == "full" and self._full > HYSTERESIS * self._on_demand:
            self.now = "on-demand"

    def learn_cascade(self, retracted: int, replayed_above: int) -> None:
        """Detectors above replayed so many events because so many were retracted."""
        if retracted:
            self.cascade += MEMORY * (replayed_above / retracted - self.cascade)
