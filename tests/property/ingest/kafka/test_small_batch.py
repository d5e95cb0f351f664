"""Records of small batches are those of columns."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.ingest.event import TOMBSTONE_HEADER, Event, EventBatch
from headrace.ingest.kafka.small_batch import MOST_BYTES, MOST_EVENTS, small_records
from headrace.ingest.kafka.topic_columns import TopicColumns

FORM = TopicColumns(
    topic="clicks", topic_header="topic", record_headers={"x.new": "__debezium.newkey"}
)

headers = st.fixed_dictionaries(
    {"key": st.text(max_size=5)},
    optional={
        "topic": st.sampled_from(["orders", "clicks", "people"]),
        TOMBSTONE_HEADER: st.just("true"),
        "other": st.text(max_size=2),
    },
)
events = st.builds(Event, headers, st.binary(max_size=4))


@given(st.lists(events, min_size=1, max_size=8))
def test_they_are_the_same_in_the_same_order(rows: list[Event]) -> None:
    batch = EventBatch.of(rows)
    columns = {
        topic: list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        for topic, table in FORM.tables(batch)
    }
    assert small_records(FORM, batch) == columns


def event(**more: str) -> Event:
    return Event({"key": "k", **more}, b"v")


def test_what_needs_columns_gets_them() -> None:
    assert small_records(FORM, EventBatch.of([event()])) == {"clicks": [(b"k", b"v")]}
    assert small_records(FORM, EventBatch.of([])) is None
    assert small_records(FORM, EventBatch.of([Event({}, b"v")])) is None
    assert small_records(FORM, EventBatch.of([event(**{"__debezium.newkey": "{}"})])) is None
    assert small_records(FORM, EventBatch.of([event()] * (MOST_EVENTS + 1))) is None
    large = Event({"key": "k"}, bytes(MOST_BYTES + 1))
    assert small_records(FORM, EventBatch.of([large])) is None
    for more in (
        {"partition_header": "p"},
        {"default_partition": 1},
        {"timestamp_header": "t"},
        {"all_headers": True},
        {"flume_format": True},
    ):
        form = FORM._replace(**more)
        assert small_records(form, EventBatch.of([event()])) is None
