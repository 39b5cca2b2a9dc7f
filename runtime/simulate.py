"""The simulated host: the same cells on many hosts, in virtual time, from a seed.

Virtual time runs in the hierarchy's unit. An arrival enters when the stream has reached it: at
the largest time of all arrivals before it. It goes to the host where its type enters and from
there over the network to every host that listens. A host that is free takes everything that has
arrived for it as one step and is busy for ``cost`` per row. Nothing here depends on anything but
the arguments, so the same seed gives the same trace, byte for byte.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from slackline.cell import Outcome, Start
from slackline.errors import BrokenInvariant, ConfigError
from slackline.events import TS_MAX, TS_MIN, Event, EventBatch, Stable
from slackline.hierarchy import Hierarchy
from slackline.host import Host
from slackline.intake import Arrival, Intake
from slackline.local import Run
from slackline.messages import Delay, Heard, Promise, Tick
from slackline.network import Link, Network, Partition, Stall, check_times
from slackline.policy import Ordering
from slackline.speculation import SPAN_SECONDS

__all__ = ["SimulatedHost", "random_faults", "random_links", "simulate"]

ACTIONS_MAX = 50_000_000
"""A simulation that does more is taken to be stuck."""

Links = Link | Mapping[tuple[str, str], Link] | None
Fault = Partition | Stall


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """A host of a simulation; each message taken and each event processed costs ``cost`` time."""

    name: str
    cost: float = 0.0


def simulate(
    hierarchy: Hierarchy,
    arrivals: Iterable[Event | EventBatch | Stable],
    seed: int = 0,
    hosts: int | Sequence[str | SimulatedHost] = 3,
    links: Links = None,
    placement: Mapping[str, str] | None = None,
    faults: Sequence[Fault] = (),
    *,
    ordering: Ordering | Mapping[str, Ordering] | None = None,
    start: Mapping[str, Start] | None = None,
) -> Run:
    """Run a hierarchy on simulated hosts; the result is a ``Run`` with a ``trace``.

    ``hosts`` is a number (they are then called h1, h2, …) or their names. ``links`` is one
    ``Link`` for all or a mapping from ``(from, to)``; left out, the seed draws them. ``placement``
    maps detectors, and source types, to hosts; what it leaves out the seed places. ``faults`` are
    ``Partition`` and ``Stall``.
    """
    return _Simulation(hierarchy, seed, hosts, links, placement or {}, faults, ordering, start).run(
        arrivals
    )


class _Simulation:
    def __init__(
        self,
        hierarchy: Hierarchy,
        seed: int,
        hosts: int | Sequence[str | SimulatedHost],
        links: Links,
        placement: Mapping[str, str],
        faults: Sequence[Fault],
        ordering: Ordering | Mapping[str, Ordering] | None,
        start: Mapping[str, Start] | None,
    ) -> None:
        hierarchy.check()
        self._hierarchy = hierarchy
        self._rng = random.Random(f"slackline simulate {seed}")
        self._specs = _host_specs(hosts)
        names = list(self._specs)
        self._links = self._drawn(links, names)
        self._placement = self._placed(placement, names)
        self._stalls = [fault for fault in faults if isinstance(fault, Stall)]
        partitions = [fault for fault in faults if isinstance(fault, Partition)]
        for fault in faults:
            _check_fault(fault, names)
        self._now = 0.0
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._network = Network(
            self._rng, self._link, partitions, self._at, self._arrive, lambda: self._now
        )
        orderings = hierarchy.orderings(ordering)
        self._listeners = self._subscribers()
        self._hosts = {
            name: Host(
                hierarchy,
                orderings,
                [n.name for n in hierarchy if self._placement[n.name] == name],
                start,
                self._entries_for(name),
            )
            for name in names
        }
        self._queues: dict[str, list[Arrival]] = {name: [] for name in names}
        self._busy = dict.fromkeys(names, False)
        self._promised: dict[tuple[str, str], int] = {}
        self._announced: dict[tuple[str, str], int] = {}
        self._heard = dict.fromkeys(names, TS_MIN)
        self._work = dict.fromkeys(names, 0)
        self._paid = dict.fromkeys(names, 0)
        self._spans: dict[str, tuple[float, float]] = {}
        self._result = Run(clk=TS_MIN)

    def run(self, arrivals: Iterable[Event | EventBatch | Stable]) -> Run:
        published = {t: names[0] for t, names in self._hierarchy.types.items() if names}
        agent = Intake(self._hierarchy.source_types, published)
        reached: float | None = None
        for item in arrivals:
            taken = _checked(agent, item)
            for entry in taken:
                latest = int(entry.ts.max()) if isinstance(entry, EventBatch) else entry.ts
                if reached is None:
                    self._now = reached = latest
                if reached < latest < TS_MAX // 2:
                    reached = latest
                self._act_until(reached)
                self._enter(entry)
        for type_ in self._hierarchy.source_types:
            self._enter(Stable.ended(type_))
        self._act_until(float("inf"))
        if not self._network.idle:
            raise BrokenInvariant("the simulation ended with packets under way")
        self._result.conclude(self._hosts.values(), agent)
        return self._result

    # ---- virtual time ----------------------------------------------------------------------

    def _at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._actions, (time, self._count, action))

    def _act_until(self, time: float) -> None:
        while self._actions and self._actions[0][0] <= time:
            self._now, _, action = heapq.heappop(self._actions)
            action()
            if self._count > ACTIONS_MAX:
                raise BrokenInvariant(f"the simulation is stuck at {self._now}")
        if time != float("inf"):
            self._now = max(self._now, time)

    # ---- from sources to hosts -------------------------------------------------------------

    def _enter(self, item: Event | EventBatch | Stable) -> None:
        """An arrival reaches the host where its type enters, and goes on to who needs it."""
        entry = self._placement[item.type]
        is_clock = item.type in self._hierarchy.clock_types
        for name in self._specs:
            packet: list[Arrival]
            if name in self._listeners.get(item.type, ()) or isinstance(item, Stable):
                packet = [item]
            elif not is_clock:
                continue
            elif isinstance(item, EventBatch):
                packet = [Tick(item.type, ts) for ts in item.ts.tolist()]
            else:
                packet = [Tick(item.type, item.ts)]
            if name == entry:
                self._arrive(entry, name, packet)
            else:
                self._network.send(entry, name, packet)

    def _arrive(self, source: str, target: str, packet: list[Arrival]) -> None:
        self._queues[target] += packet
        if not self._busy[target]:
            self._busy[target] = True
            self._at(self._free_from(target), lambda: self._step(target))

    def _free_from(self, name: str) -> float:
        """The first moment from now on at which a host is not stalled."""
        time = self._now
        for stall in sorted(self._stalls, key=lambda stall: stall.start):
            if stall.host == name and stall.start <= time < stall.end:
                time = stall.end
        return time

    # ---- a host takes a step ---------------------------------------------------------------

    def _step(self, name: str) -> None:
        free = self._free_from(name)
        if free > self._now:
            self._at(free, lambda: self._step(name))
            return
        came, self._queues[name] = self._queues[name], []
        host = self._hosts[name]
        logged = len(self._result.log)
        outcomes = host.step(came)
        self._result.record(outcomes)
        self._result.trace.append(f"{self._now:.3f} {name} took {len(came)} clk {host.clk}")
        for entry in self._result.log[logged:]:
            self._result.trace.append(f"  {entry.kind} {entry.event} rev {entry.rev}")
        packets: dict[str, list[Arrival]] = {}
        for detector, outcome in outcomes.items():
            for type_ in self._hierarchy[detector].publishes:
                elsewhere = [n for n in self._listeners.get(type_, ()) if n != name]
                if not elsewhere:
                    continue
                said: list[Arrival] = [m for m in outcome.messages if m.type == type_]
                said += self._changes(detector, type_, outcome.promises[type_].now, outcome)
                for target in elsewhere:
                    packets.setdefault(target, []).extend(said)
        if host.sure > self._heard[name]:
            self._heard[name] = host.sure
            for target in self._specs:
                if target != name and name in self._entries_for(target):
                    packets.setdefault(target, []).append(Heard(name, host.sure))
        for target, packet in packets.items():
            if packet:
                self._network.send(name, target, packet)
        self._work[name] += len(came)
        work = sum(cell.past.given + cell.past.replayed for cell in host.cells.values())
        cost = self._specs[name].cost * (work + self._work[name] - self._paid[name])
        self._paid[name] = work + self._work[name]
        self._follow_load(name, cost)
        self._at(self._now + cost, lambda: self._rest(name))

    def _follow_load(self, name: str, cost: float) -> None:
        """Tell a host how busy it was, once per span."""
        since, busy = self._spans.get(name, (self._now, 0.0))
        seconds = (self._now - since) / self._hierarchy.second
        self._spans[name] = (since, busy + cost)
        if seconds >= SPAN_SECONDS:
            self._hosts[name].adapt((busy + cost) / (self._now - since), seconds)
            self._spans[name] = (self._now, 0.0)

    def _rest(self, name: str) -> None:
        """A host has finished a step: take the next one if something has arrived meanwhile."""
        self._busy[name] = False
        if self._queues[name]:
            self._arrive(name, name, [])

    def _changes(self, detector: str, type_: str, promised: int, outcome: Outcome) -> list[Arrival]:
        """What a cell promises and announces beyond what it did before."""
        said: list[Arrival] = []
        if promised > self._promised.get((detector, type_), TS_MIN):
            self._promised[detector, type_] = promised
            said.append(Promise(detector, type_, promised))
        announced = outcome.announced.get(type_)
        if announced is not None and announced.now != self._announced.get((detector, type_)):
            self._announced[detector, type_] = announced.now
            said.append(Delay(detector, type_, announced.now))
        return said

    # ---- the network of hosts --------------------------------------------------------------

    def _link(self, source: str, target: str) -> Link:
        return self._links[source, target]

    def _drawn(self, links: Links, names: list[str]) -> dict[tuple[str, str], Link]:
        pairs = [(a, b) for a in names for b in names if a != b]
        if links is None:
            return random_links(self._rng, names, self._hierarchy.second)
        if isinstance(links, Link):
            return dict.fromkeys(pairs, links)
        for pair in links:
            if pair not in pairs:
                raise ConfigError(f"links: {pair!r} is no pair of hosts; the hosts are {names}")
        return {pair: links.get(pair, Link()) for pair in pairs}

    def _placed(self, placement: Mapping[str, str], names: list[str]) -> dict[str, str]:
        movable = [node.name for node in self._hierarchy]
        sources = list(self._hierarchy.source_types)
        for what, where in placement.items():
            if what not in movable and what not in sources:
                raise ConfigError(
                    f"placement: {what!r} is neither a detector nor a source type; there are "
                    f"{[*movable, *sources]}"
                )
            if where not in names:
                raise ConfigError(f"placement: no host {where!r}; the hosts are {names}")
        placed = {what: self._rng.choice(names) for what in movable}
        entry = self._rng.choice(names)
        apart = self._rng.random() < 0.5
        placed |= {what: self._rng.choice(names) if apart else entry for what in sources}
        return placed | dict(placement)

    def _subscribers(self) -> dict[str, list[str]]:
        """The hosts that need each type, in a fixed order."""
        wanted: dict[str, list[str]] = {}
        for node in self._hierarchy:
            for type_ in node.listens:
                hosts = wanted.setdefault(type_, [])
                if self._placement[node.name] not in hosts:
                    hosts.append(self._placement[node.name])
        return wanted

    def _entries_for(self, name: str) -> list[str]:
        """The other hosts where source types enter that this one listens to."""
        entries = [
            self._placement[type_]
            for type_ in self._hierarchy.source_types
            if name in self._listeners.get(type_, ())
        ]
        return [entry for entry in dict.fromkeys(entries) if entry != name]


def _checked(agent: Intake, item: Event | EventBatch | Stable) -> list[Event | EventBatch | Stable]:
    """What is left of an arrival when what is malformed was rejected."""
    if isinstance(item, Stable):
        return [item]
    taken: list[Event | EventBatch | Stable] = []
    for group in agent.sort([item]).groups:
        if group.events is not None:
            taken += group.events
        else:
            assert group.columns is not None
            taken.append(
                EventBatch.merged(
                    group.type, group.ts, group.columns, group.codes, group.names, group.seq
                )
            )
    return taken


def _host_specs(hosts: int | Sequence[str | SimulatedHost]) -> dict[str, SimulatedHost]:
    if isinstance(hosts, int):
        hosts = [f"h{i + 1}" for i in range(hosts)]
    specs = [SimulatedHost(host) if isinstance(host, str) else host for host in hosts]
    if not specs:
        raise ConfigError("a simulation needs at least one host")
    by_name = {spec.name: spec for spec in specs}
    if len(by_name) < len(specs):
        raise ConfigError(f"two hosts have the same name: {[spec.name for spec in specs]}")
    return by_name


def _check_fault(fault: Fault, names: list[str]) -> None:
    if not isinstance(fault, Partition | Stall):
        raise ConfigError(f"a fault is a Partition or a Stall, got {fault!r}")
    check_times(fault.start, fault.end, fault)
    involved = [fault.host] if isinstance(fault, Stall) else [fault.one, fault.other]
    for name in involved:
        if name not in names:
            raise ConfigError(f"{fault}: no host {name!r}; the hosts are {names}")


def random_links(
    rng: random.Random, names: Sequence[str], second: int
) -> dict[tuple[str, str], Link]:
    """Links of a bad network: delays of some milliseconds, some packets lost or doubled."""
    ms = second / 1000
    return {
        (a, b): Link(
            delay=rng.uniform(0, 20) * ms,
            jitter=rng.uniform(0, 30) * ms,
            distribution=rng.choice(["uniform", "exponential"]),
            loss=rng.choice([0.0, 0.02, 0.2]),
            duplicate=rng.choice([0.0, 0.1]),
            reorder=rng.choice([0.0, 0.1]),
        )
        for a in names
        for b in names
        if a != b
    }


def random_faults(seed: int, names: Sequence[str], begin: float, end: float) -> list[Fault]:
    """Some partitions and stalls within a span of virtual time."""
    rng = random.Random(f"slackline faults {seed}")
    faults: list[Fault] = []
    for _ in range(rng.randint(0, 3)):
        start = rng.uniform(begin, end)
        length = rng.uniform(0, (end - begin) / 2)
        if len(names) > 1 and rng.random() < 0.6:
            one, other = rng.sample(list(names), 2)
            faults.append(Partition(one, other, start, start + length))
        else:
            faults.append(Stall(rng.choice(list(names)), start, start + length))
    return faults
