"""Records of `__transaction_state`, byte for byte as Kafka 4.x writes them.

One record per change: the key names the transactional id, the value is the whole metadata, so the
newest record of a key is all that counts and the topic is compacted. A null value (tombstone) says
that the id expired. We write value version 1, the flexible one, and read 0 and 1; tags that we do
not know are skipped (KIP-915: newer brokers add only tags). The layout is drawn in
docs/formats/transaction-state.md.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable

from headrace.model.error import CorruptLog
from headrace.model.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.metadata import CLASSIC_VERSION, TransactionMetadata
from headrace.transactions.state import TransactionState

Record = tuple[bytes, bytes | None]
"""Key and value; the value None is a tombstone."""

_KEY_VERSION = 0
_VALUE_VERSION = 1

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_HEAD = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, state
_TIMES = struct.Struct(">qq")

_TAG_PREVIOUS_PRODUCER_ID = 0
_TAG_NEXT_PRODUCER_ID = 1
_TAG_CLIENT_VERSION = 2


def encode(metadata: TransactionMetadata) -> Record:
    return encode_key(metadata.transactional_id), encode_value(metadata)


def tombstone(transactional_id: str) -> Record:
    return encode_key(transactional_id), None


def encode_key(transactional_id: str) -> bytes:
    text = transactional_id.encode()
    return _SHORT.pack(_KEY_VERSION) + _SHORT.pack(len(text)) + text


def encode_value(metadata: TransactionMetadata) -> bytes:
    out = bytearray(
        _HEAD.pack(
            _VALUE_VERSION,
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.timeout_ms,
            metadata.state.value,
        )
    )
    if metadata.state is TransactionState.EMPTY:
        out += _uvarint(0)  # null, which is what Kafka writes here
    else:
        _put_partitions(out, metadata.partitions)
    out += _TIMES.pack(metadata.last_update_ms, metadata.start_ms)
    _put_tags(out, metadata)
    return bytes(out)


def _put_partitions(out: bytearray, partitions: Iterable[TopicPartition]) -> None:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for partition in sorted(partitions):
        by_topic[partition.topic].append(partition.partition)
    out += _uvarint(len(by_topic) + 1)
    for topic, numbers in by_topic.items():
        text = topic.encode()
        out += _uvarint(len(text) + 1) + text + _uvarint(len(numbers) + 1)
        out += struct.pack(f">{len(numbers)}i", *numbers)
        out += _uvarint(0)


def _put_tags(out: bytearray, metadata: TransactionMetadata) -> None:
    """Write the tags; one that holds its default is left out, as in Kafka."""
    tags: list[tuple[int, bytes]] = []
    if metadata.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_TAG_PREVIOUS_PRODUCER_ID, _LONG.pack(metadata.previous_producer_id)))
    if metadata.next_producer_id != NO_PRODUCER_ID:
        tags.append((_TAG_NEXT_PRODUCER_ID, _LONG.pack(metadata.next_producer_id)))
    if metadata.client_version != CLASSIC_VERSION:
        tags.append((_TAG_CLIENT_VERSION, _SHORT.pack(metadata.client_version)))
    out += _uvarint(len(tags))
    for tag, data in tags:
        out += _uvarint(tag) + _uvarint(len(data)) + data


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode(key: bytes, value: bytes | None) -> tuple[str, TransactionMetadata | None] | None:
    """Return the transactional id and its metadata (None: it expired), or None for another kind.

    Raises:
        CorruptLog: when the bytes are not what their version promises.
    """
    reader = _Reader(key, "key")
    if reader.int16() != _KEY_VERSION:
        return None  # a newer broker's kind of record: nothing of ours
    transactional_id = reader.text(reader.int16())
    if value is None:
        return transactional_id, None
    return transactional_id, _decode_value(transactional_id, _Reader(value, "value"))


def _decode_value(transactional_id: str, reader: "_Reader") -> TransactionMetadata:
    version = reader.int16()
    if version not in (0, 1):
        raise CorruptLog(
            f"the record of transactional id {transactional_id!r} has version {version}: "
            "this broker reads 0 and 1"
        )
    flexible = version == 1
    producer_id, epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = reader.state()
    partitions = reader.partitions(flexible=flexible)
    last_update_ms, start_ms = reader.int64(), reader.int64()
    previous_id = next_id = int(NO_PRODUCER_ID)
    client_version = CLASSIC_VERSION
    for tag, field in reader.tags() if flexible else ():
        if tag == _TAG_PREVIOUS_PRODUCER_ID:
            previous_id = field.int64()
        elif tag == _TAG_NEXT_PRODUCER_ID:
            next_id = field.int64()
        elif tag == _TAG_CLIENT_VERSION:
            client_version = field.int16()
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        timeout_ms=timeout_ms,
        state=state,
        last_update_ms=last_update_ms,
        partitions=partitions,
        start_ms=start_ms,
        previous_producer_id=ProducerId(previous_id),
        next_producer_id=ProducerId(next_id),
        client_version=client_version,
    )


def replay(records: Iterable[Record]) -> dict[str, TransactionMetadata]:
    """Return the newest metadata of every id that is left after the records, in their order."""
    newest: dict[str, TransactionMetadata] = {}
    for key, value in records:
        entry = decode(key, value)
        if entry is None:
            continue
        transactional_id, metadata = entry
        if metadata is None:
            newest.pop(transactional_id, None)
        else:
            newest[transactional_id] = metadata
    return newest


class _Reader:
    """A cursor over one key or value. Every length is checked against the bytes left.

    A count is not: each item begins with a length, so the first that is missing ends the reading.
    """

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._position = 0
        self._what = what

    def _wrong(self, problem: str) -> CorruptLog:
        return CorruptLog(
            f"a {self._what} in __transaction_state is damaged at byte {self._position}: {problem}"
        )

    def take(self, size: int) -> bytes:
        left = len(self._data) - self._position
        if not 0 <= size <= left:
            raise self._wrong(f"{size} bytes are announced and {left} are left")
        self._position += size
        return self._data[self._position - size : self._position]

    def int16(self) -> int:
        return self._number(_SHORT)

    def int32(self) -> int:
        return self._number(_INT)

    def int64(self) -> int:
        return self._number(_LONG)

    def _number(self, layout: struct.Struct) -> int:
        (number,) = layout.unpack(self.take(layout.size))
        return int(number)

    def byte(self) -> int:
        return int.from_bytes(self.take(1))

    def uvarint(self) -> int:
        value = 0
        for index in range(5):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value
        raise self._wrong("a length has more than five bytes")

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise self._wrong("a name is not UTF-8") from None

    def state(self) -> TransactionState:
        number = self.byte()
        if number > TransactionState.COMPLETE_ABORT.value:
            raise self._wrong(f"no transaction is ever written in state {number}")
        return TransactionState(number)

    def partitions(self, *, flexible: bool) -> frozenset[TopicPartition]:
        size: Callable[[], int] = (lambda: self.uvarint() - 1) if flexible else self.int32
        length: Callable[[], int] = (lambda: self.uvarint() - 1) if flexible else self.int16
        partitions: set[TopicPartition] = set()
        # A null array has the size -1, and holds nothing.
        for _ in range(size()):
            topic = self.text(length())
            numbers = max(size(), 0)
            for number in struct.unpack(f">{numbers}i", self.take(4 * numbers)):
                partitions.add(TopicPartition(topic, number))
            for _tag in self.tags() if flexible else ():
                pass
        return frozenset(partitions)

    def tags(self) -> "list[tuple[int, _Reader]]":
        tags = []
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            tags.append((tag, _Reader(self.take(self.uvarint()), self._what)))
        return tags
