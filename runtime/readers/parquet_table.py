"""Parquet: columns that are typed already."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet, types

from slackline.errors import SourceError, UserError
from slackline.events import Event, EventBatch
from slackline.readers.columns import ROW, arrivals, in_one_piece, plain
from slackline.readers.source import Source

__all__ = ["count_rows", "read_parquet"]

BATCH_ROWS = 1 << 16

TEXTS = (types.is_string, types.is_large_string, types.is_null)
NUMBERS = (*TEXTS, types.is_integer, types.is_floating)
ALLOWED = {"ts": NUMBERS, "seq": NUMBERS, "type": TEXTS, "publisher": (*TEXTS, types.is_integer)}
"""What can hold a time, a number or a name; a single value that does not fit is a bad row."""


def read_parquet(source: Source, file: IO[bytes]) -> Iterator[Event | EventBatch]:
    """The rows of a file as arrivals."""
    table = _opened(file, source.file)
    source.check_columns(table.schema_arrow.names)
    _check_types(source, table.schema_arrow)
    row = 1
    batches = table.iter_batches(batch_size=BATCH_ROWS)
    while True:
        try:
            batch = next(batches, None)
        except pa.ArrowException as error:
            raise SourceError(f"{source.file} is damaged near row {row}: {error}") from error
        if batch is None:
            return
        columns = {name: in_one_piece(batch.column(name)) for name in batch.schema.names}
        data = {name: plain(column) for name, column in columns.items() if name not in ROW}
        yield from arrivals(source, columns, data, partial(range, row, row + len(batch)))
        row += len(batch)


def count_rows(path: str) -> int:
    """How many rows a file says it has."""
    return int(_opened(path, path).metadata.num_rows)


def _opened(file: str | IO[bytes], name: str) -> Any:
    try:
        return parquet.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise SourceError(f"{name} is no parquet file, whatever its name: {error}") from error


def _check_types(source: Source, schema: Any) -> None:
    """Refuse columns that can hold no time, number or name at all."""
    for name in ALLOWED.keys() & set(schema.names):
        type_ = schema.field(name).type
        type_ = type_.value_type if types.is_dictionary(type_) else type_
        if not any(fits(type_) for fits in ALLOWED[name]):
            wanted = "ints in the unit of the hierarchy" if ALLOWED[name] is NUMBERS else "texts"
            raise UserError(f"{source.file}: column {name!r} holds {type_}; convert it to {wanted}")
