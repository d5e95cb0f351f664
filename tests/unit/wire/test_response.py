"""Packing and reading responses other than Produce and Fetch."""

import struct
from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.static.primitive import i32Timedelta

from headrace.model.error import InvalidArgument, PeerError
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error import MalformedResponse
from headrace.wire.error_code import ErrorCode, error_code
from headrace.wire.response import (
    api_versions_body,
    api_versions_fallback,
    pack_response,
    parse_response,
)


def test_the_size_stands_in_front() -> None:
    packed = pack_response(ApiKey.HEARTBEAT, 0, 7, {"error_code": 27})
    assert packed == struct.pack(">iih", 6, 7, 27)


def test_flexible_versions_have_tagged_fields_in_the_header() -> None:
    packed = pack_response(ApiKey.HEARTBEAT, 4, 7, {"error_code": 27, "throttle_time": 9})
    assert packed == struct.pack(">iibihb", 12, 7, 0, 9, 27, 0)


@pytest.mark.parametrize("version", range(5))
def test_an_api_versions_response_never_has_them(version: int) -> None:
    packed = pack_response(ApiKey.API_VERSIONS, version, 7, api_versions_body())
    assert packed[4:10] == struct.pack(">ih", 7, 0)
    assert parse_response(ApiKey.API_VERSIONS, version, packed[4:])[0] == 7


def test_one_mapping_serves_all_versions() -> None:
    body = {
        "throttle_time": 3,
        "brokers": [{"node_id": 1, "host": "h", "port": 9092, "rack": None}],
        "cluster_id": "c",
        "controller_id": 1,
        "topics": [
            {
                "error_code": ErrorCode.none,
                "name": "clicks",
                "topic_id": UUID(int=5),
                "partitions": [
                    {
                        "error_code": ErrorCode.none,
                        "partition_index": 0,
                        "leader_id": 1,
                        "leader_epoch": 4,
                        "replica_nodes": (1,),
                        "isr_nodes": (1,),
                        "offline_replicas": (),
                    }
                ],
            }
        ],
    }
    for version in range(14):
        packed = pack_response(ApiKey.METADATA, version, 1, body)
        _, entity = parse_response(ApiKey.METADATA, version, packed[4:])
        assert entity.topics[0].partitions[0].isr_nodes == (1,)
        assert getattr(entity, "cluster_id", "c") == "c"


def test_a_kio_entity_is_taken_too() -> None:
    entity = HeartbeatResponse(
        throttle_time=i32Timedelta.parse(timedelta(milliseconds=9)), error_code=ErrorCode.none
    )
    packed = pack_response(ApiKey.HEARTBEAT, 4, 7, entity)
    assert parse_response(ApiKey.HEARTBEAT, 4, packed[4:]) == (7, entity)


def test_a_name_that_no_version_has_is_a_clear_error() -> None:
    with pytest.raises(InvalidArgument, match=r"HeartbeatResponse has no field 'eror_code'"):
        pack_response(ApiKey.HEARTBEAT, 4, 7, {"eror_code": 0})


def test_a_nested_name_that_no_version_has_names_its_place() -> None:
    body = {"brokers": [{"nod": 1}]}
    with pytest.raises(InvalidArgument, match=r"brokers has no field 'nod'"):
        pack_response(ApiKey.METADATA, 9, 7, body)


def test_a_null_that_only_newer_versions_can_say_becomes_empty() -> None:
    packed = pack_response(ApiKey.JOIN_GROUP, 6, 7, {"protocol_name": None})
    assert parse_response(ApiKey.JOIN_GROUP, 6, packed[4:])[1].protocol_name == ""
    packed = pack_response(ApiKey.JOIN_GROUP, 7, 7, {"protocol_name": None})
    assert parse_response(ApiKey.JOIN_GROUP, 7, packed[4:])[1].protocol_name is None


def test_a_tagged_field_is_sent_only_when_it_says_something() -> None:
    silent = pack_response(ApiKey.API_VERSIONS, 3, 7, {"finalized_features_epoch": -1})
    assert silent == pack_response(ApiKey.API_VERSIONS, 3, 7, {})


@pytest.mark.parametrize(
    "body",
    [
        {"error_code": "none"},
        {"error_code": 1 << 20},
        {"error_code": None},
        {"members": 5},
        {"members": None},
        {"members": [5]},
        {"members": [{"member_id": None}]},
        {"members": [{"member_id": 5}]},
        {"members": [{"metadata": 5}]},
        {"members": [{"metadata": "text"}]},
        {"members": [{"member_id": "x" * 40_000}]},
    ],
)
def test_a_value_that_cannot_be_sent_is_a_clear_error(body: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="JoinGroupResponse"):
        pack_response(ApiKey.JOIN_GROUP, 5, 7, body)


def test_the_fallback_tells_every_range_in_the_oldest_layout() -> None:
    packed = api_versions_fallback(7)

    for asked in range(5):
        correlation_id, body = parse_response(ApiKey.API_VERSIONS, asked, packed[4:])
        ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in body.api_keys}
        assert correlation_id == 7
        assert body.error_code is ErrorCode.unsupported_version
        assert ranges[ApiKey.API_VERSIONS] == (0, 4)
        assert ranges.keys() == APIS.keys()


def test_produce_is_advertised_from_zero() -> None:
    entries = {entry["api_key"]: entry for entry in api_versions_body()["api_keys"]}
    assert entries[ApiKey.PRODUCE]["min_version"] == 0
    assert entries[ApiKey.FETCH]["min_version"] == 4


def test_finalized_features_are_carried() -> None:
    features = [{"name": "group.version", "max_version_level": 1, "min_version_level": 1}]
    body = api_versions_body(finalized_features=features, finalized_features_epoch=0)
    packed = pack_response(ApiKey.API_VERSIONS, 3, 7, body)
    _, entity = parse_response(ApiKey.API_VERSIONS, 3, packed[4:])
    assert [feature.name for feature in entity.finalized_features] == ["group.version"]


@pytest.mark.parametrize(
    "junk", [b"", b"\x00", b"\x00\x00\x00\x01", struct.pack(">ii", 1, 2**31 - 1)]
)
def test_a_response_that_is_none_is_malformed(junk: bytes) -> None:
    with pytest.raises(MalformedResponse, match="Metadata response v0") as caught:
        parse_response(ApiKey.METADATA, 0, junk)
    assert isinstance(caught.value, PeerError)


@pytest.mark.parametrize(("api_key", "version"), [(999, 0), (ApiKey.METADATA, 99)])
def test_what_does_not_exist_is_a_clear_error(api_key: int, version: int) -> None:
    with pytest.raises(InvalidArgument, match=f"version {version}"):
        pack_response(api_key, version, 1, {})
    with pytest.raises(InvalidArgument, match=f"version {version}"):
        parse_response(api_key, version, b"")


def test_a_response_with_an_error_code_of_a_newer_kafka_is_read() -> None:
    packed = pack_response(ApiKey.HEARTBEAT, 4, 7, {"error_code": 9999})
    _, body = parse_response(ApiKey.HEARTBEAT, 4, packed[4:])
    assert body.error_code is ErrorCode.unknown_server_error


def test_a_transaction_that_has_not_started_is_read() -> None:
    body = {"transaction_states": [{"transactional_id": "pay", "transaction_start_time": -1}]}
    packed = pack_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, 7, body)
    _, entity = parse_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, packed[4:])
    assert entity.transaction_states[0].transaction_start_time.timestamp() == 0


def test_an_error_code_of_a_newer_kafka_is_unknown() -> None:
    assert error_code(3) is ErrorCode.unknown_topic_or_partition
    assert error_code(9999) is ErrorCode.unknown_server_error
