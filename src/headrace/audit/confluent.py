"""Counting at confluent-kafka's clients, without another line in the program that uses them.

A record counts as sent when the broker has acknowledged it, with the timestamp it has then: that is
the one every other tier sees.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message, Producer

from headrace.audit.tally import Tally

Delivered: TypeAlias = Callable[[KafkaError | None, Message], None]
Headers: TypeAlias = "dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]] | None"


class AuditedProducer(Producer):
    """A producer that counts what was delivered.

    Example:
        tally = Tally("producer")
        producer = AuditedProducer({"bootstrap.servers": address}, tally)
    """

    def __init__(self, config: dict[str, Any], tally: Tally) -> None:
        super().__init__(config)
        self._tally = tally

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Delivered | None = None,
        on_delivery: Delivered | None = None,
        timestamp: int = 0,
        headers: Headers = None,
    ) -> None:
        """Produce as `Producer.produce` does, and count; a callback that is given is called too."""
        report = on_delivery or callback

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._tally.count(message.topic() or topic, _time_of(message))
            if report is not None:
                report(error, message)

        super().produce(
            topic,
            value,
            key,
            partition=partition,
            on_delivery=delivered,
            timestamp=timestamp,
            headers=headers,
        )


class AuditedConsumer(Consumer):
    """A consumer that counts the records that it returns."""

    def __init__(self, config: dict[str, Any], tally: Tally) -> None:
        super().__init__(config)
        self._tally = tally

    def poll(self, timeout: float = -1) -> Message | None:
        message = super().poll(timeout)
        if message is not None:
            self._count(message)
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        messages: list[Message] = super().consume(num_messages, timeout)
        for message in messages:
            self._count(message)
        return messages

    def _count(self, message: Message) -> None:
        if message.error() is None:
            self._tally.count(message.topic() or "", _time_of(message))


def _time_of(message: Message) -> int:
    kind, timestamp_ms = message.timestamp()
    return -1 if kind == TIMESTAMP_NOT_AVAILABLE else int(timestamp_ms)
