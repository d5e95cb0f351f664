"""The fast path of a follower: from a response like the last one to a request like the last one.

The other end of `fastpath.leader_fetch`. A follower in step receives the next records of a
partition that it has fetched before. It appends them, and its next request, which reports its new
log end, differs from the one before in its numbers only.

Rule 1: the fast path takes a response completely or declines it. `None` means that nothing has
happened, and the fetcher takes the response, or reports what is wrong with it.
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
    """What was appended, and the next request: its bytes, and the partition in it."""

    topic_id: UUID
    size_bytes: int
    requested: FetchPartition
    request: bytes


class _Requested:
    """The last request for a partition; `place` and `tail` are parts of its bytes
    (`wire.follower_shape`)."""

    __slots__ = ("follower", "place", "requested", "tail")

    def __init__(
        self, follower: Follower, place: bytes, requested: FetchPartition, tail: bytes
    ) -> None:
        self.follower = follower
        self.place = place
        self.requested = requested
        self.tail = tail


class FastFollower:
    """Copies partitions from one leader over one connection."""

    def __init__(self) -> None:
        self._shape: FollowerShape | None = None
        self._replica_epoch = -1
        self._last: dict[tuple[bytes, int], _Requested] = {}

    def forget(self) -> None:
        """Decline until the next `learn`: the partitions or the session have changed."""
        self._shape = None
        self._last.clear()

    def learn(self, frame: bytes, request: FetchRequest, follower: Follower) -> None:
        """Make requests like this one, which was sent with its size in front. It names one
        partition."""
        frame = frame[4:]
        shape = FollowerShape.of(frame, parse_request(frame))
        asked = None if shape is None else shape.read(frame)
        if shape is None or asked is None:
            return
        if shape != self._shape or request.replica_epoch != self._replica_epoch:
            self.forget()
            self._shape, self._replica_epoch = shape, request.replica_epoch
        requested = request.topics[0].partitions[0]
        key = (follower.topic_id.bytes, requested.partition)
        self._last[key] = _Requested(follower, asked.place, requested, asked.tail)

    def serve(
        self,
        frame: memoryview,
        correlation_id: int,
        session_id: int,
        session_epoch: int,
        replica_epoch: int,
    ) -> Copied | None:
        """Append the records in the response to request `correlation_id`, and make the next
        request, with the next number and this epoch of the session; or return None (rule 1)."""
        shape = self._shape
        if shape is None or replica_epoch != self._replica_epoch:
            return None
        answer = read_follower_answer(frame)
        if answer is None:
            return None
        answered, session, topic_id, index, high_watermark, _, log_start, records = answer
        last = self._last.get((topic_id, index))
        if last is None or (answered, session) != (correlation_id, session_id):
            return None
        follower, requested = last.follower, last.requested
        if (
            follower.leader_epoch != requested.current_leader_epoch
            or follower.log.log_end_offset != requested.fetch_offset
            or follower.log.config.follower_replication_throttled_replicas
        ):
            return None
        try:
            size = follower.append(records, high_watermark, log_start)
        except HeadraceError:
            # Nothing of it is in the log; the fetcher fails in the same way, and handles that.
            return None
        log = follower.log
        last.requested = requested = _new(
            FetchPartition,
            (
                index,
                requested.current_leader_epoch,
                log.log_end_offset,
                follower.last_epoch,
                log.log_start_offset,
                requested.max_bytes,
            ),
        )
        request = shape.pack(correlation_id + 1, session_epoch, last.place, requested, last.tail)
        return _new(Copied, (follower.topic_id, size, requested, request))
