"""A stream of the Kinesis gateway as the page shows it: its shards, and what is written to them."""

from typing import Any, Final

from headrace.console.status.series_set import SeriesSet
from headrace.console.status.snapshot import Snapshot
from headrace.gateway.kinesis.stream.hash_key import LARGEST
from headrace.gateway.kinesis.stream.shard import Shard, shard_id
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.model.ids import TopicPartition

MOST_SHARDS: Final = 200
"""Of one stream; what is left out has been closed for longest."""

_LONGEST: Final = 300


def stream_status(
    stream: StreamState, ends: SeriesSet[TopicPartition], snapshot: Snapshot | None
) -> dict[str, Any]:
    """Return the fields of a stream.

    Args:
        ends: the end offsets of its partitions over the last minutes.
        snapshot: of the cluster; None before the first one.
    """
    newest = sorted(stream.shards, key=lambda each: (each.is_open, each.number))[-MOST_SHARDS:]
    return {
        "name": stream.name[:_LONGEST],
        "status": stream.status.value,
        "mode": stream.mode.value,
        "created_ms": stream.created_ms,
        "retention_hours": stream.retention_hours,
        "consumers": len(stream.consumers),
        "open": sum(each.is_open for each in stream.shards),
        "closed": sum(not each.is_open for each in stream.shards),
        "shards": [_shard_status(stream, each, ends, snapshot) for each in newest],
    }


def _shard_status(
    stream: StreamState,
    shard: Shard,
    ends: SeriesSet[TopicPartition],
    snapshot: Snapshot | None,
) -> dict[str, Any]:
    place = TopicPartition(stream.name, shard.partition)
    end = snapshot.ends.get(place) if shard.is_open and snapshot is not None else shard.last
    size = 0.0 if snapshot is None else snapshot.bytes_per_record.get(stream.name, 0.0)
    rate = ends.rate(place) if shard.is_open else 0.0
    return {
        "id": shard.id,
        "partition": shard.partition,
        # As parts of all hash keys: a browser's numbers have not enough digits.
        "keys": [shard.keys.start / (LARGEST + 1), (shard.keys.end + 1) / (LARGEST + 1)],
        "parents": [shard_id(each) for each in shard.parents],
        "created_ms": shard.created_ms,
        "closed_ms": shard.closed_ms,
        "open": shard.is_open,
        "records": None if end is None else max(0, end - shard.first),
        "records_per_second": rate,
        "bytes_per_second": rate * size,
    }
