"""A queue sends in order, sends again in order, and gives every record one sequence."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from headrace.client.error import BrokerError, ConnectionLost
from headrace.client.settings import ClientSettings
from headrace.client.write.partition_queue import PartitionQueue, RetryDecision
from headrace.client.write.pending_batch import PendingBatch, SharedBuffer, pending_batches
from headrace.client.write.producer_id import LAST_EPOCH, NO_IDENTITY, ProducerIdentity
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch
from headrace.records.encode import encode
from headrace.wire.error_code import ErrorCode

SETTINGS = ClientSettings.of({"default.api.timeout.ms": "60000", "retry.backoff.ms": "100"})
ALICE = ProducerIdentity(7, 0)
MOVED = BrokerError(ErrorCode.not_leader_or_follower)
OUT_OF_ORDER = BrokerError(ErrorCode.out_of_order_sequence_number)


def batches(*sizes: int) -> list[PendingBatch]:
    rows = [pa.record_batch({"value": ["v"] * size}) for size in sizes]
    encoded = [encode(each, timestamp_ms=0).batches[0] for each in rows]
    return pending_batches(encoded, SharedBuffer(1, len(sizes)))


def queue_of(
    *sizes: int, identity: ProducerIdentity = ALICE, transactional: bool = False
) -> PartitionQueue:
    queue = PartitionQueue(
        TopicPartition("clicks", 0), SETTINGS, identity, transactional=transactional
    )
    for batch in batches(*sizes):
        queue.push(batch)
    return queue


def heads(sent: Sequence[PendingBatch]) -> list[tuple[int, int]]:
    """Epoch and sequence of each, as a broker reads them."""
    for batch in sent:
        Batch(batch.data).validate(from_client=True)
    return [(Batch(each.data).producer_epoch, Batch(each.data).base_sequence) for each in sent]


def test_sequences_count_records() -> None:
    queue = queue_of(3, 1, 2)

    sent = [queue.next_batch() for _ in range(3)]

    assert heads(sent) == [(0, 0), (0, 3), (0, 4)]
    assert Batch(sent[0].data).producer_id == 7


def test_a_batch_without_identity_has_no_sequence() -> None:
    queue = queue_of(3, identity=NO_IDENTITY)

    assert heads([queue.next_batch()]) == [(-1, -1)]


def test_the_first_batch_of_an_identity_goes_alone() -> None:
    queue = queue_of(1, 1, 1)

    first = queue.next_batch()
    assert not queue.is_ready(0.0)
    queue.refuse(first, MOVED, 0.0)
    assert queue.next_batch() is first
    assert not queue.is_ready(1.0)
    queue.acknowledge(first, 0)
    queue.next_batch()

    assert queue.is_ready(1.0)


def test_without_an_identity_nothing_waits_for_the_first() -> None:
    queue = queue_of(1, 1, identity=NO_IDENTITY)

    queue.next_batch()

    assert queue.is_ready(0.0)


def test_failed_batches_are_sent_again_in_order_once_all_are_answered() -> None:
    queue = queue_of(1, 1, 1, 1)
    first, second, third = (queue.next_batch() for _ in range(3))

    assert queue.refuse(first, MOVED, 0.0) is RetryDecision.RETRY
    assert not queue.is_ready(1.0)
    assert queue.refuse(second, OUT_OF_ORDER, 0.0) is RetryDecision.RETRY
    assert queue.refuse(third, OUT_OF_ORDER, 0.0) is RetryDecision.RETRY

    assert queue.is_ready(1.0)
    sent = [queue.next_batch() for _ in range(4)]
    assert sent[:3] == [first, second, third]
    assert heads(sent) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert not queue.forgotten


def test_no_batch_goes_to_a_new_leader_before_the_old_one_has_answered() -> None:
    queue = queue_of(1, 1)
    first = queue.next_batch(node_id=1)

    assert queue.may_go_to(1)
    assert not queue.may_go_to(2)
    queue.refuse(first, MOVED, 0.0)

    assert queue.may_go_to(2)


def test_a_retried_batch_is_sent_alone() -> None:
    queue = queue_of(1, 1, 1)
    queue.acknowledge(queue.next_batch(), 0)
    second = queue.next_batch()
    queue.refuse(second, MOVED, 0.0)

    assert queue.next_batch() is second
    assert not queue.is_ready(1.0)
    queue.acknowledge(second, 1)

    assert queue.is_ready(1.0)


def test_a_queue_waits_before_it_retries_and_longer_each_time() -> None:
    queue = queue_of(1)
    queue.refuse(queue.next_batch(), MOVED, 10.0)
    assert queue.retry_at == pytest.approx(10.1)

    queue.refuse(queue.next_batch(), MOVED, 11.0)

    assert queue.retry_at == pytest.approx(11.2)
    assert not queue.is_ready(11.1)
    assert queue.is_ready(11.3)


def test_retries_end_a_minute_after_the_first_failure() -> None:
    queue = queue_of(1)
    lost = ConnectionLost("gone")
    assert queue.refuse(queue.next_batch(), lost, 0.0) is RetryDecision.RETRY
    assert queue.refuse(queue.next_batch(), lost, 59.0) is RetryDecision.RETRY

    assert queue.refuse(queue.next_batch(), lost, 61.0) is RetryDecision.FAILED


def test_a_success_restarts_the_time_limit() -> None:
    queue = queue_of(1, 1)
    queue.refuse(queue.next_batch(), MOVED, 0.0)
    queue.acknowledge(queue.next_batch(), 0)

    assert queue.refuse(queue.next_batch(), MOVED, 70.0) is RetryDecision.RETRY


def test_a_queue_that_the_broker_forgot_starts_over_with_the_next_epoch() -> None:
    queue = queue_of(2, 2, 2)
    queue.acknowledge(queue.next_batch(), 0)
    second, third = queue.next_batch(), queue.next_batch()

    forgot = BrokerError(ErrorCode.unknown_producer_id)
    assert queue.refuse(second, forgot, 0.0) is RetryDecision.RETRY
    assert queue.refuse(third, forgot, 0.0) is RetryDecision.RETRY
    assert queue.forgotten
    next_identity = ALICE.next
    assert next_identity is not None
    queue.start_over(next_identity)

    sent = [queue.next_batch(), queue.next_batch()]
    assert sent == [second, third]
    assert heads(sent) == [(1, 0), (1, 2)]


def test_a_transaction_does_not_survive_a_broker_that_forgot_it() -> None:
    queue = queue_of(1, transactional=True)

    assert queue.refuse(queue.next_batch(), OUT_OF_ORDER, 0.0) is RetryDecision.FAILED


def test_another_writer_of_the_transactional_id_fences_this_one() -> None:
    queue = queue_of(1, transactional=True)

    old = BrokerError(ErrorCode.invalid_producer_epoch)

    assert queue.refuse(queue.next_batch(), old, 0.0) is RetryDecision.FENCED


def test_a_batch_that_is_too_large_is_not_sent_again() -> None:
    queue = queue_of(1)

    refused = BrokerError(ErrorCode.message_too_large)

    assert queue.refuse(queue.next_batch(), refused, 0.0) is RetryDecision.FAILED


def test_the_queue_knows_which_offsets_were_acknowledged() -> None:
    queue = queue_of(3, 2)
    queue.acknowledge(queue.next_batch(), 40)

    queue.acknowledge(queue.next_batch(), 43)

    assert (
        queue.acknowledged.records,
        queue.acknowledged.first_offset,
        queue.acknowledged.last_offset,
    ) == (5, 40, 44)
    assert queue.is_empty


def test_a_duplicate_counts_without_an_offset() -> None:
    queue = queue_of(3)

    queue.acknowledge(queue.next_batch(), -1)

    assert queue.acknowledged.records == 3
    assert queue.acknowledged.last_offset == -1


def test_an_identity_ends_before_its_epochs_do() -> None:
    assert ProducerIdentity(7, LAST_EPOCH).next is None
    assert ProducerIdentity(7, LAST_EPOCH - 1).next == ProducerIdentity(7, LAST_EPOCH)


def test_a_buffer_is_free_when_the_last_batch_is_done() -> None:
    buffer = SharedBuffer(100, 2)

    assert [buffer.release(), buffer.release()] == [0, 100]
