"""Draw docs/*.png from real runs: ``figures.py [kslack throughput]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from bench_ordering import MS, KickRun, kick_run, kick_stream
from bench_streams import SECOND, counting
from bench_throughput import COLUMNS_PER_SECOND, EVENTS_PER_SECOND, paired_us
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from slackline import Event, KSlack

DOCS = Path(__file__).resolve().parent.parent / "docs"
SHOWN_SECONDS = 15
COLOURS = {"near": "#4477aa", "not_near": "#66ccee", "peak": "#ee9944"}


def kslack() -> None:
    """Delays and K over time, as the kick detector meets them from a cold start."""
    arrivals = kick_stream(SHOWN_SECONDS)
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for type_, colour in COLOURS.items():
        at, delay = _delays(arrivals, type_)
        axes.plot(at, delay, "o", color=colour, markersize=3.5, label=f"delay of {type_}")
    for margin, colour in ((0.0, "black"), (0.5, "#aa3377")):
        done = kick_run(arrivals, KSlack(margin=margin, repair=0))
        _draw_k(axes, done, margin, colour)
    axes.set(
        xlabel="stream time, s",
        ylabel="delay and K, ms",
        xlim=(0, SHOWN_SECONDS),
        ylim=(0, 65),
        title="K is learnt from the delays; a cross is an event it was too small for",
    )
    axes.legend(loc="upper center", ncols=4, frameon=False)
    _save(figure, "kslack.png")


def throughput() -> None:
    """Events per second along a long stream, beside a fresh one in the same moment."""
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for label, in_columns, events, target, colour in (
        ("on_batch", True, 10_000_000, COLUMNS_PER_SECOND, "#4477aa"),
        ("on_event", False, 4_000_000, EVENTS_PER_SECOND, "#ee9944"),
    ):
        points = paired_us(counting(in_columns=in_columns), events, events // 20)
        at, old, new = np.array(points).T
        axes.plot(at / 1e6, 1e6 / old, "o-", color=colour, label=f"{label}, one long stream")
        axes.plot(at / 1e6, 1e6 / new, "--", color=colour, label=f"{label}, a fresh stream")
        axes.axhline(target, color=colour, linestyle=":", label=f"target {target:,}/s")
    axes.set(
        yscale="log",
        xlabel="events since the start of the long stream, millions",
        ylabel="events per second of CPU time, one core",
        xlim=(0, 10.2),
        ylim=(1e5, 4e6),
        title="Speed along a stream, 99 % out of order",
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="lower right", ncols=2, frameon=False)
    _save(figure, "throughput.png")


FIGURES: dict[str, Callable[[], None]] = {"kslack": kslack, "throughput": throughput}


def _delays(arrivals: list[Event], type_: str) -> tuple[list[float], list[float]]:
    """When events of a type arrived, and how late the next tick of the clock found them."""
    at, delay = [], []
    waiting: list[int] = []
    for event in arrivals:
        if event.type == type_:
            waiting.append(event.ts)
        elif event.type == "clock":
            at += [event.ts / SECOND] * len(waiting)
            delay += [(event.ts - ts) / MS for ts in waiting]
            waiting.clear()
    return at, delay


def _draw_k(axes: Axes, done: KickRun, margin: float, colour: str) -> None:
    history = done.result.stats["kick"].k_history
    times = [0.0, *(clk / SECOND for clk, _ in history), SHOWN_SECONDS]
    values = [0.0, *(k / MS for _, k in history)]
    axes.step(times, [*values, values[-1]], where="post", color=colour, label=f"K, margin {margin}")
    missed = [(late.clk / SECOND, (late.clk - late.event.ts) / MS) for late in done.result.late]
    label = f"{len(missed)} too late, margin {margin}"
    axes.plot(*zip(*missed, strict=True), "x", color=colour, markersize=8, label=label)


def _save(figure: plt.Figure, name: str) -> None:  # type: ignore[name-defined]
    DOCS.mkdir(exist_ok=True)
    figure.savefig(DOCS / name, dpi=110, metadata={"Software": None})
    plt.close(figure)
    print(DOCS / name)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="figures.py", description="Draw docs/*.png.")
    parser.add_argument("names", nargs="*", metavar="figure", help=", ".join(FIGURES))
    names = parser.parse_args(argv).names or list(FIGURES)
    for name in names:
        if name not in FIGURES:
            parser.error(f"no figure {name!r}; choose from {', '.join(FIGURES)}")
    mpl.use("Agg")
    for name in names:
        FIGURES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
