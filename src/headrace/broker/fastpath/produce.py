"""The shortest way of a Produce request: one that repeats an earlier one but for its records.

Theory of operation
-------------------
A producer of small batches sends the same bytes again and again: only the correlation id and the
records differ (`wire.produce_shape`). A lane remembers what those bytes led to, the partition and
the answer's bytes, so that the next such request is a comparison, an append and a send.

Rule 1: a lane serves a request completely or not at all. `None` means that nothing has happened,
and the handler takes the request, or says what is wrong with it.
Rule 2: a lane asks nobody: no authorizer, no quota, no disk. Where one of those comes into force
the lane stands aside from the very next request on. Only for replicas does an answer wait.
Rule 3: a lane is good for one version of `Topics`: whoever takes a partition away, or stops leading
it, changes that version.
"""

from struct import Struct

from headrace.broker.broker import Broker
from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.error_mapping import code_of
from headrace.broker.network.connection import Answer, Parts
from headrace.broker.replica.delayed_produce import Acknowledgement, Failures
from headrace.broker.replica.partition import Partition
from headrace.model.error import HeadraceError
from headrace.wire.api import APIS, ApiKey
from headrace.wire.framing import Frame
from headrace.wire.produce_response import (
    FIRST_LEADER_HINT,
    PlainProduceResponse,
    ProducePartitionResult,
    ProduceTopicResult,
    pack_produce_response,
)
from headrace.wire.produce_shape import CORRELATION_ID_AT, MIDDLE_AT, ProduceShape
from headrace.wire.request import Request

_MAX_LANES = 4096
_ALL = -1
_ACKS = (1, _ALL)
_NAME = APIS[ApiKey.PRODUCE].name
_correlation_id = Struct(f">{CORRELATION_ID_AT}xi").unpack_from


class ProduceLane:
    """The requests of one shape, whichever connection they come over."""

    __slots__ = ("_acks_all", "_broker", "_partition", "_response", "_shape", "_version")

    def __init__(self, broker: Broker, partition: Partition, shape: ProduceShape) -> None:
        self._broker = broker
        self._partition = partition
        self._shape = shape
        self._acks_all = shape.conditions[1] == _ALL
        self._version = broker.topics.version
        self._response = PlainProduceResponse(
            shape.version, shape.name, shape.topic_id, shape.partition
        )

    def serve(self, frame: Frame) -> Answer:
        """Append the records in `frame` and answer; or None (rule 1)."""
        broker, partition = self._broker, self._partition
        if (
            broker.topics.version != self._version
            or broker.guard.authorizer is not None
            or broker.quotas.active
        ):
            return None
        records = self._shape.records(frame)
        if records is None:
            return None
        at_once = partition.answers_at_once
        try:
            if at_once:
                appended = partition.append_plain(records)
            else:
                appended = partition.append_replicated(records, acks_all=self._acks_all)
        except HeadraceError:
            # Nothing of it is in the log; the handler fails in the same way, and answers that.
            return None
        if appended is None:
            return None
        base_offset, last_offset, append_time_ms, log_start, _, size_bytes = appended
        metrics = broker.metrics
        metrics.requests[_NAME] += 1
        metrics.produced_bytes += size_bytes
        correlation_id = _correlation_id(frame)[0]
        answer = self._response.pack(correlation_id, base_offset, append_time_ms, log_start)
        if at_once or not self._acks_all:
            return (answer,)
        return self._owe(correlation_id, answer, last_offset + 1)

    def _owe(self, correlation_id: int, answer: bytes, end: int) -> Answer:
        """The answer when all replicas in sync have the records, or word of why not."""

        def pack(failures: Failures) -> Parts:
            (error,) = failures
            return (answer if error is None else self._pack_failure(correlation_id, error),)

        safe = (self._partition.when_committed(end),)
        return Acknowledgement(
            self._broker, safe, timeout_ms=self._shape.conditions[2], pack=pack
        ).answer

    def _pack_failure(self, correlation_id: int, error: HeadraceError) -> bytes:
        shape = self._shape
        result = ProducePartitionResult(shape.partition, code_of(error), error_message=str(error))
        topic = ProduceTopicResult(shape.name, shape.topic_id, [result])
        return pack_produce_response(shape.version, correlation_id, [topic])


class ProduceLanes:
    """The lanes of a broker, found by the bytes that their requests have in common."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lanes: dict[bytes, ProduceLane] = {}

    def find(self, frame: Frame, end: int) -> ProduceLane | None:
        """The lane for a request, if its common bytes end at `end`; for none at 0."""
        return None if not end else self._lanes.get(bytes(frame[MIDDLE_AT:end]))

    def open(self, frame: Frame, request: Request) -> int:
        """Let requests like this one go the short way, if there can be one for them.

        Returns:
            where the bytes that they have in common end; 0 when there is no short way.
        """
        if self._broker.guard.authorizer is not None or self._broker.quotas.active:
            return 0
        shape = ProduceShape.of(frame, request)
        if shape is None:
            return 0
        acks = shape.conditions[1]
        partition = self._broker.topics.find(shape.name, shape.topic_id, shape.partition)
        if (
            acks not in _ACKS
            or shape.version < FIRST_LEADER_HINT
            or partition is None
            or partition.name.topic in INTERNAL
        ):
            return 0
        if len(self._lanes) >= _MAX_LANES:
            self._lanes.clear()
        self._lanes[shape.middle] = ProduceLane(self._broker, partition, shape)
        return shape.end
