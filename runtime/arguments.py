"""The words of the command line: commands, options, help texts, and what goes together."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from slackline import __version__
from slackline.errors import UserError
from slackline.local import CHUNK_ROWS

__all__ = ["HOSTS", "parsed"]

HOSTS = 3
SECONDS = 30.0

EXAMPLES = {
    "slackline": """examples:
  slackline demo
  slackline run detectors.py:hierarchy --source recording.csv --check
  slackline simulate --seed 7""",
    "run": """examples:
  slackline run detectors.py:hierarchy --source recording.csv
  slackline run mypackage.game:hierarchy --source game.parquet --check --out goals.jsonl
  slackline run detectors.py:hierarchy --source a.csv.gz --type POS --ordering kslack:k=20""",
    "simulate": """examples:
  slackline simulate --seed 7 --trace trace.txt
  slackline simulate --seed 0 --count 1000 --speculative
  slackline simulate detectors.py:hierarchy --source recording.csv --seed 3 --hosts 5""",
    "truth": """examples:
  slackline truth detectors.py:hierarchy --source recording.csv --out truth.jsonl""",
    "demo": """examples:
  slackline demo
  slackline demo --seconds 5 --json""",
}


def parsed(words: list[str]) -> argparse.Namespace:
    """The options that words give; ``command`` is the first of them."""
    args = _parser().parse_args(words)
    if args.command == "simulate":
        _check_simulate(args)
    return args


def _check_simulate(args: argparse.Namespace) -> None:
    """Refuse options of a hierarchy without one, and options of random cases beside one."""
    if args.hierarchy is None:
        for option in ("source", "type", "publisher", "ordering", "config"):
            if getattr(args, option) is not None:
                raise UserError(f"--{option} needs a hierarchy: simulate MODULE:HIERARCHY")
        return
    if args.source is None:
        raise UserError("simulate MODULE:HIERARCHY needs events: add --source FILE")
    if args.count is not None:
        raise UserError("--count is for random cases: leave it out, or leave out the hierarchy")
    if args.speculative:
        raise UserError(
            "--speculative is for random cases: beside a hierarchy write --ordering speculative"
        )


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=formatter, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


def _parser() -> _Parser:
    parser = _Parser(
        prog="slackline",
        description="Event detection on out-of-order streams, exact in the end.\n"
        "Exit codes: 0 fine, 1 the result is not what it should be, 2 your mistake,\n"
        "3 a fault of the world, 4 a bug in slackline, 130 interrupted.",
        epilog=EXAMPLES["slackline"],
    )
    parser.add_argument("--version", action="version", version=f"slackline {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, what: str) -> _Parser:
        description = f"{what[0].upper()}{what[1:]}."
        made = commands.add_parser(name, help=what, description=description, epilog=EXAMPLES[name])
        made.add_argument("--json", action="store_true", help="end stdout with a line of JSON")
        made.add_argument("--quiet", action="store_true", help="print nothing but failures")
        return made

    run = command("run", "run a hierarchy over a recording, in this process")
    _takes_events(run)
    _takes_settings(run)
    run.add_argument("--check", action="store_true", help="compare the output with truth")
    run.add_argument("--out", metavar="FILE", help="write the final outputs as JSON lines")
    run.add_argument("--log", metavar="FILE", help="write every add, retract and final")
    run.add_argument(
        "--chunk-rows", metavar="N", type=_positive, default=CHUNK_ROWS, help="rows taken together"
    )
    simulate = command("simulate", "run on simulated hosts: random cases, or a hierarchy of yours")
    _takes_events(simulate, required=False)
    _takes_settings(simulate)
    simulate.add_argument("--seed", metavar="N", type=int, help="what chance is drawn from")
    simulate.add_argument("--count", metavar="M", type=_positive, help="how many seeds from N on")
    simulate.add_argument(
        "--speculative", action="store_true", help="give random cases speculative policies"
    )
    simulate.add_argument(
        "--hosts", metavar="H", type=_positive, default=HOSTS, help=f"default {HOSTS}"
    )
    simulate.add_argument("--trace", metavar="FILE", help="write what happened, step by step")
    truth = command("truth", "compute the exact output, slowly, from sorted events")
    _takes_events(truth)
    truth.add_argument("--out", metavar="FILE", help="write the outputs as JSON lines")
    demo = command("demo", "run the demonstration")
    demo.add_argument(
        "--seconds",
        metavar="S",
        type=_seconds,
        default=SECONDS,
        help=f"length of the game, default {SECONDS:g}",
    )
    return parser


def _takes_events(parser: _Parser, required: bool = True) -> None:
    parser.add_argument(
        "hierarchy",
        metavar="MODULE:HIERARCHY",
        nargs=None if required else "?",
        help="an import path or a .py file, and a Hierarchy or a function that returns one",
    )
    parser.add_argument(
        "--source",
        metavar="FILE",
        required=required,
        help="events in the order of arrival: csv, jsonl (both also .gz) or parquet",
    )
    parser.add_argument("--type", metavar="T", help="the type of rows that name none")
    parser.add_argument("--publisher", metavar="P", help="the publisher of rows that name none")


def _takes_settings(parser: _Parser) -> None:
    parser.add_argument(
        "--ordering", metavar="POLICY", help="for all detectors, such as kslack:k=20,margin=0.5"
    )
    parser.add_argument("--config", metavar="FILE", help="starting values of the detectors")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds
