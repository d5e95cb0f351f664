"""Cuts a connection's byte stream into frames: a size as int32, then that many bytes.

Made for asyncio's `BufferedProtocol`, without knowing it: `get_buffer` says where to receive,
`buffer_updated` says what became whole.

Rule 1: a size is checked when its four bytes are there, before anything is allocated for it.
Rule 2: memory follows bytes received, not bytes announced. A frame's own buffer starts small and
doubles, unless this connection has already sent whole frames of that size. A peer that announces
100 MiB and stalls holds a few kilobytes.
Rule 3: a frame belongs to the code that holds it. Small frames are copied out; larger ones are
views, and their buffer is received into again only when no view of it is left: no call returns it.
Rule 4: a byte is copied at most twice for a new peer (doubling) and mostly never for a peer that
keeps sending frames of about the same size. A peer that sends one byte at a time costs one call per
byte and no copies.

Between frames all connections of an event loop receive into the same scratch buffer, so that an
idle connection holds no buffer at all. That is safe because an event loop asks for a buffer, fills
it and reports in one go. It would not be safe to share a pool between threads.
"""

from typing import Final

from headrace.model.error import InvalidArgument
from headrace.wire.error import FrameTooLarge
from headrace.wire.primitive import INT32, Frame

__all__ = [
    "PREAUTHENTICATION_MAX_BYTES",
    "REQUEST_MAX_BYTES",
    "BufferPool",
    "Frame",
    "FrameSplitter",
]

REQUEST_MAX_BYTES: Final = 100 * 1024 * 1024
"""Kafka's default of socket.request.max.bytes."""

PREAUTHENTICATION_MAX_BYTES: Final = 512 * 1024
"""What Kafka takes from a peer that has not authenticated yet."""

_SCRATCH_BYTES: Final = 256 * 1024
_COPIED_FRAME_BYTES: Final = 4 * 1024  # copying this takes 0.1 µs, keeping a scratch alive 256 KiB
_FIRST_BYTES: Final = 4 * 1024
_RECEIVE_MAX_BYTES: Final = 2 * 1024 * 1024  # a frame of Kafka's default 1 MiB batch and its head
_TRUST_MAX_BYTES: Final = 4 * 1024 * 1024
_POOL_BYTES: Final = 16 * 1024 * 1024
_SIZE_BYTES: Final = 4


class BufferPool:
    """Buffers of one event loop, reused as soon as nothing refers to their bytes.

    Reuse matters: fresh memory is cleared by Python and faulted in by the kernel page by page,
    which costs more than receiving into it. The pool remembers the large buffers that it lends, up
    to `keep_bytes`, and asks each whether a view of it is left. Others are freed with their last
    view. So code that keeps a buffer must keep a view of it, not the buffer alone.
    """

    __slots__ = ("_keep_bytes", "_kept_bytes", "_lent", "_scratch")

    def __init__(self, keep_bytes: int = _POOL_BYTES) -> None:
        if keep_bytes < 0:
            raise InvalidArgument(f"a pool cannot keep {keep_bytes} bytes: write 0 or more")
        self._keep_bytes = keep_bytes
        self._kept_bytes = 0
        self._lent: dict[int, list[bytearray]] = {}
        self._scratch = bytearray(_SCRATCH_BYTES)

    def scratch(self) -> bytearray:
        """Return the buffer that every connection receives into between frames."""
        if not _unreferenced(self._scratch):
            self._scratch = self.lend(_SCRATCH_BYTES)
        return self._scratch

    def lend(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes, with anything in it."""
        capacity = 1 << max(size - 1, _FIRST_BYTES - 1).bit_length()
        lent = self._lent.setdefault(capacity, [])
        for position, buffer in enumerate(lent):
            if buffer is not self._scratch and _unreferenced(buffer):
                # Next time it is the last one asked: it has just been lent.
                lent.append(lent.pop(position))
                return buffer
        buffer = bytearray(capacity)
        if capacity >= _SCRATCH_BYTES and self._kept_bytes + capacity <= self._keep_bytes:
            self._kept_bytes += capacity
            lent.append(buffer)
        return buffer


def _unreferenced(buffer: bytearray) -> bool:
    """Return whether no memoryview of `buffer` is left: CPython resizes it only then."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True


class FrameSplitter:
    """One connection's frames.

    >>> splitter = FrameSplitter(BufferPool())
    >>> splitter.get_buffer()[:7] = b"\\0\\0\\0\\x05hel"
    >>> splitter.buffer_updated(7)
    []
    >>> splitter.get_buffer()[:2] = b"lo"
    >>> [bytes(frame) for frame in splitter.buffer_updated(2)]
    [b'hello']

    Attributes:
        limit_bytes: the largest frame taken; may be raised when the peer has authenticated.
        expects_small: nothing is unfinished and no large frame was seen of late: then bytes of
            their own cost less than a buffer. Hand them to `received`.
    """

    __slots__ = (
        "_familiar_bytes",
        "_filled",
        "_frame",
        "_frame_size",
        "_head",
        "_pool",
        "_received",
        "expects_small",
        "limit_bytes",
    )

    def __init__(self, pool: BufferPool, limit_bytes: int = REQUEST_MAX_BYTES) -> None:
        if limit_bytes < 0:
            raise InvalidArgument(f"frames cannot be limited to {limit_bytes} bytes")
        self.limit_bytes = limit_bytes
        self.expects_small = True
        self._pool = pool
        self._head = b""  # of a size whose four bytes are not all there
        self._received: bytearray | None = None  # what `get_buffer` lent, between frames
        self._frame: memoryview | None = None  # the room of the frame that has begun
        self._frame_size = 0
        self._filled = 0
        self._familiar_bytes = 0  # frames of this size have come whole; fades with smaller ones

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished frame have come."""
        return self._filled + _SIZE_BYTES if self._frame is not None else len(self._head)

    def received(self, received: bytes) -> list[Frame]:
        """Do what `buffer_updated` does, for bytes that were not received into our buffer."""
        assert self.expects_small, "received in the middle of a frame"
        size = len(received) - _SIZE_BYTES
        if (
            0 <= size <= _COPIED_FRAME_BYTES
            and size <= self.limit_bytes
            and INT32.unpack_from(received)[0] == size
        ):
            return [received[_SIZE_BYTES:]]  # just one, as most clients send
        return self._split(received, len(received))

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return where to receive next. Never empty; the hint is not needed."""
        if self._frame is not None:
            if self._filled == len(self._frame):
                self._grow(self._frame)
            return self._frame[self._filled : self._frame_size]
        if self._familiar_bytes + _SIZE_BYTES > _SCRATCH_BYTES:
            buffer = self._pool.lend(min(self._familiar_bytes + _SIZE_BYTES, _RECEIVE_MAX_BYTES))
        else:
            buffer = self._pool.scratch()
        self._received = buffer
        head = self._head
        if not head:
            return memoryview(buffer)
        buffer[: len(head)] = head
        return memoryview(buffer)[len(head) :]

    def buffer_updated(self, nbytes: int) -> list[Frame]:
        """Count `nbytes` received, and return the frames that are now whole, sizes cut off.

        Raises:
            FrameTooLarge: a size is negative or above the limit; it carries the frames before it.
        """
        if self._frame is not None:
            self._filled += nbytes
            if self._filled < self._frame_size:
                return []
            frame = self._frame[: self._frame_size]
            self._frame = None
            self._remember(self._frame_size)
            self.expects_small = not self._familiar_bytes
            return [frame]
        assert self._received is not None, "buffer_updated without get_buffer"
        received, self._received = self._received, None
        return self._split(received, len(self._head) + nbytes)

    def _split(self, received: bytes | bytearray, end: int) -> list[Frame]:
        frames: list[Frame] = []
        view = memoryview(received)
        at = 0
        while end - at >= _SIZE_BYTES:
            (size,) = INT32.unpack_from(received, at)
            if not 0 <= size <= self.limit_bytes:
                raise FrameTooLarge(
                    f"a frame of {size} bytes is not taken: at most {self.limit_bytes} bytes are",
                    frames,
                )
            body = at + _SIZE_BYTES
            if end - body < size:
                self._begin(view, at, end, size)
                return frames
            at = body + size
            if size > _COPIED_FRAME_BYTES:
                frames.append(view[body:at])
                self._remember(size)
            else:
                frames.append(bytes(view[body:at]))
                if self._familiar_bytes:
                    self._remember(0)
        self._head = bytes(view[at:end])
        self.expects_small = not (self._head or self._familiar_bytes)
        return frames

    def _begin(self, view: memoryview, at: int, end: int, size: int) -> None:
        """Give the last frame, which is not whole yet, a buffer of its own."""
        body = at + _SIZE_BYTES
        filled = end - body
        familiar = size <= self._familiar_bytes
        stays = at == 0 and size > _COPIED_FRAME_BYTES and body + size <= len(view)
        if stays and (familiar or 2 * filled >= size):
            self._frame = view[body:]
        else:
            room = size if familiar else min(size, max(2 * filled, _FIRST_BYTES))
            self._frame = memoryview(self._pool.lend(room))
            self._frame[:filled] = view[body:end]
        self._frame_size = size
        self._filled = filled
        self._head = b""
        self.expects_small = False

    def _grow(self, frame: memoryview) -> None:
        larger = memoryview(self._pool.lend(min(self._frame_size, 2 * len(frame))))
        larger[: len(frame)] = frame
        self._frame = larger

    def _remember(self, size: int) -> None:
        faded = self._familiar_bytes - (self._familiar_bytes >> 3)
        size = max(faded, min(size, _TRUST_MAX_BYTES))
        self._familiar_bytes = size if size > _COPIED_FRAME_BYTES else 0
