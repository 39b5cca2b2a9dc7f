"""The inbox against a dict of what is in it."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from slackline import Event
from slackline.events import TS_MIN, Key
from slackline.inbox import Inbox

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)
START = Key(TS_MIN, "", "", 0)
END = Key.end_of(10**9)


def event(ts: int, seq: int = 1, type: str = "A", publisher: str = "d") -> Event:
    return Event(type, ts, {}, publisher, seq)


def put(inbox: Inbox, event: Event, rev: int = 0, update: int = 1) -> bool:
    return inbox.insert(event, rev, event.key, update)


def content(inbox: Inbox) -> list[Event]:
    return inbox.between(START, END)[1]


@SETTINGS
@given(
    st.lists(
        st.sampled_from(["insert", "insert", "insert", "remove", "purge", "between"]), max_size=60
    ),
    st.integers(0, 2**32),
)
def test_the_inbox_is_a_sorted_list_that_knows_names_and_revisions(
    actions: list[str], seed: int
) -> None:
    rng, inbox = random.Random(seed), Inbox()
    held: dict[tuple[str, str, int], tuple[int, Event, int]] = {}
    for update, action in enumerate(actions):
        made = event(rng.randint(0, 8), rng.randint(1, 4), rng.choice("AB"), rng.choice("de"))
        rev = rng.randint(0, 2)
        if action == "insert":
            new = made.name not in held or held[made.name][0] < rev
            assert put(inbox, made, rev, update) is new
            if new:
                held[made.name] = (rev, made, update)
        elif action == "remove":
            known = held.get(made.name)
            place = inbox.remove(made, rev)
            if known is not None and known[0] == rev:
                assert place == known[1].key
                del held[made.name]
            else:
                assert place is None
        elif action == "purge":
            inbox.purge(made.key)
            held = {name: entry for name, entry in held.items() if entry[1].key > made.key}
        after, upto = sorted([event(rng.randint(-1, 9)).key, Key.end_of(rng.randint(-1, 9))])
        inside = sorted(
            (e.key, e, update) for _, e, update in held.values() if after < e.key <= upto
        )
        places, events, updates = inbox.between(after, upto)
        assert list(zip(places, events, updates, strict=True)) == inside
        behind = [e.ts for _, e, _ in held.values() if e.key > after]
        assert inbox.first_after(after) == min(behind, default=None)
        assert len(inbox) == len(held)


def test_a_repeated_or_older_revision_is_refused_and_changes_nothing() -> None:
    inbox = Inbox()
    assert put(inbox, event(5), rev=1)
    assert not put(inbox, event(7), rev=1)
    assert not put(inbox, event(7), rev=0)
    assert content(inbox) == [event(5)]


def test_a_newer_revision_takes_the_place_of_the_older_one() -> None:
    inbox = Inbox()
    put(inbox, event(5), rev=0)
    assert put(inbox, event(3), rev=1)
    assert content(inbox) == [event(3)]
    assert inbox.remove(event(5), rev=0) is None
    assert inbox.remove(event(3), rev=1) == event(3).key
    assert len(inbox) == 0


def test_a_place_may_differ_from_the_events_own() -> None:
    inbox = Inbox()
    place = event(50).key._replace(nth=1)
    early = event(5, seq=2)
    inbox.insert(early, 0, place, 1)
    put(inbox, event(50))
    assert inbox.between(START, END) == ([event(50).key, place], [event(50), early], [1, 1])
    assert inbox.remove(early, 0) == place
    assert content(inbox) == [event(50)]


def test_what_was_purged_is_forgotten_with_its_name() -> None:
    inbox = Inbox()
    put(inbox, event(5))
    inbox.purge(event(5).key)
    assert len(inbox) == 0
    assert inbox.remove(event(5), 0) is None
    assert put(inbox, event(5))


def test_nothing_lies_behind_the_last_event() -> None:
    inbox = Inbox()
    assert inbox.first_after(START) is None
    put(inbox, event(5))
    assert inbox.first_after(event(5).key) is None
    assert inbox.between(event(5).key, END) == ([], [], [])
