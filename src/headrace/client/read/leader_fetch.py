"""The way to one leader: a connection of its own, and at most one fetch on its way.

One is enough: the next is sent as soon as an answer has arrived, before anyone decodes it, so that
the broker and the network are never idle for longer than a round trip. A connection of its own,
because a broker answers in order: a question about metadata would wait behind a long poll.
"""

from collections.abc import Sequence

import pyarrow as pa

from headrace.client.network.connection import BrokerConnection, PendingRequest
from headrace.client.network.metadata import BrokerMetadata
from headrace.client.read.cursor import Cursor
from headrace.client.settings import ClientSettings
from headrace.wire.api import ApiKey
from headrace.wire.fetch_request import FIRST_TOPIC_ID, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.fetch_response import FetchResponse


class LeaderFetch:
    """Asks one broker about the partitions it leads.

    Attributes:
        cursors: whom to ask about.
        asked: what the request on its way asked, in its order: the cursor and its position then.
        reserved_bytes: what it was paid for with.
        not_before: when the next request may go, as the broker told (KIP-219).
    """

    def __init__(self, broker: BrokerMetadata, settings: ClientSettings) -> None:
        self.broker = broker
        self.cursors: list[Cursor] = []
        self.asked: list[tuple[Cursor, int]] = []
        self.reserved_bytes = 0
        self.not_before = 0.0
        self._settings = settings
        self._connection: BrokerConnection | None = None
        self._pending: PendingRequest | None = None
        self._turn = 0

    @property
    def is_asking(self) -> bool:
        return self._pending is not None

    @property
    def deadline(self) -> float:
        """When the answer that is due is late."""
        assert self._connection is not None
        assert self._pending is not None
        return self._connection.deadline(self._pending)

    def fileno(self) -> int:
        assert self._connection is not None
        return self._connection.fileno()

    def wanted(self) -> list[Cursor]:
        """Those that are not done, each of them first in its turn: a broker fills its answer in the
        order of the request, and only the first is sure to get a batch of any size (KIP-74)."""
        left = [cursor for cursor in self.cursors if not cursor.done]
        if not left:
            return left
        self._turn = (self._turn + 1) % len(left)
        return left[self._turn :] + left[: self._turn]

    def ask(self, cursors: Sequence[Cursor], max_bytes: int, read_committed: bool) -> None:
        """Send a fetch, paid for with `max_bytes`.

        Raises:
            Unreachable, ConnectionLost: it could not be sent.
        """
        settings = self._settings
        if self._connection is None or self._connection.closed:
            self._connection = BrokerConnection(self.broker.address, settings, pa.allocate_buffer)
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
        self.asked = [(each, each.position) for group in by_topic.values() for each in group]
        self.reserved_bytes = max_bytes

    def answer(self) -> FetchResponse | None:
        """The answer, once it has arrived whole; its records are views of its frame.

        Raises:
            ConnectionLost, MalformedResponse: it will not come.
        """
        assert self._connection is not None
        assert self._pending is not None
        found: FetchResponse | None = self._connection.try_finish(self._pending)
        if found is not None:
            self._pending = None
        return found

    def close(self) -> None:
        """Hang up; what is on its way will not be answered."""
        self._pending = None
        if self._connection is not None:
            self._connection.close()


def _topic(name: str, cursors: Sequence[Cursor], partition_bytes: int) -> FetchTopic:
    partitions = [
        FetchPartition(
            each.partition.partition, each.leader_epoch, each.position, -1, -1, partition_bytes
        )
        for each in cursors
    ]
    return FetchTopic(name, cursors[0].topic_id, partitions)
