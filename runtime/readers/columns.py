"""Columns to arrivals: the rows of a table in their order, as events and batches.

Most rows of a recording come in runs of one type and publisher, which are cut out of the columns
as they are and never become single events. What lies between the runs is taken row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from slackline.events import TS_MAX, TS_MIN, Event, EventBatch, IntArray, make_event
from slackline.readers.cells import as_array, objects, told
from slackline.readers.source import RUN_ROWS_MIN, Source

__all__ = ["ROW", "Array", "arrivals", "in_one_piece", "plain"]

ROW = ("type", "ts", "publisher", "seq")
"""The columns that are not data."""

Array = Any  # pyarrow ships no types
BoolArray = npt.NDArray[np.bool_]


def in_one_piece(array: Array) -> Array:
    """An array without chunks, with the values themselves instead of a dictionary of them."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array.dictionary_decode() if kinds.is_dictionary(array.type) else array


def plain(array: Array) -> npt.NDArray[Any]:
    """A column of data: numbers and truth values as such, unless some are missing, else objects."""
    if kinds.is_temporal(array.type) and getattr(array.type, "unit", "") == "ns":
        array = array.cast(pa.int64())  # Python's own times end at microseconds
    whole = kinds.is_integer(array.type) or kinds.is_boolean(array.type)
    if kinds.is_floating(array.type) or (whole and not array.null_count):
        numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return numbers
    return objects(array.to_pylist())


def arrivals(
    source: Source,
    columns: Mapping[str, Array],
    data: Mapping[str, npt.NDArray[Any]],
    lines: Callable[[], Sequence[int]],
    problems: Mapping[int, str] | None = None,
) -> Iterator[Event | EventBatch]:
    """The rows of a table in their order: long runs as batches, bad rows as bad events.

    ``lines`` gives the line of each row, and ``problems`` what is wrong with rows that have no
    cells; only bad rows ask for them.
    """
    times, numbers = columns["ts"], columns.get("seq")
    count = len(times)
    if not count:
        return
    types = _Labels.of(columns.get("type"), source.type, count)
    publishers = _Labels.of(columns.get("publisher"), source.publisher, count)
    ts, bad = _ints(times)
    bad |= types.codes < 0
    if numbers is None:
        seq = _numbered(source, types, publishers)
    else:
        seq, uncounted = _ints(numbers)
        bad |= uncounted | (seq < 0)
    rows = _Rows(types, publishers, ts, seq, data)
    places = lines() if bad.any() else ()
    done = 0
    for begin, end in _runs(types.codes, publishers.codes, bad):
        yield from rows.events(done, begin)
        if bad[begin]:
            number = int(seq[begin]) if numbers is None else told(numbers[begin].as_py())
            yield source.malformed(
                places[min(begin, len(places) - 1)],
                types[begin],
                told(times[begin].as_py()),
                publishers[begin],
                number,
                (problems or {}).get(begin),
            )
        else:
            yield rows.batch(begin, end)
        done = end
    yield from rows.events(done, count)


@dataclass(frozen=True, slots=True)
class _Labels:
    """Each row's name as a place in a list of names; -1, the place of None, where it has none."""

    codes: IntArray
    names: list[Any]

    @classmethod
    def of(cls, array: Array, default: str | None, count: int) -> _Labels:
        labels = pa.nulls(count, pa.string())
        if array is not None:
            labels = pc.utf8_trim_whitespace(array.cast(pa.string()))
            labels = pc.if_else(pc.equal(labels, ""), None, labels)
        if default is not None:
            labels = labels.fill_null(default)
        encoded = labels.dictionary_encode()
        codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy()
        return cls(codes, [*encoded.dictionary.to_pylist(), None])

    def __getitem__(self, row: int) -> Any:
        return self.names[self.codes[row]]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a table, of which those that are not bad can be taken out."""

    types: _Labels
    publishers: _Labels
    ts: IntArray
    seq: IntArray
    data: Mapping[str, npt.NDArray[Any]]

    def events(self, begin: int, end: int) -> Iterator[Event]:
        part = slice(begin, end)
        values = [column[part].tolist() for column in self.data.values()]
        payloads = zip(*values, strict=True) if values else iter([()] * (end - begin))
        types, publishers = self.types.names, self.publishers.names
        heads = (self.types.codes, self.publishers.codes, self.ts, self.seq)
        each = zip(*(head[part].tolist() for head in heads), payloads, strict=True)
        for type_, publisher, ts, seq, payload in each:
            row = dict(zip(self.data, payload, strict=True))
            yield make_event(types[type_], ts, row, publishers[publisher], seq)

    def batch(self, begin: int, end: int) -> EventBatch:
        """A run as a batch; objects are numbers if in this run they all are."""
        part = slice(begin, end)
        columns = {
            name: as_array(column[part].tolist()) if column.dtype == object else column[part]
            for name, column in self.data.items()
        }
        type_, publisher = self.types[begin], self.publishers[begin]
        return EventBatch(type_, self.ts[part], columns, publisher, self.seq[part])


def _runs(types: IntArray, publishers: IntArray, bad: BoolArray) -> Iterator[tuple[int, int]]:
    """The runs that are long enough for a batch, and each bad row as a run of its own."""
    new = (types[1:] != types[:-1]) | (publishers[1:] != publishers[:-1]) | bad[1:] | bad[:-1]
    begins = np.concatenate([[0], np.flatnonzero(new) + 1])
    ends = np.append(begins[1:], len(types))
    apart = (ends - begins >= RUN_ROWS_MIN) | bad[begins]
    return zip(begins[apart].tolist(), ends[apart].tolist(), strict=True)


def _ints(array: Array) -> tuple[IntArray, BoolArray]:
    """A column as ints, and where it holds none that can be a time or a number."""
    if kinds.is_string(array.type) or kinds.is_large_string(array.type):
        with suppress(pa.ArrowInvalid):
            return _ints(array.cast(pa.int64()))
        with suppress(pa.ArrowInvalid):  # "7.0", as many programs write it
            return _ints(pc.replace_substring_regex(array, r"\.0*$", "").cast(pa.int64()))
        known = map(told, array.to_pylist())
        fitting = [v if isinstance(v, int) and TS_MIN < v < TS_MAX else None for v in known]
        return _ints(pa.array(fitting, pa.int64()))
    if kinds.is_null(array.type):
        array = array.cast(pa.int64())
    bad = array.is_null().to_numpy(zero_copy_only=False)
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        bad = bad | ~np.isfinite(values) | (values != np.floor(values))
    bad = bad | (values <= TS_MIN) | (values >= TS_MAX)
    return np.where(bad, 0, values).astype(np.int64), bad


def _numbered(source: Source, types: _Labels, publishers: _Labels) -> IntArray:
    """Number the rows of each publisher and type, on from where the last table stopped."""
    width = len(publishers.names)
    pairs = types.codes * width + publishers.codes
    order = np.argsort(pairs, kind="stable")
    each, begins, counts = np.unique(pairs[order], return_index=True, return_counts=True)
    before = np.zeros(len(each), dtype=np.int64)
    for i, (pair, count) in enumerate(zip(each.tolist(), counts.tolist(), strict=True)):
        label = (types.names[pair // width], publishers.names[pair % width])
        before[i] = source.counts[label]
        source.counts[label] += count
    seq = np.empty(len(pairs), dtype=np.int64)
    seq[order] = np.arange(1, len(pairs) + 1) + np.repeat(before - begins, counts)
    return seq
