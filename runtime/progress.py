"""How far a command has come: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

from slackline.events import EventBatch

__all__ = ["Progress", "rate_text"]

LINE_SECONDS = 5.0
"""Plain lines are at least this far apart,"""
LINE_SHARE = 0.1
"""and at least this share of the total, where there is one."""
BAR_SECONDS = 0.1

T = TypeVar("T")


class Progress:
    """Shows how much is done, of what total if one is known, and how fast it goes.

    On a terminal it is a bar, which vanishes at the end; elsewhere it is plain lines and a last
    one. ``quiet`` shows nothing. ``done`` counts in any case.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        unit: str = "rows",
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self._label, self._total, self._unit = label, total, unit
        self._quiet = quiet
        self._stream = stream or sys.stderr
        self._clock = clock
        self._begin = self._shown = clock()
        self._shown_done = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        self._begin = self._shown = self._clock()
        if not self._quiet and self._stream.isatty():
            self._bar, self._task = self._new_bar()
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif not self._quiet and kind is None:
            self._line(f"in {self._clock() - self._begin:.1f} s")

    def update(self, done: int) -> None:
        """Say that this many are done by now."""
        self.done = done
        if self._quiet:
            return
        now = self._clock()
        if self._bar is not None:
            if now - self._shown >= BAR_SECONDS:
                self._shown = now
                self._bar.update(self._task, completed=done, rate=self._rate())
        elif now - self._shown >= LINE_SECONDS and (
            self._total is None or done - self._shown_done >= LINE_SHARE * self._total
        ):
            self._shown, self._shown_done = now, done
            self._line("so far")

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Pass items on and count their rows."""
        done = self.done
        for item in items:
            done += len(item) if isinstance(item, EventBatch) else 1
            self.update(done)
            yield item

    def _rate(self) -> str:
        return rate_text(self.done, self._clock() - self._begin, self._unit)

    def _line(self, when: str) -> None:
        of = f" of {self._total:,}" if self._total is not None else ""
        text = f"{self._label}: {self.done:,}{of} {self._unit} {when}, {self._rate()}"
        print(text, file=self._stream, flush=True)

    def _new_bar(self) -> tuple[Any, Any]:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = [
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn(f"{{task.completed:,.0f}} {self._unit}", markup=False),
            TextColumn("{task.fields[rate]}", style="dim", markup=False),
            *([TimeRemainingColumn()] if self._total is not None else []),
        ]
        # What detectors print to stdout belongs there, not in front of the bar.
        bar = Bar(
            *columns, console=Console(file=self._stream), transient=True, redirect_stdout=False
        )
        return bar, bar.add_task(self._label, total=self._total, rate="")


def rate_text(done: int, seconds: float, unit: str) -> str:
    """A rate in words, such as ``12,000 rows/s``."""
    per_second = done / seconds if seconds > 0 else 0.0
    return f"{per_second:,.0f} {unit}/s" if per_second >= 10 else f"{per_second:.1f} {unit}/s"
