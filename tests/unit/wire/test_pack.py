"""`pack` against kio's own readers and writers, for every message and version kio knows."""

import io
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from headrace.wire.pack import pack_request, pack_response
from headrace.wire.upgrade import upgrade

KINDS = {
    "request": (pack_request, load_request_schema),
    "response": (pack_response, load_response_schema),
}
MESSAGES = [
    pytest.param(key, version, kind, id=f"{name}-v{version}-{kind}")
    for key, name in api_key_map.items()
    for version in schema_name_map[name]
    for kind in KINDS
]


def as_fields(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: as_fields(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [as_fields(item) for item in value]
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return value


@pytest.mark.parametrize(("api_key", "version", "kind"), MESSAGES)
def test_an_empty_message_is_what_kio_reads_and_writes_back(
    api_key: int, version: int, kind: str
) -> None:
    pack, load = KINDS[kind]
    packed = bytes(pack(api_key, version, {}))

    message, size = entity_reader(load(api_key, version))(packed, 0)
    written = io.BytesIO()
    entity_writer(load(api_key, version))(written, message)

    assert size == len(packed)
    assert written.getvalue() == packed
    assert bytes(pack(api_key, version, as_fields(message))) == packed


@pytest.mark.parametrize(("api_key", "version", "kind"), MESSAGES)
def test_every_version_can_be_read_in_the_shape_of_the_newest(
    api_key: int, version: int, kind: str
) -> None:
    pack, load = KINDS[kind]
    message, _ = entity_reader(load(api_key, version))(bytes(pack(api_key, version, {})), 0)
    newest = load(api_key, max(schema_name_map[api_key_map[api_key]]))

    upgraded = upgrade(message, newest)

    assert type(upgraded) is newest
    for field in fields(newest):
        if not is_dataclass(getattr(message, field.name, None)) and hasattr(message, field.name):
            ours, theirs = getattr(upgraded, field.name), getattr(message, field.name)
            assert ours == theirs or theirs is None


def test_one_answer_serves_old_and_new_clients() -> None:
    answer = {
        "cluster_id": "headrace",
        "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092, "rack": None}],
        "topics": [
            {
                "error_code": 0,
                "name": "clicks",
                "is_internal": False,
                "partitions": [{"partition_index": 0, "leader_id": 1, "leader_epoch": 7}],
            }
        ],
    }

    for version in range(14):
        packed = bytes(pack_response(3, version, answer))
        message, _ = entity_reader(load_response_schema(3, version))(packed, 0)

        assert message.brokers[0].host == "127.0.0.1"
        assert message.topics[0].name == "clicks"
        assert getattr(message.topics[0].partitions[0], "leader_epoch", 7) == 7


def test_a_name_no_version_has_is_our_mistake() -> None:
    with pytest.raises(KeyError, match="cluster_name"):
        pack_response(3, 12, {"cluster_name": "headrace"})


def test_a_tagged_field_is_written_only_when_it_says_something() -> None:
    without = bytes(pack_response(1, 16, {"node_endpoints": []}))
    with_one = bytes(
        pack_response(1, 16, {"node_endpoints": [{"node_id": 1, "host": "h", "port": 9}]})
    )

    assert without.endswith(b"\0")
    message, _ = entity_reader(load_response_schema(1, 16))(with_one, 0)
    assert message.node_endpoints[0].port == 9
