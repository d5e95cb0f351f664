"""What the seams of `chaos` ask of a cluster, as administrators and as clients."""

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from headrace.client.admin.admin import Admin, ConfigChange, NewTopic
from headrace.client.admin.replica_admin import ReplicaAdmin
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.ids import TopicPartition as Place
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from testkit.fault.cluster_process import ClusterProcess
from testkit.fault.history import Anomaly
from testkit.process.wire_client import WireClient

WAIT_SECONDS = 120.0
BATCH = 10


class SeamCluster:
    """Asks until it gets an answer: the broker that was asked may just have been killed."""

    def __init__(self, processes: ClusterProcess, rng: random.Random) -> None:
        self.processes = processes
        self._random = rng
        self._numbers = count(1)

    # -- what administrators ask for

    @contextmanager
    def pool(self) -> Iterator[ConnectionPool]:
        settings = ClientSettings.of({"bootstrap.servers": self.processes.address})
        with ConnectionPool(settings) as pool:
            yield pool

    def admin(self, request: Callable[[Admin], Mapping[object, object]]) -> None:
        """Send a request until it is done: the broker that was asked may have been killed."""

        def done() -> bool:
            try:
                with self.pool() as pool:
                    answer = request(Admin(pool))
            except ClientError:
                return False
            return not any(isinstance(each, ClientError) for each in answer.values())

        wait_until(done, what="an administrator's request", timeout_seconds=WAIT_SECONDS)

    def admin_of_replicas(self, request: Callable[[ReplicaAdmin], object]) -> None:
        """Send a request about replicas until it is answered."""

        def done() -> bool:
            try:
                with self.pool() as pool:
                    request(ReplicaAdmin(pool))
            except ClientError:
                return False
            return True

        wait_until(done, what="a request about replicas", timeout_seconds=WAIT_SECONDS)

    def topic(self, replicas: int) -> str:
        topic = f"seam-{next(self._numbers)}-{time.monotonic_ns()}"
        self.create(topic, replicas)
        return topic

    def create(self, topic: str, replicas: int, configs: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, 1, replicas, dict(configs or {}))
        if not self.exists(topic):
            self.admin(lambda admin: admin.create_topics([new]) if not self.exists(topic) else {})

    def exists(self, topic: str) -> bool:
        try:
            return bool(self.processes.metadata(topic).topics[topic].partitions)
        except (ClientError, KeyError):
            return False

    def wait_known(self, topic: str) -> None:
        """Return when every broker knows a topic. A member of a classic group that leads it asks
        the coordinator alone which partitions there are, and not again if it hears of none."""

        def known(number: int) -> bool:
            try:
                found = self.processes.metadata(topic, asked=[number]).topics
            except ClientError:
                return False
            return topic in found and bool(found[topic].partitions)

        wait_until(
            lambda: all(known(each) for each in self.processes.brokers),
            what=f"{topic} at every broker",
            timeout_seconds=WAIT_SECONDS,
        )

    def is_gone(self, number: int) -> bool:
        try:
            return number not in self.processes.metadata().brokers
        except ClientError:
            return False

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        return list(self.processes.metadata(topic).topics[topic].partitions[partition].replicas)

    def in_sync(self, topic: str) -> int:
        try:
            return len(self.processes.metadata(topic).topics[topic].partitions[0].in_sync)
        except (ClientError, KeyError):
            return -1

    def move(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Move a partition, and return when that is done and all are in sync."""
        place = Place(topic, partition)

        def moved() -> bool:
            try:
                with self.pool() as pool:
                    admin = ReplicaAdmin(pool)
                    if place in admin.moves():
                        return False
                    if sorted(self.replicas(topic, partition)) == sorted(replicas):
                        return True
                    admin.reassign({place: list(replicas)})
            except (ClientError, KeyError):
                return False
            return False

        wait_until(moved, what=f"the move of {topic} to {replicas}", timeout_seconds=WAIT_SECONDS)
        self.processes.wait_in_sync(topic)

    def alter_brokers(self, key: str, value: str | None) -> None:
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        change = ConfigChange(operation, key, value)
        self.admin(lambda admin: admin.alter_configs(ConfigResourceType.BROKER, {"": [change]}))
        if value is not None:
            self._wait_for_setting(key, value)

    def _wait_for_setting(self, key: str, value: str) -> None:
        """Return when every broker that runs says that it has the setting: they hear of it one
        after the other."""

        def is_known() -> bool:
            brokers = self.processes.brokers.items()
            running = [str(number) for number, broker in brokers if broker.running]
            try:
                with self.pool() as pool:
                    found = Admin(pool).describe_configs(ConfigResourceType.BROKER, running)
            except ClientError:
                return False
            return all(
                isinstance(entries, list)
                and any(each.name == key and each.value == value for each in entries)
                for entries in found.values()
            )

        wait_until(is_known, what=f"{key}={value} at all brokers", timeout_seconds=WAIT_SECONDS)

    def alter_quota(self, rate: float | None) -> None:
        entry = {
            "entity": [{"entity_type": "client-id", "entity_name": None}],
            "ops": [{"key": "consumer_byte_rate", "value": rate or 0.0, "remove": rate is None}],
        }
        body = {"entries": [entry], "validate_only": False}

        def done() -> bool:
            address = self._random.choice(self.processes.address.split(","))
            try:
                with WireClient(address) as client:
                    answer = client.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, body)
            except OSError:
                return False
            return all(each.error_code == 0 for each in answer.entries)

        wait_until(done, what="a client quota", timeout_seconds=WAIT_SECONDS)

    def any(self) -> int:
        return self._random.choice(list(self.processes.brokers))

    # -- records

    def produce(self, topic: str, values: Sequence[str], *, keyed: bool = False) -> None:
        """Write records with acks=all, some to a batch; return when all are acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": self.processes.address,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.num.messages": BATCH,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "socket.timeout.ms": 5000,
                "log_level": 0,
            }
        )
        failed: list[str] = []

        def delivered(error: object, _: Message) -> None:
            if error is not None:
                failed.append(str(error))

        for number, value in enumerate(values):
            key = f"k{number}" if keyed else None
            producer.produce(topic, value, key=key, partition=0, on_delivery=delivered)
        left = producer.flush(WAIT_SECONDS)
        if left or failed:
            raise TimeoutError(f"{left} records of {topic} were not acknowledged: {failed[:1]}")

    def try_to_produce(self, topic: str, values: Sequence[str]) -> list[str]:
        """Return those that were acknowledged within two seconds."""
        producer = Producer(
            {
                "bootstrap.servers": self.processes.address,
                "acks": "all",
                "message.timeout.ms": 2000,
                "log_level": 0,
            }
        )
        taken: list[str] = []
        for value in values:
            producer.produce(
                topic,
                value,
                partition=0,
                on_delivery=lambda error, _, value=value: error or taken.append(value),
            )
        producer.flush(10)
        return taken

    def member(self, topic: str, protocol: str) -> Consumer:
        """Return a consumer that has joined the group of a topic."""
        settings: dict[str, str | int] = {
            "bootstrap.servers": self.processes.address,
            "group.id": f"group-{topic}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
            # It looks for a topic that the first broker did not know yet with this interval only.
            "topic.metadata.refresh.interval.ms": 1000,
            "socket.timeout.ms": 5000,
            "log_level": 0,
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = 6000
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        return consumer

    def read(self, topic: str) -> list[Message]:
        """Return all records. A new leader may not know yet how far they are committed, and shows
        an end that is too early; where they end for certain it says when it knows (KIP-207)."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.processes.address,
                "group.id": topic,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        found = []
        deadline = time.monotonic() + WAIT_SECONDS
        place = TopicPartition(topic, 0, 0)
        try:
            consumer.assign([place])
            seen_end: int | None = None
            while time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is not None:
                    error = message.error()
                    if error is None:
                        found.append(message)
                        seen_end = None
                    elif error.name() == "_PARTITION_EOF":
                        seen_end = message.offset()
                if seen_end is not None and seen_end >= _end(consumer, place):
                    return found
        finally:
            consumer.close()
        raise TimeoutError(f"{topic} has no end")

    def check(self, topic: str, values: Sequence[str], first: int = 0) -> list[Anomaly]:
        """Compare a topic with what it must hold, from its first offset on."""
        found = [
            ((message.value() or b"").decode(), message.offset()) for message in self.read(topic)
        ]
        wanted = list(zip(values, range(first, first + len(values)), strict=True))
        if found == wanted:
            return []
        extra = [each for each in found if each not in wanted]
        lost = [each for each in wanted if each not in found]
        return [Anomaly("other records", f"{topic} lacks {lost[:3]} and has {extra[:3]}")]


def _end(consumer: Consumer, place: TopicPartition) -> float:
    """Return where a partition ends; beyond all offsets while its leader does not know."""
    try:
        _, end = consumer.get_watermark_offsets(place, timeout=5)
    except KafkaException:
        return math.inf
    return float(end)
