"""AlterConfigs and IncrementalAlterConfigs."""

from dataclasses import replace
from uuid import UUID

import pytest

from headrace.cluster.broker import BrokerConfig
from headrace.cluster.config_command import (
    ConfigAlteration,
    ConfigOperation,
    alter_broker_configs,
    alter_resource_configs,
    alter_topic_configs,
    replace_broker_configs,
    replace_topic_configs,
)
from headrace.cluster.entity import decode_entity, encode_entity, entity_path
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.resource_config import ResourceConfig, ResourceKind
from headrace.cluster.state import Put, Remove
from headrace.cluster.store import Node
from headrace.cluster.topic import PartitionRecord, TopicRecord
from headrace.model.error import ConfigError
from headrace.model.ids import BrokerId, TopicId

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


@pytest.fixture
def state(one_broker):
    one_broker.apply(
        Put(
            TopicRecord(
                name="orders",
                topic_id=TopicId(UUID(int=7)),
                partitions=(PartitionRecord.on([BrokerId(1)]),),
                configs={"retention.ms": "1000"},
            )
        )
    )
    return one_broker


def configs(change):
    assert isinstance(change, Put), change
    return dict(change.entity.configs)


def refused(outcome):
    assert isinstance(outcome, Rejection), outcome
    return outcome.error


def alter(state, *alterations):
    return alter_topic_configs(
        state, "orders", [ConfigAlteration(*alteration) for alteration in alterations]
    )


class TestIncremental:
    def test_set_keeps_the_rest(self, state):
        change = alter(state, ("segment.bytes", SET, "1048576"))

        assert configs(change) == {"retention.ms": "1000", "segment.bytes": "1048576"}

    def test_delete_goes_back_to_the_default(self, state):
        assert configs(alter(state, ("retention.ms", DELETE))) == {}

    def test_deleting_what_was_not_set_is_fine(self, state):
        assert configs(alter(state, ("segment.bytes", DELETE))) == {"retention.ms": "1000"}

    def test_deleting_a_key_that_is_not_known_is_fine(self, state):
        """Kafka's tools and MirrorMaker delete what another broker may have."""
        change = alter(state, ("message.format.version", DELETE), ("retention.ms", SET, "5"))

        assert configs(change) == {"retention.ms": "5"}

    def test_what_is_not_tiered_may_be_said_so(self, state):
        change = alter(state, ("remote.storage.enable", SET, "false"))

        assert configs(change)["remote.storage.enable"] == "false"

    def test_what_cannot_be_tiered_is_refused_with_the_reason(self, state):
        outcome = alter(state, ("remote.storage.enable", SET, "true"))

        assert refused(outcome) is ClusterError.INVALID_CONFIG
        assert "there is no tiered storage" in outcome.message

    def test_append_starts_from_the_default(self, state):
        change = alter(state, ("cleanup.policy", APPEND, "compact"))

        assert configs(change)["cleanup.policy"] == "delete,compact"

    def test_append_does_not_repeat(self, state):
        change = alter(state, ("cleanup.policy", APPEND, "delete,compact"))

        assert configs(change)["cleanup.policy"] == "delete,compact"

    def test_subtract_takes_away(self, state):
        state.apply(alter(state, ("cleanup.policy", SET, "compact,delete")))

        change = alter(state, ("cleanup.policy", SUBTRACT, "delete"))

        assert configs(change)["cleanup.policy"] == "compact"

    @pytest.mark.parametrize(
        ("alterations", "error"),
        [
            ([("retention.ms", APPEND, "5")], ClusterError.INVALID_CONFIG),
            ([("retention.ms", SET, "soon")], ClusterError.INVALID_CONFIG),
            ([("retenton.ms", SET, "5")], ClusterError.INVALID_CONFIG),
            ([("retention.ms", SET, None)], ClusterError.INVALID_REQUEST),
            (
                [("retention.ms", SET, "5"), ("retention.ms", DELETE)],
                ClusterError.INVALID_REQUEST,
            ),
        ],
    )
    def test_what_cannot_be_is_refused(self, state, alterations, error):
        assert refused(alter(state, *alterations)) is error

    def test_an_unknown_topic_is_unknown(self, state):
        outcome = alter_topic_configs(state, "clicks", [])

        assert refused(outcome) is ClusterError.UNKNOWN_TOPIC_OR_PARTITION


class TestReplace:
    def test_a_mirror_stays_one(self, state):
        """Otherwise clients could write to it before its producers are fenced."""
        link = {"headrace.mirror.link": "east"}
        state.apply(Put(replace(state.topics["orders"], configs={"retention.ms": "1", **link})))

        assert configs(replace_topic_configs(state, "orders", {})) == link
        assert configs(alter(state, ("headrace.mirror.link", DELETE))) == {"retention.ms": "1"}

    def test_a_mirror_may_get_another_link(self, state):
        link = {"headrace.mirror.link": "east"}
        state.apply(Put(replace(state.topics["orders"], configs=link)))

        assert configs(alter(state, ("headrace.mirror.link", SET, "west"))) == {
            "headrace.mirror.link": "west"
        }

    def test_a_topic_that_exists_does_not_become_a_mirror(self, state):
        """What was committed in an open transaction would have no marker, and never be read."""
        altered = alter(state, ("headrace.mirror.link", SET, "east"))
        replaced = replace_topic_configs(state, "orders", {"headrace.mirror.link": "east"})

        assert refused(altered) is ClusterError.INVALID_CONFIG
        assert refused(replaced) is ClusterError.INVALID_CONFIG
        assert "delete it" in altered.message

    def test_what_is_not_named_goes_back_to_its_default(self, state):
        change = replace_topic_configs(state, "orders", {"segment.bytes": "1048576"})

        assert configs(change) == {"segment.bytes": "1048576"}


class TestBrokers:
    def test_a_dynamic_key_is_set_for_one_broker(self, state):
        change = replace_broker_configs(state, BrokerId(1), {"log.retention.ms": "1000"})

        assert change == Put(
            BrokerConfig(broker_id=BrokerId(1), configs={"log.retention.ms": "1000"})
        )

    def test_or_for_all(self, state):
        change = replace_broker_configs(state, None, {"log.retention.ms": "1000"})

        assert change.entity.broker_id is None

    def test_nothing_left_removes_the_entry(self, state):
        state.apply(replace_broker_configs(state, None, {"log.retention.ms": "1000"}))

        change = alter_broker_configs(state, None, [ConfigAlteration("log.retention.ms", DELETE)])

        assert isinstance(change, Remove)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("node.id", "5"),
            ("listeners", "PLAINTEXT://127.0.0.1:9093"),
            ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
            ("ssl.keystore.location", "/other.pem"),
        ],
    )
    def test_a_static_key_is_refused(self, state, key, value):
        outcome = replace_broker_configs(state, None, {key: value})

        assert refused(outcome) is ClusterError.INVALID_REQUEST
        assert "cannot change while the broker runs" in outcome.message

    @pytest.mark.parametrize(
        "key", ["node.id", "num.io.threads", "replica.alter.log.dirs.io.max.bytes.per.second", "x"]
    )
    def test_deleting_what_was_not_set_is_fine(self, state, key):
        change = alter_broker_configs(state, BrokerId(1), [ConfigAlteration(key, DELETE)])

        assert not isinstance(change, Rejection)

    @pytest.mark.parametrize("key", ["background.threads", "sasl.kerberos.min.time.before.relogin"])
    def test_a_key_of_kafkas_without_effect_is_taken(self, state, key):
        change = replace_broker_configs(state, None, {key: "5"})

        assert configs(change) == {key: "5"}

    @pytest.mark.parametrize("key", ["num.replica.fetchers", "log.cleaner.threads"])
    def test_more_threads_than_there_can_be_are_refused_with_the_reason(self, state, key):
        assert configs(replace_broker_configs(state, None, {key: "1"})) == {key: "1"}
        outcome = replace_broker_configs(state, None, {key: "2"})

        assert refused(outcome) is ClusterError.INVALID_CONFIG
        assert f"{key} cannot be '2': it must be 1, because" in outcome.message

    def test_a_secret_that_is_not_used_is_not_kept(self, state):
        outcome = replace_broker_configs(state, None, {"ssl.keystore.password": "hush"})

        assert refused(outcome) is ClusterError.INVALID_CONFIG
        assert "hush" not in outcome.message

    def test_a_bad_value_is_refused(self, state):
        outcome = replace_broker_configs(state, None, {"log.retention.ms": "soon"})

        assert refused(outcome) is ClusterError.INVALID_CONFIG

    def test_a_broker_that_is_not_running_is_refused(self, state):
        outcome = replace_broker_configs(state, BrokerId(9), {})

        assert refused(outcome) is ClusterError.INVALID_REQUEST


INTERVAL, TIMEOUT = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"


class TestResources:
    """Groups and metrics subscriptions."""

    @pytest.fixture
    def state(self, one_broker):
        group = ResourceConfig(kind=ResourceKind.GROUP, name="g", configs={INTERVAL: "1000"})
        one_broker.apply(Put(group))
        return one_broker

    def alter(self, state, *alterations, name="g", check=lambda values: None, **options):
        keys = [ConfigAlteration(*alteration) for alteration in alterations]
        return alter_resource_configs(state, ResourceKind.GROUP, name, keys, check=check, **options)

    def test_set_keeps_the_rest(self, state):
        change = self.alter(state, (TIMEOUT, SET, "9000"))

        assert configs(change) == {INTERVAL: "1000", TIMEOUT: "9000"}

    def test_replacing_does_not(self, state):
        change = self.alter(state, (TIMEOUT, SET, "9000"), replacing=True)

        assert configs(change) == {TIMEOUT: "9000"}

    def test_another_group_has_its_own(self, state):
        assert configs(self.alter(state, (TIMEOUT, SET, "9000"), name="h")) == {TIMEOUT: "9000"}

    def test_nothing_left_removes_the_entry(self, state):
        change = self.alter(state, (INTERVAL, DELETE))

        assert isinstance(change, Remove)
        assert change.entity.key() == ("group", "g")

    @pytest.mark.parametrize(
        ("alterations", "error"),
        [
            ([("no.such.key", SET, "1")], ClusterError.INVALID_CONFIG),
            ([(TIMEOUT, SET, "0")], ClusterError.INVALID_CONFIG),
            ([(TIMEOUT, SET, None)], ClusterError.INVALID_REQUEST),
            ([(TIMEOUT, SET, "1"), (TIMEOUT, SET, "2")], ClusterError.INVALID_REQUEST),
        ],
    )
    def test_what_cannot_be_is_refused(self, state, alterations, error):
        assert refused(self.alter(state, *alterations)) is error

    def test_values_that_do_not_fit_together_are_refused(self, state):
        def check(values):
            if values[INTERVAL] >= values[TIMEOUT]:
                raise ConfigError("a member would be removed between two heartbeats")

        assert refused(self.alter(state, (TIMEOUT, SET, "9"), check=check)) is (
            ClusterError.INVALID_CONFIG
        )
        assert isinstance(self.alter(state, (TIMEOUT, SET, "9000"), check=check), Put)

    def test_it_survives_its_node(self, state):
        [entity] = state.resource_configs.values()

        node = Node(entity_path(entity), encode_entity(entity), 0, False)

        assert decode_entity(node) == entity
        assert entity.kind.table is not ResourceKind.CLIENT_METRICS.table
