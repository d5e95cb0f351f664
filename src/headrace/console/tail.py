"""New records of a topic as they come, for a page that watches."""

import time
from types import TracebackType
from typing import Any, Final

from headrace.client.read.read_range import Offset, ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.console.message import Filter, matching
from headrace.console.payload import PREVIEW_LETTERS, Painter
from headrace.model.ids import TopicPartition

# What a person can still follow; the rest is counted and passed over.
MOST_AT_ONCE: Final = 50
_GATHER_SECONDS: Final = 0.25
_IN_FLIGHT_BYTES: Final = 4 * 1024 * 1024


class Tail:
    """Follows partitions from their ends on. For one thread at a time."""

    def __init__(
        self,
        settings: ClientSettings,
        partitions: list[TopicPartition],
        painter: Painter,
        wanted: Filter,
    ) -> None:
        self._painter = painter
        self._wanted = wanted
        self._reader = Reader(
            settings,
            dict.fromkeys(partitions, ReadRange(Offset.LATEST)),
            follow=True,
            batch_rows=1_000,
            columns=("offset", "timestamp", "key", "value", "headers"),
            max_bytes_in_flight=_IN_FLIGHT_BYTES,
            reset=Offset.LATEST,
        )

    def take(self, wait_seconds: float) -> dict[str, Any] | None:
        """What came: at most `MOST_AT_ONCE` records and how many were passed over; None: nothing.

        Raises:
            ClientError: the topic cannot be read any more.
        """
        chunk = self._reader.poll(wait_seconds)
        if chunk is None:
            return None
        messages: list[dict[str, Any]] = []
        skipped = 0
        deadline = time.monotonic() + _GATHER_SECONDS
        while chunk is not None:
            for row in matching(chunk.columns, self._wanted, self._painter):
                if len(messages) < MOST_AT_ONCE:
                    index = chunk.partition.partition
                    messages.append(row.painted(index, self._painter, PREVIEW_LETTERS))
                else:
                    skipped += 1
            left = deadline - time.monotonic()
            chunk = self._reader.poll(left) if left > 0 else None
        return {"messages": messages, "skipped": skipped}

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> "Tail":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
