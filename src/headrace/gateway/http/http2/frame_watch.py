"""Cuts what a client sends at the borders of its frames, pure.

`h2` takes any bytes, and says nothing of a frame or a head until it is complete. Frame by frame,
its user can count them before `h2` works on them, and keep some of them from it.

    3 bytes          1 byte   1 byte   4 bytes     ...
    payload length   type     flags    stream id   payload
"""

from typing import Final

from h2.exceptions import FrameTooLargeError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA: Final = 0
HEADERS: Final = 1
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

_HEADER_BYTES: Final = 9
_MOST_PAYLOAD_BYTES: Final = 16_384
_END_HEADERS: Final = 4


class FrameWatch:
    """What one client has sent, from the connection preface on.

    Attributes:
        kind: type of the frame that the last piece is of; None for the preface.
        is_first: whether that piece was the first one of its frame.
        begun: frames that have begun; a head counts once, with its continuations.
        head_bytes: of a head that is not complete.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._rest = len(PREFACE)
        self._in_head = False
        self.kind: int | None = None
        self.is_first = False
        self.begun = 0
        self.head_bytes = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether the preface, a frame or a head is not complete. All pieces have been taken."""
        return bool(not self.begun or self._rest or self._waiting or self._in_head)

    def add(self, data: bytes) -> None:
        """Keep what the client has sent next."""
        self._waiting += data

    def next_piece(self) -> bytes | None:
        """Return a frame, or what has come of it; None if no more has come.

        Raises:
            FrameTooLargeError: a frame begins that is larger than we allow.
        """
        self.is_first = not self._rest
        if self.is_first:
            if len(self._waiting) < _HEADER_BYTES:
                return None
            self._begin(int.from_bytes(self._waiting[:3]), self._waiting[3], self._waiting[4])
            self._rest += _HEADER_BYTES
        piece = bytes(self._waiting[: self._rest])
        del self._waiting[: len(piece)]
        self._rest -= len(piece)
        return piece or None

    def _begin(self, size: int, kind: int, flags: int) -> None:
        if size > _MOST_PAYLOAD_BYTES:
            raise FrameTooLargeError(f"a frame of {size} bytes")
        self._rest = size
        self.kind = kind
        if kind != CONTINUATION:
            self.begun += 1
            self.head_bytes = 0
        if kind in (HEADERS, CONTINUATION):
            self.head_bytes += size
            self._in_head = not flags & _END_HEADERS
