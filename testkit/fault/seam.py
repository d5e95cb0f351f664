"""Where two features meet, on a cluster of real processes: each with a topic of its own.

The workload of `chaos` goes on meanwhile on its own topic. Each seam here breaks the cluster in a
way that one feature alone does not, and returns what it saw that must not be.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

from confluent_kafka import Consumer, Message, Producer, TopicPartition

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

_MIN_INSYNC = "min.insync.replicas"
_WAIT_SECONDS = 120.0
_BATCH = 10
_QUOTA_BYTES = 50_000
_BULK_BYTES = 1_000_000
# Held to the quota a follower would need 20 s and more.
_BULK_SECONDS = 18.0
_KEYS = 20


class Seams:
    """Each public method is one seam. All replicas are in sync when it begins.

    Args:
        go_on: waits until the workload's records are acknowledged.
    """

    def __init__(
        self, cluster: ClusterProcess, rng: random.Random, go_on: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._random = rng
        self._go_on = go_on
        self._numbers = count(1)
        self._rounds = 0
        self._table = ""

    def all(self) -> dict[str, Callable[[], list[Anomaly]]]:
        return {
            "follower killed under client quotas": self.quota,
            "broker killed under a stricter min.insync.replicas": self.min_insync,
            "topic created again while a broker is down": self.created_again,
            "replica moved into the middle of a batch": self.moved_after_deletion,
            "compacted topic's leader killed": self.compacted,
            "broker killed while a group changes its protocol": self.group_protocol,
        }

    # -- the seams

    def quota(self) -> list[Anomaly]:
        """A default quota for consumers: followers copy at full speed all the same."""
        topic, victim = self._topic(3), self._any()
        self._alter_quota(_QUOTA_BYTES)
        try:
            began = time.monotonic()
            values = [f"{topic}-{each}".ljust(1000, ".") for each in range(_BULK_BYTES // 1000)]
            self._produce(topic, values)
            seconds = time.monotonic() - began
            self._cluster.broker(victim).kill()
            self._go_on()
            self._cluster.broker(victim).start()
            self._go_on()
            self._cluster.wait_in_sync(topic)
        finally:
            self._alter_quota(None)
        if seconds > _BULK_SECONDS:
            return [Anomaly("throttled follower", f"{topic} took {seconds:.1f} s under a quota")]
        return self._check(topic, values)

    def min_insync(self) -> list[Anomaly]:
        """A setting of all brokers, changed while they lead: acks=all needs it from then on."""
        topic, victim = self._topic(3), self._any()
        self._produce(topic, ["before"])
        self._alter_brokers(_MIN_INSYNC, "3")
        try:
            self._cluster.broker(victim).kill()
            wait_until(lambda: self._in_sync(topic) == 2, what="two in sync", timeout_seconds=60)
            taken = self._try_to_produce(topic, ["refused-1", "refused-2"])
        finally:
            self._alter_brokers(_MIN_INSYNC, None)
        self._go_on()
        self._cluster.broker(victim).start()
        self._cluster.wait_in_sync(topic)
        return [
            Anomaly("too few in sync", f"{each} of {topic} was acknowledged with 2 of 3")
            for each in taken
        ]

    def created_again(self) -> list[Anomaly]:
        """A topic that is deleted and created again while a broker is down."""
        topic, victim = self._topic(3), self._any()
        self._produce(topic, [f"old-{each}" for each in range(5 * _BATCH)])
        self._cluster.broker(victim).kill()
        # While it counts as alive, the new topic would get a replica there, and wait for it.
        wait_until(lambda: self._is_gone(victim), what="a session's end", timeout_seconds=60)
        self._admin(lambda admin: admin.delete_topics([topic]))
        wait_until(lambda: not self._exists(topic), what="the deletion", timeout_seconds=60)
        self._create(topic, 2)
        values = [f"new-{each}" for each in range(2 * _BATCH)]
        self._produce(topic, values)
        self._cluster.broker(victim).start()
        others = [each for each in self._cluster.brokers if each != victim]
        self.move(topic, 0, [victim, self._random.choice(others)])
        self._go_on()
        return self._check(topic, values)

    def moved_after_deletion(self) -> list[Anomaly]:
        """DeleteRecords into the middle of a batch, then another replica, and back again."""
        topic = self._topic(2)
        values = [f"{topic}-{each}" for each in range(6 * _BATCH)]
        self._produce(topic, values)
        first = self._random.randrange(1, len(values))
        self._admin(lambda admin: admin.delete_records({Place(topic, 0): first}))
        before = self._replicas(topic)
        newcomer = next(each for each in self._cluster.brokers if each not in before)
        kept = self._random.choice(before)
        self.move(topic, 0, [newcomer, kept])
        self._cluster.broker(kept).kill()
        self._go_on()
        self._cluster.broker(kept).start()
        self._cluster.wait_in_sync(topic)
        self.move(topic, 0, before)
        return self._check(topic, values[first:], first)

    def compacted(self) -> list[Anomaly]:
        """One table for the whole run: every key has the value that was acknowledged last."""
        if not self._table:
            configs = {"cleanup.policy": "compact", "segment.ms": "1000"}
            configs |= {"min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1000"}
            self._table = f"table-{time.monotonic_ns()}"
            self._create(self._table, 3, configs)
        leader = self._cluster.leader(self._table)
        for _ in range(5):
            self._rounds += 1
            self._produce(self._table, [str(self._rounds)] * _KEYS, keyed=True)
        if leader in self._cluster.brokers:
            self._cluster.broker(leader).kill()
            self._go_on()
            self._cluster.broker(leader).start()
        self._rounds += 1
        self._produce(self._table, [str(self._rounds)] * _KEYS, keyed=True)
        found: dict[bytes, int] = {}
        problems = []
        for message in self._read(self._table):
            key, value = message.key() or b"", int(message.value() or b"-1")
            if value < found.get(key, 0):
                problems.append(
                    Anomaly("older value", f"{key!r} went from {found[key]} to {value}")
                )
            found[key] = value
        if found != {f"k{each}".encode(): self._rounds for each in range(_KEYS)}:
            problems.append(Anomaly("lost value", f"round {self._rounds} of {found}"))
        return problems

    def group_protocol(self) -> list[Anomaly]:
        """A group passes from the classic to the consumer protocol and back, and misses nothing."""
        topic, victim = self._topic(3), self._any()
        sent, seen = [0], set[str]()

        def all_seen(*members: Consumer) -> bool:
            """Write some more, and return whether these members got all there is."""
            values = [f"{topic}-{each}" for each in range(sent[0], sent[0] + _BATCH)]
            sent[0] += _BATCH
            self._produce(topic, values)
            deadline = time.monotonic() + _WAIT_SECONDS
            while len(seen) < sent[0] and time.monotonic() < deadline:
                for member in members:
                    message = member.poll(0.1)
                    if message is not None and message.error() is None:
                        seen.add((message.value() or b"").decode())
            return len(seen) == sent[0]

        classic = self._member(topic, "classic")
        steps = [all_seen(classic)]
        first_assignment = classic.assignment()
        modern = self._member(topic, "consumer")
        steps.append(all_seen(classic, modern))
        self._cluster.broker(victim).kill()
        classic.close()
        steps.append(all_seen(modern))
        self._cluster.broker(victim).start()
        classic = self._member(topic, "classic")
        steps.append(all_seen(classic, modern))
        modern.close()
        steps.append(all_seen(classic))
        classic.close()
        if all(steps):
            return []
        what = f"{len(seen)} of {sent[0]} records of {topic}: {steps}"
        return [Anomaly("undelivered", f"{what}; at first the member had {first_assignment}")]

    # -- what administrators ask for

    @contextmanager
    def _pool(self) -> Iterator[ConnectionPool]:
        settings = ClientSettings.of({"bootstrap.servers": self._cluster.address})
        with ConnectionPool(settings) as pool:
            yield pool

    def _admin(self, request: Callable[[Admin], Mapping[object, object]]) -> None:
        """Send a request until it is done: the broker that was asked may have been killed."""

        def done() -> bool:
            try:
                with self._pool() as pool:
                    answer = request(Admin(pool))
            except ClientError:
                return False
            return not any(isinstance(each, ClientError) for each in answer.values())

        wait_until(done, what="an administrator's request", timeout_seconds=_WAIT_SECONDS)

    def _topic(self, replicas: int) -> str:
        topic = f"seam-{next(self._numbers)}-{time.monotonic_ns()}"
        self._create(topic, replicas)
        return topic

    def _create(self, topic: str, replicas: int, configs: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, 1, replicas, dict(configs or {}))
        if not self._exists(topic):
            self._admin(lambda admin: admin.create_topics([new]) if not self._exists(topic) else {})

    def _exists(self, topic: str) -> bool:
        try:
            return bool(self._cluster.metadata(topic).topics[topic].partitions)
        except (ClientError, KeyError):
            return False

    def _is_gone(self, number: int) -> bool:
        try:
            return number not in self._cluster.metadata().brokers
        except ClientError:
            return False

    def _replicas(self, topic: str, partition: int = 0) -> list[int]:
        return list(self._cluster.metadata(topic).topics[topic].partitions[partition].replicas)

    def _in_sync(self, topic: str) -> int:
        try:
            return len(self._cluster.metadata(topic).topics[topic].partitions[0].in_sync)
        except (ClientError, KeyError):
            return -1

    def move(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Move a partition, and return when that is done and all are in sync."""
        place = Place(topic, partition)

        def moved() -> bool:
            try:
                with self._pool() as pool:
                    admin = ReplicaAdmin(pool)
                    if place in admin.moves():
                        return False
                    if sorted(self._replicas(topic, partition)) == sorted(replicas):
                        return True
                    admin.reassign({place: list(replicas)})
            except (ClientError, KeyError):
                return False
            return False

        wait_until(moved, what=f"the move of {topic} to {replicas}", timeout_seconds=_WAIT_SECONDS)
        self._cluster.wait_in_sync(topic)

    def _alter_brokers(self, key: str, value: str | None) -> None:
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        change = ConfigChange(operation, key, value)
        self._admin(lambda admin: admin.alter_configs(ConfigResourceType.BROKER, {"": [change]}))

    def _alter_quota(self, rate: float | None) -> None:
        entry = {
            "entity": [{"entity_type": "client-id", "entity_name": None}],
            "ops": [{"key": "consumer_byte_rate", "value": rate or 0.0, "remove": rate is None}],
        }
        body = {"entries": [entry], "validate_only": False}

        def done() -> bool:
            address = self._random.choice(self._cluster.address.split(","))
            try:
                with WireClient(address) as client:
                    answer = client.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, body)
            except OSError:
                return False
            return all(each.error_code == 0 for each in answer.entries)

        wait_until(done, what="a client quota", timeout_seconds=_WAIT_SECONDS)

    def _any(self) -> int:
        return self._random.choice(list(self._cluster.brokers))

    # -- records

    def _produce(self, topic: str, values: Sequence[str], *, keyed: bool = False) -> None:
        """Write records with acks=all, some to a batch; return when all are acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.address,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.num.messages": _BATCH,
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
        left = producer.flush(_WAIT_SECONDS)
        if left or failed:
            raise TimeoutError(f"{left} records of {topic} were not acknowledged: {failed[:1]}")

    def _try_to_produce(self, topic: str, values: Sequence[str]) -> list[str]:
        """Return those that were acknowledged within two seconds."""
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.address,
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

    def _member(self, topic: str, protocol: str) -> Consumer:
        """Return a consumer that has joined the group of a topic."""
        settings: dict[str, str | int] = {
            "bootstrap.servers": self._cluster.address,
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

    def _read(self, topic: str) -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.address,
                "group.id": topic,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        found = []
        deadline = time.monotonic() + _WAIT_SECONDS
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.name() == "_PARTITION_EOF":
                    return found
        finally:
            consumer.close()
        raise TimeoutError(f"{topic} has no end")

    def _check(self, topic: str, values: Sequence[str], first: int = 0) -> list[Anomaly]:
        """Compare a topic with what it must hold, from its first offset on."""
        found = [
            ((message.value() or b"").decode(), message.offset()) for message in self._read(topic)
        ]
        wanted = list(zip(values, range(first, first + len(values)), strict=True))
        if found == wanted:
            return []
        extra = [each for each in found if each not in wanted]
        lost = [each for each in wanted if each not in found]
        return [Anomaly("other records", f"{topic} lacks {lost[:3]} and has {extra[:3]}")]
