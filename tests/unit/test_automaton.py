"""The automaton: which transition is taken, in which order actions run, what its state is."""

from typing import Any

import pytest

from slackline import ANY, Automaton, DetectorError, Emit, Event, Hierarchy, run, truth


def event(type: str, ts: int = 1, seq: int = 1, **data: Any) -> Event:
    return Event(type, ts, data, "p", seq)


class Recorder:
    """Stands in for ``emit`` and for the actions, and writes down who was called."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, type: str, ts: int, **data: Any) -> None:
        self.calls.append((type, ts, data))

    def action(self, name: str) -> Any:
        return lambda event, emit: self.calls.append((name, event.type))


def feed(automaton: Automaton, *types: str) -> str:
    for type in types:
        automaton.on_event(event(type), Recorder())
    return automaton.current


class Door(Automaton):
    """Open and shut, as a user would write it: the actions are methods."""

    listens = ("Push", "Lock")
    publishes = ("Opened", "Shut")

    def __init__(self) -> None:
        super().__init__()
        self.pushes = 0
        self.limit = 100
        self.state("shut", entry=self.shut)
        self.state("open", entry=self.opened)
        self.connect("shut", "open", "Push", guard=self.may_open)
        self.connect("open", "shut")

    def may_open(self, event: Event) -> bool:
        return event.ts <= self.limit

    def opened(self, event: Event, emit: Emit) -> None:
        self.pushes += 1
        emit("Opened", event.ts, n=self.pushes)

    def shut(self, event: Event, emit: Emit) -> None:
        self.limit -= 10
        emit("Shut", event.ts, limit=self.limit)


def test_the_first_state_declared_is_the_start() -> None:
    automaton = Automaton()
    assert automaton.state("one") == "one"
    automaton.state("two")
    assert automaton.current == "one"


def test_an_event_without_a_fitting_transition_changes_nothing() -> None:
    recorder = Recorder()
    automaton = Automaton()
    automaton.state("one", exit=recorder.action("exit"))
    automaton.state("two", entry=recorder.action("entry"))
    automaton.connect("one", "two", "A")
    automaton.on_event(event("B"), recorder)
    assert (automaton.current, recorder.calls) == ("one", [])


def test_only_the_transitions_of_the_current_state_are_tried() -> None:
    automaton = Automaton()
    for name in ("one", "two", "three"):
        automaton.state(name)
    automaton.connect("two", "three", "A")
    automaton.connect("one", "two", "A")
    assert feed(automaton, "A") == "two"
    assert feed(automaton, "A") == "three"


def test_the_exit_action_runs_before_the_entry_action_and_the_change_lies_between() -> None:
    automaton = Automaton()
    seen = []
    automaton.state("one", exit=lambda event, emit: seen.append(("exit", automaton.current)))
    automaton.state("two", entry=lambda event, emit: seen.append(("entry", automaton.current)))
    automaton.connect("one", "two", "A")
    feed(automaton, "A")
    assert seen == [("exit", "one"), ("entry", "two")]


def test_the_start_state_is_not_entered_by_starting() -> None:
    recorder = Recorder()
    automaton = Automaton()
    automaton.state("one", entry=recorder.action("entry"))
    automaton.connect("one", "one", "A")
    feed(automaton, "B")
    assert recorder.calls == []


def test_a_transition_to_the_same_state_leaves_and_enters_it() -> None:
    recorder = Recorder()
    automaton = Automaton()
    automaton.state("one", entry=recorder.action("entry"), exit=recorder.action("exit"))
    automaton.connect("one", "one", "A")
    automaton.on_event(event("A"), recorder)
    assert recorder.calls == [("exit", "A"), ("entry", "A")]


def test_one_event_takes_one_transition() -> None:
    automaton = Automaton()
    for name in ("one", "two", "three"):
        automaton.state(name)
    automaton.connect("one", "two", "A")
    automaton.connect("two", "three", "A")
    assert feed(automaton, "A") == "two"


def test_transitions_are_tried_in_the_order_they_were_connected() -> None:
    automaton = Automaton()
    for name in ("start", "first", "second"):
        automaton.state(name)
    automaton.connect("start", "first", "A")
    automaton.connect("start", "second", "A")
    assert feed(automaton, "A") == "first"


def test_a_guard_that_refuses_passes_the_event_to_the_next_transition() -> None:
    asked = []
    automaton = Automaton()
    for name in ("start", "first", "second"):
        automaton.state(name)
    automaton.connect("start", "first", "A", guard=lambda event: bool(asked.append(event.type)))
    automaton.connect("start", "second", "A", guard=lambda event: event.data["v"] > 3)
    automaton.on_event(event("A", v=3), Recorder())
    assert automaton.current == "start"
    automaton.on_event(event("A", v=4), Recorder())
    assert (automaton.current, asked) == ("second", ["A", "A"])


def test_a_guard_is_not_asked_about_other_types() -> None:
    automaton = Automaton()
    automaton.state("one")
    automaton.connect("one", "one", "A", guard=lambda event: pytest.fail("asked"))
    feed(automaton, "B")


def test_any_fits_every_type_but_an_earlier_transition_goes_first() -> None:
    automaton = Automaton()
    for name in ("start", "special", "rest"):
        automaton.state(name)
    automaton.connect("start", "special", "A")
    automaton.connect("start", "rest", ANY)
    automaton.connect("rest", "start")
    assert feed(automaton, "B") == "rest"
    assert feed(automaton, "Z") == "start"
    assert feed(automaton, "A") == "special"


@pytest.mark.parametrize(("source", "target"), [("one", "none"), ("none", "one")])
def test_a_transition_of_an_undeclared_state_is_refused(source: str, target: str) -> None:
    automaton = Automaton()
    automaton.state("one")
    automaton.connect("one", "one", "A")
    with pytest.raises(
        DetectorError, match=r"state 'none' is not declared; declared are \['one'\]"
    ):
        automaton.connect(source, target)
    assert feed(automaton, "B") == "one"


def test_a_state_declared_twice_is_refused_and_keeps_its_first_actions() -> None:
    recorder = Recorder()
    automaton = Automaton()
    automaton.state("one", exit=recorder.action("exit"))
    automaton.connect("one", "one", "A")
    with pytest.raises(DetectorError, match="Automaton: state 'one' is declared twice"):
        automaton.state("one")
    automaton.on_event(event("A"), recorder)
    assert recorder.calls == [("exit", "A")]


def test_a_snapshot_holds_the_memory_and_not_the_wiring() -> None:
    small, large = Door(), Door()
    for i in range(200):
        large.state(f"further {i}", entry=lambda event, emit: None)
        large.connect("shut", f"further {i}")
    assert large.snapshot() == small.snapshot()
    large.pushes = 1
    assert large.snapshot() != small.snapshot()


def test_restoring_keeps_the_wiring_and_brings_back_state_and_memory() -> None:
    door = Door()
    saved = door.snapshot()
    door.on_event(event("Push"), Recorder())
    assert (door.current, door.pushes) == ("open", 1)
    door.restore(saved)
    assert (door.current, door.pushes) == ("shut", 0)
    recorder = Recorder()
    door.on_event(event("Push", ts=7), recorder)
    assert recorder.calls == [("Opened", 7, {"n": 1})]


def test_a_snapshot_that_fails_leaves_the_wiring_in_place() -> None:
    door: Any = Door()
    door.bad = (i for i in range(3))
    with pytest.raises(DetectorError):
        door.snapshot()
    assert feed(door, "Push") == "open"


def test_guards_and_actions_of_a_run_use_the_memory_of_that_run() -> None:
    door = Door()
    hierarchy = Hierarchy("h").add("door", door)
    times = [10, 30, 20, 70, 60, 85, 80, 75, 88, 90, 92]
    arrivals = [event("Push", ts, i + 1) for i, ts in enumerate(times)]
    for _ in range(2):
        result = run(hierarchy, arrivals, chunk_rows=1)
        assert result.stats["door"].replayed > 0
        assert result.final == truth(hierarchy, arrivals)
    assert (door.current, door.pushes, door.limit) == ("shut", 0, 100)


class Leaky(Automaton):
    """Its action is a lambda over ``self``, which the docstring of Automaton allows."""

    listens = ("A",)
    publishes = ("T",)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.state("one", entry=lambda event, emit: self.fire(event, emit))
        self.connect("one", "one")

    def fire(self, event: Event, emit: Emit) -> None:
        self.count += 1
        emit("T", event.ts, n=self.count)


def test_an_action_that_is_a_lambda_over_self_starts_afresh_in_every_run() -> None:
    hierarchy = Hierarchy("h").add("leaky", Leaky())
    arrivals = [event("A", 1, 1), event("A", 2, 2)]
    counted = [[e.data["n"] for e in truth(hierarchy, arrivals)] for _ in range(2)]
    assert counted == [[1, 2], [1, 2]]


def test_an_automaton_without_states_says_so() -> None:
    with pytest.raises(DetectorError, match="state"):
        Automaton().on_event(event("A"), Recorder())
