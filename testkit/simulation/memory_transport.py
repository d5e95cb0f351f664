"""A transport without a socket, for protocols of asyncio: it keeps what is written."""

import asyncio
from typing import Any


class MemoryTransport(asyncio.Transport):
    """A client that reads when a test says so.

    Attributes:
        written: what the protocol has written.
        unread: of that, the bytes that wait in the buffer; a test sets it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.unread = 0
        self.closing = False
        self.aborted = False
        self.reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return self.unread
