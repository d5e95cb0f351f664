"""Finds where closing shards end, in a way that no leader can answer wrongly.

The end that ListOffsets returns would not do: a leader that was cut off returns its own, and its
successor has acknowledged records behind it. So a marker is written into each partition, by a
transaction that has no records and is aborted, and read back: a reader gets only what all in-sync
replicas have. What was acknowledged before the marker was written lies before it. Consumers of any
kind do not see a marker.
"""

from collections.abc import Collection
from typing import Final

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader, FetchedBatches
from headrace.client.read.offset_lookup import LATEST, list_offsets
from headrace.client.write.producer_id import ProducerIdentity, transactional_identity
from headrace.client.write.transaction_calls import TransactionCalls
from headrace.gateway.kinesis.store.lease import lease_clock
from headrace.gateway.kinesis.store.stream_topic import STREAM_TOPIC
from headrace.model.ids import TopicPartition
from headrace.records.batch import iter_batches

_TRANSACTION_TIMEOUT_MS: Final = 10_000
_READ_BACK_SECONDS: Final = 10.0
_POLL_MS: Final = 200


def shard_ends(
    pool: ConnectionPool, stream: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return an offset per partition. All that is acknowledged by now lies before it.

    Raises:
        ClientError: a marker cannot be written, or does not come back in time.
    """
    positions: dict[TopicPartition, int] = {}
    for partition, found in list_offsets(pool, dict.fromkeys(partitions, LATEST)).items():
        if isinstance(found, ClientError):
            raise found
        # Of a leader that was cut off: before the marker all the same.
        positions[partition] = found.offset
    # Not the id under which the stream is changed: a change must not fence this one.
    calls = TransactionCalls(pool, f"{STREAM_TOPIC}/{stream}/end")
    identity = transactional_identity(pool, calls.transactional_id, _TRANSACTION_TIMEOUT_MS)
    calls.add_partitions(identity, positions)
    calls.end(identity, committed=False)
    reader = BatchReader(pool, positions)
    ends: dict[TopicPartition, int] = {}
    deadline = lease_clock() + _READ_BACK_SECONDS
    while reader.positions:
        if lease_clock() > deadline:
            left = ", ".join(map(str, list(reader.positions)[:5]))
            raise ClientError(f"no leader returns the marker of {left}")
        for fetched in reader.poll(_POLL_MS):
            end = _marker(fetched, identity, reader)
            if end is not None:
                ends[fetched.partition] = end
                del reader.positions[fetched.partition]
    return ends


def _marker(fetched: FetchedBatches, identity: ProducerIdentity, reader: BatchReader) -> int | None:
    """Return where the marker lies, or advance the reader behind what was fetched."""
    if fetched.error is not None:
        raise fetched.error
    for batch in iter_batches(fetched.data):
        own = batch.is_control and batch.producer_id == identity.producer_id
        # KIP-890: the end of a transaction raises the epoch. Earlier markers have a smaller one.
        if own and batch.producer_epoch >= identity.epoch:
            return batch.base_offset
        position = max(reader.positions[fetched.partition], batch.next_offset)
        reader.positions[fetched.partition] = position
    return None
