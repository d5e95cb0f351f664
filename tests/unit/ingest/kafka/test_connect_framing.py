"""Keys and values that carry Connect's schemas, in the framing of a registry."""

import json
from typing import Any

import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.kafka.connect_framing import ConnectFraming
from headrace.ingest.kafka.registry_framing import FRAMING_SETTINGS, registry_framing
from headrace.ingest.kafka.topic_columns import TopicColumns
from headrace.ingest.settings import SettingError, Settings
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.error import RegistryError, RegistryUnreachable


class FakeRegistry:
    """Gives every schema of a subject a number.

    Attributes:
        error: raised instead.
    """

    def __init__(self) -> None:
        self.registered: list[tuple[str, str]] = []
        self.error: Exception | None = None

    def register(self, subject: str, text: SchemaText) -> Any:
        if self.error is not None:
            raise self.error
        self.registered.append((subject, text.text))
        return type("Schema", (), {"id": len(self.registered)})

    lookup = register


def described(payload: object, *names: str) -> bytes:
    fields = [{"type": "int32", "optional": False, "field": name} for name in names]
    schema = {"type": "struct", "name": "t.V", "fields": fields}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def framing(kind: SchemaType = SchemaType.AVRO) -> tuple[ConnectFraming, FakeRegistry]:
    registry: Any = FakeRegistry()
    return ConnectFraming(registry, kind), registry


def test_a_schema_is_registered_once_and_again_when_it_changes() -> None:
    made, registry = framing()
    rows = [
        *(described({"id": number}, "id") for number in (1, 2)),
        *(described({"id": number, "n": 9}, "id", "n") for number in (3, 4)),
    ]
    values = made.frame("t", EventBatch.plain(rows), rows)
    assert values == [
        b"\0\0\0\0\1\2",
        b"\0\0\0\0\1\4",
        b"\0\0\0\0\2\6\x12",
        b"\0\0\0\0\2\x08\x12",
    ]
    assert [subject for subject, _ in registry.registered] == ["t-value", "t-value"]
    assert made.frame_keys("t", [rows[0], None]) == [b"\0\0\0\0\3\2", None]
    assert registry.registered[-1][0] == "t-key"


def test_json_stays_as_it_is_behind_its_head() -> None:
    made, registry = framing(SchemaType.JSON)
    row = described({"id": 1}, "id")
    assert made.frame("t", EventBatch.plain([row]), [row]) == [b'\0\0\0\0\1{"id":1}']
    assert json.loads(registry.registered[0][1])["title"] == "t.V"
    cut = row[:-2] + b"}"
    with pytest.raises(DeliveryFailed, match="no JSON"):
        made.frame("t", EventBatch.plain([cut]), [cut])


def test_tombstones_have_a_key_and_no_value() -> None:
    made, _ = framing()
    key = described({"id": 1}, "id").decode()
    ((topic, table),) = TopicColumns("t", framing=made).tables(EventBatch([b""], [{"key": key}]))
    assert topic == "t"
    assert table.to_pylist() == [{"value": None, "key": b"\0\0\0\0\1\2"}]


def test_a_refused_schema_says_what_to_do_and_the_next_try_asks_again() -> None:
    made, registry = framing()
    row = described({"id": 1}, "id")
    registry.error = RegistryError("it does not fit", 409, 409)
    with pytest.raises(DeliveryFailed, match="compatibility-level set t-value --level NONE"):
        made.frame("t", EventBatch.plain([row]), [row])
    registry.error = RegistryUnreachable("no registry answers")
    with pytest.raises(DeliveryFailed, match="no registry answers"):
        made.frame("t", EventBatch.plain([row]), [row])
    registry.error = None
    assert made.frame("t", EventBatch.plain([row]), [row]) == [b"\0\0\0\0\1\2"]


def test_an_event_without_a_schema_is_not_written() -> None:
    made, _ = framing()
    with pytest.raises(DeliveryFailed, match=r"topic t: a value .* schemas\.enable = true"):
        made.frame("t", EventBatch.plain([b'{"id":1}']), [b'{"id":1}'])


@pytest.mark.parametrize(
    ("texts", "flume"),
    [
        ({"schema.converter": "avro"}, False),
        ({"schema.converter": "avro", "schema.registry.url": "http://h"}, True),
        (
            {"schema.converter": "json", "schema.registry.url": "http://h", "schemaURL": "f"},
            False,
        ),
    ],
)
def test_settings_that_exclude_each_other_are_an_error(texts: dict[str, str], flume: bool) -> None:
    with pytest.raises(SettingError):
        registry_framing(Settings.from_texts(FRAMING_SETTINGS, texts), flume_format=flume)


def test_the_converter_is_chosen_by_its_name() -> None:
    texts = {"schema.converter": "avro", "schema.registry.url": "http://h"}
    made = registry_framing(Settings.from_texts(FRAMING_SETTINGS, texts), flume_format=False)
    assert isinstance(made, ConnectFraming)
