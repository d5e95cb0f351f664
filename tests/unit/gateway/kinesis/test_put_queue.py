"""Puts of many requests become batches; a failure delays its own partition only."""

import pytest

from headrace.client.error import BrokerError, ClientError, ConnectionLost
from headrace.client.write.batch_writer import WrittenBatch
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity
from headrace.gateway.kinesis.record.put_queue import (
    PAUSE_SECONDS,
    RETRY_SECONDS,
    PermitEnded,
    PutQueue,
)
from headrace.gateway.kinesis.record.row import Row, ShardLog
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.wire.error_code import ErrorCode

ONE, OTHER = ShardLog(TopicPartition("s", 0)), ShardLog(TopicPartition("s", 1))
NOW_MS = 1_700_000_000_000


def queue() -> PutQueue:
    made = PutQueue()
    made.identify(ProducerIdentity(7, 0))
    return made


def values(batch: memoryview) -> list[bytes]:
    found: list[bytes] = decode(batch).columns.column("value").to_pylist()
    return found


def test_puts_that_waited_share_a_batch_and_each_learns_its_place() -> None:
    puts = queue()
    first = puts.add(ONE, [Row(b"k", b"a"), Row(b"k", b"b")])
    second = puts.add(ONE, [Row(b"k", b"c", "17")])

    batches = puts.take(0.0, NOW_MS)
    puts.finish(ONE, WrittenBatch(40, NOW_MS + 5), 0.1)

    assert values(batches[ONE]) == [b"a", b"b", b"c"]
    assert first[0] is first[1]
    assert first[0].result(0).base_offset == 40
    assert (second[0].result(0).base_offset, second[0].result(0).time_ms) == (42, NOW_MS + 5)
    assert puts.is_empty


def test_a_batch_that_failed_is_sent_again_byte_for_byte_and_delays_its_partition_only() -> None:
    puts = queue()
    futures = puts.add(ONE, [Row(b"k", b"a")])
    sent = bytes(puts.take(0.0, NOW_MS)[ONE])
    puts.finish(ONE, ConnectionLost("cut"), 1.0)
    puts.add(ONE, [Row(b"k", b"later")])
    puts.add(OTHER, [Row(b"k", b"b")])

    assert list(puts.take(1.0, NOW_MS)) == [OTHER]
    puts.finish(OTHER, WrittenBatch(0, -1), 1.0)
    assert puts.seconds_to_wait(1.0) == pytest.approx(PAUSE_SECONDS)
    again = puts.take(1.0 + PAUSE_SECONDS, NOW_MS + 100)
    assert {partition: bytes(batch) for partition, batch in again.items()} == {ONE: sent}
    puts.finish(ONE, WrittenBatch(5, -1), 1.2)
    assert futures[0].result(0).time_ms == NOW_MS, "the time that is in the batch"
    assert values(puts.take(1.2, NOW_MS)[ONE]) == [b"later"]


def test_a_refusal_fails_what_waits_behind_it_and_asks_for_a_new_identity() -> None:
    puts = queue()
    futures = puts.add(ONE, [Row(b"k", b"a")])
    puts.take(0.0, NOW_MS)
    futures += puts.add(ONE, [Row(b"k", b"behind")])
    other = puts.add(OTHER, [Row(b"k", b"b")])

    puts.finish(ONE, BrokerError(ErrorCode.topic_authorization_failed), 0.1)

    assert all(isinstance(each.exception(0), ClientError) for each in futures)
    assert puts.needs_identity
    puts.identify(ProducerIdentity(8, 0))
    assert values(puts.take(0.1, NOW_MS)[OTHER]) == [b"b"]
    assert not other[0].done()


class Permission:
    """A permit that a test gives and ends."""

    def __init__(self) -> None:
        self.answer: bool | None = None

    def __call__(self) -> bool | None:
        return self.answer


def test_rows_wait_for_their_permit_and_fail_when_it_ends_before_they_are_sent() -> None:
    puts, permit = queue(), Permission()
    free = puts.add(OTHER, [Row(b"k", b"free")])
    [held] = puts.add(ONE, [Row(b"k", b"plain")], permit)
    [behind] = puts.add(ONE, [Row(b"k", b"encrypted")])

    assert list(puts.take(0.0, NOW_MS)) == [OTHER]
    assert puts.seconds_to_wait(0.0) is not None, "it is looked at again"
    puts.finish(OTHER, WrittenBatch(0, -1), 0.0)
    permit.answer = False
    assert values(puts.take(0.0, NOW_MS)[ONE]) == [b"encrypted"]

    assert isinstance(held.exception(0), PermitEnded)
    assert free[0].done() and not behind.done()


def test_a_permit_that_is_given_lets_rows_go_and_holds_back_those_behind() -> None:
    puts, one, other = queue(), Permission(), Permission()
    one.answer = True
    puts.add(ONE, [Row(b"k", b"a")], one)
    puts.add(ONE, [Row(b"k", b"b")], other)

    assert values(puts.take(0.0, NOW_MS)[ONE]) == [b"a"]
    assert puts.may_leave(ONE)
    puts.finish(ONE, WrittenBatch(0, -1), 0.0)
    assert puts.take(0.0, NOW_MS) == {}


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_batch_is_not_sent_again_after_its_permit_has_ended(is_sent: bool) -> None:
    puts, permit = queue(), Permission()
    permit.answer = True
    [future] = puts.add(ONE, [Row(b"k", b"plain")], permit)
    puts.take(0.0, NOW_MS)
    permit.answer = True if is_sent else None
    assert puts.may_leave(ONE) is is_sent
    puts.finish(ONE, ConnectionLost("cut"), 0.0)
    [behind] = puts.add(ONE, [Row(b"k", b"encrypted")])

    permit.answer = None
    assert puts.take(1.0, NOW_MS) == {}
    permit.answer = False
    assert puts.take(2.0, NOW_MS) == {}

    assert isinstance(future.exception(0), ClientError)
    assert isinstance(future.exception(0), PermitEnded) is not is_sent
    assert puts.needs_identity and not behind.done(), "the sequence of the batch is spent"
    puts.identify(ProducerIdentity(8, 0))
    assert values(puts.take(2.0, NOW_MS)[ONE]) == [b"encrypted"]


def test_a_batch_is_given_up_in_time() -> None:
    puts = queue()
    futures = puts.add(ONE, [Row(b"k", b"a")])
    now = 0.0
    while not futures[0].done():
        puts.take(now, NOW_MS)
        puts.finish(ONE, BrokerError(ErrorCode.not_leader_or_follower), now)
        now += puts.seconds_to_wait(now) or 0.0

    assert RETRY_SECONDS <= now < RETRY_SECONDS + 1
    assert puts.is_empty and puts.seconds_to_wait(now) is None


def test_a_batch_stays_below_the_default_of_kafka_unless_a_record_is_larger() -> None:
    puts = queue()
    small = [Row(b"k", bytes(300_000)) for _ in range(5)]
    puts.add(ONE, [*small, Row(b"k", bytes(3_000_000))])

    sizes = []
    while not puts.is_empty:
        batch = puts.take(0.0, NOW_MS)[ONE]
        sizes.append(len(batch))
        puts.finish(ONE, WrittenBatch(0, -1), 0.0)

    assert sizes[-1] > 3_000_000
    assert len(sizes) == 4 and max(sizes[:-1]) < 1_000_000


def test_sequences_go_on_from_batch_to_batch() -> None:
    puts = queue()
    sequences = []
    for count in (2, 3, 1):
        puts.add(ONE, [Row(b"k", b"v")] * count)
        batch = puts.take(0.0, NOW_MS)[ONE]
        sequences.append(int.from_bytes(batch[53:57], "big"))
        puts.finish(ONE, WrittenBatch(0, -1), 0.0)

    assert sequences == [0, 2, 5]


def test_batches_of_several_leaders_come_back_in_any_order() -> None:
    puts = queue()
    first = puts.add(ONE, [Row(b"k", b"a")])
    assert list(puts.take(0.0, NOW_MS)) == [ONE]
    other = puts.add(OTHER, [Row(b"k", b"b")])
    puts.add(ONE, [Row(b"k", b"behind")])

    assert puts.waiting() == [OTHER]
    assert puts.take(0.0, NOW_MS, lambda log: log != OTHER) == {}, "its leader is busy"
    assert list(puts.take(0.0, NOW_MS)) == [OTHER]
    puts.finish(OTHER, WrittenBatch(3, -1), 0.0)

    assert other[0].result(0).base_offset == 3 and not first[0].done()
    puts.finish(ONE, WrittenBatch(9, -1), 0.0)
    assert values(puts.take(0.0, NOW_MS)[ONE]) == [b"behind"]


def test_brokers_without_producer_ids_get_batches_without_one() -> None:
    puts = PutQueue()
    assert puts.needs_identity
    puts.identify(NO_IDENTITY)

    puts.add(ONE, [Row(b"k", b"a")])

    assert not puts.needs_identity
    assert int.from_bytes(puts.take(0.0, NOW_MS)[ONE][43:51], "big", signed=True) == -1
