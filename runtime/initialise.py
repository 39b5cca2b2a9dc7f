"""Starting values: what a recording or an older configuration tells before the first event.

A cold start learns K by stumbling. Two ways avoid that. *Iterative delay calculation* runs a
recording again and again: after run i the detectors up to level i have the K that they need, so
after as many runs as there are levels nothing changes any more. *Semi-configured estimation*
needs no recording of every event: it takes what does not depend on the network (how far each
detector dates back, how long it computes) from an older configuration, measures the jitter of
the sensors, and adds the delays up along the hierarchy as pseudo events would collect them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slackline.cell import Start
from slackline.detector import Detector, Emit
from slackline.errors import ConfigError, SourceError
from slackline.events import Event, EventBatch, IntArray, Stable
from slackline.hierarchy import Hierarchy
from slackline.local import run
from slackline.policy import KSlack

__all__ = ["Configuration", "Configured", "calibrate", "estimate", "jitter", "jitter_delays"]

FORMAT = "slackline configuration 1"


@dataclass(frozen=True, slots=True)
class Configured:
    """What is known of one detector; all times in the hierarchy's unit."""

    k: int
    """The ordering delay: how long its events have to wait."""
    backset: dict[str, int] = field(default_factory=dict)
    """How far it dates each type back that it publishes."""
    processing: int = 0
    """How long it computes on an event."""
    delays: dict[str, int] = field(default_factory=dict)
    """The largest delay of each type it listens to, when it reaches the detector's host."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Starting values for every detector of a hierarchy."""

    hierarchy: str
    unit: str
    detectors: dict[str, Configured]

    def starts(self) -> dict[str, Start]:
        """The values in the form that ``run``, ``simulate`` and hosts take."""
        return {name: Start(d.k, dict(d.backset)) for name, d in self.detectors.items()}

    def check(self, hierarchy: Hierarchy) -> None:
        """Raise unless this was made for ``hierarchy``."""
        if hierarchy.unit != self.unit:
            raise ConfigError(
                f"the configuration is in {self.unit}, hierarchy {hierarchy.name!r} in "
                f"{hierarchy.unit}: calibrate again"
            )
        unknown = sorted(set(self.detectors) - {node.name for node in hierarchy})
        if unknown:
            raise ConfigError(
                f"the configuration (made for {self.hierarchy!r}) names detectors that hierarchy "
                f"{hierarchy.name!r} does not have: {unknown}"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the configuration as JSON; the file appears whole or not at all."""
        target = Path(path)
        content = {
            "format": FORMAT,
            "hierarchy": self.hierarchy,
            "unit": self.unit,
            "detectors": {
                name: {
                    "k": d.k,
                    "backset": d.backset,
                    "processing": d.processing,
                    "delays": d.delays,
                }
                for name, d in self.detectors.items()
            },
        }
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            partial.write_text(json.dumps(content, indent=2) + "\n")
            partial.replace(target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise SourceError(f"cannot write the configuration {target}: {error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Configuration:
        """Read a configuration that ``save`` wrote."""
        try:
            content = json.loads(Path(path).read_text())
        except OSError as error:
            raise SourceError(f"cannot read the configuration {path}: {error}") from error
        except ValueError as error:
            raise ConfigError(f"the configuration {path} is not JSON: {error}") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ConfigError(f'{path} is not a configuration: it lacks "format": "{FORMAT}"')
        try:
            detectors = {
                str(name): Configured(
                    _time(d["k"], f"detectors.{name}.k"),
                    _times(d.get("backset", {}), f"detectors.{name}.backset"),
                    _time(d.get("processing", 0), f"detectors.{name}.processing"),
                    _times(d.get("delays", {}), f"detectors.{name}.delays"),
                )
                for name, d in content["detectors"].items()
            }
            return cls(str(content["hierarchy"]), str(content["unit"]), detectors)
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"the configuration {path} is incomplete: {error!r}") from error
        except ConfigError as error:
            raise ConfigError(f"the configuration {path}: {error}") from error


def calibrate(
    hierarchy: Hierarchy, arrivals: Sequence[Event | EventBatch | Stable], margin: float = 0.0
) -> Configuration:
    """Iterative delay calculation: run a recording until the delays of every level stand still."""
    known = Configuration(hierarchy.name, hierarchy.unit, {})
    for _ in range(len(hierarchy.levels) + 1):
        result = run(hierarchy, arrivals, KSlack(margin=margin), start=known.starts())
        detectors = {}
        for node in hierarchy:
            stats = result.stats[node.name]
            delays = {t: max(0, d.max or 0) for t, d in stats.delays.items() if d.count}
            spread = max((d.std for d in stats.delays.values() if d.count), default=0.0)
            k = max(max(delays.values(), default=0) + int(np.ceil(margin * spread)), stats.k)
            detectors[node.name] = Configured(k, result.backset[node.name], 0, delays)
        found = Configuration(hierarchy.name, hierarchy.unit, detectors)
        if found == known:
            break
        known = found
    return known


def estimate(
    hierarchy: Hierarchy,
    jitter: Mapping[str, int],
    old: Configuration,
    network: Mapping[tuple[str, str], int] | None = None,
) -> Configuration:
    """Semi-configured estimation: K of every detector without processing a single event.

    ``jitter`` is the measured delay of each source type, ``network`` the delay from a detector
    to a subscriber where they are on different hosts; back-setting and processing come from
    ``old``.
    """
    types = hierarchy.types
    missing = sorted(
        type_ for node in hierarchy for type_ in node.listens
        if not types[type_] and type_ not in jitter
    )  # fmt: skip
    if missing:
        raise ConfigError(f"no jitter was measured for the source types {missing}")
    detectors: dict[str, Configured] = {}
    for node in hierarchy:
        before = old.detectors.get(node.name, Configured(0))
        delays = {}
        for type_ in node.listens:
            pseudo = [jitter[type_]] if not types[type_] else []
            for publisher in types[type_]:
                below = detectors[publisher]
                pseudo.append(
                    below.k
                    + below.processing
                    + below.backset.get(type_, 0)
                    + (network or {}).get((publisher, node.name), 0)
                )
            delays[type_] = max(pseudo)
        detectors[node.name] = Configured(
            max(delays.values()), before.backset, before.processing, delays
        )
    return Configuration(hierarchy.name, hierarchy.unit, detectors)


class _Ear(Detector):
    """Hears every source type and says nothing."""

    def __init__(self, listens: tuple[str, ...]) -> None:
        self.listens = listens

    def on_event(self, event: Event, emit: Emit) -> None:
        """Only the delay counts."""

    def on_batch(self, batch: EventBatch, emit: Emit) -> None:
        """Only the delays count."""


def jitter(hierarchy: Hierarchy, arrivals: Iterable[Event | EventBatch | Stable]) -> dict[str, int]:
    """The largest delay of each source type, relative to the stream clock."""
    ears = Hierarchy(hierarchy.name, hierarchy.clock_types, hierarchy.unit)
    ears.add("ear", _Ear(hierarchy.source_types))
    delays = run(ears, arrivals).stats["ear"].delays
    return {type_: max(0, delay.max or 0) for type_, delay in delays.items()}


def jitter_delays(ts: npt.ArrayLike, ats: npt.ArrayLike) -> IntArray:
    """How much longer each event took than the quickest that arrived before it.

    ``ts`` are occurrence and ``ats`` arrival times, in arrival order.
    """
    under_way = np.asarray(ats, dtype=np.int64) - np.asarray(ts, dtype=np.int64)
    return under_way - np.minimum.accumulate(under_way) if len(under_way) else under_way


def _time(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"expected a time, an int >= 0, got {value!r} - at {where}")
    return value


def _times(value: Any, where: str) -> dict[str, int]:
    if not isinstance(value, dict):
        raise ConfigError(f"expected times by type, got {value!r} - at {where}")
    return {str(type_): _time(time, f"{where}.{type_}") for type_, time in value.items()}
