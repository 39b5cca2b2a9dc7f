"""Ordering policies: how long a detector's events are held back. Settings only, no state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from slackline.errors import ConfigError

__all__ = ["KSlack", "Ordering", "Punctuated", "Speculative", "Unordered", "is_ordering"]

TIME_MAX = 2**40 * 1000
FACTOR_MAX = 1000
SNAPSHOT_BYTES_MAX = 64 * 2**20
RETRACTIONS = ("full", "on-demand", "auto")
REPAIR = 2.0
"""Default of ``repair``: an event twice as late as anything seen is still put right."""


@dataclass(frozen=True, slots=True)
class _Horizon:
    """What K-slack and punctuation share: learning K, and how far back the past can change.

    ``margin`` (λ, >= 0): how many standard deviations of the delays are added to K.
    ``window`` (stream time, default 10 s): how long a delay that was measured counts.
    ``repair`` (>= 1): the horizon is ``max(repair * K, horizon_min)``; an event inside it that
    K was too small for is put right by replay. 0, None or False switch repairing off: the
    horizon is K itself and every miss goes to the late channel.
    ``horizon_min`` (stream time, default 1 s).
    ``snapshot_bytes_max``: the memory for snapshots of one detector; beyond it they get sparser.
    """

    margin: float = 0.0
    window: int | None = None
    repair: float | None = REPAIR
    horizon_min: int | None = None
    snapshot_bytes_max: int = SNAPSHOT_BYTES_MAX

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not _number(self.margin) or not 0 <= self.margin <= FACTOR_MAX:
            raise ConfigError(
                f"{name}: margin must be from 0 to {FACTOR_MAX:,}, got {self.margin!r}"
            )
        if self.window is not None and (not _number(self.window) or self.window <= 0):
            raise ConfigError(f"{name}: window must be a stream time > 0, got {self.window!r}")
        if self.repair is True:
            object.__setattr__(self, "repair", REPAIR)
        if self.repair not in (0, None) and (
            not _number(self.repair) or not 1 <= self.repair <= FACTOR_MAX
        ):
            raise ConfigError(
                f"{name}: repair must be a factor from 1 to {FACTOR_MAX:,}, or 0 to switch it "
                f"off, got {self.repair!r}"
            )
        if self.horizon_min is not None and (not _number(self.horizon_min) or self.horizon_min < 0):
            raise ConfigError(
                f"{name}: horizon_min must be a stream time >= 0, got {self.horizon_min!r}"
            )

        if not _number(self.snapshot_bytes_max) or self.snapshot_bytes_max <= 0:
            raise ConfigError(
                f"{name}: snapshot_bytes_max must be > 0, got {self.snapshot_bytes_max!r}"
            )

    def horizon_floor(self, second: int) -> int:
        """The least horizon, when one second of stream time is ``second`` units."""
        if not self.repair:
            return 0
        return second if self.horizon_min is None else math.ceil(self.horizon_min)

    @property
    def factor(self) -> float:
        return self.repair or 1.0


@dataclass(frozen=True, slots=True, init=False)
class KSlack(_Horizon):
    """Wait until ``ts + K <= clk``; K is learnt, or fixed as ``k``."""

    k: int | None = None

    def __init__(
        self,
        k: int | None = None,
        margin: float = 0.0,
        window: int | None = None,
        repair: float | None = REPAIR,
        horizon_min: int | None = None,
        snapshot_bytes_max: int = SNAPSHOT_BYTES_MAX,
    ) -> None:
        if k is not None and (not _number(k) or k < 0):
            raise ConfigError(f"KSlack: k must be a stream time >= 0 or None, got {k!r}")
        object.__setattr__(self, "k", None if k is None else math.ceil(k))
        _set(self, margin, window, repair, horizon_min, snapshot_bytes_max)


@dataclass(frozen=True, slots=True, init=False)
class Speculative(_Horizon):
    """Wait only until ``ts + alpha * K <= clk``, and correct what turns out to be premature.

    ``alpha``: from 0, take every event as soon as the clock has reached it, to 1, wait as K-slack
    does; ``"auto"`` spends idle CPU on a lower one where that buys most. ``retraction``: how
    published events are corrected: ``"full"`` takes back everything behind the wrong place at
    once and publishes it anew; ``"on-demand"`` replays first and sends the difference;
    ``"auto"`` measures which is cheaper for this detector.
    """

    alpha: float | str = "auto"
    retraction: str = "auto"

    def __init__(
        self,
        alpha: float | str = "auto",
        retraction: str = "auto",
        repair: float | None = REPAIR,
        margin: float = 0.0,
        window: int | None = None,
        horizon_min: int | None = None,
        snapshot_bytes_max: int = SNAPSHOT_BYTES_MAX,
    ) -> None:
        if alpha != "auto" and not (_number(alpha) and 0 <= float(alpha) <= 1):
            raise ConfigError(f"Speculative: alpha must be from 0 to 1 or 'auto', got {alpha!r}")
        if retraction not in RETRACTIONS:
            raise ConfigError(
                f"Speculative: retraction must be one of {RETRACTIONS}, got {retraction!r}"
            )
        if not repair:
            raise ConfigError("Speculative: without repair nothing premature could be corrected")
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "retraction", retraction)
        _set(self, margin, window, repair, horizon_min, snapshot_bytes_max)


def _set(
    policy: _Horizon,
    margin: float,
    window: int | None,
    repair: float | None,
    horizon_min: int | None,
    snapshot_bytes_max: int,
) -> None:
    """Fill and check the fields that a policy with an order of arguments of its own shares."""
    object.__setattr__(policy, "margin", margin)
    object.__setattr__(policy, "window", window)
    object.__setattr__(policy, "repair", repair)
    object.__setattr__(policy, "horizon_min", horizon_min)
    object.__setattr__(policy, "snapshot_bytes_max", snapshot_bytes_max)
    policy.__post_init__()


@dataclass(frozen=True, slots=True)
class Punctuated(_Horizon):
    """Wait until every input type is stable past ``ts``: later than K-slack, never revised.

    A source type is stable as far as its source has promised (``Stable`` among the arrivals);
    one that never promises is stable where the horizon has passed it.
    """


@dataclass(frozen=True, slots=True)
class Unordered:
    """Take every event as it comes; truth does not cover what the detector makes of the order."""


Ordering = KSlack | Speculative | Punctuated | Unordered


def is_ordering(value: object) -> bool:
    return isinstance(value, KSlack | Speculative | Punctuated | Unordered)


def _number(value: object) -> bool:
    """Whether a value is a number that can be a time: far below what a time stamp can hold."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    return math.isfinite(value) and abs(float(value)) < TIME_MAX
