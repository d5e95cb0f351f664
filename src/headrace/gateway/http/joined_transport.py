"""A transport that sends the head of a response together with the first bytes of its body.

uvicorn writes them one after the other. Each write is a system call, and wakes the client up.
"""

import asyncio
from typing import Any, Final

_HEAD: Final = b"HTTP/1.1 "


class JoinedTransport:
    """Takes the place of a transport inside of a protocol. What it does not have, that one has.

    A head waits for the next bytes, and at most for the next turn of the event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        elif data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self.flush)
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send what is held back."""
        if self._held:
            data, self._held = self._held, b""
            self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + len(self._held)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._held = b""
        self._transport.abort()
