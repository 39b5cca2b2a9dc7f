"""The simulated network: whatever the links do, packets come once and in order."""

import heapq
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline import ConfigError, Link, Partition, Stall
from slackline.network import Network, check_times

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)


class World:
    """Virtual time around a network, and everything that was delivered, with its time."""

    def __init__(
        self, seed: int = 0, link: Link | None = None, partitions: list[Partition] | None = None
    ) -> None:
        self.now = 0.0
        self.actions: list[tuple[float, int, Callable[[], None]]] = []
        self.delivered: list[tuple[float, str, str, Any]] = []
        self.count = 0
        self.network = Network(
            random.Random(seed),
            lambda source, target: link or Link(),
            partitions or [],
            self.at,
            lambda source, target, packet: self.delivered.append(
                (self.now, source, target, packet)
            ),
            lambda: self.now,
        )

    def at(self, time: float, action: Callable[[], None]) -> None:
        assert time >= self.now
        self.count += 1
        heapq.heappush(self.actions, (time, self.count, action))

    def run(self) -> None:
        while self.actions:
            self.now, _, action = heapq.heappop(self.actions)
            action()
            assert self.count < 100_000

    def between(self, source: str, target: str) -> list[Any]:
        return [p for _, s, t, p in self.delivered if (s, t) == (source, target)]


def talk(world: World, packets: int) -> None:
    """Two hosts say numbers to each other, one every unit of time."""
    for i in range(packets):
        world.at(float(i), lambda i=i: world.network.send("a", "b", i))  # type: ignore[misc]
        world.at(i + 0.5, lambda i=i: world.network.send("b", "a", -i))  # type: ignore[misc]
    world.run()


bad_links = st.builds(
    Link,
    delay=st.floats(0, 20),
    jitter=st.floats(0, 50),
    distribution=st.sampled_from(["uniform", "exponential"]),
    loss=st.floats(0, 0.6),
    duplicate=st.floats(0, 0.9),
    reorder=st.floats(0, 0.9),
)


@SETTINGS
@given(bad_links, st.integers(0, 2**32), st.floats(0, 60), st.floats(0, 200))
def test_packets_come_once_and_in_order_under_loss_doubling_reordering_and_partition(
    link: Link, seed: int, start: float, length: float
) -> None:
    world = World(seed, link, [Partition("b", "a", start, start + length)])
    talk(world, 30)
    assert world.between("a", "b") == list(range(30))
    assert world.between("b", "a") == [-i for i in range(30)]
    assert world.network.idle


@SETTINGS
@given(bad_links, st.integers(0, 2**32))
def test_nothing_comes_sooner_than_the_least_delay(link: Link, seed: int) -> None:
    world = World(seed, link)
    talk(world, 10)
    for time, source, _, packet in world.delivered:
        sent = packet if source == "a" else -packet + 0.5
        assert time >= sent + link.delay - 1e-9


BAD = Link(delay=2, jitter=9, loss=0.3, duplicate=0.3, reorder=0.3)


def test_the_same_seed_delivers_the_same_at_the_same_times() -> None:
    one, again, other = World(7, BAD), World(7, BAD), World(8, BAD)
    for world in (one, again, other):
        talk(world, 30)
    assert one.delivered == again.delivered
    assert one.delivered != other.delivered


def test_a_good_link_delivers_after_exactly_its_delay_and_repeats_nothing() -> None:
    world = World(link=Link(delay=5))
    talk(world, 4)
    assert [time for time, source, _, _ in world.delivered if source == "a"] == [5, 6, 7, 8]
    network = world.network
    assert (network.packets, network.lost, network.repeated) == (8, 0, 0)


def test_lost_packets_are_counted_and_repeated() -> None:
    world = World(3, Link(delay=1, loss=0.5))
    talk(world, 20)
    assert world.network.lost > 0
    assert world.network.repeated > 0
    assert world.network.packets == 40 + world.network.repeated


def test_doubled_packets_are_delivered_once() -> None:
    world = World(3, Link(delay=1, jitter=5, duplicate=0.9))
    talk(world, 20)
    assert world.between("a", "b") == list(range(20))


def test_what_is_sent_into_a_partition_comes_after_its_end() -> None:
    world = World(link=Link(delay=1), partitions=[Partition("a", "b", 0, 100)])
    talk(world, 3)
    assert world.between("a", "b") == [0, 1, 2]
    assert all(time >= 100 for time, *_ in world.delivered)


def test_a_partition_leaves_the_other_hosts_alone() -> None:
    world = World(link=Link(delay=1), partitions=[Partition("a", "b", 0, 100)])
    world.network.send("a", "c", "x")
    world.run()
    assert [(time, packet) for time, _, _, packet in world.delivered] == [(1, "x")]


def test_a_network_is_idle_when_everything_was_acknowledged() -> None:
    world = World(link=Link(delay=1))
    assert world.network.idle
    world.network.send("a", "b", "x")
    assert not world.network.idle
    world.run()
    assert world.network.idle


def test_a_partition_cuts_both_ways_from_its_start_until_before_its_end() -> None:
    partition = Partition("a", "b", 10, 20)
    assert [partition.cuts("a", "b", now) for now in (9.9, 10, 19.9, 20)] == [
        False, True, True, False,
    ]  # fmt: skip
    assert partition.cuts("b", "a", 15)
    assert not partition.cuts("a", "c", 15)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay": -1},
        {"jitter": -0.1},
        {"distribution": "normal"},
        {"loss": 1},
        {"loss": -0.1},
        {"loss": math.nan},
        {"duplicate": 1.5},
        {"reorder": 1.0},
    ],
    ids=str,
)
def test_a_link_out_of_range_is_refused_with_its_value(wrong: dict[str, Any]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigError, match=rf"a link's .*{name}.*{value}"):
        Link(**wrong)


@pytest.mark.parametrize("wrong", [{"delay": math.nan}, {"delay": math.inf}, {"jitter": math.nan}])
def test_a_link_without_a_finite_delay_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Link(**wrong)


@pytest.mark.parametrize("times", [(2, 1), (math.nan, 1), (0, math.inf), (-math.inf, 0)])
def test_a_fault_must_begin_before_it_ends_and_end(times: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match="start <= end, both finite, got Stall"):
        check_times(*times, Stall("a", *times))


def test_a_sample_lies_within_what_the_link_allows() -> None:
    rng = random.Random(1)
    uniform = [Link(delay=3, jitter=4).sample(rng) for _ in range(500)]
    assert 3 <= min(uniform) < 3.2
    assert 6.8 < max(uniform) <= 7
    exponential = [Link(jitter=4, distribution="exponential").sample(rng) for _ in range(2000)]
    assert sum(exponential) / len(exponential) == pytest.approx(4, rel=0.2)
    assert max(exponential) > 10
    assert Link(delay=3).sample(rng) == 3
