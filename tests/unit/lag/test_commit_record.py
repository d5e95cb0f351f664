"""Commits as the broker writes them into `__consumer_offsets`."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from headrace.groups.record import OffsetCommitRecord, StoredOffset
from headrace.groups.record_codec import encode
from headrace.lag.commit_record import CommitRecord, read_commit
from headrace.model.ids import TopicPartition

names = st.text(max_size=20)


@given(names, names, st.integers(0, 1000), st.integers(0, 2**62), names, st.none() | st.just(2**40))
def test_reads_what_the_broker_writes(
    group: str, topic: str, partition: int, offset: int, note: str, expires: int | None
) -> None:
    value = StoredOffset(
        offset=offset,
        leader_epoch=3,
        metadata=note,
        commit_timestamp_ms=1_700_000_000_000,
        expire_timestamp_ms=expires,
    )
    key, data = encode(
        OffsetCommitRecord(group=group, topic=topic, partition=partition, value=value)
    )
    assert read_commit(key, data) == CommitRecord(
        group, TopicPartition(topic, partition), offset, 1_700_000_000_000
    )


def test_a_tombstone_is_a_commit_that_was_deleted() -> None:
    key, data = encode(OffsetCommitRecord(group="g", topic="t", partition=1, value=None))
    assert data is None
    assert read_commit(key, data) == CommitRecord("g", TopicPartition("t", 1), None, 0)


def test_other_records_are_passed_over() -> None:
    assert read_commit(struct.pack(">hh1s", 2, 1, b"g"), b"") is None
    assert read_commit(None, b"") is None


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_no_bytes_make_it_fail(key: bytes, value: bytes | None) -> None:
    read_commit(key, value)
    read_commit(b"\x00\x01" + key, value)
