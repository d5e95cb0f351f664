"""Thousands of random cluster histories with faults, and none of them loses a record."""

import os

import pytest

from testkit.simulation import simulated_broker
from testkit.simulation.cluster_simulator import ClusterSimulator
from testkit.simulation.virtual_cluster import Violation

# Ten milliseconds each. `HEADRACE_SEEDS=20000` plays more of them.
SEEDS = int(os.environ.get("HEADRACE_SEEDS", "600"))


@pytest.mark.parametrize("start", range(0, SEEDS, 100))
def test_no_history_breaks_what_must_hold(start):
    acknowledged = 0
    for seed in range(start, start + 100):
        simulator = ClusterSimulator(seed)
        simulator.run()
        acknowledged += len(simulator.acknowledged)

    assert acknowledged > 1000


def test_a_seed_plays_the_same_history_again():
    histories = []
    for _ in range(2):
        simulator = ClusterSimulator(5)
        simulator.run()
        histories.append(simulator.trace)

    assert histories[0] == histories[1]


def test_a_follower_that_does_not_cut_its_log_is_found_out(monkeypatch):
    monkeypatch.setattr(simulated_broker, "divergence", lambda *_: None)

    with pytest.raises(Violation, match="play it again"):
        for seed in range(100):
            ClusterSimulator(seed).run()


def test_a_leader_that_counts_only_itself_is_found_out(monkeypatch):
    state = simulated_broker.PartitionState
    monkeypatch.setattr(state, "_advance", lambda self: self._high_watermark < self._log_end)
    monkeypatch.setattr(state, "high_watermark", property(lambda self: self._log_end))

    with pytest.raises(Violation, match="seed"):
        for seed in range(100):
            ClusterSimulator(seed).run()
