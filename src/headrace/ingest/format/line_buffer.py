"""Cutting lines out of a stream of bytes."""


class LineBuffer:
    """Keeps the beginning of a line until its end comes; at most `limit` bytes of it.

    >>> buffer = LineBuffer(10)
    >>> buffer.feed(b"one\\ntw")
    [b'one']
    >>> buffer.feed(b"o\\n"), buffer.overlong
    ([b'two'], False)

    Attributes:
        overlong: the line that has begun is longer than `limit`. Nothing is kept past it: whoever
            feeds the buffer cuts the line (`take_rest`) or gives up.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""

    @property
    def overlong(self) -> bool:
        return len(self._rest) > self._limit

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends."""
        lines = (self._rest + data if self._rest else data).split(b"\n")
        self._rest = lines.pop()
        return lines

    def take_rest(self) -> bytes:
        """What has come of the line that has not ended."""
        rest, self._rest = self._rest, b""
        return rest
