"""A run at the pace of the stream, in virtual time but with the CPU time that it really takes.

Arrivals carry the time at which they arrive. A host that is free takes everything that has
arrived, works on it for as long as this process really computes, and is then free again. Nothing
waits in real time, so a minute of a light load takes seconds; under a heavy load arrivals queue
up as they would live. The busy factor steers speculation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from slackline.events import Event, EventBatch, Stable
from slackline.hierarchy import Hierarchy
from slackline.host import Host
from slackline.intake import Arrival
from slackline.local import Run
from slackline.policy import Ordering
from slackline.speculation import SPAN_SECONDS

__all__ = ["Moment", "Paced", "run_paced"]

LINGER_SECONDS = 0.005
"""How long a host waits for more after something has arrived, so as not to step for each."""


@dataclass(frozen=True, slots=True)
class Moment:
    """How a host stood at the end of a span; times in seconds."""

    time: float
    busy: float
    pressure: float
    alpha: dict[str, float]
    queued: int
    """Arrivals that came while it was at work on the last step."""


@dataclass(slots=True)
class Paced:
    """A run at pace: its result, how the load went, and when each final output was published."""

    run: Run
    moments: list[Moment] = field(default_factory=list)
    latencies: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Per detector: when a final output was published, and how long after it had occurred."""
    cpu_seconds: float = 0.0

    def latency(self, *detectors: str) -> float:
        """The mean detection latency of some detectors, in seconds."""
        values = [late for name in detectors for _, late in self.latencies.get(name, [])]
        return sum(values) / len(values) if values else float("nan")


def run_paced(
    hierarchy: Hierarchy,
    arrivals: Iterable[tuple[float, Event | EventBatch | Stable]],
    ordering: Ordering | Mapping[str, Ordering] | None = None,
    *,
    slowness: float = 1.0,
    linger_seconds: float = LINGER_SECONDS,
    cpu: Callable[[], float] = time.process_time,
) -> Paced:
    """Run arrivals ``(arrival time, item)`` in arrival order, times in the hierarchy's unit.

    ``slowness`` makes the processor so many times slower than it is.
    """
    host = Host(hierarchy, hierarchy.orderings(ordering))
    result = Paced(Run(clk=host.clk))
    second = hierarchy.second
    pending = iter(arrivals)
    upcoming = next(pending, None)
    now = span_start = 0.0 if upcoming is None else upcoming[0] / second
    busy = 0.0
    published: dict[tuple[str, str, int], float] = {}
    while upcoming is not None:
        now = max(now, upcoming[0] / second + linger_seconds)
        came: list[Arrival] = []
        while upcoming is not None and upcoming[0] / second <= now:
            came.append(upcoming[1])
            upcoming = next(pending, None)
        begun = cpu()
        outcomes = host.step(came)
        spent = (cpu() - begun) * slowness
        now += spent
        busy += spent
        result.cpu_seconds += spent
        result.run.record(outcomes)
        for name, outcome in outcomes.items():
            for entry in outcome.log:
                if entry.kind == "add":
                    published[entry.event.name] = now
                elif entry.kind == "final":
                    since = published.pop(entry.event.name)
                    result.latencies.setdefault(name, []).append(
                        (since, since - entry.event.ts / second)
                    )
        if now - span_start >= SPAN_SECONDS:
            seconds = now - span_start
            host.adapt(busy / seconds, seconds)
            alphas = {name: cell.unit.alpha for name, cell in host.cells.items()}
            moment = Moment(now, busy / seconds, host.pressure.value, alphas, len(came))
            result.moments.append(moment)
            span_start, busy = now, 0.0
    result.run.record(host.step(host.end()))
    result.run.conclude([host], host.intake)
    return result
