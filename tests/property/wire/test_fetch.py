"""The hand-written Fetch messages against kio, for every served version."""

import io
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from headrace.wire.api import APIS, ApiKey
from headrace.wire.error import MalformedRequest, MalformedResponse
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    pack_fetch_request,
)
from headrace.wire.fetch_response import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionResult,
    FetchResponse,
    FetchTopicResult,
    pack_fetch_response,
)
from headrace.wire.leader import LeaderHint, NodeEndpoint
from headrace.wire.request import parse_request
from headrace.wire.response import parse_response

FETCH = APIS[ApiKey.FETCH]

versions = st.integers(FETCH.lowest, FETCH.highest)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=10)
ids = st.uuids().filter(lambda uuid: uuid != UUID(int=0))
thorough = settings(max_examples=60, deadline=None)


def since(
    version: int, first: int, values: st.SearchStrategy[Any], otherwise: Any
) -> st.SearchStrategy[Any]:
    return values if version >= first else st.just(otherwise)


@st.composite
def requests(draw: st.DrawFn, version: int) -> FetchRequest:
    name = st.none() if version >= 13 else names
    topic_id = since(version, 13, ids, None)
    partitions = st.builds(
        FetchPartition,
        int32,
        since(version, 9, int32, -1),
        int64,
        since(version, 12, int32, -1),
        since(version, 5, int64, -1),
        int32,
    )
    topics = st.builds(FetchTopic, name, topic_id, st.lists(partitions, max_size=4))
    forgotten = st.builds(ForgottenTopic, name, topic_id, st.lists(int32, max_size=4).map(tuple))
    return FetchRequest(
        draw(int32),
        draw(int32),
        draw(int32),
        draw(st.integers(-128, 127)),
        draw(st.lists(topics, max_size=3)),
        draw(since(version, 7, int32, 0)),
        draw(since(version, 7, int32, -1)),
        draw(since(version, 7, st.lists(forgotten, max_size=2), [])),
        draw(since(version, 11, names, "")),
        draw(int32),
        draw(since(version, 15, int64, -1)),
        draw(since(version, 12, st.none() | names, None)),
    )


@st.composite
def responses(draw: st.DrawFn, version: int) -> FetchResponse:
    aborted = st.lists(st.builds(AbortedTransaction, int64, int64), max_size=3)
    hint = st.builds(LeaderHint, int32, st.integers(0, 100))
    diverging = st.builds(DivergingEpoch, int32, st.integers(0, 100))

    @st.composite
    def partitions(draw: st.DrawFn) -> FetchPartitionResult[memoryview]:
        records = draw(st.binary(max_size=300))
        return FetchPartitionResult(
            draw(int32),
            draw(st.sampled_from(ErrorCode)),
            draw(int64),
            draw(int64),
            draw(since(version, 5, int64, -1)),
            len(records),
            memoryview(records),
            draw(st.none() | aborted),
            draw(since(version, 11, int32, -1)),
            draw(since(version, 12, st.none() | hint, None)),
            draw(since(version, 12, st.none() | diverging, None)),
        )

    topics = st.builds(
        FetchTopicResult,
        st.none() if version >= 13 else names,
        since(version, 13, ids, None),
        st.lists(partitions(), max_size=3),
    )
    endpoint = st.builds(NodeEndpoint, int32, names, int32, st.none() | names)
    return FetchResponse(
        draw(st.lists(topics, max_size=3)),
        draw(int32),
        draw(since(version, 7, st.sampled_from(ErrorCode), 0)),
        draw(since(version, 7, int32, 0)),
        draw(since(version, 16, st.lists(endpoint, max_size=2).map(tuple), ())),
    )


def packed_by_kio(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def packed(version: int, response: FetchResponse) -> list[bytes | memoryview]:
    return pack_fetch_response(
        version,
        9,
        response.topics,
        throttle_ms=response.throttle_ms,
        error_code=response.error_code,
        session_id=response.session_id,
        node_endpoints=response.node_endpoints,
    )


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), requests(version))))
def test_a_request_is_the_bytes_that_kio_writes(case: tuple[int, FetchRequest]) -> None:
    version, request = case

    frame = pack_fetch_request(version, 5, "id", request)

    body = frame[4 + 8 + 4 + (1 if version >= 12 else 0) :]
    entity, size = entity_reader(load_request_schema(ApiKey.FETCH, version))(body, 0)
    assert size == len(body)
    assert packed_by_kio(entity) == body


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), requests(version))))
def test_a_request_is_read_back(case: tuple[int, FetchRequest]) -> None:
    version, request = case

    parsed = parse_request(pack_fetch_request(version, 5, "id", request)[4:])

    assert parsed.body == request


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), responses(version))))
def test_the_parts_of_a_response_are_the_bytes_that_kio_writes(
    case: tuple[int, FetchResponse],
) -> None:
    version, response = case

    frame = b"".join(packed(version, response))

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    body = frame[9 if version >= 12 else 8 :]
    entity, size = entity_reader(load_response_schema(ApiKey.FETCH, version))(body, 0)
    assert size == len(body)
    assert packed_by_kio(entity) == body


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), responses(version))))
def test_a_response_is_read_back_without_copying(case: tuple[int, FetchResponse]) -> None:
    version, response = case
    frame = b"".join(packed(version, response))[4:]

    correlation_id, parsed = parse_response(ApiKey.FETCH, version, frame)

    assert (correlation_id, parsed) == (9, response)
    for topic in parsed.topics:
        for partition in topic.partitions:
            assert partition.records is not None
            assert partition.records.obj is frame


@thorough
@given(versions.flatmap(lambda version: st.tuples(st.just(version), responses(version))))
def test_records_go_through_untouched(case: tuple[int, FetchResponse]) -> None:
    version, response = case

    parts = packed(version, response)

    sent = [part for part in parts if not isinstance(part, bytes)]
    wanted = [
        partition.records
        for topic in response.topics
        for partition in topic.partitions
        if partition.records_bytes
    ]
    assert [id(part) for part in sent] == [id(records) for records in wanted]


@thorough
@given(versions, st.data())
def test_a_damaged_request_is_refused_or_read(version: int, data: st.DataObject) -> None:
    damaged = bytearray(pack_fetch_request(version, 5, None, data.draw(requests(version)))[4:])
    at = data.draw(st.integers(10, len(damaged)))
    damaged[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    try:
        body = parse_request(bytes(damaged)).body
    except MalformedRequest:
        return
    assert sum(len(topic.partitions) for topic in body.topics) <= len(damaged)


@thorough
@given(versions, st.data())
def test_a_damaged_response_is_refused_or_read(version: int, data: st.DataObject) -> None:
    damaged = bytearray(b"".join(packed(version, data.draw(responses(version))))[4:])
    at = data.draw(st.integers(0, len(damaged)))
    damaged[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    try:
        parse_response(ApiKey.FETCH, version, bytes(damaged))
    except MalformedResponse as error:
        assert f"v{version}" in str(error)
