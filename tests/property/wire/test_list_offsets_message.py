"""The hand-written ListOffsets messages against kio, for every served version."""

import io
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_writer

from headrace.wire.api import APIS, ApiKey
from headrace.wire.error import MalformedRequest
from headrace.wire.list_offsets import (
    ListedOffset,
    ListOffsetsRequest,
    WantedOffset,
    WantedTopic,
    pack_list_offsets_response,
)
from headrace.wire.request import pack_request, parse_request
from headrace.wire.response import pack_response, parse_response

API = APIS[ApiKey.LIST_OFFSETS]

versions = st.integers(API.lowest, API.highest)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=200)
thorough = settings(max_examples=60, deadline=None)

wanted_topics = st.lists(
    st.tuples(names, st.lists(st.tuples(int32, int32, int64), max_size=4)), max_size=4
)


def body_of(version: int, replica_id: int, level: int, topics: Any, timeout_ms: int) -> Any:
    """Return the mapping that kio's schema of this version is written from."""
    return {
        "replica_id": replica_id,
        "isolation_level": level,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "current_leader_epoch": epoch, "timestamp": time}
                    for index, epoch, time in partitions
                ],
            }
            for name, partitions in topics
        ],
        "timeout": timeout_ms,
    }


@thorough
@given(versions, int32, st.integers(-128, 127), wanted_topics, st.integers(0, 2**31 - 1))
def test_a_request_is_read_as_it_was_written(
    version: int, replica_id: int, level: int, topics: Any, timeout_ms: int
) -> None:
    body = body_of(version, replica_id, level, topics, timeout_ms)
    frame = pack_request(API.key, version, 7, "me", body)[4:]

    for form in (frame, memoryview(bytearray(frame))):
        assert parse_request(form).body == ListOffsetsRequest(
            replica_id,
            level if version >= 2 else 0,
            [
                WantedTopic(
                    name,
                    [
                        WantedOffset(index, epoch if version >= 4 else -1, time)
                        for index, epoch, time in partitions
                    ],
                )
                for name, partitions in topics
            ],
            timeout_ms if version >= 10 else 0,
        )


@thorough
@given(versions, st.data())
def test_bytes_that_are_cut_off_or_changed_are_refused_or_read(
    version: int, data: st.DataObject
) -> None:
    body = body_of(version, -1, 0, [("clicks", [(0, -1, -2), (1, -1, -1)])], 0)
    frame = bytearray(pack_request(API.key, version, 7, "me", body)[4:])
    at = data.draw(st.integers(14, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))

    for broken in (bytes(frame), bytes(frame[:at])):
        with suppress(MalformedRequest):
            assert isinstance(parse_request(broken).body, ListOffsetsRequest)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_what_kio_writes_is_read(version: int) -> None:
    schema: Any = load_request_schema(API.key, version)
    body = body_of(version, -1, 0, [("clicks", [(3, 5, -2)])], 100)
    packed = pack_request(API.key, version, 7, None, body)
    scratch = io.BytesIO()
    entity_writer(schema)(scratch, _entity(schema, version))

    assert packed.endswith(scratch.getvalue())
    [topic] = parse_request(packed[4:]).body.topics
    assert (topic.name, topic.partitions[0].timestamp) == ("clicks", -2)


def _entity(schema: Any, version: int) -> Any:
    topic_type = get_args(next(each for each in fields(schema) if each.name == "topics").type)[0]
    partition_type = get_args(
        next(each for each in fields(topic_type) if each.name == "partitions").type
    )[0]
    known = {"partition_index": 3, "current_leader_epoch": 5, "timestamp": -2}
    own = {each.name for each in fields(partition_type)}
    partition = partition_type(**{key: value for key, value in known.items() if key in own})
    outer = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": (topic_type(name="clicks", partitions=(partition,)),),
        "timeout": timedelta(milliseconds=100),
    }
    own = {each.name for each in fields(schema)}
    return schema(**{key: value for key, value in outer.items() if key in own})


found_topics = st.lists(
    st.tuples(names, st.lists(st.builds(ListedOffset, int32, int64, int64, int32), max_size=4)),
    max_size=4,
)


@thorough
@given(versions, int32, found_topics)
def test_a_response_has_the_bytes_that_the_general_writer_gives_it(
    version: int, correlation_id: int, topics: list[tuple[str, list[ListedOffset]]]
) -> None:
    body = {
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": each.partition,
                        "timestamp": each.timestamp,
                        "offset": each.offset,
                        "leader_epoch": each.leader_epoch,
                    }
                    for each in partitions
                ],
            }
            for name, partitions in topics
        ]
    }

    packed = pack_list_offsets_response(version, correlation_id, topics)

    assert packed == pack_response(API.key, version, correlation_id, body)
    assert parse_response(API.key, version, packed[4:])[0] == correlation_id
