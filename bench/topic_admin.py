"""Creating and deleting topics on a broker that has many: how long the client waits, and until all
of it is done."""

import time

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bench.broker_pair import Broker, Figures
from headrace.testing.readiness import wait_until

_WAIT_SECONDS = 120
_STANDING = {"topics": 15, "partitions": 100}  # 1,500 logs that are open all the while
_TOPICS, _PARTITIONS = 100, 4
_MANY = {"topics": 30, "partitions": 100}
_ready: set[str] = set()
_rounds: dict[str, int] = {}


def measure(broker: Broker) -> Figures:
    """Create 100 topics of 4 partitions beside 1,500 other logs, and delete them again."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    if broker.address not in _ready:
        standing = [f"standing-{number}" for number in range(_STANDING["topics"])]
        _create(admin, standing, _STANDING["partitions"])
        _await_leaders(admin, standing, _STANDING["partitions"])
        _ready.add(broker.address)
    number = _rounds[broker.address] = _rounds.get(broker.address, 0) + 1
    names = [f"short-lived-{number}-{each}" for each in range(_TOPICS)]
    start = time.perf_counter()
    _create(admin, names, _PARTITIONS)
    created = time.perf_counter() - start
    _await_leaders(admin, names, _PARTITIONS)
    led = time.perf_counter() - start
    start = time.perf_counter()
    for deleted in admin.delete_topics(names, operation_timeout=_WAIT_SECONDS).values():
        deleted.result(_WAIT_SECONDS)
    return {"created": created, "led": led, "deleted": time.perf_counter() - start}


def measure_many(broker: Broker) -> Figures:
    """Create 3,000 partitions at once, and delete them again."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    number = _rounds[broker.address] = _rounds.get(broker.address, 0) + 1
    names = [f"many-{number}-{each}" for each in range(_MANY["topics"])]
    start = time.perf_counter()
    _create(admin, names, _MANY["partitions"])
    _await_leaders(admin, names, _MANY["partitions"])
    led = time.perf_counter() - start
    start = time.perf_counter()
    for deleted in admin.delete_topics(names, operation_timeout=_WAIT_SECONDS).values():
        deleted.result(_WAIT_SECONDS)
    return {"led": led, "deleted": time.perf_counter() - start}


def _create(admin: AdminClient, names: list[str], partitions: int) -> None:
    topics = [NewTopic(name, partitions, 1) for name in names]
    for created in admin.create_topics(topics, operation_timeout=_WAIT_SECONDS).values():
        created.result(_WAIT_SECONDS)


def _await_leaders(admin: AdminClient, names: list[str], partitions: int) -> None:
    """Both brokers answer before they lead: ask for something only a leader knows."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(name, each): latest for name in names for each in range(partitions)}

    def led() -> bool:
        try:
            for found in admin.list_offsets(wanted, request_timeout=10).values():
                found.result(30)
        except KafkaException:
            return False
        return True

    wait_until(led, what="a leader for each partition", timeout_seconds=_WAIT_SECONDS)
