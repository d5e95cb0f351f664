"""What the console makes of the records in the topic of streams, of the gateway or made up."""

import json
from typing import Any

import pyarrow as pa
import pytest

from headrace.console.status.series_set import SeriesSet
from headrace.console.status.stream_poller import StreamTable
from headrace.console.status.stream_status import MOST_SHARDS, stream_status
from headrace.gateway.kinesis.store.stream_topic import write_stream
from headrace.gateway.kinesis.stream.stream_state import new_stream

CLICKS = new_stream("clicks", 2, 1_000)


def rows(*records: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    keys, values = zip(*records, strict=True)
    columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    return pa.record_batch(columns)


def changed(**fields: Any) -> bytes:
    return json.dumps({**CLICKS.as_json(), **fields}).encode()


def shard(**fields: Any) -> bytes:
    first, *rest = CLICKS.as_json()["shards"]
    return changed(shards=[{**first, **fields}, *rest])


def test_a_stream_comes_changes_and_goes() -> None:
    table = StreamTable()
    table.add(rows((b"clicks", write_stream(CLICKS)), (b"/lease", b"{}"), (None, b"{}")))
    assert table.streams == {"clicks": CLICKS}
    table.add(rows((b"clicks", None)))
    assert table.streams == {}


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b"\xff",
        changed(name="other"),
        changed(created_ms=float("nan")),
        changed(revision="x"),
        shard(keys=[1e999, 0]),
        shard(keys=["9" * 2000, "0"]),
        shard(keys=["0", "-1"]),
        shard(number="x"),
        shard(partition=[1]),
        shard(first="x"),
        shard(closed_ms=2**70),
        changed(shards=[]),
    ],
    ids=lambda value: value[:30].decode(errors="replace"),
)
def test_a_record_that_was_made_up_breaks_no_page(value: bytes) -> None:
    table = StreamTable()
    table.add(rows((b"clicks", value), (b"views", changed(name="views"))))
    shown = [stream_status(each, SeriesSet(), None) for each in table.streams.values()]
    assert "views" in [each["name"] for each in shown]
    assert json.dumps(shown, allow_nan=False)


def test_of_many_shards_the_newest_are_shown() -> None:
    status = stream_status(new_stream("clicks", 1_000, 1_000), SeriesSet(), None)
    assert len(status["shards"]) == MOST_SHARDS
    assert status["shards"][-1]["id"] == "shardId-000000000999"
    assert status["open"] == 1_000
