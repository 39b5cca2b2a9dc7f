"""The ordering unit of a cell: how far its events may pass, and how far its past is settled.

Theory of operation. Along a step, for every clock update j, in columns:

    clk[j]      the clock
    K[j]        the slack after the delays measured up to update j, and not below what the
                publishers announced
    stable[j]   the running maximum of clk - horizon, held down by the publishers' promises.
                Nothing before it changes any more; an event that arrives behind it is late
    reach[j]    the running maximum of clk - α·K, and of what is stable: events up to it pass

This gives, for any way of cutting the arrivals into steps, what the algorithm that looks at one
arrival at a time would do. A K that grows does not call back what has passed: an event that
arrives behind ``reach`` passes at once, since holding it could not restore the order any more,
and the cell repairs its past instead. A speculative unit looks at each event when it arrives,
the others when the clock moves.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from slackline.events import TS_MAX, TS_MIN, IntArray
from slackline.hierarchy import Node
from slackline.messages import Add, Correction
from slackline.policy import KSlack, Ordering, Punctuated, Speculative, Unordered
from slackline.slack import Slack
from slackline.speculation import DelaySample, wait_of
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
    at_once: bool

    def stable_at(self, update: int) -> int:
        """The stable mark that an event found when it arrived before this update."""
        place = update - self.step.before - 1
        return int(self.stable[min(max(place, 0), len(self.stable) - 1)])

    def passed(self, ts: IntArray, updates: IntArray) -> IntArray:
        """At which update each event passed, given the one that measured it."""
        place = np.searchsorted(self.reach, ts, side="left") + 1
        place = np.where(ts <= self.reach_before, 0, place) + self.step.before
        came = updates - 1 if self.at_once else updates
        return np.minimum(np.maximum(place, came), self.step.last)


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
        self.ordering, self.settings = ordering, settings
        self.waits_for_clock = isinstance(ordering, KSlack | Speculative)
        self.at_once = isinstance(ordering, Speculative) and ordering.alpha != 1
        self.alpha = 1.0
        """How much of K is waited."""
        if isinstance(ordering, Speculative) and isinstance(ordering.alpha, int | float):
            self.alpha = float(ordering.alpha)
        self.sample = DelaySample()
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
        self._unmeasured: list[tuple[str, int, int]] = []
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
        messages: list[Correction],
        promises: Said,
        announced: Said,
    ) -> View:
        """Work out the columns of a step."""
        k = self._learn(step, arrived, messages, announced)
        stable, stable_now = self._settle(step, k, promises)
        reach_before = self.reach
        reach = stable[1:] - 1
        if self.waits_for_clock:
            reach = np.maximum(reach, step.clk - wait_of(self.alpha, k[1:]))
        reach = np.maximum.accumulate(np.maximum(reach, self.reach))
        self.reach = max(self.reach, stable_now - 1, *reach[-1:].tolist())
        self.stable = stable_now
        return View(step, k, stable, stable_now, reach, reach_before, self.reach, self.at_once)

    def advance_idle(self, step: Step, promises: Said, announced: Said) -> View:
        """The same for a step in which nothing came to this cell: only its end counts."""
        before, reach_before = self.stable, self.reach
        if len(step.clk):
            nothing = np.zeros(0, dtype=np.int64)
            k = self._slack.observe(step.clk, nothing, nothing)
            self._set_k(max(k if isinstance(k, int) else int(k[-1]), self._floor(announced)), step)
        sure = step.clk_now if step.sure_now is None else step.sure_now
        own = sure - self._horizon(self.k)
        lowest = TS_MAX
        for key in self._marks:
            mark = self._mark(key, promises.get(key), own)
            if key[1] not in self.loose:
                lowest = min(lowest, mark)
        self.stable = max(self.stable, lowest)
        self.reach = max(self.reach, self.stable - 1)
        if self.waits_for_clock:
            self.reach = max(self.reach, step.clk_now - math.ceil(self.alpha * self.k - 1e-9))
        edges = np.array([before, self.stable], dtype=np.int64)
        ks = np.array([self.k, self.k], dtype=np.int64)
        return View(step, ks, edges, self.stable, step.clk, reach_before, self.reach, self.at_once)

    def clk_to_reach(self, ts: int) -> int:
        """What the clock must show for an event of this time to pass; TS_MIN if that is unclear."""
        if not self.waits_for_clock:
            return TS_MIN
        return ts + math.ceil(self.alpha * self.k - 1e-9)

    def when_reached(self, view: View) -> View:
        """The view of an idle step with the column that tells when events passed."""
        wait = math.ceil(self.alpha * self.k - 1e-9) if self.waits_for_clock else 0
        reach = np.maximum(view.step.clk - wait, view.reach_before)
        return replace(view, reach=np.minimum(reach, view.reach_now))

    def waiting(
        self, clock: tuple[str, ...], clk: int, since: int | None, newest: int
    ) -> dict[str, int | None]:
        """Which silent types hold an event of time ``since`` back, and how far each has come.

        A type is silent when others have moved on: events up to ``newest`` have arrived.
        """
        if since is None:
            return {}
        if self.waits_for_clock:
            if clk > TS_MIN and newest <= clk + self.k:
                return {}
            return dict.fromkeys(clock, clk if clk > TS_MIN else None)
        limit = min(since, clk - self._horizon(self.k) - 1)
        behind = {type_: ts for type_, ts in self._come.items() if ts <= limit}
        return {type_: ts if ts > TS_MIN // 2 else None for type_, ts in behind.items()}

    # ---- K ---------------------------------------------------------------------------------

    def _learn(
        self,
        step: Step,
        arrived: dict[str, Arrived],
        messages: list[Correction],
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
            self._floor(announced)
            return k
        learnt = self._slack.observe(step.clk, at, delays)
        k[1:] = learnt
        floor = self._floor(announced)
        if floor:
            np.maximum(k[1:], floor, out=k[1:])
        columns = [
            along.values
            for key in self._marks
            if (along := announced.get(key)) is not None and along.values is not None
        ]
        for column in columns if self._fixed is None else ():
            np.maximum(k[1:], column[1:], out=k[1:])
        if isinstance(learnt, int) and not columns:
            self._set_k(int(k[-1]), step)
            return k
        for j in np.flatnonzero(np.diff(k)).tolist():
            self.k_history.append((int(step.clk[j]), int(k[j + 1])))
        self.k = int(k[-1])
        return k

    def _floor(self, announced: Said) -> int:
        """The least K that publishers asked for, but for those that say so update by update."""
        floor = 0
        for key in self._marks:
            along = announced.get(key)
            if along is not None:
                self._floors[key] = along.now
                if along.values is not None:
                    continue
            floor = max(floor, self._floors.get(key, 0))
        return floor if self._fixed is None else 0

    def _set_k(self, k: int, step: Step) -> None:
        """K has been this since the first update of the step."""
        if k != self.k:
            self.k = k
            self.k_history.append((int(step.clk[0]), k))

    def _horizon(self, k: int) -> int:
        return max(math.ceil(k * self.factor), self.horizon_min)

    def _measured(
        self, step: Step, arrived: dict[str, Arrived], messages: list[Correction]
    ) -> tuple[IntArray, IntArray]:
        """All delays measured in this step, by ascending update."""
        parts = [(new.at, new.delays) for new in arrived.values() if len(new.at)]
        for type_, new in arrived.items():
            self.delays[type_].add(new.delays)
            if self.at_once:
                self.sample.add(new.delays)
        singles = [(step.before + 1, *entry) for entry in self._unmeasured]
        self._unmeasured.clear()
        singles += [
            (message.update, message.event.type, message.event.ts, message.lead)
            for message in messages
            if isinstance(message, Add)
        ]
        at, delays = [], []
        for update, type_, ts, lead in singles:
            place = max(update - step.before, 1) - 1
            if place >= len(step.clk):
                self._unmeasured.append((type_, ts, lead))
                continue
            delay = int(step.clk[place]) - ts
            at.append(place)
            delays.append(delay + lead)
            self.delays[type_].add(np.array([delay + lead], dtype=np.int64))
            if self.at_once:
                self.sample.add(np.array([delay], dtype=np.int64))
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
        horizon = np.maximum(np.ceil(k * self.factor).astype(np.int64), self.horizon_min)
        own = (step.clocks if step.sure is None else step.sure) - horizon
        sure_now = step.clk_now if step.sure_now is None else step.sure_now
        own_now = sure_now - int(horizon[-1])
        lowest: IntArray | None = None
        lowest_known = lowest_now = TS_MAX
        for key, known in self._marks.items():
            said = promises.get(key)
            mark = self._mark(key, said, own_now)
            if key[1] in self.loose:
                continue
            lowest_now = min(lowest_now, mark)
            along: IntArray
            if not key[0]:
                along = np.maximum(own, known)
            elif said is not None and said.values is not None:
                along = np.maximum(said.values, known)
            else:
                lowest_known = min(lowest_known, known)
                continue
            lowest = along if lowest is None else np.minimum(lowest, along)
        if lowest_now == TS_MAX and len(self.loose) == len(self._come):
            ended = all(mark == TS_MAX for mark in self._marks.values())
            lowest, lowest_now = step.clocks, TS_MAX if ended else step.clk_now
        elif lowest is None:
            lowest = np.full(len(k), lowest_known)
        elif lowest_known != TS_MAX:
            lowest = np.minimum(lowest, lowest_known)
        lowest[0] = self.stable
        lowest = np.maximum.accumulate(lowest)
        return lowest, max(int(lowest[-1]), lowest_now)

    def _mark(self, key: tuple[str, str], said: Along | None, own: int) -> int:
        """How far a type is stable at the end of a step; a source's by the own horizon too."""
        mark = self._marks[key]
        if said is not None and said.now > mark:
            mark = self._marks[key] = said.now
        if not key[0]:
            mark = max(mark, own)
        if mark != TS_MAX:
            self._come[key[1]] = mark
        return mark
