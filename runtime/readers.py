"""Reads recordings (csv, JSON lines, parquet) as arrivals, in the order of their rows.

A row has a ``ts`` (int) and a ``type``, and may have a ``publisher`` and a ``seq``; everything
else in it is data. In JSON lines an object called ``data`` is the data, and the keys beside it
are left out. An empty cell is NaN among floats, None among ints, and empty among texts.

A row that cannot be used is not dropped and does not stop the reading: it becomes an event with
the bad value in its place, and its file and line as data, which every run rejects and shows.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import stat
import zlib
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from slackline.errors import SourceError, UserError
from slackline.events import TS_MAX, TS_MIN, Event, EventBatch, IntArray, fault_of, make_event

__all__ = ["read", "rows_in"]

RUN_ROWS_MIN = 8
"""Consecutive rows of one type and publisher that are worth a batch."""
RUN_ROWS_MAX = 8192
"""A longer run of JSON lines is cut, since it is held as events until then."""
BLOCK_BYTES = 1 << 20
"""A csv file is parsed in blocks of about this size."""
LINE_BYTES_MAX = 16 << 20
"""A longer line is no row of anything."""
PARQUET_ROWS = 1 << 16

INT = r"^[+-]?\d+$"
FLOAT = (
    r"^[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?\d+[eE][+-]?\d+$|^[+-]?(nan|NaN|inf|Infinity)$"
)
BOOL = r"^(true|false|True|False|TRUE|FALSE)$"

Array = Any  # pyarrow ships no types
BoolArray = npt.NDArray[np.bool_]


def read(
    path: str | os.PathLike[str], type: str | None = None, publisher: str | None = None
) -> Iterator[Event | EventBatch]:
    """The rows of a file as events, or as batches where one publisher speaks for a while.

    ``type`` and ``publisher`` stand in where a row names none; without ``publisher`` it is the
    name of the file. Rows without ``seq`` are numbered from 1 per publisher and type.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}; check the path") from error
    if stat.S_ISDIR(mode):
        raise SourceError(f"{path} is a directory; give one of the files in it")
    ending, stem = _split(Path(path))
    if ending == ".parquet" and not stat.S_ISREG(mode):
        raise UserError(f"{path} is no regular file; parquet cannot be read from a pipe, csv can")
    source = _Source(str(path), type, publisher or stem)
    return _guarded(source, ending)


def rows_in(path: str | os.PathLike[str]) -> int | None:
    """How many rows a file has, if it says so itself: parquet does."""
    if _split(Path(path))[0] != ".parquet" or not Path(path).is_file():
        return None
    return int(_parquet(str(path)).metadata.num_rows)


def _split(path: Path) -> tuple[str, str]:
    """The ending that tells the format, and the name before it."""
    for ending in _READERS:
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return ending, path.name[: -len(ending)]
    raise UserError(f"{path}: unknown format; the name must end in {', '.join(_READERS)}")


class _Source:
    """A file, what stands in for what its rows leave out, and the numbers it has given."""

    def __init__(self, file: str, type: str | None, publisher: str) -> None:
        self.file, self.type, self.publisher = file, type, publisher
        self.counts: Counter[tuple[str | None, str]] = Counter()

    def malformed(
        self, line: int, type: Any, ts: Any, publisher: Any, seq: Any, problem: str | None = None
    ) -> Event:
        data = {"file": self.file, "line": line} | ({"problem": problem} if problem else {})
        return Event(type, ts, data, publisher, seq)


def _guarded(source: _Source, ending: str) -> Iterator[Event | EventBatch]:
    """Read, and say in our words what the file system and the formats complain about."""
    opened: Any = gzip.open if ending.endswith(".gz") else open
    try:
        with opened(source.file, "rb") as file:
            yield from _READERS[ending](source, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError(f"{source.file} is no sound gzip file: {error}; pack it again") from error
    except OSError as error:
        why = error.strerror or error
        raise SourceError(f"cannot read {source.file}: {why}; check the file") from error


# ---- JSON lines ----------------------------------------------------------------------------


def _read_json(source: _Source, file: IO[bytes]) -> Iterator[Event | EventBatch]:
    run: list[Event] = []
    run_key: Hashable = None
    for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX), b""), 1):
        if line.isspace():
            continue
        while not line.endswith(b"\n") and (rest := file.readline(LINE_BYTES_MAX)):
            line = b"longer than a line may be" + rest[-1:]
        event, key = _from_json(source, number, line)
        if run and (key is None or key != run_key or len(run) >= RUN_ROWS_MAX):
            yield from _batched(run)
            run = []
        if key is None:
            yield event
        else:
            run.append(event)
            run_key = key
    yield from _batched(run)


def _from_json(source: _Source, number: int, line: bytes) -> tuple[Event, Hashable]:
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
    ts, seq = _whole(given["ts"]), _whole(given["seq"])
    if seq is None:
        seq = source.counts[type_, str(publisher)] + 1
    event = make_event(type_, ts, data, publisher, seq)
    if type(seq) is int:
        source.counts[type_, str(publisher)] = max(seq, source.counts[type_, str(publisher)])
    if problem or fault_of(event):
        return source.malformed(number, type_, ts, publisher, seq, problem), None
    return event, (type_, publisher, *data)


def _whole(value: Any) -> Any:
    """A float without a fraction as the int it stands for; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _batched(run: list[Event]) -> Iterator[Event | EventBatch]:
    """A run of events as a batch if it is long enough."""
    if len(run) < RUN_ROWS_MIN:
        yield from run
        return
    first = run[0]
    columns = {name: _as_column([event.data[name] for event in run]) for name in first.data}
    ts = np.array([event.ts for event in run], dtype=np.int64)
    seq = np.array([event.seq for event in run], dtype=np.int64)
    yield EventBatch(first.type, ts, columns, first.publisher, seq)


def _as_column(values: list[Any]) -> npt.NDArray[Any]:
    """Values as an array that gives equal values back."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values, dtype=np.bool_)
    if kinds == {int} and max(values) < 2**63 and min(values) >= -(2**63):
        return np.array(values, dtype=np.int64)
    if kinds <= {int, float} and all(type(v) is float or abs(v) <= 2**53 for v in values):
        return np.array(values, dtype=np.float64)
    return _objects(values)


def _objects(values: list[Any]) -> npt.NDArray[Any]:
    return np.fromiter(values, dtype=object, count=len(values))


# ---- csv -----------------------------------------------------------------------------------


def _read_csv(source: _Source, file: IO[bytes]) -> Iterator[Event | EventBatch]:
    names: list[str] = []
    kinds: dict[str, str] = {}
    line = 1
    for block in _csv_blocks(source, file):
        if not names:
            block = block.removeprefix(b"\xef\xbb\xbf")
            end = block.find(b"\n") + 1 or len(block)
            header = next(csv.reader([block[:end].decode("utf-8", "replace")]), [])
            names = [name.strip() for name in header]
            _check_names(source, names)
            block, line = block[end:], 2
        if block:
            columns, problems = _csv_columns(names, block)
            lines = partial(_csv_lines, block, line)
            yield from _arrivals(source, columns, partial(_csv_typed, kinds), problems, lines)
        line += block.count(b"\n")
    if not names:
        raise SourceError(f"{source.file} is empty; a csv file begins with a line of column names")


def _check_names(source: _Source, names: list[str]) -> None:
    """Refuse a table that lacks what every event needs."""
    shown = ", ".join(map(repr, names[:12]))
    if "ts" not in names:
        raise UserError(
            f"{source.file} has no column 'ts'; it has {shown}. Name the columns in the first "
            "line, with commas between them"
        )
    if "type" not in names and source.type is None:
        raise UserError(
            f"{source.file} has no column 'type'; it has {shown}. Add one, or give the type of "
            "all its rows (--type)"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{source.file} has two columns {twice!r}; rename one of them")


def _csv_blocks(source: _Source, file: IO[bytes]) -> Iterator[bytes]:
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


def _csv_columns(names: list[str], block: bytes) -> tuple[dict[str, Array], dict[int, str]]:
    """The cells of a block as columns of text, and what is wrong with rows that have no place."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            arrow_csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
            arrow_csv.ParseOptions(newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
        if len(table) >= block.count(b"\n") or not _is_open(_text_lines(block)):
            return {name: _whole_array(table.column(name)) for name in names}, {}
    except pa.ArrowInvalid:
        pass  # some row has too many or too few cells, or is no UTF-8
    rows: list[list[str]] = []
    problems: dict[int, str] = {}
    for i, (_, cells) in enumerate(_csv_rows(block)):
        if isinstance(cells, str):
            problems[i] = cells
        elif len(cells) != len(names):
            problems[i] = f"the row has {len(cells)} cells, the header has {len(names)}"
        rows.append([""] * len(names) if i in problems else list(cells))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {n: pa.array(c, pa.string()) for n, c in zip(names, columns, strict=True)}, problems


def _csv_rows(block: bytes) -> Iterator[tuple[int, list[str] | str]]:
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


def _text_lines(block: bytes) -> list[str]:
    return list(io.StringIO(block.decode("utf-8", "replace"), newline="\n"))


def _is_open(lines: list[str]) -> bool:
    """Whether a quote is never closed, so that it would swallow all lines that follow."""
    try:
        return deque(csv.reader([*lines, "end"]), maxlen=1)[0] != ["end"]
    except csv.Error:
        return True


def _csv_lines(block: bytes, line: int) -> list[int]:
    return [line + before for before, _ in _csv_rows(block)]


def _csv_typed(kinds: dict[str, str], name: str, text: Array) -> _Column:
    """A column of text as what it holds: texts, or numbers with some texts among them.

    ``kinds`` keeps what the first cells have decided; an int column turns to float at the first
    fraction.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = pc.utf8_trim_whitespace(text)
    kind = kinds.get(name) or _kind_of(cells)
    if kind is None:
        return _Column(_objects([None] * len(text)))
    kinds[name] = kind
    if kind == "text":
        return _Column(text.to_numpy(zero_copy_only=False))
    cells = pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells)
    types = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    try:
        return _plain(cells.cast(types[kind]))
    except pa.ArrowInvalid:
        if kind == "int" and pc.any(pc.match_substring_regex(cells, FLOAT)).as_py():
            kinds[name] = "float"
            return _csv_typed(kinds, name, text)
        return _mixed(kind, cells.to_pylist())


def _kind_of(cells: Array) -> str | None:
    """What most of the cells that are not empty hold; None if all are empty."""
    import pyarrow.compute as pc

    cells = cells.filter(pc.not_equal(cells, ""))
    if not len(cells):
        return None
    whole = pc.sum(pc.match_substring_regex(cells, INT)).as_py()
    broken = pc.sum(pc.match_substring_regex(cells, FLOAT)).as_py()
    if 2 * (whole + broken) > len(cells):
        return "float" if broken else "int"
    return "bool" if pc.all(pc.match_substring_regex(cells, BOOL)).as_py() else "text"


def _mixed(kind: str, cells: list[str | None]) -> _Column:
    """Cells that are not all of their column's kind: the odd ones stay the texts they are."""
    dtype, empty = {"int": (np.int64, 0), "float": (np.float64, math.nan), "bool": (bool, False)}[
        kind
    ]
    values: list[Any] = [empty] * len(cells)
    odd: dict[int, Any] = {}
    for i, cell in enumerate(cells):
        value = _cell(kind, cell)
        if isinstance(value, str) or value is None or (abs(value) >= 2**63 and kind == "int"):
            odd[i] = value
        else:
            values[i] = value
    return _Column.with_odd(np.array(values, dtype=dtype), odd)


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


# ---- parquet -------------------------------------------------------------------------------


def _read_parquet(source: _Source, file: IO[bytes]) -> Iterator[Event | EventBatch]:
    import pyarrow as pa

    parquet = _parquet(source.file)
    schema = parquet.schema_arrow
    _check_names(source, schema.names)
    _check_types(source, schema)
    row = 1
    batches = parquet.iter_batches(batch_size=PARQUET_ROWS)
    while True:
        try:
            batch = next(batches, None)
        except pa.ArrowException as error:
            raise SourceError(f"{source.file} is damaged near row {row}: {error}") from error
        if batch is None:
            return
        columns = {name: _whole_array(batch.column(name)) for name in schema.names}
        lines = partial(range, row, row + len(batch))
        yield from _arrivals(source, columns, lambda _, array: _plain(array), {}, lines)
        row += len(batch)


def _parquet(file: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise SourceError(f"{file} is no parquet file, whatever its name: {error}") from error


def _check_types(source: _Source, schema: Any) -> None:
    """Refuse columns that can hold no time, number or name at all."""
    from pyarrow import types

    texts = (types.is_string, types.is_large_string, types.is_null)
    numbers = (*texts, types.is_integer, types.is_floating)
    allowed = {
        "ts": numbers,
        "seq": numbers,
        "type": texts,
        "publisher": (*texts, types.is_integer),
    }
    for name in allowed.keys() & set(schema.names):
        type_ = schema.field(name).type
        type_ = type_.value_type if types.is_dictionary(type_) else type_
        if not any(fits(type_) for fits in allowed[name]):
            wanted = "ints in the unit of the hierarchy" if allowed[name] is numbers else "texts"
            raise UserError(f"{source.file}: column {name!r} holds {type_}; convert it to {wanted}")


# ---- columns to arrivals -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """An array, and where some values do not fit it, all of them as objects."""

    values: npt.NDArray[Any]
    odd: BoolArray | None = None
    objects: npt.NDArray[Any] | None = None

    @classmethod
    def with_odd(cls, values: npt.NDArray[Any], odd: dict[int, Any]) -> _Column:
        if not odd:
            return cls(values)
        mask = np.zeros(len(values), dtype=np.bool_)
        mask[list(odd)] = True
        objects = values.astype(object)
        for i, value in odd.items():
            objects[i] = value
        return cls(values, mask, objects)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        if self.odd is None or self.objects is None or not self.odd[rows].any():
            return self.values[rows]
        return self.objects[rows]


def _whole_array(array: Array) -> Array:
    """An array in one piece, with the values themselves instead of a dictionary of them."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _plain(array: Array) -> _Column:
    """An arrow array as numpy; what is no number or truth value becomes objects."""
    from pyarrow import int64, types

    if types.is_floating(array.type):
        return _Column(array.to_numpy(zero_copy_only=False))
    if types.is_integer(array.type) or types.is_boolean(array.type):
        if not array.null_count:
            return _Column(array.to_numpy(zero_copy_only=False))
        values = array.fill_null(0 if types.is_integer(array.type) else False)
        missing = array.is_null().to_numpy(zero_copy_only=False)
        odd = dict.fromkeys(np.flatnonzero(missing).tolist())
        return _Column.with_odd(values.to_numpy(zero_copy_only=False), odd)
    if types.is_temporal(array.type) and getattr(array.type, "unit", "") == "ns":
        return _plain(array.cast(int64()))  # Python's own times end at microseconds
    return _Column(_objects(array.to_pylist()))


def _arrivals(
    source: _Source,
    columns: dict[str, Array],
    typed: Callable[[str, Array], _Column],
    problems: dict[int, str],
    lines: Callable[[], Sequence[int]],
) -> Iterator[Event | EventBatch]:
    """The rows of a table in their order: long runs as batches, bad rows as bad events."""
    times = columns.pop("ts")
    numbers = columns.pop("seq", None)
    rows = len(times)
    if not rows:
        return
    types, type_names = _labels(columns.pop("type", None), source.type, rows)
    publishers, names = _labels(columns.pop("publisher", None), source.publisher, rows)
    ts, bad = _ints(times)
    bad |= types < 0
    if numbers is None:
        seq = _numbered(source, types, type_names, publishers, names)
    else:
        seq, uncounted = _ints(numbers)
        bad |= uncounted | (seq < 0)
    data = {name: typed(name, column) for name, column in columns.items()}

    def events(begin: int, end: int) -> Iterator[Event]:
        part = slice(begin, end)
        values = [column[part].tolist() for column in data.values()]
        payloads = zip(*values, strict=True) if values else iter([()] * (end - begin))
        labels = zip(types[part].tolist(), publishers[part].tolist(), strict=True)
        each = zip(labels, ts[part].tolist(), seq[part].tolist(), payloads, strict=True)
        for (t, p), at, nth, payload in each:
            row = dict(zip(data, payload, strict=True))
            yield make_event(type_names[t], at, row, names[p], nth)

    new = (types[1:] != types[:-1]) | (publishers[1:] != publishers[:-1]) | bad[1:] | bad[:-1]
    begins = np.concatenate([[0], np.flatnonzero(new) + 1])
    ends = np.append(begins[1:], rows)
    apart = (ends - begins >= RUN_ROWS_MIN) | bad[begins]
    places = lines() if bad.any() else ()
    done = 0
    for begin, end in zip(begins[apart].tolist(), ends[apart].tolist(), strict=True):
        yield from events(done, begin)
        type_ = type_names[types[begin]] if types[begin] >= 0 else None
        publisher = names[publishers[begin]]
        part = slice(begin, end)
        if bad[begin]:
            number = int(seq[begin]) if numbers is None else _told(numbers[begin].as_py())
            time, why = _told(times[begin].as_py()), problems.get(begin)
            line = places[min(begin, len(places) - 1)]
            yield source.malformed(line, type_, time, publisher, number, why)
        else:
            assert type_ is not None
            values = {name: column[part] for name, column in data.items()}
            yield EventBatch(type_, ts[part], values, publisher, seq[part])
        done = end
    yield from events(done, rows)


def _labels(array: Array, default: str | None, rows: int) -> tuple[IntArray, list[str]]:
    """Each row's name as a place in the list of names; -1 where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = np.full(rows, -1, dtype=np.int64)
    names: list[str] = []
    if array is not None:
        encoded = pc.utf8_trim_whitespace(array.cast(pa.string())).dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy().copy()
        if "" in names:
            codes[codes == names.index("")] = -1
    if default is not None and (codes < 0).any():
        if default not in names:
            names.append(default)
        codes[codes < 0] = names.index(default)
    return codes, names


def _ints(array: Array) -> tuple[IntArray, BoolArray]:
    """A column as ints, and where it holds none that can be a time or a number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.int64), np.ones(len(array), dtype=np.bool_)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        if not array.null_count:
            with suppress(pa.ArrowInvalid):
                return _ints(array.cast(pa.int64()))
        cells = pc.replace_substring_regex(pc.utf8_trim_whitespace(array), r"\.0*$", "")
        plain = pc.match_substring_regex(cells, r"^-?\d{1,18}$").fill_null(False)
        numbers = pc.if_else(plain, cells, "0").cast(pa.int64()).to_numpy().copy()
        bad = ~plain.to_numpy(zero_copy_only=False)
        for i in np.flatnonzero(bad).tolist():
            value = _told(array[i].as_py())
            if isinstance(value, int) and TS_MIN < value < TS_MAX:
                numbers[i], bad[i] = value, False
        return numbers, bad
    missing = array.is_null().to_numpy(zero_copy_only=False)
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        missing = missing | ~np.isfinite(values) | (values != np.floor(values))
    bad = missing | (values <= TS_MIN) | (values >= TS_MAX)
    return np.where(bad, 0, values).astype(np.int64), bad


def _told(value: Any) -> Any:
    """What a cell says, for a row that is not plain: an int if it is one, None if it is empty."""
    if not isinstance(value, str):
        return _whole(value)
    text = value.strip()
    try:
        number = Decimal(text)
        if "_" not in text and abs(number) < 10**30 and number == int(number):
            return int(number)
    except (InvalidOperation, ValueError):
        pass
    return text or None


def _numbered(
    source: _Source,
    types: IntArray,
    type_names: list[str],
    publishers: IntArray,
    names: list[str],
) -> IntArray:
    """Number the rows of each publisher and type, on from where the last block stopped."""
    keys, which = np.unique(types * len(names) + publishers, return_inverse=True)
    counts = np.bincount(which)
    rank = np.empty(len(which), dtype=np.int64)
    rank[np.argsort(which, kind="stable")] = np.concatenate([np.arange(n) + 1 for n in counts])
    before = np.zeros(len(keys), dtype=np.int64)
    for i, (key, count) in enumerate(zip(keys.tolist(), counts.tolist(), strict=True)):
        if key >= 0:
            label = (type_names[key // len(names)], names[key % len(names)])
            before[i] = source.counts[label]
            source.counts[label] += count
    return np.where(types < 0, 0, before[which] + rank)


_READERS: dict[str, Callable[[_Source, IO[bytes]], Iterator[Event | EventBatch]]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".jsonl": _read_json,
    ".jsonl.gz": _read_json,
    ".parquet": _read_parquet,
}
