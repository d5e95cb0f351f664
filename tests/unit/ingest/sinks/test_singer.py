"""The singer sink with a real target in a process of its own."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.sink import Sink
from headrace.model.error import ConfigError
from testkit.sample import singer_program
from testkit.sample.ingest_agent import make


class Target:
    """A target with its configuration and what it has written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def sink(self, config: dict[str, Any] | None = None, **texts: str) -> Iterator[Sink]:
        path = self.folder / "config.json"
        path.write_text(json.dumps({"output": str(self.folder / "output"), **(config or {})}))
        command = f"{sys.executable} {singer_program.__file__} target"
        sink = make("sink", "singer", {"command": command, "config": str(path), **texts})
        assert isinstance(sink, Sink)
        sink.start()
        try:
            yield sink
        finally:
            sink.stop()

    def written(self, kind: str) -> list[Any]:
        lines = (self.folder / "output").read_text().splitlines()
        messages = [json.loads(line) for line in lines]
        return [each for each in messages if each["type"] == kind]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


def rows(*values: dict[str, Any], **headers: str) -> EventBatch:
    return EventBatch.plain([json.dumps(value).encode() for value in values], headers)


def test_a_running_target_confirms_each_batch(target: Target) -> None:
    with target.sink(keyProperties="id") as sink:
        sink.deliver(rows({"id": 1}, {"id": 2}, stream="orders"))
        assert len(target.written("RECORD")) == 2
        sink.deliver(rows({"id": 3, "name": "ä"}, stream="orders"))
        assert sink.counters["ConnectionCreatedCount"] == 1
    assert [each["record"] for each in target.written("RECORD")][2] == {"id": 3, "name": "ä"}
    first, second = target.written("SCHEMA")
    assert first["key_properties"] == ["id"]
    assert first["schema"]["properties"] == {"id": {"type": ["null", "integer"]}}
    assert second["schema"]["properties"]["name"] == {"type": ["null", "string"]}


def test_a_target_that_confirms_at_its_end_is_started_for_each_batch(target: Target) -> None:
    with target.sink({"late": True}, stateTimeout="50") as sink:
        sink.deliver(rows({"id": 1}))
        sink.deliver(rows({"id": 2}))
        assert sink.counters["ConnectionCreatedCount"] == 2
    assert [each["record"]["id"] for each in target.written("RECORD")] == [1, 2]
    assert len(target.written("SCHEMA")) == 2


def test_schemas_come_with_the_events(target: Target) -> None:
    schema = {"stream": "orders", "schema": {"properties": {}}, "key_properties": ["id"]}
    headers = {"stream": "orders", "singer.schema": json.dumps(schema), "version": "7"}
    with target.sink() as sink:
        sink.deliver(rows({"id": 1}, {"id": 2}, **headers))
    assert target.written("SCHEMA") == [{"type": "SCHEMA", **schema}]
    assert target.written("RECORD")[0]["version"] == 7


def test_schemas_come_from_a_catalog(target: Target) -> None:
    catalog = target.folder / "catalog.json"
    stream = {"tap_stream_id": "events", "schema": {"properties": {}}, "key_properties": ["id"]}
    catalog.write_text(json.dumps({"streams": [stream]}))
    with target.sink(schemaFile=str(catalog)) as sink:
        sink.deliver(rows({"id": 1}))
    assert target.written("SCHEMA")[0]["key_properties"] == ["id"]


def test_a_target_that_dies_keeps_the_batch_in_the_channel(target: Target) -> None:
    config = {"die_at": 2, "marker": str(target.folder / "died")}
    batch = rows({"id": 1}, {"id": 2}, {"id": 3})
    with target.sink(config) as sink:
        with pytest.raises(DeliveryFailed, match="the disk is full"):
            sink.deliver(batch)
        sink.deliver(batch)
    assert {each["record"]["id"] for each in target.written("RECORD")} == {1, 2, 3}


def test_a_target_that_ends_without_the_state_has_confirmed_nothing(target: Target) -> None:
    config = {"late": True, "silent": True}
    with (
        target.sink(config, flush="end") as sink,
        pytest.raises(DeliveryFailed, match="without echoing the last STATE"),
    ):
        sink.deliver(rows({"id": 1}))


def test_a_target_without_states_fails_where_it_must_keep_running(target: Target) -> None:
    with (
        target.sink({"late": True}, flush="state", stateTimeout="50") as sink,
        pytest.raises(DeliveryFailed, match="stateTimeout"),
    ):
        sink.deliver(rows({"id": 1}))


def test_events_that_are_no_records_can_be_set_aside(target: Target) -> None:
    batch = EventBatch.of([Event({}, b"x"), Event({}, b'{"id": 1}')])
    with target.sink() as sink, pytest.raises(DeliveryFailed, match="deadLetterFile"):
        sink.deliver(batch)
    letters = target.folder / "dead.jsonl"
    with target.sink(deadLetterFile=str(letters)) as sink:
        sink.deliver(batch)
    assert target.written("RECORD")[-1]["record"] == {"id": 1}
    assert json.loads(letters.read_text())["body"] == "x"


@pytest.mark.parametrize("header", ["{", "[1]", "{}", '{"schema": 1}', "[" * 100_000])
def test_a_header_that_is_no_schema_sets_the_event_aside(target: Target, header: str) -> None:
    letters = target.folder / "dead.jsonl"
    bad = Event({"singer.schema": header}, b'{"id": 1}')
    good = Event({}, b'{"id": 2}')
    with target.sink(deadLetterFile=str(letters)) as sink:
        sink.deliver(EventBatch.of([bad, good]))
    assert [each["record"]["id"] for each in target.written("RECORD")] == [2]
    assert "is no SCHEMA" in json.loads(letters.read_text())["reason"]


def test_a_batch_that_cannot_be_sent_feeds_nothing(target: Target) -> None:
    good = [Event({}, json.dumps({"id": 1, "text": "x" * 100_000}).encode())] * 20
    with target.sink() as sink:
        with pytest.raises(DeliveryFailed, match="is no SCHEMA"):
            sink.deliver(EventBatch.of([*good, Event({"singer.schema": "{"}, b"{}")]))
        sink.deliver(rows({"id": 2}))
    assert [each["record"]["id"] for each in target.written("RECORD")] == [2]


def test_a_target_is_not_used_after_any_error(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    with target.sink() as sink:
        with monkeypatch.context() as patch:
            patch.setattr("headrace.ingest.sinks.singer._line", out_of_memory)
            with pytest.raises(MemoryError):
                sink.deliver(rows({"id": 1}))
        assert sink.counters["ConnectionClosedCount"] == 1


def out_of_memory(message: object) -> bytes:
    raise MemoryError


def test_streams_without_end_do_not_fill_the_memory(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.ingest.sinks.singer._STREAMS_KEPT", 2)
    events = [Event({"stream": name}, b'{"id": 1}') for name in ("a", "b", "c", "a")]
    with target.sink() as sink:
        sink.deliver(EventBatch.of(events))
    assert [each["stream"] for each in target.written("SCHEMA")] == ["a", "b", "c", "a"]


def test_more_than_a_pipe_holds_is_written(target: Target) -> None:
    with target.sink() as sink:
        sink.deliver(rows(*({"id": row, "text": "x" * 10_000} for row in range(300))))
    assert len(target.written("RECORD")) == 300


def test_a_schema_file_without_schemas_is_a_mistake(target: Target) -> None:
    path = target.folder / "schemas.json"
    path.write_text('{"orders": 1}')
    with pytest.raises(ConfigError, match="has no schemas"):
        make("sink", "singer", {"command": "target", "schemaFile": str(path)})
