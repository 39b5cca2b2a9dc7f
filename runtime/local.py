"""The local host: run a hierarchy in this process, over arrivals in arrival order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from slackline.cell import DeadLetter, LateEvent, Outcome, Start
from slackline.errors import ConfigError
from slackline.events import TS_MIN, Event, EventBatch, Stable
from slackline.hierarchy import Hierarchy
from slackline.host import Host, Quarantined
from slackline.intake import Arrival, Intake, Rejected, is_well_formed
from slackline.ledger import LogEntry
from slackline.policy import Ordering
from slackline.speculation import SPAN_SECONDS
from slackline.stats import DetectorStats

__all__ = ["Run", "run"]

CHUNK_ROWS = 8192
"""Arrivals that are taken together. As long as nothing is late the final output does not depend
on it; the larger it is, the fewer corrections there are on the way."""


@dataclass(slots=True)
class Run:
    """What a run brought: everything published, corrected and left over."""

    final: list[Event] = field(default_factory=list)
    """The final output of all detectors, in total order."""
    log: list[LogEntry] = field(default_factory=list)
    late: list[LateEvent] = field(default_factory=list)
    stats: dict[str, DetectorStats] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)
    """Events of types that no detector listens to, by type."""
    clk: int = 0
    trace: list[str] = field(default_factory=list)
    """What a simulation did, line by line."""
    backset: dict[str, dict[str, int]] = field(default_factory=dict)
    """How far each detector dated each type back at most."""

    def outputs(self, *types: str) -> list[Event]:
        """The final output of some types."""
        return [event for event in self.final if event.type in types]

    def record(self, outcomes: Mapping[str, Outcome]) -> None:
        """Write down what the cells did in one step."""
        for outcome in outcomes.values():
            self.log += outcome.log
            self.final += [entry.event for entry in outcome.log if entry.kind == "final"]

    def conclude(self, hosts: Iterable[Host], intake: Intake) -> None:
        """Collect what the hosts, and the intake before them, have left over."""
        self.final.sort()
        self.rejected += intake.rejected
        self.ignored |= intake.ignored
        for host in hosts:
            self.late += host.late
            known = {entry.event.name for entry in self.quarantined}
            self.quarantined += [e for e in host.quarantined if e.event.name not in known]
            self.dead_letters += host.dead_letters
            self.clk = max(self.clk, host.clk)
            for name, stats in host.stats(intake.rejected_by_type).items():
                self.stats[name] = stats
                self.backset[name] = dict(host.cells[name].runner.backset)


def run(
    hierarchy: Hierarchy,
    arrivals: Iterable[Event | EventBatch | Stable],
    ordering: Ordering | Mapping[str, Ordering] | None = None,
    *,
    start: Mapping[str, Start] | None = None,
    chunk_rows: int = CHUNK_ROWS,
    on_output: Callable[[LogEntry], None] | None = None,
    mode: str = "all",
    on_progress: Callable[[int], None] | None = None,
) -> Run:
    """Run a hierarchy in this process over events or batches in the order they arrive.

    ``ordering`` replaces the policy of every detector, or of those that a mapping names.
    ``start`` gives what a configuration knows of each detector. ``on_output`` is called with each
    entry of the log as it is written: with ``mode="all"``, adds, retractions and finals, with
    ``mode="final"`` only what cannot change any more. ``on_progress`` is called with the number
    of rows taken so far.
    """
    if mode not in ("all", "final"):
        raise ConfigError(f"mode must be 'all' or 'final', got {mode!r}")
    host = Host(hierarchy, hierarchy.orderings(ordering), starts=start)
    result = Run(clk=host.clk)
    if host.speculates or any(cell.unit.loose for cell in host.cells.values()):
        chunk_rows = 1  # what is taken before it is due depends on what has come so far
    rows = 0
    load = _Load(host, hierarchy.second)
    for chunk, size in _chunks(arrivals, chunk_rows):
        with load:
            outcomes = host.step(chunk)
        _deliver(outcomes, on_output, mode)
        result.record(outcomes)
        rows += size
        if on_progress is not None:
            on_progress(rows)
    outcomes = host.step(host.end())
    _deliver(outcomes, on_output, mode)
    result.record(outcomes)
    result.conclude([host], host.intake)
    return result


def _deliver(
    outcomes: Mapping[str, Outcome], on_output: Callable[[LogEntry], None] | None, mode: str
) -> None:
    if on_output is not None:
        for outcome in outcomes.values():
            for entry in outcome.log:
                if mode == "all" or entry.kind == "final":
                    on_output(entry)


class _Load:
    """Tells a host its busy factor as if the stream came at its own pace, per span of its time."""

    def __init__(self, host: Host, second: int) -> None:
        self._host = host
        self._second = second
        self._since: int | None = None
        self._busy = self._begun = 0.0

    def __enter__(self) -> None:
        self._begun = time.process_time()

    def __exit__(self, *error: object) -> None:
        if not self._host.speculates:
            return
        self._busy += time.process_time() - self._begun
        if self._since is None:
            self._since = self._host.clk if self._host.clk > TS_MIN else None
            return
        seconds = (self._host.clk - self._since) / self._second
        if seconds >= SPAN_SECONDS:
            self._host.adapt(self._busy / seconds, seconds)
            self._since, self._busy = self._host.clk, 0.0


def _chunks(
    arrivals: Iterable[Event | EventBatch | Stable], rows_max: int
) -> Iterator[tuple[list[Arrival], int]]:
    """Cut arrivals into lists of about ``rows_max`` rows, with their sizes."""
    chunk: list[Arrival] = []
    rows = 0
    for item in arrivals:
        size = len(item) if isinstance(item, EventBatch) else 1
        if size > rows_max > 1 and isinstance(item, EventBatch) and is_well_formed(item):
            for begin in range(0, size, rows_max):
                part = item[begin : begin + rows_max]
                yield [*chunk, part], rows + len(part)
                chunk, rows = [], 0
            continue
        chunk.append(item)
        rows += size
        if rows >= rows_max or isinstance(item, Stable):
            yield chunk, rows
            chunk, rows = [], 0
    if chunk:
        yield chunk, rows
