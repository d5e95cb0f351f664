"""Errors of the REST API: what they hold."""

import json
from typing import Any, cast

from headrace.gateway.rest.error import MOST_MESSAGE_CHARACTERS, RestError
from headrace.gateway.rest.schema.registry_serde import RegistrySerde
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


def quoting() -> RegistrySerde:
    serde = RegistrySerde(RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:9"}))
    serde._serializer = cast(Any, QuotingSerializer())
    return serde


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
    serde = quoting()

    [one] = records._parse_all([json.dumps(record).encode()], serde, "t")
    [(_, other)] = records._entries(
        json.dumps({"entries": [{"id": "a", **record}]}).encode(), serde, "t"
    )
    serde.close()

    check_small(one)
    check_small(other)
