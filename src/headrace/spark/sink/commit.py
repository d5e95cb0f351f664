"""What the driver does when all tasks of a batch are done: one transaction that holds all of it.

The protocol, with what a crash at each point leaves, stands in
`docs/decisions/0009-exactly-once-sink.md`. In short:

1. Tasks hand over parcels. Nothing of them is in the target topics.
2. The driver takes the sink's transactional id over, which ends what an earlier commit left open.
3. It asks the ledger. A batch that is in there is done: it is being replayed.
4. It writes all parcels and the ledger's entry in one transaction, and commits that.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from headrace.client.error import ClientError, ProducerFenced
from headrace.client.network.pool import ConnectionPool
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.spark.sink.batch_transaction import BatchTransaction
from headrace.spark.sink.option import SinkOptions
from headrace.spark.sink.staging_topic import StagingTopic
from headrace.spark.sink.task_output import TaskOutput
from headrace.spark.sink.transaction_ledger import NO_BATCH, LastBatch, entries, last_batch


class SinkFenced(HeadraceError):
    """Another driver commits batches of the same sink."""


class BatchOutdated(HeadraceError):
    """Later batches than this one were committed, which Spark's replays never come behind."""


class BatchChanged(HeadraceError):
    """A batch was committed under this number, with another number of records."""


def commit_parcels(
    options: SinkOptions,
    parcels: Sequence[TaskOutput],
    *,
    sink_id: str,
    stage_topic: str,
    batch_id: int | None,
    only_last_is_replayed: bool = True,
) -> bool:
    """Make the rows of all parcels visible, all or none, and once only.

    Args:
        batch_id: what the ledger knows the batch by; None for a batch that is never replayed.
        only_last_is_replayed: batches come from a checkpoint, so one that lies before the last
            means that the checkpoint has been set back, and may hold other rows than it did; and
            the last one must have as many records as it had.

    Returns:
        Whether anything was written: False for a batch that is empty, or committed already.

    Raises:
        SinkFenced: the same sink is committing somewhere else.
        BatchOutdated, BatchChanged: see `only_last_is_replayed`. Nothing is written.
        ClientError: a broker refuses or cannot be reached. Unless that was the answer to the last
            request, nothing is visible; in any case the batch can be tried again.
    """
    topics = sorted({topic for parcel in parcels for topic in parcel.topics})
    if not topics:
        return False
    record_count = sum(parcel.record_count for parcel in parcels)
    with ConnectionPool(options.settings, pa.allocate_buffer) as pool:
        stage = StagingTopic(pool, stage_topic)
        try:
            with BatchTransaction(pool, sink_id, options.transaction_timeout_ms) as transaction:
                last = NO_BATCH if batch_id is None else last_batch(pool, sink_id, topics)
                written = batch_id is None or last.number < batch_id
                if written:
                    for target, data in _batches(parcels, stage):
                        transaction.write(target, data)
                    transaction.commit(sink_id, entries(topics, batch_id, record_count))
        except ProducerFenced as error:
            raise SinkFenced(
                f"another driver commits batches of {sink_id}: stop all but one of those that run "
                "with this checkpoint; or the batch took longer than "
                f"kafka.transaction.timeout.ms, which is {options.transaction_timeout_ms}"
            ) from error
        _tidy(stage, parcels)
    if batch_id is not None and only_last_is_replayed:
        _check_replay(sink_id, last, batch_id, record_count)
    return written


def _check_replay(sink_id: str, last: LastBatch, batch_id: int, record_count: int) -> None:
    """Spark replays the last batch only, and with the rows it had."""
    if batch_id < last.number:
        raise BatchOutdated(
            f"{sink_id} has committed batches up to {last.number}, and now gets batch {batch_id}: "
            "its checkpoint was set back. What it holds from here on would be lost or doubled: "
            "start with a new checkpoint, at the offsets to go on from"
        )
    if batch_id == last.number and last.record_count not in (None, record_count):
        raise BatchChanged(
            f"{sink_id} has committed batch {batch_id} with {last.record_count} records, and now "
            f"gets it with {record_count}: its checkpoint was set back, or its query does not give "
            "the same rows twice. Which of them are there already cannot be told: start with a new "
            "checkpoint, at the offsets to go on from"
        )


def discard_parcels(
    options: SinkOptions, parcels: Sequence[TaskOutput], *, stage_topic: str
) -> None:
    """Forget parcels of a batch that failed. Nothing of them was ever visible."""
    with ConnectionPool(options.settings) as pool:
        _tidy(StagingTopic(pool, stage_topic), parcels)


def delete_stage(options: SinkOptions, *, stage_topic: str) -> None:
    """Delete the staging topic of a sink that ends with its batch, if there ever was one."""
    with ConnectionPool(options.settings) as pool, suppress(ClientError):
        StagingTopic(pool, stage_topic).delete()


def _batches(
    parcels: Sequence[TaskOutput], stage: StagingTopic
) -> Iterator[tuple[TopicPartition, memoryview]]:
    for parcel in parcels:
        for carried in parcel.carried:
            yield carried.target, memoryview(bytearray(carried.data))
    staged = [each for parcel in parcels for each in parcel.staged]
    if staged:
        for target, batch in stage.read(staged):
            yield target, batch.data


def _tidy(stage: StagingTopic, parcels: Sequence[TaskOutput]) -> None:
    staged = [each for parcel in parcels for each in parcel.staged]
    if staged:
        with suppress(ClientError):
            stage.trim(staged)
