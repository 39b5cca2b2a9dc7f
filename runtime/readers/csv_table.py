"""Csv: a line of column names, then cells of text, read in blocks of whole rows.

Arrow parses a block at once. Where it gives up (a row of the wrong width, a broken character),
or would let a quote that nobody closes swallow the rows behind it, the block is parsed once more
by the csv module of Python, which says of each row what is wrong with it.
"""

from __future__ import annotations

import csv
import io
import math
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from slackline.errors import SourceError
from slackline.events import Event, EventBatch
from slackline.readers.cells import objects
from slackline.readers.columns import ROW, Array, arrivals, in_one_piece, plain
from slackline.readers.source import LINE_BYTES_MAX, Source

__all__ = ["read_csv"]

BLOCK_BYTES = 1 << 20
"""A file is parsed in blocks of about this size."""

INT = r"^[+-]?\d+$"
FLOAT = (
    r"^[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?\d+[eE][+-]?\d+$|^[+-]?(nan|NaN|inf|Infinity)$"
)
BOOL = r"^(true|false|True|False|TRUE|FALSE)$"


def read_csv(source: Source, file: IO[bytes]) -> Iterator[Event | EventBatch]:
    """The rows of a file as arrivals."""
    names: list[str] = []
    kinds: dict[str, str] = {}
    line = 1
    for block in _blocks(source, file):
        if not names:
            block = block.removeprefix(b"\xef\xbb\xbf")
            end = block.find(b"\n") + 1 or len(block)
            header = next(csv.reader([block[:end].decode("utf-8", "replace")]), [])
            names = [name.strip() for name in header]
            source.check_columns(names)
            block, line = block[end:], 2
        if block:
            columns, problems = _columns(names, block)
            data = {name: _typed(kinds, name, columns[name]) for name in names if name not in ROW}
            yield from arrivals(source, columns, data, partial(_lines_of, block, line), problems)
        line += block.count(b"\n")
    if not names:
        raise SourceError(f"{source.file} is empty; a csv file begins with a line of column names")


def _blocks(source: Source, file: IO[bytes]) -> Iterator[bytes]:
    """The file in blocks of whole rows."""
    rest = b""
    while chunk := file.read(BLOCK_BYTES):
        block = rest + chunk
        cut = _row_end(block) if len(chunk) == BLOCK_BYTES else len(block)
        if not cut and len(block) > 2 * BLOCK_BYTES:
            cut = block.rfind(b"\n") + 1  # a quote that nobody closes must not hold up the rest
        if not cut and len(block) > LINE_BYTES_MAX:
            raise SourceError(f"{source.file} has no line ends; it seems to be no csv file")
        rest = block[cut:]
        if cut:
            yield block[:cut]
    if rest:
        yield rest


def _row_end(block: bytes) -> int:
    """The end of the last line that does not end within quotes, or 0."""
    cut = block.rfind(b"\n") + 1
    quotes = block.count(b'"', 0, cut)
    while quotes % 2:
        before = block.rfind(b"\n", 0, block.rfind(b'"', 0, cut)) + 1
        quotes -= block.count(b'"', before, cut)
        cut = before
    return cut


def _columns(names: list[str], block: bytes) -> tuple[dict[str, Array], dict[int, str]]:
    """The cells of a block as columns of text, and what is wrong with rows that have no place."""
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            arrow_csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
            arrow_csv.ParseOptions(newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
        if len(table) >= block.count(b"\n") or not _is_open(_text_lines(block)):
            return {name: in_one_piece(table.column(name)) for name in names}, {}
    except pa.ArrowInvalid:
        pass  # some row has too many or too few cells, or is no UTF-8
    rows: list[list[str]] = []
    problems: dict[int, str] = {}
    for i, (_, cells) in enumerate(_rows(block)):
        if isinstance(cells, str):
            problems[i] = cells
        elif len(cells) != len(names):
            problems[i] = f"the row has {len(cells)} cells, the header has {len(names)}"
        rows.append([""] * len(names) if i in problems else list(cells))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {n: pa.array(c, pa.string()) for n, c in zip(names, columns, strict=True)}, problems


def _rows(block: bytes) -> Iterator[tuple[int, list[str] | str]]:
    """The rows of a block, slowly: the lines before each, and its cells or why it has none."""
    lines = _text_lines(block)
    if _is_open(lines):
        # Taken line by line, the quote that nobody closes spoils only its own row.
        readers = [(i, csv.reader([line.rstrip("\r\n")])) for i, line in enumerate(lines)]
    else:
        readers = [(0, csv.reader(lines))]
    for begin, reader in readers:
        while True:
            before = begin + reader.line_num
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                yield before, f"the row is no csv: {error}"
                continue
            if cells:
                yield before, cells


def _lines_of(block: bytes, line: int) -> list[int]:
    """The line that each row of a block begins on, when the block begins on ``line``."""
    return [line + before for before, _ in _rows(block)]


def _text_lines(block: bytes) -> list[str]:
    return list(io.StringIO(block.decode("utf-8", "replace"), newline="\n"))


def _is_open(lines: list[str]) -> bool:
    """Whether a quote is never closed, so that it would swallow all lines that follow."""
    try:
        return deque(csv.reader([*lines, "end"]), maxlen=1)[0] != ["end"]
    except csv.Error:
        return True


def _typed(kinds: dict[str, str], name: str, text: Array) -> npt.NDArray[Any]:
    """A column of text as what it holds: texts, or numbers with some texts among them.

    ``kinds`` keeps what the first cells have decided; an int column turns to float at the first
    fraction.
    """
    cells = pc.utf8_trim_whitespace(text)
    kind = kinds.get(name) or _kind_of(cells)
    if kind is None:
        return objects([None] * len(text))
    kinds[name] = kind
    if kind == "text":
        return np.asarray(text.to_numpy(zero_copy_only=False))
    cells = pc.if_else(pc.equal(cells, ""), None, cells)
    try:
        return plain(
            cells.cast({"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}[kind])
        )
    except pa.ArrowInvalid:
        if kind == "int" and pc.any(pc.match_substring_regex(cells, FLOAT)).as_py():
            kinds[name] = "float"
            return _typed(kinds, name, text)
        return objects([_cell(kind, cell) for cell in cells.to_pylist()])


def _kind_of(cells: Array) -> str | None:
    """What most of the cells that are not empty hold; None if all are empty."""
    cells = cells.filter(pc.not_equal(cells, ""))
    if not len(cells):
        return None
    whole = pc.sum(pc.match_substring_regex(cells, INT)).as_py()
    broken = pc.sum(pc.match_substring_regex(cells, FLOAT)).as_py()
    if 2 * (whole + broken) > len(cells):
        return "float" if broken else "int"
    return "bool" if pc.all(pc.match_substring_regex(cells, BOOL)).as_py() else "text"


def _cell(kind: str, cell: str | None) -> Any:
    """A cell as what its column holds, or as the text that it is."""
    if not cell:
        return math.nan if kind == "float" else None
    if kind == "bool":
        return {"true": True, "false": False}.get(cell.lower(), cell)
    try:
        return cell if "_" in cell else int(cell) if kind == "int" else float(cell)
    except ValueError:
        return cell
