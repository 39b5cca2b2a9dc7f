"""The sample of delays from which a speculating detector chooses its wait."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackline.speculation import SAMPLE_ROWS, SAMPLE_ROWS_PER_STEP, DelaySample

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)


def sample_of(*steps: list[int]) -> DelaySample:
    sample = DelaySample()
    for delays in steps:
        sample.add(np.array(delays, dtype=np.int64))
    return sample


@SETTINGS
@given(st.lists(st.lists(st.integers(0, 99), max_size=SAMPLE_ROWS_PER_STEP), max_size=10))
def test_few_delays_are_all_in_the_sample(steps: list[list[int]]) -> None:
    sample = sample_of(*steps)
    assert sample.sorted().tolist() == sorted(delay for delays in steps for delay in delays)
    assert len(sample) == sum(map(len, steps))


def test_of_a_long_step_a_part_is_taken_evenly() -> None:
    delays = list(range(10 * SAMPLE_ROWS_PER_STEP))
    taken = sample_of(delays).sorted()
    assert len(taken) == SAMPLE_ROWS_PER_STEP
    assert set(np.diff(taken).tolist()) == {10}


@pytest.mark.parametrize("before", [SAMPLE_ROWS - 1, SAMPLE_ROWS - 2, 2 * SAMPLE_ROWS - 3])
def test_where_the_ring_begins_anew_each_delay_is_taken_once(before: int) -> None:
    sample = sample_of(*[[0]] * before, list(range(100, 110)))
    assert [delay for delay in sample.sorted().tolist() if delay] == list(range(100, 110))
