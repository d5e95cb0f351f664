"""When a cluster can do without a broker, and what the supervisor does on request."""

import sys

import pytest

from headrace.cli.cluster_health import troubled_partitions
from headrace.cli.rolling_restart import (
    RollingRestart,
    cluster_of,
    to_lead_again,
    unavailable_without,
)
from headrace.cli.supervisor.cluster_supervisor import ClusterSupervisor
from headrace.cli.supervisor.supervised_child import SupervisedChild
from headrace.client.error import ClientError
from headrace.client.network.metadata import Metadata, PartitionMetadata, TopicMetadata
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import free_port, wait_until

READY = "import time; print('ready', flush=True); time.sleep(600)"
# Hangs in its hand-over.
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + READY


def metadata(*partitions, leader=1):
    """A topic `orders` with these pairs of replicas and in-sync replicas."""
    found = {
        index: PartitionMetadata(index, leader, 0, tuple(replicas), tuple(in_sync), (), None)
        for index, (replicas, in_sync) in enumerate(partitions)
    }
    return Metadata("c", 1, {}, {"orders": TopicMetadata("orders", None, False, found, None)})


class TestUnavailable:
    def test_a_single_replica_cannot_be_missed(self):
        found = unavailable_without(metadata([[1], [1]], [[2], [2]]), 1, {"orders": 1})

        assert found == ["orders-0"]

    def test_one_of_two_can_unless_both_must_be_in_sync(self):
        cluster = metadata([[1, 2], [1, 2]])

        assert unavailable_without(cluster, 2, {"orders": 1}) == []
        assert unavailable_without(cluster, 2, {"orders": 2}) == ["orders-0"]

    def test_the_last_one_in_sync_cannot_be_missed(self):
        cluster = metadata([[1, 2, 3], [1]])

        assert unavailable_without(cluster, 1, {"orders": 1}) == ["orders-0"]

    def test_a_topic_with_fewer_replicas_than_it_asks_for_needs_all(self):
        assert unavailable_without(metadata([[1, 2], [1, 2]]), 1, {"orders": 3}) == ["orders-0"]

    def test_a_topic_that_was_deleted_meanwhile_does_not_matter(self):
        assert unavailable_without(metadata([[1], [1]]), 1, {}) == []

    def test_other_brokers_do_not_matter(self):
        assert unavailable_without(metadata([[1, 2], [1, 2]]), 3, {"orders": 2}) == []


def test_troubled_partitions_are_named():
    assert troubled_partitions(metadata([[1, 2], [1]], leader=-1)) == {
        "leaderless_partitions": ["orders-0"],
        "under_replicated_partitions": ["orders-0"],
        "offline_replicas": [],
    }


class TestLeaders:
    def test_only_restarted_brokers_lead_again(self):
        cluster = metadata([[1, 2], [1, 2]], [[2, 1], [1, 2]], [[3, 1], [1, 3]])  # 1 leads all

        assert to_lead_again(cluster, [1, 2]) == [TopicPartition("orders", 1)]

    def test_an_election_that_fails_is_only_a_warning(self, tmp_path):
        nowhere = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}

        assert "refused" in RollingRestart(tmp_path, nowhere, 1.0).balance_leaders([1])


class TestClusterOfADirectory:
    def test_a_broker_that_has_joined_says_it(self, tmp_path):
        (tmp_path / "broker-1").mkdir()
        (tmp_path / "broker-2").mkdir()
        text = "version=1\nnode.id=2\ncluster.id=ours\n"
        (tmp_path / "broker-2" / "meta.properties").write_text(text)

        assert cluster_of(tmp_path, [1, 2]) == "ours"

    def test_none_is_guessed(self, tmp_path):
        with pytest.raises(ClientError, match="has joined a cluster yet"):
            cluster_of(tmp_path, [1])

    def test_a_damaged_file_is_named(self, tmp_path):
        (tmp_path / "broker-1").mkdir()
        (tmp_path / "broker-1" / "meta.properties").write_text("rubbish")

        with pytest.raises(ClientError, match="cluster of broker 1 cannot be read"):
            cluster_of(tmp_path, [1])


@pytest.fixture
def child():
    child = SupervisedChild("one", [sys.executable, "-c", READY], "ready")
    child.start()
    try:
        wait_until(child.announced.is_set, what="its line")
        yield child
    finally:
        child.kill()


class TestChild:
    def test_a_restart_waits_for_no_pause(self, child):
        assert child.serves
        child.restart(60)
        assert not child.serves

        wait_until(lambda: not child.running, what="its end")
        child.restart_if_ended()

        assert child.running and child.starts == 2
        wait_until(lambda: child.serves, what="its line again")

    def test_one_that_ends_for_a_restart_gets_no_second_signal(self, child, monkeypatch):
        signals = []
        monkeypatch.setattr(
            child._process, "terminate", lambda end=child._process.terminate: signals.append(end())
        )

        child.restart(60)
        child.stop()

        assert len(signals) == 1 and not child.running


class TestHandOver:
    @pytest.fixture
    def deaf(self):
        child = SupervisedChild("one", [sys.executable, "-c", DEAF], "ready")
        child.start()
        try:
            wait_until(child.announced.is_set, what="its line")
            yield child
        finally:
            child.kill()

    def test_one_that_hangs_is_killed_when_its_time_is_over(self, deaf, capfd):
        deaf.restart(0.01)

        def is_back():
            deaf.restart_if_ended()
            return deaf.serves

        wait_until(is_back, what="its line again")
        assert deaf.starts == 2 and deaf.kills == 1
        assert (
            "one has not ended 0.01 s after it was asked to: it is killed" in capfd.readouterr().out
        )

    def test_until_then_it_is_left_alone(self, deaf):
        deaf.restart(600)
        deaf.restart_if_ended()

        assert deaf.running and deaf.kills == 0 and not deaf.serves

    def test_the_next_restart_has_its_own_time(self, deaf):
        deaf.restart(0.0)
        wait_until(lambda: deaf.restart_if_ended() or deaf.serves, what="its line again")

        deaf.restart_if_ended()

        assert deaf.running and deaf.kills == 1

    @pytest.mark.parametrize("seconds", ["1", None, True, 0, -1, float("nan"), 10**400])
    def test_a_time_that_is_none_is_refused(self, tmp_path, child, monkeypatch, seconds):
        supervisor = ClusterSupervisor(1, {"log.dirs": str(tmp_path)}, [])
        supervisor._children[1] = child
        monkeypatch.setattr(supervisor, "_obstacle", lambda: None)

        answer = supervisor._answer(
            {"command": "restart", "broker": 1, "hand_over_seconds": seconds}
        )

        assert answer == {"error": "hand_over_seconds is a number of seconds, a day at most"}
        assert child.serves


class TestSupervisor:
    @pytest.fixture
    def supervisor(self, tmp_path):
        return ClusterSupervisor(2, {"log.dirs": str(tmp_path)}, [])

    def test_it_says_how_its_brokers_are(self, supervisor):
        assert supervisor._answer({"command": "status"}) == {
            "address": "127.0.0.1:9092,127.0.0.1:9093",
            "brokers": [
                {"id": 1, "starts": 0, "ready": False, "kills": 0},
                {"id": 2, "starts": 0, "ready": False, "kills": 0},
            ],
        }

    def test_no_broker_is_restarted_while_another_is_not_ready(self, supervisor, child):
        supervisor._children[1] = child

        answer = supervisor._answer({"command": "restart", "broker": 1})

        assert answer == {"error": "broker 2 is not ready: none is restarted meanwhile"}
        assert child.serves

    def test_brokers_that_do_not_hand_over_their_leaders_are_not_restarted(self, tmp_path, child):
        texts = {"log.dirs": str(tmp_path), "controlled.shutdown.enable": "false"}
        supervisor = ClusterSupervisor(1, texts, [])
        supervisor._children[1] = child

        answer = supervisor._answer({"command": "restart", "broker": 1})

        assert "controlled.shutdown.enable=false" in answer["error"]
        assert child.serves

    def test_no_broker_is_restarted_without_zookeeper(self, tmp_path, child):
        texts = {"log.dirs": str(tmp_path), "listeners": f"127.0.0.1:{free_port() + 1}"}
        supervisor = ClusterSupervisor(1, texts, [])
        supervisor._children[1] = child

        answer = supervisor._answer({"command": "restart", "broker": 1})

        assert "ZooKeeper does not serve on 127.0.0.1:" in answer["error"]
        assert child.serves

    @pytest.mark.parametrize("number", [3, "1", None, True, 1.0, [1]])
    def test_an_unknown_broker_is_named(self, supervisor, number):
        answer = supervisor._answer({"command": "restart", "broker": number})

        assert answer == {"error": f"there is no broker {number} here: the brokers are 1, 2"}

    def test_it_says_how_its_brokers_reach_zookeeper(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        supervisor = ClusterSupervisor(2, {"log.dirs": "data", "ssl.key.password": "hush"}, [])

        settings = supervisor._answer({"command": "zookeeper"})["settings"]

        assert settings["zookeeper.connect"] == "127.0.0.1:9091"
        assert settings["headrace.zookeeper.user.file"] == str(tmp_path / "data" / "zookeeper.user")
        assert "ssl.key.password" not in settings

    def test_an_unknown_command_is_refused(self, supervisor):
        assert "status, zookeeper and restart" in supervisor._answer({"command": "dance"})["error"]
