"""The cell: a detector with its ordering unit. Pure: it takes messages and returns messages.

Theory of operation. The ordering unit says how far events may pass (``reach``) and how far the
past is settled (``stable``). What lies behind ``place``, the last event given to the detector,
and within reach is given to it in total order. An event that turns up, changes or vanishes
before ``place`` makes the past wrong, and the past is repaired.

Promises travel upwards with the stable mark, lowered by how far the detector dates its outputs
back, so that an upper cell never makes final what a lower one may still correct. Along a step
the promise moves with the mark only when the outputs are timed exactly; ``on_batch`` publishes
late in a step, so its promise moves at the end.

What a speculative cell publishes before K-slack would have is marked with that lead (K⁺): the
cells above add it to the delays that they measure, so their K is not shortened by luck below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slackline.errors import EmitError
from slackline.events import TS_MAX, TS_MIN, Event, Key
from slackline.hierarchy import Node
from slackline.input import Input, Piece
from slackline.ledger import LogEntry, Output
from slackline.messages import Add, Correction, Retract, RetractAbove
from slackline.ordering import OrderingUnit, Said, View
from slackline.past import Past, Wrong
from slackline.policy import Ordering, Speculative
from slackline.runner import Runner
from slackline.speculation import Work, alpha_of, choose_wait
from slackline.stats import DetectorStats, Latency
from slackline.step import Along, Arrived, Step
from slackline.tape import Tape

__all__ = ["Cell", "DeadLetter", "LateEvent", "Outcome", "Start"]

BACKSET_DOUBT = 64
"""After so many outputs of a type the distrust in how far back they were dated has halved."""
IDLE_STEPS = 20
"""An idle cell moves its marks so often per least horizon."""
IDLE_UPDATES_MAX = 1024
"""In a step of more clock updates even an idle cell says exactly when its marks moved."""
PREMATURE_FAULTS_MAX = 3
"""A detector that raises so often on events it should not have been given yet is given none."""


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

    messages: list[Correction]
    log: list[LogEntry]
    promises: dict[str, Along]
    """For each published type: nothing before this will be added or retracted any more."""
    announced: dict[str, Along]
    """For each published type: how old its events may be when they are published."""
    retracted: int
    replayed: int


@dataclass(slots=True)
class _Counts:
    received: int = 0
    emitted: int = 0
    reordered: int = 0
    repaired: int = 0
    late: int = 0
    duplicates: int = 0
    faults: int = 0
    premature_faults: int = 0
    published: int = 0
    retracted: int = 0


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
        self.node = node
        self.unit = OrderingUnit(node, ordering, second, publishers, jump_max, start.k)
        self.runner = Runner(node)
        self.runner.backset.update(
            {type_: back for type_, back in start.backset.items() if type_ in node.publishes}
        )
        ordered = {t: tapes[t] for t in node.listens if t in tapes and t not in self.unit.loose}
        self.input = Input(node.listens, ordered, self.runner.in_columns)
        retraction = ordering.retraction if isinstance(ordering, Speculative) else "on-demand"
        self.past = Past(
            node, self.input, self.runner, retraction, self.unit.settings.snapshot_bytes_max
        )
        self.late: list[LateEvent] = []
        self.dead_letters: list[DeadLetter] = []
        self.counts = _Counts()
        self._clock_types = clock
        self._jump_max = jump_max
        self._latest: dict[str, int] = {}
        self._latencies: list[int] = []
        self._waiting = self._waiting_max = 0
        self._held_back: dict[str, int | None] | None = None
        """What it was waiting for when the input ended."""
        self._steps = self._received_before = 0
        self._next_clk = TS_MIN
        """Until the clock gets there, a step that brings nothing changes nothing."""

    @property
    def kept_from(self) -> int:
        """The time from which on this cell may read its tapes again."""
        return self.past.snapshots.first.place.ts

    def step(
        self,
        step: Step,
        arrived: dict[str, Arrived],
        messages: list[Correction],
        promises: Said,
        announced: Said,
    ) -> Outcome:
        """Take everything that came in one step."""
        if not arrived and not messages and self._may_idle(step):
            return self._idle(self.unit.advance_idle(step, promises, announced))
        self._next_clk = TS_MIN
        view = self.unit.advance(step, arrived, messages, promises, announced)
        self._steps += bool(arrived or messages)
        wrong: list[Wrong] = []
        self._count_reordered(arrived, messages)
        for type_, new in arrived.items():
            self._receive_rows(view, type_, new, wrong)
        for message in messages:
            self._receive(view, message, wrong)
        sent: list[Correction] = []
        log: list[LogEntry] = []
        retracted, replayed = self.counts.retracted, self.past.replayed
        if self.unit.loose:
            self._pass_unordered(step, arrived, messages, sent, log)
        if wrong:
            self._repair(step, wrong, sent, log)
        if view.stable_now == TS_MAX and self._held_back is None:
            self._held_back = self.waiting(step.clk_now)
        self._pass_on(view, sent, log)
        self._settle(view, log)
        self._waiting_max = max(self._waiting_max, self._waiting)
        return Outcome(
            sent,
            log,
            self._promises(view),
            self._announced(view),
            self.counts.retracted - retracted,
            self.past.replayed - replayed,
        )

    def rests(self, step: Step) -> bool:
        """Whether a step that brings this cell nothing may be left out altogether."""
        return step.clk_now < self._next_clk and self._may_idle(step)

    def _may_idle(self, step: Step) -> bool:
        return not (self.input.tapes or self.unit.loose) and len(step.clk) <= IDLE_UPDATES_MAX

    def _idle(self, view: View) -> Outcome:
        """Nothing came; the marks move on all the same, and what has waited may pass."""
        if view.stable_now == TS_MAX and self._held_back is None:
            self._held_back = self.waiting(view.step.clk_now)
        sent: list[Correction] = []
        log: list[LogEntry] = []
        self._next_clk = view.step.clk_now + self.unit.horizon_min // IDLE_STEPS
        if self._waiting:
            since = self.input.inbox.first_after(self.past.place)
            if since is not None and since <= view.reach_now:
                self._pass_on(self.unit.when_reached(view), sent, log)
                since = self.input.inbox.first_after(self.past.place)
            if since is not None:
                self._next_clk = min(self._next_clk, self.unit.clk_to_reach(since))
        self._settle(view, log)
        promises = {
            type_: Along(None, self._promised(type_, view.stable_now))
            for type_ in self.node.publishes
        }
        return Outcome(sent, log, promises, self._announced(view), 0, 0)

    # ---- taking events in ------------------------------------------------------------------

    def _receive_rows(self, view: View, type_: str, new: Arrived, wrong: list[Wrong]) -> None:
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
        if len(rows) and rows.ts[0] <= self.past.place.ts:
            behind = rows.place(self.past.place)
            if behind:
                update = int(rows.update[:behind].min())
                wrong += [Wrong(rows.key(0), update), Wrong(rows.key(behind - 1), update)]
                self._repaired(behind)

    def _receive(self, view: View, message: Correction, wrong: list[Wrong]) -> None:
        update, inbox = message.update, self.input.inbox
        if message.type in self.unit.loose:
            return
        if isinstance(message, RetractAbove):
            for place in inbox.remove_above(message.publisher, message.type, message.seq):
                self._removed(place, update, wrong)
            return
        event = message.event
        if isinstance(message, Retract):
            known = inbox.remove(event, message.rev)
            if known is not None:
                self._removed(known, update, wrong)
            return
        self.counts.received += 1
        self._heard(event.type, event.ts)
        if event.ts < view.stable_at(update):
            self._put_late(view, event, update)
        elif not inbox.insert(event, message.rev, event.key, update):
            self.counts.duplicates += 1
        else:
            self._waiting += 1
            if event.key <= self.past.place:
                wrong.append(Wrong(event.key, update))
                self._repaired(1)

    def _removed(self, place: Key, update: int, wrong: list[Wrong]) -> None:
        if place <= self.past.place:
            wrong.append(Wrong(place, update))
        else:
            self._waiting -= 1

    def _count_reordered(self, arrived: dict[str, Arrived], messages: list[Correction]) -> None:
        """Count what came behind a later event, of whichever type."""
        latest = max(self._latest.values(), default=TS_MIN)
        parts = [(new.index, new.as_they_came.ts) for new in arrived.values() if len(new.rows)]
        if parts:
            ts = parts[0][1]
            if len(parts) > 1:
                order = np.argsort(np.concatenate([index for index, _ in parts]))
                ts = np.concatenate([ts for _, ts in parts])[order]
            heard = np.maximum.accumulate(np.maximum(ts, latest))
            self.counts.reordered += int(np.count_nonzero(ts < heard))
        added = [(m.update, m.event.ts) for m in messages if isinstance(m, Add)]
        for _, time in sorted(added):
            self.counts.reordered += time < latest
            latest = max(latest, time)

    def _repaired(self, events: int) -> None:
        self.counts.repaired += events
        self.counts.emitted += events
        self._waiting -= events

    def _heard(self, type_: str, ts: int) -> None:
        self._latest[type_] = max(self._latest.get(type_, TS_MIN), ts)

    def _put_late(self, view: View, event: Event, update: int) -> None:
        clk, stable = view.step.clk_at(update - 1), view.stable_at(update)
        cause = f"{stable - event.ts} behind the horizon (stable up to {stable}, clk {clk})"
        if clk - event.ts > self._jump_max:
            cause += "; a time too absurd for K to learn from"
        self.counts.late += 1
        self.late.append(LateEvent(self.node.name, event, clk, stable, cause))

    # ---- giving events to the detector -----------------------------------------------------

    def _pass_on(self, view: View, sent: list[Correction], log: list[LogEntry]) -> None:
        """Give the detector what is within reach."""
        self.input.advance(view.reach_now)
        pieces = self.input.between(self.past.place, Key.end_of(view.reach_now))
        if pieces:
            count = sum(map(len, pieces))
            self._waiting -= count
            self.counts.emitted += count
            outputs = self.past.play(view.step, pieces, lambda p: view.passed(p.ts, p.updates))
            self._publish(outputs, sent, log)

    def _pass_unordered(
        self,
        step: Step,
        arrived: dict[str, Arrived],
        messages: list[Correction],
        sent: list[Correction],
        log: list[LogEntry],
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
            if message.type in self.unit.loose and isinstance(message, Add):
                self.counts.received += 1
                self._heard(message.type, message.event.ts)
                came.append((min(message.update, step.last), message.event, message.rev))
        for update, event, rev in came:
            place = self.past.place._replace(nth=self.past.place.nth + 1)
            if not self.input.inbox.insert(event, rev, place, update):
                self.counts.duplicates += 1
                continue
            self.counts.emitted += 1
            piece = Piece(None, [event], [place], np.array([update], dtype=np.int64))
            self._publish(self.past.play(step, [piece], lambda p: p.updates), sent, log)

    def _repair(
        self, step: Step, wrong: list[Wrong], sent: list[Correction], log: list[LogEntry]
    ) -> None:
        """Put the past right and publish what has changed in it."""
        changes = self.past.repair(step, wrong)
        clk = step.clk_at(changes.update)
        self.counts.retracted += len(changes.retracted)
        log += [LogEntry("retract", o.event, clk, o.rev) for o in changes.retracted]
        if changes.above is None:
            sent += [Retract(o.event, o.rev, changes.update, clk) for o in changes.retracted]
        else:
            sent += [
                RetractAbove(self.node.name, type_, seq, changes.update, clk)
                for type_, seq in changes.above.items()
            ]
        self._publish(changes.added, sent, log)
        if changes.vanished:
            self.counts.premature_faults += len(changes.vanished)
            if self.counts.premature_faults >= PREMATURE_FAULTS_MAX:
                self.unit.alpha = 1.0

    def _publish(self, outputs: list[Output], sent: list[Correction], log: list[LogEntry]) -> None:
        for output in outputs:
            lead = 0
            if self.unit.at_once:
                lead = max(0, output.place.ts + self.unit.k - output.clk)
            sent.append(Add(output.event, output.rev, output.update, output.clk, lead))
            log.append(LogEntry("add", output.event, output.clk, output.rev))

    # ---- making things final ---------------------------------------------------------------

    def _settle(self, view: View, log: list[LogEntry]) -> None:
        final, faults = self.past.settle(view.stable_now)
        self.counts.published += len(final)
        self._latencies += [output.clk - output.event.ts for output in final]
        clk = view.step.clk_now
        log += [LogEntry("final", output.event, clk, output.rev) for output in final]
        for fault in faults:
            if isinstance(fault.error, EmitError):
                raise fault.error
            self.counts.faults += 1
            self.dead_letters.append(DeadLetter(self.node.name, fault.event, fault.error))

    def _promises(self, view: View) -> dict[str, Along]:
        promises = {}
        for type_ in self.node.publishes:
            now = self._promised(type_, view.stable_now)
            values = None
            if not self.runner.in_columns and now != TS_MAX:
                values = view.stable - (view.stable_now - now)
            promises[type_] = Along(values, now)
        return promises

    def _promised(self, type_: str, stable: int) -> int:
        """Before when no output of a type comes any more, given that nothing happens before."""
        return stable if stable == TS_MAX else stable - self._backset_allowed(type_)

    def _backset_allowed(self, type_: str) -> int:
        """How far back outputs may still be dated: as declared, or learnt with growing trust."""
        declared = self.node.detector.backset_max
        if declared is not None:
            return declared
        learnt = max(self.unit.factor * self.runner.backset[type_], self.unit.horizon_min)
        return math.ceil(learnt * (1 + BACKSET_DOUBT / (1 + self.past.counts[type_])))

    def _announced(self, view: View) -> dict[str, Along]:
        if not self.unit.waits_for_clock:
            return {}
        steady = view.k[0] == view.k[-1]
        announced = {}
        for type_ in self.node.publishes:
            back = self.runner.backset[type_]
            announced[type_] = Along(None if steady else view.k + back, self.unit.k + back)
        return announced

    # ---- speculation -----------------------------------------------------------------------

    def adapt(self, pressure: float, seconds: float, repair_seconds: float) -> None:
        """Choose how long to wait, after a span of stream time, from its load and delays."""
        self.past.chooser.pressure = pressure
        ordering = self.unit.ordering
        if not isinstance(ordering, Speculative) or ordering.alpha != "auto":
            return
        if self.counts.premature_faults >= PREMATURE_FAULTS_MAX:
            return
        received = self.counts.received - self._received_before
        self._received_before = self.counts.received
        work = Work(
            events=received / seconds,
            steps=self._steps / seconds,
            repair_seconds=repair_seconds,
        )
        self._steps = 0
        k = self.unit.k
        wait = choose_wait(self.unit.sample.sorted(), k, pressure, work)
        self.unit.alpha = alpha_of(wait, k)

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
            replayed=self.past.replayed,
            late=counts.late,
            rejected=rejected,
            duplicates=counts.duplicates + duplicates,
            faults=counts.faults,
            published=counts.published,
            retracted=counts.retracted,
            premature_faults=counts.premature_faults,
            alpha=self.unit.alpha,
            retraction=self.past.chooser.now,
            snapshots=len(self.past.snapshots),
            snapshot_bytes_max=self.past.snapshots.bytes_peak,
            latency=Latency.of(self._latencies),
            waiting=self.waiting(clk) if self._held_back is None else self._held_back,
        )

    def waiting(self, clk: int) -> dict[str, int | None]:
        """The types that hold this cell back, each with how far it has come."""
        since = self.input.first_after(self.past.place) if self._waiting else None
        newest = max(self._latest.values(), default=TS_MIN)
        return self.unit.waiting(self._clock_types, clk, since, newest)
