"""Records with schemas as JSON, without a registry: the deserializer is fed by hand."""

import json
from typing import Any

import pyarrow as pa
import pytest

from headrace.cli.record.decoded_format import DecodedJsonFormat, DecodedTextFormat
from headrace.cli.record.format import Records, TextFormat
from headrace.cli.record.registry_decoder import RegistryDecoder, json_text
from headrace.cli.record.registry_encoder import RegistryEncoder
from headrace.cli.record.undecodable_record import UndecodableRecord
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.deserializer import Deserializer
from headrace.serde.error import RegistryError, RegistryUnreachable, Unencodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings

AVRO = SchemaText(
    SchemaType.AVRO, '{"type":"record","name":"R","fields":[{"name":"n","type":["null","int"]}]}'
)
PROTOBUF = SchemaText(
    SchemaType.PROTOBUF, 'syntax = "proto3"; package p; message A {} message B { string s = 1; }'
)
TEXTS = {1: AVRO, 2: PROTOBUF, 3: SchemaText(SchemaType.JSON, "{}")}
SEVEN = b"\0\0\0\0\1\2\x0e"


class _Registry(RegistryClient):
    """Has the schemas 1 to 3, refuses the login for 401 and is broken for 500."""

    def __init__(self) -> None:
        super().__init__(RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:1"}))

    def schema(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        if schema_id in (401, 500):
            raise RegistryError("no", schema_id, schema_id)
        if schema_id == 503:
            raise RegistryUnreachable("nothing there")
        if schema_id not in TEXTS:
            raise RegistryError(f"Schema {schema_id} not found", 404, 40403)
        text = TEXTS[schema_id]
        return RegisteredSchema(schema_id, None, None, None, text, parse(text))


def decoder(*fields: str, strict: bool = False) -> RegistryDecoder:
    return RegistryDecoder(Deserializer(_Registry()), fields or ("key", "value"), strict=strict)


def records(*rows: tuple[bytes | None, bytes | None]) -> Records:
    count = len(rows)
    columns = {
        "offset": pa.array(range(10, 10 + count), pa.int64()),
        "timestamp": pa.array([0] * count, pa.timestamp("ms")),
        "key": pa.array([key for key, _ in rows], pa.binary()),
        "value": pa.array([value for _, value in rows], pa.binary()),
        "headers": pa.array([[]] * count, pa.map_(pa.string(), pa.binary())),
    }
    return Records(TopicPartition("t", 0), pa.RecordBatch.from_pydict(columns), 0)


def text_of(rendered: memoryview) -> str:
    return bytes(rendered).decode()


def test_text_has_json_where_it_decodes(capsys: pytest.CaptureFixture[str]) -> None:
    decoding = decoder()
    shown = DecodedTextFormat(TextFormat("%o %k %v"), decoding)
    rendered = shown.render(records((b"plain", SEVEN), (None, None), (SEVEN, b"text")))
    assert text_of(rendered) == '10 plain {"n":{"int":7}}\n11  \n12 {"n":{"int":7}} text\n'
    decoding.report()
    first, second, counted = capsys.readouterr().err.splitlines()
    assert "the key at offset 10 of t-0 does not decode: the value names no schema" in first
    assert "the value at offset 12 of t-0 does not decode" in second
    assert counted == "headrace: 1 key and 1 value were not decoded"


def test_only_the_chosen_fields_are_decoded() -> None:
    shown = DecodedTextFormat(TextFormat("%k %v"), decoder("value"))
    assert text_of(shown.render(records((SEVEN, SEVEN)))) == '\0\0\0\0\1\2\x0e {"n":{"int":7}}\n'
    assert DecodedTextFormat(TextFormat("%o"), decoder()).columns == ["offset"]


def test_json_has_objects_and_the_ids_of_their_schemas() -> None:
    shown = DecodedJsonFormat(decoder())
    lines = text_of(shown.render(records((b"k", SEVEN), (b'\0\0\0\0\3"x"', b"\xff")))).splitlines()
    first, second = map(json.loads, lines)
    assert (first["key"], first["value"], first["value_schema"]) == ("k", {"n": {"int": 7}}, 1)
    assert (second["key"], second["key_schema"]) == ("x", 3)
    assert second["value_base64"] == "/w=="


def test_an_unknown_schema_is_reported_once_and_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    decoding = decoder()
    DecodedTextFormat(TextFormat("%v"), decoding).render(records(*[(None, b"\0\0\0\0\x09x")] * 3))
    decoding.report()
    first, counted = capsys.readouterr().err.splitlines()
    assert "Schema 9 not found" in first
    assert counted == "headrace: 3 values were not decoded"


@pytest.mark.parametrize("schema_id", [401, 500])
def test_a_registry_that_does_not_do_its_part_is_an_error(schema_id: int) -> None:
    value = b"\0" + schema_id.to_bytes(4, "big") + b"x"
    with pytest.raises(RegistryError):
        DecodedTextFormat(TextFormat("%v"), decoder()).render(records((None, value)))


def test_a_registry_that_is_gone_is_an_error() -> None:
    value = b"\0" + (503).to_bytes(4, "big") + b"x"
    with pytest.raises(RegistryUnreachable):
        DecodedTextFormat(TextFormat("%v"), decoder()).render(records((None, value)))


def test_a_strict_decoder_says_how_many_records_before_are_good() -> None:
    shown = DecodedJsonFormat(decoder(strict=True))
    rows = [(None, SEVEN), (None, b"bad"), (b"bad", None)]
    with pytest.raises(UndecodableRecord, match="the value at offset 11 of t-0") as found:
        shown.render(records(*rows))
    assert found.value.row == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": float("inf"), "b": [float("-inf")]}, '{"a":"Infinity","b":["-Infinity"]}'),
        ("\ud800", '"\\ud800"'),
        (["\ud800", float("nan")], '["\\ud800","NaN"]'),
    ],
)
def test_json_is_such_for_every_parser(value: Any, text: str) -> None:
    assert json_text(value) == text
    text.encode()


def test_a_line_is_encoded_and_a_null_stays_one() -> None:
    encoder = RegistryEncoder(_Registry(), "t", "1")
    assert encoder.encode(b'{"n": {"int": 7}}', 1) == SEVEN
    assert encoder.encode(None, 1) is None


@pytest.mark.parametrize("line", [b"{", b"\xff", b"[" * 100_000, b'{"n": 7}', b"{}", b"3"])
def test_a_line_that_does_not_fit_is_named(line: bytes) -> None:
    with pytest.raises(Unencodable, match="the key in line 5 "):
        RegistryEncoder(_Registry(), "t", "1", key=True).encode(line, 5)


def test_a_message_of_protobuf_is_chosen_by_its_name() -> None:
    encoder = RegistryEncoder(_Registry(), "t", "2", "p.B")
    assert encoder.encode(b'{"s": "x"}', 1) == b"\0\0\0\0\2\2\2\x0a\1x"
    with pytest.raises(InvalidArgument, match="has no message C"):
        RegistryEncoder(_Registry(), "t", "2", "C")
    with pytest.raises(InvalidArgument, match="the schema is AVRO"):
        RegistryEncoder(_Registry(), "t", "1", "C")


@pytest.mark.parametrize("schema_id", ["x", "-1", "99999999999", ""])
def test_what_is_no_id_is_refused(schema_id: str) -> None:
    with pytest.raises(InvalidArgument, match="write its id, or topic"):
        RegistryEncoder(_Registry(), "t", schema_id)
