"""Values that name a schema: decoded, masked, and shown as bytes if no registry helps."""

import json
import threading
from typing import Any
from uuid import UUID

import pytest

from headrace.console.message import schema_cache
from headrace.console.message.mask import HIDDEN, Masks
from headrace.console.message.payload_renderer import PayloadRenderer, View
from headrace.console.message.schema_cache import NoSchema, Patience, SchemaCache
from headrace.model.error import InvalidArgument
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.codec.codec_factory import codec_of
from headrace.serde.error import RegistryError, RegistryUnreachable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.wire_format import VALUE_HEADER, framing_of, id_head

AVRO = """{"type": "record", "name": "Pay", "fields": [
    {"name": "who", "type": ["null", "string"]},
    {"name": "card", "type": {"type": "record", "name": "Card",
        "fields": [{"name": "number", "type": "string"}]}}]}"""
PROTO = 'syntax = "proto3"; message Pay { string who = 1; }  message Card { string number = 1; }'
JSON = '{"type": "object"}'
GUID = "a0a1a2a3-a4a5-a6a7-a8a9-b0b1b2b3b4b5"
SCHEMAS = {
    1: (AVRO, "AVRO"),
    2: (PROTO, "PROTOBUF"),
    3: (JSON, "JSON"),
    4: ("no schema", "AVRO"),
    5: ('"string"', "AVRO"),
    6: ("{}", "JSON"),
}
PAY = {"who": "ada", "card": {"number": "4711"}}


class Registry(RegistryClient):
    """Answers from a table; `gate` holds answers back, `down` has none."""

    def __init__(self) -> None:
        super().__init__(RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:1"}))
        self.asked: list[str] = []
        self.wanted: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.down = False

    def schema(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        self.wanted.append(schema_id)
        return super().schema(schema_id, subject)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append(path)
        assert self.gate.wait(60)
        if self.down:
            raise RegistryUnreachable("no schema registry answers")
        if path == f"/schemas/guids/{GUID}":
            return {"schema": AVRO, "schemaType": "AVRO", "id": 1}
        parts = path.split("/")
        number = int(parts[3])
        if number not in SCHEMAS:
            raise RegistryError(f"Schema {number} not found", 404, 40403)
        if parts[-1] == "versions":
            return [{"subject": "a-first", "version": 9}, {"subject": "pays-value", "version": 2}]
        text, kind = SCHEMAS[number]
        return {"schema": text, "schemaType": kind}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(registry: Registry, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> SchemaCache:
    # A page's second may be over before a busy machine has answered.
    monkeypatch.setattr(schema_cache, "_PATIENCE_SECONDS", 60.0)
    return SchemaCache(registry, clock)


def renderer(cache: SchemaCache, *masks: str) -> PayloadRenderer:
    return PayloadRenderer(Masks(masks).of("pays"), None, cache, "pays")


def payload(number: int, value: Any, indexes: tuple[int, ...] = (0,)) -> bytes:
    text, kind = SCHEMAS[number]
    return codec_of(parse(SchemaText(SchemaType(kind), text), {})).encode(value, indexes)


def framed(number: int, value: Any) -> bytes:
    middle = b"\0" if number == 2 else b""
    return id_head(number) + middle + payload(number, value)


@pytest.mark.parametrize(
    ("number", "value", "kind"),
    [(1, PAY, "avro"), (2, {"who": "ada"}, "protobuf"), (3, PAY, "json")],
)
def test_a_value_is_decoded_by_the_schema_that_it_names(
    cache: SchemaCache, number: int, value: Any, kind: str
) -> None:
    shown = renderer(cache).show(framed(number, value))
    assert (shown.kind, json.loads(shown.text), shown.schema_id) == (kind, value, number)
    assert shown.schema is not None
    # Of the subjects that have it, the topic's own is named.
    assert (shown.schema["subject"], shown.schema["version"]) == ("pays-value", 2)


def test_another_message_of_a_protobuf_file_is_found_by_its_index(cache: SchemaCache) -> None:
    data = id_head(2) + bytes([2, 2]) + payload(2, {"number": "1"}, (1,))
    assert json.loads(renderer(cache).show(data).text) == {"number": "1"}


def test_a_guid_in_a_header_names_a_schema_too(cache: SchemaCache) -> None:
    headers = [(VALUE_HEADER, b"\x01" + UUID(GUID).bytes)]
    shown = renderer(cache).show(payload(1, PAY), headers=headers)
    assert (shown.kind, json.loads(shown.text)) == ("avro", PAY)
    assert shown.schema is not None
    assert shown.schema["guid"] == GUID


def test_a_key_is_decoded_and_named_by_its_own_subject(cache: SchemaCache) -> None:
    shown = renderer(cache).key(framed(1, PAY))
    assert (shown.kind, shown.schema is not None and shown.schema["subject"]) == ("avro", "a-first")


@pytest.mark.parametrize("number", [1, 3])
def test_masks_hold_for_decoded_values_in_every_view_and_search(
    cache: SchemaCache, number: int
) -> None:
    hiding = renderer(cache, "card.number", "who")
    data = framed(number, PAY)
    for view in (View.AUTO, View.TEXT, View.HEX):
        text = hiding.show(data, view).text
        assert ("4711" in text, "ada" in text, HIDDEN in text) == (False, False, True)
    assert b"4711" not in (hiding.searchable(data) or b"")
    assert b"4711" not in (hiding.searchable_key(data) or b"")
    assert hiding.parsed(data)["card"] == {"number": HIDDEN}
    assert "4711" not in hiding.key(data).text


def test_what_cannot_be_decoded_is_hidden_as_a_whole_where_masks_apply(
    cache: SchemaCache, registry: Registry
) -> None:
    hiding = renderer(cache, "card.number")
    broken = id_head(1) + b"\x02\x06ada4711"
    assert (hiding.show(broken).text, hiding.key(broken).text) == (HIDDEN, HIDDEN)
    registry.down = True
    assert hiding.key(framed(3, PAY)).text == HIDDEN
    # A plain number as key is none of this: no registry has a schema with such an id.
    assert hiding.key((5).to_bytes(8, "big")).kind == "hex"


@pytest.mark.parametrize("number", [5, 6])
def test_a_decoded_value_without_fields_is_hidden_as_a_whole_where_masks_apply(
    cache: SchemaCache, number: int
) -> None:
    secret = '{"email": "ada@example.org"}'
    data = framed(number, secret)
    hiding = renderer(cache, "email")
    for view in View:
        shown = hiding.show(data, view)
        assert (shown.kind, shown.text, shown.note) == ("hidden", HIDDEN, None)
    assert hiding.key(data).text == HIDDEN
    assert hiding.parsed(data) is None
    assert hiding.searchable(data) == hiding.searchable_key(data) == HIDDEN.encode()
    assert json.loads(renderer(cache).show(data).text) == secret


def test_what_is_hidden_has_no_note_that_could_quote_it(cache: SchemaCache) -> None:
    broken = id_head(1) + b"\x05"
    assert renderer(cache).show(broken).note is not None
    hiding = renderer(cache, "email")
    assert (hiding.show(broken).note, hiding.key(broken).note) == (None, None)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (id_head(1) + b"\x05", "no value of its Avro schema"),
        (id_head(4) + b"\x00", "cannot be read"),
        (id_head(77) + b"\x00", "Schema 77 not found"),
        (id_head(2) + b"\xff\xff\xff\xff\xff\xff", "message indexes"),
        (id_head(2) + b"\0\xff\xff", "no message of its Protobuf schema"),
    ],
)
def test_bytes_that_do_not_fit_are_shown_as_bytes_with_a_note(
    cache: SchemaCache, data: bytes, why: str
) -> None:
    shown = renderer(cache).show(data)
    assert shown.kind in ("hex", "text")
    assert why in (shown.note or "")


def test_a_view_that_does_not_fit_says_so(cache: SchemaCache) -> None:
    with pytest.raises(InvalidArgument, match="this is no Protobuf"):
        renderer(cache).show(framed(1, PAY), View.PROTOBUF)
    assert (
        renderer(cache).show(framed(1, PAY), View.HEX).text.startswith("00000000  00 00 00 00 01")
    )


def test_a_registry_that_is_down_is_asked_again_after_a_while(
    cache: SchemaCache, registry: Registry, clock: Clock
) -> None:
    registry.down = True
    data = framed(1, PAY)
    for _ in range(3):
        assert "no schema registry answers" in (renderer(cache).show(data).note or "")
    assert renderer(cache).show(framed(2, {})).note is not None
    assert len(registry.asked) == 1
    registry.down = False
    clock.now += 6
    assert renderer(cache).show(data).kind == "avro"


def test_an_id_that_does_not_exist_is_not_asked_for_again(
    cache: SchemaCache, registry: Registry, clock: Clock
) -> None:
    for _ in range(3):
        renderer(cache).show(id_head(77) + b"x")
    assert registry.wanted == [77]
    clock.now += 31
    renderer(cache).show(id_head(77) + b"x")
    assert registry.wanted == [77, 77]


def test_a_page_waits_for_a_slow_registry_once_and_finds_the_schema_later(
    cache: SchemaCache, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_cache, "_PATIENCE_SECONDS", 0.1)
    registry.gate.clear()
    page = renderer(cache)
    data = framed(1, PAY)
    shown = [page.show(data) for _ in range(50)]  # the first of them waits
    assert {each.kind for each in shown} == {"hex"}
    assert "not answered yet" in (shown[-1].note or "")
    others = [page.show(id_head(number) + b"x") for number in range(100, 200)]
    assert all("not answered yet" in (each.note or "") for each in others)
    assert len(registry.asked) <= 4
    registry.gate.set()
    framing = framing_of(data)
    assert framing is not None
    found: Any = NoSchema("")
    while isinstance(found, NoSchema):
        found = cache.find(framing, Patience())
    assert renderer(cache).show(data).kind == "avro"


def test_half_a_character_in_json_is_shown_as_a_question_mark() -> None:
    shown = PayloadRenderer(Masks(()).of("pays")).show(rb'{"a": "\ud800"}')
    assert json.loads(shown.text) == {"a": "?"}
