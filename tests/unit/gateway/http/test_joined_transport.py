"""Heads of responses go out with the first bytes of their bodies."""

import asyncio
from typing import cast

from headrace.gateway.http.joined_transport import JoinedTransport

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Sink:
    """A transport that only keeps what is written."""

    def __init__(self) -> None:
        self.calls: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return "close" in self.calls

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


def joined(sink: Sink, loop: asyncio.AbstractEventLoop) -> JoinedTransport:
    return JoinedTransport(cast(asyncio.Transport, sink), loop)


def test_a_head_is_one_write_with_the_body() -> None:
    async def scenario() -> None:
        sink = Sink()
        transport = joined(sink, asyncio.get_running_loop())
        transport.write(HEAD)
        assert (sink.calls, transport.get_write_buffer_size()) == ([], len(HEAD))
        transport.write(b"body")
        transport.write(b"more")
        await asyncio.sleep(0)
        assert sink.calls == [HEAD + b"body", b"more"]

    asyncio.run(scenario())


def test_a_head_alone_does_not_wait_for_a_body() -> None:
    async def scenario() -> None:
        sink = Sink()
        transport = joined(sink, asyncio.get_running_loop())
        transport.write(HEAD)
        await asyncio.sleep(0)
        assert sink.calls == [HEAD]

    asyncio.run(scenario())


def test_a_head_is_sent_before_the_end_and_dropped_with_the_connection() -> None:
    async def scenario() -> None:
        sink = Sink()
        transport = joined(sink, asyncio.get_running_loop())
        transport.write(HEAD)
        transport.close()
        assert sink.calls == [HEAD, "close"]
        assert transport.is_closing()
        transport.write(HEAD)
        transport.abort()
        await asyncio.sleep(0)
        assert sink.calls == [HEAD, "close", "abort"]

    asyncio.run(scenario())
