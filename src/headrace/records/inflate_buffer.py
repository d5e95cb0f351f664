"""Memory that compressed batches are inflated into, one after the other."""

from mmap import mmap
from threading import local
from typing import Final

from headrace.records.batch import Buffer
from headrace.records.compression import (
    Codec,
    guess_inflated_bytes,
    inflate,
    inflate_into,
    inflates_to_more,
)

KEPT_BYTES: Final = 4 * 1024 * 1024
"""How much each thread keeps: four times the largest batch that a topic takes by default."""


class InflateBuffer(local):
    """Inflates for those who look at a batch and forget it.

    New memory for each batch means pages that are filled with zeros first, and a guess of the size:
    where it was too small, the batch is inflated twice. Here the pages stay, and there is nothing
    to guess. A batch that does not fit gets memory of its own.

    Threads: any; each has its own memory, from its first batch on.

    Example:
        rows = InflateBuffer().inflate(Codec.ZSTD, batch.records, 1024 * 1024)
    """

    def __init__(self) -> None:
        self._kept = memoryview(mmap(-1, KEPT_BYTES))

    def inflate(self, codec: Codec, data: Buffer, max_inflated_bytes: int) -> memoryview:
        """Return the inflated bytes. They are good until this thread's next call.

        Raises:
            BatchTooLarge: there are more than `max_inflated_bytes`; never that much was held.
            CorruptBatch: the bytes are not what the codec writes.
        """
        if codec is not Codec.NONE and guess_inflated_bytes(codec, data) <= KEPT_BYTES:
            room = self._kept[:max_inflated_bytes]
            size = inflate_into(codec, data, room)
            if size is not None:
                return room[:size]
            if max_inflated_bytes <= KEPT_BYTES:
                raise inflates_to_more(codec, data, max_inflated_bytes)
        return inflate(codec, data, max_inflated_bytes)
