"""MirrorMaker 2's records, byte for byte."""

from typing import Any

import pytest

from headrace.mirror.format.checkpoint import Checkpoint
from headrace.mirror.format.heartbeat import Heartbeat
from headrace.mirror.format.kafka_struct import MalformedRecord
from headrace.mirror.format.offset_sync import OffsetSync
from headrace.model.ids import TopicPartition

PLACE = TopicPartition("t", 3)
SYNC = OffsetSync(PLACE, 7, 9)
CHECKPOINT = Checkpoint("g", PLACE, 7, 9, "m")
HEARTBEAT = Heartbeat("us", "eu", 5)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (SYNC, "0001 74 00000003", "0000000000000007 0000000000000009"),
        (
            CHECKPOINT,
            "0001 67 0001 74 00000003",
            "0000 0000000000000007 0000000000000009 0001 6d",
        ),
        (HEARTBEAT, "0002 7573 0002 6575", "0000 0000000000000005"),
    ],
)
def test_records_are_those_of_mirrormaker(record: Any, key: str, value: str) -> None:
    assert (record.key(), record.value()) == (bytes.fromhex(key), bytes.fromhex(value))
    assert type(record).read(record.key(), record.value()) == record


@pytest.mark.parametrize("record", [SYNC, CHECKPOINT, HEARTBEAT])
def test_no_part_of_a_record_is_taken_for_one(record: Any) -> None:
    key, value = record.key(), record.value()
    for cut in range(len(key)):
        with pytest.raises(MalformedRecord):
            type(record).read(key[:cut], value)
    for cut in range(len(value)):
        with pytest.raises(MalformedRecord):
            type(record).read(key, value[:cut])
    with pytest.raises(MalformedRecord):
        type(record).read(None, None)


@pytest.mark.parametrize("record", [CHECKPOINT, HEARTBEAT])
def test_a_later_version_is_refused(record: Any) -> None:
    with pytest.raises(MalformedRecord, match="version 1"):
        type(record).read(record.key(), b"\0\1" + record.value()[2:])


def test_a_text_that_is_none_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="UTF-8"):
        Heartbeat.read(b"\0\1\xff\0\1a", HEARTBEAT.value())
    with pytest.raises(MalformedRecord, match="ends after"):
        Heartbeat.read(b"\xff\xff", HEARTBEAT.value())
