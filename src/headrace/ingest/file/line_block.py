"""Lines of a file as one piece of memory, found all at once instead of one by one.

Rule 1: the lines are the same as those of `read_lines`, and the positions too.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headrace.ingest.packed_bodies import Int64s, PackedBodies

_LINE_FEED = ord("\n")
_RETURN = ord("\r")


class LineBlock(NamedTuple):
    """Lines without their ends, and where each ends in the file.

    Attributes:
        start: the position of the first line.
        ends: the position after each line, counted from `start`.
        data: the bytes from `start` on that were read, as they are in the file.
    """

    bodies: PackedBodies
    start: int
    ends: Int64s
    data: memoryview

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.start + int(self.ends[-1])

    def pieces(self, limit: int) -> Iterator["LineBlock"]:
        """Yield blocks of at most `limit` lines."""
        count = len(self.bodies)
        if count <= limit:
            yield self
            return
        begin = 0
        for first in range(0, count, limit):
            last = min(count, first + limit)
            ends = self.ends[first:last] - begin
            yield LineBlock(
                self.bodies.cut(first, last),
                self.start + begin,
                ends,
                self.data[begin : begin + int(ends[-1])],
            )
            begin += int(ends[-1])


def read_block(
    descriptor: int, position: int, *, read_bytes: int, longest: int
) -> LineBlock | None:
    """Return the lines that end in the next `read_bytes`.

    Returns:
        None if no line ends there, or one is longer than `longest`: `read_lines` handles those.
    """
    data = os.pread(descriptor, read_bytes, position)
    size = data.rfind(b"\n") + 1
    if not size:
        return None
    octets = np.frombuffer(data, dtype=np.uint8, count=size)
    feeds = np.flatnonzero(octets == _LINE_FEED)
    ends = feeds + 1
    sizes = np.diff(ends, prepend=0) - 1
    if size > longest and int(sizes.max()) > longest:
        return None
    content = data[:size]
    if b"\r" in data:
        # Of a first line that is empty nothing precedes the line feed: then it is its own.
        sizes -= octets[np.maximum(feeds - 1, 0)] == _RETURN
        content = content.replace(b"\r\n", b"")
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    packed = PackedBodies(content.replace(b"\n", b""), offsets)
    return LineBlock(packed, position, ends, memoryview(data)[:size])
