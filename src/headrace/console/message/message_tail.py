"""Follows a topic: returns new records as they are written, for the live view of the page."""

import time
from types import TracebackType
from typing import Any, Final

from headrace.client.read.read_range import LogEdge, ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.console.message.message_filter import MessageFilter
from headrace.console.message.payload_renderer import PREVIEW_CHARACTERS, PayloadRenderer
from headrace.model.ids import TopicPartition

# More records than this a person cannot follow: the rest is counted and skipped.
MOST_AT_ONCE: Final = 50
_GATHER_SECONDS: Final = 0.25
_IN_FLIGHT_BYTES: Final = 4 * 1024 * 1024


class MessageTail:
    """Reads partitions from their end offsets on. For one thread at a time."""

    def __init__(
        self,
        settings: ClientSettings,
        partitions: list[TopicPartition],
        renderer: PayloadRenderer,
        message_filter: MessageFilter,
    ) -> None:
        self._renderer = renderer
        self._filter = message_filter
        self._reader = Reader(
            settings,
            dict.fromkeys(partitions, ReadRange(LogEdge.LATEST)),
            follow=True,
            batch_rows=1_000,
            columns=("offset", "timestamp", "key", "value", "headers"),
            max_bytes_in_flight=_IN_FLIGHT_BYTES,
            reset=LogEdge.LATEST,
        )

    def next_messages(self, wait_seconds: float) -> dict[str, Any] | None:
        """Return at most `MOST_AT_ONCE` new records and how many more were skipped, or None if none
        came in time.

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
            for row in self._filter.matching(chunk.columns, self._renderer):
                if len(messages) < MOST_AT_ONCE:
                    index = chunk.partition.partition
                    messages.append(row.rendered(index, self._renderer, PREVIEW_CHARACTERS))
                else:
                    skipped += 1
            left = deadline - time.monotonic()
            chunk = self._reader.poll(left) if left > 0 else None
        return {"messages": messages, "skipped": skipped}

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> "MessageTail":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
