"""Summaries, latencies and what a detector reports."""

import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline.stats import DetectorStats, Latency, Summary

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)


def summary(*parts: list[int]) -> Summary:
    result = Summary()
    for part in parts:
        result.add(np.array(part, dtype=np.int64))
    return result


@SETTINGS
@given(st.lists(st.lists(st.integers(-1000, 1000)), min_size=1))
def test_a_summary_knows_what_the_numbers_it_did_not_keep_would_tell(
    parts: list[list[int]],
) -> None:
    values = [value for part in parts for value in part]
    result = summary(*parts)
    assert result.count == len(values)
    if values:
        assert (result.min, result.max) == (min(values), max(values))
        assert result.mean == pytest.approx(statistics.fmean(values))
        assert result.std == pytest.approx(statistics.pstdev(values), abs=1e-3)


def test_a_summary_of_nothing_has_no_mean() -> None:
    assert math.isnan(Summary().mean)
    assert math.isnan(Summary().std)
    assert Summary().to_dict() == {"count": 0, "mean": None, "std": None, "min": None, "max": None}


def test_a_summary_as_a_dict_is_rounded() -> None:
    assert summary([1, 2], [2]).to_dict() == {
        "count": 3, "mean": 1.667, "std": 0.471, "min": 1, "max": 2,
    }  # fmt: skip


def test_equal_numbers_do_not_deviate() -> None:
    assert summary([10**6 + 1] * 7).std == 0


def test_a_latency_has_its_percentiles() -> None:
    latency = Latency.of(list(range(101)))
    assert latency == Latency(101, 50.0, 50.0, 99.0, 100.0)
    assert latency.to_dict() == {"count": 101, "mean": 50.0, "p50": 50.0, "p99": 99.0, "max": 100.0}


def test_the_latency_of_nothing_is_null_in_json() -> None:
    assert json.dumps(Latency.of([]).to_dict()) == (
        '{"count": 0, "mean": null, "p50": null, "p99": null, "max": null}'
    )


def stats(**more: object) -> DetectorStats:
    return DetectorStats(
        "KSlack()", 7, [(5, 7)], {"A": summary([1, 3]), "B": Summary()}, 2, 9, **more
    )  # type: ignore[arg-type]


def test_the_stats_of_a_detector_are_ready_for_strict_json() -> None:
    plain = json.loads(json.dumps(stats().to_dict(), allow_nan=False))
    assert plain["k"] == 7
    assert plain["k_history"] == [[5, 7]]
    assert plain["delays"]["A"]["max"] == 3
    assert plain["delays"]["B"]["mean"] is None
    assert plain["latency"]["p99"] is None
    assert plain["waiting_text"] == ""


def test_the_text_of_what_holds_a_detector_back_names_each_type_and_since_when() -> None:
    held = stats(waiting={"A": 12, "B": None})
    assert held.waiting_text == "waiting on A since 12; waiting on B since the start"
    assert held.to_dict()["waiting_text"] == held.waiting_text
