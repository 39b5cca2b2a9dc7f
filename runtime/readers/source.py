"""A recording on disk: how it is opened, and what is known of the rows that leave something out."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from slackline.errors import SourceError, UserError
from slackline.events import Event

__all__ = ["ENDINGS", "LINE_BYTES_MAX", "RUN_ROWS_MIN", "Source", "ending_of"]

ENDINGS = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet")
LINE_BYTES_MAX = 16 << 20
"""A longer line is no row of anything."""
RUN_ROWS_MIN = 8
"""Consecutive rows of one type and publisher that are worth a batch."""


class Source:
    """A file, what stands in for what its rows leave out, and the numbers it has given."""

    def __init__(
        self, path: str | os.PathLike[str], type: str | None, publisher: str | None
    ) -> None:
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror}; check the path") from error
        if stat.S_ISDIR(mode):
            raise SourceError(f"{path} is a directory; give one of the files in it")
        self.file = str(path)
        self.ending = ending_of(path)
        if self.ending == ".parquet" and not stat.S_ISREG(mode):
            raise UserError(
                f"{path} is no regular file; parquet cannot be read from a pipe, csv can"
            )
        self.type = type
        self.publisher = publisher or Path(path).name[: -len(self.ending)]
        self.counts: Counter[tuple[str | None, str]] = Counter()
        """The last number of each type and publisher."""

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The file, unpacked; says in our words what the file system and gzip complain about."""
        unpack: Any = gzip.open if self.ending.endswith(".gz") else open
        try:
            with unpack(self.file, "rb") as file:
                yield file
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise SourceError(
                f"{self.file} is no sound gzip file: {error}; pack it again"
            ) from error
        except OSError as error:
            why = error.strerror or error
            raise SourceError(f"cannot read {self.file}: {why}; check the file") from error

    def check_columns(self, names: list[str]) -> None:
        """Refuse a table that lacks what every event needs."""
        shown = ", ".join(map(repr, names[:12]))
        if "ts" not in names:
            raise UserError(
                f"{self.file} has no column 'ts'; it has {shown}. Name the columns in the first "
                "line, with commas between them"
            )
        if "type" not in names and self.type is None:
            raise UserError(
                f"{self.file} has no column 'type'; it has {shown}. Add one, or give the type of "
                "all its rows (--type)"
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{self.file} has two columns {twice!r}; rename one of them")

    def malformed(
        self, line: int, type: Any, ts: Any, publisher: Any, seq: Any, problem: str | None = None
    ) -> Event:
        """An event that stands for a row that cannot be used, for a run to reject."""
        data = {"file": self.file, "line": line} | ({"problem": problem} if problem else {})
        return Event(type, ts, data, publisher, seq)


def ending_of(path: str | os.PathLike[str]) -> str:
    """The ending that tells the format."""
    name = Path(path).name
    for ending in ENDINGS:
        if name.lower().endswith(ending) and len(name) > len(ending):
            return ending
    raise UserError(f"{path}: unknown format; the name must end in {', '.join(ENDINGS)}")
