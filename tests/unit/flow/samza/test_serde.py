"""Values as bytes and back."""

import json
import pickle
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.flow.samza.serde import AvroSerde, BytesSerde, StringSerde, built_in
from headrace.model.error import ConfigError
from headrace.serde.error import Undecodable

SCHEMA = {
    "type": "record",
    "name": "View",
    "fields": [{"name": "page", "type": "string"}, {"name": "ms", "type": "long"}],
}

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(),
    "bytes": st.binary(),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "json": st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
}


@given(data=st.data())
@settings(deadline=None, max_examples=30)
@pytest.mark.parametrize("name", list(VALUES))
def test_a_value_survives_its_serde(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[name])
    serde = built_in(name)
    assert serde is not None
    assert serde.from_bytes(serde.to_bytes(value)) == value


def test_bytes_are_those_of_samzas_own_serdes() -> None:
    def written(name: str, value: Any) -> bytes:
        serde = built_in(name)
        assert serde is not None
        return serde.to_bytes(value)

    assert written("integer", 1) == b"\0\0\0\1"
    assert written("long", -1) == b"\xff" * 8
    assert written("string", "é") == "é".encode()
    assert written("json", {"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    assert len(written("uuid", uuid.uuid4())) == 16


def test_an_avro_serde_pickles_with_its_schema() -> None:
    serde = built_in("avro", json.dumps(SCHEMA))
    assert serde is not None
    assert serde.from_bytes(serde.to_bytes({"page": "a", "ms": 3})) == {"page": "a", "ms": 3}


def test_avro_without_a_schema_says_where_to_write_it() -> None:
    with pytest.raises(ConfigError, match=r"serializers\.registry\.NAME\.schema"):
        built_in("avro")


def test_samzas_factories_are_known_by_their_names() -> None:
    assert isinstance(built_in("org.apache.samza.serializers.StringSerdeFactory"), StringSerde)
    assert isinstance(built_in("org.apache.samza.serializers.ByteSerdeFactory"), BytesSerde)
    assert built_in("org.apache.samza.serializers.SerializableSerdeFactory") is None


def test_without_a_serde_only_bytes_can_be_written() -> None:
    with pytest.raises(TypeError, match=r"samza\.msg\.serde"):
        BytesSerde().to_bytes("text")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (
            {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]},
            b"\x02" * 50_000 + b"\x00",
        ),
        # A billion nulls.
        ({"type": "array", "items": "null"}, b"\x80\xa8\xd6\xb9\x07\x00"),
    ],
)
def test_an_avro_value_that_would_end_the_process_is_refused(schema: Any, value: bytes) -> None:
    serde = pickle.loads(pickle.dumps(AvroSerde(json.dumps(schema))))
    assert serde.from_bytes(b"\x00") is not None
    with pytest.raises(Undecodable):
        serde.from_bytes(value)
