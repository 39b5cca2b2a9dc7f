"""The cell: a detector with its ordering unit. Pure: it takes messages and returns messages.

Theory of operation. The ordering unit says how far events may pass (``reach``) and how far the
past is settled (``stable``). What lies behind ``place``, the last event given to the detector,
and within reach is given to it in total order. An event that turns up, changes or vanishes
before ``place`` makes the past wrong: the cell goes back to the last snapshot before it and
plays everything from there again (*repair*), and the ledger publishes the difference. When the
replay reaches a later snapshot in the very state that was saved there, the rest of the past
still holds and the replay ends.

Promises travel upwards with the stable mark, lowered by how far the detector dates its outputs
back, so that an upper cell never makes final what a lower one may still correct. Along a step
the promise moves with the mark only when the outputs are timed exactly; ``on_batch`` publishes
at the end of a step, so its promise moves there.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from slackline.errors import EmitError
from slackline.events import TS_MAX, TS_MIN, Event, IntArray, Key
from slackline.hierarchy import Node
from slackline.input import Input, Piece
from slackline.ledger import Emission, Ledger, Output
from slackline.messages import Add, Retract
from slackline.ordering import OrderingUnit, Said, View
from slackline.policy import KSlack, Ordering
from slackline.runner import BatchFailed, Runner
from slackline.stats import DetectorStats, Latency
from slackline.step import Along, Arrived, Step
from slackline.tape import Tape

__all__ = ["Cell", "DeadLetter", "LateEvent", "Outcome", "Start"]

START = Key(TS_MIN, "", "", 0)
SNAPSHOT_EVENTS_MIN, SNAPSHOT_BYTES_PER_EVENT = 32, 32
"""A snapshot is taken when this many events, plus one per so many bytes of state, have passed."""

BACKSET_DOUBT = 64
"""After so many outputs of a type the distrust in how far back they were dated has halved."""


@dataclass(frozen=True, slots=True)
class LateEvent:
    """An event behind the horizon; ``clk`` and ``stable`` are those of its arrival."""

    detector: str
    event: Event
    clk: int
    stable: int
    cause: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event on which a detector raised, in its right order."""

    detector: str
    event: Event
    error: Exception


@dataclass(frozen=True, slots=True)
class Start:
    """What a configuration knows beforehand: K, and how far each output type is dated back."""

    k: int = 0
    backset: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step made of a cell's input."""

    messages: list[Add | Retract]
    promises: dict[str, Along]
    """For each published type: nothing before this will be added or retracted any more."""
    announced: dict[str, Along]
    """For each published type: how old its events may be when they are published."""
    final: list[Output]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    place: Key
    state: bytes
    counts: dict[str, int]


@dataclass(slots=True)
class _Counts:
    received: int = 0
    emitted: int = 0
    reordered: int = 0
    repaired: int = 0
    replayed: int = 0
    late: int = 0
    duplicates: int = 0
    faults: int = 0
    published: int = 0
    retracted: int = 0


@dataclass(frozen=True, slots=True)
class _Wrong:
    """The past is wrong at ``place``, as of clock update ``update``."""

    place: Key
    update: int


class Cell:
    """Orders the input of one detector, runs it, and corrects what it published."""

    def __init__(
        self,
        node: Node,
        ordering: Ordering,
        second: int,
        tapes: dict[str, Tape],
        publishers: dict[str, tuple[str, ...]],
        clock: tuple[str, ...],
        jump_max: int,
        start: Start | None = None,
    ) -> None:
        start = start or Start()
        self._clock_types = clock
        self.node = node
        self.unit = OrderingUnit(node, ordering, second, publishers, jump_max, start.k)
        self.runner = Runner(node)
        self.runner.backset.update(
            {type_: back for type_, back in start.backset.items() if type_ in node.publishes}
        )
        ordered = {t: tapes[t] for t in node.listens if t in tapes and t not in self.unit.loose}
        self.input = Input(node.listens, ordered, self.runner.in_columns)
        self.place = START
        self.late: list[LateEvent] = []
        self.dead_letters: list[DeadLetter] = []
        self.counts = _Counts()
        self._jump_max = jump_max
        self._ledger = Ledger(node.name, node.publishes)
        state = self.runner.snapshot()
        self._snapshots = [_Snapshot(START, state, dict(self._ledger.counts))]
        self._since_snapshot = 0
        self._snapshot_every = _snapshot_interval(state)
        self._settled = TS_MIN
        """Everything before this has been made final; a replay may begin before it."""
        self._latest: dict[str, int] = {}
        self._latencies: list[int] = []
        self._waiting = self._waiting_max = 0
        self._held_back: dict[str, int | None] | None = None
        """What it was waiting for when the input ended."""

    @property
    def kept_from(self) -> int:
        """The time from which on this cell may read its tapes again."""
        return self._snapshots[0].place.ts

    def step(
        self,
        step: Step,
        arrived: dict[str, Arrived],
        messages: list[Add | Retract],
        promises: Said,
        announced: Said,
    ) -> Outcome:
        """Take everything that came in one step."""
        view = self.unit.advance(step, arrived, messages, promises, announced)
        wrong: list[_Wrong] = []
        self._count_reordered(arrived)
        for type_, new in arrived.items():
            self._receive_rows(view, type_, new, wrong)
        for message in messages:
            self._receive(view, message, wrong)
        sent: list[Add | Retract] = []
        if self.unit.loose:
            self._pass_unordered(step, arrived, messages, sent)
        if wrong:
            self._repair(step, wrong, sent)
        if view.stable_now == TS_MAX and self._held_back is None:
            self._held_back = self.waiting(step.clk_now)
        self._pass_on(view, sent)
        final = self._settle(view.stable_now)
        self._waiting_max = max(self._waiting_max, self._waiting)
        return Outcome(sent, self._promises(view), self._announced(view), final)

    # ---- taking events in ------------------------------------------------------------------

    def _receive_rows(self, view: View, type_: str, new: Arrived, wrong: list[_Wrong]) -> None:
        rows = new.rows
        if not len(rows):
            return
        self.counts.received += len(rows)
        self._heard(type_, int(rows.ts[-1]))
        if type_ in self.unit.loose:
            return
        if rows.ts[0] < view.stable[-1]:
            place = np.clip(rows.update - view.step.before - 1, 0, len(view.stable) - 1)
            late = rows.ts < view.stable[place]
            if late.any():
                for row in np.flatnonzero(late).tolist():
                    event = rows[row : row + 1].events[0]
                    self.input.exclude(event)
                    self._put_late(view, event, int(rows.update[row]))
                rows = rows.take(~late)
        self._waiting += len(rows)
        if len(rows) and rows.ts[0] <= self.place.ts:
            behind = rows.place(self.place)
            if behind:
                update = int(rows.update[:behind].min())
                wrong += [_Wrong(rows.key(0), update), _Wrong(rows.key(behind - 1), update)]
                self._repaired(behind)

    def _receive(self, view: View, message: Add | Retract, wrong: list[_Wrong]) -> None:
        event, update = message.event, message.update
        if event.type in self.unit.loose:
            return
        inbox = self.input.inbox
        if isinstance(message, Retract):
            place = inbox.remove(event, message.rev)
            if place is not None and place <= self.place:
                wrong.append(_Wrong(place, update))
            elif place is not None:
                self._waiting -= 1
            return
        self.counts.received += 1
        self.counts.reordered += event.ts < max(self._latest.values(), default=TS_MIN)
        self._heard(event.type, event.ts)
        if event.ts < view.stable_at(update):
            self._put_late(view, event, update)
        elif not inbox.insert(event, message.rev, event.key, update):
            self.counts.duplicates += 1
        else:
            self._waiting += 1
            if event.key <= self.place:
                wrong.append(_Wrong(event.key, update))
                self._repaired(1)

    def _count_reordered(self, arrived: dict[str, Arrived]) -> None:
        """Count the rows that came behind a later one, of whichever type."""
        parts = [(new.index, new.as_they_came.ts) for new in arrived.values() if len(new.rows)]
        if not parts:
            return
        ts = parts[0][1]
        if len(parts) > 1:
            order = np.argsort(np.concatenate([index for index, _ in parts]))
            ts = np.concatenate([ts for _, ts in parts])[order]
        heard = np.maximum.accumulate(np.maximum(ts, max(self._latest.values(), default=TS_MIN)))
        self.counts.reordered += int(np.count_nonzero(ts < heard))

    def _repaired(self, events: int) -> None:
        self.counts.repaired += events
        self.counts.emitted += events
        self._waiting -= events

    def _heard(self, type_: str, ts: int) -> None:
        self._latest[type_] = max(self._latest.get(type_, TS_MIN), ts)

    def _put_late(self, view: View, event: Event, update: int) -> None:
        clk, stable = view.step.clk_at(update), view.stable_at(update)
        cause = f"{stable - event.ts} behind the horizon (stable up to {stable}, clk {clk})"
        if clk - event.ts > self._jump_max:
            cause += "; a time too absurd for K to learn from"
        self.counts.late += 1
        self.late.append(LateEvent(self.node.name, event, clk, stable, cause))

    # ---- giving events to the detector -----------------------------------------------------

    def _pass_on(self, view: View, sent: list[Add | Retract]) -> None:
        """Give the detector what is within reach."""
        self.input.advance(view.reach_now)
        pieces = self.input.between(self.place, Key.end_of(view.reach_now))
        if pieces:
            self._pass_pieces(view.step, pieces, sent, lambda p: view.passed(p.ts, p.updates))
            self._waiting -= sum(map(len, pieces))

    def _pass_unordered(
        self,
        step: Step,
        arrived: dict[str, Arrived],
        messages: list[Add | Retract],
        sent: list[Add | Retract],
    ) -> None:
        """Give the detector what bypasses the ordering, behind the place it has reached."""
        came = [
            (min(update, step.last), event, 0)
            for type_, new in arrived.items()
            if type_ in self.unit.loose
            for update, event in zip(
                new.as_they_came.update.tolist(), new.as_they_came.events, strict=True
            )
        ]
        came.sort(key=lambda entry: entry[0])
        for message in messages:
            if message.event.type in self.unit.loose and isinstance(message, Add):
                self.counts.received += 1
                self._heard(message.event.type, message.event.ts)
                came.append((min(message.update, step.last), message.event, message.rev))
        for update, event, rev in came:
            place = self.place._replace(nth=self.place.nth + 1)
            if not self.input.inbox.insert(event, rev, place, update):
                self.counts.duplicates += 1
                continue
            updates = np.array([update], dtype=np.int64)
            piece = Piece(None, [event], [place], updates)
            self._pass_pieces(step, [piece], sent, lambda p: p.updates)

    def _pass_pieces(
        self,
        step: Step,
        pieces: list[Piece],
        sent: list[Add | Retract],
        when: _When,
    ) -> None:
        self._snapshot_if_due()
        count = sum(map(len, pieces))
        try:
            emissions = self.runner.feed(step, pieces, when)
        except BatchFailed:
            self._rewind(step)
            emissions = self.runner.feed(step, pieces, when, one_by_one=True)
        self.place = pieces[-1].last_place
        self.counts.emitted += count
        self._since_snapshot += count
        sent += [_added(output) for output in self._ledger.add(emissions)]

    def _rewind(self, step: Step) -> None:
        """Bring the detector back to ``place`` after a batch left it in no defined state."""
        last = self._snapshots[-1]
        self.runner.restore(last.state)
        del self.runner.faults[self._faults_until(last.place) :]
        pieces = self.input.between(last.place, self.place)
        self.runner.feed(step, pieces, lambda p: p.updates, one_by_one=True)
        self.counts.replayed += sum(map(len, pieces))

    # ---- repair ----------------------------------------------------------------------------

    def _repair(self, step: Step, wrong: list[_Wrong], sent: list[Add | Retract]) -> None:
        """Play the past again from before the first wrong place; publish what has changed."""
        first = min(entry.place for entry in wrong)
        last = max(entry.place for entry in wrong)
        update = min(entry.update for entry in wrong)
        self.input.advance(self.place.ts)
        start = bisect_left(self._snapshots, first, key=attrgetter("place")) - 1
        before, current = self._snapshots[start], self.runner.snapshot()
        later = self._snapshots[start + 1 :]
        counts_now = self._ledger.counts
        faults = self.runner.faults[self._faults_until(before.place) :]
        cut = self._ledger.cut(before.place)
        try:
            emissions, same_at = self._replay(step, start, later, last, update, False)
        except BatchFailed:
            emissions, same_at = self._replay(step, start, later, last, update, True)
        already = [emission for emission in emissions if emission.place.ts < self._settled]
        emissions = emissions[len(already) :]
        self._ledger.counts = _counted(before.counts, already)
        if same_at is None:
            retracted, added = self._ledger.redo(cut, emissions)
        else:
            changed = [output for output in cut if output.place <= same_at]
            retracted, added = self._ledger.redo(changed, emissions)
            self._ledger.keep(cut[len(changed) :])
            self._ledger.counts = counts_now
            self.runner.restore(current)
            self.runner.faults += [fault for fault in faults if fault.place > same_at]
        self.counts.retracted += len(retracted)
        update = min(max(update, step.before), step.last)
        clk = step.clk_at(update)
        sent += [Retract(output.event, output.rev, update, clk) for output in retracted]
        sent += [_added(output) for output in added]

    def _replay(
        self,
        step: Step,
        start: int,
        later: list[_Snapshot],
        wrong_until: Key,
        update: int,
        one_by_one: bool,
    ) -> tuple[list[Emission], Key | None]:
        """Replay from snapshot ``start``: what is emitted now, and where the past holds again."""
        before = self._snapshots[start]
        del self._snapshots[start + 1 :]
        self.runner.restore(before.state)
        del self.runner.faults[self._faults_until(before.place) :]
        emissions: list[Emission] = []
        when = _replay_times(step, update)
        at = before.place
        for i, old in enumerate([*later, None]):
            upto = self.place if old is None else old.place
            pieces = self.input.between(at, upto)
            emissions += self.runner.feed(step, pieces, when, one_by_one)
            self.counts.replayed += sum(map(len, pieces))
            at = upto
            if old is None:
                break
            counts = _counted(before.counts, emissions)
            state = self.runner.snapshot()
            if at >= wrong_until and state == old.state and counts == old.counts:
                self._snapshots += later[i:]
                return emissions, at
            self._snapshots.append(_Snapshot(at, state, counts))
        return emissions, None

    def _snapshot_if_due(self) -> None:
        if self._since_snapshot < self._snapshot_every or self.place <= self._snapshots[-1].place:
            return
        state, last = self.runner.snapshot(), self._snapshots[-1].state
        if state == last:
            state = last
        self._snapshots.append(_Snapshot(self.place, state, dict(self._ledger.counts)))
        self._snapshot_every = _snapshot_interval(state)
        self._since_snapshot = 0

    def _faults_until(self, place: Key) -> int:
        """How many faults lie up to and with ``place``."""
        return sum(fault.place <= place for fault in self.runner.faults)

    # ---- making things final ---------------------------------------------------------------

    def _settle(self, stable: int) -> list[Output]:
        """Make final what lies before ``stable`` and forget what is no longer needed for it."""
        final = self._ledger.finalise(stable)
        self.counts.published += len(final)
        self._latencies += [output.clk - output.event.ts for output in final]
        while self.runner.faults and self.runner.faults[0].place.ts < stable:
            fault = self.runner.faults.pop(0)
            if fault.place.ts < self._settled:
                continue
            if isinstance(fault.error, EmitError):
                raise fault.error
            self.counts.faults += 1
            self.dead_letters.append(DeadLetter(self.node.name, fault.event, fault.error))
        self._settled = stable
        needed = 0
        while needed + 1 < len(self._snapshots) and self._snapshots[needed + 1].place.ts < stable:
            needed += 1
        if needed:
            del self._snapshots[:needed]
            self.input.purge(self._snapshots[0].place)
        return final

    def _promises(self, view: View) -> dict[str, Along]:
        promises = {}
        for type_ in self.node.publishes:
            if view.stable_now == TS_MAX:
                promises[type_] = Along(None, TS_MAX)
                continue
            back = self._backset_allowed(type_)
            values = view.stable - back
            if self.runner.in_columns:
                values = np.full_like(values, values[0])
            promises[type_] = Along(values, view.stable_now - back)
        return promises

    def _backset_allowed(self, type_: str) -> int:
        """How far back outputs may still be dated: as declared, or learnt with growing trust."""
        declared = self.node.detector.backset_max
        if declared is not None:
            return declared
        learnt = max(self.unit.factor * self.runner.backset[type_], self.unit.horizon_min)
        return math.ceil(learnt * (1 + BACKSET_DOUBT / (1 + self._ledger.counts[type_])))

    def _announced(self, view: View) -> dict[str, Along]:
        if not isinstance(self.unit.ordering, KSlack):
            return {}
        return {
            type_: Along(
                view.k + self.runner.backset[type_], self.unit.k + self.runner.backset[type_]
            )
            for type_ in self.node.publishes
        }

    def stats(self, clk: int, rejected: int, duplicates: int) -> DetectorStats:
        """Everything countable about this cell, as of now."""
        counts = self.counts
        return DetectorStats(
            ordering=repr(self.unit.ordering),
            k=self.unit.k,
            k_history=list(self.unit.k_history),
            delays=self.unit.delays,
            buffered=self._waiting,
            buffered_max=self._waiting_max,
            received=counts.received,
            emitted=counts.emitted,
            reordered=counts.reordered,
            repaired=counts.repaired,
            replayed=counts.replayed,
            late=counts.late,
            rejected=rejected,
            duplicates=counts.duplicates + duplicates,
            faults=counts.faults,
            published=counts.published,
            retracted=counts.retracted,
            latency=Latency.of(self._latencies),
            waiting=self.waiting(clk) if self._held_back is None else self._held_back,
        )

    def waiting(self, clk: int) -> dict[str, int | None]:
        """The types that hold this cell back, each with how far it has come."""
        since = self.input.first_after(self.place) if self._waiting else None
        return self.unit.waiting(self._clock_types, clk, since)


_When = Callable[[Piece], IntArray]


def _replay_times(step: Step, update: int) -> _When:
    """In a replay a row takes place when it, and the wrong place before it, were known."""
    newest = update

    def when(piece: Piece) -> IntArray:
        nonlocal newest
        times = np.maximum.accumulate(np.maximum(piece.updates, newest))
        newest = int(times[-1])
        return np.minimum(times, step.last)

    return when


def _added(output: Output) -> Add:
    return Add(output.event, output.rev, output.update, output.clk)


def _counted(counts: dict[str, int], emissions: list[Emission]) -> dict[str, int]:
    total = dict(counts)
    for emission in emissions:
        total[emission.type] += 1
    return total


def _snapshot_interval(state: bytes) -> int:
    return SNAPSHOT_EVENTS_MIN + len(state) // SNAPSHOT_BYTES_PER_EVENT
