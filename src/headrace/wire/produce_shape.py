"""Reading a producer's next request by the shape of its last one.

A producer that sends one batch at a time repeats itself: client id, acks, timeout, topic and
partition are the same bytes in every request, and only the correlation id and the records differ.
Where the bytes are the same, so is what they mean: comparing them replaces reading them, which
costs a broker more than anything else it does with a small request.

    front: key, version | correlation id | middle: client id ... partition | size, records | 000

A frame that differs anywhere outside the correlation id and the records is read in full.
"""

from struct import Struct
from typing import Final

from headrace.wire.api import ApiKey
from headrace.wire.header import RequestHeader
from headrace.wire.primitive import Frame, pack_uvarint
from headrace.wire.produce_request import (
    FIRST_FLEXIBLE,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from headrace.wire.request import Request

MIDDLE_AT: Final = 8
_FRONT_BYTES: Final = 4
_NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic and the request
_TAGS_BYTES: Final = len(_NO_TAGS)
_MAX_MIDDLE_BYTES: Final = 512  # a client id may have 32 KiB, and every connection keeps a shape

# Makes a NamedTuple in half the time its own constructor takes.
_new: Final = tuple.__new__


class ProduceShape:
    """Everything of a Produce request with a single partition but its records.

    Attributes:
        version: of the request.
        conditions: transactional id, acks and timeout.
        name, topic_id, partition: where the records go.
        middle: the bytes from the client id to the partition.
        end: where the middle ends in a frame.
    """

    __slots__ = (
        "_api",
        "_client_id",
        "_front",
        "_unpack",
        "conditions",
        "end",
        "middle",
        "name",
        "partition",
        "topic_id",
        "version",
    )

    def __init__(self, request: Request, index: int, front: bytes, middle: bytes) -> None:
        """Use `of`. Keeps nothing of the request that would keep its frame alive."""
        body: ProduceRequest = request.body
        self.version = request.header.api_version
        self.conditions = body[:3]
        self.name = body.topics[0].name
        self.topic_id = body.topics[0].topic_id
        self.partition = index
        self.middle = middle
        self.end = MIDDLE_AT + len(middle)
        self._api = request.api
        self._client_id = request.header.client_id
        self._front = front
        self._unpack = Struct(f">{_FRONT_BYTES}si{len(middle)}sBBB").unpack_from

    @classmethod
    def of(cls, frame: Frame, request: Request) -> "ProduceShape | None":
        """Return the shape of a request that was read from `frame`; None when it cannot repeat."""
        header = request.header
        if header.api_key != ApiKey.PRODUCE or header.api_version < FIRST_FLEXIBLE:
            return None
        body: ProduceRequest = request.body
        if len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
            return None
        index, records = body.topics[0].partitions[0]
        if records is None or frame[-3:] != _NO_TAGS:
            return None
        size = pack_uvarint(len(records) + 1)
        end = len(frame) - len(_NO_TAGS) - len(records) - len(size)
        if end > _MAX_MIDDLE_BYTES or frame[end : end + len(size)] != size:
            return None
        return cls(request, index, bytes(frame[:_FRONT_BYTES]), bytes(frame[MIDDLE_AT:end]))

    def read(self, frame: Frame) -> Request | None:
        """Return the request in `frame`, if it has this shape; otherwise None."""
        found = self.records(frame)
        if found is None:
            return None
        correlation_id, records = found
        partitions = [_new(ProducePartition, (self.partition, memoryview(records)))]
        topics = [_new(ProduceTopic, (self.name, self.topic_id, partitions))]
        return Request(
            self._api,
            _new(RequestHeader, (ApiKey.PRODUCE, self.version, correlation_id, self._client_id)),
            None,
            0,
            _new(ProduceRequest, (*self.conditions, topics)),
        )

    def records(self, frame: Frame) -> tuple[int, bytes | memoryview] | None:
        """Return the correlation id and the records in `frame`, if it has this shape; otherwise
        None.

        The records are of the frame's type: of bytes, which are small (`framing`), a copy costs
        less than a view.
        """
        end, size_bytes = self.end, len(frame)
        if size_bytes < end + _TAGS_BYTES:
            return None
        front, correlation_id, middle, size, second, third = self._unpack(frame)
        if front != self._front or middle != self.middle or frame[-_TAGS_BYTES:] != _NO_TAGS:
            return None
        if size < 0x80:
            start = end + 1
        elif second < 0x80:
            size += (second << 7) - 0x80
            start = end + 2
        elif third < 0x80:
            size += (second << 7) + (third << 14) - 0x4080
            start = end + 3
        else:
            return None
        stop = start + size - 1
        if size == 0 or stop + _TAGS_BYTES != size_bytes:
            return None
        return correlation_id, frame[start:stop]
