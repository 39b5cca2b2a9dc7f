"""A host: one stream clock, the shared tapes, and the cells that run there. Pure code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slackline.cell import Cell, DeadLetter, LateEvent, Outcome, Start
from slackline.clock import StreamClock
from slackline.events import TS_MAX, TS_MIN, Event, IntArray, Stable
from slackline.hierarchy import Hierarchy
from slackline.intake import Arrival, Group, Intake, Sorted
from slackline.messages import Correction, Heard, Promise
from slackline.ordering import Said
from slackline.policy import Ordering
from slackline.speculation import Pressure, RepairCost
from slackline.stats import DetectorStats
from slackline.step import Along, Arrived, Step
from slackline.tape import Rows, Tape

__all__ = ["Host", "Quarantined"]

JUMP_SECONDS = 365 * 24 * 3600
"""A clock event further ahead than a year is not believed at once, nor an older delay learnt."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A clock event too far ahead to be believed."""

    event: Event
    clk: int
    reason: str


class Host:
    """Steps its cells through arrivals. What they send to cells elsewhere is the caller's to carry.

    ``here`` names the detectors that run on this host (all of them by default), ``entries`` the
    other hosts where source types that these listen to enter.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        orderings: Mapping[str, Ordering] | None = None,
        here: Iterable[str] | None = None,
        starts: Mapping[str, Start] | None = None,
        entries: Iterable[str] = (),
    ) -> None:
        hierarchy.check()
        orderings = orderings or hierarchy.orderings(None)
        names = {node.name for node in hierarchy} if here is None else set(here)
        nodes = [node for node in hierarchy if node.name in names]
        types = hierarchy.types
        jump_max = min(JUMP_SECONDS * hierarchy.second, TS_MAX // 4)
        self._clock = StreamClock(hierarchy.clock_types, jump_max)
        self._clock_kinds = {type_: kind for kind, type_ in enumerate(hierarchy.clock_types)}
        sources = {t for node in nodes for t in node.listens if not types[t]}
        self.tapes = {type_: Tape(type_) for type_ in sorted(sources)}
        self.cells = {
            node.name: Cell(
                node, orderings[node.name], hierarchy.second, self.tapes, types,
                hierarchy.clock_types, jump_max, (starts or {}).get(node.name),
            )
            for node in nodes
        }  # fmt: skip
        self._readers = {
            type_: [cell for cell in self.cells.values() if type_ in cell.input.tapes]
            for type_ in self.tapes
        }
        for type_, tape in self.tapes.items():
            by_event = [c for c in self._readers[type_] if not c.runner.in_columns]
            tape.shares_events = len(by_event) > 1
        published = {t: names[0] for t, names in types.items() if names}
        self.intake = Intake([*self.tapes, *self._clock_kinds], published)
        self._publishers = {type_: names for type_, names in types.items() if names}
        self.updates = 0
        self.quarantined: list[Quarantined] = []
        self._held: list[Arrival] = []
        self._clock_times: list[int] = []
        self._running = set(hierarchy.clock_types)
        """Clock types that have not ended."""
        self._heard = dict.fromkeys(entries, TS_MIN)
        self._at_once = any(cell.unit.loose or cell.unit.at_once for cell in self.cells.values())
        self._unmeasured: dict[str, IntArray] = {}
        self.duplicates: dict[str, int] = {}
        self.pressure = Pressure()
        self._promises: Said = {}
        self._announced: Said = {}
        self._repair_cost = RepairCost()
        self._repairs = 0
        self._above = _listening_above(hierarchy, self.cells)

    @property
    def clk(self) -> int:
        return self._clock.clk

    @property
    def sure(self) -> int:
        """The largest time that the clock types have shown."""
        return self._clock.sure

    @property
    def late(self) -> list[LateEvent]:
        return [late for cell in self.cells.values() for late in cell.late]

    @property
    def dead_letters(self) -> list[DeadLetter]:
        return [letter for cell in self.cells.values() for letter in cell.dead_letters]

    def step(self, arrivals: Iterable[Arrival]) -> dict[str, Outcome]:
        """Take arrivals in the order they came; returns what each cell made of them.

        Between two clock updates nothing passes, so what came after the last one is kept for
        the next step.
        """
        new = list(arrivals)
        if not self._clock.anchored:
            self._clock_times += _times_of(new, self._clock_kinds)
            if self._clock.anchor(np.array(self._clock_times, dtype=np.int64)):
                new, self._held = [*self._held, *new], []
        for item in new:
            if isinstance(item, Stable) and item.ts == TS_MAX and isinstance(item.type, str):
                self._running.discard(item.type)
        if not self._running and not self._clock.anchored:
            self._clock.anchor(np.array(self._clock_times, dtype=np.int64), at_end=True)
        ready = self._clock.anchored or not self._running
        end = self._last_mover(new) if ready else 0
        if not end:
            self._held += new
            return {}
        came, self._held = [*self._held, *new[:end]], new[end:]
        return self._step(self.intake.sort(came))

    def end(self) -> list[Arrival]:
        """What to step through when the input has ended: no source speaks any more."""
        return [Stable.ended(type_) for type_ in dict.fromkeys([*self.tapes, *self._clock_kinds])]

    @property
    def speculates(self) -> bool:
        """Whether any cell here takes events before they are due."""
        return any(cell.unit.at_once for cell in self.cells.values())

    def adapt(self, busy: float, seconds: float) -> None:
        """Follow the load: the host was busy for this share of a span of stream time."""
        repairs = sum(cell.past.repairs for cell in self.cells.values())
        self._repair_cost.learn(busy, (repairs - self._repairs) / seconds)
        self._repairs = repairs
        pressure = self.pressure.follow(busy)
        for cell in self.cells.values():
            cell.adapt(pressure, seconds, self._repair_cost.seconds)

    def set_alpha(self, detector: str, alpha: float) -> None:
        """Wait for this much of K from now on."""
        self.cells[detector].unit.alpha = alpha

    def _last_mover(self, came: list[Arrival]) -> int:
        """How many arrivals there are up to the last one that may move the clock or a promise."""
        if self._at_once:
            return len(came)
        for end in range(len(came), 0, -1):
            item = came[end - 1]
            if isinstance(item, Promise | Stable | Heard) or (_type_of(item) in self._clock_kinds):
                return end
        return 0

    def stats(self, rejected: Mapping[str | None, int]) -> dict[str, DetectorStats]:
        """Each cell's numbers; ``rejected`` counts malformed arrivals by type."""
        return {
            name: cell.stats(
                self.clk,
                sum(
                    count
                    for type_, count in rejected.items()
                    if type_ in cell.node.listens or (type_ is None and cell.input.tapes)
                ),
                sum(self.duplicates.get(type_, 0) for type_ in cell.node.listens),
            )
            for name, cell in self.cells.items()
        }

    # ---- one step --------------------------------------------------------------------------

    def _step(self, came: Sorted) -> dict[str, Outcome]:
        step, marks = self._tick(came)
        messages = [
            replace(message, update=step.before + int(np.searchsorted(marks, index)) + 1)
            for index, message in came.messages
        ]
        arrived = {}
        for group in came.groups:
            if group.type in self.tapes and len(group):
                updates = np.searchsorted(marks, group.index) + (step.before + 1)
                arrived[group.type] = self._take(step, group, updates)
        for type_ in [type_ for type_ in self._unmeasured if type_ not in arrived]:
            at, delays = self._measure(step, type_, *_nothing_measured())
            if len(at):
                rows = _no_rows(self.tapes[type_])
                arrived[type_] = Arrived(rows, rows, rows.ts, at, delays)
        self.updates = step.last
        return self._run(step, arrived, came, messages)

    def _tick(self, came: Sorted) -> tuple[Step, IntArray]:
        """Advance the clock; returns the step and the places of its updates among the arrivals."""
        times = [group.ts for group in came.groups if group.type in self._clock_kinds]
        places = [group.index for group in came.groups if group.type in self._clock_kinds]
        kinds = [
            np.full(len(group), self._clock_kinds[group.type], dtype=np.int16)
            for group in came.groups
            if group.type in self._clock_kinds
        ]
        if came.ticks:
            times.append(np.array([tick.ts for _, tick in came.ticks], dtype=np.int64))
            places.append(np.array([place for place, _ in came.ticks], dtype=np.int64))
            kinds.append(
                np.array([self._clock_kinds[tick.type] for _, tick in came.ticks], dtype=np.int16)
            )
        before, sure_before = self._clock.clk, self._clock.sure
        heard = min(self._heard.values(), default=TS_MAX)
        self._heard |= came.heard
        heard_now = min(self._heard.values(), default=TS_MAX)
        if not times:
            nothing = np.zeros(0, dtype=np.int64)
            sure = np.array([min(sure_before, heard)], dtype=np.int64)
            return Step(self.updates, before, nothing, sure, min(sure_before, heard_now)), nothing
        if len(times) == 1:
            ts, place, kind = times[0], places[0], kinds[0]
        else:
            place = np.concatenate(places)
            order = np.argsort(place)
            place = place[order]
            ts, kind = np.concatenate(times)[order], np.concatenate(kinds)[order]
        ticks = self._clock.advance(ts, kind)
        if len(ticks.quarantined):
            self._quarantine(came, place[ticks.quarantined], before)
        if ticks.released:
            self._give_back()
        sure = np.minimum(np.concatenate([[sure_before], ticks.sure]), heard)
        sure_now = min(self._clock.sure, heard_now)
        return Step(self.updates, before, ticks.clk, sure, sure_now), place[ticks.rows]

    def _quarantine(self, came: Sorted, places: IntArray, clk: int) -> None:
        for i, group in enumerate(came.groups):
            absurd = np.isin(group.index, places)
            if not absurd.any():
                continue
            for event in group.select(absurd).as_events():
                reason = f"{event.type} at {event.ts} is more than a year ahead of the clock"
                self.quarantined.append(Quarantined(event, clk, reason))
            came.groups[i] = group.select(~absurd)

    def _give_back(self) -> None:
        """The clock has really jumped: what was quarantined at the new time is no longer absurd."""
        near = [
            entry
            for entry in self.quarantined
            if abs(entry.event.ts - self._clock.highest) <= self._clock.jump_max
        ]
        self.quarantined = [entry for entry in self.quarantined if entry not in near]
        self._held += [entry.event for entry in near]

    def _take(self, step: Step, group: Group, updates: IntArray) -> Arrived:
        """Put new rows of one type on its tape and measure their delays."""
        tape = self.tapes[group.type]
        known = np.array([tape.code(name) for name in group.names], dtype=np.int32)
        codes = known[group.codes]
        rows = Rows(tape, group.ts, codes, group.seq, updates, group.columns, group.events)
        index = group.index
        fresh = tape.gaps.fresh(codes, group.seq)
        if fresh is not None:
            repeated = len(rows) - int(fresh.sum())
            self.duplicates[group.type] = self.duplicates.get(group.type, 0) + repeated
            rows, index = rows.take(fresh), index[fresh]
        at, delays = self._measure(step, group.type, rows.ts, rows.update)
        in_order = tape.insert(rows) if self._readers[group.type] else rows
        return Arrived(in_order, rows, index, at, delays)

    def _measure(
        self, step: Step, type_: str, ts: IntArray, updates: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Delays at the update that follows each row; rows without one wait for the next step."""
        waiting = self._unmeasured.pop(type_, None)
        if waiting is not None:
            ts = np.concatenate([waiting, ts])
            updates = np.concatenate([np.full(len(waiting), step.before + 1), updates])
        at = updates - step.before - 1
        if len(at) and at[-1] >= len(step.clk):
            measured = int(np.searchsorted(at, len(step.clk)))
            self._unmeasured[type_] = ts[measured:]
            at, ts = at[:measured], ts[:measured]
        return at, step.clk[at] - ts

    def _run(
        self,
        step: Step,
        arrived: dict[str, Arrived],
        came: Sorted,
        messages: list[Correction],
    ) -> dict[str, Outcome]:
        """Step the cells, publishers before subscribers, and hand on what they say."""
        promises, announced = self._promises, self._announced
        for key, ts in came.promises.items():
            known = promises.get(key)
            promises[key] = Along(None, ts if known is None else max(ts, known.now))
        for key, k in came.delays.items():
            announced[key] = Along(None, k)
        hurry = bool(came.delays) or TS_MAX in came.promises.values()
        by_type: dict[str, list[Correction]] = {}
        for message in messages:
            by_type.setdefault(message.type, []).append(message)
        outcomes: dict[str, Outcome] = {}
        for name, cell in self.cells.items():
            listens = cell.node.listens
            new = {type_: arrived[type_] for type_ in listens if type_ in arrived}
            said = [message for type_ in listens for message in by_type.get(type_, ())]
            if not (new or said or hurry) and cell.rests(step):
                continue
            outcome = outcomes[name] = cell.step(step, new, said, promises, announced)
            for message in outcome.messages:
                by_type.setdefault(message.type, []).append(message)
            for type_, along in outcome.promises.items():
                promises[name, type_] = along
            for type_, along in outcome.announced.items():
                before = announced.get((name, type_))
                hurry = hurry or before is None or before.now != along.now
                announced[name, type_] = along
        for name, outcome in outcomes.items():
            for said_before, said_now in (
                (promises, outcome.promises),
                (announced, outcome.announced),
            ):
                for type_, along in said_now.items():
                    if along.values is not None:
                        said_before[name, type_] = Along(None, along.now)
        for name, outcome in outcomes.items():
            if outcome.retracted:
                above = (outcomes[n].replayed for n in self._above[name] if n in outcomes)
                self.cells[name].past.chooser.learn_cascade(outcome.retracted, sum(above))
        for type_, tape in self.tapes.items():
            if self._readers[type_]:
                tape.purge(min(cell.kept_from for cell in self._readers[type_]))
        return outcomes


def _listening_above(hierarchy: Hierarchy, here: Iterable[str]) -> dict[str, set[str]]:
    """For each detector, those here that hear of it, directly or through others."""
    above: dict[str, set[str]] = {}
    for node in reversed(list(hierarchy)):
        direct = [n.name for n in hierarchy if set(n.listens) & set(node.publishes)]
        above[node.name] = set(direct).union(*(above[name] for name in direct))
    return {name: above[name] & set(here) for name in here}


def _times_of(arrivals: Iterable[Arrival], clock_types: Mapping[str, int]) -> list[int]:
    """The times of the well-formed clock events among some arrivals."""
    came = Intake(clock_types, {}).sort(item for item in arrivals if _type_of(item) in clock_types)
    times = [ts for group in came.groups for ts in group.ts.tolist()]
    return times + [tick.ts for _, tick in came.ticks]


def _type_of(item: object) -> str:
    """The type of an arrival; empty when it has none, as a malformed one may."""
    type_ = getattr(item, "type", "")
    return type_ if isinstance(type_, str) else ""


def _nothing_measured() -> tuple[IntArray, IntArray]:
    nothing = np.zeros(0, dtype=np.int64)
    return nothing, nothing


def _no_rows(tape: Tape) -> Rows:
    nothing = np.zeros(0, dtype=np.int64)
    return Rows(tape, nothing, nothing.astype(np.int32), nothing, nothing, None, [])
