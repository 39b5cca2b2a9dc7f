"""The ledger: numbering, what a replay leaves standing, revisions, and what is final."""

from typing import Any

import numpy as np
import pytest

from slackline import Event
from slackline.events import Key
from slackline.ledger import Emission, Ledger, Output


def place(ts: int) -> Key:
    return Key(ts, "A", "p", ts)


def said(at: int, type: str = "T", **data: Any) -> Emission:
    """Something emitted because of the input at ``at``."""
    return Emission(place(at), type, at, data, update=at, clk=at + 5)


def shown(outputs: list[Output]) -> list[tuple[str, int, int, int]]:
    return [(o.event.type, o.event.seq, o.rev, o.event.ts) for o in outputs]


def ledger_with(*emissions: Emission) -> Ledger:
    ledger = Ledger("d", ("T", "U"))
    ledger.add(list(emissions))
    return ledger


def replayed(
    ledger: Ledger, behind: int, *emissions: Emission
) -> tuple[list[Output], list[Output]]:
    """Cut behind a place, count back, and publish anew, as a cell does."""
    cut = ledger.cut(place(behind))
    for output in cut:
        ledger.counts[output.event.type] -= 1
    return ledger.redo(cut, list(emissions))


def test_outputs_are_numbered_per_type_from_one() -> None:
    ledger = Ledger("d", ("T", "U"))
    outputs = ledger.add([said(1), said(1, "U"), said(2)])
    assert [o.event.name for o in outputs] == [("d", "T", 1), ("d", "U", 1), ("d", "T", 2)]
    assert ledger.counts == {"T": 2, "U": 1}
    assert ledger.add([said(3)])[0].event.seq == 3
    assert len(ledger) == 4


def test_an_output_carries_what_was_emitted() -> None:
    (output,) = Ledger("d", ("T",)).add([said(7, v=1)])
    assert output.event == Event("T", 7, {"v": 1}, "d", 1)
    assert (output.place, output.rev, output.update, output.clk) == (place(7), 0, 7, 12)


def test_cutting_takes_out_what_was_caused_behind_a_place() -> None:
    ledger = ledger_with(said(1), said(2), said(2, "U"), said(3))
    assert shown(ledger.cut(place(2))) == [("T", 3, 0, 3)]
    assert len(ledger) == 3


def test_a_replay_that_says_the_same_retracts_and_adds_nothing() -> None:
    ledger = ledger_with(said(1), said(2, v=1), said(3, "U"))
    assert replayed(ledger, 1, said(2, v=1), said(3, "U")) == ([], [])
    assert ledger.counts == {"T": 2, "U": 1}
    assert shown(ledger.finalise(10)) == [("T", 1, 0, 1), ("T", 2, 0, 2), ("U", 1, 0, 3)]


def test_an_output_that_stands_keeps_its_time_of_publication_and_takes_its_new_place() -> None:
    ledger = ledger_with(said(2))
    moved = Emission(place(3), "T", 2, {}, update=99, clk=99)
    assert replayed(ledger, 1, moved) == ([], [])
    (output,) = ledger.finalise(10)
    assert (output.place, output.update, output.clk) == (place(3), 2, 7)


def test_equal_data_with_numpy_values_stands() -> None:
    ledger = ledger_with(said(2, v=np.array([1, 2])))
    assert replayed(ledger, 1, said(2, v=np.array([1, 2]))) == ([], [])


@pytest.mark.parametrize(
    "other", [said(2, v=2), said(2), Emission(place(2), "T", 1, {"v": 1}, 2, 7)]
)
def test_an_output_with_other_content_is_retracted_and_added_with_the_next_revision(
    other: Emission,
) -> None:
    ledger = ledger_with(said(2, v=1))
    retracted, added = replayed(ledger, 1, other)
    assert [(o.event.data, o.rev) for o in retracted] == [({"v": 1}, 0)]
    assert [(o.event.ts, o.event.data, o.rev, o.event.seq) for o in added] == [
        (other.ts, other.data, 1, 1)
    ]


def test_a_late_input_shifts_the_numbers_of_what_follows() -> None:
    ledger = ledger_with(said(2), said(4), said(6))
    retracted, added = replayed(ledger, 2, said(3), said(4), said(6))
    assert shown(retracted) == [("T", 2, 0, 4), ("T", 3, 0, 6)]
    assert shown(added) == [("T", 2, 1, 3), ("T", 3, 1, 4), ("T", 4, 0, 6)]


def test_what_is_not_said_again_is_retracted_and_its_number_comes_back_with_a_new_revision() -> (
    None
):
    ledger = ledger_with(said(2), said(4))
    retracted, added = replayed(ledger, 2)
    assert (shown(retracted), added) == ([("T", 2, 0, 4)], [])
    assert shown(ledger.add([said(9)])) == [("T", 2, 1, 9)]


def test_revisions_go_on_counting_through_several_replays() -> None:
    ledger = ledger_with(said(2, v=0))
    for rev in range(1, 5):
        retracted, added = replayed(ledger, 1, said(2, v=rev))
        assert (shown(retracted), shown(added)) == ([("T", 1, rev - 1, 2)], [("T", 1, rev, 2)])
    replayed(ledger, 1)
    assert shown(ledger.add([said(2, v=9)])) == [("T", 1, 5, 2)]


def test_types_are_revised_independently() -> None:
    ledger = ledger_with(said(2, "T"), said(2, "U"))
    retracted, added = replayed(ledger, 1, said(2, "U"), said(2, "T", v=1))
    assert (shown(retracted), shown(added)) == ([("T", 1, 0, 2)], [("T", 1, 1, 2)])


def test_the_log_of_a_replay_adds_up_name_by_name() -> None:
    """Every name that is added was retracted before, or never published."""
    ledger = ledger_with(*[said(ts, v=0) for ts in range(2, 12)])
    alive = {("T", seq): 0 for seq in range(1, 11)}
    retracted, added = replayed(ledger, 4, *[said(ts, v=ts % 3 == 0) for ts in range(5, 14)])
    for output in retracted:
        assert alive.pop((output.event.type, output.event.seq)) == output.rev
    for output in added:
        assert (output.event.type, output.event.seq) not in alive
        alive[output.event.type, output.event.seq] = output.rev
    final = ledger.finalise(100)
    assert alive == {(o.event.type, o.event.seq): o.rev for o in final}
    assert [o.event.seq for o in final] == list(range(1, len(final) + 1))


def test_outputs_that_were_cut_and_still_hold_can_be_put_back() -> None:
    ledger = ledger_with(said(1), said(2), said(3))
    cut = ledger.cut(place(1))
    ledger.counts["T"] = 1
    assert ledger.redo(cut[:1], [said(2)]) == ([], [])
    ledger.keep(cut[1:])
    assert shown(ledger.finalise(10)) == [("T", 1, 0, 1), ("T", 2, 0, 2), ("T", 3, 0, 3)]


def test_final_is_what_was_caused_before_a_time_and_it_is_given_once() -> None:
    ledger = ledger_with(said(1), said(2), said(3))
    assert ledger.finalise(1) == []
    assert shown(ledger.finalise(3)) == [("T", 1, 0, 1), ("T", 2, 0, 2)]
    assert ledger.finalise(3) == []
    assert len(ledger) == 1
    assert ledger.counts["T"] == 3


def test_finality_looks_at_the_cause_and_not_at_the_date_of_an_output() -> None:
    ledger = Ledger("d", ("T",))
    ledger.add([Emission(place(9), "T", 1, {}, 9, 9)])
    assert ledger.finalise(9) == []
    assert len(ledger.finalise(10)) == 1


def test_an_output_with_a_value_that_is_not_a_number_stands() -> None:
    ledger = ledger_with(said(2, v=float("nan")))
    assert replayed(ledger, 1, said(2, v=float("nan"))) == ([], [])
