"""What one HTTP/2 connection does with frames that no sound client's library would send."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvicorn
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import Event, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from hyperframe.frame import (
    AltSvcFrame,
    Frame,
    GoAwayFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from uvicorn.server import ServerState

from headrace.gateway.http.asgi import Receive, Scope, Send
from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.http.http2 import connection, request_limit, server_side, stream
from headrace.gateway.http.http2.connection import Http2Connection
from headrace.gateway.kinesis.request_body import read_body
from testkit.simulation.memory_transport import MemoryTransport

_KIB = 1 << 10
_MIB = 1 << 20


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sends is taken at once, and no one is too slow, however slow the machine is."""
    monkeypatch.setattr(connection, "_TURN_SECONDS", 60)
    monkeypatch.setattr(request_limit, "_PATIENCE_SECONDS", 3600.0)


class Gateway:
    """Connections of one server to one application, in memory."""

    def __init__(self, application: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._config = uvicorn.Config(application, limit_concurrency=1025, log_config=None)
        self._config.load()
        self.state = ServerState()

    def connect(self) -> "Peer":
        return Peer(Http2Connection(self._config, self.state, {}))


class Peer:
    """A client whose frames a test sends when, and as often as, it likes."""

    def __init__(self, connection: Http2Connection) -> None:
        self.connection = connection
        self.transport = MemoryTransport()
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        connection.connection_made(self.transport)

    def begin(self, **settings: int) -> None:
        self.h2.initiate_connection()
        if settings:
            self.h2.update_settings({SettingCodes[name]: at for name, at in settings.items()})
        self.send(self.h2.data_to_send())

    def send(self, *frames: Frame | bytes) -> None:
        sent = (each if isinstance(each, bytes) else each.serialize() for each in frames)
        self.connection.data_received(b"".join(sent))

    def head(self, stream_id: int, *, end: bool = True, weight: int | None = None) -> bytes:
        fields = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "here")]
        self.h2.send_headers(stream_id, fields, end_stream=end, priority_weight=weight)
        return self.h2.data_to_send()

    def heads(self, first: int, last: int) -> bytes:
        return b"".join(self.head(2 * at + 1) for at in range(first, last))

    def events(self) -> list[Event]:
        """Return what has come since the last call."""
        data, self.transport.written = self.transport.written, bytearray()
        return self.h2.receive_data(bytes(data))

    def ended(self) -> list[int | None]:
        return [each.stream_id for each in self.events() if isinstance(each, StreamEnded)]


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as the gateway does to a client without a key; each response has an id of its own."""
    await receive()
    head = [(b"content-length", b"2"), (b"x-amzn-requestid", b"%d" % id(send))]
    await send({"type": "http.response.start", "status": 403, "headers": head})
    await send({"type": "http.response.body", "body": b"no"})


async def accept(scope: Scope, receive: Receive, send: Send) -> None:
    head = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b""})


async def hang(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def test_a_clients_header_table_does_not_grow_ours() -> None:
    async def test() -> None:
        peer = Gateway(refuse).connect()
        peer.begin(HEADER_TABLE_SIZE=(1 << 31) - 1)
        for at in range(300):
            peer.send(peer.head(2 * at + 1))
            await settle()
        found = [each for each in peer.events() if isinstance(each, ResponseReceived)]
        assert len(found) == 300
        assert len(peer.connection.h2.encoder.header_table.dynamic_entries) < 128

    asyncio.run(test())


def test_a_smaller_header_table_is_kept_and_told() -> None:
    async def test() -> None:
        peer = Gateway(refuse).connect()
        peer.begin()
        sizes = (100, 3000, 3000, 200, 4096)
        peer.send(*(SettingsFrame(0, settings={1: size}) for size in sizes))
        assert peer.connection.h2.encoder.table_size_changes == [100, 4096]
        peer.send(peer.head(1))
        await settle()
        assert peer.ended() == [1]

    asyncio.run(test())


def test_a_client_that_reads_no_more_and_half_closes_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "WRITE_SECONDS", 0.05)

    async def test() -> None:
        peer = Gateway(refuse).connect()
        peer.begin()
        peer.send(peer.head(1))
        await settle()
        peer.transport.unread = 1000
        peer.connection.eof_received()
        peer.transport.close()  # as asyncio does
        async with asyncio.timeout(60):
            while not peer.transport.aborted:
                await asyncio.sleep(0.01)

    asyncio.run(test())


def test_a_connection_that_closes_is_cut_off_even_if_its_client_reads_a_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "WRITE_SECONDS", 0.05)

    async def test() -> None:
        peer = Gateway(refuse).connect()
        peer.begin()
        peer.connection.pause_writing()
        peer.connection.shutdown()
        peer.connection.resume_writing()
        async with asyncio.timeout(60):
            while not peer.transport.aborted:
                await asyncio.sleep(0.01)

    asyncio.run(test())


def test_a_body_that_waits_for_the_budget_holds_up_no_other() -> None:
    async def test() -> None:
        budget = ByteBudget(512 * _KIB, reserve=256 * _KIB)
        done: list[int] = []

        async def put(scope: Scope, receive: Receive, send: Send) -> None:
            share = budget.share()
            body = await read_body(receive, {}, None, share)
            share.give_back()
            done.append(len(body))
            await accept(scope, receive, send)

        gateway = Gateway(put)
        peer = gateway.connect()
        peer.begin()
        left = dict.fromkeys(range(1, 17, 2), 250 * _KIB)
        for stream_id in left:
            peer.send(peer.head(stream_id, end=False))
        for _ in range(100):
            for stream_id in list(left):
                room = min(left[stream_id], 16_384, peer.h2.local_flow_control_window(stream_id))
                if room > 0:
                    left[stream_id] -= room
                    peer.h2.send_data(stream_id, b"x" * room, end_stream=not left[stream_id])
                    if not left[stream_id]:
                        del left[stream_id]
            peer.send(peer.h2.data_to_send())
            await settle()
            peer.events()
            if len(done) == 8:
                break
        for each in list(gateway.state.tasks):
            each.cancel()
        await settle()
        assert done == [250 * _KIB] * 8

    asyncio.run(test())


def test_no_more_of_a_body_comes_while_its_piece_waits_for_the_budget() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def put(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await go_on.wait()
            await hang(scope, receive, send)

        peer = Gateway(put).connect()
        peer.begin()
        peer.send(peer.head(1, end=False))
        peer.events()
        for _ in range(20):
            if room := min(peer.h2.local_flow_control_window(1), 16_384):
                peer.h2.send_data(1, b"x" * room)
            peer.send(peer.h2.data_to_send())
            await settle()
            peer.events()
        assert room == 0
        go_on.set()
        await settle()
        peer.events()
        assert peer.h2.local_flow_control_window(1) >= server_side.STREAM_WINDOW // 2
        peer.connection.connection_lost(None)
        await settle()

    asyncio.run(test())


def test_requests_over_http2_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for a slow machine to look before the first of them gives up.
    monkeypatch.setattr(stream, "ERROR_SECONDS", 60.0)

    async def test() -> None:
        loop, ahead = asyncio.get_running_loop(), [0.0]
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + sum(ahead))
        gateway = Gateway(refuse)
        peers = [gateway.connect() for _ in range(30)]
        for peer in peers:
            peer.begin(INITIAL_WINDOW_SIZE=0)
            peer.send(peer.heads(0, 128 if peer is peers[0] else 10))
        await settle()
        assert len(gateway.state.tasks) <= request_limit.MOST_REQUESTS // 2
        assert not any(peer.transport.closing for peer in peers), "refusals of all count for none"
        while gateway.state.tasks:
            ahead.append(stream.ERROR_SECONDS)
            await asyncio.sleep(0.01)
        assert peers[0].transport.closing, "it reads no responses"

    asyncio.run(test())


def test_a_known_client_has_its_requests_while_strangers_crowd() -> None:
    async def test() -> None:
        accepts = True

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await (accept if accepts else hang)(scope, receive, send)

        gateway = Gateway(application)
        known = gateway.connect()
        known.begin()
        known.send(known.head(1))
        await settle()
        accepts = False
        for at in range(30):
            peer = gateway.connect()
            peer.begin()
            peer.send(peer.heads(0, 10 if at else 128))
        before = len(gateway.state.tasks)
        known.send(known.heads(1, 101))
        assert len(gateway.state.tasks) == before + 100
        for each in list(gateway.state.tasks):
            each.cancel()
        await settle()

    asyncio.run(test())


def test_a_stranger_finds_room_beside_strangers_that_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        is_sound = False

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await (accept if is_sound else hang)(scope, receive, send)

        gateway = Gateway(application)
        crowd = [gateway.connect() for _ in range(40)]
        for peer in crowd:
            peer.begin()
            peer.send(peer.heads(0, 128 if peer is crowd[0] else 10))
        await settle()
        is_sound = True
        young = gateway.connect()
        young.begin()
        young.send(young.head(1))
        await settle()
        assert young.ended() == [], "the others have had no time to be answered"

        monkeypatch.setattr(request_limit, "_PATIENCE_SECONDS", 0.0)
        sound = gateway.connect()
        sound.begin()
        sound.send(sound.head(1))
        await settle()
        assert sound.ended() == [1]
        assert [peer.transport.closing for peer in crowd] == [True] + [False] * 39
        for peer in crowd:
            peer.connection.connection_lost(None)
        await settle()
        assert not gateway.state.tasks

    asyncio.run(test())


def test_requests_past_the_limit_are_refused_one_by_one() -> None:
    async def test() -> None:
        peer = Gateway(hang).connect()
        peer.begin()
        most = server_side.MAX_CONCURRENT_REQUESTS
        peer.send(peer.heads(0, most + 2))
        refused = [each for each in peer.events() if isinstance(each, StreamReset)]
        assert [each.stream_id for each in refused] == [2 * most + 1, 2 * most + 3]
        assert not peer.transport.closing
        peer.connection.connection_lost(None)
        await settle()

    asyncio.run(test())


def test_one_read_does_not_hold_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_TURN_SECONDS", 0)

    async def test() -> None:
        gateway = Gateway(hang)
        peer = gateway.connect()
        peer.begin()
        await settle()
        peer.send(peer.heads(0, 10))
        assert (len(gateway.state.tasks), peer.transport.reading) == (1, False)
        await settle()
        assert (len(gateway.state.tasks), peer.transport.reading) == (10, True)
        peer.connection.connection_lost(None)
        await settle()

    asyncio.run(test())


@pytest.mark.parametrize(
    "frame",
    [
        WindowUpdateFrame(0, window_increment=1),
        SettingsFrame(0, flags=["ACK"]),
        PingFrame(0, flags=["ACK"]),
        RstStreamFrame(1, error_code=8),
        AltSvcFrame(0, origin=b"here", field=b"there"),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_frames_that_carry_nothing_are_counted(frame: Frame) -> None:
    async def test() -> None:
        peer = Gateway(accept).connect()
        peer.begin()
        peer.send(peer.head(1))
        await settle()
        for _ in range(2 * connection._CONTROL_FRAMES_PER_SECOND):
            peer.send(frame)
        assert peer.transport.closing
        peer.connection.connection_lost(None)

    asyncio.run(test())


def test_window_updates_for_what_was_sent_are_free() -> None:
    async def test() -> None:
        size = 2_000 * _KIB

        async def large(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x" * size})

        peer = Gateway(large).connect()
        peer.begin(INITIAL_WINDOW_SIZE=1 << 30)
        peer.send(WindowUpdateFrame(0, window_increment=1 << 30), peer.head(1))
        await settle()
        assert len(peer.transport.written) > size
        peer.send(*[WindowUpdateFrame(0, window_increment=1)] * 1500)
        await settle()
        assert not peer.transport.closing
        peer.connection.connection_lost(None)

    asyncio.run(test())


def test_priorities_of_requests_are_not_counted() -> None:
    async def test() -> None:
        peer = Gateway(accept).connect()
        peer.begin()
        for at in range(2 * connection._CONTROL_FRAMES_PER_SECOND):
            peer.send(peer.head(2 * at + 1, weight=16))
            await settle()
        assert len(peer.ended()) == 2 * connection._CONTROL_FRAMES_PER_SECOND
        peer.connection.connection_lost(None)

    asyncio.run(test())


def test_a_client_that_says_goodbye_gets_the_response_it_waits_for() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await go_on.wait()
            await accept(scope, receive, send)

        peer = Gateway(slow).connect()
        peer.begin()
        peer.send(peer.head(1))
        await settle()
        peer.send(GoAwayFrame(0, additional_data=b"bye"))
        await settle()
        assert not peer.transport.closing
        go_on.set()
        await settle()
        assert peer.ended() == [1]
        assert peer.transport.closing
        peer.connection.connection_lost(None)

    asyncio.run(test())


def test_a_head_has_time_while_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)

    async def test() -> None:
        peer = Gateway(accept).connect()
        peer.begin()
        head = peer.head(1)
        peer.send(head[:-1])
        peer.connection.pause_writing()
        await asyncio.sleep(0.2)
        # From now on it is read, as slowly as this machine is.
        monkeypatch.setattr(connection, "HEAD_SECONDS", 60)
        peer.connection.resume_writing()
        await settle()
        peer.send(head[-1:])
        await settle()
        assert peer.ended() == [1]
        peer.connection.connection_lost(None)

    asyncio.run(test())


def test_a_subscription_has_one_deadline_however_its_client_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "_ENDLESS_SECONDS", 0.2)

    async def push(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * _MIB, "more_body": True})

    async def test() -> None:
        peer = Gateway(push).connect()
        peer.begin(INITIAL_WINDOW_SIZE=0)
        peer.send(peer.head(1))
        for _ in range(60):
            peer.h2.increment_flow_control_window(4 * _KIB, 1)
            peer.send(peer.h2.data_to_send())
            await asyncio.sleep(0.02)
            if reset := [each for each in peer.events() if isinstance(each, StreamReset)]:
                assert reset[0].error_code == ErrorCodes.CANCEL
                break
        else:
            pytest.fail("it has no end")
        peer.connection.connection_lost(None)
        await settle()

    asyncio.run(test())


def test_a_writer_that_was_woken_waits_again_if_another_has_filled_the_socket() -> None:
    async def test() -> None:
        peer = Gateway(accept).connect()
        peer.connection.pause_writing()
        written = 0

        async def write() -> None:
            nonlocal written
            await peer.connection.drain()
            written += 1
            peer.connection.pause_writing()

        writers = [asyncio.ensure_future(write()) for _ in range(5)]
        await settle()
        for count in range(1, 6):
            peer.connection.resume_writing()
            await settle()
            assert written == count
        await asyncio.gather(*writers)
        peer.connection.connection_lost(None)

    asyncio.run(test())
