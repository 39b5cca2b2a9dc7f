"""JSON lines: an object per line, and runs of objects that are alike as batches."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import IO, Any

import numpy as np

from slackline.events import Event, EventBatch, fault_of, make_event
from slackline.readers.cells import as_array, whole
from slackline.readers.source import LINE_BYTES_MAX, RUN_ROWS_MIN, Source

__all__ = ["read_json"]

RUN_ROWS_MAX = 8192
"""A longer run is cut, since it is held as events until then."""


def read_json(source: Source, file: IO[bytes]) -> Iterator[Event | EventBatch]:
    """The lines of a file as arrivals."""
    rows = (_row(source, number, line) for number, line in _lines(file))
    for alike, group in groupby(rows, key=itemgetter(1)):
        while run := [event for event, _ in islice(group, RUN_ROWS_MAX)]:
            if alike is None or len(run) < RUN_ROWS_MIN:
                yield from run
            else:
                yield _batch(run)


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers; one that is too long is cut."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX):
        number += 1
        part = line
        while not part.endswith(b"\n") and (part := file.readline(LINE_BYTES_MAX)):
            line = b"longer than a line may be"
        if not line.isspace():
            yield number, line


def _row(source: Source, number: int, line: bytes) -> tuple[Event, Hashable]:
    """The event of a line, and what the rows of one batch have in common; None if malformed."""
    try:
        row = json.loads(line)
        problem = None if isinstance(row, dict) else "the line is no JSON object"
    except (ValueError, RecursionError) as error:
        problem = f"the line is no JSON: {error}"
    if problem is not None:
        return source.malformed(number, source.type, None, source.publisher, 0, problem), None
    given = {name: row.pop(name, None) for name in ("type", "ts", "publisher", "seq")}
    nested = row.get("data")
    data = nested if isinstance(nested, dict) else row
    type_: Any = source.type if given["type"] is None else given["type"]
    if not isinstance(type_, Hashable):
        type_, problem = None, f"the type is {json.dumps(type_)[:60]}"
    publisher: Any = source.publisher if given["publisher"] is None else given["publisher"]
    if type(publisher) is int:
        publisher = str(publisher)
    ts, seq = whole(given["ts"]), whole(given["seq"])
    last = source.counts[type_, str(publisher)]
    if seq is None:
        seq = last + 1
    if type(seq) is int:
        source.counts[type_, str(publisher)] = max(seq, last)
    event = make_event(type_, ts, data, publisher, seq)
    if problem or fault_of(event):
        return source.malformed(number, type_, ts, publisher, seq, problem), None
    return event, (type_, publisher, *data)


def _batch(run: list[Event]) -> EventBatch:
    first = run[0]
    columns = {name: as_array([event.data[name] for event in run]) for name in first.data}
    ts = np.array([event.ts for event in run], dtype=np.int64)
    seq = np.array([event.seq for event in run], dtype=np.int64)
    return EventBatch(first.type, ts, columns, first.publisher, seq)
