"""The detector: user code that sees its events one at a time, in order."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self

import cloudpickle

from slackline.errors import DetectorError
from slackline.events import Event, EventBatch

__all__ = ["BatchEmit", "Detector", "Emit", "Listen"]


class Emit(Protocol):
    """What a detector publishes with: ``emit(type, ts, **data)``."""

    def __call__(self, type: str, ts: int, **data: Any) -> None: ...


class BatchEmit(Emit, Protocol):
    """The same for ``on_batch``; ``emit.at(row)`` names the row that what follows is due to.

    Rows are named in ascending order. What is emitted without naming one counts as due to the
    last row of the batch: it is published, and becomes final, a little later.
    """

    def at(self, row: int) -> BatchEmit: ...


class Listen(str):
    """A type name in ``listens`` with a wish: ``Listen("A", unordered=True)``.

    Unordered events bypass the ordering and reach the detector as they come, so the guarantee
    of truth does not cover what it makes of their order.
    """

    unordered: bool

    def __new__(cls, type: str, *, unordered: bool = False) -> Listen:
        listen = super().__new__(cls, type)
        listen.unordered = unordered
        return listen

    def __reduce__(self) -> tuple[Any, ...]:
        return (_listen, (str(self), self.unordered))


def _listen(type: str, unordered: bool) -> Listen:
    return Listen(type, unordered=unordered)


class Detector:
    """Listens to event types, keeps private state, publishes event types.

    A subclass sets ``listens`` and ``publishes`` and defines ``on_event``. It may use nothing
    but the events it is given, and does not change their data: no clock, no I/O, no randomness
    of its own, so that the same input always gives the same output. ``on_batch``, if defined,
    must have the same effect as ``on_event`` on each row of the batch, however the stream is cut
    into batches.

    ``backset_max`` declares how far before the event that triggers it an output may be dated;
    left at None it is learnt. Declaring it makes outputs final sooner.
    """

    listens: tuple[str, ...] = ()
    publishes: tuple[str, ...] = ()
    backset_max: int | None = None
    on_batch: ClassVar[Callable[[Any, EventBatch, Any], None] | None] = None

    def on_event(self, event: Event, emit: Emit) -> None:
        raise DetectorError(f"{type(self).__name__} does not define on_event(self, event, emit)")

    def fresh(self) -> Self:
        """A detector like this one, with a state of its own."""
        detector = copy.copy(self)
        detector.restore(self.snapshot())
        return detector

    def snapshot(self) -> bytes:
        """The whole state as bytes; by default every instance attribute."""
        buffer = io.BytesIO()
        pickler = _StatePickler(buffer, self)
        try:
            pickler.dump((self.__dict__, _slots(self)))
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            raise DetectorError(
                f"the state of {type(self).__name__} cannot be saved: {error}; keep open files, "
                "locks and the like out of its attributes, or define snapshot() and restore()"
            ) from error
        return buffer.getvalue()

    def restore(self, state: bytes) -> None:
        """Return to the state that ``snapshot`` saved."""
        _restoring.append(self)
        try:
            attributes, slots = pickle.loads(state)
        finally:
            _restoring.pop()
        self.__dict__.clear()
        self.__dict__.update(attributes)
        for name in _slot_names(type(self)):
            if name in slots:
                setattr(self, name, slots[name])
            elif hasattr(self, name):
                delattr(self, name)


def _slots(detector: Detector) -> dict[str, Any]:
    """The attributes that a subclass keeps in ``__slots__``."""
    names = _slot_names(type(detector))
    return {name: getattr(detector, name) for name in names if hasattr(detector, name)}


_known_slots: dict[type, tuple[str, ...]] = {}


def _slot_names(kind: type) -> tuple[str, ...]:
    if kind in _known_slots:
        return _known_slots[kind]
    names = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    found = tuple(name for name in names if name not in ("__dict__", "__weakref__"))
    _known_slots[kind] = found
    return found


_restoring: list[Detector] = []


def _itself() -> Detector:
    return _restoring[-1]


class _StatePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles a detector's attributes; references back to the detector stay references.

    Without that, a bound method kept as state (``self.state = self.idle``) would come back
    bound to a copy.
    """

    def __init__(self, buffer: io.BytesIO, detector: Detector) -> None:
        super().__init__(buffer, protocol=5)
        self._detector = detector

    def reducer_override(self, obj: Any) -> Any:
        if obj is self._detector:
            return (_itself, ())
        return super().reducer_override(obj)
