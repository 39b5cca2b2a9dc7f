"""The soccer example: its detectors, its game, its network."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline import Detector, Event, EventBatch, Hierarchy, run, truth
from slackline.examples.game import BALL, LIMBS, in_order, share_disordered, team_of
from slackline.examples.soccer import (
    BallAcceleration,
    Passing,
    PlayerHitsBall,
    Proximity,
    disordered,
    game,
    hierarchy,
)

AXES = ("x", "y", "z")
REFEREE = LIMBS * 23
TRANSMITTERS = (
    BALL,
    BALL,
    BALL,
    LIMBS,
    LIMBS + 1,
    2 * LIMBS,
    2 * LIMBS + 3,
    22 * LIMBS + 3,
    REFEREE,
)


@pytest.fixture(scope="module")
def played() -> list[EventBatch]:
    return game(4, seed=3)


@pytest.fixture(scope="module")
def expected(played: list[EventBatch]) -> list[Event]:
    return truth(hierarchy(), [in_order(played)])


def positions(seed: int, rows: int) -> list[EventBatch]:
    """A few transmitters in a small room, so that all of them come near all the time."""
    rng = random.Random(seed)
    sids = [rng.choice(TRANSMITTERS) for _ in range(rows)]
    seen: Counter[int] = Counter()
    batches = []
    for row, sid in enumerate(sids):
        seen[sid] += 1
        data = {axis: np.array([rng.randint(-900, 900)]) for axis in AXES}
        data |= {"sid": np.array([sid]), "v": np.array([0])}
        data["a"] = np.array([rng.choice([0, 0, 0, 0, 20_000, 60_000, 300_000])])
        ts = 150 * row + rng.choice([0, 150])  # the ball is missing for long now and then
        batches.append(EventBatch("position", [ts], data, f"t{sid}", [seen[sid]]))
    return batches


def fed(detector: Detector, batch: EventBatch, cuts: list[int] | None) -> list[Any]:
    """What a detector emits on a batch in order: row by row, or in columns, cut at some rows."""
    emitted: list[Any] = []

    class Take:
        def at(self, row: int) -> Take:
            return self

        def __call__(self, type: str, ts: int, **data: Any) -> None:
            emitted.append((type, ts, data))

    if cuts is None:
        for event in batch:
            detector.on_event(event, Take())
        return emitted
    assert detector.on_batch is not None
    for begin, end in zip([0, *cuts], [*cuts, len(batch)], strict=True):
        if begin < end:
            detector.on_batch(batch[begin:end], Take())
    return emitted


@given(st.integers(0, 10**9), st.integers(1, 120), st.data())
@settings(deadline=None, derandomize=True, max_examples=60)
@pytest.mark.parametrize("kind", [Proximity, BallAcceleration])
def test_columns_and_single_events_give_the_same_outputs_and_state(
    kind: type[Detector], seed: int, rows: int, data: st.DataObject
) -> None:
    batch = in_order(positions(seed, rows))
    cuts = sorted(data.draw(st.sets(st.integers(0, rows), max_size=4)))
    single, columns = kind(), kind()
    assert fed(columns, batch, cuts) == fed(single, batch, None)
    assert vars(columns) == vars(single)


def test_small_rooms_make_every_detector_speak() -> None:
    rooms = [truth(hierarchy(), positions(seed, 120)) for seed in range(12)]
    count = Counter(event.type for room in rooms for event in room)
    assert min(count[type_] for type_ in ("near", "not_near", "peak", "hit")) >= 5, count


@given(st.integers(0, 10**9), st.sampled_from([1, 16, 8192]))
@settings(deadline=None, derandomize=True, max_examples=25)
def test_random_positions_out_of_order_end_with_truth(seed: int, chunk_rows: int) -> None:
    batches = positions(seed, 120)
    rng = random.Random(seed)
    arrivals = sorted(batches, key=lambda batch: int(batch.ts[0]) + rng.randint(0, 8_000))
    result = run(hierarchy(), arrivals, chunk_rows=chunk_rows)
    assert result.final == truth(hierarchy(), batches)


@pytest.mark.parametrize("chunk_rows", [300, 2_000, 8_192])
def test_a_game_over_a_bad_network_ends_with_truth(
    played: list[EventBatch], expected: list[Event], chunk_rows: int
) -> None:
    result = run(hierarchy(), disordered(played, seed=3), chunk_rows=chunk_rows)
    assert result.final == expected
    assert not result.late


def test_without_columns_the_game_ends_the_same(played: list[EventBatch]) -> None:
    class Slow(Proximity):
        on_batch = None  # type: ignore[assignment]

    short = [batch for batch in played if batch.ts[-1] < 1_500_000]

    def nearby(proximity: Proximity) -> Hierarchy:
        return Hierarchy("nearby", unit="us").add("proximity", proximity)

    arrivals = disordered(short, seed=3)
    slow = run(nearby(Slow()), arrivals).final
    assert slow
    assert slow == run(nearby(Proximity()), arrivals).final


def test_hits_and_passes_happen(expected: list[Event]) -> None:
    count = Counter(event.type for event in expected)
    assert count["hit"] >= 4
    assert count["pass"] + count["lost"] >= 1
    for event in expected:
        if event.type in ("pass", "lost"):
            same = team_of(event.data["by"]) == team_of(event.data["to"])
            assert same == (event.type == "pass")


def test_who_hits_the_ball_is_close_to_it(played: list[EventBatch], expected: list[Event]) -> None:
    everything = in_order(played)
    place = np.stack([everything.columns[axis] for axis in AXES], axis=1)
    sid = everything.columns["sid"]
    for hit in (event for event in expected if event.type == "hit"):
        before = everything.ts <= hit.ts
        ball = place[before & (sid == BALL)][-1]
        limbs = range(LIMBS * hit.data["player"], LIMBS * (hit.data["player"] + 1))
        nearest = min(np.linalg.norm(place[before & (sid == limb)][-1] - ball) for limb in limbs)
        assert nearest < 1_250, hit


def test_the_ball_rolls_ever_slower_between_two_players(played: list[EventBatch]) -> None:
    ball = in_order([batch for batch in played if batch.publisher == "ball"])
    speed, quiet = ball.columns["v"], ball.columns["a"] < 15_000
    fast = quiet & (speed > 6_000) & (ball.columns["z"] < 200)
    steps = np.diff(speed)[fast[1:] & fast[:-1]]
    assert len(steps) > 200
    assert steps.mean() < 0


def said(*events: tuple[str, int, dict[str, Any]]) -> list[Event]:
    return [
        Event(type_, ts, data, "test", seq) for seq, (type_, ts, data) in enumerate(events, start=1)
    ]


def hits(*events: tuple[str, int, dict[str, Any]]) -> list[tuple[int, int]]:
    graph = Hierarchy("hits").add("hit", PlayerHitsBall())
    faults: list[tuple[str, Event, Exception]] = []
    found = [(hit.ts, hit.data["player"]) for hit in truth(graph, said(*events), faults)]
    assert not faults
    return found


NEAR_5, LEFT_5 = ("near", 10, {"player": 5}), ("not_near", 20, {"player": 5})


def peak(ts: int) -> tuple[str, int, dict[str, Any]]:
    return ("peak", ts, {"a": 90_000})


def test_near_and_then_a_peak_is_a_hit() -> None:
    assert hits(NEAR_5, peak(15)) == [(15, 5)]


def test_a_peak_after_the_ball_has_left_is_no_hit() -> None:
    assert hits(NEAR_5, LEFT_5, peak(25)) == []


def test_a_peak_far_from_everybody_is_no_hit() -> None:
    assert hits(peak(5), NEAR_5) == []


def test_the_player_who_came_last_gets_the_hit() -> None:
    late = ("near", 12, {"player": 16})
    assert hits(NEAR_5, late, peak(15), LEFT_5, peak(30)) == [(15, 16), (30, 16)]


def test_when_the_last_to_come_leaves_the_other_still_has_the_ball() -> None:
    late, gone = ("near", 12, {"player": 16}), ("not_near", 14, {"player": 16})
    assert hits(NEAR_5, late, gone, peak(15)) == [(15, 5)]


def test_a_hit_by_a_rival_is_a_loss_and_one_long_after_is_nothing() -> None:
    def hit(ts: int, player: int) -> tuple[str, int, dict[str, Any]]:
        return ("hit", ts, {"player": player, "team": team_of(player)})

    second = 1_000_000
    events = said(hit(0, 5), hit(second, 7), hit(2 * second, 12), hit(9 * second, 13))
    graph = Hierarchy("passes", unit="us").add("pass", Passing())
    found = [(event.type, event.data["by"], event.data["to"]) for event in truth(graph, events)]
    assert found == [("pass", 5, 7), ("lost", 7, 12)]


def test_a_peak_is_dated_back_to_where_it_was_highest() -> None:
    values = [0] * 10 + [50_000, 150_000, 400_000, 150_000, 50_000] + [0] * 20
    rows = len(values)
    columns = {name: np.zeros(rows, dtype=np.int64) for name in ("sid", *AXES, "v")}
    batch = EventBatch(
        "position", np.arange(rows) * 500, columns | {"a": np.array(values)}, "ball", range(rows)
    )
    assert fed(BallAcceleration(), batch, None) == [("peak", 12 * 500, {"a": 400_000})]


def test_what_was_before_a_gap_in_the_signal_makes_no_peak() -> None:
    rows = 12
    columns = {name: np.zeros(rows, dtype=np.int64) for name in ("sid", *AXES, "v")}
    columns["a"] = np.array([300_000] * 6 + [0] * 6)
    ts = np.arange(rows) * 500 + np.where(np.arange(rows) < 6, 0, 60_000)
    batch = EventBatch("position", ts, columns, "ball", np.arange(1, rows + 1))
    assert fed(BallAcceleration(), batch, None) == fed(BallAcceleration(), batch, []) == []


def test_a_push_that_does_not_end_is_told_in_time() -> None:
    rows = 300
    columns = {name: np.zeros(rows, dtype=np.int64) for name in ("sid", *AXES, "v")}
    columns["a"] = np.full(rows, 60_000)
    batch = EventBatch("position", np.arange(rows) * 500, columns, "ball", np.arange(1, rows + 1))
    graph = Hierarchy("push", unit="us").add("peak", BallAcceleration())
    assert run(graph, [batch]).final == truth(graph, [batch])
    assert len(truth(graph, [batch])) > 1


def test_the_network_keeps_the_order_of_each_transmitter(played: list[EventBatch]) -> None:
    arrivals = disordered(played, seed=3)
    assert Counter(map(id, arrivals)) == Counter(map(id, played))
    last: Counter[str] = Counter()
    for batch in arrivals:
        name = str(batch.publisher)
        assert batch.seq[0] == last[name] + 1
        last[name] = int(batch.seq[-1])


def test_nine_in_ten_positions_arrive_out_of_order(played: list[EventBatch]) -> None:
    assert share_disordered(disordered(played, seed=3)) > 0.9


def test_no_position_is_later_than_packing_and_network_can_make_it(
    played: list[EventBatch],
) -> None:
    ts = np.concatenate([batch.ts for batch in disordered(played, seed=3)])
    lateness = np.maximum.accumulate(ts) - ts
    assert 100_000 < lateness.max() <= 150_000


def test_a_seed_always_makes_the_same_game_and_another_seed_another() -> None:
    def numbers(seed: int) -> list[int]:
        ball = [batch for batch in game(0.3, seed) if batch.publisher == "ball"]
        return [int(x) for batch in ball for x in batch.columns["x"]]

    assert numbers(1) == numbers(1)
    assert numbers(1) != numbers(2)


def test_a_detector_survives_a_snapshot_in_the_middle() -> None:
    batch = in_order(positions(5, 100))
    for kind in (Proximity, BallAcceleration):
        whole = fed(kind(), batch, None)
        first = kind()
        begin = fed(first, batch[:50], None)
        second = copy.deepcopy(kind())
        second.restore(first.snapshot())
        assert begin + fed(second, batch[50:], [20]) == whole
