"""Errors of the REST API: what they hold."""

import json
from typing import Any, cast

from headrace.gateway.rest.error import MOST_MESSAGE_CHARACTERS, RestError
from headrace.gateway.rest.schema.schema_codec import SchemaCodec
from headrace.gateway.rest.v3 import records
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.error import Unencodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client_settings import RegistryClientSettings

TEXT = "x" * (1 << 20)


class QuotingSerializer:
    """Refuses every value with a text as long as its schema."""

    def encode(self, *_: object, **__: object) -> bytes:
        raise Unencodable(TEXT)

    def latest(self, _subject: str) -> RegisteredSchema:
        text = SchemaText(SchemaType.AVRO, '"string"')
        return RegisteredSchema(1, None, None, None, text, cast(Any, None))


def quoting() -> SchemaCodec:
    codec = SchemaCodec(RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:9"}))
    codec._serializer = cast(Any, QuotingSerializer())
    return codec


def check_small(error: object) -> None:
    assert isinstance(error, RestError)
    assert error.code == 42203
    assert len(error.message) == MOST_MESSAGE_CHARACTERS
    assert len(str(error.args)) < 2 * MOST_MESSAGE_CHARACTERS
    assert error.__context__ is None
    assert error.__cause__ is None
    assert error.__traceback__ is None


def test_an_error_of_a_record_keeps_neither_its_schema_nor_its_value() -> None:
    record = {"value": {"type": "AVRO", "data": 1}}
    codec = quoting()

    [one] = records._parse_all([json.dumps(record).encode()], codec, "t")
    [(_, other)] = records._entries(
        json.dumps({"entries": [{"id": "a", **record}]}).encode(), codec, "t"
    )
    codec.close()

    check_small(one)
    check_small(other)
