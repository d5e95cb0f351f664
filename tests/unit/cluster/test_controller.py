"""Commands that end on disk, and the state that follows."""

import errno
from base64 import b64decode
from pathlib import Path

import pytest

from headrace.cluster.acl import Acl, AclFilter
from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.controller import Controller
from headrace.cluster.credential import ScramCredential, credential_problem, salted_password
from headrace.cluster.feature import Feature
from headrace.cluster.local_store import LocalStore
from headrace.cluster.quota import ANY, QuotaFilter
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.store import CreateNode
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import NewPartitions, TopicDefaults, TopicToCreate
from headrace.model.config_code import ConfigOperation
from headrace.model.error import CorruptLog, StorageError
from headrace.model.ids import BrokerId
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault
from testkit.simulation.memory_store import Ensemble, MemoryStore

HERE = Path("/data/cluster")
BROKER = BrokerRecord(broker_id=BrokerId(1), endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9092),))
DEFAULTS = TopicDefaults()
READ_ORDERS = Acl("topic", "orders", "literal", "User:anna", "*", "read", "allow")


@pytest.fixture
def disk():
    return CrashDisk()


@pytest.fixture
def controller(disk):
    controller = Controller(LocalStore.open(disk, HERE))
    controller.register(BROKER)
    return controller


def restarted(disk):
    return Controller(LocalStore.open(disk.fork(), HERE))


def create(controller, name, **options):
    plan = controller.create_topics([TopicToCreate(name=name)], defaults=DEFAULTS, **options)
    return plan.outcomes[name]


class TestTopics:
    def test_topics_are_read_as_other_brokers_have_left_them(self):
        ensemble = Ensemble()
        ours, other = (Controller(MemoryStore(ensemble)) for _ in range(2))
        ours.register(BROKER)
        create(ours, "deleted")
        other.reload()
        other.delete_topics(["deleted"])
        orders = create(other, "orders")

        assert ours.read_topics({"orders", "deleted", "gone"}) == {"orders": orders}
        assert ours.state.topics == {"orders": orders}

    def test_a_topic_is_there_after_a_restart(self, controller, disk):
        topic = create(controller, "orders")

        assert controller.state.topics == {"orders": topic}
        assert restarted(disk).state.topics == {"orders": topic}
        assert restarted(disk).state.topic_by_id(topic.topic_id) == topic

    def test_validating_only_creates_nothing(self, controller):
        assert isinstance(create(controller, "orders", validate_only=True), TopicRecord)
        assert controller.state.topics == {}

    def test_a_topic_that_was_deleted_stays_deleted(self, controller, disk):
        topic = create(controller, "orders")

        controller.delete_topics(["orders"])

        assert controller.state.topics == {}
        assert controller.state.topic_by_id(topic.topic_id) is None
        assert restarted(disk).state.topics == {}

    def test_a_topic_created_again_is_another_one(self, controller):
        first = create(controller, "orders")
        controller.delete_topics(["orders"])

        assert create(controller, "orders").topic_id != first.topic_id

    def test_added_partitions_are_there_after_a_restart(self, controller, disk):
        create(controller, "orders")

        controller.create_partitions([NewPartitions(name="orders", total=3)])

        assert len(restarted(disk).state.topics["orders"].partitions) == 3

    def test_a_failed_disk_changes_nothing(self, controller, disk):
        disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev"))

        with pytest.raises(StorageError):
            create(controller, "orders")

        assert controller.state.topics == {}
        assert isinstance(create(controller, "orders"), TopicRecord)

    def test_every_change_of_topics_has_another_version(self, controller):
        before = controller.state.topics_version
        create(controller, "orders")
        after = controller.state.topics_version
        controller.finalize_default_features()

        assert after != before
        assert controller.state.topics_version == after


class TestTwoWriters:
    def test_the_slower_one_decides_again(self, disk):
        store = LocalStore.open(disk, HERE)
        first = Controller(store)
        first.register(BROKER)
        second = Controller(store)
        create(first, "orders")

        outcome = create(second, "orders")

        assert isinstance(outcome, Rejection)
        assert outcome.error is ClusterError.TOPIC_ALREADY_EXISTS


class TestConfigs:
    def test_a_topics_configs_are_kept(self, controller, disk):
        create(controller, "orders")
        alteration = ConfigAlteration("retention.ms", ConfigOperation.SET, "1000")

        assert controller.alter_topic_configs("orders", [alteration]) is None

        assert restarted(disk).state.topics["orders"].configs == {"retention.ms": "1000"}

    def test_a_refused_config_says_why(self, controller):
        create(controller, "orders")

        rejection = controller.replace_topic_configs("orders", {"retention.ms": "soon"})

        assert rejection.error is ClusterError.INVALID_CONFIG

    def test_a_brokers_configs_are_kept(self, controller, disk):
        controller.replace_broker_configs(None, {"log.retention.ms": "5"})

        configs = restarted(disk).state.broker_configs[None].configs
        assert configs == {"log.retention.ms": "5"}

    def test_removing_what_was_never_set_is_fine(self, controller):
        alteration = ConfigAlteration("log.retention.ms", ConfigOperation.DELETE)

        assert controller.alter_broker_configs(None, [alteration]) is None


class TestQuotas:
    ENTITY = (("user", "anna,berg/%"), ("client-id", None))

    def test_a_quota_is_set_and_kept(self, controller, disk):
        controller.alter_quota(self.ENTITY, {"producer_byte_rate": 1024.0})

        [quota] = restarted(disk).state.quotas.values()
        assert quota.entity == (("client-id", None), ("user", "anna,berg/%"))
        assert quota.values == {"producer_byte_rate": 1024.0}

    def test_the_last_value_removed_removes_the_quota(self, controller, disk):
        controller.alter_quota(self.ENTITY, {"producer_byte_rate": 1024.0})

        controller.alter_quota(self.ENTITY, {"producer_byte_rate": None})

        assert restarted(disk).state.quotas == {}

    @pytest.mark.parametrize(
        ("entity", "values"),
        [
            ((("topic", "x"),), {}),
            ((("user", ""),), {}),
            ((("user", "anna"),), {"speed": 1.0}),
            ((("user", "anna"),), {"producer_byte_rate": 0.0}),
            ((("user", "anna"),), {"producer_byte_rate": 1.5}),
            ((("ip", "10.0.0.1"),), {"producer_byte_rate": 1.0}),
        ],
    )
    def test_what_cannot_be_is_refused(self, controller, entity, values):
        assert controller.alter_quota(entity, values).error is ClusterError.INVALID_REQUEST

    @pytest.mark.parametrize(
        ("names", "strict", "accepted"),
        [
            ({}, False, True),
            ({}, True, False),
            ({"user": "anna"}, False, True),
            ({"user": "anna"}, True, False),
            ({"user": "bert"}, False, False),
            ({"user": ANY, "client-id": None}, True, True),
            ({"user": None}, False, False),
            ({"ip": ANY}, False, False),
        ],
    )
    def test_a_filter_finds_entities(self, names, strict, accepted):
        entity = (("client-id", None), ("user", "anna"))

        assert QuotaFilter(names, strict=strict).accepts(entity) is accepted


class TestAcls:
    def test_entries_are_kept(self, controller, disk):
        controller.create_acls([READ_ORDERS, READ_ORDERS])
        controller.create_acls([READ_ORDERS])

        assert restarted(disk).state.acls == {READ_ORDERS}

    def test_what_the_filter_accepts_is_deleted(self, controller, disk):
        other = Acl("topic", "clicks", "literal", "User:anna", "*", "read", "allow")
        controller.create_acls([READ_ORDERS, other])

        assert controller.delete_acls(AclFilter(resource_name="orders")) == [READ_ORDERS]
        assert restarted(disk).state.acls == {other}

    @pytest.mark.parametrize(
        ("name", "pattern", "accepted"),
        [
            ("orders", "literal", True),
            ("ord", "prefixed", True),
            ("*", "literal", True),
            ("clicks", "literal", False),
            ("orders-2", "prefixed", False),
        ],
    )
    def test_match_finds_all_that_apply(self, name, pattern, accepted):
        acl = Acl("topic", name, pattern, "User:anna", "*", "read", "allow")
        wanted = AclFilter(resource_type="topic", resource_name="orders", pattern_type="match")

        assert wanted.accepts(acl) is accepted


class TestCredentials:
    def test_the_keys_are_those_of_rfc_7677(self):
        """The example of RFC 7677: user `user`, password `pencil`."""
        salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")

        credential = ScramCredential.of(
            user="user",
            mechanism="SCRAM-SHA-256",
            salt=salt,
            salted_password=salted_password("pencil", salt, 4096, "SCRAM-SHA-256"),
            iterations=4096,
        )

        assert credential.stored_key == b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=")
        assert credential.server_key == b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")

    def test_a_credential_is_kept_and_removed(self, controller, disk):
        credential = ScramCredential.of(
            user="anna",
            mechanism="SCRAM-SHA-512",
            salt=b"salt",
            salted_password=b"hashed",
            iterations=4096,
        )
        controller.put_credential(credential)

        kept = restarted(disk).state.credentials
        assert kept == {("anna", "SCRAM-SHA-512"): credential}
        assert controller.remove_credential("anna", "SCRAM-SHA-512")
        assert not controller.remove_credential("anna", "SCRAM-SHA-512")

    @pytest.mark.parametrize(
        ("user", "mechanism", "iterations"),
        [("", "SCRAM-SHA-256", 4096), ("a", "PLAIN", 4096), ("a", "SCRAM-SHA-256", 4095)],
    )
    def test_what_cannot_be_is_refused(self, user, mechanism, iterations):
        assert credential_problem(user, mechanism, iterations) is not None


class TestRest:
    def test_features_are_switched_on_once(self, controller, disk):
        controller.finalize_default_features()
        controller.finalize_default_features()

        levels = {
            feature.name: feature.level for feature in restarted(disk).state.features.values()
        }
        assert levels == {"group.version": 1, "transaction.version": 2}

    def test_a_feature_can_be_set_back(self, controller, disk):
        controller.finalize_default_features()

        controller.finalize_feature(Feature("transaction.version", 1))
        controller.finalize_default_features()

        assert restarted(disk).state.features["transaction.version"].level == 1

    def test_what_a_stopped_broker_leaves_goes_when_it_is_unregistered(self, controller, disk):
        keep_less = ConfigAlteration("log.retention.ms", ConfigOperation.SET, "1")
        controller.alter_broker_configs(BROKER.broker_id, [keep_less])
        running = controller.unregister(BROKER.broker_id)
        after = restarted(disk)

        assert running.error is ClusterError.INVALID_REQUEST
        assert after.unregister(BROKER.broker_id) is None
        assert after.state.broker_configs == {}
        again = after.unregister(BROKER.broker_id)
        assert again.error is ClusterError.BROKER_ID_NOT_REGISTERED

    def test_a_broker_is_there_only_while_it_runs(self, controller, disk):
        assert controller.state.racks() == {1: None}
        assert restarted(disk).state.brokers == {}

    def test_a_node_that_cannot_be_read_is_named(self, disk):
        store = LocalStore.open(disk, HERE)
        store.commit([CreateNode("/topics/orders", b"{}")])

        with pytest.raises(CorruptLog, match="/topics/orders"):
            Controller(store)
