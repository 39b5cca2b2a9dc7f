"""The saved states of one detector, by place: dense enough to repair from, sparse enough."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter

from slackline.events import Key

__all__ = ["Snapshot", "Snapshots"]

EVENTS_MIN, BYTES_PER_EVENT = 32, 32
"""A snapshot is due when this many events, plus one per so many bytes of state, have passed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after everything up to ``place``: what was emitted of each type, events given."""

    place: Key
    state: bytes
    counts: dict[str, int]
    given: int


class Snapshots:
    """Snapshots in ascending order; the first is where the oldest possible repair begins."""

    def __init__(self, first: Snapshot, bytes_max: int) -> None:
        self._all = [first]
        self._bytes_max = bytes_max
        self._sparser = 1
        self.bytes = len(first.state)
        self.bytes_peak = self.bytes

    @property
    def first(self) -> Snapshot:
        return self._all[0]

    @property
    def last(self) -> Snapshot:
        return self._all[-1]

    def __len__(self) -> int:
        return len(self._all)

    @property
    def interval(self) -> int:
        """How many events to let pass between two snapshots."""
        return (EVENTS_MIN + len(self.last.state) // BYTES_PER_EVENT) * self._sparser

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot behind all others; a state equal to the last one is stored once."""
        if snapshot.state == self.last.state:
            state = self.last.state
            snapshot = Snapshot(snapshot.place, state, snapshot.counts, snapshot.given)
        else:
            self.bytes += len(snapshot.state)
        self._all.append(snapshot)
        while self.bytes > self._bytes_max and len(self._all) > 2:
            self._thin()
        self.bytes_peak = max(self.bytes_peak, self.bytes)

    def before(self, place: Key) -> int:
        """The number of the last snapshot before ``place``."""
        return bisect_left(self._all, place, key=attrgetter("place")) - 1

    def __getitem__(self, number: int) -> Snapshot:
        return self._all[number]

    def cut(self, number: int) -> list[Snapshot]:
        """Take out every snapshot behind this one."""
        later = self._all[number + 1 :]
        del self._all[number + 1 :]
        self._count()
        return later

    def purge(self, stable: int) -> bool:
        """Forget those that no repair behind ``stable`` needs; True if there were any."""
        needed = 0
        while needed + 1 < len(self._all) and self._all[needed + 1].place.ts < stable:
            needed += 1
        if not needed:
            return False
        for one, other in zip(self._all[:needed], self._all[1:], strict=False):
            if one.state is not other.state:
                self.bytes -= len(one.state)
        del self._all[:needed]
        if self.bytes * 4 < self._bytes_max:
            self._sparser = max(1, self._sparser // 2)
        return True

    def _thin(self) -> None:
        """Drop every second snapshot between the first and the last, and take fewer from now on."""
        self._all = [self._all[0], *self._all[2:-1:2], self._all[-1]]
        self._sparser = min(self._sparser * 2, 1 << 20)
        self._count()

    def _count(self) -> None:
        self.bytes = sum({id(s.state): len(s.state) for s in self._all}.values())
