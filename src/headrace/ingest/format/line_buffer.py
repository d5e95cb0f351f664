"""Splits a stream of bytes into lines."""


class LineBuffer:
    """Keeps the beginning of a line until its end is received.

    >>> buffer = LineBuffer(10)
    >>> buffer.feed(b"one\\ntw")
    [b'one']
    >>> buffer.feed(b"o\\n"), buffer.overlong
    ([b'two'], False)

    Attributes:
        overlong: the unfinished line is longer than `limit`. The caller must then cut it
            (`take_rest`) or close the stream.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""

    @property
    def overlong(self) -> bool:
        return len(self._rest) > self._limit

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the finished lines, without their line feeds."""
        lines = (self._rest + data if self._rest else data).split(b"\n")
        self._rest = lines.pop()
        return lines

    def take_rest(self) -> bytes:
        """Remove and return the unfinished line."""
        rest, self._rest = self._rest, b""
        return rest
