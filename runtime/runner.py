"""Runs one detector over ordered input and collects what it emits, and where it raises."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackline.detector import Emit
from slackline.errors import EmitError
from slackline.events import Event, IntArray, Key, is_int
from slackline.hierarchy import Node
from slackline.input import Piece
from slackline.ledger import Emission
from slackline.step import Step

__all__ = ["BatchFailed", "Fault", "Runner"]

BATCH_ROWS_MIN = 8
"""Shorter stretches of one type are cheaper as single events."""


class BatchFailed(Exception):
    """``on_batch`` raised; whose event it was shows when they are given one by one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A detector raised on an event: it yields nothing, whatever it had emitted before."""

    place: Key
    event: Event
    error: Exception


class Runner:
    """A detector of its own, with its callbacks and what they did."""

    def __init__(self, node: Node) -> None:
        self._name = node.name
        self._detector = copy.deepcopy(node.detector)
        self._on_event: Callable[[Event, Emit], None] = self._detector.on_event
        self._on_batch: Callable[..., None] | None = self._detector.on_batch
        self._publishes = frozenset(node.publishes)
        self._backset_max = node.detector.backset_max
        self._emitted: list[tuple[int, str, int, dict[str, Any]]] = []
        self._row = 0
        self._inputs: list[Event] = []
        self.faults: list[Fault] = []
        self.backset = dict.fromkeys(node.publishes, 0)
        """How far each type was dated back at most."""

    @property
    def in_columns(self) -> bool:
        return self._on_batch is not None

    def snapshot(self) -> bytes:
        return self._detector.snapshot()

    def restore(self, state: bytes) -> None:
        self._detector.restore(state)

    def feed(
        self,
        step: Step,
        pieces: list[Piece],
        when: Callable[[Piece], IntArray],
        one_by_one: bool = False,
    ) -> list[Emission]:
        """Give pieces to the detector; ``when`` tells at which update each row took place.

        Raises BatchFailed, with the detector in no defined state, if ``on_batch`` raises.
        """
        emissions: list[Emission] = []
        for piece in pieces:
            if piece.rows is not None and not one_by_one and self._feed_batch(piece):
                place, first = piece.last_place, int(piece.rows.ts[0])
                update = step.last
                for _, type_, ts, data in self._emitted:
                    self._date(type_, first - ts)
                    emissions.append(Emission(place, type_, ts, data, update, step.clk_now))
            else:
                events = piece.rows.events if piece.rows is not None else piece.events
                self._feed_events(events, piece)
                if self._emitted:
                    updates = when(piece)
                    for row, type_, ts, data in self._emitted:
                        self._date(type_, events[row].ts - ts)
                        update = int(updates[row])
                        clk = step.clk_at(update)
                        emissions.append(
                            Emission(piece.place(row), type_, ts, data, update, clk)
                        )
            self._emitted.clear()
        return emissions

    def _feed_batch(self, piece: Piece) -> bool:
        """Give a stretch of one type as columns, if that pays; False if it is not done."""
        if self._on_batch is None or len(piece) < BATCH_ROWS_MIN:
            return False
        assert piece.rows is not None
        batch = piece.rows.batch()
        if batch is None:
            return False
        self._row, self._inputs = 0, [piece.rows[:1].events[0]]
        try:
            self._on_batch(batch, self._emit)
        except Exception as error:
            self._emitted.clear()
            raise BatchFailed from error
        return True

    def _feed_events(self, events: list[Event], piece: Piece) -> None:
        on_event, emit = self._on_event, self._emit
        self._inputs = events
        rows = iter(enumerate(events))
        while True:
            try:
                for self._row, event in rows:
                    on_event(event, emit)
                return
            except Exception as error:
                row = self._row
                while self._emitted and self._emitted[-1][0] == row:
                    self._emitted.pop()
                self.faults.append(Fault(piece.place(row), events[row], error))

    def _emit(self, type: str, ts: int, **data: Any) -> None:
        if type not in self._publishes:
            raise EmitError(
                f"detector {self._name!r} emitted {type!r}, which it does not publish; "
                f"its publishes are {tuple(sorted(self._publishes))}"
            )
        if not is_int(ts):
            raise EmitError(f"detector {self._name!r} emitted {type!r} at ts {ts!r}: not an int")
        if self._backset_max is not None and ts < self._inputs[self._row].ts - self._backset_max:
            raise EmitError(
                f"detector {self._name!r} emitted {type!r} at ts {ts}, more than its backset_max "
                f"{self._backset_max} before {self._inputs[self._row]}"
            )
        self._emitted.append((self._row, type, int(ts), data))

    def _date(self, type_: str, back: int) -> None:
        if back > self.backset[type_]:
            self.backset[type_] = back
