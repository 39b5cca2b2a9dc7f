"""The ordering unit of a cell: how far its events may pass, and how far its past is settled.

Theory of operation. Along a step, for every clock update j, in columns:

    clk[j]      the clock
    K[j]        the slack after the delays measured up to update j, and not below what the
                publishers announced
    stable[j]   the running maximum of clk - horizon, held down by the publishers' promises.
                Nothing before it changes any more; an event that arrives behind it is late
    reach[j]    the running maximum of clk - K, and of what is stable: events up to it pass

This gives, for any way of cutting the arrivals into steps, what the algorithm that looks at one
arrival at a time would do. A K that grows does not call back what has passed: an event that
arrives behind ``reach`` passes at once, since holding it could not restore the order any more,
and the cell repairs its past instead.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from slackline.events import TS_MAX, TS_MIN, IntArray
from slackline.hierarchy import Node
from slackline.messages import Add, Retract
from slackline.policy import KSlack, Ordering, Punctuated, Unordered
from slackline.slack import Slack
from slackline.stats import Summary
from slackline.step import Along, Arrived, Step

__all__ = ["OrderingUnit", "View"]

WINDOW_SECONDS = 10
K_HISTORY_MAX = 4096

Said = dict[tuple[str, str], Along]
"""What publishers say of their types, by ``(publisher, type)``; a source's publisher is ""."""


@dataclass(frozen=True, slots=True)
class View:
    """The columns of one step; ``stable`` has one more entry in front, from before the step."""

    step: Step
    k: IntArray
    stable: IntArray
    stable_now: int
    reach: IntArray
    reach_before: int
    reach_now: int

    def stable_at(self, update: int) -> int:
        """The stable mark that an event found when it arrived before this update."""
        place = update - self.step.before - 1
        return int(self.stable[min(max(place, 0), len(self.stable) - 1)])

    def passed(self, ts: IntArray, updates: IntArray) -> IntArray:
        """At which update each event passed, given the one that measured it."""
        place = np.searchsorted(self.reach, ts, side="left") + 1
        place = np.where(ts <= self.reach_before, 0, place) + self.step.before
        return np.minimum(np.maximum(place, updates), self.step.last)


class OrderingUnit:
    """Learns K for one detector and draws the lines ``reach`` and ``stable``."""

    def __init__(
        self,
        node: Node,
        ordering: Ordering,
        second: int,
        publishers: dict[str, tuple[str, ...]],
        jump_max: int,
        start_k: int = 0,
    ) -> None:
        settings = Punctuated() if isinstance(ordering, Unordered) else ordering
        self.ordering = ordering
        self.loose = frozenset(node.listens) if isinstance(ordering, Unordered) else node.unordered
        self.factor = settings.factor
        self.horizon_min = settings.horizon_floor(second)
        self.stable = TS_MIN
        self.reach = TS_MIN
        self.delays = {type_: Summary() for type_ in node.listens}
        self.k_history: deque[tuple[int, int]] = deque(maxlen=K_HISTORY_MAX)
        self._fixed = ordering.k if isinstance(ordering, KSlack) else None
        window = settings.window or WINDOW_SECONDS * second
        self._slack = Slack(int(window), settings.margin, self._fixed, start_k)
        self._jump_max = jump_max
        self._floors: dict[tuple[str, str], int] = {}
        self._unmeasured: list[tuple[str, int]] = []
        self._marks = {
            (publisher, type_): TS_MIN
            for type_ in node.listens
            for publisher in publishers[type_] or ("",)
        }
        self._come = {type_: TS_MIN for _, type_ in self._marks}
        """How far each type was stable while it lasted."""
        self.k = self._slack.k

    def advance(
        self,
        step: Step,
        arrived: dict[str, Arrived],
        messages: list[Add | Retract],
        promises: Said,
        announced: Said,
    ) -> View:
        """Work out the columns of a step."""
        k = self._learn(step, arrived, messages, announced)
        stable, stable_now = self._settle(step, k, promises)
        reach_before = self.reach
        reach = stable[1:] - 1
        if isinstance(self.ordering, KSlack):
            reach = np.maximum(reach, step.clk - k[1:])
        reach = np.maximum.accumulate(np.maximum(reach, self.reach))
        self.reach = max(self.reach, stable_now - 1, *reach[-1:].tolist())
        self.stable = stable_now
        return View(step, k, stable, stable_now, reach, reach_before, self.reach)

    def waiting(self, clock: tuple[str, ...], clk: int, since: int | None) -> dict[str, int | None]:
        """Which types keep an event of time ``since`` from passing, and how far each has come."""
        if since is None:
            return {}
        if isinstance(self.ordering, KSlack):
            return dict.fromkeys(clock, clk if clk > TS_MIN else None)
        behind = {type_: ts for type_, ts in self._come.items() if ts <= since}
        return {type_: ts if ts > TS_MIN // 2 else None for type_, ts in behind.items()}

    # ---- K ---------------------------------------------------------------------------------

    def _learn(
        self,
        step: Step,
        arrived: dict[str, Arrived],
        messages: list[Add | Retract],
        announced: Said,
    ) -> IntArray:
        """K before and after each update."""
        at, delays = self._measured(step, arrived, messages)
        if len(delays) and int(delays.max()) > self._jump_max:
            sane = delays <= self._jump_max
            at, delays = at[sane], delays[sane]
        k = np.empty(len(step.clk) + 1, dtype=np.int64)
        k[0] = self.k
        if not len(step.clk):
            self._floors.update({key: along.now for key, along in announced.items()})
            return k
        k[1:] = self._slack.observe(step.clk, at, delays)
        if self._fixed is None:
            for key, along in announced.items():
                self._floors[key] = along.now
                if along.values is not None:
                    np.maximum(k[1:], along.values[1:], out=k[1:])
            floor = max(
                (k for key, k in self._floors.items()
                 if key not in announced or announced[key].values is None), default=0,
            )  # fmt: skip
            np.maximum(k[1:], floor, out=k[1:])
        for j in np.flatnonzero(np.diff(k)).tolist():
            self.k_history.append((int(step.clk[j]), int(k[j + 1])))
        self.k = int(k[-1])
        return k

    def _measured(
        self, step: Step, arrived: dict[str, Arrived], messages: list[Add | Retract]
    ) -> tuple[IntArray, IntArray]:
        """All delays measured in this step, by ascending update."""
        parts = [(new.at, new.delays) for new in arrived.values() if len(new.at)]
        for type_, new in arrived.items():
            self.delays[type_].add(new.delays)
        singles = [(step.before + 1, type_, ts) for type_, ts in self._unmeasured]
        self._unmeasured.clear()
        singles += [
            (message.update, message.event.type, message.event.ts - message.lead)
            for message in messages
            if isinstance(message, Add)
        ]
        at, delays = [], []
        for update, type_, ts in singles:
            place = max(update - step.before, 1) - 1
            if place >= len(step.clk):
                self._unmeasured.append((type_, ts))
                continue
            at.append(place)
            delays.append(int(step.clk[place]) - ts)
            self.delays[type_].add(np.array(delays[-1:], dtype=np.int64))
        if at:
            parts.append((np.array(at, dtype=np.int64), np.array(delays, dtype=np.int64)))
        if not parts:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing
        if len(parts) == 1 and not at:
            return parts[0]
        places = np.concatenate([part[0] for part in parts])
        order = np.argsort(places, kind="stable")
        return places[order], np.concatenate([part[1] for part in parts])[order]

    # ---- the stable mark -------------------------------------------------------------------

    def _settle(self, step: Step, k: IntArray, promises: Said) -> tuple[IntArray, int]:
        """The stable mark before and after each update, and at the very end of the step."""
        clocks = step.clocks
        horizon = np.maximum(np.ceil(k * self.factor).astype(np.int64), self.horizon_min)
        own = np.minimum(clocks, step.heard_before) - horizon
        own_now = min(step.clk_now, step.heard_now) - int(horizon[-1])
        lowest: IntArray | None = None
        lowest_now = TS_MAX
        for key, mark in self._marks.items():
            said = promises.get(key)
            along = np.full(len(k), mark)
            if said is not None:
                if said.values is not None:
                    along = np.maximum(along, said.values)
                mark = self._marks[key] = max(mark, said.now)
            if key[1] in self.loose:
                continue
            if not key[0]:
                along = np.maximum(along, own)
                mark = max(mark, own_now)
            if mark != TS_MAX:
                self._come[key[1]] = mark
            lowest = along if lowest is None else np.minimum(lowest, along)
            lowest_now = min(lowest_now, mark)
        if lowest is None:
            lowest, lowest_now = clocks, step.clk_now
            if min(self._marks.values()) == TS_MAX:
                lowest_now = TS_MAX
        lowest[0] = self.stable
        lowest = np.maximum.accumulate(lowest)
        return lowest, max(int(lowest[-1]), lowest_now)
