"""Random hierarchies and arrival orders: whatever happens on the way, the end is truth."""

from __future__ import annotations

import pytest

from slackline import KSlack, run, truth
from slackline.cases import case, verify_run, verify_simulate
from slackline.initialise import calibrate


def _failures(verdicts):
    return "\n".join(
        f"slackline simulate --seed {v.case.seed}    # {v.case.description}\n  "
        + "\n  ".join(v.wrong[:5])
        for v in verdicts
        if v.wrong
    )


def test_running_in_process_ends_with_truth(seeds):
    failures = _failures(verify_run(seed) for seed in seeds)
    assert not failures, failures


def test_simulated_hosts_with_bad_networks_end_with_truth(seeds):
    failures = _failures(verify_simulate(seed) for seed in seeds)
    assert not failures, failures


def test_the_cases_are_not_too_easy():
    verdicts = [verify_run(seed, chunk_rows=1) for seed in range(30)]
    stats = [s for verdict in verdicts for s in verdict.run.stats.values()]
    assert sum(s.repaired for s in stats) > 1000
    assert sum(s.retracted for s in stats) > 500
    assert sum(s.published for s in stats) > 1000
    assert any(len(verdict.case.hierarchy.levels) == 5 for verdict in verdicts)


def test_a_simulation_of_one_seed_is_the_same_to_the_byte():
    traces = ["\n".join(verify_simulate(11).run.trace) for _ in range(2)]
    assert len(traces[0]) > 1000
    assert traces[0] == traces[1]


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_plain_k_slack_is_exact_after_calibration_and_shows_every_miss_before(seed):
    made = case(seed)
    plain = KSlack(repair=0, window=1_000_000)
    expected = truth(made.hierarchy, made.arrivals)
    configuration = calibrate(made.hierarchy, made.arrivals)
    warm = run(made.hierarchy, made.arrivals, plain, start=configuration.starts())
    assert warm.late == []
    assert warm.final == expected
    cold = run(made.hierarchy, made.arrivals, plain)
    if cold.final != expected:
        assert cold.late
