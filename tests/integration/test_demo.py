"""The demonstration, shortened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slackline import Event, truth
from slackline.examples import demo


@pytest.fixture
def hardly_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SIMULATED_SECONDS", 0.2)


def test_a_short_demo_is_exact_and_reports_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "SIMULATED_SECONDS", 0.8)
    assert demo.main(1.2, as_json=True, quiet=True) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    report = json.loads(printed.out.splitlines()[-1])
    assert report["exact"] is True
    assert report["positions"] == round(22_000 * 1.2)
    assert report["out_of_order"] > 0.9
    assert report["found"]["hit"] > 0
    assert set(report["runs"]) == {"local", "fixed", "simulated"}
    for part in report["runs"].values():
        assert part["exact"] is True
        assert part["differences"] == []
        assert part["final"] > 0
    assert set(report["detectors"]) == {"proximity", "peak", "hit", "pass"}
    learnt = report["detectors"]["proximity"]
    assert 50 < learnt["k_ms"] < 200
    assert set(learnt) == {
        "k_ms",
        "out_of_order",
        "detections",
        "latency_ms",
        "latency_fixed_ms",
    }


@pytest.mark.usefixtures("hardly_simulated")
def test_the_demo_ends_with_a_table_and_the_word_exact(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert demo.main(1.0) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[-1] == "exact"
    for name in ("proximity", "peak", "hit", "pass"):
        assert any(line.split()[:1] == [name] for line in lines)
    assert "positions" in printed.err


@pytest.mark.usefixtures("hardly_simulated")
def test_a_demo_that_differs_from_truth_says_what_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def more_than_truth(*args: Any) -> list[Event]:
        return [*truth(*args), Event("hit", 1, {}, "nobody", 1)]

    monkeypatch.setattr(demo, "truth", more_than_truth)
    assert demo.main(0.5, quiet=True) == 1
    out = capsys.readouterr().out
    assert "missing  Event(type='hit', ts=1" in out
    assert out.splitlines()[-1] == "not exact"
