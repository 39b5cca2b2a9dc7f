"""The demonstration: a soccer game over a bad network, and who kicked the ball, exactly."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from slackline.cases import differences
from slackline.events import Event
from slackline.examples.game import in_order, share_disordered
from slackline.examples.soccer import disordered, game, hierarchy
from slackline.hierarchy import Hierarchy
from slackline.local import Run, run
from slackline.network import Link, Partition, Stall
from slackline.policy import KSlack
from slackline.progress import Progress
from slackline.simulate import simulate
from slackline.stats import Latency
from slackline.truth import truth

__all__ = ["main"]

SEED = 7
MS = 1_000
FIXED_MS = 500
"""What an expert would set by hand to be on the safe side, on every level."""
SIMULATED_SECONDS = 2.0
BAD_LINK = Link(
    delay=2 * MS, jitter=15 * MS, distribution="exponential",
    loss=0.02, duplicate=0.01, reorder=0.05,
)  # fmt: skip
PLACEMENT = {"position": "h1", "proximity": "h1", "peak": "h2", "hit": "h3", "pass": "h2"}
FAULTS = (Partition("h1", "h3", 700 * MS, 1_000 * MS), Stall("h2", 1_300 * MS, 1_500 * MS))


def main(seconds: float = 30, as_json: bool = False, quiet: bool = False) -> int:
    """Run the demonstration; 0 if every run ended with exactly truth, 1 otherwise.

    Progress goes to stderr, unless ``quiet``. With ``as_json`` stdout is one line of JSON.
    """
    demo = _play(seconds, quiet)
    print(json.dumps(demo.to_dict()) if as_json else demo.to_text())
    return 0 if demo.exact else 1


@dataclass(frozen=True, slots=True)
class _Part:
    """One way the game was run, held against truth."""

    title: str
    result: Run
    expected: list[Event]

    @property
    def wrong(self) -> list[str]:
        lines = differences(self.expected, self.result.final)
        return lines + [f"late     {late.event}: {late.cause}" for late in self.result.late]

    def to_dict(self) -> dict[str, Any]:
        return {
            "exact": not self.wrong,
            "final": len(self.result.final),
            "retracted": sum(stats.retracted for stats in self.result.stats.values()),
            "late": len(self.result.late),
            "differences": self.wrong,
        }

    def to_text(self) -> str:
        if not self.wrong:
            return f"  {self.title:<32}exact, {len(self.result.final)} final outputs"
        shown = [f"    {line}" for line in self.wrong[:5]]
        if len(self.wrong) > len(shown):
            shown.append(f"    and {len(self.wrong) - len(shown)} more")
        return "\n".join([f"  {self.title:<32}differs from truth:", *shown])


@dataclass(frozen=True, slots=True)
class _Demo:
    """What came of it all."""

    seconds: float
    positions: int
    transmitters: int
    out_of_order: float
    learnt: Run
    fixed: Run
    shares: dict[str, float]
    parts: dict[str, _Part]
    wall_seconds: float

    @property
    def exact(self) -> bool:
        return not any(part.wrong for part in self.parts.values())

    @property
    def found(self) -> dict[str, int]:
        count = Counter(event.type for event in self.learnt.final)
        return {type_: count[type_] for type_ in ("hit", "pass", "lost")}

    def to_dict(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "positions": self.positions,
            "transmitters": self.transmitters,
            "out_of_order": round(self.out_of_order, 4),
            "detectors": {
                name: {
                    "k_ms": stats.k / MS,
                    "out_of_order": round(self.shares[name], 4),
                    "detections": stats.published,
                    "latency_ms": _latency(stats.latency),
                    "latency_fixed_ms": _latency(self.fixed.stats[name].latency),
                }
                for name, stats in self.learnt.stats.items()
            },
            "found": self.found,
            "runs": {name: part.to_dict() for name, part in self.parts.items()},
            "exact": self.exact,
            "wall_seconds": round(self.wall_seconds, 1),
        }

    def to_text(self) -> str:
        head = (
            f"{self.seconds:g} s of soccer: {self.positions:,} positions of {self.transmitters} "
            f"transmitters, {self.out_of_order:.1%} out of order\n\n"
            f"{'':<48}{'latency, mean / p99 ms':>31}\n"
            f"  {'detector':<12}{'K learnt':>10}{'out of order':>15}{'detections':>13}"
            f"{'K learnt':>13}{f'K = {FIXED_MS} ms':>16}"
        )
        lines = [head]
        for name, stats in self.learnt.stats.items():
            fixed = self.fixed.stats[name].latency
            lines.append(
                f"  {name:<12}{stats.k / MS:>7.1f} ms{self.shares[name]:>15.1%}"
                f"{stats.published:>13,}"
                f"{_shown(stats.latency):>13}{_shown(fixed):>16}"
            )
        lines.append(
            "  (the end of the game releases what still waits: that lowers the means a little)"
        )
        found = self.found
        lines.append(f"\n{found['hit']} hits, {found['pass']} passes, {found['lost']} balls lost;")
        lines.append("against truth, which sorts the whole game first:\n")
        lines += [part.to_text() for part in self.parts.values()]
        lines.append("\nexact" if self.exact else "\nnot exact")
        return "\n".join(lines)


def _play(seconds: float, quiet: bool) -> _Demo:
    began = time.perf_counter()
    soccer = hierarchy()
    played = game(seconds, SEED)
    arrivals = disordered(played, SEED)
    part = [batch for batch in arrivals if batch.ts[-1] < SIMULATED_SECONDS * 1000 * MS]
    rows, part_rows = sum(map(len, played)), sum(map(len, part))
    by_hand = KSlack(k=FIXED_MS * MS)

    def progress(title: str, total: int) -> Progress:
        return Progress(title, total, unit="positions", quiet=quiet)

    with progress("run, K learnt", rows) as bar:
        learnt = run(soccer, arrivals, on_progress=bar.update)
    with progress(f"run, K = {FIXED_MS} ms", rows) as bar:
        fixed = run(soccer, arrivals, by_hand, on_progress=bar.update)
    with progress(f"simulate 3 hosts, {min(seconds, SIMULATED_SECONDS):g} s", part_rows) as bar:
        simulated = simulate(soccer, bar.track(part), SEED, 3, BAD_LINK, PLACEMENT, FAULTS)
    with progress("truth", rows) as bar:
        expected = truth(soccer, bar.track([in_order(played)]))
    expected_part = truth(soccer, [in_order(part)])
    return _Demo(
        seconds=seconds,
        positions=rows,
        transmitters=len({str(batch.publisher) for batch in played}),
        out_of_order=share_disordered(arrivals),
        learnt=learnt,
        fixed=fixed,
        shares=_shares(soccer, learnt),
        parts={
            "local": _Part("in process, K learnt", learnt, expected),
            "fixed": _Part(f"in process, K = {FIXED_MS} ms", fixed, expected),
            "simulated": _Part("3 simulated hosts, bad links", simulated, expected_part),
        },
        wall_seconds=time.perf_counter() - began,
    )


def _shares(soccer: Hierarchy, result: Run) -> dict[str, float]:
    """By detector, the share of its events that came behind a later one.

    For events of other detectors that is when they were published: all of a step's positions
    are taken together, so the order in which a step hands its events on says nothing.
    """
    shares = {}
    for node in soccer:
        stats = result.stats[node.name]
        behind, count = stats.reordered, stats.received
        if not set(node.listens) & set(soccer.source_types):
            added = [e for e in result.log if e.kind == "add" and e.event.type in node.listens]
            times = [e.event.ts for e in sorted(added, key=lambda e: (e.clk, e.event.ts))]
            behind = sum(
                ts < latest for ts, latest in zip(times, accumulate(times, max), strict=True)
            )
            count = len(times)
        shares[node.name] = behind / count if count else 0.0
    return shares


def _latency(latency: Latency) -> dict[str, float | None]:
    if not latency.count:
        return {"mean": None, "p99": None}
    return {"mean": round(latency.mean / MS, 3), "p99": round(latency.p99 / MS, 3)}


def _shown(latency: Latency) -> str:
    return f"{latency.mean / MS:.0f} / {latency.p99 / MS:.0f}" if latency.count else "none"
