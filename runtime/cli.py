"""The command line: ``slackline run``, ``simulate``, ``truth`` and ``demo``.

The exit code is 0 when all is well, 1 when the result is not what it should be, 2 for a mistake
of the user, 3 for a fault of the world, 4 for a bug, 130 for Ctrl-C.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import os
import re
import select
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar, get_args

from slackline import __version__
from slackline.errors import UserError, WorldError

if TYPE_CHECKING:
    from slackline.cell import Start
    from slackline.events import Event, EventBatch
    from slackline.hierarchy import Hierarchy
    from slackline.local import Run
    from slackline.policy import Ordering

__all__ = ["main"]

OK, DIFFERENT, USER, WORLD, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 130
DIFFERENCES_LISTED = 100
CASES = 20
HOSTS = 3

T = TypeVar("T")


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in words
    try:
        return _command(words, as_json)
    finally:
        _flush()


def _command(words: list[str], as_json: bool) -> int:
    try:
        args = _parser().parse_args(words)
        code: int = args.command(args)
        return code
    except SystemExit as leaving:  # --help and --version
        return leaving.code if isinstance(leaving.code, int) else OK
    except KeyboardInterrupt:
        return _fail("interrupted", "user", INTERRUPTED, as_json)
    except UserError as error:
        return _fail(str(error), "user", USER, as_json)
    except BrokenPipeError as error:
        return OK if _stdout_is_closed() else _fail(str(error), "world", WORLD, as_json)
    except (WorldError, OSError) as error:
        return _fail(str(error), "world", WORLD, as_json)
    except Exception as error:
        traceback.print_exc()
        said = f"this is a bug in slackline, please report it: {type(error).__name__}: {error}"
        return _fail(said, "bug", BUG, as_json)


def _fail(message: str, kind: str, code: int, as_json: bool) -> int:
    line = " ".join(message.splitlines())
    print(f"slackline: {'' if code == INTERRUPTED else 'error: '}{line}", file=sys.stderr)
    if as_json:
        from slackline.writers import to_json

        _say(to_json({"error": line, "kind": kind}))
    return code


def _say(text: str) -> None:
    """Print to stdout; a reader that has seen enough (``| head``) is no error."""
    try:
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:
        _give_up_stdout()


def _flush() -> None:
    """Write what stdout still holds; left to Python, a closed pipe would be a complaint."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_stdout()


def _give_up_stdout() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _stdout_is_closed() -> bool:
    """Whether nobody reads stdout any more."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


# ---- the commands --------------------------------------------------------------------------


def _run(args: argparse.Namespace) -> int:
    from slackline.local import CHUNK_ROWS, run
    from slackline.writers import write_events, write_log

    hierarchy = _hierarchy(args.hierarchy)
    ordering, start = _ordering(args.ordering), _start(args.config, hierarchy)
    _check_distinct(args.source, args.out, args.log)
    with ExitStack() as stack:
        out, log = _file(stack, args.out), _file(stack, args.log)
        with _source(args, keep=args.check) as (arrivals, seen):
            result = run(
                hierarchy, arrivals, ordering, start=start, chunk_rows=args.chunk_rows or CHUNK_ROWS
            )
        wrong = _wrong(hierarchy, seen.kept, result) if args.check else None
        if out is not None:
            write_events(out, result.final)
        if log is not None:
            write_log(log, result.log)
    return _report(args, hierarchy, result, seen, wrong)


def _simulate(args: argparse.Namespace) -> int:
    if args.hierarchy is None:
        return _cases(args)
    if args.source is None:
        raise UserError("simulate MODULE:HIERARCHY needs events: add --source FILE")
    if args.count is not None:
        raise UserError("--count is for random cases: leave it out, or leave out the hierarchy")
    from slackline.simulate import simulate

    hierarchy = _hierarchy(args.hierarchy)
    ordering, start = _ordering(args.ordering), _start(args.config, hierarchy)
    seed, hosts = args.seed or 0, args.hosts or HOSTS
    _check_distinct(args.source, args.trace)
    with ExitStack() as stack:
        trace = _file(stack, args.trace)
        with _source(args, keep=True) as (arrivals, seen):
            result = simulate(hierarchy, arrivals, seed, hosts, ordering=ordering, start=start)
        wrong = _wrong(hierarchy, seen.kept, result)
        if trace is not None:
            trace.writelines(f"{line}\n" for line in result.trace)
    return _report(args, hierarchy, result, seen, wrong, {"seed": seed, "hosts": hosts})


def _cases(args: argparse.Namespace) -> int:
    """Verify random cases, each in one process and on simulated hosts."""
    from slackline.progress import Progress
    from slackline.writers import first, to_json

    for option in ("source", "type", "publisher", "ordering", "config"):
        if getattr(args, option) is not None:
            raise UserError(f"--{option} needs a hierarchy: simulate MODULE:HIERARCHY")
    hosts = args.hosts or HOSTS
    count = args.count or (1 if args.seed is not None else CASES)
    seeds = range(args.seed or 0, (args.seed or 0) + count)
    failed: list[dict[str, Any]] = []
    begin = time.perf_counter()
    with ExitStack() as stack:
        trace = _file(stack, args.trace)
        quiet = args.quiet or args.json
        progress = stack.enter_context(Progress("simulate", count, unit="cases", quiet=quiet))
        for done, seed in enumerate(seeds, 1):
            failures, lines = _verified(seed, hosts)
            failed += failures
            if trace is not None:
                trace.writelines(f"{line}\n" for line in [f"seed {seed}", *lines])
            progress.update(done)
    if args.json:
        seconds = round(time.perf_counter() - begin, 3)
        told = {"seed": seeds[0], "count": count, "hosts": hosts, "seconds": seconds}
        _say(to_json({"command": "simulate", **told, "failed": failed}))
        return DIFFERENT if failed else OK
    for one in failed:
        _say(f"seed {one['seed']} ({one['how']}) failed: {one['description']}")
        _say("\n".join(first(one["differences"], one["count"])))
        _say(f"  replay: {one['replay']}")
    if not args.quiet:
        exact = count - len({one["seed"] for one in failed})
        which = f"seed {seeds[0]}" if count == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        where = f"in one process and on {hosts} simulated host{'s' if hosts > 1 else ''}"
        _say(f"{exact} of {count} random cases exact ({which}, {where})")
    return DIFFERENT if failed else OK


def _verified(seed: int, hosts: int) -> tuple[list[dict[str, Any]], list[str]]:
    """How the case of this seed fails, and the trace of its simulation."""
    from slackline.cases import Verdict, case, verify_run, verify_simulate

    ways: dict[str, Callable[[], Verdict]] = {
        "run": lambda: verify_run(seed),
        "simulate": lambda: verify_simulate(seed, hosts),
    }
    failed: list[dict[str, Any]] = []
    trace: list[str] = []
    for how, verify in ways.items():
        try:
            verdict = verify()
            wrong, trace = verdict.wrong, verdict.run.trace
        except Exception:
            wrong = [f"raised   {traceback.format_exc().rstrip()}"]
        if wrong:
            failure = {"seed": seed, "how": how, "description": case(seed).description}
            failure |= {"count": len(wrong), "differences": wrong[:DIFFERENCES_LISTED]}
            options = "" if hosts == HOSTS else f" --hosts {hosts}"
            failed.append(failure | {"replay": f"slackline simulate --seed {seed}{options}"})
    return failed, trace


def _truth(args: argparse.Namespace) -> int:
    from collections import Counter

    from slackline.events import Event, fault_of
    from slackline.intake import Rejected
    from slackline.truth import truth
    from slackline.writers import by_type, rejection, to_json, write_events

    hierarchy = _hierarchy(args.hierarchy)
    _check_distinct(args.source, args.out)
    rejected: list[Rejected] = []
    letters: list[tuple[str, Event, Exception]] = []

    def looked_at(arrivals: Iterable[Event | EventBatch]) -> Iterator[Event | EventBatch]:
        for item in arrivals:
            if isinstance(item, Event) and (fault := fault_of(item)):
                rejected.append(Rejected(item, fault))
            yield item

    with ExitStack() as stack:
        out = _file(stack, args.out)
        with _source(args) as (arrivals, seen):
            output = truth(hierarchy, looked_at(arrivals), letters)
        if out is not None:
            write_events(out, output)
    types = Counter(event.type for event in output)
    if args.json:
        summary = {"command": "truth", "hierarchy": hierarchy.name, "rows": seen.rows,
                   "seconds": round(seen.seconds, 3), "events": len(output), "types": types,
                   "rejected": len(rejected), "dead_letters": len(letters)}  # fmt: skip
        _say(to_json(summary))
    elif not args.quiet:
        _say(f"truth of {hierarchy.name}: {len(output):,} outputs from {seen.rows:,} rows")
        for type_ in sorted({type_ for node in hierarchy for type_ in node.publishes}):
            _say(f"  {by_type({type_: types[type_]})}")
        if rejected:
            _say(f"rejected: {len(rejected):,}, the first: {rejection(rejected[0])}")
        if letters:
            name, event, error = letters[0]
            _say(f"dead letters: {len(letters):,}, the first: {name} raised {error!r} on {event}")
    return OK


def _demo(args: argparse.Namespace) -> int:
    from slackline.examples.demo import main as demo

    return demo(args.seconds, args.json, args.quiet or args.json)


# ---- what the commands share ---------------------------------------------------------------


class _Seen:
    """What passed by while a source was read."""

    def __init__(self) -> None:
        self.rows, self.seconds = 0, 0.0
        self.kept: list[Event | EventBatch] = []


@contextmanager
def _source(
    args: argparse.Namespace, keep: bool = False
) -> Iterator[tuple[Iterator[Event | EventBatch], _Seen]]:
    """The arrivals of the source, with progress, and what was seen of them in the end."""
    from slackline.progress import Progress
    from slackline.readers import read, rows_in

    seen = _Seen()
    items = read(args.source, args.type, args.publisher)
    total = rows_in(args.source)
    with Progress(args.name, total, quiet=args.quiet or args.json) as progress:
        begin = time.perf_counter()
        arrivals = progress.track(items)
        yield _keeping(arrivals, seen.kept) if keep else arrivals, seen
        seen.seconds = time.perf_counter() - begin
    seen.rows = progress.done


def _keeping(items: Iterable[T], kept: list[T]) -> Iterator[T]:
    for item in items:
        kept.append(item)
        yield item


def _file(stack: ExitStack, path: str | None) -> TextIO | None:
    """Open an output before the work begins: a path that cannot be written fails at once."""
    from slackline.writers import whole_file

    return None if path is None else stack.enter_context(whole_file(path))


def _check_distinct(*paths: str | None) -> None:
    known: set[str] = set()
    for path in paths:
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):
            continue
        if os.path.realpath(path) in known:
            raise UserError(f"{path} is named twice; give each file a path of its own")
        known.add(os.path.realpath(path))


def _wrong(hierarchy: Hierarchy, arrivals: list[Event | EventBatch], result: Run) -> list[str]:
    from slackline.cases import differences
    from slackline.truth import truth

    return differences(truth(hierarchy, arrivals), result.final)


def _report(
    args: argparse.Namespace,
    hierarchy: Hierarchy,
    result: Run,
    seen: _Seen,
    wrong: list[str] | None,
    extra: Mapping[str, Any] | None = None,
) -> int:
    """Say how a run went; returns the exit code."""
    from slackline.writers import detectors_table, first, leftovers, rendered, summary, to_json

    per_second = seen.rows / seen.seconds if seen.seconds else 0.0
    if args.json:
        of_run = {
            "command": args.name,
            "hierarchy": hierarchy.name,
            **(extra or {}),
            "rows": seen.rows,
            "seconds": round(seen.seconds, 3),
            "events_per_s": round(per_second, 1),
        }
        listed = None if wrong is None else wrong[:DIFFERENCES_LISTED]
        _say(to_json(of_run | summary(result, listed)))
        return DIFFERENT if wrong else OK
    if wrong and args.quiet:
        print(f"slackline: the output differs from truth in {len(wrong):,} places", file=sys.stderr)
    if not args.quiet:
        heading = f"{hierarchy.name}: {seen.rows:,} rows in {seen.seconds:.2f} s"
        stats = {node.name: result.stats[node.name] for node in hierarchy}
        table = detectors_table(stats, hierarchy.unit)
        lines = leftovers(result)
        if wrong is not None:
            lines.append(f"truth: different in {len(wrong):,} places" if wrong else "truth: exact")
            lines += first(wrong, len(wrong))
        _say(rendered(f"{heading}, {per_second:,.0f} rows/s", table, *lines))
    return DIFFERENT if wrong else OK


# ---- what the user names: a hierarchy, an ordering, a configuration ------------------------


def _hierarchy(target: str) -> Hierarchy:
    """The hierarchy that MODULE:HIERARCHY names."""
    from slackline.hierarchy import Hierarchy

    module_name, colon, name = target.rpartition(":")
    if not colon or not module_name or not name:
        raise UserError(
            f"{target!r} names no hierarchy: give MODULE:HIERARCHY, such as detectors.py:hierarchy"
        )
    module = _users(f"cannot import {module_name}", lambda: _module(module_name))
    if not hasattr(module, name):
        there = [key for key, value in vars(module).items() if isinstance(value, Hierarchy)]
        raise UserError(f"{module_name} has no {name!r}; its hierarchies are {there or 'none'}")
    found = getattr(module, name)
    if callable(found) and not isinstance(found, Hierarchy):
        found = _users(f"{target}() failed", found)
    if not isinstance(found, Hierarchy):
        raise UserError(
            f"{target} is of type {type(found).__name__}; it must be a Hierarchy, or a "
            "function without arguments that returns one"
        )
    found.check()
    return found


def _module(name: str) -> ModuleType:
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise UserError(
                f"there is no module {error.name}; give an import path that works from this "
                "folder, or a path to a .py file"
            ) from None
    path = Path(name).resolve()
    if not path.is_file():
        raise UserError(f"no such file: {name}; give a path to a .py file or an import path")
    sys.path.insert(0, str(path.parent))
    known_as = path.stem if path.stem not in sys.modules else f"{path.stem} at {path.parent}"
    spec = importlib.util.spec_from_file_location(known_as, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[known_as] = module  # detectors are saved and restored by the name of their module
    spec.loader.exec_module(module)
    return module


def _users(what: str, call: Callable[[], Any]) -> Any:
    """Call the user's code; what it raises is the user's mistake, with the line it comes from."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        where = _line_of(error)
        if isinstance(error, UserError) and where is None:
            raise
        said = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        raise UserError(f"{what}: {where + ': ' if where else ''}{said}") from error


def _line_of(error: BaseException) -> str | None:
    """The last line of the user's own code that an exception went through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    ours = str(Path(__file__).parent) + os.sep
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", ours))
    ]
    libraries = tuple(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib"))
    own = [frame for frame in frames if not frame.filename.startswith(libraries)]
    return f"{(own or frames)[-1].filename}, line {(own or frames)[-1].lineno}" if frames else None


def _ordering(text: str | None) -> Ordering | None:
    """The policy that a text such as ``kslack:k=20,margin=0.5`` or ``KSlack(k=20)`` names."""
    from slackline import policy

    if text is None:
        return None
    policies = {kind.__name__.lower(): kind for kind in get_args(policy.Ordering)}
    form = re.fullmatch(r"\s*(\w+)\s*(?::(.*)|\((.*)\))?\s*", text)
    if form is None or form[1].lower() not in policies:
        raise UserError(f"--ordering {text}: expected one of {', '.join(policies)}")
    kind = policies[form[1].lower()]
    known = list(inspect.signature(kind).parameters)
    settings: dict[str, Any] = {}
    for part in filter(None, re.split(r"\s*,\s*", (form[2] or form[3] or "").strip())):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in known:
            raise UserError(
                f"--ordering {text}: {part!r} is no setting of {form[1]}; write NAME=VALUE with "
                f"one of {', '.join(known) or 'none'}"
            )
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value  # on-demand and the like; the policy says what it takes
    made: Ordering = kind(**settings)
    return made


def _start(path: str | None, hierarchy: Hierarchy) -> dict[str, Start] | None:
    """What a configuration file knows of the detectors."""
    if path is None:
        return None
    from slackline.initialise import Configuration

    configuration = Configuration.load(path)
    configuration.check(hierarchy)
    return configuration.starts()


# ---- the parser ----------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=formatter, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


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


def _parser() -> _Parser:
    parser = _Parser(
        prog="slackline",
        description="Event detection on out-of-order streams, exact in the end.\n"
        "Exit codes: 0 fine, 1 the result is not what it should be, 2 your mistake,\n"
        "3 a fault of the world, 4 a bug in slackline, 130 interrupted.",
        epilog=_EXAMPLES["slackline"],
    )
    parser.add_argument("--version", action="version", version=f"slackline {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, function: Callable[[argparse.Namespace], int], what: str) -> _Parser:
        description = f"{what[0].upper()}{what[1:]}."
        made = commands.add_parser(name, help=what, description=description, epilog=_EXAMPLES[name])
        made.set_defaults(command=function, name=name)
        made.add_argument("--json", action="store_true", help="end stdout with a line of JSON")
        made.add_argument("--quiet", action="store_true", help="print nothing but failures")
        return made

    def takes_events(made: _Parser, required: bool = True) -> None:
        made.add_argument(
            "hierarchy",
            metavar="MODULE:HIERARCHY",
            nargs=None if required else "?",
            help="an import path or a .py file, and a Hierarchy or a function that returns one",
        )
        made.add_argument(
            "--source",
            metavar="FILE",
            required=required,
            help="events in the order of arrival: csv, jsonl (both also .gz) or parquet",
        )
        made.add_argument("--type", metavar="T", help="the type of rows that name none")
        made.add_argument("--publisher", metavar="P", help="the publisher of rows that name none")

    def takes_settings(made: _Parser) -> None:
        made.add_argument(
            "--ordering", metavar="POLICY", help="for all detectors, such as kslack:k=20,margin=0.5"
        )
        made.add_argument("--config", metavar="FILE", help="starting values of the detectors")

    run = command("run", _run, "run a hierarchy over a recording, in this process")
    takes_events(run)
    takes_settings(run)
    run.add_argument("--check", action="store_true", help="compare the output with truth")
    run.add_argument("--out", metavar="FILE", help="write the final outputs as JSON lines")
    run.add_argument("--log", metavar="FILE", help="write every add, retract and final")
    run.add_argument("--chunk-rows", metavar="N", type=_positive, help="rows taken together")
    simulate = command(
        "simulate", _simulate, "run on simulated hosts: random cases, or a hierarchy of yours"
    )
    takes_events(simulate, required=False)
    takes_settings(simulate)
    simulate.add_argument("--seed", metavar="N", type=int, help="what chance is drawn from")
    simulate.add_argument("--count", metavar="M", type=_positive, help="how many seeds from N on")
    simulate.add_argument("--hosts", metavar="H", type=_positive, help=f"default {HOSTS}")
    simulate.add_argument("--trace", metavar="FILE", help="write what happened, step by step")
    truth = command("truth", _truth, "compute the exact output, slowly, from sorted events")
    takes_events(truth)
    truth.add_argument("--out", metavar="FILE", help="write the outputs as JSON lines")
    demo = command("demo", _demo, "run the demonstration")
    demo.add_argument(
        "--seconds", metavar="S", type=_seconds, default=30.0, help="length of the game, default 30"
    )
    return parser


_EXAMPLES = {
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
  slackline simulate --seed 0 --count 1000
  slackline simulate detectors.py:hierarchy --source recording.csv --seed 3 --hosts 5""",
    "truth": """examples:
  slackline truth detectors.py:hierarchy --source recording.csv --out truth.jsonl""",
    "demo": """examples:
  slackline demo
  slackline demo --seconds 5 --json""",
}


if __name__ == "__main__":
    sys.exit(main())
