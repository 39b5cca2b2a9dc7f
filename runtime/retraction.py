"""Which way of correcting published events is cheaper for one detector, as measured.

*Full* retraction takes back everything behind the wrong place with one counter per type and
publishes it anew: nothing is compared, but every detector above replays. *On-demand* retraction
replays first, compares states and outputs on the way, and sends only the difference.

Before a repair it is known how much would be replayed, how many snapshots compared and how many
outputs taken back. What repairs on demand have shown tells the rest: which share of outputs
really changes, which share of a replay is spared because the past holds again, and what a
retracted event makes the detectors above do. From that follows what both ways would cost, in
units of one event processed. Work weighs as much as the host is under pressure; publishing anew
what stood all the time delays it, which counts whether the CPU is idle or not. A way must be
clearly cheaper to replace the one in use. While full retraction is in use, some repairs are done
on demand all the same, since only they tell how much would have been saved.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Chooser", "Plan", "Repair"]

MEMORY = 0.1
"""Weight of the newest repair in the averages."""
HYSTERESIS = 1.15
PROBE_EVERY = 16
SNAPSHOT_EVENTS, SNAPSHOT_BYTES_PER_EVENT = 4.0, 256.0
"""A snapshot costs as much as so many events, plus one per so many bytes."""
COMPARE_EVENTS = 0.5
REPUBLISHED_EVENTS = 50.0
"""What it is worth not to take back and publish again an event that stands."""
CASCADE_EVENTS = 8.0
"""What one retracted event costs the detectors above, until that was measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A repair before it is done."""

    events: int
    """From the snapshot to the detector's place."""
    snapshots: int
    """To be compared on the way."""
    state_bytes: int
    published: int
    """Outputs behind the wrong place: what full retraction takes back."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The same after it was done on demand."""

    plan: Plan
    spared: int
    """Events that need not be replayed because the past held again."""
    changed: int
    """Outputs that really changed."""


class Chooser:
    """Chooses ``full`` or ``on-demand`` for each repair of one detector."""

    def __init__(self, retraction: str) -> None:
        self._fixed = retraction if retraction != "auto" else None
        self.now = self._fixed or "on-demand"
        self.pressure = 1.0
        self.cascade = CASCADE_EVENTS
        self._changed = 0.5
        self._spared = 0.0
        self._since_probe = 0

    def choose(self, plan: Plan) -> str:
        """The way for this repair; on demand now and then, to learn."""
        if self._fixed is not None:
            return self._fixed
        full, on_demand = self.costs(plan)
        if self.now == "on-demand" and on_demand > HYSTERESIS * full:
            self.now = "full"
        elif self.now == "full" and full > HYSTERESIS * on_demand:
            self.now = "on-demand"
        self._since_probe += 1
        if self.now == "full" and self._since_probe >= PROBE_EVERY:
            self._since_probe = 0
            return "on-demand"
        return self.now

    def costs(self, plan: Plan) -> tuple[float, float]:
        """What a repair would cost done fully and done on demand."""
        snapshot = SNAPSHOT_EVENTS + plan.state_bytes / SNAPSHOT_BYTES_PER_EVENT
        changed = plan.published * self._changed
        full = plan.events + plan.snapshots * snapshot / 2 + plan.published * self.cascade
        on_demand = (
            plan.events * (1 - self._spared)
            + (1 + plan.snapshots) * snapshot
            + plan.published * COMPARE_EVENTS
            + changed * self.cascade
        )
        in_vain = REPUBLISHED_EVENTS * (plan.published - changed)
        return self.pressure * full + in_vain, self.pressure * on_demand

    def learn(self, repair: Repair) -> None:
        """Take in what a repair on demand has shown."""
        plan = repair.plan
        if plan.published:
            share = min(repair.changed / plan.published, 1.0)
            self._changed += MEMORY * (share - self._changed)
        if plan.events:
            self._spared += MEMORY * (repair.spared / plan.events - self._spared)

    def learn_cascade(self, retracted: int, replayed_above: int) -> None:
        """Detectors above replayed so many events because so many were retracted."""
        if retracted:
            self.cascade += MEMORY * (replayed_above / retracted - self.cascade)
