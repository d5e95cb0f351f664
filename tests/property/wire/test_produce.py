"""The hand-written Produce messages against kio, for every served version."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from headrace.wire.api import APIS, ApiKey
from headrace.wire.error import MalformedRequest, MalformedResponse
from headrace.wire.error_code import ErrorCode
from headrace.wire.leader import LeaderHint, NodeEndpoint
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from headrace.wire.produce_response import (
    ProducePartitionResult,
    ProduceResponse,
    ProduceTopicResult,
    RecordError,
    pack_produce_response,
)
from headrace.wire.request import parse_request
from headrace.wire.response import parse_response

PRODUCE = APIS[ApiKey.PRODUCE]

versions = st.integers(PRODUCE.lowest, PRODUCE.highest)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=10)
ids = st.uuids().filter(lambda uuid: uuid != UUID(int=0))
thorough = settings(max_examples=60, deadline=None)


@st.composite
def requests(draw: st.DrawFn, version: int) -> ProduceRequest:
    by_id = version >= 13
    records = st.none() | st.binary(max_size=300).map(memoryview)
    partitions = st.lists(st.builds(ProducePartition, int32, records), max_size=4)
    topics = st.builds(
        ProduceTopic, st.none() if by_id else names, ids if by_id else st.none(), partitions
    )
    return ProduceRequest(
        draw(st.none() | names),
        draw(st.integers(-(2**15), 2**15 - 1)),
        draw(int32),
        draw(st.lists(topics, max_size=3)),
    )


@st.composite
def responses(draw: st.DrawFn, version: int) -> ProduceResponse:
    by_id = version >= 13
    errors = st.lists(st.builds(RecordError, int32, st.none() | names), max_size=2).map(tuple)
    partitions = st.builds(
        ProducePartitionResult,
        int32,
        st.sampled_from(ErrorCode),
        int64,
        st.just(-1) | st.integers(0, 2**32).map(lambda seconds: seconds * 1000),
        int64 if version >= 5 else st.just(-1),
        errors if version >= 8 else st.just(()),
        st.none() | names if version >= 8 else st.none(),
        st.none() | st.builds(LeaderHint, int32, st.integers(0, 100))
        if version >= 10
        else st.none(),
    )
    topics = st.builds(
        ProduceTopicResult,
        st.none() if by_id else names,
        ids if by_id else st.none(),
        st.lists(partitions, max_size=3),
    )
    endpoints = st.builds(NodeEndpoint, int32, names, int32, st.none() | names)
    return ProduceResponse(
        draw(st.lists(topics, max_size=3)),
        draw(int32),
        tuple(draw(st.lists(endpoints, max_size=2))) if version >= 10 else (),
    )


def packed_by_kio(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def whole(parts: list[bytes | memoryview]) -> bytes:
    return b"".join(parts)


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), requests(version))))
def test_a_request_is_the_bytes_that_kio_writes(case: tuple[int, ProduceRequest]) -> None:
    version, request = case

    frame = whole(pack_produce_request(version, 5, "id", request))

    body = frame[4 + 8 + 4 + (1 if version >= 9 else 0) :]
    entity, size = entity_reader(load_request_schema(ApiKey.PRODUCE, version))(body, 0)
    assert size == len(body)
    assert packed_by_kio(entity) == body
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), requests(version))))
def test_a_request_is_read_back(case: tuple[int, ProduceRequest]) -> None:
    version, request = case
    frame = whole(pack_produce_request(version, 5, "id", request))

    parsed = parse_request(frame[4:])

    assert parsed.header.client_id == "id"
    assert parsed.body == request


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), responses(version))))
def test_kio_reads_the_response(case: tuple[int, ProduceResponse]) -> None:
    version, response = case

    frame = pack_produce_response(
        version,
        9,
        response.topics,
        throttle_ms=response.throttle_ms,
        node_endpoints=response.node_endpoints,
    )

    body = frame[9 if version >= 9 else 8 :]
    entity, size = entity_reader(load_response_schema(ApiKey.PRODUCE, version))(body, 0)
    assert size == len(body)
    assert entity.throttle_time == timedelta(milliseconds=response.throttle_ms)
    assert len(entity.responses) == len(response.topics)
    for theirs, ours in zip(entity.responses, response.topics, strict=True):
        for partition, result in zip(theirs.partition_responses, ours.partitions, strict=True):
            assert partition.index == result.partition
            assert partition.error_code == result.error_code
            assert partition.base_offset == result.base_offset
            stamped = result.log_append_time_ms
            assert partition.log_append_time == (
                None if stamped < 0 else datetime.fromtimestamp(stamped / 1000, UTC)
            )
    assert packed_by_kio(entity) == body


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), responses(version))))
def test_a_response_is_read_back(case: tuple[int, ProduceResponse]) -> None:
    version, response = case
    frame = pack_produce_response(
        version,
        9,
        response.topics,
        throttle_ms=response.throttle_ms,
        node_endpoints=response.node_endpoints,
    )

    assert parse_response(ApiKey.PRODUCE, version, frame[4:]) == (9, response)


@thorough
@given(versions, st.data())
def test_a_damaged_request_is_refused_or_read(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(version))
    damaged = bytearray(whole(pack_produce_request(version, 5, None, request))[4:])
    at = data.draw(st.integers(10, len(damaged)))
    damaged[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    try:
        body = parse_request(bytes(damaged)).body
    except MalformedRequest:
        return
    assert all(len(topic.partitions) <= len(damaged) for topic in body.topics)


@thorough
@given(versions, st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(version: int, junk: bytes) -> None:
    try:
        parse_response(ApiKey.PRODUCE, version, junk)
    except MalformedResponse as error:
        assert f"v{version}" in str(error)
