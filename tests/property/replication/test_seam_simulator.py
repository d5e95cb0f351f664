"""Random histories of brokers made of real parts, with faults and administrators in between."""

import os
from dataclasses import replace

import pytest
import structlog

from headrace.broker.membership.controller_client import ControllerClient
from headrace.broker.replica import replica_roles
from headrace.broker.replica.log_storage import LogStorage
from headrace.broker.replica.partition import Partition
from headrace.log.partition.partition_log import PartitionLog
from testkit.simulation import virtual_cluster
from testkit.simulation.seam_simulator import SeamSimulator
from testkit.simulation.virtual_cluster import Violation

# A tenth of a second each. `HEADRACE_SEAM_SEEDS=200` plays more of them, `tools/histories` many.
SEEDS = int(os.environ.get("HEADRACE_SEAM_SEEDS", "40"))


@pytest.fixture(autouse=True)
def quiet():
    """Brokers that are broken all the time have much to log."""
    with structlog.testing.capture_logs():
        yield


@pytest.mark.parametrize("start", range(0, SEEDS, 20))
def test_no_history_breaks_what_must_hold(start):
    acknowledged = 0
    for seed in range(start, start + 20):
        simulator = SeamSimulator(seed)
        simulator.run()
        acknowledged += sum(
            len(each.acknowledged) for each in simulator.history.partitions.values()
        )

    assert acknowledged > 500


def test_no_history_breaks_what_must_hold_where_topics_change_one_partition_at_a_time(monkeypatch):
    """As a topic of thousands does: requests, crashes and further changes come in between."""
    monkeypatch.setattr(replica_roles, "PARTITIONS_PER_SLICE", 1)

    for seed in range(20):
        simulator = SeamSimulator(seed)
        simulator.run()
        assert simulator.events > 100


def test_a_seed_plays_the_same_history_again():
    histories = []
    for _ in range(2):
        simulator = SeamSimulator(5)
        simulator.run()
        histories.append(simulator.trace)

    assert histories[0] == histories[1]


def test_a_history_that_does_not_end_is_a_violation(monkeypatch):
    monkeypatch.setattr(virtual_cluster, "MOST_EVENTS", 200)

    with pytest.raises(Violation, match="does not end"):
        SeamSimulator(5).run()


@pytest.mark.parametrize("seed", [1347, 1441])
def test_a_broker_that_is_cut_off_for_long_does_not_look_more_and_more_often(seed):
    """Each look that failed was followed by two: these two histories never came to their end."""
    simulator = SeamSimulator(seed)
    simulator.run()

    assert simulator.events < 20_000


@pytest.mark.parametrize("seed", [684, 697, 806])
def test_a_setting_that_changes_while_a_broker_starts_reaches_its_logs(seed):
    """They are opened, or recovered, before the broker registers, and took records with one
    replica in sync where two are asked for."""
    SeamSimulator(seed).run()


@pytest.mark.parametrize("seed", [164, 793, 1034])
def test_a_follower_that_has_other_records_below_the_leaders_log_start_finds_out(seed):
    """The leader had deleted them, and knew no more where its first epoch had begun. The follower
    could not go on in the middle of a batch, or showed its own records when it came to lead."""
    SeamSimulator(seed).run()


def test_a_coordinator_that_starts_gives_up_no_marker():
    """It loaded its transactions before it served their topics, and took those for deleted."""
    SeamSimulator(610).run()


def test_a_coordinator_serves_no_transaction_that_another_leader_may_not_know():
    """It began to lead with records that the other replica did not have, and crashed."""
    SeamSimulator(991).run()


def test_a_leader_that_starts_again_does_not_show_what_its_own_marker_alone_decides():
    """An abort lay above the high watermark and below the snapshot of the producers."""
    SeamSimulator(9565).run()


@pytest.mark.parametrize("seed", [212, 1022, 1176])
def test_a_topic_that_another_broker_deletes_at_once_is_gone_for_its_creator(seed):
    """Its watch found the list of topics as it was, and the creator kept the topic for good."""
    SeamSimulator(seed).run()


def violation_of(seeds, *, first=None):
    """Play histories until one breaks a rule.

    Args:
        first: one that is known to, which saves playing those before it. Where a change of the
            code makes another history of it, the others are played.
    """
    with pytest.raises(Violation) as found:
        for seed in seeds if first is None else (first, *seeds):
            SeamSimulator(seed).run()
    return str(found.value).splitlines()[0]


class TestWhatIsFoundOut:
    """A mend that is taken out again breaks a rule within some histories."""

    def test_settings_that_do_not_reach_a_led_partition(self, monkeypatch):
        monkeypatch.setattr(Partition, "apply_config", lambda self: None)

        assert "min.insync.replicas is 2" in violation_of(range(100))

    def test_a_replica_that_cannot_begin_in_the_middle_of_a_batch(self, monkeypatch):
        monkeypatch.setattr(PartitionLog, "spans_start", lambda self, records: False)

        assert violation_of(range(100), first=24)

    def test_a_topic_that_finds_the_log_of_its_predecessor(self, monkeypatch):
        def by_name_alone(storage, name, topic_id):
            return next((each for each in storage.directories if name in each), None)

        monkeypatch.setattr(LogStorage, "_directory_with", by_name_alone)

        assert violation_of(range(100), first=90)

    def test_a_coordinators_topic_with_as_many_replicas_as_there_are_brokers(self, monkeypatch):
        async def with_fewer(client, name):
            found = client._topics.by_name(name)
            if found is None:
                new = client._settings.internal_topic(name)
                most = min(new.replication_factor, len(client._members))
                await client.create_topics([replace(new, replication_factor=most)])
                found = client._topics.by_name(name)
            return found

        monkeypatch.setattr(ControllerClient, "internal_topic", with_fewer)

        assert "was made with" in violation_of(range(9, 100, 10))
