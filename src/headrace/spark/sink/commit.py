"""Commits a batch on the driver when all its tasks are done, in one transaction.

`docs/decisions/0009-exactly-once-sink.md` has the protocol, and what a crash at each point leaves.
In short:

1. Tasks return outputs. Nothing of them is in the target topics.
2. The driver takes the sink's transactional id over, which ends what an earlier commit left open.
3. The driver reads the ledger. A batch that is in it is committed: Spark replays it.
4. The driver writes all outputs and the ledger's entry in one transaction, and commits that.

A process that commits batch after batch does 2 and 3 only for the first: it still has the id. Had
another driver taken it over since, the brokers would refuse the next transaction, whole; so while
they accept it, the ledger's last batch is the one that this process has committed last. When they
refuse, for whatever reason, the batch begins again at 2.
"""

import logging
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa

from headrace.client.error import BrokerError, ClientError, ProducerFenced, WriteFailed
from headrace.client.network.pool import ConnectionPool
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.spark.sink.batch_transaction import BatchTransaction
from headrace.spark.sink.kept_client import KeptClients
from headrace.spark.sink.option import SinkOptions
from headrace.spark.sink.staging_folder import read_staged
from headrace.spark.sink.staging_topic import StagingTopic
from headrace.spark.sink.task_output import TaskOutput
from headrace.spark.sink.transaction_ledger import NO_BATCH, LastBatch, entries, last_batch

_LOG: Final = logging.getLogger("headrace.spark")


class _TakenOver(NamedTuple):
    """A sink whose transactional id this process has.

    Attributes:
        last: the last batch in its ledger.
    """

    pool: ConnectionPool
    transaction: BatchTransaction
    last: LastBatch


TAKEN_OVER: Final[KeptClients[_TakenOver]] = KeptClients()
"""The sinks that this process commits for."""


class SinkFenced(HeadraceError):
    """Another driver commits batches of the same sink."""


class BatchOutdated(HeadraceError):
    """Later batches than this one are committed already. A replay by Spark never causes this."""


class BatchChanged(HeadraceError):
    """A batch with this number is committed already, with another number of records."""


def commit_outputs(
    options: SinkOptions,
    outputs: Sequence[TaskOutput],
    *,
    sink_id: str,
    staging_topic: str,
    batch_id: int | None,
    only_last_is_replayed: bool = True,
) -> bool:
    """Make the rows of all outputs visible: all of them or none, and only once.

    Args:
        batch_id: the batch's number in the ledger; None for a batch that is never replayed.
        only_last_is_replayed: the batches come from a checkpoint. A batch before the last one then
            means that the checkpoint was set back, and that the batch may hold other rows than
            before. The last batch must have as many records as it had, unless the options say
            that a replay may differ.

    Returns:
        Whether anything was written: False for a batch that is empty, or committed already.

    Raises:
        SinkFenced: another driver commits for the same sink.
        BatchOutdated, BatchChanged: see `only_last_is_replayed`. Nothing is written.
        StagingLost: the rows of a task are gone. Nothing is visible.
        ClientError: a broker refuses or cannot be reached. Nothing is visible, unless it was the
            response to the last request that was lost; in either case the batch can be retried.
    """
    if not any(output.topics for output in outputs):
        return False
    record_count = _record_count(outputs)
    if batch_id is not None and _commit_next(options, outputs, sink_id, staging_topic, batch_id):
        return True
    with ConnectionPool(options.settings, pa.allocate_buffer) as pool:
        staging = StagingTopic(pool, staging_topic)
        try:
            with BatchTransaction(pool, sink_id, options.transaction_timeout_ms) as transaction:
                last = NO_BATCH if batch_id is None else last_batch(pool, sink_id)
                written = batch_id is None or last.number < batch_id
                if written:
                    _write(transaction, outputs, staging, sink_id, batch_id)
        except ProducerFenced as error:
            raise SinkFenced(
                f"another driver commits batches of {sink_id}: stop all but one of those that run "
                "with this checkpoint; or the batch took longer than "
                f"kafka.transaction.timeout.ms, which is {options.transaction_timeout_ms}"
            ) from error
        _trim(staging, outputs)
    if batch_id is not None:
        newest = LastBatch(batch_id, record_count) if written else last
        TAKEN_OVER.keep(_key(options, sink_id), _TakenOver(pool, transaction, newest))
    if batch_id is not None and only_last_is_replayed:
        _check_order(sink_id, last, batch_id)
        if batch_id == last.number and last.record_count not in (None, record_count):
            _report_change(sink_id, last, record_count, fail=not options.replay_may_differ)
    return written


def _commit_next(
    options: SinkOptions,
    outputs: Sequence[TaskOutput],
    sink_id: str,
    staging_topic: str,
    batch_id: int,
) -> bool:
    """Commit a batch after the last one that this process has committed for the sink.

    Returns:
        False if the brokers refuse, or if this is no next batch: nothing is visible of it then, or
        the ledger has it.
    """
    kept = TAKEN_OVER.take(_key(options, sink_id))
    if kept is None or kept.last.number >= batch_id:
        return False
    with kept.pool:
        staging = StagingTopic(kept.pool, staging_topic)
        try:
            kept.transaction.begin()
            with kept.transaction:
                _write(kept.transaction, outputs, staging, sink_id, batch_id)
        except (ProducerFenced, BrokerError, WriteFailed) as error:
            _LOG.info("sink_taken_over_again sink=%s reason=%r", sink_id, str(error))
            return False
        _trim(staging, outputs)
    newest = LastBatch(batch_id, _record_count(outputs))
    TAKEN_OVER.keep(_key(options, sink_id), kept._replace(last=newest))
    return True


def _write(
    transaction: BatchTransaction,
    outputs: Sequence[TaskOutput],
    staging: StagingTopic,
    sink_id: str,
    batch_id: int | None,
) -> None:
    """Write a batch and its entry in the ledger, and commit both."""
    for target, data in _batches(outputs, staging):
        transaction.write(target, data)
    topics = {topic for output in outputs for topic in output.topics}
    transaction.commit(sink_id, entries(sorted(topics), batch_id, _record_count(outputs)))


def _record_count(outputs: Sequence[TaskOutput]) -> int:
    return sum(output.record_count for output in outputs)


def _key(options: SinkOptions, sink_id: str) -> Hashable:
    client = frozenset(options.client.items())
    return sink_id, client, options.transaction_timeout_ms


def _check_order(sink_id: str, last: LastBatch, batch_id: int) -> None:
    """Check that a batch is new, or is the last one."""
    if batch_id < last.number:
        raise BatchOutdated(
            f"{sink_id} has committed batches up to {last.number}, and now gets batch {batch_id}: "
            "its checkpoint was set back. What it holds from here on would be lost or doubled: "
            "start with a new checkpoint, at the offsets to go on from"
        )


def _report_change(sink_id: str, last: LastBatch, record_count: int, *, fail: bool) -> None:
    """Report a replay of the last batch that has another number of records."""
    if fail:
        raise BatchChanged(
            f"{sink_id} has committed batch {last.number} with {last.record_count} records, and "
            f"now gets it with {record_count}: its checkpoint was set back, or its query does not "
            "give the same rows twice. It is unknown which of them are there already: start with a "
            "new checkpoint, at the offsets to go on from"
        )
    _LOG.warning(
        "replay_differs sink=%s batch=%d committed_records=%s replayed_records=%d "
        "kept='what was committed first'",
        sink_id,
        last.number,
        last.record_count,
        record_count,
    )


def discard_outputs(
    options: SinkOptions, outputs: Sequence[TaskOutput], *, staging_topic: str
) -> None:
    """Delete the staged outputs of a batch that failed. Nothing of them was ever visible."""
    with ConnectionPool(options.settings) as pool:
        _trim(StagingTopic(pool, staging_topic), outputs)


def delete_staging_topic(options: SinkOptions, *, staging_topic: str) -> None:
    """Delete the staging topic of a sink that ends with its batch, if it exists."""
    with ConnectionPool(options.settings) as pool, suppress(ClientError):
        StagingTopic(pool, staging_topic).delete()


def _batches(
    outputs: Sequence[TaskOutput], staging: StagingTopic
) -> Iterator[tuple[TopicPartition, memoryview]]:
    for output in outputs:
        for carried in output.carried:
            yield carried.target, memoryview(bytearray(carried.data))
    for output in outputs:
        if output.in_file is not None:
            for target, batch in read_staged(output.in_file):
                yield target, batch.data
    staged = [each for output in outputs for each in output.in_topic]
    if staged:
        for target, batch in staging.read(staged):
            yield target, batch.data


def _trim(staging: StagingTopic, outputs: Sequence[TaskOutput]) -> None:
    staged = [each for output in outputs for each in output.in_topic]
    if staged:
        with suppress(ClientError):
            staging.trim(staged)
