"""The shortest way of a follower: from an answer like the last one to a request like the last one.

The other end of `replica_lane`. A follower in step is answered with the next records of a partition
that it has asked for before: they are appended, and the request that says so differs from the one
before in its numbers only.

Rule 1: a lane takes an answer completely or not at all. `None` means that nothing has happened, and
the fetcher takes it, or says what is wrong with it.
"""

from typing import NamedTuple
from uuid import UUID

from headrace.broker.replica.follower import Follower
from headrace.model.error import HeadraceError
from headrace.wire.fetch_request import FetchPartition, FetchRequest
from headrace.wire.follower_answer import read_follower_answer
from headrace.wire.follower_shape import FollowerShape
from headrace.wire.request import parse_request

_new = tuple.__new__


class Copied(NamedTuple):
    """What was appended, and what comes next."""

    topic_id: UUID
    size_bytes: int
    wanted: FetchPartition
    request: bytes


class _Place:
    """A partition that was asked for."""

    __slots__ = ("follower", "place", "tail", "wanted")

    def __init__(
        self, follower: Follower, place: bytes, wanted: FetchPartition, tail: bytes
    ) -> None:
        self.follower = follower
        self.place = place
        self.wanted = wanted
        self.tail = tail


class FollowerLane:
    """The partitions copied from one leader over one connection."""

    def __init__(self) -> None:
        self._shape: FollowerShape | None = None
        self._replica_epoch = -1
        self._places: dict[tuple[bytes, int], _Place] = {}

    def forget(self) -> None:
        """What is followed, or the session, has changed."""
        self._shape = None
        self._places.clear()

    def learn(self, frame: bytes, request: FetchRequest, follower: Follower) -> None:
        """This request, with its size in front, was sent; it asks for one partition."""
        frame = frame[4:]
        shape = FollowerShape.of(frame, parse_request(frame))
        asked = None if shape is None else shape.read(frame)
        if shape is None or asked is None:
            return
        if shape != self._shape or request.replica_epoch != self._replica_epoch:
            self.forget()
            self._shape, self._replica_epoch = shape, request.replica_epoch
        wanted = request.topics[0].partitions[0]
        key = (follower.topic_id.bytes, wanted.partition)
        self._places[key] = _Place(follower, asked.place, wanted, asked.tail)

    def serve(
        self,
        frame: memoryview,
        correlation_id: int,
        session_id: int,
        session_epoch: int,
        replica_epoch: int,
    ) -> Copied | None:
        """Append what the answer to request `correlation_id` brings, and make the next request,
        with the next number and this epoch of the session; or None (rule 1)."""
        shape = self._shape
        if shape is None or replica_epoch != self._replica_epoch:
            return None
        answer = read_follower_answer(frame)
        if answer is None:
            return None
        answered, session, topic_id, index, high_watermark, _, log_start, records = answer
        place = self._places.get((topic_id, index))
        if place is None or (answered, session) != (correlation_id, session_id):
            return None
        follower, wanted = place.follower, place.wanted
        if (
            follower.leader_epoch != wanted.current_leader_epoch
            or follower.log.config.follower_replication_throttled_replicas
        ):
            return None
        try:
            size = follower.append(records, high_watermark, log_start)
        except HeadraceError:
            # Nothing of it is in the log; the fetcher fails in the same way, and knows what to do.
            return None
        log = follower.log
        place.wanted = wanted = _new(
            FetchPartition,
            (
                index,
                wanted.current_leader_epoch,
                log.log_end_offset,
                follower.last_epoch,
                log.log_start_offset,
                wanted.max_bytes,
            ),
        )
        request = shape.pack(correlation_id + 1, session_epoch, place.place, wanted, place.tail)
        return _new(Copied, (follower.topic_id, size, wanted, request))
