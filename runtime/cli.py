"""The command line: ``slackline run``, ``simulate``, ``truth`` and ``demo``.

The exit code is 0 when all is well, 1 when the result is not what it should be, 2 for a mistake
of the user, 3 for a fault of the world, 4 for a bug, 130 for Ctrl-C.
"""

from __future__ import annotations

import os
import select
import sys
import time
import traceback
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from slackline import cases, local
from slackline.arguments import HOSTS, parsed
from slackline.errors import UserError, WorldError
from slackline.events import Event, EventBatch, fault_of
from slackline.hierarchy import Hierarchy
from slackline.intake import Rejected
from slackline.named import named_hierarchy, named_ordering, named_starts
from slackline.policy import Ordering, Speculative
from slackline.progress import Progress
from slackline.simulate import simulate
from slackline.truth import truth
from slackline.writers import (
    by_type,
    detectors_table,
    first,
    leftovers,
    rejection,
    rendered,
    summary,
    to_json,
    whole_file,
    write_events,
    write_log,
)

if TYPE_CHECKING:
    pass

__all__ = ["main"]

OK, DIFFERENT, USER, WORLD, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 130
KINDS = {USER: "user", WORLD: "world", BUG: "bug", INTERRUPTED: "user"}
DIFFERENCES_LISTED = 100
CASES = 20


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        return _command(words, as_json="--json" in words)
    finally:
        _flush()


def _command(words: list[str], as_json: bool) -> int:
    try:
        args = parsed(words)
        return COMMANDS[args.command](args)
    except SystemExit as leaving:  # --help and --version
        return leaving.code if isinstance(leaving.code, int) else OK
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED, as_json)
    except UserError as error:
        return _fail(str(error), USER, as_json)
    except BrokenPipeError as error:
        return OK if _stdout_is_closed() else _fail(str(error), WORLD, as_json)
    except (WorldError, OSError) as error:
        return _fail(str(error), WORLD, as_json)
    except Exception as error:
        traceback.print_exc()
        said = f"this is a bug in slackline, please report it: {type(error).__name__}: {error}"
        return _fail(said, BUG, as_json)


def _fail(message: str, code: int, as_json: bool) -> int:
    line = " ".join(message.splitlines())
    print(f"slackline: {'' if code == INTERRUPTED else 'error: '}{line}", file=sys.stderr)
    if as_json:
        _say(to_json({"error": line, "kind": KINDS[code]}))
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


def _run(args: Namespace) -> int:
    hierarchy = named_hierarchy(args.hierarchy)
    ordering, start = named_ordering(args.ordering), named_starts(args.config, hierarchy)
    _check_distinct(args.source, args.out, args.log)
    with ExitStack() as stack:
        out, log = _file(stack, args.out), _file(stack, args.log)
        with _source(args, keep=args.check) as source:
            result = local.run(
                hierarchy, source.arrivals, ordering, start=start, chunk_rows=args.chunk_rows
            )
        wrong = _wrong(hierarchy, source, result) if args.check else None
        if out is not None:
            write_events(out, result.final)
        if log is not None:
            write_log(log, result.log)
    return _report(args, hierarchy, ordering, source, result, wrong)


def _simulate(args: Namespace) -> int:
    if args.hierarchy is None:
        return _cases(args)
    hierarchy = named_hierarchy(args.hierarchy)
    ordering, start = named_ordering(args.ordering), named_starts(args.config, hierarchy)
    seed = args.seed or 0
    _check_distinct(args.source, args.trace)
    with ExitStack() as stack:
        trace = _file(stack, args.trace)
        with _source(args, keep=True) as source:
            result = simulate(
                hierarchy, source.arrivals, seed, args.hosts, ordering=ordering, start=start
            )
        wrong = _wrong(hierarchy, source, result)
        if trace is not None:
            trace.writelines(f"{line}\n" for line in result.trace)
    settings = {"seed": seed, "hosts": args.hosts}
    return _report(args, hierarchy, ordering, source, result, wrong, settings)


def _cases(args: Namespace) -> int:
    """Verify random cases, each in one process and on simulated hosts."""
    count = args.count or (CASES if args.seed is None else 1)
    seeds = range(args.seed or 0, (args.seed or 0) + count)
    failed: list[dict[str, Any]] = []
    begin = time.perf_counter()
    with ExitStack() as stack:
        trace = _file(stack, args.trace)
        quiet = args.quiet or args.json
        progress = stack.enter_context(Progress("simulate", count, unit="cases", quiet=quiet))
        for done, seed in enumerate(seeds, 1):
            failures, lines = _verified(seed, args.hosts, args.speculative)
            failed += failures
            if trace is not None:
                trace.writelines(f"{line}\n" for line in [f"seed {seed}", *lines])
            progress.update(done)
    if args.json:
        settings = {"hosts": args.hosts, "speculative": args.speculative}
        told = {"command": "simulate", "seed": seeds[0], "count": count, **settings}
        seconds = round(time.perf_counter() - begin, 3)
        _say(to_json({**told, "seconds": seconds, "failed": failed}))
        return DIFFERENT if failed else OK
    for one in failed:
        _say(f"seed {one['seed']} ({one['how']}) failed: {one['description']}")
        _say("\n".join(first(one["differences"], one["count"])))
        _say(f"  replay: {one['replay']}")
    if not args.quiet:
        exact = count - len({one["seed"] for one in failed})
        which = f"seed {seeds[0]}" if count == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        where = f"in one process and on {args.hosts} simulated host{'s' if args.hosts > 1 else ''}"
        how = ", with speculation" if args.speculative else ""
        _say(f"{exact} of {count} random cases exact ({which}, {where}{how})")
    return DIFFERENT if failed else OK


def _verified(seed: int, hosts: int, speculative: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """How the case of this seed fails, and the trace of its simulation."""
    replay = f"slackline simulate --seed {seed}"
    if speculative:
        replay += " --speculative"
    if hosts != HOSTS:
        replay += f" --hosts {hosts}"
    ways: dict[str, Callable[[], cases.Verdict]] = {
        "run": lambda: cases.verify_run(seed, speculative=speculative),
        "simulate": lambda: cases.verify_simulate(seed, hosts, speculative=speculative),
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
            failure = {
                "seed": seed,
                "how": how,
                "description": cases.case(seed, speculative=speculative).description,
                "count": len(wrong),
                "differences": wrong[:DIFFERENCES_LISTED],
                "replay": replay,
            }
            failed.append(failure)
    return failed, trace


def _truth(args: Namespace) -> int:
    hierarchy = named_hierarchy(args.hierarchy)
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
        with _source(args) as source:
            output = truth(hierarchy, looked_at(source.arrivals), letters)
        if out is not None:
            write_events(out, output)
    types = Counter(event.type for event in output)
    if args.json:
        told = {
            "command": "truth",
            "hierarchy": hierarchy.name,
            "rows": source.rows,
            "seconds": round(source.seconds, 3),
            "events": len(output),
            "types": types,
            "rejected": len(rejected),
            "dead_letters": len(letters),
        }
        _say(to_json(told))
    elif not args.quiet:
        _say(f"truth of {hierarchy.name}: {len(output):,} outputs from {source.rows:,} rows")
        for type_ in sorted({type_ for node in hierarchy for type_ in node.publishes}):
            _say(f"  {by_type({type_: types[type_]})}")
        if rejected:
            _say(f"rejected: {len(rejected):,}, the first: {rejection(rejected[0])}")
        if letters:
            name, event, error = letters[0]
            _say(f"dead letters: {len(letters):,}, the first: {name} raised {error!r} on {event}")
    return OK


def _demo(args: Namespace) -> int:
    from slackline.examples.demo import main as demo

    return demo(args.seconds, args.json, args.quiet or args.json)


COMMANDS = {"run": _run, "simulate": _simulate, "truth": _truth, "demo": _demo}


# ---- what the commands share ---------------------------------------------------------------


class _Source:
    """The arrivals of a command, and in the end what has been seen of them."""

    def __init__(self, arrivals: Iterator[Event | EventBatch], keep: bool) -> None:
        self.kept: list[Event | EventBatch] = []
        self.arrivals = self._keeping(arrivals) if keep else arrivals
        self.rows, self.seconds = 0, 0.0

    def _keeping(self, arrivals: Iterator[Event | EventBatch]) -> Iterator[Event | EventBatch]:
        for item in arrivals:
            self.kept.append(item)
            yield item


@contextmanager
def _source(args: Namespace, keep: bool = False) -> Iterator[_Source]:
    """The source that the options name, read with progress."""
    from slackline.readers import read, rows_in  # what --help can do without

    items = read(args.source, args.type, args.publisher)
    total = rows_in(args.source)
    with Progress(args.command, total, quiet=args.quiet or args.json) as progress:
        begin = time.perf_counter()
        source = _Source(progress.track(items), keep)
        yield source
        source.seconds = time.perf_counter() - begin
    source.rows = progress.done


def _file(stack: ExitStack, path: str | None) -> TextIO | None:
    """Open an output before the work begins: a path that cannot be written fails at once."""
    return None if path is None else stack.enter_context(whole_file(path))


def _check_distinct(*paths: str | None) -> None:
    known: set[str] = set()
    for path in paths:
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):
            continue
        if os.path.realpath(path) in known:
            raise UserError(f"{path} is named twice; give each file a path of its own")
        known.add(os.path.realpath(path))


def _wrong(hierarchy: Hierarchy, source: _Source, result: local.Run) -> list[str]:
    return cases.differences(truth(hierarchy, source.kept), result.final)


def _report(
    args: Namespace,
    hierarchy: Hierarchy,
    ordering: Ordering | None,
    source: _Source,
    result: local.Run,
    wrong: list[str] | None,
    settings: Mapping[str, Any] | None = None,
) -> int:
    """Say how a run went; returns the exit code."""
    per_second = source.rows / source.seconds if source.seconds else 0.0
    if args.json:
        told = {
            "command": args.command,
            "hierarchy": hierarchy.name,
            **(settings or {}),
            "rows": source.rows,
            "seconds": round(source.seconds, 3),
            "events_per_s": round(per_second, 1),
        }
        listed = None if wrong is None else wrong[:DIFFERENCES_LISTED]
        _say(to_json(told | summary(result, listed)))
    elif not args.quiet:
        heading = f"{hierarchy.name}: {source.rows:,} rows in {source.seconds:.2f} s"
        stats = {node.name: result.stats[node.name] for node in hierarchy}
        policies = hierarchy.orderings(ordering).values()
        speculative = any(isinstance(policy, Speculative) for policy in policies)
        table = detectors_table(stats, hierarchy.unit, speculative)
        lines = leftovers(result)
        if wrong is not None:
            lines.append(f"truth: different in {len(wrong):,} places" if wrong else "truth: exact")
            lines += first(wrong, len(wrong))
        _say(rendered(f"{heading}, {per_second:,.0f} rows/s", table, *lines))
    elif wrong:
        print(f"slackline: the output differs from truth in {len(wrong):,} places", file=sys.stderr)
    return DIFFERENT if wrong else OK


if __name__ == "__main__":
    sys.exit(main())
