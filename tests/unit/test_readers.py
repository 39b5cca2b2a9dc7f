"""Reading recordings: formats, rows that cannot be used, runs as batches, numbers and names."""

import csv
import gzip
import io
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from slackline import (
    Detector,
    Emit,
    Event,
    EventBatch,
    Hierarchy,
    SourceError,
    UserError,
    run,
)
from slackline.events import fault_of
from slackline.readers import csv_table, json_lines, read, rows_in

COLUMNS = ["type", "ts", "publisher", "seq", "v", "note"]


def flat(items: Iterable[Event | EventBatch]) -> list[Event]:
    return [event for item in items for event in (item if isinstance(item, EventBatch) else [item])]


def events_of(count: int, type_: str = "A", publisher: str = "p") -> list[Event]:
    return [Event(type_, 10 * i, {"v": i, "note": f"n{i}"}, publisher, i + 1) for i in range(count)]


def write(path: Path, events: list[Event]) -> Path:
    """Write events in the format that the name of the file asks for."""
    rows = [[e.type, e.ts, e.publisher, e.seq, e.data["v"], e.data["note"]] for e in events]
    if path.name.endswith(".parquet"):
        columns = list(zip(*rows, strict=True))
        parquet.write_table(pa.table(dict(zip(COLUMNS, map(list, columns), strict=True))), path)
        return path
    text = io.StringIO()
    if ".csv" in path.name:
        writer = csv.writer(text)
        writer.writerows([COLUMNS, *rows])
    else:
        for row in rows:
            text.write(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n")
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.name.endswith(".gz") else content)
    return path


FORMATS = ["a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet", "A.CSV"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_back_the_events_that_were_written(tmp_path: Path, name: str) -> None:
    events = [*events_of(3), *events_of(20, "B", "q"), *events_of(2, "C")]
    path = write(tmp_path / name.replace("A.CSV", "a.csv"), events).rename(tmp_path / name)
    assert flat(read(path)) == events


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_only_runs_of_eight_or_more_become_batches(tmp_path: Path, name: str) -> None:
    events = [*events_of(7), *events_of(8, "B"), *events_of(1, "B", "q"), *events_of(9, "A", "q")]
    items = list(read(write(tmp_path / name, events)))
    assert [len(item) if isinstance(item, EventBatch) else 1 for item in items] == [
        *[1] * 7, 8, 1, 9,
    ]  # fmt: skip
    batch = items[7]
    assert isinstance(batch, EventBatch)
    assert batch.columns["v"].dtype == np.int64
    assert batch.ts.dtype == np.int64


def test_rows_without_numbers_are_numbered_per_publisher_and_type(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [("A", "p"), ("A", "q"), ("B", "p"), ("A", "p"), *[("A", "q")] * 9, ("B", "p")]
    path.write_text(
        "type,ts,publisher\n" + "".join(f"{t},{i},{p}\n" for i, (t, p) in enumerate(rows))
    )
    lines = tmp_path / "a.jsonl"
    lines.write_text(
        "".join(
            json.dumps({"type": t, "ts": i, "publisher": p}) + "\n" for i, (t, p) in enumerate(rows)
        )
    )
    for source in (path, lines):
        assert [e.seq for e in flat(read(source))] == [1, 1, 1, 2, *range(2, 11), 2]


def test_numbers_go_on_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 64)
    path = tmp_path / "a.csv"
    path.write_text("type,ts\n" + "".join(f"A,{i}\n" for i in range(500)))
    assert [(e.ts, e.seq) for e in flat(read(path))] == [(i, i + 1) for i in range(500)]


def test_type_and_publisher_stand_in_where_a_row_names_none(tmp_path: Path) -> None:
    path = tmp_path / "sensor.csv.gz"
    path.write_bytes(gzip.compress(b"ts,v\n1,5\n", mtime=0))
    assert list(read(path, type="T")) == [Event("T", 1, {"v": 5}, "sensor", 1)]
    assert list(read(path, type="T", publisher="P")) == [Event("T", 1, {"v": 5}, "P", 1)]
    mixed = tmp_path / "mixed.csv"
    mixed.write_text("type,ts,publisher\nA,1,\n,2,q\nT,3,P\n")
    assert [(e.type, e.publisher, e.seq) for e in flat(read(mixed, "T", "P"))] == [
        ("A", "P", 1), ("T", "q", 1), ("T", "P", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "value"),
    [("", None), ("abc", "abc"), ("nan", "nan"), ("1.5", "1.5"), ("1_0", "1_0"), ("inf", "inf")],
)
def test_a_bad_time_in_csv_stays_in_place_with_its_line(
    tmp_path: Path, cell: str, value: Any
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'type,ts,v\nA,1,"two\nlines"\n\nA,{cell},x\nA,3,y\n')
    first, bad, last = read(path)
    assert isinstance(bad, Event)
    assert (bad.type, bad.ts, bad.publisher, bad.seq) == ("A", value, "a", 2)
    assert bad.data == {"file": str(path), "line": 5}
    assert fault_of(bad)
    assert [fault_of(first), fault_of(last)] == [None, None]
    assert last == Event("A", 3, {"v": "y"}, "a", 3)


@pytest.mark.parametrize("cell", [" 7 ", "7.0", "+7", "7.", "7e0", "0007"])
def test_a_time_in_csv_may_be_written_in_any_way_that_is_an_int(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"type,ts\nA,{cell}\n")
    assert list(read(path)) == [Event("A", 7, {}, "a", 1)]


def test_a_time_beyond_the_floats_keeps_every_digit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("type,ts\nA,10629342490369879.0\nA,junk\n")
    assert flat(read(path))[0].ts == 10629342490369879


@pytest.mark.parametrize("cell", ["16", " 16", "16.0", "1.6e1", "+16", "0x10"])
def test_what_a_time_says_does_not_depend_on_the_rows_beside_it(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "a.csv"
    for beside in ("1", "1.0", "junk"):
        path.write_text(f"type,ts\nA,{cell}\nA,{beside}\n")
        assert flat(read(path))[0].ts == 16


def test_a_time_out_of_range_is_no_part_of_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    times = [*range(10), 2**62, *range(10), 10**25]
    path.write_text("type,ts\n" + "".join(f"A,{ts}\n" for ts in times))
    items = list(read(path))
    assert [len(i) if isinstance(i, EventBatch) else i.ts for i in items] == [
        10, 2**62, 10, 10**25,
    ]  # fmt: skip


def test_junk_times_among_many_do_not_stop_the_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("type,ts,v\n" + "".join(f"A,{'?' if i == 50 else i},{i}\n" for i in range(100)))
    before, bad, after = read(path)
    assert isinstance(before, EventBatch)
    assert isinstance(after, EventBatch)
    assert before.ts.tolist() == list(range(50))
    assert after.seq.tolist() == list(range(52, 101))
    assert bad.ts == "?"


def test_rows_of_the_wrong_width_and_without_type_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("type,ts,v\nA,1,1\nA,2\n,3,3\nA,4,4,4\nA,5,5\n")
    good, short, untyped, long, last = flat(read(path))
    assert [e.data["line"] for e in (short, untyped, long)] == [3, 4, 5]
    assert "2 cells" in short.data["problem"]
    assert (untyped.type, untyped.ts) == (None, 3)
    assert [good.seq, last.seq] == [1, 2]


def test_a_quote_that_is_never_closed_spoils_no_other_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('type,ts,v\nA,1,5" pipe\nA,2,"open\nA,3,z\nA,4,y\n')
    assert [(e.ts, e.data["v"]) for e in flat(read(path))] == [
        (1, '5" pipe'), (2, "open"), (3, "z"), (4, "y"),
    ]  # fmt: skip


def test_an_open_quote_does_not_hold_up_a_long_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 256)
    monkeypatch.setattr(csv_table, "LINE_BYTES_MAX", 1024)
    path = tmp_path / "a.csv"
    path.write_text('type,ts,v\nA,0,"open\n' + "".join(f"A,{i},x\n" for i in range(1, 1000)))
    assert [e.ts for e in flat(read(path))] == list(range(1000))


def test_a_cell_of_several_lines_is_not_cut_between_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 40)
    path = tmp_path / "a.csv"
    path.write_text("type,ts,v\n" + "".join(f'A,{i},"x\ny\nz"\n' for i in range(60)))
    assert [(e.ts, e.data["v"]) for e in flat(read(path))] == [(i, "x\ny\nz") for i in range(60)]


def test_text_among_numbers_stays_text_and_the_rest_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("type,ts,i,x,b\nA,1,1,1.5,true\nA,2,n/a,2,no\nA,3,,,\nA,4,4,4,False\n")
    assert [list(e.data.values()) for e in flat(read(path))[:2]] == [
        [1, 1.5, "true"], ["n/a", 2.0, "no"],
    ]  # fmt: skip
    third, fourth = flat(read(path))[2:]
    assert third.data["i"] is None
    assert math.isnan(third.data["x"])
    assert fourth.data == {"i": 4, "x": 4.0, "b": "False"}


def test_an_int_column_with_gaps_is_an_int_array_where_there_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [*(f"A,{i},{2**60 + i}" for i in range(8)), *(f"B,{i}," for i in range(8))]
    path.write_text("type,ts,v\n" + "\n".join(rows))
    one, other = read(path)
    assert isinstance(one, EventBatch)
    assert isinstance(other, EventBatch)
    assert one.columns["v"].dtype == np.int64
    assert one.columns["v"].tolist() == [2**60 + i for i in range(8)]
    assert other.columns["v"].tolist() == [None] * 8


def test_an_int_column_turns_to_float_at_the_first_fraction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 100)
    path = tmp_path / "a.csv"
    path.write_text(
        "type,ts,v\n" + "".join(f"A,{i},{i if i < 50 else i + 0.5}\n" for i in range(99))
    )
    batches = [item for item in read(path) if isinstance(item, EventBatch)]
    assert batches[0].columns["v"].dtype == np.int64
    assert batches[-1].columns["v"].dtype == np.float64
    assert [e.data["v"] for e in flat(read(path))] == [
        i if i < 50 else i + 0.5 for i in range(99)
    ]  # fmt: skip


def test_broken_utf8_and_a_byte_order_mark_do_not_stop_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbftype,ts,v\r\nA,1,\xff\r\nA,2,ok\r\n")
    assert [e.data["v"] for e in flat(read(path))] == ["�", "ok"]


@pytest.mark.parametrize(
    ("line", "type_", "ts"),
    [
        ("{oops", None, None),
        ("[1, 2]", None, None),
        ('{"type": "A"}', "A", None),
        ('{"type": "A", "ts": "5"}', "A", "5"),
        ('{"type": "A", "ts": true}', "A", True),
        ('{"type": "A", "ts": 1.5}', "A", 1.5),
        ('{"ts": 5}', None, 5),
        ('{"type": ["A"], "ts": 5}', None, 5),
        ("\xff", None, None),
    ],
)
def test_a_bad_line_of_json_stays_in_place_with_its_number(
    tmp_path: Path, line: str, type_: Any, ts: Any
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"type":"A","ts":1}\n\n' + line.encode("latin-1") + b'\n{"type":"A","ts":2}\n'
    )
    first, bad, last = flat(read(path))
    assert (bad.type, bad.ts, bad.publisher) == (type_, ts, "a")
    assert (bad.data["file"], bad.data["line"]) == (str(path), 3)
    assert fault_of(bad)
    assert [first.ts, last.ts] == [1, 2]


def test_a_line_longer_than_a_line_may_be_is_one_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "LINE_BYTES_MAX", 32)
    path = tmp_path / "a.jsonl"
    path.write_text('{"type":"A","ts":1}\n' + "x" * 1000 + '\n{"type":"A","ts":2}\n')
    first, bad, last = flat(read(path))
    assert [first.ts, bad.ts, last.ts] == [1, None, 2]
    assert bad.data["line"] == 2


def test_a_nested_data_object_is_the_data(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"type":"A","ts":1,"data":{"v":[1,{"w":2}]},"x":1}\n{"type":"A","ts":2,"data":3}\n'
    )
    assert [e.data for e in flat(read(path))] == [{"v": [1, {"w": 2}]}, {"data": 3}]


def test_runs_of_json_lines_break_where_the_keys_change(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"type": "A", "ts": i, ("v" if i < 10 else "w"): i} for i in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    one, other = read(path)
    assert isinstance(one, EventBatch)
    assert isinstance(other, EventBatch)
    assert (list(one.columns), list(other.columns)) == (["v"], ["w"])


def test_parquet_columns_of_any_plain_kind_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "type": pa.array(["A", None, "A", "A"]).dictionary_encode(),
            "ts": pa.array([1.0, 2.0, None, 2.5]),
            "publisher": pa.array([7, 7, 7, None]),
            "seq": pa.array([1, 2, 3, 4], pa.uint8()),
            "i": pa.array([1, None, 3, 4]),
            "list": [[1], [2, 3], [], [4]],
        }
    )
    parquet.write_table(table, path)
    good, untyped, timeless, broken = flat(read(path))
    assert good == Event("A", 1, {"i": 1, "list": [1]}, "7", 1)
    assert [(e.type, e.ts, e.data["line"]) for e in (untyped, timeless, broken)] == [
        (None, 2, 2), ("A", None, 3), ("A", 2.5, 4),
    ]  # fmt: skip
    assert rows_in(path) == 4


def test_only_parquet_knows_its_rows(tmp_path: Path) -> None:
    assert rows_in(write(tmp_path / "a.csv", events_of(3))) is None


def test_parquet_times_that_are_no_ints_at_all_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"type": ["A"], "ts": pa.array([1], pa.timestamp("us"))}), path)
    with pytest.raises(UserError, match=r"column 'ts' holds timestamp\[us\]; convert it to ints"):
        list(read(path))


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("missing.csv", None, SourceError, "No such file"),
        ("a.xls", b"x", UserError, "must end in .csv"),
        ("a.csv", b"", SourceError, "is empty"),
        ("a.csv", b"a;ts\n1;2\n", UserError, "no column 'ts'"),
        ("a.csv", b"ts\n2\n", UserError, "no column 'type'"),
        ("a.csv", b"type,ts,ts\n", UserError, "two columns 'ts'"),
        ("a.csv.gz", b"plain", SourceError, "no sound gzip"),
        ("a.jsonl.gz", gzip.compress(b"{}" * 99, mtime=0)[:-9], SourceError, "no sound gzip"),
        ("a.parquet", b"no parquet", SourceError, "is no parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_advice(
    tmp_path: Path, name: str, content: bytes | None, error: type[Exception], says: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=says):
        list(read(path))


def test_a_directory_and_a_parquet_pipe_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a directory"):
        read(tmp_path)
    os.mkfifo(tmp_path / "a.parquet")
    with pytest.raises(UserError, match="cannot be read from a pipe"):
        read(tmp_path / "a.parquet")


def test_a_file_without_line_ends_is_no_csv_and_fills_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 64)
    monkeypatch.setattr(csv_table, "LINE_BYTES_MAX", 512)
    path = tmp_path / "a.csv"
    path.write_text("x" * 5000)
    with pytest.raises(SourceError, match="no line ends"):
        list(read(path))


def test_a_run_rejects_what_the_reader_could_not_use(tmp_path: Path) -> None:
    class Ears(Detector):
        listens = ("A",)
        publishes = ("B",)

        def on_event(self, event: Event, emit: Emit) -> None:
            emit("B", event.ts)

    path = tmp_path / "a.csv"
    path.write_text("type,ts\n" + "A,1\n" * 9 + "A,bad\n,5\nA\nA,9\n")
    result = run(Hierarchy("ears").add("ears", Ears()), read(path))
    assert sorted(rejected.item.data["line"] for rejected in result.rejected) == [11, 12, 13]
    assert len(result.final) == 10


names = st.sampled_from(["A", "B", "Größe", "a b"])
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.lists(st.integers(0, 3), max_size=2),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(names, st.integers(-(2**61), 2**61), names, values, st.integers(1, 12)),
        max_size=12,
    )
)
def test_whatever_json_lines_hold_comes_back(tmp_path: Path, rows: list[Any]) -> None:
    events: list[Event] = []
    for type_, ts, publisher, value, times in rows:
        for _ in range(times):
            events.append(Event(type_, ts, {"v": value}, publisher, len(events)))
    lines = [{"type": e.type, "ts": e.ts, "publisher": e.publisher, "seq": e.seq, "data": e.data}
             for e in events]  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    got = flat(read(path))
    assert got == events
    assert [type(e.data["v"]) is bool for e in got] == [type(e.data["v"]) is bool for e in events]


texts = st.text(st.sampled_from("\n\",; aé'7"), max_size=6)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    block=st.integers(128, 512),
    rows=st.lists(
        st.tuples(
            names, st.integers(-(2**61), 2**61), names, st.integers(-(2**63), 2**63 - 1), texts
        ),
        min_size=1,
        max_size=40,
    ),
)
def test_whatever_csv_holds_comes_back_however_it_is_cut_into_blocks(
    tmp_path: Path, block: int, rows: list[Any]
) -> None:
    events = [
        Event(type_, ts, {"v": v, "note": f"t{note}"}, publisher, i)
        for i, (type_, ts, publisher, v, note) in enumerate(rows)
    ]
    path = write(tmp_path / "a.csv", events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "BLOCK_BYTES", block)
        assert flat(read(path)) == events
