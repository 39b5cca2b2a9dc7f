"""The real command, started as a user starts it: what it prints, writes and returns."""

import fcntl
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slackline
from slackline import Event, cli, truth
from slackline.initialise import Configuration, Configured
from slackline.named import named_hierarchy
from slackline.progress import Progress
from slackline.readers import read
from slackline.writers import to_json, whole_file

DETECTORS = '''
from slackline import Detector, Hierarchy


class Pair(Detector):
    """Publishes every second event."""

    listens, publishes = ("A",), ("P",)

    def __init__(self):
        self.count = 0

    def on_event(self, event, emit):
        if event.data["v"] == "boom":
            raise ValueError("no number")
        self.count += 1
        if self.count % 2 == 0:
            emit("P", event.ts, n=self.count)


class Total(Detector):
    listens, publishes = ("P",), ("T",)

    def __init__(self):
        self.total = 0

    def on_event(self, event, emit):
        self.total += event.data["n"]
        emit("T", event.ts, total=self.total)


def make():
    return Hierarchy("pairs").add("pair", Pair()).add("total", Total())


hierarchy = make()
number = 5


def broken():
    return 1 / 0


def nothing():
    return None
'''

WAIT_SECONDS = 60


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "slackline.cli", *map(str, args)]


def start(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), cwd=cwd, capture_output=True, text=True, timeout=WAIT_SECONDS
    )


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file() or path.is_fifo())


def last_line(text: str) -> Any:
    return json.loads(text.splitlines()[-1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Detectors, and a recording of 200 events that arrive up to 30 late."""
    (tmp_path / "detectors.py").write_text(DETECTORS)
    arrivals = sorted(range(200), key=lambda ts: (ts + ts * 7919 % 31, ts))
    rows = "".join(f"A,{ts},{ts}\n" for ts in arrivals)
    (tmp_path / "events.csv").write_text("type,ts,v\n" + rows)
    return tmp_path


def test_run_reports_each_detector_and_truth_and_writes_whole_files(folder: Path) -> None:
    done = start(
        "run", "detectors.py:hierarchy", "--source", "events.csv", "--check",
        "--out", "out.jsonl", "--log", "log.jsonl", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "truth: exact" in done.stdout
    assert "final outputs: 200 (P 100, T 100)" in done.stdout
    titles = "emitted published reordered repaired late K latency p99 waiting"
    assert [title for title in titles.split() if title not in done.stdout] == []
    assert re.search(r"pair +200 +100 +\d", done.stdout)
    hierarchy = named_hierarchy(f"{folder}/detectors.py:make")
    assert [event for item in read(folder / "out.jsonl") for event in _events(item)] == truth(
        hierarchy, read(folder / "events.csv")
    )
    lines = (folder / "log.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds.count("final") == 200
    assert kinds.count("add") == 200 + kinds.count("retract")
    assert files(folder) == ["detectors.py", "events.csv", "log.jsonl", "out.jsonl"]


def _events(item: Any) -> list[Event]:
    return [item] if isinstance(item, Event) else item.events()


def test_run_with_json_ends_stdout_with_one_object_and_says_nothing_else(folder: Path) -> None:
    with (folder / "events.csv").open("a") as file:
        file.write("A,oops,1\nA,7\n,8,8\nZ,9,9\nA,50,boom\n")
    done = start("run", "detectors:make", "--source", "events.csv", "--check", "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    told = last_line(done.stdout)
    assert len(done.stdout.splitlines()) == 1
    assert told.pop("seconds") > 0
    assert told.pop("events_per_s") > 0
    detectors = told.pop("detectors")
    assert told == {
        "command": "run", "hierarchy": "pairs", "rows": 205, "final": 200, "late": 0,
        "rejected": 3, "quarantined": 0, "dead_letters": 1, "ignored": {"Z": 1},
        "truth": "exact", "differences": [],
    }  # fmt: skip
    assert detectors["pair"]["emitted"] == 201
    assert detectors["total"]["published"] == 100


def test_the_table_shows_alpha_and_retractions_only_where_a_detector_speculates(
    folder: Path,
) -> None:
    header, *rows = (folder / "events.csv").read_text().splitlines()
    spread = [f"{row},{i % 2}" for i, row in enumerate(rows)]  # no batch: each row is a step
    (folder / "events.csv").write_text("\n".join([f"{header},publisher", *spread]))
    words = ["run", "detectors:make", "--source", "events.csv", "--check", "--ordering"]
    done = start(*words, "speculative:alpha=0.25,retraction=on-demand", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ detector .* alpha +retracted +waiting +$", done.stdout, re.MULTILINE)
    assert re.search(r"^ pair +200 +100 .* 0\.25 +[1-9]\d* +- +$", done.stdout, re.MULTILINE)
    done = start(*words, "kslack", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "alpha" not in done.stdout
    assert "retracted" not in done.stdout


def test_malformed_rows_are_counted_and_named_by_file_and_line(folder: Path) -> None:
    with (folder / "events.csv").open("a") as file:
        file.write("A,oops,1\nA,7\nA,50,boom\n")
    done = start("run", "detectors:make", "--source", "events.csv", cwd=folder)
    assert done.returncode == 0
    assert "rejected: 2\n" in done.stdout
    assert "events.csv, line 202: ts must be an int, got str 'oops'" in done.stdout
    assert "events.csv, line 203: the row has 2 cells, the header has 3" in done.stdout
    assert "dead letters: 1\n  pair raised ValueError('no number') on Event" in done.stdout


def test_a_result_that_differs_from_truth_exits_1_and_shows_where(folder: Path) -> None:
    options = ["--check", "--ordering", "kslack:k=1,repair=0"]
    done = start("run", "detectors:make", "--source", "events.csv", *options, cwd=folder)
    assert done.returncode == 1
    assert re.search(r"^late: \d+$", done.stdout, re.MULTILINE)
    assert re.search(
        r"^truth: different in \d+ places\n  missing +Event", done.stdout, re.MULTILINE
    )
    done = start("run", "detectors:make", "--source", "events.csv", *options, "--json", cwd=folder)
    assert done.returncode == 1
    told = last_line(done.stdout)
    assert (told["truth"], told["final"] < 200) == ("different", True)
    assert told["differences"][0].startswith("missing")
    assert told["detectors"]["pair"]["k"] == 1


def test_quiet_prints_nothing_but_failures(folder: Path) -> None:
    words = ["run", "detectors:make", "--source", "events.csv", "--check", "--quiet"]
    done = start(*words, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = start(*words, "--ordering", "KSlack(k=1, repair=0)", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("slackline: the output differs from truth in ")


def test_the_configuration_starts_the_detectors(folder: Path) -> None:
    known = {"pair": Configured(77), "total": Configured(99)}
    Configuration("pairs", "ms", known).save(folder / "start.json")
    words = ["run", "detectors:make", "--source", "events.csv", "--json", "--config", "start.json"]
    told = last_line(start(*words, cwd=folder).stdout)
    assert told["detectors"]["pair"]["k"] == 77
    Configuration("pairs", "us", known).save(folder / "start.json")
    done = start(*words, cwd=folder)
    assert done.returncode == 2
    assert "the configuration is in us" in last_line(done.stdout)["error"]


def test_plain_progress_goes_to_stderr_where_there_is_no_terminal(folder: Path) -> None:
    done = start("run", "detectors:make", "--source", "events.csv", cwd=folder)
    assert re.fullmatch(r"run: 200 rows in \d+\.\d s, [\d,]+ rows/s\n", done.stderr)


def test_simulate_without_a_hierarchy_verifies_random_cases(folder: Path) -> None:
    done = start("simulate", "--seed", 3, "--count", 2, "--trace", "trace.txt", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert "2 of 2 random cases exact (seeds 3 to 4" in done.stdout
    assert "simulate: 2 of 2 cases" in done.stderr
    trace = (folder / "trace.txt").read_text().splitlines()
    assert [line for line in trace if line.startswith("seed")] == ["seed 3", "seed 4"]
    assert any(" took " in line for line in trace)
    told = last_line(start("simulate", "--seed", 3, "--hosts", 2, "--json", cwd=folder).stdout)
    assert (told["command"], told["seed"], told["count"], told["hosts"], told["failed"]) == (
        "simulate", 3, 1, 2, [],
    )  # fmt: skip


def test_simulate_verifies_its_cases_with_speculation_if_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackline.cases import Verdict, verify_run

    asked: list[tuple[Any, ...]] = []

    def note(*args: Any, **settings: Any) -> Verdict:
        asked.append((*args, settings))
        return verify_run(0)

    monkeypatch.setattr("slackline.cases.verify_run", note)
    monkeypatch.setattr("slackline.cases.verify_simulate", note)
    assert cli.main(["simulate", "--speculative", "--json"]) == 0
    told = last_line(capsys.readouterr().out)
    assert (told["seed"], told["count"], told["speculative"]) == (0, 20, True)
    settings = {"speculative": True}
    assert asked == [each for i in range(20) for each in ((i, settings), (i, 3, settings))]
    assert cli.main(["simulate", "--seed", "4", "--speculative"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 of 1 random cases exact (seed 4, ")
    assert said.endswith(", with speculation)\n")


def test_simulate_with_a_hierarchy_reports_like_run(folder: Path) -> None:
    words = ["simulate", "detectors:make", "--source", "events.csv", "--seed", 5, "--hosts", 2]
    done = start(*words, "--json", "--trace", "one.txt", cwd=folder)
    told = last_line(done.stdout)
    assert done.returncode == 0
    assert (told["command"], told["seed"], told["hosts"], told["rows"]) == ("simulate", 5, 2, 200)
    assert (told["truth"], told["final"]) == ("exact", 200)
    done = start(*words, "--trace", "two.txt", cwd=folder)
    assert "truth: exact" in done.stdout
    assert (folder / "one.txt").read_text() == (folder / "two.txt").read_text() != ""


def test_truth_counts_by_type_and_writes_the_outputs(folder: Path) -> None:
    done = start(
        "truth", "detectors:make", "--source", "events.csv", "--out", "t.jsonl", cwd=folder
    )
    assert done.returncode == 0
    assert "200 outputs from 200 rows\n  P 100\n  T 100\n" in done.stdout
    assert len((folder / "t.jsonl").read_text().splitlines()) == 200
    told = last_line(
        start("truth", "detectors:make", "--source", "t.jsonl", "--json", cwd=folder).stdout
    )
    assert told["kind"] == "user"
    assert "which detector 'pair' publishes too" in told["error"]


def test_truth_tells_what_it_left_out(folder: Path) -> None:
    with (folder / "events.csv").open("a") as file:
        file.write("A,oops,1\nA,50,boom\n")
    told = last_line(
        start("truth", "detectors:make", "--source", "events.csv", "--json", cwd=folder).stdout
    )
    assert {key: told[key] for key in ("rows", "events", "types", "rejected", "dead_letters")} == {
        "rows": 202, "events": 200, "types": {"P": 100, "T": 100}, "rejected": 1,
        "dead_letters": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "detectors:make"], "--source"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["run", "detectors:nix", "--source", "events.csv"], "has no 'nix'; its hierarchies are"),
        (["run", "detectors:number", "--source", "events.csv"], "is of type int; it must be"),
        (["run", "detectors:nothing", "--source", "events.csv"], "is of type NoneType"),
        (["run", "detectors", "--source", "events.csv"], "give MODULE:HIERARCHY"),
        (["run", "nix:x", "--source", "events.csv"], "there is no module nix"),
        (["run", "nix.py:x", "--source", "events.csv"], "no such file: nix.py"),
        (["run", "detectors:broken", "--source", "events.csv"],
         r"detectors.py, line \d+: ZeroDivisionError: division by zero"),
        (["run", "detectors:make", "--source", "events.csv", "--ordering", "fifo"],
         "expected one of kslack, .*punctuated, unordered"),
        (["run", "detectors:make", "--source", "events.csv", "--ordering", "kslack:q=1"],
         "'q=1' is no setting of kslack; write NAME=VALUE with one of k, margin"),
        (["run", "detectors:make", "--source", "events.csv", "--ordering", "kslack:k=-1"],
         "k must be a stream time >= 0"),
        (["run", "detectors:make", "--source", "events.csv", "--chunk-rows", "0"], "from 1 on"),
        (["run", "detectors:make", "--source", "events.csv", "--out", "events.csv"],
         "events.csv is named twice"),
        (["run", "detectors:make", "--source", "detectors.py"], "must end in .csv"),
        (["simulate", "detectors:make"], "add --source FILE"),
        (["simulate", "--source", "events.csv"], "--source needs a hierarchy"),
        (["simulate", "detectors:make", "--source", "events.csv", "--count", "2"],
         "--count is for random cases"),
        (["simulate", "detectors:make", "--source", "events.csv", "--speculative"],
         "beside a hierarchy write --ordering speculative"),
        (["demo", "--seconds", "-1"], "no number of seconds above 0"),
    ],
)  # fmt: skip
def test_a_mistake_of_the_user_exits_2_with_one_line(
    folder: Path,
    words: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("detectors", None)
    assert cli.main([*words, "--json"]) == 2
    printed = capsys.readouterr()
    assert re.fullmatch(f"slackline: error: .*{says}.*\n", printed.err)
    told = last_line(printed.out)
    assert told["kind"] == "user"
    assert f"slackline: error: {told['error']}\n" == printed.err


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import slackline\n\nx = nix\n", r"line 3: NameError: name 'nix' is not defined"),
        ("x = (\n", r"line 1: SyntaxError"),
        ("import nixlib\n", r"line 1: ModuleNotFoundError: No module named 'nixlib'"),
        ("import sys\nsys.exit('bye')\n", r"line 2: SystemExit: bye"),
        (
            "import slackline\nslackline.Hierarchy('h', unit='h')\n",
            r"line 2: hierarchy 'h': unknown",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_line_and_exception(
    folder: Path, code: str, says: str
) -> None:
    (folder / "faulty.py").write_text(code)
    done = start("run", "faulty:hierarchy", "--source", "events.csv", cwd=folder)
    assert done.returncode == 2
    assert re.fullmatch(
        rf"slackline: error: cannot import faulty: .*faulty.py, {says}.*\n", done.stderr
    )


def test_a_fault_of_the_world_exits_3(folder: Path) -> None:
    done = start("run", "detectors:make", "--source", "missing.csv", "--json", cwd=folder)
    assert done.returncode == 3
    assert last_line(done.stdout)["kind"] == "world"
    assert done.stderr.startswith("slackline: error: cannot read missing.csv: No such file")
    (folder / "torn.csv.gz").write_bytes(b"\x1f\x8b torn")
    done = start("run", "detectors:make", "--source", "torn.csv.gz", cwd=folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)


def test_an_output_that_cannot_be_written_fails_before_the_work_begins(folder: Path) -> None:
    os.mkfifo(folder / "never.csv")  # reading it would wait for ever
    done = start(
        "run", "detectors:make", "--source", "never.csv", "--out", "no/folder.jsonl", cwd=folder
    )
    assert done.returncode == 3
    assert "cannot write no/folder.jsonl: No such file or directory" in done.stderr


def test_a_failed_run_leaves_the_old_output_and_no_partial_file(folder: Path) -> None:
    (folder / "out.jsonl").write_text("old\n")
    (folder / "torn.csv.gz").write_bytes(b"\x1f\x8b torn")
    done = start(
        "run", "detectors:make", "--source", "torn.csv.gz", "--out", "out.jsonl", cwd=folder
    )
    assert done.returncode == 3
    assert (folder / "out.jsonl").read_text() == "old\n"
    assert not [name for name in os.listdir(folder) if "partial" in name]


def test_a_bug_exits_4_with_a_traceback_and_asks_for_a_report(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*args: object, **kwargs: object) -> None:
        raise slackline.BrokenInvariant("two owners")

    monkeypatch.chdir(folder)
    monkeypatch.setattr("slackline.local.run", bug)
    assert cli.main(["run", "detectors.py:make", "--source", "events.csv", "--json"]) == 4
    printed = capsys.readouterr()
    assert "Traceback" in printed.err
    assert (
        "this is a bug in slackline, please report it: BrokenInvariant: two owners" in printed.err
    )
    assert last_line(printed.out)["kind"] == "bug"


def test_failing_seeds_are_shown_with_the_command_that_replays_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackline.cases import Verdict, case, verify_run

    def two_wrong(seed: int, speculative: bool) -> Verdict:
        verdict = verify_run(seed, speculative=speculative)
        return Verdict(verdict.case, verdict.run, ["missing  X"] * 9 if seed == 2 else [])

    def crash(seed: int, hosts: int, speculative: bool) -> Verdict:
        if seed == 3:
            raise RuntimeError("stuck")
        return verify_run(seed, speculative=speculative)

    monkeypatch.setattr("slackline.cases.verify_run", two_wrong)
    monkeypatch.setattr("slackline.cases.verify_simulate", crash)
    words = ["simulate", "--seed", "1", "--count", "3", "--hosts", "2"]
    assert cli.main(words) == 1
    out = capsys.readouterr().out
    assert f"seed 2 (run) failed: {case(2).description}\n  missing  X\n" in out
    assert "and 5 more" in out
    assert "replay: slackline simulate --seed 2 --hosts 2\n" in out
    assert "RuntimeError: stuck" in out
    assert "1 of 3 random cases exact" in out
    assert cli.main([*words, "--json"]) == 1
    failed = last_line(capsys.readouterr().out)["failed"]
    assert [(one["seed"], one["how"], one["count"]) for one in failed] == [
        (2, "run", 9), (3, "simulate", 1),
    ]  # fmt: skip
    assert cli.main([*words, "--speculative"]) == 1
    out = capsys.readouterr().out
    assert f"seed 2 (run) failed: {case(2, speculative=True).description}\n" in out
    assert "replay: slackline simulate --seed 2 --speculative --hosts 2\n" in out


def test_ctrl_c_exits_130_with_one_line_and_leaves_no_partial_file(folder: Path) -> None:
    os.mkfifo(folder / "endless.csv")
    words = ["run", "detectors:make", "--source", "endless.csv", "--out", "out.jsonl", "--json"]
    pipe = os.open(folder / "endless.csv", os.O_RDWR)
    child = subprocess.Popen(
        command(*words), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        os.write(pipe, b"type,ts,v\n" + b"A,1,1\n" * 100)
        until(lambda: _unread(pipe) == 0, child)
        assert [name for name in os.listdir(folder) if "partial" in name]
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=WAIT_SECONDS)
    finally:
        child.kill()
        os.close(pipe)
    assert child.returncode == 130
    assert err == "slackline: interrupted\n"
    assert last_line(out) == {"error": "interrupted", "kind": "user"}
    assert files(folder) == ["detectors.py", "endless.csv", "events.csv"]


def until(condition: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    """Wait for a condition as long as the child lives."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the child did not get there"
        try:
            child.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"the child ended early: {child.communicate()}")


def _unread(pipe: int) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(count)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [["--help"], ["run", "detectors:make", "--source", "events.csv"], ["demo", "--seconds", "0.2"]],
)
def test_a_reader_that_has_seen_enough_is_no_error(
    folder: Path, words: list[str], unbuffered: str
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            command(*words), cwd=folder, stdout=write_end, stderr=subprocess.PIPE, text=True,
            timeout=WAIT_SECONDS, env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    finally:
        os.close(write_end)
    assert done.returncode == 0
    assert "Broken" not in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_the_package_s(folder: Path) -> None:
    done = start("--version", cwd=folder)
    assert (done.returncode, done.stdout) == (0, f"slackline {slackline.__version__}\n")


@pytest.mark.parametrize("name", ["", "run", "simulate", "truth", "demo"])
def test_every_help_ends_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*name.split(), "--help"]) == 0
    printed = capsys.readouterr().out
    assert printed.rstrip().splitlines()[-1].startswith(f"  slackline {name}")
    assert "\nexamples:\n" in printed
    assert not name or ("--json" in printed and "--quiet" in printed)


def test_help_needs_no_reader_no_table_and_no_arrow() -> None:
    code = (
        "import sys; from slackline.cli import main; main(['run', '--help']);"
        "sys.exit(any(name in sys.modules for name in ('rich', 'pyarrow', 'slackline.readers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_demo_passes_its_options_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[float, bool, bool]] = []

    def demo(seconds: float, as_json: bool, quiet: bool) -> int:
        called.append((seconds, as_json, quiet))
        return 1

    monkeypatch.setattr("slackline.examples.demo.main", demo)
    assert cli.main(["demo", "--seconds", "2.5", "--json"]) == 1
    assert cli.main(["demo", "--quiet"]) == 1
    assert cli.main(["demo"]) == 1
    assert called == [(2.5, True, True), (30.0, False, True), (30.0, False, False)]


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    with whole_file(target) as file:
        file.write("new\n")
        assert not target.exists()
    assert target.read_text() == "new\n"
    with pytest.raises(TypeError), whole_file(target) as file:
        file.writelines(["half", 5])  # type: ignore[list-item]
    assert target.read_text() == "new\n"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with whole_file(tmp_path / "link") as file:
            file.write("through\n")
        assert os.read(reader, 100) == b"through\n"
    finally:
        os.close(reader)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()


def test_json_knows_what_detectors_emit() -> None:
    import numpy as np

    value = {
        "a": np.int64(3),
        "b": [float("nan"), np.arange(2)],
        ("c", 1): {2, 1},
        "d": (1.5, None),
    }
    assert json.loads(to_json(value)) == {
        "a": 3, "b": [None, [0, 1]], "('c', 1)": [1, 2], "d": [1.5, None],
    }  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal() -> None:
    stream = Terminal()
    with Progress("run", 10, stream=stream, clock=iter(range(100)).__next__) as progress:
        assert list(progress.track(range(10))) == list(range(10))
    assert "10 rows" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()


@pytest.mark.parametrize(("total", "lines"), [(None, 19), (1000, 9), (150, 6)])
def test_plain_progress_is_no_more_than_a_line_per_5_s_and_per_tenth(
    total: int | None, lines: int
) -> None:
    now = [0.0]
    stream = io.StringIO()
    with Progress("run", total, stream=stream, clock=lambda: now[0]) as progress:
        for done in range(1, 1000 if total == 1000 else 100):
            now[0] += 1.0
            progress.update(done)
    said = stream.getvalue().splitlines()
    assert len(said) == lines + 1
    assert said[-1].startswith(f"run: {done}{f' of {total:,}' if total else ''} rows in ")


def test_quiet_progress_counts_and_shows_nothing() -> None:
    stream = Terminal()
    with Progress("run", stream=stream, quiet=True) as progress:
        list(progress.track(range(10)))
    assert (progress.done, stream.getvalue()) == (10, "")
