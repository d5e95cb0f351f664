"""The view of streams begins again when their topic is another one."""

from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from headrace.client.read.batch_reader import FetchedBatches
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.store.stream_tail import StreamTail
from headrace.gateway.kinesis.store.stream_topic import STREAM_PARTITION, write_stream
from headrace.gateway.kinesis.stream.stream_state import new_stream
from headrace.records.encode import encode

OLD, NEW = UUID(int=1), UUID(int=2)


def fetched(offset: int, *names: str, topic_id: UUID | None) -> FetchedBatches:
    columns = {
        "key": pa.array([each.encode() for each in names], pa.binary()),
        "value": pa.array([write_stream(new_stream(each, 1, 1)) for each in names], pa.binary()),
    }
    [batch] = encode(pa.record_batch(columns), timestamp_ms=1, base_offset=offset).batches
    end = offset + len(names)
    return FetchedBatches(STREAM_PARTITION, offset, batch, [], 0, end, None, topic_id)


@pytest.fixture
def tail() -> StreamTail:
    made = StreamTail(ClientSettings.of({}))
    made._apply(fetched(0, "old", "older", topic_id=OLD))
    assert set(made.streams) == {"old", "older"}
    return made


def test_a_topic_of_the_same_name_that_has_grown_is_read_from_its_start(tail: StreamTail) -> None:
    with capture_logs() as lines:
        tail._apply(fetched(2, "third", topic_id=NEW))
        assert (tail._offset, tail.streams) == (0, {})
        tail._apply(fetched(0, "first", "second", "third", topic_id=NEW))

    assert set(tail.streams) == {"first", "second", "third"}
    assert [each["event"] for each in lines] == ["kinesis_streams_restarted"]


def test_brokers_without_topic_ids_go_by_the_offset(tail: StreamTail) -> None:
    tail._topic_id = None
    tail._apply(fetched(2, "third", topic_id=None))

    assert set(tail.streams) == {"old", "older", "third"}


@pytest.mark.parametrize("name", ["/document", "/seal", "stream"])
def test_a_record_of_very_many_brackets_is_passed_over(tail: StreamTail, name: str) -> None:
    with capture_logs() as lines:
        tail._apply_record(tail.streams, name, b"[" * 30_000)

    assert set(tail.streams) == {"old", "older"}
    assert [each["event"] for each in lines] == ["kinesis_stream_unreadable"]


def test_a_fetch_without_records_does_not_forget_the_topic(tail: StreamTail) -> None:
    tail._apply(replace(fetched(2, "x", topic_id=OLD), data=memoryview(b"")))

    assert (tail._topic_id, set(tail.streams)) == (OLD, {"old", "older"})
