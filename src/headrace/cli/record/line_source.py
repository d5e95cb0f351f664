"""Lines of a file descriptor, as many at a time as are available."""

import os
import select
from collections.abc import Iterator

from headrace.model.error import InvalidArgument

# One batch of Kafka's default size, with room for what a record adds to its line.
CHUNK_BYTES = 900 * 1024
# Long enough for a program to write its next line, too short for a person to notice.
_LINGER_SECONDS = 0.005
LINE_MAX_BYTES = 128 * 1024 * 1024


def read_lines(descriptor: int) -> Iterator[list[bytes]]:
    """Yield lists of lines without their line feeds: a typed line at once, a file in chunks of
    about `CHUNK_BYTES`. The last line needs no line feed.

    Raises:
        InvalidArgument: a line has more than `LINE_MAX_BYTES`, so the input is no text.
    """
    rest: list[bytes] = []
    rest_bytes = 0
    for data, is_last in _chunks(descriptor):
        if is_last and data and not data.endswith(b"\n"):
            data += b"\n"
        head, feed, tail = data.rpartition(b"\n")
        if feed:
            yield (b"".join(rest) + head).split(b"\n")
            rest, rest_bytes = [], 0
        rest.append(tail)
        rest_bytes += len(tail)
        if rest_bytes > LINE_MAX_BYTES:
            raise InvalidArgument(f"a line of standard input has more than {LINE_MAX_BYTES} bytes")
    last = b"".join(rest)
    if last:
        yield [last]


def _chunks(descriptor: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the bytes that are available, and whether the input is known to end there."""
    ended = False
    while not ended:
        data = os.read(descriptor, CHUNK_BYTES)
        ended = not data
        parts, size = [data], len(data)
        while (
            not ended
            and size < CHUNK_BYTES
            and select.select([descriptor], [], [], _LINGER_SECONDS)[0]
        ):
            data = os.read(descriptor, CHUNK_BYTES - size)
            ended = not data
            parts.append(data)
            size += len(data)
        yield b"".join(parts), ended
