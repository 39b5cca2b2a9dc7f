"""The local stream clock: time as the events tell it, never the wall clock's.

Theory of operation. ``clk`` follows the designated clock types only. With one type it is the
largest time seen of it. With several, their delays differ, and the plain maximum would run
ahead of what was measured before (the dilemma of setting one clock by types with different
delays). So the first clock type to arrive becomes the *reference*, and every other type is
placed relative to it: an event of type T that arrived between two reference events was delayed,
relative to the reference, by an amount between ``r_before - ts`` and ``r_after - ts``. The
smallest such lower bound over intervals that are tight (the reference was not silent) is the
least delay ``lead[T]`` of T; an arriving T then proves that the clock stands at
``ts + lead[T]`` at least. A type without a tight measurement does not move the clock.

A lead is an estimate, and a wrong one carries ``clk`` ahead of every event. Events then pass too
early, which repair puts right; but finality must not rest on it, so the clock also tells the
largest time really seen (``sure``).

One broken time stamp must not carry the clock away. An event more than ``jump_max`` ahead is
put into quarantine; only when three in a row agree on the new time, as after a real gap, is the
jump believed and the quarantined events are given back. The first event of all has nothing to
be compared with, so the clock starts when two clock events agree; whoever feeds it holds the
arrivals until then (``anchored``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackline.events import TS_MIN, IntArray

__all__ = ["StreamClock", "Ticks"]

NEVER = TS_MIN
AGREEING = 3
TIGHT = 4

KindArray = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Ticks:
    """What a run of clock rows did: ``clk[i]`` after the update that row ``rows[i]`` made."""

    rows: IntArray
    clk: IntArray
    sure: IntArray
    """The same, but not ahead of the largest time seen by then."""
    quarantined: IntArray
    released: bool


class StreamClock:
    """Derives ``clk`` from the rows of one or several clock types, given in arrival order."""

    def __init__(self, types: tuple[str, ...], jump_max: int) -> None:
        self.types = types
        self.jump_max = jump_max
        self.clk = NEVER
        self._highest = NEVER
        self._anchor: int | None = None
        self._ahead: list[int] = []
        self._reference: int | None = None
        self._first = self._count = 0
        self._r = NEVER
        self._lead: dict[int, int] = {}
        self._open: dict[int, int] = {}
        """Per type, the largest time since the last reference row."""

    @property
    def reference(self) -> str | None:
        """The type that the others are measured against, once there is one."""
        return None if self._reference is None else self.types[self._reference]

    @property
    def lead(self) -> dict[str, int]:
        """The least delay learnt for each type, relative to the reference."""
        return {self.types[kind]: lead for kind, lead in self._lead.items()}

    @property
    def highest(self) -> int:
        """The largest time seen."""
        return self._highest

    @property
    def sure(self) -> int:
        """The clock, but not ahead of the largest time seen."""
        return min(self.clk, self._highest)

    @property
    def anchored(self) -> bool:
        return self._anchor is not None

    def anchor(self, times: IntArray, at_end: bool = False) -> bool:
        """Try to start from the first clock times seen; True once two of them agree.

        ``at_end`` settles for what there is: the smallest, since waiting longer is always safe.
        """
        if self._anchor is None and len(times):
            ordered = np.sort(times)
            close = np.flatnonzero(np.diff(ordered) <= self.jump_max)
            if len(close):
                self._anchor = int(ordered[close[0]])
            elif at_end:
                self._anchor = int(ordered[0])
        return self.anchored

    def advance(self, ts: IntArray, kinds: KindArray | None = None) -> Ticks:
        """Take clock rows in arrival order; ``kinds`` indexes ``types`` (None: all the first)."""
        if not self.anchored:
            self.anchor(ts, at_end=True)
        rows = np.arange(len(ts))
        quarantined, released = rows[:0], False
        start = self._highest if self._highest != NEVER else self._anchor
        if len(ts) and start is not None:
            reached = np.maximum.accumulate(ts)
            steps = np.diff(reached, prepend=min(start, int(reached[0])))
            if self._ahead or steps.max() > self.jump_max or ts[0] > start + self.jump_max:
                accepted, released = self._inspect(ts, start)
                quarantined, rows = rows[~accepted], rows[accepted]
                ts, kinds = ts[rows], None if kinds is None else kinds[rows]
        sure = np.maximum.accumulate(np.maximum(ts, self._highest))
        if len(sure):
            self._highest = int(sure[-1])
        if len(self.types) == 1:
            clk = sure
        else:
            assert kinds is not None
            moves, clk = self._relate(ts, kinds)
            rows, clk, sure = rows[moves], clk[moves], sure[moves]
            clk = np.maximum.accumulate(np.maximum(clk, self.clk))
            sure = np.minimum(sure, clk)
        if len(clk):
            self.clk = int(clk[-1])
        return Ticks(rows, clk, sure, quarantined, released)

    def _inspect(self, ts: IntArray, start: int) -> tuple[npt.NDArray[np.bool_], bool]:
        """Tell absurd jumps from a real gap, row by row."""
        accepted = np.ones(len(ts), dtype=bool)
        released = False
        clk = start
        for i, t in enumerate(ts.tolist()):
            if t <= clk + self.jump_max:
                clk = max(clk, t)
                self._ahead.clear()
                continue
            if self._ahead and abs(t - self._ahead[-1]) > self.jump_max:
                self._ahead.clear()
            self._ahead.append(t)
            if len(self._ahead) < AGREEING:
                accepted[i] = False
                continue
            clk = max(self._ahead)
            self._ahead.clear()
            released = True
        return accepted, released

    def _relate(self, ts: IntArray, kinds: KindArray) -> tuple[npt.NDArray[np.bool_], IntArray]:
        """Which rows move the clock, and where each puts it, learning the leads on the way."""
        if not len(ts):
            return np.zeros(0, dtype=bool), ts
        if self._reference is None:
            self._reference = int(kinds[0])
            self._first = int(ts[0])
        is_ref = kinds == self._reference
        r = np.maximum.accumulate(np.where(is_ref, ts, NEVER))
        r = np.maximum(r, self._r)
        count = self._count + np.cumsum(is_ref)
        refs = np.flatnonzero(is_ref)
        clk = np.where(is_ref, ts, NEVER)
        moves = is_ref.copy()
        for kind in np.unique(kinds[~is_ref]).tolist() + [k for k in self._open if k not in kinds]:
            mine = np.flatnonzero(kinds == kind)
            lead = np.full(len(ts), self._lead.get(kind, -NEVER))
            closing = np.searchsorted(refs, mine)
            closed = closing < len(refs)
            times, before, at = ts[mine[closed]], r[mine[closed]], refs[closing[closed]]
            if kind in self._open and len(refs):
                times = np.append(times, self._open.pop(kind))
                before, at = np.append(before, self._r), np.append(at, refs[0])
            if len(at):
                gap = (r[at] - self._first) / np.maximum(count[at] - 1, 1)
                tight = (before != NEVER) & (r[at] - before <= TIGHT * gap)
                np.minimum.at(lead, at[tight], (before - times)[tight])
                lead = np.minimum.accumulate(lead)
            if not closed.all():
                latest = int(ts[mine[~closed]].max())
                self._open[kind] = max(latest, self._open.get(kind, NEVER))
            if lead[-1] != -NEVER:
                self._lead[kind] = int(lead[-1])
            known = mine[lead[mine] != -NEVER]
            clk[known] = ts[known] + lead[known]
            moves[known] = True
        self._r, self._count = int(r[-1]), int(count[-1])
        return moves, clk
