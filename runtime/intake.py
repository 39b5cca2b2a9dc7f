"""Turns arrivals into columns: checks them, numbers them, and groups them by type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slackline.errors import HierarchyError
from slackline.events import (
    TS_MAX,
    TS_MIN,
    Event,
    EventBatch,
    IntArray,
    Stable,
    fault_of,
    time_fault,
)
from slackline.messages import (
    Add,
    Correction,
    Delay,
    Heard,
    Message,
    Promise,
    Retract,
    RetractAbove,
    Tick,
)

__all__ = ["Arrival", "Group", "Intake", "Rejected", "Sorted", "is_well_formed"]

Arrival = Event | EventBatch | Stable | Message
BoolArray = npt.NDArray[np.bool_]
CodeArray = npt.NDArray[np.int32]
Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Rejected:
    """An arrival that cannot be used, and why."""

    item: Any
    reason: str


@dataclass(slots=True)
class Group:
    """The rows of one type among some arrivals, in arrival order; ``index`` places them there.

    Row i comes from publisher ``names[codes[i]]``.
    """

    type: str
    index: IntArray
    ts: IntArray
    seq: IntArray
    codes: CodeArray
    names: list[str]
    events: list[Event] | None
    columns: Columns | None

    def __len__(self) -> int:
        return len(self.ts)

    def select(self, mask: BoolArray) -> Group:
        events = self.events
        if events is not None:
            events = [events[i] for i in np.flatnonzero(mask).tolist()]
        columns = self.columns
        if columns is not None:
            columns = {name: column[mask] for name, column in columns.items()}
        return Group(
            self.type, self.index[mask], self.ts[mask], self.seq[mask], self.codes[mask],
            self.names, events, columns,
        )  # fmt: skip

    def as_events(self) -> list[Event]:
        if self.events is not None:
            return self.events
        assert self.columns is not None
        return EventBatch.merged(
            self.type, self.ts, self.columns, self.codes, self.names, self.seq
        ).events()


@dataclass(slots=True)
class Sorted:
    """Arrivals by kind."""

    groups: list[Group] = field(default_factory=list)
    ticks: list[tuple[int, Tick]] = field(default_factory=list)
    messages: list[tuple[int, Correction]] = field(default_factory=list)
    promises: dict[tuple[str, str], int] = field(default_factory=dict)
    delays: dict[tuple[str, str], int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)


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
                try:
                    batches[item.type].append((index, item))
                except (KeyError, TypeError):
                    if self._admits(item):
                        batches[item.type] = [(index, item)]
                index += len(item)
            elif isinstance(item, Event):
                if self._admits(item):
                    places, events = singles.setdefault(item.type, ([], []))
                    places.append(index)
                    events.append(item)
                index += 1
            else:
                self._sort_other(index, item, result)
                index += 1
        for type_, (places, events) in singles.items():
            group = self._from_events(type_, places, events)
            if type_ in batches:
                group = _joined(group, self._from_batches(type_, batches.pop(type_)))
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
        if isinstance(item, Add | Retract | RetractAbove):
            result.messages.append((index, item))
        elif isinstance(item, Tick):
            result.ticks.append((index, item))
        elif isinstance(item, Promise):
            key = (item.publisher, item.type)
            result.promises[key] = max(item.ts, result.promises.get(key, TS_MIN))
        elif isinstance(item, Delay):
            result.delays[item.publisher, item.type] = item.k
        elif isinstance(item, Heard):
            result.heard[item.host] = item.clk
        elif isinstance(item, Stable):
            fault = time_fault(item.ts) if item.ts != TS_MAX else None
            if fault or not isinstance(item.type, str):
                self.reject(item, f"{item}: {fault or 'type must be a str'}")
                return
            result.promises["", item.type] = max(
                item.ts, result.promises.get(("", item.type), TS_MIN)
            )
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
        times, numbers = [event.ts for event in events], [event.seq for event in events]
        fine = (
            set(map(type, times)) | set(map(type, numbers)) <= {int}
            and min(times) > TS_MIN
            and max(times) < TS_MAX
            and min(numbers) >= 0
            and max(numbers) < TS_MAX
            and set(map(type, [event.publisher for event in events])) <= {str}
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
        return _group(type_, places, events)

    def _from_batches(self, type_: str, parts: list[tuple[int, EventBatch]]) -> Group:
        model = parts[0][1]
        if is_well_formed(model) and all(_stacks_on(batch, model) for _, batch in parts[1:]):
            return self._sane(_stacked(type_, parts))
        group = _group(type_, [], [])
        for start, batch in parts:
            reason = _batch_fault(batch)
            if reason is None:
                group = _joined(group, self._sane(_stacked(type_, [(start, batch)])))
            else:
                self.reject(batch, f"{batch!r}: {reason}", type_)
        return group

    def _sane(self, group: Group) -> Group:
        """The group with proper times and numbers; rows that have none are rejected."""
        ts, timed = _as_ints(group.ts)
        seq, counted = _as_ints(group.seq)
        sane = timed & counted & (seq >= 0)
        if not sane.all():
            for event in group.select(~sane).as_events():
                self.reject(event, f"{event}: {fault_of(event)}", group.type)
            group = group.select(sane)
            ts, seq = ts[sane], seq[sane]
        group.ts, group.seq = ts, seq
        return group


def _group(type_: str, places: list[int], events: list[Event]) -> Group:
    """Well-formed events as a group."""
    lookup: dict[str, int] = {}
    codes = [lookup.setdefault(event.publisher, len(lookup)) for event in events]
    return Group(
        type_,
        np.array(places, dtype=np.int64),
        np.array([event.ts for event in events], dtype=np.int64),
        np.array([event.seq for event in events], dtype=np.int64),
        np.array(codes, dtype=np.int32),
        list(lookup),
        events,
        None,
    )


def _stacked(type_: str, parts: list[tuple[int, EventBatch]]) -> Group:
    """Batches of one shape as a group; times and numbers are not checked yet."""
    batches = [batch for _, batch in parts]
    lengths = [len(batch) for batch in batches]
    names: dict[str, int] = {}
    if all(batch.one_publisher for batch in batches):
        each = [names.setdefault(batch.publisher, len(names)) for batch in batches]  # type: ignore[arg-type]
        codes = np.repeat(np.array(each, dtype=np.int32), lengths)
    else:
        rows = [name for batch in batches for name in np.broadcast_to(batch.publisher, len(batch))]
        codes = np.array([names.setdefault(str(name), len(names)) for name in rows], dtype=np.int32)
    starts = np.array([start for start, _ in parts], dtype=np.int64)
    ends = np.cumsum(lengths)
    index = np.arange(int(ends[-1])) + np.repeat(starts - (ends - lengths), lengths)
    if len(batches) == 1:
        only = batches[0]
        return Group(type_, index, only.ts, only.seq, codes, list(names), None, dict(only.columns))
    return Group(
        type_,
        index,
        np.concatenate([batch.ts for batch in batches]),
        np.concatenate([batch.seq for batch in batches]),
        codes,
        list(names),
        None,
        {n: np.concatenate([batch.columns[n] for batch in batches]) for n in batches[0].columns},
    )


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
    return _group(one.type, [index for index, _ in both], [event for _, event in both])


def is_well_formed(batch: EventBatch) -> bool:
    """Whether a batch as a whole can be used; single rows of it may still be malformed."""
    return _batch_fault(batch) is None


def _stacks_on(batch: EventBatch, model: EventBatch) -> bool:
    """Whether a batch is as well-formed as ``model`` and of the same shape."""
    rows = batch.ts.shape
    columns, others = batch.columns, model.columns
    if batch.ts.dtype != model.ts.dtype or batch.seq.dtype != model.seq.dtype:
        return False
    if len(rows) != 1 or batch.seq.shape != rows or len(columns) != len(others):
        return False
    for name, column in columns.items():
        other = others.get(name)
        if other is None or column.dtype.kind != other.dtype.kind:
            return False
        shape = column.shape
        if shape[:1] != rows or shape[1:] != other.shape[1:]:
            return False
    return batch.one_publisher or _batch_fault(batch) is None


def _batch_fault(batch: EventBatch) -> str | None:
    """Why a batch is not well-formed."""
    if not (batch.one_publisher or batch.is_merged):
        return f"publisher must be a str, got {batch.publisher!r}"
    for what in ("ts", "seq"):
        column = getattr(batch, what)
        if column.ndim != 1 or column.dtype.kind not in "iuf":
            return f"{what} must be a column of ints, got {column.dtype} of shape {column.shape}"
    for name, column in [("seq", batch.seq), *batch.columns.items()]:
        if column.shape[:1] != batch.ts.shape:
            rows = f"{len(column)} rows" if column.ndim else "no rows"
            return f"column {name!r} has {rows}, ts has {len(batch.ts)}"
    return None


def _as_ints(column: npt.NDArray[Any]) -> tuple[IntArray, BoolArray]:
    """A column as int64, and which of its rows really are ints in range."""
    if column.dtype.kind == "f":
        sane = np.isfinite(column) & (column == np.floor(column)) & (np.abs(column) < 2.0**62)
        return np.where(sane, column, 0).astype(np.int64), sane
    if column.dtype.kind == "u":
        sane = column < np.uint64(TS_MAX)
        return np.where(sane, column, 0).astype(np.int64), sane
    values = column.astype(np.int64, copy=False)
    return values, (values > TS_MIN) & (values < TS_MAX)
