"""The queue of records: order, retries, divided batches, epochs."""

from headrace.client.error import BrokerError, ConnectionLost
from headrace.client.write.batch_writer import WrittenBatch
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity
from headrace.gateway.rest.produce.produce_queue import (
    PAUSE_SECONDS,
    RETRY_SECONDS,
    Delivery,
    ProduceQueue,
    QueuedRecords,
)
from headrace.gateway.rest.produce.record import Placed, Record
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.wire.error_code import ErrorCode

WHERE = TopicPartition("t", 0)
LOST = ConnectionLost("gone")
TOO_LARGE = BrokerError(ErrorCode.message_too_large)


def made(identity: ProducerIdentity = ProducerIdentity(9, 0)) -> ProduceQueue:  # noqa: B008
    queue = ProduceQueue()
    queue.identify(identity)
    return queue


def put(queue: ProduceQueue, *values: bytes) -> Delivery:
    delivery = Delivery(len(values))
    records = [Record(None, each) for each in values]
    queue.add(WHERE, QueuedRecords.of(records, range(len(values)), delivery))
    return delivery


def values(batch: memoryview) -> list[bytes]:
    found: list[bytes] = decode(batch).columns.column("value").to_pylist()
    return found


def test_puts_while_a_batch_is_on_its_way_go_into_the_next_one() -> None:
    queue = made()
    first = put(queue, b"a")
    [sending] = queue.take([WHERE], 0.0, 1000)
    second, third = put(queue, b"b"), put(queue, b"c", b"d")

    assert queue.take([WHERE], 0.0, 1000) == []
    assert queue.finish(sending, WrittenBatch(5, -1), 0.0) == [first]
    assert list(first.outcomes) == [Placed(0, 5, 1000)]
    [following] = queue.take([WHERE], 0.0, 1001)
    assert values(following.encoded()) == [b"b", b"c", b"d"]
    assert queue.finish(following, WrittenBatch(6, 777), 0.0) == [second, third]
    assert list(third.outcomes) == [Placed(0, 7, 777), Placed(0, 8, 777)]
    assert queue.busy() == []


def test_a_failed_batch_is_sent_again_as_it_is_after_a_pause() -> None:
    queue = made()
    put(queue, b"a")
    [sending] = queue.take([WHERE], 0.0, 1000)
    before = bytes(sending.encoded())

    assert queue.finish(sending, LOST, 0.0) == []
    assert queue.take([WHERE], 0.0, 2000) == []
    assert queue.seconds_to_wait([WHERE], 0.0) == PAUSE_SECONDS
    [again] = queue.take([WHERE], PAUSE_SECONDS, 2000)
    assert bytes(again.encoded()) == before


def test_what_waits_behind_a_batch_that_is_given_up_fails_and_the_next_epoch_begins() -> None:
    queue = made()
    first = put(queue, b"a")
    [sending] = queue.take([WHERE], 0.0, 1000)
    second = put(queue, b"b")

    assert queue.finish(sending, LOST, RETRY_SECONDS) == [first, second]
    assert list(second.outcomes) == [LOST]
    put(queue, b"c")
    [following] = queue.take([WHERE], 30.0, 1000)
    batch = decode(following.encoded()).columns
    assert batch.column("producer_epoch").to_pylist() == [1]
    assert following.place.sequence == 0


def test_sequences_go_on_within_a_partition() -> None:
    queue = made()
    put(queue, b"a", b"b")
    [first] = queue.take([WHERE], 0.0, 0)
    queue.finish(first, WrittenBatch(0, -1), 0.0)
    put(queue, b"c")
    [second] = queue.take([WHERE], 0.0, 0)

    assert (first.place.sequence, second.place.sequence) == (0, 2)


def test_a_batch_that_is_too_large_is_divided_and_one_record_fails_alone() -> None:
    queue = made()
    delivery = put(queue, b"x" * 300, b"y" * 300, b"z" * 5000)
    limit = 1000
    for _ in range(20):
        taken = queue.take([WHERE], 0.0, 0)
        if not taken:
            break
        size = len(taken[0].encoded())
        queue.finish(taken[0], TOO_LARGE if size > limit else WrittenBatch(7, -1), 0.0)

    assert delivery.left == 0
    assert [isinstance(each, Placed) for each in delivery.outcomes] == [True, True, False]


def test_nothing_is_handed_out_before_there_is_a_producer_id() -> None:
    queue = ProduceQueue()
    put(queue, b"a")

    assert queue.needs_identity
    assert queue.take([WHERE], 0.0, 0) == []
    queue.identify(NO_IDENTITY)
    assert len(queue.take([WHERE], 0.0, 0)) == 1


def test_giving_up_everything_finishes_every_put() -> None:
    queue = made()
    first = put(queue, b"a")
    [sending] = queue.take([WHERE], 0.0, 0)
    second = put(queue, b"b")

    assert queue.fail_all(LOST) == [first, second]
    assert queue.finish(sending, WrittenBatch(0, -1), 0.0) == []
    assert queue.needs_identity


def test_a_put_that_is_larger_than_a_batch_is_divided_and_answered_as_a_whole() -> None:
    queue = made()
    contents = [bytes([at]) * 400_000 for at in range(5)]
    delivery = put(queue, *contents)
    written: list[bytes] = []
    finished: list[Delivery] = []
    while taken := queue.take([WHERE], 0.0, 1000):
        [sending] = taken
        assert not finished
        finished = queue.finish(sending, WrittenBatch(len(written), -1), 0.0)
        written += values(sending.encoded())

    assert written == contents
    assert finished == [delivery]
    assert list(delivery.outcomes) == [Placed(0, at, 1000) for at in range(5)]
    assert queue.busy() == []


def test_records_with_times_and_headers_share_a_batch_with_plain_ones() -> None:
    queue = made()
    plain = put(queue, b"a")
    delivery = Delivery(1)
    record = Record(b"k", b"b", (("h", b"1"),), timestamp_ms=7)
    queue.add(WHERE, QueuedRecords.of([record], [0], delivery))
    [sending] = queue.take([WHERE], 0.0, 1000)

    columns = decode(sending.encoded()).columns
    assert columns.column("value").to_pylist() == [b"a", b"b"]
    assert [len(each or ()) for each in columns.column("headers").to_pylist()] == [0, 1]
    assert queue.finish(sending, WrittenBatch(3, -1), 0.0) == [plain, delivery]
    assert list(plain.outcomes) == [Placed(0, 3, 1000)]
    assert list(delivery.outcomes) == [Placed(0, 4, 7)]


def test_a_round_is_bounded_with_its_retries_and_every_partition_has_its_turn() -> None:
    queue = made()
    where = [TopicPartition("t", index) for index in range(5)]
    for _ in range(4):
        for name in where:
            rows = QueuedRecords.of([Record(None, bytes(800_000))], [0], Delivery(1))
            queue.add(name, rows)
    turns: dict[TopicPartition, int] = dict.fromkeys(where, 0)
    for round_number in range(10):
        taken = queue.take(queue.busy(), float(round_number), 0, most_bytes=2 << 20)
        assert len(taken) == 2
        assert sum(each.size_bytes for each in taken) <= 2 << 20
        for each in taken:
            turns[each.partition] += 1
            outcome = LOST if round_number < 5 else WrittenBatch(0, -1)
            queue.finish(each, outcome, float(round_number))
    assert set(turns.values()) == {4}


def test_a_record_larger_than_a_round_has_one_of_its_own() -> None:
    queue = made()
    other = TopicPartition("t", 1)
    put(queue, b"small")
    queue.add(other, QueuedRecords.of([Record(None, bytes(3 << 20))], [0], Delivery(1)))
    for expected in (WHERE, other):
        [taken] = queue.take(queue.busy(), 0.0, 0, most_bytes=2 << 20)
        assert taken.partition == expected
        queue.finish(taken, WrittenBatch(0, -1), 0.0)
    assert queue.busy() == []
