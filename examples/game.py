"""A synthetic soccer game as a locating system reports it: positions in packets, then late.

The set-up is that of a large stadium installation: four transmitters on each of 22 players and
3 referees at 200 Hz, one in the ball at 2,000 Hz, 22,000 positions a second in all. Transmitter
0 is the ball, ``4 * wearer + limb`` a limb of wearer 1 to 25; 1 to 11 and 12 to 22 are the two
teams. Times are microseconds, since the ball's period of half a millisecond is no whole number
of milliseconds; lengths are millimetres.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackline.events import EventBatch

__all__ = [
    "BALL",
    "LIMBS",
    "PLAYERS",
    "disordered",
    "game",
    "in_order",
    "share_disordered",
    "team_of",
]

Floats = npt.NDArray[np.float64]

BALL, LIMBS, PLAYERS, REFEREES = 0, 4, 22, 3
BALL_HZ, LIMB_HZ, PACKET = 2_000, 200, 10
SECOND = 1_000_000

WIDTH_M = 40.0
"""Of the strip in which play goes on."""
AT_FOOT_M, TOUCH_M = 0.35, 0.3
"""How far ahead of its player the ball is when touched, and how much further it rolls then."""
CONTACT_SAMPLES = 17
"""A foot is on the ball for some eight milliseconds."""
LIMB_M = np.array([[-0.15, 0, 0.1], [0.15, 0, 0.1], [-0.35, 0, 1.1], [0.35, 0, 1.1]])
LIMB_NAMES = ("left-foot", "right-foot", "left-hand", "right-hand")
ROWS_M = ((-42, 1), (-20, 4), (-8, 4), (3, 2))
"""A team's rows from its own goal on: distance from the centre line, number of players."""


def team_of(player: int) -> str:
    """The team of a wearer: ``A``, ``B``, or ``R`` for a referee."""
    return "A" if player <= PLAYERS // 2 else "B" if player <= PLAYERS else "R"


@dataclass(frozen=True, slots=True)
class _People:
    """Everybody on the pitch: a place each, and a walk around it made of slow waves."""

    home: Floats
    reach: Floats
    rate: Floats
    phase: Floats

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> _People:
        own = [(x, i, n) for x, n in ROWS_M for i in range(n)]
        half = [(float(x), WIDTH_M * ((i + 0.5) / n - 0.5)) for x, i, n in own]
        home = np.array([*half, *((-x, -y) for x, y in half), (0, 16), (-20, 33), (20, -33)])
        waves = (len(home), 2, 3)
        reach = rng.uniform(0.5, 1.0, waves) * np.array([5.0, 2.0, 0.6])
        rate = rng.uniform(0.7, 1.3, waves) * 2 * np.pi / np.array([19.0, 7.0, 3.0])
        return cls(home, reach, rate, rng.uniform(0, 2 * np.pi, waves))

    def at(self, wearer: int, t: Floats) -> Floats:
        """Where someone is at some times: rows of x and y, in metres."""
        who = wearer - 1
        waves = np.sin(self.rate[who] * t[:, None, None] + self.phase[who])
        walk: Floats = self.home[who] + (self.reach[who] * waves).sum(axis=2)
        return walk


@dataclass(frozen=True, slots=True)
class _Possession:
    """A player has the ball at his feet, on the side of the team mate or rival who gets it next."""

    player: int
    start: float
    end: float
    receiver: int
    ahead: Floats

    @classmethod
    def drawn(
        cls, people: _People, player: int, start: float, rng: np.random.Generator
    ) -> _Possession:
        end = start + float(rng.uniform(0.6, 1.8))
        mates = rng.random() < 0.7
        others = [
            other
            for other in range(1, PLAYERS + 1)
            if other != player and (team_of(other) == team_of(player)) == mates
        ]
        away = np.array([_metres(people, player, other, end) for other in others])
        near = np.argsort(away)[: 5 if mates else 2]
        receiver = others[int(rng.choice(near))]
        at = np.array([start])
        ahead = people.at(receiver, at)[0] - people.at(player, at)[0]
        return cls(player, start, end, receiver, ahead / np.hypot(*ahead))

    def place(self, people: _People, t: Floats) -> Floats:
        """Where the ball is: it rolls on after each touch until the player catches up."""
        touches = max(1, round((self.end - self.start) / 0.7))
        rolled = (t - self.start) / (self.end - self.start) * touches % 1.0
        gap = AT_FOOT_M + TOUCH_M * 4 * rolled * (1 - rolled)
        place: Floats = people.at(self.player, t) + gap[:, None] * self.ahead
        return place


def game(seconds: float, seed: int) -> list[EventBatch]:
    """The positions of a game, in packets of ten, by the time at which each packet is complete."""
    rng = np.random.default_rng(seed)
    people = _People.drawn(rng)
    batches = _packets("ball", BALL, *_ball(people, seconds, rng))
    for wearer in range(1, PLAYERS + REFEREES + 1):
        stride = rng.uniform(0, 2 * np.pi)
        for limb, name in enumerate(LIMB_NAMES):
            sid = LIMBS * wearer + limb
            ts = np.arange(sid * 37 % 5000, round(seconds * SECOND), SECOND // LIMB_HZ)
            t = ts / SECOND
            place = np.zeros((len(t), 3))
            place[:, :2] = people.at(wearer, t)
            place += LIMB_M[limb]
            place[:, 1] += 0.25 * np.sin(2 * np.pi * 1.4 * t + stride + np.pi * limb)
            motion, change = _derived(place, LIMB_HZ)
            noisy = place + rng.normal(0, 0.01, place.shape)
            publisher = f"{team_of(wearer)}{wearer}.{name}"
            batches += _packets(publisher, sid, ts, noisy, motion, change)
    return sorted(batches, key=lambda batch: int(batch.ts[-1]))


def disordered(batches: list[EventBatch], seed: int) -> list[EventBatch]:
    """The packets in the order in which a busy network delivers them.

    The ball has priority: its packets take less than 5 ms. All others take 5 to 100 ms, most of
    them little, some much, and in bursts, when the locating system is busy, all of them much.
    Packets of one transmitter stay in order. Packing ten positions adds up to 45 ms.
    """
    rng = np.random.default_rng(seed)
    complete = np.array([int(batch.ts[-1]) for batch in batches], dtype=np.int64)
    end = int(complete.max(initial=0))
    bursts = np.sort(rng.uniform(0, end + 1, 1 + end // (3 * SECOND)))
    since = complete - bursts[np.maximum(np.searchsorted(bursts, complete) - 1, 0)]
    busy = np.where((since >= 0) & (since < 0.3 * SECOND), rng.uniform(20, 80, len(since)), 0)
    usual = np.minimum(5 + rng.pareto(1.5, len(batches)) * 6, 100)
    late_ms = np.minimum(usual + busy, 100)
    quick = np.array([batch.publisher == "ball" for batch in batches], dtype=bool)
    late_ms[quick] = rng.uniform(0.3, 4.5, int(quick.sum()))
    arrives = complete + (late_ms * 1000).astype(np.int64)
    last: dict[str, int] = {}
    for i, batch in enumerate(batches):
        name = str(batch.publisher)
        arrives[i] = last[name] = max(int(arrives[i]), last.get(name, 0))
    return [batches[i] for i in np.argsort(arrives, kind="stable").tolist()]


def in_order(batches: list[EventBatch]) -> EventBatch:
    """Everything in one batch, in total order."""
    names = sorted({str(batch.publisher) for batch in batches})
    number = {name: i for i, name in enumerate(names)}
    sizes = [len(batch) for batch in batches]
    codes = np.repeat([number[str(batch.publisher)] for batch in batches], sizes).astype(np.int32)
    ts = np.concatenate([batch.ts for batch in batches])
    seq = np.concatenate([batch.seq for batch in batches])
    order = np.lexsort((seq, codes, ts))
    columns = {
        name: np.concatenate([batch.columns[name] for batch in batches])[order]
        for name in batches[0].columns
    }
    return EventBatch.merged("position", ts[order], columns, codes[order], names, seq[order])


def share_disordered(batches: list[EventBatch]) -> float:
    """The share of events that arrive behind a later one."""
    ts = np.concatenate([batch.ts for batch in batches])
    return float(np.mean(ts < np.maximum.accumulate(ts)))


def _ball(
    people: _People, seconds: float, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
    """Times, positions, velocities and accelerations of the ball, in metres and seconds."""
    ts = np.arange(0, round(seconds * SECOND), SECOND // BALL_HZ)
    t = ts / SECOND
    place = np.zeros((len(t), 3))
    place[:, 2] = 0.11
    held = _Possession.drawn(people, int(rng.integers(6, 12)), -float(rng.random()), rng)
    while held.start < seconds:
        now = slice(*np.searchsorted(t, [held.start, held.end]))
        place[now, :2] = held.place(people, t[now])
        metres = _metres(people, held.player, held.receiver, held.end)
        caught = held.end + max(metres / float(rng.uniform(12, 20)), 0.4)
        then = _Possession.drawn(people, held.receiver, caught, rng)
        leaves = held.place(people, np.array([held.end]))
        comes = then.place(people, np.array([caught]))
        now = slice(*np.searchsorted(t, [held.end, caught]))
        u = (t[now] - held.end) / (caught - held.end)
        place[now, :2] = leaves + (comes - leaves) * (u * (1.3 - 0.3 * u))[:, None]
        if metres > 18:
            place[now, 2] += _lob(u, metres / 7)
        held = then
    motion, change = _derived(place, BALL_HZ, CONTACT_SAMPLES)
    return ts, place + rng.normal(0, 0.01, place.shape), motion, change


def _metres(people: _People, one: int, other: int, t: float) -> float:
    at = np.array([t])
    return float(np.hypot(*(people.at(one, at) - people.at(other, at))[0]))


def _lob(u: Floats, height: float) -> Floats:
    """Two hops, the second one low; the bounce between them is a peak that nobody has kicked."""
    first = 4 * height * (u / 0.8) * (1 - u / 0.8)
    second = height * ((u - 0.8) / 0.2) * (1 - (u - 0.8) / 0.2) / 5
    hops: Floats = np.where(u < 0.8, first, second)
    return hops


def _derived(place: Floats, hz: int, smoothing: int = 1) -> tuple[Floats, Floats]:
    """Velocity and acceleration along a path, smoothed as a foot or a filter would."""
    if len(place) < 2:
        return 0 * place, 0 * place
    motion = np.gradient(place, 1 / hz, axis=0)
    window = np.hanning(smoothing + 2)[1:-1]
    window /= window.sum()
    for axis in range(3):
        known = np.pad(motion[:, axis], smoothing // 2, mode="edge")
        motion[:, axis] = np.convolve(known, window, mode="valid")
    return motion, np.gradient(motion, 1 / hz, axis=0)


def _packets(
    publisher: str,
    sid: int,
    ts: npt.NDArray[np.int64],
    place: Floats,
    motion: Floats,
    change: Floats,
) -> list[EventBatch]:
    """One transmitter's positions as batches of ten, in millimetres."""
    columns = {
        "sid": np.full(len(ts), sid),
        **{axis: _mm(place[:, i]) for i, axis in enumerate("xyz")},
        "v": _mm(np.linalg.norm(motion, axis=1)),
        "a": _mm(np.linalg.norm(change, axis=1)),
    }
    everything = EventBatch("position", ts, columns, publisher, np.arange(1, len(ts) + 1))
    return [everything[i : i + PACKET] for i in range(0, len(ts), PACKET)]


def _mm(metres: Floats) -> npt.NDArray[np.int64]:
    return np.rint(metres * 1000).astype(np.int64)
