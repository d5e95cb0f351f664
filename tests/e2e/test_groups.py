"""Consumer groups with librdkafka: both protocols, every kind of rebalance, static members."""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.wire.api import ApiKey
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import Member, create_topic, poll_until, produce, share
from testkit.process.wire_client import WireClient

PARTITIONS = 6
CLASSIC = {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 100}
RANGE = CLASSIC | {"partition.assignment.strategy": "range"}
ROUNDROBIN = CLASSIC | {"partition.assignment.strategy": "roundrobin"}
COOPERATIVE = CLASSIC | {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}
CONSUMER_RANGE = CONSUMER | {"group.remote.assignor": "range"}
ALL = [RANGE, ROUNDROBIN, COOPERATIVE, CONSUMER, CONSUMER_RANGE]
IDS = ["range", "roundrobin", "cooperative-sticky", "KIP-848", "KIP-848 range"]

every_protocol = pytest.mark.parametrize("protocol", ALL, ids=IDS)
both_protocols = pytest.mark.parametrize("protocol", [RANGE, CONSUMER], ids=["classic", "KIP-848"])


class Load:
    """Records produced without end, until it is stopped."""

    def __init__(self, address: str, topic: str) -> None:
        self.acknowledged: set[bytes] = set()
        self._stop = Event()
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": False})
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in count():
            if self._stop.wait(0.001):
                break
            value = b"%d" % number
            self._producer.produce(
                self._topic, value, partition=number % PARTITIONS, on_delivery=self._delivered
            )
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged.add(message.value())

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(90) == 0


class WatchedMember(Member):
    """A member that holds every repeated read against the offsets that the group has committed.

    Reading is at least once: a commit that arrives after its generation has ended is refused, and
    the next owner of the partition reads on from the last commit. So a record may be read twice,
    but only after its partition was assigned again, and only from the committed offset on.

    Attributes:
        start: by partition, the offset that was committed before it was last assigned.
    """

    def __init__(self, address: str, group: str, topic: str, **settings: Any) -> None:
        self.start: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._topic = topic
        self._observer = Consumer({"bootstrap.servers": address, "group.id": group})
        super().__init__(address, group, [topic], **settings)

    def _committed(self) -> dict[int, int]:
        """Return the committed offset of each partition; 0 stands for none."""
        partitions = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        return {
            each.partition: max(0, each.offset) for each in self._observer.committed(partitions, 30)
        }

    def poll(self) -> None:
        committed, assignments = self._committed(), len(self.assigned)
        messages = self.consumer.consume(1000, 0.01)
        # An assignment was made in this poll, so its positions are fetched after `committed` was.
        given = {number for each in self.assigned[assignments:] for number in each}
        self.start |= {number: committed[number] for number in given}
        for message in messages:
            assert message.error() is None, message.error()
            partition, offset = message.partition(), message.offset()
            assert offset >= self.start[partition], "a committed record was read again"
            repeated = offset <= self._last.get(partition, -1)
            assert not repeated or partition in given, "a repeat without a rebalance"
            self._last[partition] = offset
            self.values.append(message.value() or b"")
        for number in given:
            self._last.pop(number, None)

    def close(self) -> None:
        super().close()
        self._observer.close()


@pytest.fixture
def load(broker: BrokerProcess, topic: str) -> Iterator[Load]:
    """Endless records into `topic`, which has six partitions."""
    create_topic(broker.address, topic, PARTITIONS)
    running = Load(broker.address, topic)
    yield running
    running.stop()


@every_protocol
def test_nothing_is_missed_while_members_come_and_go_under_load(
    broker: BrokerProcess, topic: str, group: str, load: Load, protocol: dict[str, Any]
) -> None:
    def member() -> WatchedMember:
        return WatchedMember(broker.address, group, topic, **protocol)

    members = [member()]
    share(members, PARTITIONS)
    for _ in range(2):
        members.append(member())
        share(members, PARTITIONS)
    gone = members.pop(0)
    gone.close()
    share(members, PARTITIONS)
    members.append(member())
    share(members, PARTITIONS)
    load.stop()

    def read() -> set[bytes]:
        return {value for each in (gone, *members) for value in each.values}

    poll_until(members, lambda: load.acknowledged <= read(), what="reading everything")
    assert len(load.acknowledged) > 100
    assert read() == load.acknowledged
    # The members held every repeated read against these.
    assert any(offset > 0 for each in members for offset in each.start.values())
    for each in members:
        each.close()


@pytest.mark.parametrize("protocol", [COOPERATIVE, CONSUMER], ids=["cooperative", "KIP-848"])
def test_an_incremental_rebalance_takes_away_only_what_moves(
    broker: BrokerProcess, topic: str, group: str, protocol: dict[str, Any]
) -> None:
    create_topic(broker.address, topic, PARTITIONS)
    first = Member(broker.address, group, [topic], **protocol)
    share([first], PARTITIONS)
    second = Member(broker.address, group, [topic], **protocol)
    share([first, second], PARTITIONS)

    assert [len(each) for each in first.revoked] == [3]
    assert sum(len(each) for each in first.assigned) == PARTITIONS
    assert first.lost == []
    first.close()
    second.close()


@pytest.mark.parametrize("old", [RANGE, COOPERATIVE], ids=["range", "cooperative-sticky"])
def test_a_group_passes_to_the_new_protocol_and_back_while_it_reads(
    broker: BrokerProcess, topic: str, group: str, load: Load, old: dict[str, Any]
) -> None:
    """KIP-848's rolling upgrade: no record is lost, and no offset is forgotten."""

    def kind() -> str:
        with WireClient(broker.address) as client:
            listed = client.ask(ApiKey.LIST_GROUPS, 5, {"states_filter": [], "types_filter": []})
        return next(each.group_type for each in listed.groups if each.group_id == group)

    first, second = (WatchedMember(broker.address, group, topic, **old) for _ in range(2))
    share([first, second], PARTITIONS)
    assert kind() == "classic"

    new = WatchedMember(broker.address, group, topic, **CONSUMER)
    share([first, second, new], PARTITIONS)
    assert kind() == "consumer"

    new.close()
    share([first, second], PARTITIONS)
    assert kind() == "classic"

    newer = WatchedMember(broker.address, group, topic, **CONSUMER)
    share([first, second, newer], PARTITIONS)
    first.close()
    second.close()
    share([newer], PARTITIONS)
    assert kind() == "consumer"
    load.stop()

    def read() -> set[bytes]:
        return {value for each in (first, second, new, newer) for value in each.values}

    poll_until([newer], lambda: load.acknowledged <= read(), what="reading everything")
    assert [each.fatal for each in (first, second, new, newer)] == [None] * 4
    newer.close()


@both_protocols
def test_a_static_member_comes_back_without_a_rebalance(
    broker: BrokerProcess, topic: str, group: str, protocol: dict[str, Any]
) -> None:
    create_topic(broker.address, topic, PARTITIONS)

    def member(instance: str) -> Member:
        return Member(broker.address, group, [topic], **protocol, group_instance_id=instance)

    first, second = member("one"), member("two")
    share([first, second], PARTITIONS)
    before, rebalances = second.partitions, len(first.assigned)

    second.close()
    back = member("two")
    share([first, back], PARTITIONS)

    assert back.partitions == before
    assert len(first.assigned) == rebalances
    first.close()
    back.close()


def test_of_two_static_classic_members_the_older_is_fenced(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, PARTITIONS)
    older = Member(broker.address, group, [topic], **RANGE, group_instance_id="one")
    share([older], PARTITIONS)

    newer = Member(broker.address, group, [topic], **RANGE, group_instance_id="one")
    poll_until([older, newer], lambda: older.fatal is not None, what="the fencing")

    assert newer.fatal is None
    share([newer], PARTITIONS)
    newer.close()
    older.close()


def test_of_two_static_members_of_the_new_protocol_the_younger_is_refused(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, PARTITIONS)
    older = Member(broker.address, group, [topic], **CONSUMER, group_instance_id="one")
    share([older], PARTITIONS)

    newer = Member(broker.address, group, [topic], **CONSUMER, group_instance_id="one")
    poll_until([older, newer], lambda: newer.fatal is not None, what="the refusal")

    assert older.fatal is None
    share([older], PARTITIONS)
    older.close()
    newer.close()


@both_protocols
def test_a_regular_expression_follows_topics_as_they_come(
    broker: BrokerProcess, topic: str, group: str, protocol: dict[str, Any]
) -> None:
    create_topic(broker.address, f"{topic}.a", 2)
    member = Member(broker.address, group, [f"^{topic}[.].*"], **protocol)
    share([member], 2)

    create_topic(broker.address, f"{topic}.b", 3)
    create_topic(broker.address, f"other-{topic}", 1)
    share([member], 5)

    assert {name for name, _ in member.partitions} == {f"{topic}.a", f"{topic}.b"}
    member.close()


@both_protocols
def test_partitions_that_are_added_are_shared_out(
    broker: BrokerProcess, topic: str, group: str, protocol: dict[str, Any]
) -> None:
    create_topic(broker.address, topic, 2)
    members = [Member(broker.address, group, [topic], **protocol) for _ in range(2)]
    share(members, 2)

    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(90)

    share(members, 4)
    for member in members:
        member.close()


@both_protocols
def test_a_member_that_dies_is_replaced_when_its_session_ends(
    own_broker: BrokerProcess, topic: str, group: str, protocol: dict[str, Any]
) -> None:
    own_broker.settings |= {
        "group.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": "1000",
    }
    own_broker.start()
    create_topic(own_broker.address, topic, 2)
    with WireClient(own_broker.address) as dying:
        _join_and_say_no_more(dying, topic, group, protocol)

    member = Member(own_broker.address, group, [topic], **protocol)

    share([member], 2)
    member.close()


def _join_and_say_no_more(
    client: WireClient, topic: str, group: str, protocol: dict[str, Any]
) -> None:
    if protocol == CONSUMER:
        body: dict[str, Any] = {
            "group_id": group,
            "member_id": "dying",
            "rebalance_timeout": 60_000,
            "subscribed_topic_names": [topic],
            "topic_partitions": [],
        }
        joined = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body)
        assert len(joined.assignment.topic_partitions[0].partitions) == 2
        return
    body = {
        "group_id": group,
        "session_timeout": 1000,
        "rebalance_timeout": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}],
    }
    assert client.ask(ApiKey.JOIN_GROUP, 3, body).generation_id == 1


@both_protocols
def test_members_go_on_after_the_broker_was_killed(
    own_broker: BrokerProcess, topic: str, group: str, protocol: dict[str, Any]
) -> None:
    own_broker.settings |= {"log.flush.interval.messages": "1"}
    own_broker.start()
    create_topic(own_broker.address, topic, 4)
    values = [b"%d" % number for number in range(400)]
    members = [
        Member(own_broker.address, group, [topic], **protocol, enable_auto_commit=False)
        for _ in range(2)
    ]
    share(members, 4)
    # Not before: the first member has all partitions for a moment, and what it reads then without
    # a commit would be read again by the other.
    produce(own_broker.address, topic, values[:200], 4)

    def read() -> Counter[bytes]:
        return Counter(value for member in members for value in member.values)

    poll_until(members, lambda: set(values[:200]) <= read().keys(), what="the first half")
    first_half = read()
    held = [member.partitions for member in members]
    for member in members:
        member.consumer.commit(asynchronous=False)
    own_broker.kill()
    own_broker.start()
    produce(own_broker.address, topic, values[200:], 4)
    poll_until(members, lambda: set(values) <= read().keys(), what="the second half")

    assert read().keys() == set(values)
    # What was committed before the kill is not read again.
    assert all(read()[value] == first_half[value] for value in values[:200])
    assert [member.partitions for member in members] == held
    for member in members:
        member.close()
