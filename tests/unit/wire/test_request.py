"""What `parse_request` takes, what it refuses, and that refusing costs nothing."""

import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.model.error import InvalidArgument, PeerError
from headrace.wire.api import ApiKey
from headrace.wire.error import MalformedRequest, UnknownApi, UnsupportedVersion
from headrace.wire.primitive import pack_uvarint
from headrace.wire.request import pack_request, parse_request
from headrace.wire.response import parse_response

MIB = 1024 * 1024
HUGE_COUNTS = [2**31 - 1, 10**9, 10**6]


def frame(api_key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    head = struct.pack(">hhi", api_key, version, 42) + b"\x00\x02me"
    return head + (b"\x00" if flexible else b"") + body


@contextmanager
def cheap(seconds: float = 1.0, memory_bytes: int = 8 * MIB) -> Iterator[None]:
    """Bounds what happens inside, generously: an attack would be off by orders of magnitude."""
    tracemalloc.start()
    started = time.thread_time()
    try:
        yield
        taken = time.thread_time() - started
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < seconds
    assert peak < memory_bytes


def test_header_and_body() -> None:
    packed = pack_request(ApiKey.FIND_COORDINATOR, 2, 42, "me", {"key": "group", "key_type": 0})

    request = parse_request(packed[4:])

    assert request.header.api_key == ApiKey.FIND_COORDINATOR
    assert request.header.api_version == 2
    assert request.header.correlation_id == 42
    assert request.header.client_id == "me"
    assert request.body.key == "group"
    assert request.body is request.body


def test_a_client_may_have_no_id() -> None:
    packed = pack_request(ApiKey.LIST_GROUPS, 4, 1, None, {})
    assert parse_request(packed[4:]).header.client_id is None


def test_a_flexible_header_may_carry_tagged_fields() -> None:
    head = struct.pack(">hhi", ApiKey.LIST_GROUPS, 4, 1) + b"\x00\x00" + b"\x01\x05\x02ab"
    assert parse_request(head + b"\x01\x00").body.states_filter == ()


def test_a_frame_may_be_a_view() -> None:
    packed = memoryview(pack_request(ApiKey.HEARTBEAT, 4, 1, "me", {"group_id": "g"}))
    assert parse_request(packed[4:]).body.group_id == "g"


def test_unknown_tagged_fields_are_skipped() -> None:
    body = b"\x02" + bytes(16) + b"\x02t" + b"\x01\x07\x01x" + b"\x01\x01" + b"\x01\x50\x03abc"
    request = parse_request(frame(ApiKey.METADATA, 12, body, flexible=True))
    assert [topic.name for topic in request.body.topics] == ["t"]
    assert request.body.allow_auto_topic_creation is True


def test_unknown_tagged_fields_are_skipped_inside_and_beside_known_ones() -> None:
    feature = b"\x02f\x00\x01\x00\x02" + b"\x01\x09\x00"
    known = b"\x02" + feature
    tags = (
        b"\x03" + b"\x00" + pack_uvarint(len(known)) + known + b"\x01\x08" + bytes(8) + b"\x63\x00"
    )
    body = struct.pack(">hbi", 0, 1, 0) + tags
    _, response = parse_response(ApiKey.API_VERSIONS, 3, bytes(4) + body)
    assert [feature.name for feature in response.supported_features] == ["f"]
    assert response.finalized_features_epoch == 0


@pytest.mark.parametrize("retention_ms", [-1, 0, 2**63 - 1, -(2**63)])
def test_any_retention_time_of_an_old_commit_is_read(retention_ms: int) -> None:
    body = {"group_id": "g", "retention_time": retention_ms}
    packed = pack_request(ApiKey.OFFSET_COMMIT, 2, 1, None, body)
    assert parse_request(packed[4:]).body.group_id == "g"


@pytest.mark.parametrize("junk", [b"", b"\x00", b"\x00\x12\x00", b"\x00\x12\x00\x03\x00\x00\x00"])
def test_a_frame_too_short_for_a_header_is_malformed(junk: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_request(junk)


def test_an_unknown_api_says_what_was_asked() -> None:
    with pytest.raises(UnknownApi, match="999") as caught:
        parse_request(struct.pack(">hhi", 999, 3, 42))
    assert isinstance(caught.value, PeerError)
    assert caught.value.header.correlation_id == 42


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_an_unknown_version_says_what_is_served(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match="v0 to v4") as caught:
        parse_request(struct.pack(">hhi", ApiKey.API_VERSIONS, version, 42) + b"junk")
    assert caught.value.header.api_key == ApiKey.API_VERSIONS
    assert caught.value.header.api_version == version
    assert caught.value.header.correlation_id == 42


def test_produce_below_3_is_advertised_and_not_served() -> None:
    with pytest.raises(UnsupportedVersion, match="v3 to v13"):
        parse_request(struct.pack(">hhi", ApiKey.PRODUCE, 2, 42) + b"\xff\xff")


@pytest.mark.parametrize("count", [*HUGE_COUNTS, -2, -(2**31)])
@pytest.mark.parametrize(
    ("api_key", "version", "before"),
    [
        (ApiKey.METADATA, 0, b""),
        (ApiKey.PRODUCE, 3, b"\xff\xff" + bytes(6)),
        (ApiKey.FETCH, 4, bytes(17)),
        (ApiKey.OFFSET_FETCH, 1, b"\x00\x01g"),
        (ApiKey.CREATE_TOPICS, 2, b""),
    ],
)
def test_a_count_past_the_bytes_is_refused_at_no_cost(
    api_key: int, version: int, before: bytes, count: int
) -> None:
    request = frame(api_key, version, before + struct.pack(">i", count), flexible=False)
    with cheap(), pytest.raises(MalformedRequest):
        _ = parse_request(request).body


@pytest.mark.parametrize("count", [*HUGE_COUNTS, 2**32 - 1, 2**35 - 1])
@pytest.mark.parametrize(
    ("api_key", "version", "before"),
    [
        (ApiKey.METADATA, 12, b""),
        (ApiKey.PRODUCE, 9, b"\x00" + bytes(6)),
        (ApiKey.PRODUCE, 13, b"\x00" + bytes(6)),
        (ApiKey.FETCH, 12, bytes(25)),
        (ApiKey.FETCH, 18, bytes(21)),
        (ApiKey.JOIN_GROUP, 6, b"\x02g" + bytes(8) + b"\x01\x01"),
    ],
)
def test_a_compact_count_past_the_bytes_is_refused_at_no_cost(
    api_key: int, version: int, before: bytes, count: int
) -> None:
    request = frame(api_key, version, before + pack_uvarint(count), flexible=True)
    with cheap(), pytest.raises(MalformedRequest):
        _ = parse_request(request).body


@pytest.mark.parametrize("length", [-2, -(2**15), 2**15 - 1])
def test_a_string_past_the_bytes_is_refused(length: int) -> None:
    body = struct.pack(">h", length) + b"abc"
    with pytest.raises(MalformedRequest):
        _ = parse_request(frame(ApiKey.FIND_COORDINATOR, 0, body, flexible=False)).body


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (ApiKey.FIND_COORDINATOR, 0, b"\xff\xff"),
        (ApiKey.CREATE_TOPICS, 2, struct.pack(">i", -1) + bytes(5)),
        (ApiKey.FETCH, 4, bytes(17) + struct.pack(">i", -1)),
        (ApiKey.PRODUCE, 3, b"\xff\xff" + bytes(6) + struct.pack(">i", -1)),
    ],
)
def test_a_null_where_none_may_be_is_refused(api_key: int, version: int, body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        _ = parse_request(frame(api_key, version, body, flexible=False)).body


def test_bytes_that_are_no_text_are_refused() -> None:
    body = struct.pack(">h", 2) + b"\xff\xfe"
    with pytest.raises(MalformedRequest):
        _ = parse_request(frame(ApiKey.FIND_COORDINATOR, 0, body, flexible=False)).body


def test_a_client_id_that_is_no_text_is_refused() -> None:
    with pytest.raises(MalformedRequest):
        parse_request(struct.pack(">hhi", ApiKey.LIST_GROUPS, 0, 1) + b"\x00\x02\xff\xfe")


def test_tagged_fields_by_the_million_are_refused_early() -> None:
    tags = pack_uvarint(2_000_000) + b"\x50\x00" * 2_000_000
    in_body = frame(ApiKey.METADATA, 12, b"\x01\x01\x01" + tags, flexible=True)
    in_header = struct.pack(">hhi", ApiKey.METADATA, 12, 1) + b"\xff\xff" + tags
    with cheap(), pytest.raises(MalformedRequest):
        _ = parse_request(in_body).body
    with cheap(), pytest.raises(MalformedRequest):
        parse_request(in_header)


def test_tiny_items_by_the_million_are_refused_early() -> None:
    count = 4_000_000
    empty_names = pack_uvarint(count + 1) + b"\x01\x00" * count + b"\x01\x01\x01\x00"
    request = frame(ApiKey.METADATA, 9, empty_names, flexible=True)
    with cheap(), pytest.raises(MalformedRequest, match="too many"):
        _ = parse_request(request).body


@pytest.mark.parametrize(
    ("api_key", "version", "before", "item"),
    [
        (ApiKey.PRODUCE, 9, b"\x00" + bytes(6), b"\x01\x01\x00"),
        (ApiKey.FETCH, 12, bytes(25), b"\x01\x01\x00"),
    ],
)
def test_empty_topics_by_the_million_are_refused_early(
    api_key: int, version: int, before: bytes, item: bytes
) -> None:
    body = before + pack_uvarint(2_000_001) + item * 2_000_000 + b"\x00"
    with cheap(2.0, 64 * MIB), pytest.raises(MalformedRequest):
        _ = parse_request(frame(api_key, version, body, flexible=True)).body


def test_a_tagged_field_that_lies_about_its_size_is_refused() -> None:
    replica_state = b"\x01\x01\x02" + bytes(2)
    body = bytes(21) + b"\x01\x01\x01" + replica_state
    with pytest.raises(MalformedRequest):
        _ = parse_request(frame(ApiKey.FETCH, 18, body, flexible=True)).body


def test_records_are_views_into_the_frame() -> None:
    body = b"\xff\xff" + struct.pack(">hii", 1, 1000, 1) + b"\x00\x01t"
    body += struct.pack(">iii", 1, 5, 3) + b"abc"
    received = frame(ApiKey.PRODUCE, 7, body, flexible=False)

    request = parse_request(received).body

    ((name, topic_id, ((partition, records),)),) = request.topics
    assert (name, topic_id, partition, bytes(records)) == ("t", None, 5, b"abc")
    assert records.obj is received


def test_a_body_that_cannot_be_read_stays_unreadable() -> None:
    request = parse_request(frame(ApiKey.METADATA, 0, b"", flexible=False))
    for _ in range(2):
        with pytest.raises(MalformedRequest):
            _ = request.body


@pytest.mark.parametrize(("api_key", "version"), [(999, 0), (ApiKey.METADATA, 99)])
def test_packing_what_does_not_exist_is_a_clear_error(api_key: int, version: int) -> None:
    with pytest.raises(InvalidArgument, match=f"version {version}"):
        pack_request(api_key, version, 1, None, {})


def test_a_large_request_is_read_out_of_the_buffer_it_was_received_into() -> None:
    names = [f"topic-{number}" for number in range(1000)]
    packed = pack_request(ApiKey.METADATA, 9, 1, "me", {"topics": [{"name": n} for n in names]})

    request = parse_request(memoryview(bytearray(packed))[4:])

    assert [topic.name for topic in request.body.topics] == names
