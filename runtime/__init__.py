"""slackline: event detection on out-of-order streams, exact in the end.

Write detectors as if events came in order, link them into a ``Hierarchy``, and ``run`` it.
"""

from __future__ import annotations

from slackline.automaton import ANY, Automaton
from slackline.cell import DeadLetter, LateEvent, Start
from slackline.detector import BatchEmit, Detector, Emit, Listen
from slackline.errors import (
    BrokenInvariant,
    ConfigError,
    DetectorError,
    EmitError,
    HierarchyError,
    MalformedEvent,
    SlacklineError,
    SourceError,
    UserError,
    WorldError,
)
from slackline.events import Event, EventBatch, Stable
from slackline.hierarchy import Hierarchy
from slackline.ledger import LogEntry
from slackline.local import Run, run
from slackline.network import Link, Partition, Stall
from slackline.policy import KSlack, Ordering, Punctuated, Speculative, Unordered
from slackline.simulate import SimulatedHost, simulate
from slackline.truth import truth

__all__ = [
    "ANY",
    "Automaton",
    "BatchEmit",
    "BrokenInvariant",
    "ConfigError",
    "DeadLetter",
    "Detector",
    "DetectorError",
    "Emit",
    "EmitError",
    "Event",
    "EventBatch",
    "Hierarchy",
    "HierarchyError",
    "KSlack",
    "LateEvent",
    "Link",
    "Listen",
    "LogEntry",
    "MalformedEvent",
    "Ordering",
    "Partition",
    "Punctuated",
    "Run",
    "SimulatedHost",
    "SlacklineError",
    "SourceError",
    "Speculative",
    "Stable",
    "Stall",
    "Start",
    "Unordered",
    "UserError",
    "WorldError",
    "run",
    "simulate",
    "truth",
]

__version__ = "0.1.0"
