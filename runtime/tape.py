"""A source type's events on one host: sorted once, shared by every cell that listens to it.

Theory of operation. Arrivals come in chunks. A chunk is sorted on its own and kept as a *run*.
When some cell needs everything up to a time, the fronts of all runs are merged into a *segment*;
the segments together are one sorted sequence, the tape proper, and every row is sorted and
copied just twice on its way there, whatever the horizon. A row that comes too late for that is
merged into the segment it belongs to. Cells read slices (views, no copies) by position in the
total order and remember their own position, so that a cell which repairs its past reads the
same rows again. What every cell has left behind is purged.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackline.events import TS_MIN, Event, EventBatch, IntArray, Key
from slackline.gaps import Gaps

__all__ = ["Rows", "Tape"]

Columns = dict[str, npt.NDArray[Any]]
CodeArray = npt.NDArray[np.int32]


class Rows:
    """Some rows of one type: times, publishers, numbers, and either columns or events.

    ``update`` is the number of the clock update at which the row's delay was measured.
    """

    __slots__ = ("_events", "codes", "columns", "seq", "tape", "ts", "update")

    def __init__(
        self,
        tape: Tape,
        ts: IntArray,
        codes: CodeArray,
        seq: IntArray,
        update: IntArray,
        columns: Columns | None,
        events: list[Event] | None,
    ) -> None:
        self.tape = tape
        self.ts = ts
        self.codes = codes
        self.seq = seq
        self.update = update
        self.columns = columns
        self._events = events

    def __len__(self) -> int:
        return len(self.ts)

    def __getitem__(self, part: slice) -> Rows:
        if part.start in (None, 0) and (part.stop is None or part.stop >= len(self.ts)):
            return self
        columns = self.columns
        if columns is not None:
            columns = {name: column[part] for name, column in columns.items()}
        events = None if self._events is None else self._events[part]
        return Rows(
            self.tape, self.ts[part], self.codes[part], self.seq[part], self.update[part],
            columns, events,
        )  # fmt: skip

    def take(self, order: IntArray | npt.NDArray[np.bool_]) -> Rows:
        columns = self.columns
        if columns is not None:
            columns = {name: column[order] for name, column in columns.items()}
        events = None
        if columns is None:
            assert self._events is not None
            places = np.flatnonzero(order) if order.dtype == bool else order
            events = [self._events[i] for i in places.tolist()]
        return Rows(
            self.tape, self.ts[order], self.codes[order], self.seq[order], self.update[order],
            columns, events,
        )  # fmt: skip

    @property
    def events(self) -> list[Event]:
        """The rows as events."""
        if self._events is None:
            assert self.columns is not None
            self._events = EventBatch.merged(
                self.tape.type, self.ts, self.columns, self.codes, self.tape.names, self.seq
            ).events()
        return self._events

    def batch(self) -> EventBatch | None:
        """The rows as columns; None when their events do not all have the same fields."""
        if self.columns is None:
            data = [event.data for event in self.events]
            fields = data[0].keys()
            if any(row.keys() != fields for row in data):
                return None
            columns = {name: _column([row[name] for row in data]) for name in fields}
            if any(column is None for column in columns.values()):
                return None
            self.columns = {n: column for n, column in columns.items() if column is not None}
        return EventBatch.merged(
            self.tape.type, self.ts, self.columns, self.codes, self.tape.names, self.seq
        )

    def place(self, key: Key) -> int:
        """How many of the sorted rows come at or before ``key``."""
        low = int(np.searchsorted(self.ts, key.ts, side="left"))
        type_ = self.tape.type
        if type_ > key.type:
            return low
        high = int(np.searchsorted(self.ts, key.ts, side="right"))
        if type_ < key.type:
            return high
        while low < high:
            name = self.tape.names[self.codes[low]]
            if (name, int(self.seq[low])) > (key.publisher, key.seq):
                break
            low += 1
        return low

    def key(self, row: int) -> Key:
        return Key(
            int(self.ts[row]),
            self.tape.type,
            self.tape.names[self.codes[row]],
            int(self.seq[row]),
        )


class Tape:
    """The shared, sorted stream of one source type."""

    def __init__(self, type: str) -> None:
        self.type = type
        self.names: list[str] = []
        self.gaps = Gaps()
        self.boundary = TS_MIN
        """Everything received up to here is in the segments."""
        self.shares_events = False
        """Whether events made from columns are kept, for several cells to use."""
        self._code_of: dict[str, int] = {}
        self._ranks = np.zeros(0, dtype=np.int64)
        self._runs: list[Rows] = []
        self._segments: list[Rows] = []
        self._ends: list[int] = []
        self.rows = 0
        """Rows held now."""

    def code(self, publisher: str) -> int:
        """The number that stands for a publisher in the code columns."""
        code = self._code_of.get(publisher)
        if code is None:
            code = self._code_of[publisher] = len(self.names)
            self.names.append(publisher)
            order = sorted(range(len(self.names)), key=self.names.__getitem__)
            self._ranks = np.empty(len(order), dtype=np.int64)
            self._ranks[order] = np.arange(len(order))
        return code

    def insert(self, rows: Rows) -> Rows:
        """Take new rows (no repeats among them); returns them in total order."""
        rows = self._sorted(rows)
        self.rows += len(rows)
        split = int(np.searchsorted(rows.ts, self.boundary, side="right"))
        if split:
            self._insert_behind(rows[:split])
        if split < len(rows):
            self._runs.append(rows[split:])
        return rows

    def advance(self, ts: int) -> None:
        """Make sure that everything received up to ``ts`` is on the tape."""
        if ts <= self.boundary:
            return
        self.boundary = ts
        fronts, rest = [], []
        for run in self._runs:
            split = int(np.searchsorted(run.ts, ts, side="right"))
            if split:
                fronts.append(run[:split])
            if split < len(run):
                rest.append(run[split:])
        if fronts:
            self._runs = rest
            segment = self._merged(fronts)
            self._segments.append(segment)
            self._ends.append(int(segment.ts[-1]))

    def between(self, after: Key, upto: Key) -> list[Rows]:
        """The rows behind ``after`` up to and with ``upto``, as slices in total order."""
        found = []
        for segment in self._segments[bisect_left(self._ends, after.ts) :]:
            begin = segment.place(after) if segment.ts[0] <= after.ts else 0
            end = segment.place(upto) if segment.ts[-1] >= upto.ts else len(segment)
            if begin < end:
                if self.shares_events:
                    _ = segment.events
                found.append(segment[begin:end])
            if end < len(segment):
                break
        return found

    def waiting_from(self) -> int | None:
        """The time of the earliest row that is not on the tape yet."""
        return min((int(run.ts[0]) for run in self._runs), default=None)

    def purge(self, ts: int) -> None:
        """Forget the segments that end before ``ts``."""
        count = bisect_left(self._ends, ts)
        if count:
            self.rows -= sum(len(segment) for segment in self._segments[:count])
            del self._segments[:count], self._ends[:count]

    def _insert_behind(self, rows: Rows) -> None:
        places = np.searchsorted(np.array(self._ends, dtype=np.int64), rows.ts, side="left")
        cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(rows)]
        for begin, end in itertools.pairwise(cuts):
            place = int(places[begin])
            part = rows[begin:end]
            if place == len(self._segments):
                self._segments.append(part)
                self._ends.append(int(part.ts[-1]))
            else:
                self._segments[place] = self._merged([self._segments[place], part])

    def _merged(self, parts: list[Rows]) -> Rows:
        if len(parts) == 1:
            return parts[0]
        columns: Columns | None = None
        events: list[Event] | None = None
        shapes = [None if part.columns is None else _shape(part.columns) for part in parts]
        if shapes[0] is not None and all(shape == shapes[0] for shape in shapes):
            columns = {
                name: np.concatenate([part.columns[name] for part in parts])  # type: ignore[index]
                for name in shapes[0]
            }
        else:
            events = [event for part in parts for event in part.events]
        joined: Callable[[str], Any] = lambda field: np.concatenate(  # noqa: E731
            [getattr(part, field) for part in parts]
        )
        return self._sorted(
            Rows(
                self,
                joined("ts"),
                joined("codes"),
                joined("seq"),
                joined("update"),
                columns,
                events,
            )
        )

    def _sorted(self, rows: Rows) -> Rows:
        if len(rows) < 2:
            return rows
        if (rows.ts[1:] > rows.ts[:-1]).all():
            return rows
        order = np.argsort(rows.ts)
        times = rows.ts[order]
        if (times[1:] == times[:-1]).any():
            order = np.lexsort((rows.seq, self._ranks[rows.codes], rows.ts))
        return rows.take(order)


def _column(values: list[Any]) -> npt.NDArray[Any] | None:
    """Values as a column, if they are all of one plain type and stay what they are."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return np.array(values, dtype=object)
    wanted = {int: "i", float: "f", bool: "b"}.get(kinds.pop()) if len(kinds) == 1 else None
    column = np.array(values) if wanted else None
    return column if column is not None and column.dtype.kind == wanted else None


def _shape(columns: Columns) -> dict[str, tuple[str, Sequence[int]]]:
    """What two column sets must share to be stacked: names, kinds and inner shapes."""
    return {name: (column.dtype.kind, column.shape[1:]) for name, column in columns.items()}
