"""The events of one cell that came one by one: what detectors below it published."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from slackline.events import Event, Key

__all__ = ["Inbox"]

Name = tuple[str, str, int]


class Inbox:
    """Events sorted by place; each can be taken back by its name until it is purged."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._events: list[Event] = []
        self._updates: list[int] = []
        self._revs: dict[Name, tuple[int, Key]] = {}
        self._highest: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def insert(self, event: Event, rev: int, key: Key, update: int) -> bool:
        """Put an event at its place; False if this or a later revision of it is there already."""
        known = self._revs.get(event.name)
        if known is not None:
            if known[0] >= rev:
                return False
            self._remove_at(known[1])
        self._revs[event.name] = (rev, key)
        kind = (event.publisher, event.type)
        self._highest[kind] = max(event.seq, self._highest.get(kind, 0))
        if not self._keys or key > self._keys[-1]:
            place = len(self._keys)
        else:
            place = bisect_right(self._keys, key)
        self._keys.insert(place, key)
        self._events.insert(place, event)
        self._updates.insert(place, update)
        return True

    def remove(self, event: Event, rev: int) -> Key | None:
        """Take an event back; returns the place it had, or None if this revision is not here."""
        known = self._revs.get(event.name)
        if known is None or known[0] != rev:
            return None
        del self._revs[event.name]
        self._remove_at(known[1])
        return known[1]

    def remove_above(self, publisher: str, type_: str, seq: int) -> list[Key]:
        """Take back every event of a publisher with a number above ``seq``; the places it had."""
        places = []
        for number in range(seq + 1, self._highest.get((publisher, type_), 0) + 1):
            known = self._revs.pop((publisher, type_, number), None)
            if known is not None:
                self._remove_at(known[1])
                places.append(known[1])
        self._highest[publisher, type_] = seq
        return places

    def between(self, after: Key, upto: Key) -> tuple[list[Key], list[Event], list[int]]:
        """Places, events and update numbers behind ``after`` up to and with ``upto``."""
        if not self._keys or self._keys[-1] <= after:
            return [], [], []
        part = slice(bisect_right(self._keys, after), bisect_right(self._keys, upto))
        return self._keys[part], self._events[part], self._updates[part]

    def first_after(self, after: Key) -> int | None:
        """The time of the first event behind ``after``."""
        place = bisect_right(self._keys, after)
        return self._events[place].ts if place < len(self._keys) else None

    def purge(self, key: Key) -> None:
        """Forget everything up to and with ``key``."""
        count = bisect_right(self._keys, key)
        if count:
            for event in self._events[:count]:
                self._revs.pop(event.name, None)
            del self._keys[:count], self._events[:count], self._updates[:count]

    def _remove_at(self, key: Key) -> None:
        place = bisect_left(self._keys, key)
        del self._keys[place], self._events[place], self._updates[place]
