"""Members of a consumer group, driven by a test: confluent-kafka consumers polled in turn."""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
)

from headrace.testing.readiness import wait_until

_POLL_SECONDS = 0.01


class Member:
    """One consumer of a group, and all that happened to it.

    Attributes:
        values: what it has read, in order.
        assigned, revoked, lost: one entry for each call back, the partitions of that call.
        fatal: the error that ended it, if one did.
    """

    def __init__(self, address: str, group: str, topics: Sequence[str], **settings: Any) -> None:
        self.values: list[bytes] = []
        self.assigned: list[list[int]] = []
        self.revoked: list[list[int]] = []
        self.lost: list[list[int]] = []
        self.fatal: KafkaError | None = None
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 200,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self.consumer.subscribe(
            list(topics),
            on_assign=_note(self.assigned),
            on_revoke=_note(self.revoked),
            on_lost=_note(self.lost),
        )

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """What it holds now."""
        return sorted((each.topic, each.partition) for each in self.consumer.assignment())

    def poll(self) -> None:
        """Take what is there, without waiting for more."""
        try:
            messages = self.consumer.consume(1000, _POLL_SECONDS)
        except KafkaException as failure:
            self.fatal = failure.args[0]
            return
        for message in messages:
            error = message.error()
            if error is None:
                self.values.append(message.value() or b"")
            elif error.code() == KafkaError._FATAL:
                self.fatal = error

    def close(self) -> None:
        self.consumer.close()


def _note(into: list[list[int]]) -> Callable[[Any, list[TopicPartition]], None]:
    def note(_: Any, partitions: list[TopicPartition]) -> None:
        into.append(sorted(each.partition for each in partitions))

    return note


def poll_until(members: Sequence[Member], condition: Callable[[], bool], *, what: str) -> None:
    """Poll all members in turn until `condition` holds.

    Raises:
        TimeoutError: naming `what` did not come about.
    """

    def polled() -> bool:
        for member in members:
            member.poll()
        return condition()

    wait_until(polled, what=what)


def share(members: Sequence[Member], partitions: int) -> None:
    """Poll until the members hold all partitions of their topic, each once, in equal parts."""

    def shared() -> bool:
        held = [member.partitions for member in members]
        sizes = sorted(map(len, held))
        every = {partition for part in held for partition in part}
        return sum(sizes) == partitions == len(every) and sizes[-1] - sizes[0] <= 1

    poll_until(members, shared, what=f"a fair share of {partitions} for {len(members)} members")


def create_topic(address: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(90)


def produce(address: str, topic: str, values: Sequence[bytes], partitions: int) -> None:
    """Spread the values over the partitions in turn, and return when all are acknowledged."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": False})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    left = producer.flush(90)
    assert left == 0, f"{left} records were not acknowledged"
