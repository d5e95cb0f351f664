"""The fast path of Produce requests that repeat an earlier one but for their records.

Theory of operation
-------------------
A producer of small batches sends the same bytes again and again: only the correlation id and the
records differ (`wire.produce_shape`). A `FastProduce` remembers what those bytes led to, the
partition and the bytes of the response, so that the next such request is a comparison, an append
and a send.

Rule 1: the fast path serves a request completely or declines it. `None` means that nothing has
happened, and the handler serves the request, or answers what is wrong with it.
Rule 2: the fast path needs no authorizer, no quota and no disk. Where one of those comes into force
it declines from the very next request on. A response waits for other replicas only.
Rule 3: a `FastProduce` is good for one version of `TopicTable`: that version changes whenever a
partition is removed, or this broker stops leading it.
"""

from headrace.broker.broker import Broker
from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.error_mapping import code_of
from headrace.broker.network.connection import Answer, Parts
from headrace.broker.refusal_log import log_refused_request, refusals_are_logged
from headrace.broker.refused_part import RefusedPart
from headrace.broker.replica.delayed_produce import DelayedProduce, Failures
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
from headrace.wire.produce_shape import MIDDLE_AT, ProduceShape
from headrace.wire.request import Request

_MAX_SHAPES = 4096
_ALL = -1
_ACKS = (1, _ALL)
_NAME = APIS[ApiKey.PRODUCE].name


class FastProduce:
    """Serves the requests of one shape, whichever connection they come over."""

    __slots__ = (
        "_acks_all",
        "_broker",
        "_guard",
        "_opening",
        "_partition",
        "_quotas",
        "_requests",
        "_response",
        "_shape",
        "_topics",
        "_traffic",
        "_version",
    )

    def __init__(self, broker: Broker, partition: Partition, shape: ProduceShape) -> None:
        self._broker = broker
        self._guard = broker.guard
        self._quotas = broker.quotas
        self._opening = broker.batch_opener.opening
        self._requests = broker.metrics.requests
        self._partition = partition
        self._traffic = partition.traffic
        self._shape = shape
        self._acks_all = shape.conditions[1] == _ALL
        self._topics = broker.topics
        self._version = broker.topics.version
        self._response = PlainProduceResponse(
            shape.version, shape.name, shape.topic_id, shape.partition
        )

    def serve(self, frame: Frame) -> Answer:
        """Append the records in `frame` and answer, or return None (rule 1)."""
        partition = self._partition
        if (
            self._topics.version != self._version
            or self._guard.authorizer is not None
            or self._quotas.active
            or (self._opening and partition.name in self._opening)
        ):
            return None
        found = self._shape.records(frame)
        if found is None:
            return None
        correlation_id, records = found
        appended = partition.append_plain(records, acks_all=self._acks_all)
        if appended is None:
            return None
        base_offset, last_offset, append_time_ms, log_start, _, size_bytes = appended
        self._requests[_NAME] += 1
        traffic = self._traffic
        traffic.bytes_in += size_bytes
        traffic.records_in += last_offset - base_offset + 1
        response = self._response.pack(correlation_id, base_offset, append_time_ms, log_start)
        if not self._acks_all or partition.state.alone:
            return (response,)
        return self._delay(correlation_id, response, last_offset + 1)

    def _delay(self, correlation_id: int, response: bytes, end: int) -> Answer:
        """Answer when all replicas in sync have the records, or why they never will."""

        def pack(failures: Failures) -> Parts:
            (error,) = failures
            return (response if error is None else self._pack_failure(correlation_id, error),)

        safe = (self._partition.when_committed(end),)
        return DelayedProduce(
            self._broker, safe, timeout_ms=self._shape.conditions[2], pack=pack
        ).response

    def _pack_failure(self, correlation_id: int, error: HeadraceError) -> bytes:
        shape = self._shape
        code = code_of(error)
        self._broker.metrics.errors[_NAME, code] += 1
        if refusals_are_logged():
            refused = RefusedPart(str(self._partition.name), code, str(error))
            log_refused_request(_NAME, [refused], version=shape.version, client=_client(shape))
        result = ProducePartitionResult(shape.partition, code, error_message=str(error))
        topic = ProduceTopicResult(shape.name, shape.topic_id, [result])
        return pack_produce_response(shape.version, correlation_id, [topic])


def _client(shape: ProduceShape) -> str:
    """Return the client's id, with which the bytes that requests have in common begin."""
    size = int.from_bytes(shape.middle[:2], signed=True)
    return bytes(shape.middle[2 : 2 + max(0, size)]).decode(errors="replace")


class FastProduceCache:
    """Every `FastProduce` of a broker, by the bytes that its requests have in common."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_middle: dict[bytes, FastProduce] = {}

    def find(self, frame: Frame, end: int) -> FastProduce | None:
        """Return the fast path of a request whose common bytes end at `end`; none for 0."""
        if not end:
            return None
        middle = frame[MIDDLE_AT:end]
        return self._by_middle.get(middle if type(middle) is bytes else bytes(middle))

    def learn(self, frame: Frame, request: Request) -> int:
        """Serve requests like this one from now on, if the fast path can.

        Returns:
            where the bytes that they have in common end; 0 when the fast path would decline them.
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
        if len(self._by_middle) >= _MAX_SHAPES:
            self._by_middle.clear()
        self._by_middle[shape.middle] = FastProduce(self._broker, partition, shape)
        return shape.end
