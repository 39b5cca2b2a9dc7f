"""Reads recordings (csv, JSON lines, parquet) as arrivals, in the order of their rows.

A row has a ``ts`` (int) and a ``type``, and may have a ``publisher`` and a ``seq``; everything
else in it is data. In JSON lines an object called ``data`` is the data, and the keys beside it
are left out. An empty cell is NaN among floats, None among ints, and empty among texts.

A row that cannot be used is not dropped and does not stop the reading: it becomes an event with
the bad value in its place, and its file and line as data, which every run rejects and shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from slackline.events import Event, EventBatch
from slackline.readers.source import Source, ending_of

__all__ = ["read", "rows_in"]


def read(
    path: str | os.PathLike[str], type: str | None = None, publisher: str | None = None
) -> Iterator[Event | EventBatch]:
    """The rows of a file as events, or as batches where one publisher speaks for a while.

    ``type`` and ``publisher`` stand in where a row names none; without ``publisher`` it is the
    name of the file. Rows without ``seq`` are numbered from 1 per publisher and type.
    """
    return _arrivals(Source(path, type, publisher))


def rows_in(path: str | os.PathLike[str]) -> int | None:
    """How many rows a file has, if it says so itself: parquet does."""
    if ending_of(path) != ".parquet" or not os.path.isfile(path):
        return None
    from slackline.readers.parquet_table import count_rows

    return count_rows(str(path))


def _arrivals(source: Source) -> Iterator[Event | EventBatch]:
    # A format is imported when a file has it: arrow takes longer to load than most files to read.
    if source.ending == ".parquet":
        from slackline.readers.parquet_table import read_parquet as rows
    elif source.ending.startswith(".csv"):
        from slackline.readers.csv_table import read_csv as rows
    else:
        from slackline.readers.json_lines import read_json as rows

    with source.opened() as file:
        yield from rows(source, file)
