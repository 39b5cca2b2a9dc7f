"""Turns arrivals into columns: checks them, numbers them, and groups them by type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slackline.errors import HierarchyError
from slackline.events import TS_MAX, TS_MIN, Event, EventBatch, IntArray, Stable, fault_of
from slackline.messages import Add, Delay, Message, Promise, Retract, Tick

__all__ = ["Arrival", "Group", "Intake", "Rejected", "Sorted"]

Arrival = Event | EventBatch | Stable | Message
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rejected:
    """An arrival that cannot be used, and why."""

    item: Any
    reason: str


@dataclass(slots=True)
class Group:
    """The rows of one type among some arrivals, in arrival order; ``index`` places them there."""

    type: str
    index: IntArray
    ts: IntArray
    seq: IntArray
    publishers: list[str]
    """One name per row, or a single one for all."""
    events: list[Event] | None
    columns: dict[str, npt.NDArray[Any]] | None

    def __len__(self) -> int:
        return len(self.ts)

    def select(self, mask: BoolArray) -> Group:
        rows = np.flatnonzero(mask).tolist()
        publishers = self.publishers
        if len(publishers) > 1:
            publishers = [publishers[i] for i in rows]
        return Group(
            self.type,
            self.index[mask],
            self.ts[mask],
            self.seq[mask],
            publishers,
            None if self.events is None else [self.events[i] for i in rows],
            None if self.columns is None else {n: c[mask] for n, c in self.columns.items()},
        )

    def as_events(self) -> list[Event]:
        if self.events is not None:
            return self.events
        assert self.columns is not None
        batch = EventBatch(self.type, self.ts, self.columns, self.publishers[0], self.seq)
        events = batch.events()
        if len(self.publishers) > 1:
            events = [
                Event(e.type, e.ts, e.data, publisher, e.seq)
                for e, publisher in zip(events, self.publishers, strict=True)
            ]
        return events


@dataclass(slots=True)
class Sorted:
    """Arrivals by kind."""

    groups: list[Group] = field(default_factory=list)
    ticks: list[tuple[int, Tick]] = field(default_factory=list)
    messages: list[tuple[int, Add | Retract]] = field(default_factory=list)
    promises: dict[tuple[str, str], int] = field(default_factory=dict)
    delays: dict[tuple[str, str], int] = field(default_factory=dict)


class Intake:
    """Lets well-formed arrivals of the wanted types in; the others are rejected or counted."""

    def __init__(self, wanted: Iterable[str], published: dict[str, str]) -> None:
        self._wanted = frozenset(wanted)
        self._published = published
        self.rejected: list[Rejected] = []
        self.rejected_by_type: dict[str | None, int] = {}
        self.ignored: dict[str, int] = {}
        """Events of types that nobody here listens to."""

    def sort(self, arrivals: Iterable[Arrival]) -> Sorted:
        result = Sorted()
        singles: dict[str, tuple[list[int], list[Event]]] = {}
        batches: dict[str, list[tuple[int, EventBatch]]] = {}
        index = 0
        for item in arrivals:
            if type(item) is Event:
                try:
                    into = singles[item.type]
                except (KeyError, TypeError):
                    if not self._admits(item):
                        index += 1
                        continue
                    into = singles[item.type] = ([], [])
                into[0].append(index)
                into[1].append(item)
                index += 1
            elif isinstance(item, EventBatch):
                if self._admits(item):
                    batches.setdefault(item.type, []).append((index, item))
                index += len(item)
            else:
                self._sort_other(index, item, result)
                index += 1
        for type_, (places, events) in singles.items():
            group = self._from_events(type_, places, events)
            for start, batch in batches.pop(type_, []):
                rows = self._from_batches(type_, [(start, batch)])
                group = _joined(group, rows)
            if len(group):
                result.groups.append(group)
        for type_, parts in batches.items():
            group = self._from_batches(type_, parts)
            if len(group):
                result.groups.append(group)
        return result

    def reject(self, item: Any, reason: str, type_: str | None = None) -> None:
        self.rejected.append(Rejected(item, reason))
        self.rejected_by_type[type_] = self.rejected_by_type.get(type_, 0) + 1

    def _sort_other(self, index: int, item: Any, result: Sorted) -> None:
        if isinstance(item, Add | Retract):
            result.messages.append((index, item))
        elif isinstance(item, Tick):
            result.ticks.append((index, item))
        elif isinstance(item, Promise):
            key = (item.publisher, item.type)
            result.promises[key] = max(item.ts, result.promises.get(key, TS_MIN))
        elif isinstance(item, Delay):
            result.delays[item.publisher, item.type] = item.k
        elif isinstance(item, Stable):
            result.promises["", item.type] = max(
                item.ts, result.promises.get(("", item.type), TS_MIN)
            )
        elif isinstance(item, Event):
            raise TypeError(f"subclasses of Event are not supported: {type(item).__name__}")
        else:
            self.reject(item, str(fault_of(item)))

    def _admits(self, item: Event | EventBatch) -> bool:
        type_ = item.type
        if not isinstance(type_, str) or not type_:
            self.reject(item, f"type must be a non-empty str, got {type_!r}")
            return False
        if type_ in self._published:
            raise HierarchyError(
                f"a source publishes {type_!r}, which detector {self._published[type_]!r} "
                "publishes too: rename one of them"
            )
        if type_ not in self._wanted:
            size = len(item) if isinstance(item, EventBatch) else 1
            self.ignored[type_] = self.ignored.get(type_, 0) + size
            return False
        return True

    def _from_events(self, type_: str, places: list[int], events: list[Event]) -> Group:
        ts = _ints([event.ts for event in events])
        seq = _ints([event.seq for event in events])
        publishers = [event.publisher for event in events]
        fine = (
            ts is not None
            and seq is not None
            and (not len(seq) or seq.min() >= 0)
            and set(map(type, publishers)) <= {str}
            and set(map(type, [event.data for event in events])) <= {dict}
        )
        if not fine:
            good = []
            for place, event in zip(places, events, strict=True):
                reason = fault_of(event)
                if reason is None:
                    good.append((place, event))
                else:
                    self.reject(event, f"{event}: {reason}", type_)
            places, events = [place for place, _ in good], [event for _, event in good]
            ts = np.array([event.ts for event in events], dtype=np.int64)
            seq = np.array([event.seq for event in events], dtype=np.int64)
            publishers = [event.publisher for event in events]
        assert ts is not None
        assert seq is not None
        if len(set(publishers)) == 1:
            publishers = publishers[:1]
        return Group(type_, np.array(places, dtype=np.int64), ts, seq, publishers, events, None)

    def _from_batches(self, type_: str, parts: list[tuple[int, EventBatch]]) -> Group:
        groups = [
            group
            for start, batch in parts
            if len(group := self._from_batch(start, batch))
        ]
        if not groups:
            empty = np.zeros(0, dtype=np.int64)
            return Group(type_, empty, empty, empty, [], None, {})
        if len(groups) == 1:
            return groups[0]
        shapes = [
            {n: (c.dtype.kind, c.shape[1:]) for n, c in (group.columns or {}).items()}
            for group in groups
        ]
        if any(shape != shapes[0] for shape in shapes):
            joined = groups[0]
            for group in groups[1:]:
                joined = _joined(joined, group)
            return joined
        publishers = [name for g in groups for name in (g.publishers * len(g))[: len(g)]]
        if len(set(publishers)) == 1:
            publishers = publishers[:1]
        return Group(
            type_,
            np.concatenate([group.index for group in groups]),
            np.concatenate([group.ts for group in groups]),
            np.concatenate([group.seq for group in groups]),
            publishers,
            None,
            {n: np.concatenate([g.columns[n] for g in groups]) for n in shapes[0]},  # type: ignore[index]
        )

    def _from_batch(self, start: int, batch: EventBatch) -> Group:
        type_, publisher = batch.type, batch.publisher
        empty = np.zeros(0, dtype=np.int64)
        nothing = Group(type_, empty, empty, empty, [], None, {})
        reason = _batch_fault(batch)
        if reason is not None:
            self.reject(batch, f"{batch!r}: {reason}", type_)
            return nothing
        ts, sane = _sane_times(batch.ts)
        seq, counted = _sane_times(batch.seq)
        counted &= seq >= 0
        sane &= counted
        group = Group(
            type_,
            np.arange(start, start + len(batch)),
            ts,
            seq,
            [publisher] if isinstance(publisher, str) else publisher.tolist(),
            None,
            dict(batch.columns),
        )
        if not sane.all():
            for row in np.flatnonzero(~sane).tolist():
                what = "ts" if counted[row] else "seq"
                value = getattr(batch, what)[row]
                self.reject(
                    batch[row : row + 1],
                    f"row {row} of {batch!r}: {what} must be an int, got {value!r}",
                    type_,
                )
            group = group.select(sane)
        return group


def _joined(one: Group, other: Group) -> Group:
    """Two groups of one type as events, in arrival order."""
    if not len(one) or not len(other):
        return one if len(one) else other
    both = sorted(
        [
            *zip(one.index.tolist(), one.as_events(), strict=True),
            *zip(other.index.tolist(), other.as_events(), strict=True),
        ],
        key=lambda entry: entry[0],
    )
    events = [event for _, event in both]
    return Group(
        one.type,
        np.array([index for index, _ in both], dtype=np.int64),
        np.array([event.ts for event in events], dtype=np.int64),
        np.array([event.seq for event in events], dtype=np.int64),
        [event.publisher for event in events],
        events,
        None,
    )


def _ints(values: list[Any]) -> IntArray | None:
    """The values as an array, or None if any of them is not an int in range."""
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        return None
    if array.dtype.kind != "i" or array.ndim != 1:
        return None
    if len(array) and not (array.min() > TS_MIN and array.max() < TS_MAX):
        return None
    return array.astype(np.int64, copy=False)


def _batch_fault(batch: EventBatch) -> str | None:
    if not isinstance(batch.publisher, str | np.ndarray):
        return f"publisher must be a str, got {batch.publisher!r}"
    for what in ("ts", "seq"):
        column = getattr(batch, what)
        if column.ndim != 1 or column.dtype.kind not in "iuf":
            return f"{what} must be a column of ints, got {column.dtype} of shape {column.shape}"
    for name, column in [("seq", batch.seq), *batch.columns.items()]:
        if column.ndim == 0 or len(column) != len(batch.ts):
            rows = "no rows" if column.ndim == 0 else f"{len(column)} rows"
            return f"column {name!r} has {rows}, ts has {len(batch.ts)}"
    return None


def _sane_times(column: npt.NDArray[Any]) -> tuple[IntArray, BoolArray]:
    """A column as int64, and which of its rows really are ints in range."""
    if column.dtype.kind == "f":
        sane = np.isfinite(column) & (column == np.floor(column)) & (np.abs(column) < 2.0**62)
        return np.where(sane, column, 0).astype(np.int64), sane
    if column.dtype.kind == "u":
        sane = column < np.uint64(TS_MAX)
        return np.where(sane, column, 0).astype(np.int64), sane
    values = column.astype(np.int64, copy=False)
    return values, (values > TS_MIN) & (values < TS_MAX)
