"""Puts of many requests become batches; a failure delays its own partition only."""

import pytest

from headrace.client.error import BrokerError, ClientError, ConnectionLost
from headrace.client.write.batch_writer import WrittenBatch
from headrace.client.write.producer_id import LAST_EPOCH, NO_IDENTITY, ProducerIdentity
from headrace.gateway.kinesis.record.permit import PermitEnded
from headrace.gateway.kinesis.record.put_queue import PAUSE_SECONDS, RETRY_SECONDS, PutQueue
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


def begins(batch: memoryview) -> tuple[int, int, int]:
    """Return the producer id, the epoch and the first sequence of a batch."""
    return (
        int.from_bytes(batch[43:51], "big", signed=True),
        int.from_bytes(batch[51:53], "big"),
        int.from_bytes(batch[53:57], "big"),
    )


def test_a_refusal_fails_what_waits_behind_it_and_no_other_partition_notices() -> None:
    puts = queue()
    puts.add(OTHER, [Row(b"k", b"before")])
    futures = puts.add(ONE, [Row(b"k", b"a")])
    puts.take(0.0, NOW_MS)
    puts.finish(OTHER, WrittenBatch(0, -1), 0.0)
    futures += puts.add(ONE, [Row(b"k", b"behind")])
    other = puts.add(OTHER, [Row(b"k", b"b")])

    puts.finish(ONE, BrokerError(ErrorCode.topic_authorization_failed), 0.1)
    puts.add(ONE, [Row(b"k", b"next")])

    assert all(isinstance(each.exception(0), ClientError) for each in futures)
    assert not puts.needs_identity
    batches = puts.take(0.1, NOW_MS)
    assert begins(batches[OTHER]) == (7, 0, 1) and not other[0].done()
    assert begins(batches[ONE]) == (7, 1, 0), "a late copy of what was refused is fenced"


def test_a_new_producer_id_follows_the_last_epoch() -> None:
    puts = PutQueue()
    puts.identify(ProducerIdentity(7, LAST_EPOCH))
    puts.add(ONE, [Row(b"k", b"a")])
    puts.take(0.0, NOW_MS)

    puts.finish(ONE, BrokerError(ErrorCode.topic_authorization_failed), 0.1)

    assert puts.needs_identity
    puts.identify(ProducerIdentity(8, 0))
    puts.add(ONE, [Row(b"k", b"b")])
    assert begins(puts.take(0.2, NOW_MS)[ONE]) == (8, 0, 0)


def written(puts: PutQueue, most_bytes: int, now: float = 0.0) -> tuple[list[bytes], int]:
    """Play a topic that takes batches up to a size; return its values and how many it refused."""
    log: list[bytes] = []
    refused = 0
    while not puts.is_empty:
        for partition, batch in puts.take(now, NOW_MS).items():
            if len(batch) > most_bytes:
                refused += 1
                puts.finish(partition, BrokerError(ErrorCode.message_too_large), now)
            else:
                puts.finish(partition, WrittenBatch(len(log) * 10, -1), now)
                log += values(batch)
    return log, refused


def test_a_batch_that_is_too_large_for_its_topic_is_divided() -> None:
    puts = queue()
    rows = [Row(b"k", bytes([at]) * 30_000) for at in range(20)]
    futures = puts.add(ONE, rows)

    log, refused = written(puts, 100_000)

    assert log == [row.value for row in rows]
    assert 1 <= refused <= 5
    assert len(set(futures)) == 1
    offsets = [each.result(0).place(at)[0] for at, each in enumerate(futures)]
    # `written` leaves gaps between batches: each row has a place in its own one.
    assert offsets == sorted(set(offsets)) and offsets[0] == 0 and offsets[-1] > 19
    puts.add(ONE, rows)
    assert written(puts, 100_000) == (log, 0), "the limit was learned"
    puts.add(ONE, rows)
    assert len(puts.take(61.0, NOW_MS)[ONE]) > 500_000, "and forgotten: it may have been raised"


def test_a_limit_that_is_known_is_kept_from_the_start() -> None:
    puts = queue()
    rows = [Row(b"k", bytes([at]) * 30_000, "17") for at in range(20)]
    puts.add(ONE, rows, 100_000)

    assert written(puts, 100_000) == ([row.value for row in rows], 0)


def test_a_row_that_is_too_large_by_itself_fails_alone() -> None:
    puts = queue()
    large = Row(b"k", bytes(150_000))
    futures = puts.add(ONE, [Row(b"k", b"before"), large, Row(b"k", b"after")])
    futures += puts.add(ONE, [Row(b"k", b"behind")])

    log, _ = written(puts, 100_000)

    assert log == [b"before", b"after", b"behind"]
    with pytest.raises(BrokerError, match=r"max\.message\.bytes"):
        futures[1].result(0).place(1)
    assert [futures[0].result(0).place(0)[0], futures[3].result(0).place(0)[0]] == [0, 11]
    alone = puts.add(ONE, [large])
    written(puts, 100_000)
    assert isinstance(alone[0].exception(0), BrokerError)


@pytest.mark.parametrize("key", [None, b"", b"k" * 100])
@pytest.mark.parametrize("explicit", [None, "0", "340282366920938463463374607431768211455"])
@pytest.mark.parametrize("size", [0, 63, 64, 8_000, 70_000])
def test_the_size_of_a_row_is_known_before_it_is_encoded(
    key: bytes | None, explicit: str | None, size: int
) -> None:
    puts = queue()
    row = Row(key, bytes(size), explicit)
    puts.add(ONE, [row])

    size_bytes = len(puts.take(0.0, NOW_MS)[ONE])

    assert size_bytes == row.batch_bytes <= row.size_bytes + 64


class Permission:
    """A permit that a test gives and ends."""

    def __init__(self) -> None:
        self.answer: bool | None = None

    def __call__(self) -> bool | None:
        return self.answer


def test_rows_wait_for_their_permit_and_fail_when_it_ends_before_they_are_sent() -> None:
    puts, permit = queue(), Permission()
    free = puts.add(OTHER, [Row(b"k", b"free")])
    [held] = puts.add(ONE, [Row(b"k", b"plain")], permit=permit)
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
    puts.add(ONE, [Row(b"k", b"a")], permit=one)
    puts.add(ONE, [Row(b"k", b"b")], permit=other)

    assert values(puts.take(0.0, NOW_MS)[ONE]) == [b"a"]
    assert puts.may_leave(ONE)
    puts.finish(ONE, WrittenBatch(0, -1), 0.0)
    assert puts.take(0.0, NOW_MS) == {}


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_batch_is_not_sent_again_after_its_permit_has_ended(is_sent: bool) -> None:
    puts, permit = queue(), Permission()
    permit.answer = True
    [future] = puts.add(ONE, [Row(b"k", b"plain")], permit=permit)
    puts.take(0.0, NOW_MS)
    permit.answer = True if is_sent else None
    assert puts.may_leave(ONE) is is_sent
    puts.finish(ONE, ConnectionLost("cut"), 0.0)
    [behind] = puts.add(ONE, [Row(b"k", b"encrypted")])

    permit.answer = None
    assert puts.take(1.0, NOW_MS) == {}
    permit.answer = False
    following = puts.take(2.0, NOW_MS)[ONE]

    assert isinstance(future.exception(0), ClientError)
    assert isinstance(future.exception(0), PermitEnded) is not is_sent
    assert values(following) == [b"encrypted"] and not behind.done()
    assert begins(following) == (7, 1, 0), "the sequence of the batch is spent"


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
