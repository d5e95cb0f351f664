"""Quotas: set over the wire, felt by clients."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer, ThrottleEvent

from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

EXACT, DEFAULT, ANY = 0, 1, 2
RATE = 100_000
WINDOW = 11
"""Kafka's quota.window.num: so many seconds' worth may be used at once."""


@pytest.fixture
def client_id() -> str:
    """A quota that no other test uses."""
    return f"client-{uuid4().hex[:8]}"


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.address, "admin") as connected:
        yield connected


@pytest.fixture
def client(broker: BrokerProcess, client_id: str) -> Iterator[WireClient]:
    with WireClient(broker.address, client_id) as connected:
        yield connected


@pytest.fixture
def created(admin: WireClient, topic: str) -> str:
    wanted = {
        "name": topic,
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": [{"name": "max.message.bytes", "value": "10000000"}],
    }
    admin.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [wanted], "timeout": 10_000})
    return topic


@pytest.fixture
def limited(admin: WireClient, client_id: str) -> Iterator[str]:
    """A client that may use RATE bytes a second, both ways."""
    alter(admin, {"client-id": client_id}, producer_byte_rate=RATE, consumer_byte_rate=RATE)
    yield client_id
    alter(admin, {"client-id": client_id}, producer_byte_rate=None, consumer_byte_rate=None)


def alter(
    admin: WireClient, entity: dict[str, str | None], version: int = 1, **values: float | None
) -> Any:
    entry = {
        "entity": [{"entity_type": key, "entity_name": name} for key, name in entity.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in values.items()
        ],
    }
    body = {"entries": [entry], "validate_only": False}
    return admin.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, body).entries[0]


def describe(
    admin: WireClient, *components: tuple[str, int, str | None], strict: bool = False
) -> Any:
    body = {
        "components": [
            {"entity_type": kind, "match_type": match, "match": name}
            for kind, match, name in components
        ],
        "strict": strict,
    }
    return admin.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, body)


def produce(client: WireClient, topic: str, size: int) -> int:
    """Send about so many bytes; how long the broker asks the client to wait."""
    records = memoryview(sample_batch(b"x" * size))
    wanted = [ProduceTopic(topic, None, [ProducePartition(0, records)])]
    number = client.send_produce(9, ProduceRequest(None, 1, 30_000, wanted))
    answer = client.receive(ApiKey.PRODUCE, 9, number)
    assert answer.topics[0].partitions[0].error_code == 0
    throttle_ms: int = answer.throttle_ms
    return throttle_ms


def test_a_producer_within_its_quota_is_not_held_up(
    client: WireClient, created: str, limited: str
) -> None:
    assert produce(client, created, RATE * WINDOW // 2) == 0


def test_a_producer_above_its_quota_is_told_to_wait_and_made_to(
    client: WireClient, created: str, limited: str
) -> None:
    began = time.monotonic()  # not after the answer: this thread may be late, and the wait goes on
    throttle_ms = produce(client, created, RATE * (WINDOW + 1))
    assert 900 <= throttle_ms <= 1500

    client.ask(ApiKey.API_VERSIONS, 0, {})
    waited_ms = (time.monotonic() - began) * 1000

    assert waited_ms >= throttle_ms * 0.9


def test_a_producer_that_wants_no_answer_is_made_to_wait_too(
    client: WireClient, created: str, limited: str
) -> None:
    records = memoryview(sample_batch(b"x" * RATE * (WINDOW + 1)))
    wanted = [ProduceTopic(created, None, [ProducePartition(0, records)])]
    began = time.monotonic()
    client.send_produce(9, ProduceRequest(None, 0, 30_000, wanted))

    client.ask(ApiKey.API_VERSIONS, 0, {})

    assert time.monotonic() - began >= 0.8


def test_another_client_is_not_held_up(
    client: WireClient, admin: WireClient, created: str, limited: str
) -> None:
    throttle_ms = produce(client, created, RATE * WINDOW * 2)

    began = time.monotonic()
    assert produce(admin, created, RATE * 2) == 0
    assert (time.monotonic() - began) * 1000 < throttle_ms * 0.9


def test_a_consumer_above_its_quota_is_told_to_wait(
    client: WireClient, admin: WireClient, created: str, limited: str
) -> None:
    produce(admin, created, RATE * (WINDOW + 1))
    wanted = FetchTopic(created, None, [FetchPartition(0, -1, 0, -1, -1, 10_000_000)])

    answer = client.fetch(
        12,
        FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=10_000_000,
            isolation_level=0,
            topics=[wanted],
            session_id=0,
            session_epoch=-1,
            forgotten=[],
            rack_id="",
            replica_id=-1,
            replica_epoch=-1,
            cluster_id=None,
        ),
    )

    assert 900 <= answer.throttle_ms <= 1500


def test_librdkafka_sees_the_throttling(broker: BrokerProcess, created: str, limited: str) -> None:
    events: list[ThrottleEvent] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "client.id": limited,
            "message.max.bytes": 10_000_000,
            "throttle_cb": events.append,
        }
    )
    producer.produce(created, b"x" * RATE * (WINDOW + 1))
    assert producer.flush(60) == 0
    producer.poll(0)

    assert events
    assert 0.9 <= events[0].throttle_time <= 1.5


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_described_by_what_they_are_for(
    admin: WireClient, client_id: str, version: int
) -> None:
    user = f"user-of-{client_id}"
    alter(admin, {"user": user}, version, producer_byte_rate=10)
    alter(admin, {"client-id": client_id, "user": user}, version, consumer_byte_rate=20)

    def found(*components: tuple[str, int, str | None], strict: bool = False) -> Any:
        answer = describe(admin, *components, strict=strict)
        return [
            ({part.entity_type: part.entity_name for part in entry.entity}, entry.values[0].value)
            for entry in answer.entries
        ]

    assert found(("user", EXACT, user), strict=True) == [({"user": user}, 10.0)]
    both = ({"client-id": client_id, "user": user}, 20.0)
    assert found(("client-id", EXACT, client_id)) == [both]
    assert both in found(("client-id", ANY, None), ("user", EXACT, user))
    assert found(("user", EXACT, user), ("client-id", DEFAULT, None)) == []

    alter(admin, {"user": user}, version, producer_byte_rate=None)
    alter(admin, {"client-id": client_id, "user": user}, version, consumer_byte_rate=None)
    assert found(("user", EXACT, user)) == []


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({"user": "anna"}, {"no_such_rate": 1.0}),
        ({"user": "anna"}, {"producer_byte_rate": -1.0}),
        ({"planet": "earth"}, {"producer_byte_rate": 1.0}),
        ({"user": ""}, {"producer_byte_rate": 1.0}),
    ],
)
def test_quotas_that_mean_nothing_are_refused(
    admin: WireClient, entity: dict[str, str | None], values: dict[str, float | None]
) -> None:
    answer = alter(admin, entity, **values)

    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message


def test_a_filter_that_means_nothing_is_refused(admin: WireClient) -> None:
    for wanted in (("planet", ANY, None), ("user", EXACT, None), ("user", 9, None)):
        assert describe(admin, wanted).error_code == ErrorCode.invalid_request
    twice = describe(admin, ("user", ANY, None), ("user", ANY, None))
    assert twice.error_code == ErrorCode.invalid_request


def test_quotas_outlive_a_restart(own_broker: BrokerProcess) -> None:
    own_broker.start()
    with WireClient(own_broker.address, "admin") as admin:
        alter(admin, {"client-id": "slow"}, producer_byte_rate=1000)

    own_broker.kill()
    own_broker.start()

    with WireClient(own_broker.address, "slow") as client:
        wanted = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
        client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [wanted], "timeout": 10_000})
        assert produce(client, "orders", 1000 * (WINDOW + 1)) > 0


@pytest.mark.interop
def test_kafkas_own_tool_sets_and_shows_quotas(
    broker: BrokerProcess, client_id: str, tmp_path: Any
) -> None:
    try:
        tools = KafkaTools.find(tmp_path)
    except PeerMissing as missing:
        require_peer(str(missing))
    entity = ("--entity-type", "clients", "--entity-name", client_id)

    def run(*arguments: str) -> str:
        return (
            tools.run(KafkaTool.CONFIGS, "--bootstrap-server", broker.address, *arguments, *entity)
            .checked()
            .stdout
        )

    run("--alter", "--add-config", "producer_byte_rate=12345")

    assert "producer_byte_rate=12345" in run("--describe")
