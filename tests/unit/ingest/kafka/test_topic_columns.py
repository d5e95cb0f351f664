"""Events as columns of records."""

from headrace.ingest.event import TOMBSTONE_HEADER, EventBatch
from headrace.ingest.kafka.topic_columns import TopicColumns


def test_a_tombstone_has_no_value() -> None:
    mark = {"key": "k", TOMBSTONE_HEADER: "true"}
    batch = EventBatch([b"row", b"", b"", b"body"], [{"key": "k"}, mark, {"key": "k"}, mark])
    ((topic, table),) = TopicColumns("t").tables(batch)
    assert topic == "t"
    assert table["value"].to_pylist() == [b"row", None, b"", b"body"]
    assert table["key"].to_pylist() == [b"k"] * 4


def test_a_batch_of_tombstones_has_no_values() -> None:
    batch = EventBatch.plain([b"", b""], {TOMBSTONE_HEADER: "true"})
    ((_, table),) = TopicColumns("t").tables(batch)
    assert table["value"].to_pylist() == [None, None]
