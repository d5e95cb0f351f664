"""Whatever a shape reads is what reading in full gives, and damage is left to the full reader."""

from struct import Struct
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.error import PeerError
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from headrace.wire.produce_shape import ProduceShape
from headrace.wire.request import Request, parse_request

_SIZES = st.sampled_from([0, 1, 61, 126, 127, 128, 200, 16382, 16383, 16384, 70_000])


def frame_of(
    version: int,
    *,
    correlation_id: int = 1,
    client_id: str | None = "clicks",
    acks: int = 1,
    topic: str = "clicks",
    partition: int = 0,
    records: bytes | None = b"records",
) -> bytes:
    rows = [ProducePartition(partition, None if records is None else memoryview(records))]
    by_id = version >= 13
    named = ProduceTopic(None if by_id else topic, UUID(int=7) if by_id else None, rows)
    request = ProduceRequest(None, acks, 30_000, [named])
    return b"".join(pack_produce_request(version, correlation_id, client_id, request))[4:]


def shape_of(frame: bytes) -> ProduceShape | None:
    return ProduceShape.of(frame, parse_request(frame))


def content_of(request: Request) -> tuple[object, object]:
    return request.header, request.body


@settings(deadline=None)
@given(
    version=st.integers(9, 13),
    first=_SIZES,
    second=_SIZES,
    correlation_id=st.integers(-(2**31), 2**31 - 1),
)
def test_the_next_request_of_a_producer_is_read_as_in_full(
    version: int, first: int, second: int, correlation_id: int
) -> None:
    shape = shape_of(frame_of(version, records=b"a" * first))
    following = frame_of(version, correlation_id=correlation_id, records=b"b" * second)

    assert shape is not None
    request = shape.read(following)

    assert request is not None
    assert content_of(request) == content_of(parse_request(following))


@settings(deadline=None)
@given(frame=st.data(), version=st.integers(9, 13))
def test_a_frame_that_differs_by_a_byte_is_read_the_same_or_not_at_all(
    frame: st.DataObject, version: int
) -> None:
    usual = frame_of(version, records=b"x" * 150)
    shape = shape_of(usual)
    damaged = bytearray(usual)
    damaged[frame.draw(st.integers(0, len(usual) - 1))] = frame.draw(st.integers(0, 255))
    cut = bytes(damaged[: frame.draw(st.integers(0, len(damaged)))])

    assert shape is not None
    for each in (bytes(damaged), cut):
        request = shape.read(each)
        if request is not None:
            assert content_of(request) == content_of(parse_request(each))


def test_another_topic_client_or_version_has_another_shape() -> None:
    shape = shape_of(frame_of(11))

    assert shape is not None
    for other in (
        frame_of(11, topic="views!"),
        frame_of(11, client_id="hits!!"),
        frame_of(11, partition=1),
        frame_of(11, acks=-1),
        frame_of(12),
    ):
        assert shape.read(other) is None


def test_what_does_not_repeat_itself_has_no_shape() -> None:
    several = ProduceTopic("clicks", None, [ProducePartition(each, None) for each in (0, 1)])
    request = ProduceRequest(None, 1, 30_000, [several])
    frame = b"".join(pack_produce_request(11, 1, None, request))[4:]

    assert shape_of(frame) is None
    assert shape_of(frame_of(8)) is None
    assert shape_of(frame_of(11, records=None)) is None
    assert shape_of(frame_of(11, client_id="x" * 1000)) is None


def test_records_longer_than_the_frame_are_left_to_the_full_reader() -> None:
    frame = frame_of(11, records=b"x" * 100)
    shape = shape_of(frame)
    at = frame.index(b"x" * 100) - 1
    claims_more = frame[:at] + Struct(">B").pack(120) + frame[at + 1 :]

    assert shape is not None
    assert shape.read(claims_more) is None
    try:
        _ = parse_request(claims_more).body
    except PeerError:
        return
    raise AssertionError("a request that claims more than is there was read")
