"""Settings of the brokers that one `headrace up --brokers N` starts."""

import pytest

from headrace.broker.config.settings import BrokerSettings
from headrace.cli.supervisor.broker_plan import BrokerPlan
from headrace.model.error import ConfigError
from headrace.process.machine import machine_name


def plan(tmp_path, brokers=3, **texts):
    given = {key.replace("_", "."): text for key, text in texts.items()}
    return BrokerPlan(brokers, {"log.dirs": str(tmp_path), **given})


def test_ports_ids_and_folders_count_up(tmp_path):
    found = plan(tmp_path, listeners="127.0.0.1:9192")

    assert list(found.ids) == [1, 2, 3]
    assert found.address == "127.0.0.1:9192,127.0.0.1:9193,127.0.0.1:9194"
    assert found.zookeeper_port == 9191
    settings = BrokerSettings(found.settings(3))
    assert settings["node.id"] == 3
    assert [each.address for each in settings.listeners] == ["127.0.0.1:9194"]
    assert settings.log_dirs == (tmp_path / "broker-3",)
    assert settings["zookeeper.connect"] == "127.0.0.1:9191"


def test_the_machine_is_the_rack_unless_one_is_set(tmp_path):
    assert plan(tmp_path).settings(1)["broker.rack"] == machine_name()
    assert plan(tmp_path, broker_rack="cellar").settings(2)["broker.rack"] == "cellar"


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(2, "2", "1"), (4, "3", "2")])
def test_a_cluster_of_its_own_has_replicas(tmp_path, brokers, replicas, in_sync):
    settings = plan(tmp_path, brokers).settings(1)

    assert settings["default.replication.factor"] == replicas
    assert settings["transaction.state.log.min.isr"] == in_sync


def test_what_is_written_overrides_the_defaults(tmp_path):
    texts = {"default.replication.factor": "1", "leader.imbalance.check.interval.seconds": "60"}

    settings = BrokerPlan(3, {"log.dirs": str(tmp_path), **texts}).settings(1)

    assert settings.items() >= texts.items()


def test_brokers_of_several_machines_join_one_cluster(tmp_path):
    found = plan(
        tmp_path,
        zookeeper_connect="zk1:2181",
        node_id="20",
        listeners="0.0.0.0:9092",
        advertised_listeners="node2:19092",
    )

    assert found.joined and list(found.ids) == [20, 21, 22]
    assert found.local_address == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    settings = BrokerSettings(found.settings(21))
    assert settings["zookeeper.connect"] == "zk1:2181"
    assert settings.advertised_listeners["PLAINTEXT"].address == "node2:19093"
    # The cluster's own settings decide, not the number of brokers of one machine.
    assert "default.replication.factor" not in found.settings(21)
    assert "headrace.zookeeper.user.file" not in found.settings(21)


def test_a_joining_machine_says_where_its_ids_begin(tmp_path):
    with pytest.raises(ConfigError, match="needs --broker-id"):
        plan(tmp_path, zookeeper_connect="zk1:2181")


def test_the_id_of_a_file_is_not_that_of_all(tmp_path):
    assert list(plan(tmp_path, node_id="7").ids) == [1, 2, 3]


def test_a_listener_with_a_name_of_its_own_keeps_it(tmp_path):
    texts = {
        "log.dirs": str(tmp_path),
        "listeners": "INSIDE://[::1]:9092",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT",
    }

    assert BrokerPlan(2, texts).settings(2)["listeners"] == "INSIDE://[::1]:9093"


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"log_dirs": "a,b"}, "one data directory"),
        ({"listeners": "PLAINTEXT://:9092,SSL://:9093"}, "one address in listeners"),
        ({"listeners": "127.0.0.1:0"}, "a port to count up from"),
        ({"listeners": "127.0.0.1:65535"}, "too high"),
        ({"advertised_listeners": "here:0"}, "a port to count up from in advertised.listeners"),
    ],
)
def test_what_does_not_suit_several_brokers_is_named(tmp_path, texts, reason):
    with pytest.raises(ConfigError, match=reason):
        plan(tmp_path, **texts)
