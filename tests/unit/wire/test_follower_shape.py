"""A follower's fetch is read by the shape of the one before, or not at all."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic, pack_fetch_request
from headrace.wire.follower_shape import FollowerShape
from headrace.wire.request import parse_request

TOPIC = UUID(int=7)
WANTED = FetchPartition(3, 5, 100, 5, 0, 1 << 20)


def request_of(
    *wanted: FetchPartition, session_epoch: int = 9, replica_id: int = 2
) -> FetchRequest:
    topics = [FetchTopic(None, TOPIC, list(wanted))] if wanted else []
    return FetchRequest(
        500, 1, 1 << 20, 0, topics, 77, session_epoch, replica_id=replica_id, replica_epoch=4
    )


def frame_of(request: FetchRequest, number: int = 1, version: int = 17) -> bytes:
    return pack_fetch_request(version, number, "follower", request)[4:]


def shape_of(frame: bytes) -> FollowerShape | None:
    return FollowerShape.of(frame, parse_request(frame))


@given(st.integers(0, 2**62), st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_the_next_fetch_is_read_by_what_differs(offset: int, epoch: int, number: int) -> None:
    shape = shape_of(frame_of(request_of(WANTED)))
    wanted = WANTED._replace(fetch_offset=offset)
    assert shape is not None

    asked = shape.read(frame_of(request_of(wanted, session_epoch=epoch), number))

    assert asked is not None
    assert (asked.correlation_id, asked.session_epoch, asked.fetch_offset) == (
        number,
        epoch,
        offset,
    )


def test_another_partition_and_another_end_are_told_apart() -> None:
    first = frame_of(request_of(WANTED))
    shape = shape_of(first)
    assert shape is not None
    asked = shape.read(first)
    elsewhere = shape.read(frame_of(request_of(WANTED._replace(partition=4))))
    later = shape.read(frame_of(request_of(WANTED._replace(log_start_offset=8))))

    assert asked is not None and elsewhere is not None and later is not None
    assert elsewhere.place != asked.place == later.place
    assert later.rest != asked.rest == elsewhere.rest


def test_other_fetches_have_no_shape() -> None:
    other = WANTED._replace(partition=1)

    assert shape_of(frame_of(request_of())) is None
    assert shape_of(frame_of(request_of(WANTED, other))) is None
    assert shape_of(frame_of(request_of(WANTED, replica_id=-1))) is None
    assert shape_of(frame_of(request_of(WANTED), version=14)) is None


@given(st.data())
def test_a_frame_that_differs_elsewhere_is_not_read(data: st.DataObject) -> None:
    frame = frame_of(request_of(WANTED))
    shape = shape_of(frame)
    assert shape is not None
    front_end = len(frame) - len(shape.read(frame).rest) - 8 - 26 - 4  # type: ignore[union-attr]
    at = data.draw(st.sampled_from([*range(4), *range(8, front_end)]))
    changed = bytearray(frame)
    changed[at] ^= data.draw(st.integers(1, 255))

    assert shape.read(bytes(changed)) is None
    assert shape.read(frame + b"\0") is None
