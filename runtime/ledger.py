"""What one cell has published and not yet made final, and how it corrects that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from slackline.events import Event, Key, make_event

__all__ = ["Emission", "Ledger", "LogEntry", "Output"]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the output: an event was added, retracted, or made final, at ``clk``."""

    kind: str
    event: Event
    clk: int
    rev: int = 0


@dataclass(slots=True)
class Output:
    """A published event, the place of the input that caused it, and when it was published."""

    place: Key
    event: Event
    rev: int
    update: int
    clk: int


@dataclass(frozen=True, slots=True)
class Emission:
    """What a detector emitted, before it has a number."""

    place: Key
    type: str
    ts: int
    data: dict[str, Any]
    update: int
    clk: int


class Ledger:
    """Numbers emissions, keeps those that may still change, and finds what a replay changed.

    A replay emits everything behind some place again. An emission that turns out with the same
    name and content stands as it was published, unless it lies behind the place from which on
    everything is to be taken back; the others are retracted and published anew with the next
    revision.
    """

    def __init__(self, publisher: str, types: Iterable[str]) -> None:
        self._publisher = publisher
        self.counts = dict.fromkeys(types, 0)
        self._open: list[Output] = []
        self._revs: dict[tuple[str, int], int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, emissions: list[Emission]) -> list[Output]:
        """Publish emissions that nothing was published for before."""
        outputs = [self._numbered(emission) for emission in emissions]
        self._open += outputs
        return outputs

    def cut(self, place: Key) -> list[Output]:
        """Take out everything that inputs behind ``place`` caused."""
        start = bisect_right(self._open, place, key=attrgetter("place"))
        removed = self._open[start:]
        del self._open[start:]
        return removed

    def keep(self, outputs: list[Output]) -> None:
        """Put back outputs that were cut and still hold."""
        self._open += outputs

    def redo(
        self, old: list[Output], emissions: list[Emission], all_from: Key | None = None
    ) -> tuple[list[Output], list[Output]]:
        """Publish again what was cut: returns what is to be retracted and what to be added."""
        before = {(output.event.type, output.event.seq): output for output in old}
        added: list[Output] = []
        for emission in emissions:
            seq = self.counts[emission.type] + 1
            stands = before.get((emission.type, seq))
            if stands is not None:
                same = make_event(emission.type, emission.ts, emission.data, self._publisher, seq)
                if same == stands.event and (all_from is None or emission.place < all_from):
                    del before[emission.type, seq]
                    self.counts[emission.type] = seq
                    stands.place = emission.place
                    self._open.append(stands)
                    continue
                self._revs[emission.type, seq] = stands.rev
            output = self._numbered(emission)
            self._open.append(output)
            added.append(output)
        for output in before.values():
            self._revs[output.event.type, output.event.seq] = output.rev
        return list(before.values()), added

    def finalise(self, ts: int) -> list[Output]:
        """Take out everything that was caused before ``ts``: it cannot change any more."""
        if not self._open or self._open[0].place.ts >= ts:
            return []
        end = 0
        while end < len(self._open) and self._open[end].place.ts < ts:
            end += 1
        final = self._open[:end]
        del self._open[:end]
        for output in final:
            self._revs.pop((output.event.type, output.event.seq), None)
        return final

    def _numbered(self, emission: Emission) -> Output:
        seq = self.counts[emission.type] = self.counts[emission.type] + 1
        event = make_event(emission.type, emission.ts, emission.data, self._publisher, seq)
        rev = self._revs.get((emission.type, seq), -1) + 1
        return Output(emission.place, event, rev, emission.update, emission.clk)
