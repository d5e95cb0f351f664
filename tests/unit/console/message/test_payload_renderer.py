"""How bytes are rendered, and what masks leave of them."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.console.message.mask import HIDDEN, Masks
from headrace.console.message.payload_renderer import PayloadRenderer, View
from headrace.model.error import InvalidArgument
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.codec.avro import AvroCodec

SCHEMA = {"type": "record", "name": "View", "fields": [{"name": "page", "type": "string"}]}
NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}


def renderer(*masks: str, schema: Any = None) -> PayloadRenderer:
    codec = None
    if schema is not None:
        codec = AvroCodec(parse(SchemaText(SchemaType.AVRO, json.dumps(schema))))
    return PayloadRenderer(Masks(masks).of("clicks"), codec)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "text", ""),
        (b"plain", "text", "plain"),
        ("grün".encode(), "text", "grün"),
        (b'{"a":1}', "json", '{\n  "a": 1\n}'),
        (b"17", "text", "17"),
        (b"{broken", "text", "{broken"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
    ],
)
def test_auto_uses_the_first_view_that_fits(data: bytes | None, kind: str, text: str) -> None:
    shown = renderer().show(data)
    assert (shown.kind, shown.text) == (kind, text)


def test_bytes_are_shown_as_a_hex_dump() -> None:
    shown = renderer().show(bytes(range(20)))
    assert shown.kind == "hex"
    assert shown.text.splitlines()[1].startswith("00000010  10 11 12 13")


def test_a_long_text_is_cut_between_letters() -> None:
    shown = renderer().show("ü".encode() * 5000, max_characters=100)
    assert (shown.text, shown.cut, shown.size) == ("ü" * 100, True, 10_000)


def test_avro_with_a_known_schema_is_opened() -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"page": "/home"})
    shown = renderer(schema=SCHEMA).show(out.getvalue())
    assert (shown.kind, json.loads(shown.text)) == ("avro", {"page": "/home"})


def test_an_avro_file_needs_no_schema() -> None:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [{"page": "/home"}])
    assert json.loads(renderer().show(out.getvalue()).text) == [{"page": "/home"}]


def test_the_id_of_a_registered_schema_is_shown() -> None:
    out = io.BytesIO(b"\x00\x00\x00\x00\x2a")
    out.seek(5)
    fastavro.schemaless_writer(out, SCHEMA, {"page": "/home"})
    shown = renderer(schema=SCHEMA).show(out.getvalue())
    assert (shown.kind, shown.schema_id) == ("avro", 42)


def test_a_view_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        renderer().show(b"plain", View.JSON)


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([View.AUTO, View.TEXT, View.HEX]))
def test_any_bytes_can_be_shown(data: bytes, view: View) -> None:
    for each in (renderer(), renderer("email"), renderer(schema=SCHEMA)):
        assert each.show(data, view, max_characters=50).size == len(data)
        each.key(data)


def test_a_field_is_hidden_wherever_it_stands() -> None:
    value = {"email": "a@b", "list": [{"email": "c@d", "page": "/"}]}
    shown = json.loads(renderer("email").show(json.dumps(value).encode()).text)
    assert shown == {"email": HIDDEN, "list": [{"email": HIDDEN, "page": "/"}]}


def test_a_path_hides_only_what_stands_there() -> None:
    value = {"user": {"name": "ada"}, "name": "page"}
    shown = json.loads(renderer("user.name").show(json.dumps(value).encode()).text)
    assert shown == {"user": {"name": HIDDEN}, "name": "page"}


def test_what_is_no_json_is_hidden_as_a_whole() -> None:
    for view in View:
        assert renderer("email").show(b"ada@example.org", view).text == HIDDEN


def test_plain_keys_stay_unless_everything_is_hidden() -> None:
    assert renderer("email").key(b"user-1").text == "user-1"
    assert renderer("clicks:*").key(b"user-1").text == HIDDEN


def test_headers_are_hidden_by_their_name() -> None:
    assert renderer("auth").header("auth", b"token").text == HIDDEN
    assert renderer("auth").header("trace", b"17").text == "17"


def test_a_mask_of_another_topic_hides_nothing() -> None:
    assert not PayloadRenderer(Masks(["payments:card", "pay*:x"]).of("clicks")).hides
    assert PayloadRenderer(Masks(["pay*:x"]).of("payments")).hides


def test_an_avro_file_that_would_end_the_process_is_shown_as_bytes() -> None:
    out = io.BytesIO()
    value: dict[str, object] = {"next": None}
    for _ in range(100):
        value = {"next": value}
    fastavro.writer(out, NODE, [value])
    assert renderer().show(out.getvalue()).kind == "hex"


def test_an_avro_file_that_unpacks_to_far_more_is_shown_as_bytes() -> None:
    out = io.BytesIO()
    rows = [{"page": "x" * 100_000_000}]
    fastavro.writer(out, SCHEMA, rows, codec="deflate")
    assert renderer().show(out.getvalue()).kind == "hex"


def test_avro_texts_are_hidden_as_a_whole_where_masks_apply() -> None:
    secret = '{"email": "ada@example.org"}'
    out, file = io.BytesIO(), io.BytesIO()
    fastavro.schemaless_writer(out, "string", secret)
    fastavro.writer(file, "string", [secret])
    for data in (out.getvalue(), file.getvalue()):
        assert json.loads(renderer(schema="string").show(data).text) in (secret, [secret])
        assert renderer("email", schema="string").show(data).text == HIDDEN
        assert renderer("email", schema="string").parsed(data) is None
