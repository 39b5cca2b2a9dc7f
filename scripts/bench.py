"""Measure slackline: ``bench.py [columns events flat kslack … market] [--quick] [--json]``.

Rates are events per second of CPU time, on one core. Exits with 1 if a figure falls short of
its target.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from bench_ordering import kslack, market
from bench_retraction import retraction
from bench_speculation import speculation
from bench_streams import Figure
from bench_throughput import columns, events, flat

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared/data/market_feeds/20240808_arrival_order.parquet"

BENCHES: dict[str, Callable[[bool], list[Figure]]] = {
    "columns": columns,
    "events": events,
    "flat": flat,
    "kslack": kslack,
    "retraction": retraction,
    "speculation": speculation,
}
NAMES = [*BENCHES, "market"]


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    report: dict[str, object] = {}
    short = 0
    for name in options.names or NAMES:
        if name == "market" and not options.data.exists():
            reason = f"skipped: no recording at {options.data}; name one with --data"
            _say(options.json, f"{name}\n  {reason}")
            report[name] = {"skipped": reason}
            continue
        _say(options.json, name)
        figures = market(options.data) if name == "market" else BENCHES[name](options.quick)
        for figure in figures:
            _say(options.json, str(figure))
        short += sum(not figure.passes for figure in figures)
        report[name] = [figure.to_dict() for figure in figures]
    if options.json:
        print(json.dumps(report))
    else:
        measured = any(isinstance(figures, list) for figures in report.values())
        met = "every target met" if measured else "nothing measured"
        print(f"{short} short of target" if short else met)
    return 1 if short else 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.py", description="Measure slackline.")
    parser.add_argument(
        "names", nargs="*", metavar="bench", help=f"which to run, of {', '.join(NAMES)} (all)"
    )
    parser.add_argument("--quick", action="store_true", help="shorter streams, rougher figures")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument(
        "--data", type=Path, default=DATA, help="the recording of market feeds, a Parquet file"
    )
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no bench {name!r}; choose from {', '.join(NAMES)}")
    return options


def _say(as_json: bool, text: str) -> None:
    """With JSON on stdout, people read stderr."""
    print(text, file=sys.stderr if as_json else sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main())
