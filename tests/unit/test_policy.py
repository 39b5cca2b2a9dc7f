"""Ordering policies: their ranges and what switches repairing off."""

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

from slackline import (
    ConfigError,
    Detector,
    Emit,
    Event,
    Hierarchy,
    KSlack,
    Punctuated,
    Unordered,
    run,
)


@pytest.mark.parametrize("policy", [KSlack, Punctuated])
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("margin", -0.1),
        ("margin", math.nan),
        ("margin", math.inf),
        ("margin", "1"),
        ("margin", None),
        ("margin", True),
        ("window", 0),
        ("window", -5),
        ("window", math.nan),
        ("window", "10"),
        ("window", True),
        ("repair", 0.5),
        ("repair", -1),
        ("repair", math.nan),
        ("repair", math.inf),
        ("repair", "2"),
        ("horizon_min", -1),
        ("horizon_min", math.nan),
        ("horizon_min", "1"),
        ("horizon_min", False),
    ],
)
def test_a_setting_out_of_its_range_is_refused_by_name_with_its_value(
    policy: Any, setting: str, value: Any
) -> None:
    with pytest.raises(ConfigError) as refusal:
        policy(**{setting: value})
    assert str(refusal.value).startswith(f"{policy.__name__}: {setting} must be ")
    assert str(refusal.value).endswith(f"got {value!r}")


@pytest.mark.parametrize("k", [-1, math.nan, math.inf, "5", True, [5]])
def test_a_k_out_of_its_range_is_refused_with_its_value(k: Any) -> None:
    with pytest.raises(ConfigError, match="KSlack: k must be a stream time >= 0 or None, got "):
        KSlack(k=k)


@pytest.mark.parametrize("policy", [KSlack, Punctuated])
@pytest.mark.parametrize(
    ("setting", "value"),
    [("margin", 0), ("margin", 2.5), ("window", 1), ("window", 10**15), ("repair", 1),
     ("repair", 1.0), ("repair", 100), ("horizon_min", 0), ("horizon_min", 10**15)],
)  # fmt: skip
def test_the_ends_of_the_ranges_are_inside(policy: Any, setting: str, value: Any) -> None:
    assert getattr(policy(**{setting: value}), setting) == value


def test_k_is_the_first_setting_and_becomes_a_whole_number() -> None:
    assert KSlack(0).k == 0
    assert KSlack(2.5).k == 3  # type: ignore[arg-type]
    assert KSlack().k is None


@pytest.mark.parametrize("off", [0, 0.0, None, False])
def test_repair_is_off_with_zero_none_or_false(off: Any) -> None:
    policy = KSlack(repair=off, horizon_min=500)
    assert policy.factor == 1.0
    assert policy.horizon_floor(1000) == 0


def test_repair_true_means_the_default_factor() -> None:
    assert KSlack(repair=True) == KSlack()
    assert KSlack().factor > 1


def test_the_least_horizon_is_one_second_unless_set() -> None:
    assert KSlack().horizon_floor(1000) == 1000
    assert Punctuated().horizon_floor(10**12) == 10**12
    assert KSlack(horizon_min=0).horizon_floor(1000) == 0
    assert KSlack(horizon_min=1.5).horizon_floor(1000) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "policy",
    [KSlack(5, margin=1.5, window=7, repair=3, horizon_min=9), Punctuated(margin=2), Unordered()],
)
def test_policies_are_frozen_compared_by_value_and_survive_pickling(policy: Any) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert hash(policy) == hash(dataclasses.replace(policy))
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError, AttributeError)):
        policy.margin = 3


def test_policies_with_other_settings_differ() -> None:
    assert len({KSlack(), KSlack(0), KSlack(margin=1), KSlack(window=5), KSlack(repair=0)}) == 5
    assert KSlack() != Punctuated()


def test_replacing_one_setting_keeps_the_others() -> None:
    changed = dataclasses.replace(KSlack(5, margin=1.5), margin=2)
    assert (changed.k, changed.margin) == (5, 2)
    with pytest.raises(ConfigError):
        dataclasses.replace(KSlack(5), repair=0.5)


def test_numbers_from_numpy_are_numbers() -> None:
    assert KSlack(k=np.int64(5)) == KSlack(k=5)  # type: ignore[arg-type]


def test_an_empty_str_is_no_way_to_switch_repairing_off() -> None:
    with pytest.raises(ConfigError):
        KSlack(repair="")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"k": 2**70}, {"margin": 1e300}, {"repair": 1e18}, {"horizon_min": 2**70}]
)
def test_settings_beyond_any_stream_time_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        KSlack(**settings)


@pytest.mark.parametrize("settings", [{"repair": 1000}, {"margin": 1000}, {"k": 2**49}])
def test_whatever_is_accepted_can_be_run(settings: dict[str, Any]) -> None:
    class Ear(Detector):
        listens = ("A",)

        def on_event(self, event: Event, emit: Emit) -> None: ...

    arrivals = [Event("A", ts, {}, "p", i) for i, ts in enumerate([10, 50_000, 35_000, 90_000], 1)]
    result = run(Hierarchy("h").add("d", Ear()), arrivals, KSlack(**settings), chunk_rows=1)
    assert result.stats["d"].received == 4
