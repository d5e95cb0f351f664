"""One client's connection: frames in, answers out, in order.

The connection owns its non-blocking socket instead of leaving it to an asyncio transport, because
an answer mixes bytes with pieces of files, and a piece of a file must go from the page cache to
the socket (`os.sendfile`) without passing through this process.

Rule 1: answers leave in the order in which their requests came, whenever each is ready.
Rule 2: a request is started only while fewer than `max_pending` wait for their answers and less
than `_MAX_UNSENT_BYTES` lie unsent; past that nothing is read, so a client that does not read, or
floods, stops itself and not us.
Rule 3: bytes that are not the protocol close the connection. Nothing is answered to them.
Rule 4: the last send of an answer never carries MSG_MORE: the kernel would hold it for 200 ms.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import structlog

from headrace.broker.listener import Listener
from headrace.log.read import LogSlice
from headrace.model.error import PeerError
from headrace.wire.framing import BufferPool, Frame, FrameSplitter

log = structlog.get_logger(__name__)

Part: TypeAlias = bytes | bytearray | memoryview | LogSlice
Parts: TypeAlias = Sequence[Part]
Answer: TypeAlias = "Parts | asyncio.Future[Parts | None] | None"
"""Parts to send now, a promise of them, or None: no answer at all (acks=0)."""

# Bytes in memory that one client may leave unread; slices of files cost nothing and do not count.
_MAX_UNSENT_BYTES = 1024 * 1024
# As many buffers as one sendmsg gathers; Linux takes at most 1024.
_MAX_GATHER = 64
# How much of a file one call sends before other connections get their turn.
_SENDFILE_CHUNK_BYTES = 4 * 1024 * 1024


class Connection:
    """The socket of one client and the answers it still waits for. Lives on the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        peer_host: str,
        listener: Listener,
        pool: BufferPool,
        *,
        dispatch: "Callable[[Connection, Frame], Answer]",
        on_close: "Callable[[Connection], None]",
        max_request_bytes: int,
        max_pending: int,
    ) -> None:
        self.peer_host = peer_host
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.authenticated = not listener.authenticates
        self.authentication: object | None = None
        self.client_id: str | None = None
        self.client_software = "unknown"
        self.last_active = loop.time()
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._splitter = FrameSplitter(pool, limit_bytes=max_request_bytes)
        self._dispatch = dispatch
        self._on_close = on_close
        self._max_pending = max_pending
        self._waiting: deque[Frame] = deque()
        self._answers: deque[Answer] = deque()
        self._unsent: deque[Part] = deque()
        self._unsent_bytes = 0
        self._reading = True
        self._writing = False
        self._closed = False
        self._closing = False
        self._muted_until = 0.0
        loop.add_reader(self._fd, self._on_readable)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def idle(self) -> bool:
        """Nothing is owed to this client: it may be closed without losing an answer."""
        return not self._answers and not self._unsent

    def allow_requests_of(self, max_request_bytes: int) -> None:
        """Raise the size limit, once the client has authenticated."""
        self._splitter.limit_bytes = max_request_bytes

    def mute(self, duration_ms: int) -> None:
        """Start no request for so long; what is owed still goes out (KIP-219)."""
        until = self._loop.time() + duration_ms / 1000
        if until > self._muted_until:
            self._muted_until = until
            self._loop.call_later(duration_ms / 1000 + 0.001, self._start_waiting)

    def close(self) -> None:
        """Close at once; answers that were not sent are lost, as with a cut cable."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._sock.close()
        for answer in self._answers:
            if isinstance(answer, asyncio.Future):
                answer.cancel()
        self._answers.clear()
        self._unsent.clear()
        self._waiting.clear()
        self._on_close(self)

    def close_when_idle(self) -> None:
        """Take no further request, send what is owed, then close."""
        self._closing = True
        self._waiting.clear()
        self._pause()
        if self.idle:
            self.close()

    # -- in

    def _on_readable(self) -> None:
        try:
            count = self._sock.recv_into(self._splitter.get_buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if count == 0:
            self.close()
            return
        try:
            frames = self._splitter.buffer_updated(count)
        except PeerError as error:
            self._refuse(error)
            return
        if frames:
            self.last_active = self._loop.time()
            self._waiting.extend(frames)
            self._start_waiting()

    def _start_waiting(self) -> None:
        """Start requests until one of rule 2's bounds is met; read on once none is left."""
        while self._waiting and not self._closed and not self._closing:
            if self._must_wait():
                self._pause()
                return
            try:
                answer = self._dispatch(self, self._waiting.popleft())
            except PeerError as error:
                self._refuse(error)
                return
            if answer is None:
                continue
            if isinstance(answer, asyncio.Future):
                self._answers.append(answer)
                answer.add_done_callback(self._on_answer)
            elif self._answers:
                self._answers.append(answer)
            else:
                self._send(answer)
        if not self._reading and not self._closed and not self._closing:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def _must_wait(self) -> bool:
        return (
            len(self._answers) >= self._max_pending
            or self._unsent_bytes > _MAX_UNSENT_BYTES
            or (self._muted_until > 0 and self._loop.time() < self._muted_until)
        )

    def _pause(self) -> None:
        if self._reading and not self._closed:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _refuse(self, error: PeerError) -> None:
        log.warning("closing a connection", peer=self.peer_host, reason=str(error))
        self.close()

    # -- out

    def _on_answer(self, _: "asyncio.Future[Parts | None]") -> None:
        if self._closed:
            return
        while self._answers:
            answer = self._answers[0]
            if isinstance(answer, asyncio.Future):
                if not answer.done():
                    break
                if answer.cancelled() or answer.exception() is not None:
                    self.close()
                    return
                answer = answer.result()
            self._answers.popleft()
            if answer is not None:
                self._send(answer)
        self._start_waiting()
        self._close_if_done()

    def _send(self, parts: Parts) -> None:
        for part in parts:
            if isinstance(part, LogSlice):
                if part.size:
                    self._unsent.append(part)
            elif part:
                self._unsent.append(part)
                self._unsent_bytes += len(part)
        if not self._writing:
            self._write()

    def _write(self) -> None:
        """Hand the kernel as much as it takes; the rest waits until the socket is writable."""
        try:
            while self._unsent:
                if isinstance(self._unsent[0], LogSlice):
                    if not self._write_slice():
                        break
                else:
                    self._write_bytes()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()
            return
        self._watch_writable(bool(self._unsent))

    def _write_bytes(self) -> None:
        gather: list[bytes | bytearray | memoryview] = []
        more = 0
        for part in self._unsent:
            if isinstance(part, LogSlice) or len(gather) == _MAX_GATHER:
                more = socket.MSG_MORE
                break
            gather.append(part)
        sent = self._sock.sendmsg(gather, (), more)
        self._unsent_bytes -= sent
        for part in gather:
            self._unsent.popleft()
            if sent < len(part):
                self._unsent.appendleft(memoryview(part)[sent:])
                return
            sent -= len(part)

    def _write_slice(self) -> bool:
        """Whether to go on at once; False gives other connections their turn."""
        piece = self._unsent[0]
        assert isinstance(piece, LogSlice)
        assert piece.file is not None
        wanted = min(piece.size, _SENDFILE_CHUNK_BYTES)
        sent = os.sendfile(self._fd, piece.file.fileno(), piece.position, wanted)
        if sent == 0:
            # The file ended early: truncated under us. The length is already announced.
            self.close()
            return False
        self.last_active = self._loop.time()
        if sent == piece.size:
            self._unsent.popleft()
            return True
        self._unsent[0] = replace(piece, position=piece.position + sent, size=piece.size - sent)
        return False

    def _watch_writable(self, wanted: bool) -> None:
        if wanted and not self._writing:
            self._writing = True
            self._loop.add_writer(self._fd, self._on_writable)
        elif not wanted and self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def _on_writable(self) -> None:
        self._write()
        if self._closed:
            return
        if not self._reading and not self._closing:
            self._start_waiting()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._closing and not self._closed and self.idle:
            self.close()
