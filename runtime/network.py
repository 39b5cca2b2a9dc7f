"""A simulated network: links that delay, lose, double and reorder, and a transport that does not.

Packets between two hosts are numbered. The receiver acknowledges each, drops repeats and hands
packets on in order; the sender repeats what was not acknowledged in time. What the hosts see is
a reliable link in order, as late as the network made it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackline.errors import ConfigError

__all__ = ["Link", "Network", "Partition", "Stall"]

RETRY_FACTOR_MAX = 16


@dataclass(frozen=True, slots=True)
class Link:
    """One direction between two hosts; times in the hierarchy's unit.

    ``delay`` is the least delay, ``jitter`` what comes on top: up to so much (``uniform``) or so
    much on average (``exponential``). ``loss``, ``duplicate`` and ``reorder`` are probabilities;
    a reordered packet takes the delay of up to three others on top.
    """

    delay: float = 0.0
    jitter: float = 0.0
    distribution: str = "uniform"
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.delay < math.inf and 0 <= self.jitter < math.inf):
            raise ConfigError(f"a link's delay and jitter must be finite and >= 0, got {self}")
        if self.distribution not in ("uniform", "exponential"):
            raise ConfigError(
                "a link's distribution must be 'uniform' or 'exponential', got "
                f"{self.distribution!r}"
            )
        for what in ("loss", "duplicate", "reorder"):
            value = getattr(self, what)
            if not 0 <= value < 1:
                raise ConfigError(f"a link's {what} must be a probability below 1, got {value!r}")

    @property
    def typical(self) -> float:
        """A delay that most packets keep within."""
        return self.delay + self.jitter * (1 if self.distribution == "uniform" else 3)

    def sample(self, rng: random.Random) -> float:
        if self.distribution == "uniform":
            extra = rng.random() * self.jitter
        else:
            extra = rng.expovariate(1 / self.jitter) if self.jitter else 0.0
        if self.reorder and rng.random() < self.reorder:
            extra += rng.random() * 3 * max(self.typical, 1.0)
        return self.delay + extra


@dataclass(frozen=True, slots=True)
class Partition:
    """Nothing passes between two hosts from ``start`` to ``end``."""

    one: str
    other: str
    start: float
    end: float

    def cuts(self, source: str, target: str, now: float) -> bool:
        return {source, target} == {self.one, self.other} and self.start <= now < self.end


@dataclass(frozen=True, slots=True)
class Stall:
    """A host takes nothing from ``start`` to ``end``; what arrives waits."""

    host: str
    start: float
    end: float


@dataclass(slots=True)
class _Channel:
    sent: int = 0
    unacknowledged: dict[int, Any] = field(default_factory=dict)
    expected: int = 1
    early: dict[int, Any] = field(default_factory=dict)


class Network:
    """Carries packets between hosts in virtual time, reliably and in order per pair of hosts."""

    def __init__(
        self,
        rng: random.Random,
        link: Callable[[str, str], Link],
        partitions: Sequence[Partition],
        at: Callable[[float, Callable[[], None]], None],
        deliver: Callable[[str, str, Any], None],
        now: Callable[[], float],
    ) -> None:
        self._rng = rng
        self._link = link
        self._partitions = partitions
        self._at = at
        self._deliver = deliver
        self._now = now
        self._channels: dict[tuple[str, str], _Channel] = {}
        self.packets = self.lost = self.repeated = 0

    def send(self, source: str, target: str, packet: Any) -> None:
        channel = self._channels.setdefault((source, target), _Channel())
        channel.sent += 1
        channel.unacknowledged[channel.sent] = packet
        self._transmit(source, target, channel.sent, 1)

    def _transmit(self, source: str, target: str, number: int, attempt: int) -> None:
        channel = self._channels[source, target]
        if number not in channel.unacknowledged:
            return
        link = self._link(source, target)
        packet = channel.unacknowledged[number]
        copies = 1 + (self._rng.random() < link.duplicate)
        self.packets += 1
        self.repeated += attempt > 1
        for _ in range(copies):
            self._travel(source, target, lambda: self._receive(source, target, number, packet))
        patience = 2 * link.typical + 2 * self._link(target, source).typical + 1
        patience *= min(2 ** (attempt - 1), RETRY_FACTOR_MAX)
        self._at(
            self._now() + patience, lambda: self._transmit(source, target, number, attempt + 1)
        )

    def _travel(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        link = self._link(source, target)
        delay = link.sample(self._rng)
        cut = any(p.cuts(source, target, self._now()) for p in self._partitions)
        if cut or self._rng.random() < link.loss:
            self.lost += 1
            return
        self._at(self._now() + delay, arrive)

    def _receive(self, source: str, target: str, number: int, packet: Any) -> None:
        channel = self._channels[source, target]
        self._travel(target, source, lambda: self._acknowledge(source, target, number))
        if number < channel.expected or number in channel.early:
            return
        channel.early[number] = packet
        while channel.expected in channel.early:
            ready = channel.early.pop(channel.expected)
            channel.expected += 1
            self._deliver(source, target, ready)

    def _acknowledge(self, source: str, target: str, number: int) -> None:
        self._channels[source, target].unacknowledged.pop(number, None)

    @property
    def idle(self) -> bool:
        return not any(channel.unacknowledged for channel in self._channels.values())


def check_times(start: float, end: float, what: object) -> None:
    if not (math.isfinite(start) and math.isfinite(end) and start <= end):
        raise ConfigError(f"a fault must have start <= end, both finite, got {what}")
