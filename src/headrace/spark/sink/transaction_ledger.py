"""Records which batch of a sink was committed last: an offset that is committed with the batch.

The sink has a consumer group with one entry per topic that a batch was written to, at partition 0.
Its offset is the number of the batch. Entries are written in the transaction that writes the rows
(TxnOffsetCommit), so that a batch is in the ledger exactly if its rows are in the topics. Batch
numbers only grow, so the greatest entry of the group is the last batch, whichever topics it went
to: a replay may write to others than the first attempt did, such as dead letters. There is an entry
per topic so that a batch is only forgotten when all its topics are deleted.

An entry's metadata says how many records the batch had: `records=17`. A batch that comes again with
another number of records is another batch.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from headrace.client.error import BrokerError, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import walk
from headrace.client.network.pool import ConnectionPool
from headrace.client.network.retry import Retry
from headrace.client.write.transaction_calls import OffsetAndMetadata
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

_NOTE: Final = re.compile(r"records=([0-9]{1,18})")


class LastBatch(NamedTuple):
    """The last committed batch of a sink.

    Attributes:
        number: -1 when there is none.
        record_count: in all of its topics; None when the ledger does not say.
    """

    number: int = -1
    record_count: int | None = None


NO_BATCH: Final = LastBatch()

# From version 8 on a request names several groups (KIP-709); from 10 on topics have ids.
_FIRST_MANY_GROUPS: Final = 8
_LAST_BY_NAME: Final = 9
# A topic that was deleted and created again has lost its entry; that is no error of the batch.
_NO_ENTRY: Final = frozenset({ErrorCode.none, ErrorCode.unknown_topic_or_partition})


def entries(
    topics: Iterable[str], batch_id: int | None, record_count: int
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit to the sink's group with a batch for these topics; none for a
    batch without a number."""
    if batch_id is None:
        return {}
    entry = OffsetAndMetadata(batch_id, f"records={record_count}")
    return {TopicPartition(topic, 0): entry for topic in topics}


def last_batch(pool: ConnectionPool, sink_id: str) -> LastBatch:
    """Return the greatest number among all entries of the group, or `NO_BATCH`.

    Waits for entries of a transaction that is being ended (KIP-447). Brokers list an entry only
    once its first transaction has ended, so the transactional id must be taken over before.

    Raises:
        BrokerError: the group's coordinator refuses the request.
    """
    body = {"groups": [{"group_id": sink_id, "topics": None}], "require_stable": True}
    retry = Retry(pool.settings)
    while True:
        answer = pool.on_coordinator(
            sink_id, lambda connection: _fetch(connection, body), lambda each: [each.error_code]
        )
        error = error_of(answer.error_code)
        found = NO_BATCH
        for partition, each in walk(answer.topics):
            if each.error_code not in _NO_ENTRY:
                error = BrokerError(
                    each.error_code, f"cannot tell which batch {partition.topic} has: {each!r}"
                )
            if each.committed_offset > found.number:
                found = LastBatch(int(each.committed_offset), _count(each.metadata))
        if error is None:
            return found
        if error.code is not ErrorCode.unstable_offset_commit or not retry.pause():
            raise error


def _count(metadata: str | None) -> int | None:
    note = _NOTE.fullmatch(metadata or "")
    return None if note is None else int(note[1])


def _fetch(connection: BrokerConnection, body: dict[str, Any]) -> Any:
    answer = connection.call(
        ApiKey.OFFSET_FETCH, body, lowest=_FIRST_MANY_GROUPS, highest=_LAST_BY_NAME
    )
    return answer.groups[0]
