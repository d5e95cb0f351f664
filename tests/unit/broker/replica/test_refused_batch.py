"""What is said to batches that were sent behind one that was refused for now."""

from collections.abc import Callable

import pytest

from headrace.broker.replica.refused_batch import NumberedBatch, RefusedBatches
from headrace.log.producer.producer_state import ProducerState
from headrace.wire.error_code import ErrorCode
from testkit.sample.batch import sample_batch

FULL = ErrorCode.kafka_storage_error


def batch(sequence: int, *, epoch: int = 0, producer_id: int = 7) -> NumberedBatch:
    return NumberedBatch("t", 0, producer_id, epoch, sequence)


def log(*sequences: int, epoch: int = 0) -> Callable[[int, int, int], bool]:
    """Return what a log with these batches of one record awaits."""
    producers = ProducerState()
    for offset, sequence in enumerate(sequences):
        producers.append(7, epoch, sequence, sequence, offset, offset, 0)
    return producers.awaits


def test_a_batch_behind_a_refused_one_is_refused_for_the_same_reason() -> None:
    refused = RefusedBatches()
    refused.note(batch(5), FULL)

    assert refused.take_reason(batch(6), log(4)) == FULL


def test_the_refused_batch_itself_and_those_before_it_may_come_again() -> None:
    refused = RefusedBatches()
    refused.note(batch(5), FULL)

    assert refused.take_reason(batch(5), log(4)) is None
    assert refused.take_reason(batch(4), log(4)) is None


def test_nothing_is_behind_a_batch_that_is_in_the_log_by_now() -> None:
    refused = RefusedBatches()
    refused.note(batch(5), FULL)

    assert refused.take_reason(batch(7), log(4, 5)) is None


def test_a_producer_that_is_not_known_begins_with_the_batch_that_was_refused() -> None:
    refused = RefusedBatches()
    refused.note(batch(0), FULL)

    assert refused.take_reason(batch(1), log()) == FULL


def test_a_refusal_counts_for_what_can_be_under_way_and_not_for_ever() -> None:
    refused = RefusedBatches()
    refused.note(batch(5), FULL)

    answers = [refused.take_reason(batch(sequence), log(4)) for sequence in (6, 7, 8, 9, 10)]

    assert answers == [FULL, FULL, FULL, FULL, None]
    assert len(refused) == 0


def test_a_later_refusal_counts_also_when_an_earlier_one_is_settled() -> None:
    refused = RefusedBatches()
    refused.note(batch(5), FULL)
    refused.note(batch(9), ErrorCode.not_leader_or_follower)

    assert refused.take_reason(batch(10), log(8)) == ErrorCode.not_leader_or_follower


def test_another_epoch_begins_anew() -> None:
    refused = RefusedBatches()
    refused.note(batch(5), FULL)
    assert refused.take_reason(batch(6, epoch=1), log(4)) is None

    refused.note(batch(0, epoch=1), FULL)

    assert refused.take_reason(batch(1, epoch=1), log(4)) == FULL
    assert refused.take_reason(batch(6), log(4)) is None


def test_a_fenced_producer_is_told_so() -> None:
    refused = RefusedBatches()
    refused.note(batch(5), FULL)

    assert refused.take_reason(batch(6), log(0, epoch=1)) is None


def test_sequences_wrap() -> None:
    refused = RefusedBatches()
    refused.note(batch(2**31 - 1), FULL)

    assert refused.take_reason(batch(0), log(2**31 - 2)) == FULL
    assert refused.take_reason(batch(1), log(2**31 - 1)) is None


@pytest.mark.parametrize(
    "code", [ErrorCode.message_too_large, ErrorCode.out_of_order_sequence_number]
)
def test_a_batch_that_will_not_be_sent_again_holds_up_none(code: ErrorCode) -> None:
    refused = RefusedBatches()
    refused.note(batch(5), code)

    assert refused.take_reason(batch(6), log(4)) is None


def test_the_refusals_of_the_last_producers_are_remembered() -> None:
    refused = RefusedBatches(most_producers=2)
    for producer_id in (1, 2, 3):
        refused.note(batch(0, producer_id=producer_id), FULL)

    behind = [refused.take_reason(batch(1, producer_id=each), log()) for each in (1, 2, 3)]

    assert behind == [None, FULL, FULL]


def test_a_batch_without_a_producer_has_no_number() -> None:
    assert NumberedBatch.of("t", 0, None) is None
    assert NumberedBatch.of("t", 0, memoryview(b"short")) is None
    assert NumberedBatch.of("t", 0, memoryview(sample_batch(b"v"))) is None
    numbered = sample_batch(b"v", producer_id=7, producer_epoch=0, sequence=5)
    assert NumberedBatch.of("t", 0, memoryview(numbered)) == batch(5)


def test_what_is_in_the_log_by_now_is_forgotten() -> None:
    refused = RefusedBatches()
    refused.note(batch(5), FULL)
    assert refused.take_reason(batch(6), log(4, 5)) is None

    assert len(refused) == 0
    assert refused.take_reason(batch(9), log()) is None


def test_a_late_batch_of_an_earlier_epoch_takes_no_place() -> None:
    refused = RefusedBatches()
    refused.note(batch(5, epoch=1), FULL)
    refused.note(batch(9), FULL)

    assert refused.take_reason(batch(6, epoch=1), log(4, epoch=1)) == FULL


def test_a_topic_that_a_broker_has_not_heard_of_yet_is_a_reason_as_well() -> None:
    refused = RefusedBatches()
    refused.note(batch(0), ErrorCode.unknown_topic_id)

    assert refused.take_reason(batch(1), log()) == ErrorCode.unknown_topic_id
    assert refused.take_reason(batch(0), log()) is None


def test_topics_that_nobody_knows_take_no_place_of_others() -> None:
    refused = RefusedBatches(most_producers=2, most_unknown=2)
    refused.note(batch(5), FULL)
    for producer_id in range(100, 110):
        refused.note(batch(0, producer_id=producer_id), ErrorCode.unknown_topic_or_partition)

    assert len(refused) == 3
    assert refused.take_reason(batch(6), log(4)) == FULL


def test_of_two_reasons_one_is_said_until_both_batches_are_there() -> None:
    refused = RefusedBatches()
    refused.note(batch(0), ErrorCode.unknown_topic_id)
    refused.note(batch(1), FULL)

    assert refused.take_reason(batch(1), log()) == ErrorCode.unknown_topic_id
    assert refused.take_reason(batch(2), log(0)) == FULL
    assert refused.take_reason(batch(2), log(0, 1)) is None


def test_names_too_long_for_a_topic_are_not_remembered() -> None:
    records = memoryview(sample_batch(b"v", producer_id=7, producer_epoch=0, sequence=5))

    assert NumberedBatch.of("t" * 249, 0, records) is not None
    assert NumberedBatch.of("t" * 250, 0, records) is None
