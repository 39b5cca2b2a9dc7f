"""Who kicked the ball, and was it a pass: a small hierarchy over positions on a soccer pitch.

    position -> proximity -> near, not_near -> hit -> pass, lost
             -> peak ------> peak ----------->

A player hits the ball when the ball comes near, does not leave, and is then accelerated. It is a
pass when a team mate hits it next. Each detector is written as if positions came in order; on
the wire nine in ten of them do not.

The unit is the microsecond: the ball is seen every half millisecond. Positions are whole
millimetres, so distances compare exactly, in columns as well as one by one.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
import numpy.typing as npt

from slackline.automaton import Automaton
from slackline.detector import BatchEmit, Detector, Emit
from slackline.events import Event, EventBatch
from slackline.examples.game import BALL, LIMBS, PLAYERS, disordered, game, team_of
from slackline.hierarchy import Hierarchy

__all__ = [
    "BallAcceleration",
    "Passing",
    "PlayerHitsBall",
    "Proximity",
    "disordered",
    "game",
    "hierarchy",
]

Ints = npt.NDArray[np.int64]

NEAR_MM, LEFT_MM = 1_000, 1_200
"""The ball is near within the first and gone beyond the second; between them nothing changes."""
FILTER = 10
PEAK_MM_S2 = 55_000
"""The mean of so many accelerations of the ball makes a peak from here on: 55 m/s²."""
PEAK_LASTS_US = 40_000
GAP_US = 2_000
"""When the ball was not seen for longer, a mean over before and after would say nothing."""
PASS_WITHIN_US = 5_000_000
FAR_MM = -100_000_000
"""Where a transmitter is before it was heard; the ball is as far away on the other side."""


class Proximity(Detector):
    """Says when the ball comes near one of a player's limbs, and when it has left all of them."""

    listens = ("position",)
    publishes = ("near", "not_near")
    backset_max = 0

    def __init__(self) -> None:
        self.ball = (-FAR_MM, -FAR_MM, -FAR_MM)
        self.limbs = [(FAR_MM, FAR_MM, FAR_MM)] * (LIMBS * (PLAYERS + 1))
        self.near = [False] * (PLAYERS + 1)

    def on_event(self, event: Event, emit: Emit) -> None:
        data = event.data
        sid, place = data["sid"], (data["x"], data["y"], data["z"])
        if sid == BALL:
            self.ball = place
            for player in self._close(place[0]):
                self._look(player, event.ts, emit)
        elif sid < len(self.limbs):
            self.limbs[sid] = place
            player = sid // LIMBS
            if self.near[player] or abs(place[0] - self.ball[0]) < NEAR_MM:
                self._look(player, event.ts, emit)

    def _close(self, x: int) -> list[int]:
        """The players worth a look when the ball is at ``x``."""
        low, high = x - NEAR_MM, x + NEAR_MM
        found = {i // LIMBS for i, limb in enumerate(self.limbs) if low < limb[0] < high}
        return sorted(found.union(player for player, near in enumerate(self.near) if near))

    def _look(self, player: int, ts: int, emit: Emit) -> None:
        x, y, z = self.ball
        limbs = self.limbs[LIMBS * player : LIMBS * (player + 1)]
        square = min((a - x) ** 2 + (b - y) ** 2 + (c - z) ** 2 for a, b, c in limbs)
        if square > LEFT_MM**2 if self.near[player] else square < NEAR_MM**2:
            self._change(player, ts, square, emit)

    def _change(self, player: int, ts: int, square: int, emit: Emit) -> None:
        self.near[player] = not self.near[player]
        type_ = "near" if self.near[player] else "not_near"
        emit(type_, ts, player=player, mm=isqrt(square))

    def on_batch(self, batch: EventBatch, emit: BatchEmit) -> None:
        sid = batch.columns["sid"]
        place = np.stack([batch.columns[axis] for axis in "xyz"], axis=1)
        ball = _carried(sid == BALL, place, self.ball)
        players = self._concerned(sid, place, ball)
        if len(players):
            limbs = (LIMBS * players[:, None] + np.arange(LIMBS)).ravel()
            paths = [_carried(sid == limb, place, self.limbs[limb]) for limb in limbs.tolist()]
            squares = ((np.stack(paths, axis=1) - ball[:, None]) ** 2).sum(axis=2)
            nearest = squares.reshape(len(sid), len(players), LIMBS).min(axis=2)
            before = np.array([[self.near[player] for player in players.tolist()]])
            near = _held(before, nearest < NEAR_MM**2, nearest > LEFT_MM**2)
            rows, columns = np.nonzero(np.diff(np.concatenate([before, near]), axis=0))
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
                square = int(nearest[row, column])
                self._change(int(players[column]), int(batch.ts[row]), square, emit.at(row))
        self.ball = tuple(ball[-1].tolist())
        last = dict(zip(sid.tolist(), place.tolist(), strict=True))
        for limb, where in last.items():
            if BALL != limb < len(self.limbs):
                self.limbs[limb] = tuple(where)

    def _concerned(self, sid: Ints, place: Ints, ball: Ints) -> Ints:
        """The players who have the ball near, or have a limb in the box it moves through."""
        low, high = ball.min(axis=0) - NEAR_MM, ball.max(axis=0) + NEAR_MM
        inside = ((place > low) & (place < high)).all(axis=1) & (sid != BALL)
        known = np.array(self.limbs)
        inside_before = ((known > low) & (known < high)).all(axis=1)
        limbs = np.concatenate([sid[inside], np.flatnonzero(inside_before)])
        found = np.concatenate([limbs // LIMBS, np.flatnonzero(self.near)])
        return np.unique(found[found <= PLAYERS])


class BallAcceleration(Detector):
    """Publishes the peaks in the ball's acceleration, each dated back to where it was highest.

    A mean over ten values tells a kick from noise, so a peak is known only when it has passed.
    """

    listens = ("position",)
    publishes = ("peak",)
    backset_max = PEAK_LASTS_US + GAP_US

    def __init__(self) -> None:
        self.recent: list[tuple[int, int]] = []
        self.highest: tuple[int, int] | None = None

    def on_event(self, event: Event, emit: Emit) -> None:
        if event.data["sid"] == BALL:
            self._add(event.ts, event.data["a"], emit)

    def _add(self, ts: int, a: int, emit: Emit) -> None:
        if self.recent and ts - self.recent[-1][0] > GAP_US:
            self.recent, self.highest = [], None
        self.recent = [*self.recent[1 - FILTER :], (ts, a)]
        if sum(value for _, value in self.recent) >= FILTER * PEAK_MM_S2:
            if self.highest is None:
                self.highest = max(self.recent, key=lambda entry: entry[1])
            elif a > self.highest[1]:
                self.highest = (ts, a)
            if ts - self.highest[0] < PEAK_LASTS_US:
                return
        if self.highest is not None:
            emit("peak", self.highest[0], a=self.highest[1])
            self.highest = None

    def on_batch(self, batch: EventBatch, emit: BatchEmit) -> None:
        rows = np.flatnonzero(batch.columns["sid"] == BALL)
        ts, a = batch.ts[rows].tolist(), batch.columns["a"][rows].tolist()
        known = [*self.recent, *zip(ts, a, strict=True)]
        if self.highest is None and _quiet(known):
            self.recent = known[-FILTER:]
            return
        for row, when, value in zip(rows.tolist(), ts, a, strict=True):
            self._add(when, value, emit.at(row))


class PlayerHitsBall(Automaton):
    """Near, then not left, then a peak: the player who came last is the one who hit the ball."""

    listens = ("near", "not_near", "peak")
    publishes = ("hit",)
    backset_max = 0

    def __init__(self) -> None:
        super().__init__()
        self.players: list[int] = []
        free = self.state("free", entry=self.count)
        close = self.state("close", entry=self.count)
        struck = self.state("struck", entry=self.strike)
        self.connect(free, close, "near")
        for state in (close, struck):
            self.connect(state, close, "near")
            self.connect(state, free, "not_near", guard=self.leaves_last)
            self.connect(state, close, "not_near")
            self.connect(state, struck, "peak")

    def count(self, event: Event, emit: Emit) -> None:
        player = event.data["player"]
        if event.type == "near":
            self.players.append(player)
        else:
            self.players.remove(player)

    def leaves_last(self, event: Event) -> bool:
        return self.players == [event.data["player"]]

    def strike(self, event: Event, emit: Emit) -> None:
        player = self.players[-1]
        emit("hit", event.ts, player=player, team=team_of(player), a=event.data["a"])


class Passing(Detector):
    """A hit of one player and then of another: a pass inside a team, a loss otherwise."""

    listens = ("hit",)
    publishes = ("pass", "lost")
    backset_max = 0

    def __init__(self) -> None:
        self.last: Event | None = None

    def on_event(self, event: Event, emit: Emit) -> None:
        last, self.last = self.last, event
        if last is None or event.ts - last.ts > PASS_WITHIN_US:
            return
        if event.data["player"] != last.data["player"]:
            type_ = "pass" if event.data["team"] == last.data["team"] else "lost"
            players = {"by": last.data["player"], "to": event.data["player"]}
            emit(type_, event.ts, **players, kicked=last.ts)


def hierarchy() -> Hierarchy:
    """Positions to hits to passes, on three levels."""
    return (
        Hierarchy("soccer", clock=("position",), unit="us", sources=("position",))
        .add("proximity", Proximity())
        .add("peak", BallAcceleration())
        .add("hit", PlayerHitsBall())
        .add("pass", Passing())
    )


def _quiet(known: list[tuple[int, int]]) -> bool:
    """Whether the filter, run over these times and values, would meet neither peak nor gap."""
    if not known:
        return True
    ts, a = np.array(known).T
    sums = np.convolve(a, np.ones(FILTER, dtype=np.int64))
    return bool((sums < FILTER * PEAK_MM_S2).all() and (np.diff(ts) <= GAP_US).all())


def _carried(mine: npt.NDArray[np.bool_], place: Ints, before: tuple[int, ...]) -> Ints:
    """Where a transmitter is at each row: as of its own last row, at first as before."""
    last = np.maximum.accumulate(np.where(mine, np.arange(1, len(mine) + 1), 0))
    carried: Ints = np.concatenate([[before], place])[last]
    return carried


def _held(
    before: npt.NDArray[np.bool_], on: npt.NDArray[np.bool_], off: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Down each column: true since ``on``, false since ``off``, else what it was."""
    states = np.concatenate([before, on])
    sets = np.concatenate([np.ones_like(before), on | off])
    last = np.maximum.accumulate(np.where(sets, np.arange(len(sets))[:, None], 0), axis=0)
    return np.take_along_axis(states, last, axis=0)[1:]
