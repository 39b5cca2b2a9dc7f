"""A finite automaton as a detector base: states, guarded transitions, entry and exit actions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from slackline.detector import Detector, Emit
from slackline.errors import DetectorError
from slackline.events import Event

__all__ = ["ANY", "Automaton"]

ANY = "*"
"""As the type of a transition: every event."""

Action = Callable[[Event, Emit], None]
Guard = Callable[[Event], bool]


@dataclass(frozen=True, slots=True)
class _Transition:
    target: str
    type: str
    guard: Guard | None


class Automaton(Detector):
    """A detector that is a deterministic automaton with memory.

    Call ``state`` and ``connect`` in ``__init__``; the first state declared is the start. On
    an event the transitions of the current state are tried in the order they were connected;
    the first whose type fits and whose guard agrees is taken: exit action, change, entry
    action. Guards take the event, actions take the event and ``emit``; methods, functions and
    lambdas all do. Further attributes of the instance are the automaton's memory.
    """

    def __init__(self) -> None:
        self.current = ""
        self._entry: dict[str, Action | None] = {}
        self._exit: dict[str, Action | None] = {}
        self._transitions: dict[str, list[_Transition]] = {}

    def state(self, name: str, entry: Action | None = None, exit: Action | None = None) -> str:
        """Declare a state; the first one is where the automaton starts. Returns its name."""
        if name in self._transitions:
            raise DetectorError(f"{type(self).__name__}: state {name!r} is declared twice")
        self._entry[name], self._exit[name], self._transitions[name] = entry, exit, []
        self.current = self.current or name
        return name

    def connect(
        self, source: str, target: str, type: str = ANY, guard: Guard | None = None
    ) -> None:
        """On an event of ``type`` that ``guard`` accepts, go from ``source`` to ``target``."""
        for name in (source, target):
            if name not in self._transitions:
                raise DetectorError(
                    f"{self.__class__.__name__}: state {name!r} is not declared; "
                    f"declared are {sorted(self._transitions)}"
                )
        self._transitions[source].append(_Transition(target, type, guard))

    def on_event(self, event: Event, emit: Emit) -> None:
        if not self._transitions:
            raise DetectorError(f"{type(self).__name__} declares no state: call self.state(name)")
        for transition in self._transitions[self.current]:
            if transition.type not in (ANY, event.type):
                continue
            if transition.guard is not None and not transition.guard(event):
                continue
            leave, enter = self._exit[self.current], self._entry[transition.target]
            if leave is not None:
                leave(event, emit)
            self.current = transition.target
            if enter is not None:
                enter(event, emit)
            return

    def fresh(self) -> Self:
        automaton = copy.copy(self)
        Detector.restore(automaton, Detector.snapshot(self))  # the wiring refers to the instance
        return automaton

    def snapshot(self) -> bytes:
        wiring = {name: self.__dict__.pop(name) for name in _WIRING}
        try:
            return super().snapshot()
        finally:
            self.__dict__.update(wiring)

    def restore(self, state: bytes) -> None:
        wiring: dict[str, Any] = {name: self.__dict__[name] for name in _WIRING}
        super().restore(state)
        self.__dict__.update(wiring)


_WIRING = ("_entry", "_exit", "_transitions")
"""What ``__init__`` set up once and no event changes: not part of the state."""
