"""A connection as a stream of bytes, with exact reads and optional compression."""

import socket
import zlib

from headrace.ingest.error import ProtocolError

_RECEIVE_BYTES = 256 * 1024


class PeerStream:
    """Reads with a buffer, so that a small field costs no system call.

    With `deflate` each direction is one zlib stream, flushed after every write, as with Netty's
    codec. Received bytes are decompressed in pieces, so that a peer cannot fill the memory.
    """

    def __init__(self, connection: socket.socket, *, deflate: bool = False, level: int = 6) -> None:
        self._connection = connection
        self._inflating = zlib.decompressobj() if deflate else None
        self._deflating = zlib.compressobj(level) if deflate else None
        self._buffer = bytearray()

    def read(self, size: int) -> bytes:
        """Return exactly so many bytes, or none at the end of the stream.

        Raises:
            ProtocolError: the stream ends in the middle.
        """
        buffer = self._buffer
        while len(buffer) < size:
            data = self._more()
            if not data:
                if buffer:
                    raise ProtocolError("the peer closed the connection in the middle of a message")
                return b""
            buffer += data
        with memoryview(buffer) as whole, whole[:size] as view:
            data = bytes(view)
        del buffer[:size]
        return data

    def _more(self) -> bytes:
        inflating = self._inflating
        if inflating is None:
            return self._connection.recv(_RECEIVE_BYTES)
        while True:
            data = inflating.unconsumed_tail or self._connection.recv(_RECEIVE_BYTES)
            if not data:
                return b""
            try:
                inflated = inflating.decompress(data, _RECEIVE_BYTES)
            except zlib.error as error:
                raise ProtocolError(f"the peer's compressed stream is broken: {error}") from None
            if inflated:
                return inflated

    def write(self, data: bytes) -> None:
        if self._deflating is not None:
            data = self._deflating.compress(data) + self._deflating.flush(zlib.Z_SYNC_FLUSH)
        self._connection.sendall(data)
