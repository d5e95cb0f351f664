"""Bytes of `__transaction_state`. The samples were written by Apache Kafka 4.2's own classes."""

from dataclasses import replace

import pytest

from headrace.model.error import CorruptLog
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions import record
from headrace.transactions.metadata import TransactionMetadata
from headrace.transactions.state import TransactionState

KEY = bytes.fromhex("000000067061792dc3bc")
VALUE_0 = bytes.fromhex(
    "0000000000000000126700070000ea60020000000200125f5f636f6e73756d65725f6f666673657473"
    "000000010000003100066f72646572730000000300000000000000010000012c0000018bcfe5687b"
    "0000018bcfe56800"
)
VALUE_1 = bytes.fromhex(
    "0001000000000000126700070000ea600203135f5f636f6e73756d65725f6f66667365747302000000"
    "3100076f72646572730400000000000000010000012c000000018bcfe5687b0000018bcfe568000300"
    "0800000000000012670108000000000000138802020002"
)
VALUE_1_WITH_A_NEWER_TAG = bytes.fromhex(
    "0001000000000000126700070000ea600203135f5f636f6e73756d65725f6f66667365747302000000"
    "3100076f72646572730400000000000000010000012c000000018bcfe5687b0000018bcfe568000400"
    "080000000000001267010800000000000013880202000203020009"
)
VALUE_EMPTY = bytes.fromhex(
    "000100000000000000010000000003e800000000000000000005ffffffffffffffff00"
)

METADATA = TransactionMetadata(
    transactional_id="pay-ü",
    producer_id=ProducerId(4711),
    producer_epoch=ProducerEpoch(7),
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    last_update_ms=1_700_000_000_123,
    start_ms=1_700_000_000_000,
    partitions=frozenset(
        {
            TopicPartition("__consumer_offsets", 49),
            TopicPartition("orders", 0),
            TopicPartition("orders", 1),
            TopicPartition("orders", 300),
        }
    ),
    previous_producer_id=ProducerId(4711),
    next_producer_id=ProducerId(5000),
    client_version=2,
)


def test_key_and_value_are_kafkas_bytes():
    assert record.encode(METADATA) == (KEY, VALUE_1)


def test_an_empty_transaction_has_null_partitions():
    empty = TransactionMetadata(
        transactional_id="pay-ü",
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        timeout_ms=1000,
        state=TransactionState.EMPTY,
        last_update_ms=5,
    )

    assert record.encode(empty) == (KEY, VALUE_EMPTY)
    assert record.decode(KEY, VALUE_EMPTY) == ("pay-ü", empty)


def test_version_1_is_read():
    assert record.decode(KEY, VALUE_1) == ("pay-ü", METADATA)


def test_version_0_is_read():
    _, metadata = record.decode(KEY, VALUE_0)

    assert metadata == replace(
        METADATA,
        previous_producer_id=ProducerId(-1),
        next_producer_id=ProducerId(-1),
        client_version=0,
    )


def test_a_tag_of_a_newer_broker_is_skipped():
    assert record.decode(KEY, VALUE_1_WITH_A_NEWER_TAG) == ("pay-ü", METADATA)


def test_a_tombstone_names_only_the_id():
    assert record.decode(*record.tombstone("pay-ü")) == ("pay-ü", None)


def test_a_key_of_another_kind_is_skipped():
    assert record.decode(b"\x00\x09whatever", b"") is None


def test_the_newest_record_of_an_id_counts():
    newer = replace(METADATA, producer_epoch=ProducerEpoch(8))

    assert record.replay([record.encode(METADATA), record.encode(newer)]) == {"pay-ü": newer}


def test_a_tombstone_removes_the_id():
    assert record.replay([record.encode(METADATA), record.tombstone("pay-ü")]) == {}


@pytest.mark.parametrize("size", range(len(VALUE_1)))
def test_a_value_cut_short_is_damage(size):
    with pytest.raises(CorruptLog):
        record.decode(KEY, VALUE_1[:size])


def test_an_unknown_version_says_what_can_be_read():
    with pytest.raises(CorruptLog, match="version 7: this broker reads 0 and 1"):
        record.decode(KEY, b"\x00\x07")


def test_a_huge_count_is_refused_before_anything_is_allocated():
    damaged = VALUE_EMPTY[:17] + b"\xff\xff\xff\xff\x0f" + VALUE_EMPTY[18:]

    with pytest.raises(CorruptLog, match="bytes are announced"):
        record.decode(KEY, damaged)


def test_a_length_has_at_most_five_bytes():
    damaged = VALUE_EMPTY[:17] + b"\xff\xff\xff\xff\xff\x0f" + VALUE_EMPTY[18:]

    with pytest.raises(CorruptLog, match="more than five bytes"):
        record.decode(KEY, damaged)


@pytest.mark.parametrize(
    ("size", "length"),
    [(126, b"\x7f"), (127, b"\x80\x01"), (249, b"\xfa\x01"), (20_000, b"\xa1\x9c\x01")],
)
def test_long_names_are_written_as_kafka_does(size, length):
    topic = "t" * size
    metadata = replace(METADATA, partitions=frozenset({TopicPartition(topic, 5)}))

    key, value = record.encode(metadata)

    assert b"\x02" + length + topic.encode() in value
    assert record.decode(key, value) == ("pay-ü", metadata)


def test_many_partitions_are_read():
    partitions = frozenset(TopicPartition("orders", number) for number in range(300))
    metadata = replace(METADATA, partitions=partitions)

    assert record.decode(*record.encode(metadata)) == ("pay-ü", metadata)


def test_a_topic_without_partitions_is_no_damage():
    null = VALUE_EMPTY[:17] + b"\x02\x02t\x00\x00" + VALUE_EMPTY[18:]

    _, metadata = record.decode(KEY, null)

    assert metadata.partitions == frozenset()


def test_an_empty_tag_of_a_newer_broker_is_skipped():
    _, metadata = record.decode(KEY, VALUE_EMPTY[:-1] + b"\x01\x09\x00")

    assert metadata.producer_id == 1


@pytest.mark.parametrize(
    "state", [TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_the_end_of_a_transaction_is_read(state):
    metadata = replace(METADATA, state=state)

    assert record.decode(*record.encode(metadata)) == ("pay-ü", metadata)


@pytest.mark.parametrize("number", [6, 7, 99])
def test_a_state_that_is_never_written_is_damage(number):
    damaged = VALUE_EMPTY[:16] + bytes([number]) + VALUE_EMPTY[17:]

    with pytest.raises(CorruptLog, match=f"state {number}"):
        record.decode(KEY, damaged)


@pytest.mark.parametrize("key", [b"\0\0\xff\xff", b"\0\0\0\2\xff\xff", b"\0\0\0\3ab", b"\0"])
def test_a_key_that_names_no_id_is_damage(key):
    with pytest.raises(CorruptLog):
        record.decode(key, None)


def test_replay_steps_over_records_of_another_kind():
    records = [(b"\x00\x09whatever", b""), record.encode(METADATA)]

    assert record.replay(records) == {"pay-ü": METADATA}
