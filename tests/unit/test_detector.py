"""The detector's own saving and restoring of its state."""

import pickle
import threading
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from slackline import Detector, DetectorError, Emit, Event, Hierarchy, Listen, run, truth


def event(ts: int, seq: int | None = None) -> Event:
    return Event("A", ts, {}, "p", ts if seq is None else seq)


def silent(type: str, ts: int, **data: Any) -> None:
    raise AssertionError("nothing should be emitted")


class Bare(Detector):
    listens = ("A",)


@dataclass
class Box:
    value: int


class Switch(Detector):
    """Keeps its state as a bound method."""

    listens = ("A",)
    publishes = ("On", "Off")

    def __init__(self) -> None:
        self.state = self.off
        self.count = 0

    def off(self, event: Event, emit: Emit) -> None:
        self.count += 1
        self.state = self.on
        emit("On", event.ts, n=self.count)

    def on(self, event: Event, emit: Emit) -> None:
        self.count += 1
        self.state = self.off
        emit("Off", event.ts, n=self.count)

    def on_event(self, event: Event, emit: Emit) -> None:
        self.state(event, emit)


def restored(detector: Detector) -> Any:
    """A detector of the same class that was given the saved state."""
    other = type(detector).__new__(type(detector))
    other.restore(detector.snapshot())
    return other


def test_a_detector_without_on_event_says_that_it_lacks_it() -> None:
    with pytest.raises(DetectorError, match="Bare does not define on_event"):
        Bare().on_event(event(1), silent)


def test_restoring_brings_back_every_attribute() -> None:
    detector = Bare()
    detector.__dict__.update(a=1, b="two", c=[3], d=None)
    state = detector.snapshot()
    detector.__dict__.update(a=9, b="other", e="new")
    detector.c.append(4)  # type: ignore[attr-defined]
    detector.restore(state)
    assert detector.__dict__ == {"a": 1, "b": "two", "c": [3], "d": None}


def test_a_snapshot_does_not_change_when_the_detector_goes_on() -> None:
    detector = Bare()
    detector.items = [1]  # type: ignore[attr-defined]
    state = detector.snapshot()
    detector.items.append(2)  # type: ignore[attr-defined]
    detector.restore(state)
    detector.items.append(3)  # type: ignore[attr-defined]
    detector.restore(state)
    assert detector.items == [1]  # type: ignore[attr-defined]


def test_equal_states_have_equal_snapshots() -> None:
    detector = Switch()
    state = detector.snapshot()
    detector.restore(state)
    assert detector.snapshot() == state
    detector.count = 5
    assert detector.snapshot() != state


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, {2: (3, {4})}], "b": deque([1, 2], maxlen=3)},
        Counter("abca"),
        defaultdict(list, a=[1]),
        Box(7),
        np.arange(6).reshape(2, 3),
        {("x", 1): frozenset({1, 2})},
        2**100,
        float("inf"),
        Listen("A", unordered=True),
        event(5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nested_structures_of_all_kinds_are_saved(value: Any) -> None:
    detector = Bare()
    detector.value = value  # type: ignore[attr-defined]
    back = restored(detector).value
    assert type(back) is type(value)
    assert np.array_equal(back, value) if isinstance(value, np.ndarray) else back == value


def test_two_names_for_one_object_stay_one_object() -> None:
    detector = Bare()
    detector.one = detector.other = [1]  # type: ignore[attr-defined]
    back = restored(detector)
    assert back.one is back.other


def test_a_structure_that_contains_itself_is_saved() -> None:
    detector = Bare()
    loop: list[Any] = [1]
    loop.append(loop)
    detector.loop = loop  # type: ignore[attr-defined]
    back = restored(detector)
    assert back.loop[1] is back.loop


def test_a_bound_method_kept_as_state_comes_back_bound_to_the_detector_itself() -> None:
    detector = Switch()
    state = detector.snapshot()
    detector.on_event(event(1), lambda type, ts, **data: None)
    detector.restore(state)
    assert detector.state.__self__ is detector
    assert detector.state.__name__ == "off"


def test_a_bound_method_bound_elsewhere_comes_back_bound_to_the_restored_detector() -> None:
    detector = Switch()
    detector.on_event(event(1), lambda type, ts, **data: None)
    back = restored(detector)
    assert back.state.__self__ is back
    assert back.state.__name__ == "on"


def test_references_to_the_detector_inside_its_state_stay_references() -> None:
    detector = Bare()
    detector.me, detector.deep = detector, {"x": [detector]}  # type: ignore[attr-defined]
    detector.restore(detector.snapshot())
    assert detector.me is detector  # type: ignore[attr-defined]
    assert detector.deep["x"][0] is detector  # type: ignore[attr-defined]


def test_a_lambda_over_the_detector_sees_the_detector_after_restoring() -> None:
    detector: Any = Bare()
    detector.count = 1
    detector.doubled = lambda: 2 * detector.count
    detector.restore(detector.snapshot())
    detector.count = 21
    assert detector.doubled() == 42


def test_a_lambda_as_state_is_saved_with_its_defaults() -> None:
    detector: Any = Bare()
    detector.rule = lambda x, y=3: x + y
    detector.restore(detector.snapshot())
    assert detector.rule(1) == 4


def test_restoring_one_detector_while_another_is_restored_keeps_them_apart() -> None:
    class Pair(Detector):
        listens = ("A",)

        def __init__(self) -> None:
            self.inner = Switch()
            self.me = self

    pair = restored(Pair())
    assert pair.me is pair
    assert pair.inner.state.__self__ is pair.inner


@pytest.mark.parametrize("make", [threading.Lock, lambda: (i for i in range(3))])
def test_state_that_cannot_be_saved_is_an_error_that_names_the_detector(make: Any) -> None:
    detector = Bare()
    detector.bad = {"deep": [make()]}  # type: ignore[attr-defined]
    with pytest.raises(DetectorError, match=r"state of Bare cannot be saved: .*snapshot"):
        detector.snapshot()


def test_state_that_nests_too_deep_is_an_error_that_names_the_detector() -> None:
    detector = Bare()
    chain: list[Any] = []
    for _ in range(100_000):
        chain = [chain]
    detector.chain = chain  # type: ignore[attr-defined]
    with pytest.raises(DetectorError, match="Bare"):
        detector.snapshot()


def test_a_failed_snapshot_leaves_the_detector_as_it_was() -> None:
    detector: Any = Bare()
    detector.lock, detector.count = threading.Lock(), 3
    before = dict(detector.__dict__)
    with pytest.raises(DetectorError):
        detector.snapshot()
    assert detector.__dict__ == before


def test_a_failed_restore_leaves_the_detector_as_it_was() -> None:
    detector: Any = Bare()
    detector.count = 3
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        detector.restore(b"\x80\x05 no pickle")
    assert detector.__dict__ == {"count": 3}


def test_a_listen_is_its_type_and_survives_pickling() -> None:
    listen = pickle.loads(pickle.dumps(Listen("A", unordered=True)))
    assert listen == "A"
    assert (type(listen), listen.unordered) == (Listen, True)
    assert Listen("A").unordered is False


# ---- in a run --------------------------------------------------------------------------------


def disordered() -> list[Event]:
    return [event(ts) for ts in (10, 30, 20, 50, 40, 45, 60)]


def test_a_detector_with_a_bound_method_as_state_is_repaired_to_truth() -> None:
    hierarchy = Hierarchy("h").add("switch", Switch())
    result = run(hierarchy, disordered(), chunk_rows=1)
    assert result.stats["switch"].replayed > 0
    assert result.final == truth(hierarchy, disordered())


def test_neither_a_run_nor_truth_changes_the_detector_that_was_added() -> None:
    switch = Switch()
    hierarchy = Hierarchy("h").add("switch", switch)
    run(hierarchy, disordered())
    truth(hierarchy, disordered())
    assert (switch.count, switch.state.__name__) == (0, "off")


class ByLambda(Detector):
    listens = ("A",)
    publishes = ("T",)

    def __init__(self) -> None:
        self.count = 0
        self.shown = lambda: self.count

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        emit("T", event.ts, n=self.shown())


def test_a_lambda_over_self_sees_the_state_of_the_run() -> None:
    hierarchy = Hierarchy("h").add("d", ByLambda())
    assert [e.data["n"] for e in run(hierarchy, [event(1), event(2)]).final] == [1, 2]


class Slotted(Detector):
    __slots__ = ("count",)
    listens = ("A",)
    publishes = ("T",)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        emit("T", event.ts, n=self.count)


def test_attributes_in_slots_are_part_of_the_state() -> None:
    detector = Slotted()
    state = detector.snapshot()
    detector.count = 5
    detector.restore(state)
    assert detector.count == 0


def test_a_detector_with_slots_is_repaired_to_truth() -> None:
    hierarchy = Hierarchy("h").add("d", Slotted())
    assert run(hierarchy, disordered(), chunk_rows=1).final == truth(hierarchy, disordered())


class Private(Detector):
    __slots__ = ("__count",)

    def __init__(self) -> None:
        self.__count = 0

    def bump(self) -> int:
        self.__count += 1
        return self.__count


def test_private_attributes_in_slots_are_part_of_the_state() -> None:
    detector = Private()
    state = detector.snapshot()
    detector.bump()
    detector.restore(state)
    assert detector.bump() == 1


def test_a_slot_that_was_empty_is_empty_again_after_restoring() -> None:
    detector = Slotted.__new__(Slotted)
    state = detector.snapshot()
    detector.count = 5
    detector.restore(state)
    assert not hasattr(detector, "count")


class Locked(Detector):
    """Keeps a lock out of its state in the way the error message recommends."""

    listens = ("A",)
    publishes = ("T",)

    def __init__(self) -> None:
        self.lock, self.count = threading.Lock(), 0

    def on_event(self, event: Event, emit: Emit) -> None:
        self.count += 1
        emit("T", event.ts, n=self.count)

    def snapshot(self) -> bytes:
        return str(self.count).encode()

    def restore(self, state: bytes) -> None:
        self.count = int(state)


def test_a_detector_with_its_own_snapshot_may_hold_what_cannot_be_pickled() -> None:
    assert len(run(Hierarchy("h").add("d", Locked()), disordered()).final) == 7


class Unsavable(Detector):
    listens = ("A",)

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def on_event(self, event: Event, emit: Emit) -> None: ...


def test_a_run_of_a_detector_that_cannot_be_saved_is_a_detector_error() -> None:
    with pytest.raises(DetectorError, match="Unsavable"):
        run(Hierarchy("h").add("d", Unsavable()), disordered())
