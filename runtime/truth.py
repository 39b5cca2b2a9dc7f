"""The oracle: what every run must end with, however its events arrived.

Plain, slow and obviously right. It shares no code with the runtime.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from slackline.errors import EmitError, HierarchyError
from slackline.events import Event, EventBatch, fault_of, is_int, own_data, time_fault
from slackline.hierarchy import Hierarchy, Node

__all__ = ["truth"]

_place = attrgetter("ts", "type", "publisher", "seq")


def truth(
    hierarchy: Hierarchy,
    events: Iterable[Event | EventBatch],
    dead_letters: list[tuple[str, Event, Exception]] | None = None,
) -> list[Event]:
    """Everything the detectors publish on ``events`` sorted in total order.

    Malformed events are left out and a repeated ``(publisher, type, seq)`` counts once, as in
    a run. When a detector raises on an event, that event yields nothing and goes to
    ``dead_letters``.
    """
    hierarchy.check()
    types = hierarchy.types
    by_name: dict[tuple[str, str, int], Event] = {}
    for item in events:
        for event in _rows(item) if isinstance(item, EventBatch) else [item]:
            if fault_of(event) is None:
                if types.get(event.type):
                    raise HierarchyError(
                        f"a source publishes {event.type!r}, which detector "
                        f"{types[event.type][0]!r} publishes too: rename one of them"
                    )
                by_name.setdefault(event.name, event)
    known = list(by_name.values())
    published: list[Event] = []
    for node in hierarchy:
        wanted = [event for event in known if event.type in node.listens]
        output = _outputs_of(
            node, sorted(wanted, key=_place), [] if dead_letters is None else dead_letters
        )
        known += output
        published += output
    return sorted(published, key=_place)


def _rows(batch: EventBatch) -> list[Event]:
    """The rows of a batch as events, whole floats as ints; nothing of a batch that is malformed."""
    columns = [batch.ts, batch.seq, *batch.columns.values()]
    if any(column.ndim == 0 or len(column) != len(batch.ts) for column in columns):
        return []
    if batch.ts.dtype.kind not in "iuf" or batch.seq.dtype.kind not in "iuf":
        return []
    return [Event(e.type, _whole(e.ts), e.data, e.publisher, _whole(e.seq)) for e in batch.events()]


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _outputs_of(
    node: Node, events: list[Event], dead_letters: list[tuple[str, Event, Exception]]
) -> list[Event]:
    detector = node.detector.fresh()
    counts = dict.fromkeys(node.publishes, 0)
    output: list[Event] = []
    emitted: list[tuple[str, int, dict[str, Any]]] = []

    def emit(type: str, ts: int, **data: Any) -> None:
        if type not in counts:
            raise EmitError(
                f"detector {node.name!r} emitted {type!r}, which it does not publish; "
                f"its publishes are {node.publishes}"
            )
        if not is_int(ts):
            raise EmitError(f"detector {node.name!r} emitted {type!r} at ts {ts!r}: not an int")
        if time_fault(ts):
            raise EmitError(f"detector {node.name!r} emitted {type!r}: {time_fault(ts)}")
        if detector.backset_max is not None and ts < event.ts - detector.backset_max:
            raise EmitError(
                f"detector {node.name!r} emitted {type!r} at ts {ts}, more than its backset_max "
                f"{detector.backset_max} before {event}"
            )
        emitted.append((type, int(ts), own_data(data)))

    for event in events:
        emitted.clear()
        try:
            detector.on_event(event, emit)
        except EmitError:
            raise
        except Exception as error:
            dead_letters.append((node.name, event, error))
            continue
        for type_, ts, data in emitted:
            counts[type_] += 1
            output.append(Event(type_, ts, data, node.name, counts[type_]))
    return output
