"""Follows the borders of frames, pure: what has begun and is not complete.

`h2` says nothing of a frame or a head until it is complete.

    3 bytes          1 byte   1 byte   4 bytes     ...
    payload length   type     flags    stream id   payload
"""

from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

_HEADER_BYTES: Final = 9
_HEADERS: Final = 1
_CONTINUATION: Final = 9
_END_HEADERS: Final = 4


class FrameWatch:
    """What one client has sent, from its greeting on.

    Attributes:
        begun: frames that have begun; a head counts once, with its continuations.
        head_bytes: of a head that is not complete.
    """

    def __init__(self) -> None:
        self._rest = len(PREFACE)
        self._header = b""
        self._in_head = False
        self.begun = 0
        self.head_bytes = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether the greeting, a frame or a head is not complete."""
        return bool(not self.begun or self._rest or self._header or self._in_head)

    def add(self, data: bytes) -> None:
        """Take what the client has sent next."""
        at = 0
        while at < len(data):
            if self._rest:
                step = min(self._rest, len(data) - at)
                self._rest -= step
                at += step
                continue
            header = self._header + data[at : at + _HEADER_BYTES - len(self._header)]
            at += len(header) - len(self._header)
            self._header = header
            if len(header) == _HEADER_BYTES:
                self._header = b""
                self._begin(int.from_bytes(header[:3]), header[3], header[4])

    def _begin(self, size: int, kind: int, flags: int) -> None:
        self._rest = size
        if kind != _CONTINUATION:
            self.begun += 1
            self.head_bytes = 0
        if kind in (_HEADERS, _CONTINUATION):
            self.head_bytes += size
            self._in_head = not flags & _END_HEADERS
