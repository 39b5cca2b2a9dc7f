"""Runs one detector over ordered input and collects what it emits, and where it raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from slackline.detector import BatchEmit, Emit
from slackline.errors import EmitError
from slackline.events import Event, EventBatch, IntArray, Key, is_int, own_data, time_fault
from slackline.hierarchy import Node
from slackline.input import Piece
from slackline.ledger import Emission
from slackline.step import Step

__all__ = ["BatchFailed", "Fault", "Runner"]

BATCH_ROWS_MIN = 8
"""Shorter stretches of one type are cheaper as single events."""
BATCH_ROWS_MAX = 512
"""Longer stretches are cut: what a batch emits without naming a row is published at its end."""


class BatchFailed(Exception):
    """``on_batch`` raised; whose event it was shows when they are given one by one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A detector raised on an event: it yields nothing, whatever it had emitted before."""

    place: Key
    event: Event
    error: Exception


class _BatchEmit:
    """The ``emit`` of ``on_batch``: ``emit.at(row)`` names the row that what follows is due to."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._batch: EventBatch | None = None
        self._row: int | None = None

    def begin(self, batch: EventBatch) -> None:
        self._batch, self._row = batch, None

    def at(self, row: int) -> _BatchEmit:
        assert self._batch is not None
        if not is_int(row) or not (self._row or 0) <= row < len(self._batch):
            raise EmitError(
                f"emit.at({row!r}): rows are named in ascending order, here from "
                f"{self._row or 0} to {len(self._batch) - 1}"
            )
        self._row = int(row)
        return self

    def __call__(self, type: str, ts: int, **data: Any) -> None:
        assert self._batch is not None
        named = self._row is not None
        row = self._row if self._row is not None else len(self._batch) - 1
        self._runner.emitted(row, int(self._batch.ts[row if named else 0]), type, ts, data)


class Runner:
    """A detector of its own, with its callbacks and what they did."""

    def __init__(self, node: Node) -> None:
        self._name = node.name
        self._detector = node.detector.fresh()
        self._on_event: Callable[[Event, Emit], None] = self._detector.on_event
        self._on_batch: Callable[[EventBatch, BatchEmit], None] | None = self._detector.on_batch
        self._batch_emit = _BatchEmit(self)
        self._publishes = frozenset(node.publishes)
        self._backset_max = node.detector.backset_max
        self._emitted: list[tuple[int, str, int, dict[str, Any]]] = []
        self._events: list[Event] = []
        self._row = 0
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
        for piece in self._cut(pieces):
            if one_by_one or not self._feed_batch(piece):
                self._feed_events(piece)
            if self._emitted:
                updates = when(piece)
                for row, type_, ts, data in self._emitted:
                    update = int(updates[row])
                    place, clk = piece.place(row), step.clk_at(update)
                    emissions.append(Emission(place, type_, ts, data, update, clk))
                self._emitted.clear()
        return emissions

    def emitted(self, row: int, trigger: int, type_: str, ts: int, data: dict[str, Any]) -> None:
        """Take down what the detector emits because of ``row``, an event at time ``trigger``."""
        if type_ not in self._publishes:
            raise EmitError(
                f"detector {self._name!r} emitted {type_!r}, which it does not publish; "
                f"its publishes are {tuple(sorted(self._publishes))}"
            )
        if not is_int(ts):
            raise EmitError(f"detector {self._name!r} emitted {type_!r} at ts {ts!r}: not an int")
        if time_fault(ts):
            raise EmitError(f"detector {self._name!r} emitted {type_!r}: {time_fault(ts)}")
        back = trigger - ts
        if self._backset_max is not None and back > self._backset_max:
            raise EmitError(
                f"detector {self._name!r} emitted {type_!r} at ts {ts} because of an event at "
                f"{trigger}: further back than its backset_max {self._backset_max}"
            )
        self.backset[type_] = max(self.backset[type_], back)
        self._emitted.append((row, type_, int(ts), own_data(data)))

    def _cut(self, pieces: list[Piece]) -> Iterator[Piece]:
        """Pieces no longer than a batch may be."""
        for piece in pieces:
            if piece.rows is None or self._on_batch is None:
                yield piece
                continue
            for begin in range(0, len(piece), BATCH_ROWS_MAX):
                part = slice(begin, begin + BATCH_ROWS_MAX)
                yield Piece(piece.rows[part], [], None, piece.updates[part])

    def _feed_batch(self, piece: Piece) -> bool:
        """Give a stretch of one type as columns, if that pays; False if it is not done."""
        if self._on_batch is None or piece.rows is None or len(piece) < BATCH_ROWS_MIN:
            return False
        batch = piece.rows.batch()
        if batch is None:
            return False
        self._batch_emit.begin(batch)
        try:
            self._on_batch(batch, self._batch_emit)
        except Exception as error:
            self._emitted.clear()
            raise BatchFailed from error
        return True

    def _feed_events(self, piece: Piece) -> None:
        events = piece.rows.events if piece.rows is not None else piece.events
        self._events = events
        on_event, emit = self._on_event, self._emit
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
        self.emitted(self._row, self._events[self._row].ts, type, ts, data)
