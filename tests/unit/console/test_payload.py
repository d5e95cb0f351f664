"""Bytes as people see them, and what masks leave of them."""

import io
import json

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.console.json_path import MISSING, look_up, parse_path
from headrace.console.mask import HIDDEN, Masks
from headrace.console.payload import Painter, View
from headrace.model.error import ConfigError, InvalidArgument

SCHEMA = fastavro.parse_schema(
    {"type": "record", "name": "View", "fields": [{"name": "page", "type": "string"}]}
)


def painter(*masks: str, schema: object = None) -> Painter:
    return Painter(Masks(masks).of("clicks"), schema)


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
def test_the_first_view_that_fits_is_taken(data: bytes | None, kind: str, text: str) -> None:
    shown = painter().show(data)
    assert (shown.kind, shown.text) == (kind, text)


def test_bytes_are_shown_as_a_hex_dump() -> None:
    shown = painter().show(bytes(range(20)))
    assert shown.kind == "hex"
    assert shown.text.splitlines()[1].startswith("00000010  10 11 12 13")


def test_a_long_text_is_cut_between_letters() -> None:
    shown = painter().show("ü".encode() * 5000, letters=100)
    assert (shown.text, shown.cut, shown.size) == ("ü" * 100, True, 10_000)


def test_avro_with_a_known_schema_is_opened() -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"page": "/home"})
    shown = painter(schema=SCHEMA).show(out.getvalue())
    assert (shown.kind, json.loads(shown.text)) == ("avro", {"page": "/home"})


def test_an_avro_file_needs_no_schema() -> None:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [{"page": "/home"}])
    assert json.loads(painter().show(out.getvalue()).text) == [{"page": "/home"}]


def test_the_id_of_a_registered_schema_is_shown() -> None:
    out = io.BytesIO(b"\x00\x00\x00\x00\x2a")
    out.seek(5)
    fastavro.schemaless_writer(out, SCHEMA, {"page": "/home"})
    shown = painter(schema=SCHEMA).show(out.getvalue())
    assert (shown.kind, shown.schema_id) == ("avro", 42)


def test_a_view_that_does_not_fit_is_told() -> None:
    with pytest.raises(InvalidArgument):
        painter().show(b"plain", View.JSON)


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([View.AUTO, View.TEXT, View.HEX]))
def test_any_bytes_can_be_shown(data: bytes, view: View) -> None:
    for each in (painter(), painter("email"), painter(schema=SCHEMA)):
        assert each.show(data, view, letters=50).size == len(data)
        each.key(data)


def test_a_field_is_hidden_wherever_it_stands() -> None:
    value = {"email": "a@b", "list": [{"email": "c@d", "page": "/"}]}
    shown = json.loads(painter("email").show(json.dumps(value).encode()).text)
    assert shown == {"email": HIDDEN, "list": [{"email": HIDDEN, "page": "/"}]}


def test_a_path_hides_only_what_stands_there() -> None:
    value = {"user": {"name": "ada"}, "name": "page"}
    shown = json.loads(painter("user.name").show(json.dumps(value).encode()).text)
    assert shown == {"user": {"name": HIDDEN}, "name": "page"}


def test_what_is_no_json_is_hidden_as_a_whole() -> None:
    for view in View:
        assert painter("email").show(b"ada@example.org", view).text == HIDDEN


def test_plain_keys_stay_unless_everything_is_hidden() -> None:
    assert painter("email").key(b"user-1").text == "user-1"
    assert painter("clicks:*").key(b"user-1").text == HIDDEN


def test_headers_are_hidden_by_their_name() -> None:
    assert painter("auth").header("auth", b"token").text == HIDDEN
    assert painter("auth").header("trace", b"17").text == "17"


def test_a_mask_of_another_topic_hides_nothing() -> None:
    assert not Painter(Masks(["payments:card", "pay*:x"]).of("clicks")).hides
    assert Painter(Masks(["pay*:x"]).of("payments")).hides


@pytest.mark.parametrize("text", ["", ":email", "payments:"])
def test_a_mask_that_hides_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Masks([text])


def test_paths_lead_into_values() -> None:
    value = {"items": [{"id": 7}], "none": None}
    assert look_up(value, parse_path("$.items[0].id")) == 7
    assert look_up(value, parse_path("none")) is None
    assert look_up(value, parse_path("items[1].id")) is MISSING
    assert look_up(value, parse_path("items.id")) is MISSING


@pytest.mark.parametrize("text", ["", "$", "a..b", "a[", "a[x]", "[0]b"])
def test_a_path_that_is_none_is_told(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_path(text)
