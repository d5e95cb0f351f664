"""Messages on their way in and out."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.flow.error import FlowError


class SystemStream(NamedTuple):
    """A topic of a system; written `kafka.views`."""

    system: str
    stream: str

    @classmethod
    def parse(cls, text: "str | SystemStream") -> "SystemStream":
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
    """A message and where it comes from; `key` and `message` as the stream's serdes read them."""

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
    """A message and where it goes.

    Args:
        stream: `kafka.views`, or a `SystemStream`.
        key: the record's key; it also decides on the partition.
        partition: the partition's number, where the key is not to decide.

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
