"""How long the buckets of a cluster's audit are, according to the last count that was written.

Clients that are not configured to count do so where the audit topic exists already: it shows that
counts are wanted. All tiers must use buckets of one length.
"""

from typing import Final

from headrace.audit.record import DEFAULT_BUCKET_MS, TOPIC, AuditRecord
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import extents
from headrace.client.read.read_range import ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

# Any client may write there: a count is searched in that many records at the end.
_SEARCHED_RECORDS: Final = 100


def find_bucket_ms(settings: ClientSettings, topic: str = TOPIC) -> int | None:
    """Return how long the buckets of a cluster are; None where the audit topic is missing.

    Raises:
        ClientError: the cluster does not answer, or denies access to the topic.
    """
    with ConnectionPool(settings) as pool:
        metadata = pool.metadata([topic]).topics.get(topic)
        if metadata is None:
            return None
        if metadata.error is not None:
            code = metadata.error.code if isinstance(metadata.error, BrokerError) else None
            if code is ErrorCode.unknown_topic_or_partition:
                return None
            raise metadata.error
        partitions = [TopicPartition(topic, index) for index in sorted(metadata.partitions)]
        ends = extents(pool, partitions)
    for partition in partitions:
        extent = ends[partition]
        if isinstance(extent, ClientError) or extent.start == extent.end:
            continue
        length_ms = _last_length(
            settings, partition, max(extent.start, extent.end - _SEARCHED_RECORDS), extent.end
        )
        if length_ms is not None:
            return length_ms
    return DEFAULT_BUCKET_MS


def _last_length(
    settings: ClientSettings, partition: TopicPartition, start: int, end: int
) -> int | None:
    length_ms = None
    with Reader(settings, {partition: ReadRange(start, end)}, columns=["value"]) as reader:
        for chunk in reader:
            for value in chunk.columns.column("value").to_pylist():
                record = AuditRecord.decode(value)
                length_ms = length_ms if record is None else record.length_ms
    return length_ms
