"""Avro files of bodies that are Avro data already."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.format.event_schema import LITERAL_HEADER, URL_HEADER, EventSchemas
from headrace.ingest.format.serializer import Serializer
from headrace.ingest.format.serializer_choice import make_serializer
from headrace.ingest.settings import SettingError, Settings, prefix, text

NAME = "org.apache.flume.sink.hdfs.AvroEventSerializer$Builder"
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "string"}]}
HEADERS = {LITERAL_HEADER: json.dumps(SCHEMA)}


def serializer(**parameters: str) -> Serializer:
    declared = [text("serializer", "Which."), prefix("serializer", "Its parameters.")]
    settings = Settings.from_texts(
        declared,
        {"serializer": NAME, **{f"serializer.{key}": each for key, each in parameters.items()}},
    )
    return make_serializer(settings, "serializer", settings.below("serializer"))()


def datum(value: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"x": value})
    return out.getvalue()


def events(headers: dict[str, str], *values: str) -> EventBatch:
    return EventBatch([datum(each) for each in values], [headers] * len(values))


def values(data: bytes) -> list[Any]:
    return [row["x"] for row in fastavro.reader(io.BytesIO(data))]  # type: ignore[call-overload,index]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_a_file_has_the_schema_of_its_first_event(codec: str) -> None:
    made = serializer(compressionCodec=codec)
    data = made.head() + made.encode(events(HEADERS, "a", "b"))
    same = {LITERAL_HEADER: json.dumps(SCHEMA, indent=1), "host": "h"}
    data += made.encode(events({}, *())) + made.encode(events(same, "c"))
    assert values(data) == ["a", "b", "c"]


def test_an_event_of_another_schema_does_not_enter_the_file() -> None:
    made = serializer()
    data = made.encode(events(HEADERS, "a"))
    other = {LITERAL_HEADER: '"string"'}
    with pytest.raises(DeliveryFailed, match="another Avro schema"):
        made.encode(events(other, "b"))
    assert values(data + made.encode(events(HEADERS, "c"))) == ["a", "c"]


def test_a_schema_comes_from_the_configured_place(tmp_path: Path) -> None:
    place = tmp_path / "r.avsc"
    place.write_text(json.dumps(SCHEMA))
    assert values(serializer(schemaURL=f"file://{place}").encode(events({}, "a"))) == ["a"]
    with pytest.raises(DeliveryFailed, match="no Avro schema"):
        serializer().encode(events({}, "a"))


def test_a_header_opens_only_what_is_allowed(tmp_path: Path) -> None:
    place = tmp_path / "r.avsc"
    place.write_text(json.dumps(SCHEMA))
    headers = {URL_HEADER: f"file://{place}"}
    with pytest.raises(DeliveryFailed, match="allowedSchemaURLs"):
        serializer().encode(events(headers, "a"))
    allowed = serializer(allowedSchemaURLs=f"file://{tmp_path}/")
    assert values(allowed.encode(events(headers, "a"))) == ["a"]
    climbing = {URL_HEADER: f"file://{tmp_path}/%2e%2e/r.avsc"}
    with pytest.raises(DeliveryFailed, match="allowedSchemaURLs"):
        EventSchemas(None, (f"file://{tmp_path}/",)).text(climbing)


@pytest.mark.parametrize(
    "parameters",
    [
        {"compressionCodec": "zip"},
        {"schemaURL": "hdfs://nn/r.avsc"},
        {"allowedSchemaURLs": "http://host"},
        {"schema.password": "x"},
    ],
)
def test_what_cannot_be_honoured_is_an_error(parameters: dict[str, str]) -> None:
    with pytest.raises(SettingError):
        serializer(**parameters)
