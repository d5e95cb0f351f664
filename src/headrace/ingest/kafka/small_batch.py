"""Small batches of events as records, one by one.

Columns are quick for thousands of rows, and slow for two: what a transaction of a database has on
average. So few events with nothing special become records in plain Python, the same ones as those
of `TopicColumns.tables`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.ingest.event import TOMBSTONE_HEADER, EventBatch
from headrace.ingest.kafka.topic_columns import TopicColumns

MOST_EVENTS: Final = 64
MOST_BYTES: Final = 256 * 1024

Records = Mapping[str, Sequence[tuple[bytes, bytes | None]]]
"""Keys and values by topic, in order; the value of a tombstone is None."""


def small_records(form: TopicColumns, batch: EventBatch) -> Records | None:
    """Return the records of a batch; None where columns are needed: for many events, and for
    events without a key or with more than a topic, a key and a value."""
    if not _is_plain(form) or not 0 < len(batch) <= MOST_EVENTS or batch.body_bytes > MOST_BYTES:
        return None
    more = frozenset(form.record_headers.values())
    found: dict[str, list[tuple[bytes, bytes | None]]] = {}
    for body, headers in zip(batch.bodies, batch.headers, strict=True):
        key = headers.get("key")
        if key is None or not more.isdisjoint(headers):
            return None
        topic = form.topic_of(headers)
        is_tombstone = not body and TOMBSTONE_HEADER in headers
        found.setdefault(topic, []).append((key.encode(), None if is_tombstone else body))
    return found


def _is_plain(form: TopicColumns) -> bool:
    """Return whether records have nothing but a topic, a key and a value, as they are."""
    return (
        form.framing is None
        and not form.flume_format
        and not form.all_headers
        and form.partition_header is None
        and form.default_partition is None
        and form.timestamp_header is None
    )
