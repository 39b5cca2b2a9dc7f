"""The past of one detector: what it was given and what it published, as far as it may change.

Theory of operation. ``play`` gives the detector events behind ``place``. When an event before
``place`` turns up, changes or vanishes, the past is wrong there, and ``repair`` goes back to the
last snapshot before it and plays everything from there again. In *on-demand* retraction the
replay is compared with what was: when it meets a later snapshot in the very state that was saved
there, and has emitted as much, the rest of the past still holds and the replay ends; outputs that
turn out the same stand. In *full* retraction everything from the wrong place on is taken back and
published anew, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slackline.events import TS_MIN, IntArray, Key
from slackline.hierarchy import Node
from slackline.input import Input, Piece
from slackline.ledger import Emission, Ledger, Output
from slackline.retraction import Chooser, Plan, Repair
from slackline.runner import BatchFailed, Fault, Runner
from slackline.snapshots import Snapshot, Snapshots
from slackline.step import Step

__all__ = ["Changes", "Past", "When", "Wrong"]

START = Key(TS_MIN, "", "", 0)

When = Callable[[Piece], IntArray]
"""At which clock update each row of a piece takes place."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """The past is wrong at ``place``, as of clock update ``update``."""

    place: Key
    update: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What a repair changed in the published past, as of clock update ``update``."""

    update: int
    retracted: list[Output]
    added: list[Output]
    above: dict[str, int] | None
    """In full retraction: per type, the number above which everything was taken back."""
    vanished: list[Fault]
    """Faults that the right order does not have."""


class Past:
    """Plays events to a detector and can play them again."""

    def __init__(
        self, node: Node, input: Input, runner: Runner, retraction: str, snapshot_bytes_max: int
    ) -> None:
        self.place = START
        self.repairs = self.replayed = 0
        self.given = 0
        """Events given to the detector, each counted once."""
        self.chooser = Chooser(retraction)
        self._input = input
        self._runner = runner
        self._ledger = Ledger(node.name, node.publishes)
        first = Snapshot(START, runner.snapshot(), dict(self._ledger.counts), 0)
        self.snapshots = Snapshots(first, snapshot_bytes_max)
        self._settled = TS_MIN
        """Everything before this was made final; a replay may begin before it."""

    @property
    def counts(self) -> dict[str, int]:
        """How many events of each type were emitted."""
        return self._ledger.counts

    def play(self, step: Step, pieces: list[Piece], when: When) -> list[Output]:
        """Give the detector what comes next."""
        if self.given - self.snapshots.last.given >= self.snapshots.interval:
            self._snapshot(self.place, dict(self._ledger.counts))
        try:
            emissions = self._runner.feed(step, pieces, when)
        except BatchFailed:
            self._return_to_place(step)
            emissions = self._runner.feed(step, pieces, when, one_by_one=True)
        self.place = pieces[-1].last_place
        self.given += sum(map(len, pieces))
        return self._ledger.add(emissions)

    def repair(self, step: Step, wrong: list[Wrong]) -> Changes:
        """Play again from before the first wrong place."""
        self.repairs += 1
        first = min(entry.place for entry in wrong)
        last = max(entry.place for entry in wrong)
        update = min(entry.update for entry in wrong)
        self._input.advance(self.place.ts)
        number = self.snapshots.before(first)
        before = self.snapshots[number]
        faults = self._runner.faults[self._faults_until(before.place) :]
        cut = self._ledger.cut(before.place)
        later = self.snapshots.cut(number)
        plan = Plan(
            events=self.given - before.given,
            snapshots=len(later),
            state_bytes=len(before.state),
            published=sum(output.place >= first for output in cut),
        )
        full = self.chooser.choose(plan) == "full"
        until = None if full else last
        current, counts_now = (b"", {}) if full else (self._runner.snapshot(), self._ledger.counts)
        when = _replay_times(step, update)
        try:
            emissions, same_at = self._replay(step, before, later, until, when, False)
        except BatchFailed:
            self.snapshots.cut(number)
            emissions, same_at = self._replay(step, before, later, until, when, True)
        already = [emission for emission in emissions if emission.place.ts < self._settled]
        emissions = emissions[len(already) :]
        self._ledger.counts = _counted(before.counts, already)
        above = self._counts_before(cut, emissions, first) if full else None
        if same_at is None:
            retracted, added = self._ledger.redo(cut, emissions, first if full else None)
        else:
            changed = [output for output in cut if output.place <= same_at]
            retracted, added = self._ledger.redo(changed, emissions)
            self._ledger.keep(cut[len(changed) :])
            self._ledger.counts = counts_now
            self._runner.restore(current)
            self._runner.faults += [fault for fault in faults if fault.place > same_at]
        if not full:
            met = [s.given for s in later if same_at is not None and s.place <= same_at]
            spared = self.given - met[-1] if met else 0
            self.chooser.learn(Repair(plan, spared, len(retracted)))
        left = {(fault.place, fault.event) for fault in self._runner.faults}
        vanished = [f for f in faults if (f.place, f.event) not in left]
        update = min(max(update, step.before), step.last)
        return Changes(update, retracted, added, above, vanished)

    def settle(self, stable: int) -> tuple[list[Output], list[Fault]]:
        """Make final what lies before ``stable``, and forget what is no longer needed for it."""
        final = self._ledger.finalise(stable)
        faults = []
        while self._runner.faults and self._runner.faults[0].place.ts < stable:
            fault = self._runner.faults.pop(0)
            if fault.place.ts >= self._settled:
                faults.append(fault)
        self._settled = stable
        if self.snapshots.purge(stable):
            self._input.purge(self.snapshots.first.place)
        return final, faults

    # ---- replay ----------------------------------------------------------------------------

    def _replay(
        self,
        step: Step,
        before: Snapshot,
        later: list[Snapshot],
        wrong_until: Key | None,
        when: When,
        one_by_one: bool,
    ) -> tuple[list[Emission], Key | None]:
        """Replay, taking the later snapshots anew; where the past held again, if it did.

        Without ``wrong_until`` nothing is compared, and every second snapshot will do.
        """
        self._runner.restore(before.state)
        del self._runner.faults[self._faults_until(before.place) :]
        emissions: list[Emission] = []
        at = before.place
        olds = later[1::2] if wrong_until is None else later
        for i, old in enumerate(olds):
            emissions += self._play_again(step, at, old.place, when, one_by_one)
            at = old.place
            counts = _counted(before.counts, emissions)
            state = self._runner.snapshot()
            holds = wrong_until is not None and at >= wrong_until
            if holds and state == old.state and counts == old.counts:
                for snapshot in later[i:]:
                    self.snapshots.add(snapshot)
                return emissions, at
            self.snapshots.add(Snapshot(at, state, counts, old.given))
        return emissions + self._play_again(step, at, self.place, when, one_by_one), None

    def _play_again(
        self, step: Step, after: Key, upto: Key, when: When, one_by_one: bool
    ) -> list[Emission]:
        pieces = self._input.between(after, upto)
        self.replayed += sum(map(len, pieces))
        return self._runner.feed(step, pieces, when, one_by_one)

    def _return_to_place(self, step: Step) -> None:
        """Bring the detector back to ``place`` after a batch left it in no defined state."""
        last = self.snapshots.last
        self._runner.restore(last.state)
        del self._runner.faults[self._faults_until(last.place) :]
        self._play_again(step, last.place, self.place, lambda p: p.updates, True)

    def _snapshot(self, place: Key, counts: dict[str, int]) -> None:
        if place > self.snapshots.last.place:
            self.snapshots.add(Snapshot(place, self._runner.snapshot(), counts, self.given))

    def _faults_until(self, place: Key) -> int:
        """How many faults lie up to and with ``place``."""
        return sum(fault.place <= place for fault in self._runner.faults)

    def _counts_before(
        self, cut: list[Output], emissions: list[Emission], first: Key
    ) -> dict[str, int]:
        """Per type with outputs behind ``first``: the number of the last one before it."""
        before = _counted(self._ledger.counts, [e for e in emissions if e.place < first])
        return {o.event.type: before[o.event.type] for o in cut if o.place >= first}


def _replay_times(step: Step, update: int) -> When:
    """In a replay a row takes place when it, and the wrong place before it, were known."""
    newest = update

    def when(piece: Piece) -> IntArray:
        nonlocal newest
        times = np.maximum.accumulate(np.maximum(piece.updates, newest))
        newest = int(times[-1])
        return np.minimum(times, step.last)

    return when


def _counted(counts: dict[str, int], emissions: list[Emission]) -> dict[str, int]:
    total = dict(counts)
    for emission in emissions:
        total[emission.type] += 1
    return total
