"""Messages that a task receives and sends."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.flow.error import FlowError


class SystemStream(NamedTuple):
    """A topic of a system, written `kafka.views`."""

    system: str
    stream: str

    @classmethod
    def parse(cls, text: "str | SystemStream") -> "SystemStream":
        """Return the stream that a text names."""
        if isinstance(text, SystemStream):
            return text
        system, _, stream = text.partition(".")
        if not system or not stream:
            raise FlowError(f"{text!r} is no stream: write system.topic, such as kafka.views")
        return cls(system, stream)

    def __str__(self) -> str:
        return f"{self.system}.{self.stream}"


@dataclass(frozen=True, slots=True)
class IncomingMessageEnvelope:
    """A message and its origin; the stream's serdes have decoded `key` and `message`."""

    system: str
    stream: str
    partition: int
    offset: int
    key: Any
    message: Any
    timestamp_ms: int

    @property
    def system_stream(self) -> SystemStream:
        return SystemStream(self.system, self.stream)


class OutgoingMessageEnvelope:
    """A message and its destination.

    Args:
        stream: `kafka.views`, or a `SystemStream`.
        key: the record's key; it decides on the partition too.
        partition: the partition's number, if the key does not decide.

    Example:
        OutgoingMessageEnvelope("kafka.counts", {"n": 3}, key="home")
    """

    __slots__ = ("key", "message", "partition", "system_stream")

    def __init__(
        self,
        stream: str | SystemStream,
        message: Any,
        *,
        key: Any = None,
        partition: int | None = None,
    ) -> None:
        self.system_stream = SystemStream.parse(stream)
        self.message = message
        self.key = key
        self.partition = partition
