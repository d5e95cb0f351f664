"""Reading a follower's next fetch by the shape of its last one.

A follower in step names one partition in a fetch, the one whose records it has just appended. The
bytes of that request are those of an earlier one but for three numbers (see `produce_shape`):

    key, version | correlation id | front: client id ... session id | session epoch
    | place: topic, partition, leader epoch | fetch offset | rest: last epoch ... tags

A frame that differs anywhere else is read in full. The follower makes its requests the same way.
"""

from struct import Struct
from typing import Final, NamedTuple

from headrace.wire.api import ApiKey
from headrace.wire.fetch_request import FIRST_REPLICA_STATE, FetchPartition, FetchRequest
from headrace.wire.primitive import Frame
from headrace.wire.request import Request

_KEY_BYTES: Final = 4  # and the version
_FRONT_AT: Final = 8
_EPOCH_BYTES: Final = 4
_OFFSET_BYTES: Final = 8
# One topic by its id with one partition: an array's length is sent plus one.
_PLACE: Final = Struct(">B16sBii")
_ONE: Final = 2
_NUMBERS: Final = Struct(">iqi")  # last epoch, log start, max bytes
_LIMITS_BYTES: Final = 13
_SESSION_ID_BYTES: Final = 4
_MAX_BYTES: Final = 1024


class FollowerFetchRequest(NamedTuple):
    """The numbers in which a follower's fetches differ, and the bytes around the fetch offset."""

    correlation_id: int
    session_epoch: int
    place: bytes
    fetch_offset: int
    rest: bytes

    @property
    def tail(self) -> bytes:
        """The bytes behind the partition's numbers."""
        return self.rest[_NUMBERS.size :]


class FollowerShape:
    """The bytes that all fetches of a follower over one connection have in common."""

    __slots__ = ("_front", "_key", "_length", "_pack", "_unpack")

    def __init__(self, key: bytes, front: bytes, length: int) -> None:
        """Use `of`."""
        self._key = key
        self._front = front
        self._length = length
        rest = length - _FRONT_AT - len(front) - _EPOCH_BYTES - _PLACE.size - _OFFSET_BYTES
        self._unpack = Struct(f">4xi{len(front)}xi{_PLACE.size}sq{rest}s").unpack
        tail = rest - _NUMBERS.size
        self._pack = Struct(f">i4si{len(front)}si{_PLACE.size}sqiqi{tail}s").pack

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FollowerShape) and (
            (self._key, self._front, self._length) == (other._key, other._front, other._length)
        )

    def __hash__(self) -> int:
        return hash((self._key, self._front, self._length))

    @classmethod
    def of(cls, frame: Frame, request: Request) -> "FollowerShape | None":
        """Return the shape of a fetch that was read from `frame`; None when it cannot repeat."""
        header = request.header
        if (
            header.api_key != ApiKey.FETCH
            or header.api_version < FIRST_REPLICA_STATE
            or type(frame) is not bytes
            or len(frame) > _MAX_BYTES
        ):
            return None
        body: FetchRequest = request.body
        if len(body.topics) != 1 or len(body.topics[0].partitions) != 1 or body.forgotten:
            return None
        topic_id = body.topics[0].topic_id
        if body.replica_id < 0 or topic_id is None:
            return None
        requested = body.topics[0].partitions[0]
        place = (_ONE, topic_id.bytes, _ONE, requested.partition, requested.current_leader_epoch)
        # The client id is followed by the byte of a header without tagged fields, or this is none.
        client_id = 0 if header.client_id is None else len(header.client_id.encode())
        front_bytes = 2 + client_id + 1 + _LIMITS_BYTES + _SESSION_ID_BYTES
        place_at = _FRONT_AT + front_bytes + _EPOCH_BYTES
        if frame[place_at : place_at + _PLACE.size] != _PLACE.pack(*place):
            return None
        front = frame[_FRONT_AT : _FRONT_AT + front_bytes]
        shape = cls(frame[:_KEY_BYTES], front, len(frame))
        repeated = shape.read(frame)
        if (
            repeated is None
            or repeated.session_epoch != body.session_epoch
            or repeated.fetch_offset != requested.fetch_offset
        ):
            return None
        return shape

    def read(self, frame: Frame) -> FollowerFetchRequest | None:
        """Return what a frame asks for, if it has this shape; otherwise None."""
        if (
            len(frame) != self._length
            or type(frame) is not bytes
            or not frame.startswith(self._key)
            or not frame.startswith(self._front, _FRONT_AT)
        ):
            return None
        return tuple.__new__(FollowerFetchRequest, self._unpack(frame))

    def pack(
        self,
        correlation_id: int,
        session_epoch: int,
        place: bytes,
        requested: FetchPartition,
        tail: bytes,
    ) -> bytes:
        """Return a request of this shape with its size in front."""
        return self._pack(
            self._length,
            self._key,
            correlation_id,
            self._front,
            session_epoch,
            place,
            *requested[2:],
            tail,
        )
