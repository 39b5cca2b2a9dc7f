"""What can go wrong, in three classes: the user's mistake, a fault of the world, a bug.

Every error carries its whole message as its only argument, so that it survives pickling.
"""

from __future__ import annotations

__all__ = [
    "BrokenInvariant",
    "ConfigError",
    "DetectorError",
    "EmitError",
    "HierarchyError",
    "MalformedEvent",
    "SlacklineError",
    "SourceError",
    "UserError",
    "WorldError",
]


class SlacklineError(Exception):
    """The root of everything slackline raises on purpose."""


class UserError(SlacklineError):
    """A mistake in what was handed in: the message says what, where and what to do."""


class HierarchyError(UserError):
    """Detectors that cannot be linked: a cycle, a clash of types, a bad declaration."""


class EmitError(UserError):
    """A detector emitted something it may not: an undeclared type or a time that is no int."""


class DetectorError(UserError):
    """A detector cannot be run: its state cannot be saved, or a callback is missing."""


class MalformedEvent(UserError):
    """An event that cannot be ordered: a field is missing or has the wrong type."""


class ConfigError(UserError):
    """A setting out of its range, or a configuration file that does not fit the hierarchy."""


class WorldError(SlacklineError):
    """Something outside failed: a file, a disk, a network."""


class SourceError(WorldError):
    """A source of events cannot be read."""


class BrokenInvariant(SlacklineError):
    """A bug in slackline itself; please report it with the seed that shows it."""
