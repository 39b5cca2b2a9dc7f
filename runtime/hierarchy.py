"""The hierarchy: detectors linked by the types they listen to and publish."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slackline.detector import Detector, Listen
from slackline.errors import HierarchyError
from slackline.policy import KSlack, Ordering, is_ordering

__all__ = ["Hierarchy", "Node"]

UNITS_PER_SECOND = {"ps": 10**12, "ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1}


@dataclass(frozen=True, slots=True)
class Node:
    """A detector in its place: its name, what it hears and says, how its input is ordered."""

    name: str
    detector: Detector
    ordering: Ordering
    listens: tuple[str, ...]
    publishes: tuple[str, ...]
    unordered: frozenset[str]


class Hierarchy:
    """An acyclic graph of detectors, linked by event types.

    ``clock`` names the types whose times drive the local stream clock (all source types when
    empty). ``unit`` is the unit of every ``ts``: ps, ns, us, ms or s. ``sources``, if given,
    lists the types that come from outside; a detector that listens to any other type nobody
    publishes is then refused.
    """

    def __init__(
        self,
        name: str,
        clock: Iterable[str] = (),
        unit: str = "ms",
        sources: Iterable[str] | None = None,
    ) -> None:
        if unit not in UNITS_PER_SECOND:
            raise HierarchyError(
                f"hierarchy {name!r}: unknown unit {unit!r}; use one of "
                f"{', '.join(UNITS_PER_SECOND)}"
            )
        self.name = name
        self.clock = _type_names(clock, f"hierarchy {name!r}: clock")
        self.unit = unit
        self.sources = (
            None if sources is None else _type_names(sources, f"hierarchy {name!r}: sources")
        )
        self._nodes: dict[str, Node] = {}

    @property
    def second(self) -> int:
        """One second of stream time, in units."""
        return UNITS_PER_SECOND[self.unit]

    def add(
        self,
        name: str,
        detector: Detector,
        ordering: Ordering | None = None,
        unordered: bool | Iterable[str] = (),
    ) -> Hierarchy:
        """Add a detector under a name of its own; returns the hierarchy, so that calls chain.

        ``unordered`` lists types that bypass the ordering (True: all of them), like
        ``Listen(type, unordered=True)`` in ``listens``. A refused detector changes nothing.
        """
        where = f"detector {name!r}"
        if not isinstance(name, str) or not name:
            raise HierarchyError(f"a detector's name must be a non-empty str, got {name!r}")
        if name in self._nodes:
            raise HierarchyError(f"{where} is there already: choose another name")
        if isinstance(detector, type):
            raise HierarchyError(f"{where}: pass an instance, {detector.__name__}(), not the class")
        if not isinstance(detector, Detector):
            raise HierarchyError(
                f"{where}: expected a Detector, got {type(detector).__name__}; derive it from "
                "slackline.Detector"
            )
        if ordering is not None:
            _check_ordering(ordering, f"{where}: ordering")
        listens = _type_names(detector.listens, f"{where}: listens")
        publishes = _type_names(detector.publishes, f"{where}: publishes")
        if not listens:
            raise HierarchyError(f"{where} listens to nothing: set listens = (type, ...)")
        loose = {str(t) for t in detector.listens if isinstance(t, Listen) and t.unordered}
        loose |= set(
            listens if unordered is True else _type_names(unordered or (), f"{where}: unordered")
        )
        if not loose <= set(listens):
            raise HierarchyError(f"{where} does not listen to {sorted(loose - set(listens))}")
        for type_ in publishes:
            if self.sources is not None and type_ in self.sources:
                raise HierarchyError(
                    f"{where} publishes {type_!r}, which is a source type too: rename one of them"
                )
        node = Node(name, detector, ordering or KSlack(), listens, publishes, frozenset(loose))
        nodes = {**self._nodes, name: node}
        cycle = _cycle_through(node, nodes)
        if cycle:
            raise HierarchyError(
                f"{where} closes a cycle: {' -> '.join(cycle)}; events in a cycle have no order"
            )
        self._nodes = nodes
        return self

    def check(self) -> None:
        """Raise if the hierarchy cannot run as it stands."""
        if not self._nodes:
            raise HierarchyError(f"hierarchy {self.name!r} has no detectors: add one")
        for type_ in self.clock:
            if self.types[type_]:
                raise HierarchyError(
                    f"clock type {type_!r} is published by detector {self.types[type_][0]!r}; the "
                    "clock can only follow source types"
                )
        if self.sources is None:
            return
        published = {type_ for node in self for type_ in node.publishes} | set(self.sources)
        for node in self:
            for type_ in node.listens:
                if type_ not in published:
                    raise HierarchyError(
                        f"detector {node.name!r} listens to {type_!r}, which nobody publishes; "
                        f"known types are {sorted(published)}"
                    )
        for type_ in self.clock:
            if type_ not in published:
                raise HierarchyError(
                    f"clock type {type_!r} is published by nobody; known types are "
                    f"{sorted(published)}"
                )

    def __iter__(self) -> Iterator[Node]:
        """The detectors, publishers before their subscribers."""
        for level in self.levels:
            for name in level:
                yield self._nodes[name]

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __getitem__(self, name: str) -> Node:
        try:
            return self._nodes[name]
        except KeyError:
            raise HierarchyError(
                f"no detector {name!r} in hierarchy {self.name!r}; it has {sorted(self._nodes)}"
            ) from None

    @property
    def levels(self) -> list[tuple[str, ...]]:
        """Detector names by level: the first listens to sources only, each next one to it."""
        publishers = self.types
        level_of: dict[str, int] = {}

        def level(name: str) -> int:
            if name not in level_of:
                below = (p for t in self._nodes[name].listens for p in publishers[t])
                level_of[name] = 1 + max((level(p) for p in below), default=-1)
            return level_of[name]

        levels: list[list[str]] = []
        for name in self._nodes:
            while len(levels) <= level(name):
                levels.append([])
            levels[level(name)].append(name)
        return [tuple(names) for names in levels]

    @property
    def types(self) -> dict[str, tuple[str, ...]]:
        """Every type with the detectors that publish it; none for a source type."""
        names = [*self.clock, *(self.sources or ())]
        for node in self._nodes.values():
            names += [*node.listens, *node.publishes]
        return {
            type_: tuple(n.name for n in self._nodes.values() if type_ in n.publishes)
            for type_ in dict.fromkeys(names)
        }

    @property
    def source_types(self) -> tuple[str, ...]:
        """The types that come from outside."""
        return tuple(type_ for type_, publishers in self.types.items() if not publishers)

    @property
    def clock_types(self) -> tuple[str, ...]:
        """The types that set the clock: those declared, or else every source type."""
        return self.clock or self.source_types

    def orderings(self, override: Ordering | Mapping[str, Ordering] | None) -> dict[str, Ordering]:
        """The policy of each detector, after a common one or a mapping by name replaced it."""
        if isinstance(override, Mapping):
            for name, ordering in override.items():
                self[name]
                _check_ordering(ordering, f"detector {name!r}: ordering")
            return {node.name: override.get(node.name, node.ordering) for node in self}
        if override is not None:
            _check_ordering(override, "ordering")
        return {node.name: override or node.ordering for node in self}

    def __repr__(self) -> str:
        return f"Hierarchy({self.name!r}, {len(self)} detectors on {len(self.levels)} levels)"


def _check_ordering(ordering: object, what: str) -> None:
    if not is_ordering(ordering):
        raise HierarchyError(
            f"{what} must be KSlack(...), Speculative(...), Punctuated() or Unordered(), "
            f"got {ordering!r}"
        )


def _type_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise HierarchyError(
            f"{where} must be a tuple of type names, got the str {names!r}; write ({names!r},)"
        )
    if not isinstance(names, Iterable):
        raise HierarchyError(f"{where} must be a tuple of type names, got {names!r}")
    result = []
    for name in names:
        if not isinstance(name, str) or not name:
            raise HierarchyError(f"{where} must hold non-empty type names, got {name!r}")
        result.append(str(name))
    return tuple(dict.fromkeys(result))


def _cycle_through(node: Node, nodes: Mapping[str, Node]) -> list[str]:
    """The names along a cycle that contains ``node``, or nothing."""
    came_from = {node.name: ""}
    frontier = [node]
    while frontier:
        current = frontier.pop()
        for following in nodes.values():
            if not set(current.publishes) & set(following.listens):
                continue
            if following.name == node.name:
                path = [node.name]
                while current.name != node.name:
                    path.append(current.name)
                    current = nodes[came_from[current.name]]
                return [node.name, *reversed(path)]
            if following.name not in came_from:
                came_from[following.name] = current.name
                frontier.append(following)
    return []
