"""What cells say to each other. Links keep these in order; nothing else passes between cells."""

from __future__ import annotations

from dataclasses import dataclass

from slackline.events import Event

__all__ = [
    "Add",
    "Correction",
    "Delay",
    "Heard",
    "Message",
    "Promise",
    "Retract",
    "RetractAbove",
    "Tick",
]


@dataclass(frozen=True, slots=True)
class Add:
    """An event is published; ``rev`` counts its corrections, ``lead`` how early it is (K⁺).

    ``update`` numbers the clock update at which it happened, ``clk`` is what the clock said.
    """

    event: Event
    rev: int
    update: int
    clk: int
    lead: int = 0

    @property
    def type(self) -> str:
        return self.event.type


@dataclass(frozen=True, slots=True)
class Retract:
    """The event that was published with this ``rev`` did not happen."""

    event: Event
    rev: int
    update: int
    clk: int

    @property
    def type(self) -> str:
        return self.event.type


@dataclass(frozen=True, slots=True)
class RetractAbove:
    """Nothing that was published of ``type`` with a number above ``seq`` happened."""

    publisher: str
    type: str
    seq: int
    update: int
    clk: int


@dataclass(frozen=True, slots=True)
class Promise:
    """The stable mark: ``publisher`` will add or retract no ``type`` before ``ts`` any more."""

    publisher: str
    type: str
    ts: int


@dataclass(frozen=True, slots=True)
class Delay:
    """Get ready: what ``publisher`` says of ``type`` now is dated up to ``k`` before its clock."""

    publisher: str
    type: str
    k: int


@dataclass(frozen=True, slots=True)
class Tick:
    """An event of a clock type occurred at ``ts``; for hosts that need no more of it."""

    type: str
    ts: int


@dataclass(frozen=True, slots=True)
class Heard:
    """The clock of ``host``, where sources enter, stood at ``clk``: all it took before was sent."""

    host: str
    clk: int


Correction = Add | Retract | RetractAbove
Message = Correction | Promise | Delay | Tick | Heard
