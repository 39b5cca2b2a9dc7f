"""What passes between cells: values that travel."""

import dataclasses
import pickle
from typing import Any, get_args

import pytest

from slackline import Event
from slackline import messages as module
from slackline.messages import Add, Delay, Heard, Message, Promise, Retract, Tick

EVENT = Event("T", 5, {"v": 1}, "d", 1)

ONE_OF_EACH: list[Any] = [
    Add(EVENT, rev=1, update=2, clk=3, lead=4),
    Retract(EVENT, rev=1, update=2, clk=3),
    Promise("d", "T", 7),
    Delay("d", "T", 7),
    Tick("A", 7),
    Heard("h1", 7),
]
if hasattr(module, "RetractAbove"):
    ONE_OF_EACH.append(module.RetractAbove("d", "T", seq=1, update=2, clk=3))


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda message: type(message).__name__)
def test_a_message_cannot_be_changed_and_survives_pickling(message: Any) -> None:
    copy = pickle.loads(pickle.dumps(message))
    assert (copy, hash(copy)) == (message, hash(message))
    for field in dataclasses.fields(message):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(message, field.name, None)


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda message: type(message).__name__)
def test_messages_differ_when_any_field_does(message: Any) -> None:
    for field in dataclasses.fields(message):
        assert dataclasses.replace(message, **{field.name: "other"}) != message


def test_there_is_an_example_of_every_message() -> None:
    assert {type(message) for message in ONE_OF_EACH} == set(get_args(Message))


def test_an_event_is_not_premature_unless_it_says_so() -> None:
    assert Add(EVENT, 0, 1, 1).lead == 0
