"""Writes what a run has brought: JSON lines for programs, a table and a few lines for people."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from slackline.errors import WorldError
from slackline.events import Event
from slackline.intake import Rejected
from slackline.ledger import LogEntry
from slackline.local import Run
from slackline.stats import DetectorStats

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "by_type",
    "detectors_table",
    "first",
    "leftovers",
    "rejection",
    "rendered",
    "summary",
    "to_json",
    "whole_file",
    "write_events",
    "write_log",
]

SHOWN = 4
"""Of each kind of leftover, this many are shown with what is wrong with them."""
PLAIN_WIDTH = 160
"""Columns where no terminal says how wide it is."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A file to write that appears under its name whole, at the end, or not at all."""
    target = Path(os.path.realpath(path))
    # A pipe or a device cannot be put in place by renaming.
    direct = target.exists() and not target.is_file() and not target.is_dir()
    partial = target if direct else target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "it is a directory")
        file = partial.open("w", encoding="utf-8")
    except OSError as error:
        raise WorldError(
            f"cannot write {path}: {error.strerror}; give a file in a folder that you may write to"
        ) from error
    try:
        with file:
            yield file
            file.flush()
            if not direct:
                os.fsync(file.fileno())
        if not direct:
            partial.replace(target)
    except BaseException:
        if not direct:
            partial.unlink(missing_ok=True)
        raise


def write_events(file: TextIO, events: Iterable[Event]) -> None:
    """One line per event, in the form that ``read`` takes."""
    for event in events:
        file.write(to_json(_record(event)) + "\n")


def write_log(file: TextIO, log: Iterable[LogEntry]) -> None:
    """One line per add, retract and final."""
    for entry in log:
        line = {"kind": entry.kind, "clk": entry.clk, "rev": entry.rev, **_record(entry.event)}
        file.write(to_json(line) + "\n")


def _record(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        "ts": event.ts,
        "publisher": event.publisher,
        "seq": event.seq,
        "data": event.data,
    }


def to_json(value: Any) -> str:
    """One line of JSON; numbers that JSON does not know (NaN, infinity) become null."""
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except (ValueError, TypeError):
        return json.dumps(_finite(value), allow_nan=False)


def _plain(value: Any) -> Any:
    """What JSON has for a value that it does not know."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return _finite(_plain(value))


def rendered(*parts: Any) -> str:
    """Tables and lines as text for stdout, with colours where it is a terminal."""
    from rich.console import Console

    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=PLAIN_WIDTH)
    with console.capture() as capture:
        for part in parts:
            console.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))
    return capture.get()


def detectors_table(
    stats: Mapping[str, DetectorStats], unit: str, speculative: bool = False
) -> Table:
    """The numbers of each detector, a row each; times are in ``unit``."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("detector", overflow="fold")
    for name in ("emitted", "published", "reordered", "repaired", "late"):
        table.add_column(name, justify="right")
    for name in ("K", "latency mean", "p99"):
        table.add_column(f"{name}, {unit}", justify="right")
    for name in ("alpha", "retracted") if speculative else ():
        table.add_column(name, justify="right")
    table.add_column("waiting", overflow="fold")
    for name, one in stats.items():
        counts = (one.emitted, one.published, one.reordered, one.repaired, one.late, one.k)
        times = (one.latency.mean, one.latency.p99)
        table.add_row(
            Text(name),
            *(f"{count:,}" for count in counts),
            *("-" if math.isnan(time) else f"{time:,.1f}" for time in times),
            *((f"{one.alpha:.2f}", f"{one.retracted:,}") if speculative else ()),
            Text(one.waiting_text or "-"),
        )
    return table


def by_type(counts: Mapping[str, int]) -> str:
    """Counts in words: ``Goal 2, Pass 17``."""
    return ", ".join(f"{type_} {count:,}" for type_, count in sorted(counts.items()))


def leftovers(result: Run) -> list[str]:
    """What came out of a run and what was left over, a line per kind, the first ones named."""
    final = by_type(Counter(event.type for event in result.final))
    lines = [f"final outputs: {len(result.final):,}" + (f" ({final})" if final else "")]
    in_order = sorted(result.rejected, key=_line)
    kinds = {
        "late": [f"{late.detector}: {late.event}: {late.cause}" for late in result.late[:SHOWN]],
        "rejected": [rejection(rejected) for rejected in in_order[:SHOWN]],
        "quarantined": [entry.reason for entry in result.quarantined[:SHOWN]],
        "dead letters": [
            f"{letter.detector} raised {letter.error!r} on {letter.event}"
            for letter in result.dead_letters[:SHOWN]
        ],
    }
    for kind, shown in kinds.items():
        count = len(getattr(result, kind.replace(" ", "_")))
        if count:
            lines.append(f"{kind}: {count:,}")
            lines += first(shown, count)
    if result.ignored:
        total = sum(result.ignored.values())
        lines.append(f"nobody listens to: {total:,} ({by_type(result.ignored)})")
    return lines


def summary(result: Run, wrong: list[str] | None) -> dict[str, Any]:
    """A run in plain values; ``wrong`` is how it differs from truth, None if nobody looked."""
    return {
        "final": len(result.final),
        "late": len(result.late),
        "rejected": len(result.rejected),
        "quarantined": len(result.quarantined),
        "dead_letters": len(result.dead_letters),
        "ignored": result.ignored,
        "detectors": {name: stats.to_dict() for name, stats in result.stats.items()},
        "truth": None if wrong is None else "different" if wrong else "exact",
        "differences": wrong or [],
    }


def first(lines: list[str], count: int) -> list[str]:
    """The first lines, indented, and how many of all ``count`` are not shown."""
    shown = [f"  {line}" for line in lines[:SHOWN]]
    return shown + ([f"  and {count - len(shown):,} more"] if count > len(shown) else [])


def rejection(rejected: Rejected) -> str:
    """Why an arrival was rejected, and the line of the file that it was read from."""
    if not _line(rejected):
        return rejected.reason
    data = rejected.item.data
    reason = rejected.reason.removeprefix(f"{rejected.item}: ")
    return f"{data['file']}, line {data['line']}: {data.get('problem', reason)}"


def _line(rejected: Rejected) -> int:
    """The line that ``read`` had an arrival from; 0 if it came from elsewhere."""
    data = rejected.item.data if isinstance(rejected.item, Event) else None
    known = isinstance(data, Mapping) and "file" in data and isinstance(data.get("line"), int)
    return int(data["line"]) if known and data is not None else 0
