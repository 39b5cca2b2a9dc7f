"""The ordered input of one cell: slices of the shared tapes, merged with its own inbox."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from slackline.events import Event, IntArray, Key
from slackline.inbox import Inbox
from slackline.tape import Rows, Tape

__all__ = ["Input", "Piece"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Inputs in total order: rows of one type, or events of any. ``places``: where not by key."""

    rows: Rows | None
    events: list[Event]
    places: list[Key] | None
    updates: IntArray

    def __len__(self) -> int:
        return len(self.updates)

    @property
    def ts(self) -> IntArray:
        if self.rows is not None:
            return self.rows.ts
        return np.array([event.ts for event in self.events], dtype=np.int64)

    def place(self, row: int) -> Key:
        if self.rows is not None:
            return self.rows.key(row)
        return self.places[row] if self.places is not None else self.events[row].key

    @property
    def last_place(self) -> Key:
        return self.place(len(self) - 1)


class Input:
    """Everything a detector is given or may be given again, by place."""

    def __init__(self, listens: tuple[str, ...], tapes: dict[str, Tape], in_columns: bool) -> None:
        self.tapes = tapes
        self.inbox = Inbox()
        self._in_columns = in_columns
        self._rank = {type_: i for i, type_ in enumerate(sorted(listens))}
        self._excluded: dict[str, dict[tuple[str, int], int]] = {}

    def exclude(self, event: Event) -> None:
        """Keep a row of a tape from this cell; others may still use it."""
        excluded = self._excluded.setdefault(event.type, {})
        excluded[event.publisher, event.seq] = event.ts

    def advance(self, ts: int) -> None:
        """See to it that everything received up to ``ts`` can be read."""
        for tape in self.tapes.values():
            tape.advance(ts)

    def first_after(self, place: Key) -> int | None:
        """The time of the first event that waits behind ``place``."""
        times = [tape.waiting_from() for tape in self.tapes.values()]
        times.append(self.inbox.first_after(place))
        return min((ts for ts in times if ts is not None), default=None)

    def purge(self, place: Key) -> None:
        """Forget what lies up to ``place``; the tapes are purged by their host."""
        self.inbox.purge(place)
        for excluded in self._excluded.values():
            for name in [name for name, ts in excluded.items() if ts < place.ts]:
                del excluded[name]

    def between(self, after: Key, upto: Key) -> list[Piece]:
        """Everything behind ``after`` up to and with ``upto``, in total order."""
        stretches: list[Rows] = []
        types = 0
        for type_, tape in self.tapes.items():
            slices = tape.between(after, upto)
            excluded = self._excluded.get(type_)
            if excluded:
                slices = [kept for rows in slices if len(kept := _without(rows, excluded))]
            stretches += slices
            types += bool(slices)
        places, events, updates = self.inbox.between(after, upto)
        numbers = np.array(updates, dtype=np.int64)
        if not stretches:
            return [Piece(None, events, places, numbers)] if events else []
        if types == 1 and not events:
            return [Piece(rows, [], None, rows.update) for rows in stretches]
        if any(place.nth for place in places):
            return [_merged_by_place(stretches, Piece(None, events, places, numbers))]
        return self._merged(stretches, events, numbers)

    def _merged(self, stretches: list[Rows], events: list[Event], numbers: IntArray) -> list[Piece]:
        """Merge by time and type; what shares both comes from one stretch and keeps its order."""
        parts = [(rows.ts, np.full(len(rows), self._rank[rows.tape.type])) for rows in stretches]
        if events:
            parts.append(
                (
                    np.array([event.ts for event in events], dtype=np.int64),
                    np.array([self._rank[event.type] for event in events]),
                )
            )
        ts = np.concatenate([part[0] for part in parts])
        order = np.lexsort((np.concatenate([part[1] for part in parts]), ts))
        updates = np.concatenate([*(rows.update for rows in stretches), numbers])[order]
        if not self._in_columns:
            everything = [event for rows in stretches for event in rows.events] + events
            return [Piece(None, [everything[i] for i in order.tolist()], None, updates)]
        owner = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])[order]
        cuts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
        taken = [0] * len(parts)
        pieces = []
        for begin, end in itertools.pairwise(cuts):
            which = int(owner[begin])
            part = slice(taken[which], taken[which] + end - begin)
            taken[which] = part.stop
            if which == len(stretches):
                pieces.append(Piece(None, events[part], None, updates[begin:end]))
            else:
                pieces.append(Piece(stretches[which][part], [], None, updates[begin:end]))
        return pieces


def _merged_by_place(stretches: list[Rows], singles: Piece) -> Piece:
    """Merge by full places, for when unordered events lie among the others."""
    assert singles.places is not None
    everything = list(zip(singles.places, singles.events, singles.updates.tolist(), strict=True))
    for rows in stretches:
        everything += [
            (event.key, event, update)
            for event, update in zip(rows.events, rows.update.tolist(), strict=True)
        ]
    everything.sort(key=lambda entry: entry[0])
    return Piece(
        None,
        [event for _, event, _ in everything],
        [place for place, _, _ in everything],
        np.array([update for _, _, update in everything], dtype=np.int64),
    )


def _without(rows: Rows, excluded: dict[tuple[str, int], int]) -> Rows:
    names = rows.tape.names
    keep = np.array(
        [
            (names[code], seq) not in excluded
            for code, seq in zip(rows.codes.tolist(), rows.seq.tolist(), strict=True)
        ],
        dtype=bool,
    )
    return rows if keep.all() else rows.take(keep)
