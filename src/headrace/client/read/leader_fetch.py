"""The fetches from one leader: a connection of its own, and at most one fetch in flight.

One is enough: the next is sent as soon as a response has arrived, before it is decoded, so that the
broker and the network are never idle for longer than a round trip. The connection is its own
because a broker responds in order: a Metadata request would wait behind a fetch that waits for
records.
"""

from collections.abc import Sequence

import pyarrow as pa

from headrace.client.network.connection import BrokerConnection, PendingRequest
from headrace.client.network.idle_connection import IDLE
from headrace.client.network.metadata import BrokerMetadata
from headrace.client.read.cursor import Cursor
from headrace.client.settings import ClientSettings
from headrace.wire.api import ApiKey
from headrace.wire.fetch_request import FIRST_TOPIC_ID, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.fetch_response import FetchResponse


class LeaderFetch:
    """Fetches the partitions that one broker leads.

    Attributes:
        cursors: the partitions to fetch.
        requested: the cursors of the request in flight, in its order, with their positions then.
        reserved_bytes: what the request in flight reserved in the budget.
        not_before: when the broker's throttling allows the next request (KIP-219).
    """

    def __init__(self, broker: BrokerMetadata, settings: ClientSettings) -> None:
        self.broker = broker
        self.cursors: list[Cursor] = []
        self.requested: list[tuple[Cursor, int]] = []
        self.reserved_bytes = 0
        self.not_before = 0.0
        self._settings = settings
        self._connection: BrokerConnection | None = None
        self._pending: PendingRequest | None = None
        self._turn = 0

    @property
    def in_flight(self) -> bool:
        """Whether a fetch has been sent and its response has not arrived."""
        return self._pending is not None

    @property
    def deadline(self) -> float:
        """When to give up on the response."""
        assert self._connection is not None
        assert self._pending is not None
        return self._connection.deadline(self._pending)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        assert self._connection is not None
        return self._connection.fileno()

    def unfinished_cursors(self) -> list[Cursor]:
        """Return the cursors that are not done, rotated by one at each call.

        A broker fills its response in the order of the request, and only the first partition is
        sure to get a batch of any size (KIP-74). So each cursor is first in its turn.
        """
        left = [cursor for cursor in self.cursors if not cursor.done]
        if not left:
            return left
        self._turn = (self._turn + 1) % len(left)
        return left[self._turn :] + left[: self._turn]

    def send(self, cursors: Sequence[Cursor], max_bytes: int, read_committed: bool) -> None:
        """Send a fetch for at most `max_bytes`, which the caller has reserved.

        Raises:
            Unreachable, ConnectionLost: the fetch could not be sent.
        """
        settings = self._settings
        if self._connection is None or self._connection.closed:
            self._connection = IDLE.open(self.broker.address, settings, pa.allocate_buffer)
        wait_ms = settings.fetch_max_wait_ms if any(each.may_wait for each in cursors) else 0
        partition_bytes = min(settings.partition_max_bytes, max_bytes)
        by_topic: dict[str, list[Cursor]] = {}
        for cursor in cursors:
            by_topic.setdefault(cursor.partition.topic, []).append(cursor)
        topics = [_topic(name, each, partition_bytes) for name, each in by_topic.items()]
        request = FetchRequest(wait_ms, 1, max_bytes, int(read_committed), topics)
        by_name = any(topic.topic_id is None for topic in topics)
        self._pending = self._connection.begin(
            ApiKey.FETCH,
            request,
            highest=FIRST_TOPIC_ID - 1 if by_name else None,
            wait_ms=wait_ms,
        )
        self.requested = [(each, each.position) for group in by_topic.values() for each in group]
        self.reserved_bytes = max_bytes

    def receive(self) -> FetchResponse | None:
        """Return the response once it has arrived whole. Its records are views of its frame.

        Raises:
            ConnectionLost, MalformedResponse: no usable response will come.
        """
        assert self._connection is not None
        assert self._pending is not None
        response: FetchResponse | None = self._connection.try_finish(self._pending)
        if response is not None:
            self._pending = None
        return response

    def close(self) -> None:
        """Disconnect. The response to a fetch in flight is not received any more."""
        self._pending = None
        connection, self._connection = self._connection, None
        if connection is not None:
            IDLE.release(connection)


def _topic(name: str, cursors: Sequence[Cursor], partition_bytes: int) -> FetchTopic:
    partitions = [
        FetchPartition(
            each.partition.partition, each.leader_epoch, each.position, -1, -1, partition_bytes
        )
        for each in cursors
    ]
    return FetchTopic(name, cursors[0].topic_id, partitions)
