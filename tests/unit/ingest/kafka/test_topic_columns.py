"""Events as columns of records."""

import pytest

from headrace.ingest.event import TOMBSTONE_HEADER, EventBatch
from headrace.ingest.kafka.small_batch import small_records
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


@pytest.mark.parametrize(
    "named", ["", "..", "no/such topic", "ä", "x" * 250, "__consumer_offsets", "positions"]
)
def test_a_header_with_a_name_that_no_topic_can_have_is_not_used(named: str) -> None:
    reported: list[tuple[str, int]] = []
    form = TopicColumns(
        "t",
        topic_header="topic",
        positions_topic="positions",
        on_header_refused=lambda name, count: reported.append((name, count)),
    )
    alike = EventBatch.plain([b"1", b"2"], {"topic": named, "key": "k"})
    mixed = EventBatch([b"3", b"4"], [{"topic": named, "key": "k"}, {"topic": "u", "key": "k"}])
    assert [topic for topic, _ in form.tables(alike)] == ["t"]
    assert [topic for topic, _ in form.tables(mixed)] == ["t", "u"]
    assert list(small_records(form, mixed) or ()) == ["t", "u"]
    assert reported == [(named, 2), (named, 1), (named, 1)]
