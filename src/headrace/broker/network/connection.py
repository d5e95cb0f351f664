"""One client's connection: frames in, answers out, in order.

The connection owns its non-blocking socket instead of leaving it to an asyncio transport
(docs/decisions/0004): an answer mixes bytes with pieces of files, and those go from the page cache
to the socket without passing through this process.

Rule 1: answers leave in the order in which their requests came, whenever each is ready.
Rule 2: requests are served one after the other, as Kafka serves a connection, so that a client may
rely on the first when it sends the second. Only Produce requests overlap: they wait for a disk, and
their order is that of their appends.
Rule 3: what a client can make us hold is bounded: one answer and `_MAX_HELD_BYTES` that it does not
read, `max_pending` produces of `_MAX_PENDING_BYTES` together, and what one receive brought. Past
that nothing is read, so a client that floods, or does not read, stops itself and not us.
Rule 4: one turn of the event loop starts at most `_REQUESTS_PER_TURN` requests of a connection.
Rule 5: bytes that are not the protocol end the connection. What came whole before them is answered
first; the bad bytes are not.
Rule 6: when a client goes away, waits end (a long poll), and work goes on (a topic that is being
created): a change is never half made because its client has left.
"""

import asyncio
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

import structlog

from headrace.broker.auth.session import Attempt, Failure, Session
from headrace.broker.config.listener import Listener
from headrace.broker.limited_warning import LimitedWarning
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection_limits import ConnectionLimits
from headrace.broker.network.outbox import Outbox, Part, Parts
from headrace.broker.network.partial_requests import COUNTED_BYTES, PartialRequests
from headrace.broker.network.poller import READ, WRITE, Poller
from headrace.model.error import PeerError
from headrace.wire.error import FrameTooLarge
from headrace.wire.framing import PREAUTHENTICATION_MAX_BYTES, BufferPool, Frame, FrameSplitter

__all__ = ["LATER", "Answer", "Connection", "Part", "Parts"]

log = structlog.get_logger(__name__)

Later: TypeAlias = "asyncio.Future[Parts | None] | CallbackFuture[Parts | None]"

Answer: TypeAlias = "Parts | Later | None"
"""Parts to send now, a future of them, or None: no answer at all (acks=0).

A task is work, any other future only a wait (rule 6)."""

LATER = (asyncio.Future, CallbackFuture)

_SMALL_BYTES = 8 * 1024
_MAX_HELD_BYTES = 64 * 1024
_MAX_HELD_PARTS = 1024
_MAX_PENDING_BYTES = 8 * 1024 * 1024
_REQUESTS_PER_TURN = 32
_PRODUCE_KEY = b"\x00\x00"
_HANG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class FetchFastPath(Protocol):
    """Serves fetches that repeat an earlier one of the same connection."""

    def serve(self, frame: Frame) -> "Answer":
        """Answer the fetch in `frame`, or return None: the handler must serve it."""

    def close(self) -> None:
        """Forget the client, which is gone."""


class ConnectionHost(Protocol):
    """What the connections of one acceptor share: `Acceptor` is one."""

    @property
    def poller(self) -> Poller: ...

    @property
    def buffers(self) -> BufferPool: ...

    @property
    def limits(self) -> ConnectionLimits: ...

    @property
    def warnings(self) -> LimitedWarning: ...

    @property
    def partial_requests(self) -> PartialRequests: ...

    @property
    def dispatch(self) -> "Callable[[Connection, Frame], Answer]":
        """Serves one whole request."""

    def forget(self, connection: "Connection") -> None:
        """Drop a connection that has been closed. Each connection calls it once."""


class Connection:
    """The socket of one client and the answers it still waits for. Lives on the event loop.

    Attributes:
        authentication: how far SASL is on a listener that asks for it; None before the handshake.
        software: the name and version of the client's library, if it sent them (KIP-511).
        touched: the client has sent a whole request or taken bytes of an answer since `last_active`
            was set. `refresh` turns that into a time: reading the clock per request costs too much.
        last_active: when that was seen last.
        requests: how many whole requests it has sent.
        fetch_fast_path: serves its fetches that repeat themselves, if it is a follower
            (`fastpath.leader_fetch`).
        repeated_end: where the bytes that all its Produce requests have in common end in a frame
            (`fastpath.produce`); 0 when it has sent none that could be repeated.
    """

    def __init__(
        self, host: ConnectionHost, sock: socket.socket, peer_host: str, listener: Listener
    ) -> None:
        limits = host.limits
        self.peer_host = peer_host
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.software = ("", "")
        self.authenticated = not listener.authenticates
        self.authentication: Attempt | Failure | Session | None = None
        self.repeated_end = 0
        self.fetch_fast_path: FetchFastPath | None = None
        self.touched = False
        self.requests = 0
        self._poller = host.poller
        self._loop = host.poller.loop
        self.last_active = self._loop.time()
        self._sock = sock
        self._recv = sock.recv
        self._send_now = sock.send
        self._fd = sock.fileno()
        self._max_request_bytes = limits.max_request_bytes
        self._splitter = FrameSplitter(
            host.buffers,
            limit_bytes=PREAUTHENTICATION_MAX_BYTES
            if listener.authenticates
            else limits.max_request_bytes,
        )
        self._dispatch = host.dispatch
        self._forget = host.forget
        self._warnings = host.warnings
        self._partial_requests = host.partial_requests
        self._counted = False  # whether a large request of ours is among the partial ones
        self._max_pending = limits.max_pending
        self._waiting: deque[Frame] = deque()
        self._answers: deque[tuple[Answer, int]] = deque()  # with the size of the request
        self._pending_bytes = 0
        self._overlaps = False  # whether the last of those is for a Produce
        self._outbox = self._make_outbox()
        self._muted_until = 0.0
        self._reading = True
        self._writing = False
        self._scheduled = False
        self._starting = False
        self._ending = False
        self._closed = False
        self._poller.watch(self._fd, READ, self._on_ready)

    def _make_outbox(self) -> Outbox:
        return Outbox(self._sock, self._loop, self._on_writable)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def idle(self) -> bool:
        """Whether no answer is owed to this client: closing it would lose none."""
        return not self._answers and not self._outbox and not self._waiting

    @property
    def peer_port(self) -> int:
        """The client's port; an OSError when the client is gone."""
        return int(self._sock.getpeername()[1])

    @property
    def owed_answers(self) -> int:
        """How many of its requests are being served, or wait for what they need."""
        return len(self._answers)

    @property
    def queued_requests(self) -> int:
        """How many of its requests were received and not begun."""
        return len(self._waiting)

    @property
    def stalled(self) -> bool:
        """Whether it has answers to read; `last_active` says whether it reads them."""
        return len(self._outbox) > 0

    def refresh(self, now: float) -> float:
        """Return when the client was last active, as far as is known at the time `now`."""
        if self.touched:
            self.touched = False
            self.last_active = now
        return self.last_active

    def has_left(self) -> bool:
        """Return whether the client closed the connection while its request waits and nothing is
        read: then only sending the answer would fail, which a long poll may put off for days."""
        if self._reading or self._closed or not self._answers:
            return False
        return self.is_hung_up

    @property
    def is_hung_up(self) -> bool:
        """Whether the client has closed its side: it waits for no answer any more."""
        poll = select.poll()
        poll.register(self._fd, _HANG_UP)
        return self._closed or bool(poll.poll(0))

    def begin_authentication(self, attempt: Attempt) -> None:
        """Expect the tokens of the mechanism that the client chose."""
        self.authentication = attempt

    def authenticate(self, principal: str, session: Session) -> None:
        """Serve the client as `principal`, and take requests of any size from it."""
        self.authentication = session
        self.principal = principal
        self.authenticated = True
        self._splitter.limit_bytes = self._max_request_bytes

    def refuse_authentication(self) -> None:
        """Take nothing more from the client, and close once it has its answer."""
        self.authentication = Failure()
        self.close_when_idle()

    def expect_repeated_produces(self, end: int) -> None:
        """Set `repeated_end` for the requests that follow."""
        self.repeated_end = end

    def use_fetch_fast_path(self, fast_path: FetchFastPath) -> None:
        """Offer each request to `fast_path` first, and close it with the connection."""
        self.fetch_fast_path = fast_path

    def mute(self, duration_ms: int) -> None:
        """Start no request for `duration_ms`; answers that are owed still go out (KIP-219)."""
        until = self._loop.time() + duration_ms / 1000
        if until > self._muted_until:
            self._muted_until = until
            self._loop.call_later(duration_ms / 1000 + 0.001, self._serve)

    def close(self) -> None:
        """Close at once; answers that were not sent are lost, as with a cut cable."""
        if self._closed:
            return
        self._closed = True
        self._poller.watch(self._fd, 0, self._on_ready)
        self._sock.close()
        if self._counted:
            self._count_partial(0)
        for answer, _ in self._answers:
            if isinstance(answer, LATER) and not isinstance(answer, asyncio.Task):
                answer.cancel()
        if self.fetch_fast_path is not None:
            self.fetch_fast_path.close()
        self._answers.clear()
        self._outbox.clear()
        self._waiting.clear()
        self._forget(self)

    def close_when_idle(self) -> None:
        """Serve no further request, send the answers that are owed, then close."""
        self._waiting.clear()
        self._end()

    def _watch(self) -> None:
        writes = self._writing and not self._outbox.reading_ahead
        events = (READ if self._reading else 0) | (WRITE if writes else 0)
        self._poller.watch(self._fd, events, self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & READ:
            self._on_readable()
        if events & WRITE and not self._closed:
            self._on_writable()

    # -- in

    def _on_readable(self) -> None:
        """Receive small requests as bytes of their own, large ones into a buffer they share."""
        splitter = self._splitter
        received = b""
        count = 0
        try:
            if splitter.expects_small:
                received = self._recv(_SMALL_BYTES)
                count = len(received)
            else:
                count = self._sock.recv_into(splitter.get_buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        if count == 0:
            self.close()
            return
        try:
            frames = splitter.received(received) if received else splitter.buffer_updated(count)
        except FrameTooLarge as error:
            self._warn(error)
            self._accept(error.frames)
            self._end()
            return
        if frames:
            if self._counted:
                self._count_partial(0)
            self._accept(frames)
        elif self._splitter.pending_bytes > COUNTED_BYTES:
            self._count_partial(self._splitter.pending_bytes)

    def _count_partial(self, size_bytes: int) -> None:
        self._counted = size_bytes > 0
        self._partial_requests.note(self, size_bytes)

    def drop(self, reason: str) -> None:
        """Close because the broker cannot wait for the rest of a request."""
        self._counted = False
        self._warn(PeerError(reason))
        self.close()

    def _accept(self, frames: list[Frame]) -> None:
        self.requests += len(frames)
        self.touched = True
        if len(frames) != 1 or self._waiting or self._answers or self._writing or self._muted_until:
            self._waiting.extend(frames)
            self._serve()
            return
        # Most clients send one request and wait: it needs no queue and no look at the rules.
        self._start(frames[0])
        if self._ending:
            self._close_if_done()

    def _serve(self) -> None:
        """Start requests as far as the rules allow; read again once none is left."""
        started = 0
        waiting = self._waiting
        while waiting and not self._closed:
            if not self._may_start(waiting[0]):
                # An answer, a writable socket or the end of the muting calls this again.
                self._pause()
                return
            if started == _REQUESTS_PER_TURN:
                self._pause()
                self._serve_soon()
                return
            started += 1
            self._start(waiting.popleft())
        if self._ending:
            self._close_if_done()
        elif not self._reading and not self._closed:
            self._reading = True
            self._watch()

    def _may_start(self, frame: Frame) -> bool:
        if self._outbox.held_bytes > _MAX_HELD_BYTES or len(self._outbox) > _MAX_HELD_PARTS:
            return False
        if self._muted_until > 0 and self._loop.time() < self._muted_until:
            return False
        if not self._answers:
            return True
        return (
            self._overlaps
            and frame[:2] == _PRODUCE_KEY
            and len(self._answers) < self._max_pending
            and self._pending_bytes + len(frame) <= _MAX_PENDING_BYTES
        )

    def _start(self, frame: Frame) -> None:
        self._starting = True
        try:
            answer = self._dispatch(self, frame)
        except PeerError as error:
            self._warn(error)
            self.close_when_idle()
            return
        finally:
            self._starting = False
        if self._closed or answer is None:
            return
        if not self._answers and not isinstance(answer, LATER):
            self._send(answer)
            return
        self._overlaps = frame[:2] == _PRODUCE_KEY
        self._answers.append((answer, len(frame)))
        self._pending_bytes += len(frame)
        if isinstance(answer, LATER):
            answer.add_done_callback(self._on_answer)

    def _serve_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._serve_again)

    def _serve_again(self) -> None:
        self._scheduled = False
        self._serve()

    def _pause(self) -> None:
        if self._reading and not self._closed:
            self._reading = False
            self._watch()

    def _warn(self, error: PeerError) -> None:
        self._warnings.warn("connection_closed", peer=self.peer_host, reason=str(error))

    # -- out

    def _on_answer(self, future: Later) -> None:
        if self._closed:
            if not future.cancelled():
                future.exception()  # retrieved, or asyncio would log it: its client is gone
            return
        while self._answers:
            answer, size = self._answers[0]
            if isinstance(answer, LATER):
                if not answer.done():
                    break
                if not self._succeeded(answer):
                    self.close()
                    return
                answer = answer.result()
            self._answers.popleft()
            self._pending_bytes -= size
            if answer is not None:
                self._send(answer)
        self._serve()

    def _succeeded(self, answer: Later) -> bool:
        """Return whether there is something to send; a failed request closes the connection."""
        if answer.cancelled():
            return False
        error = answer.exception()
        if isinstance(error, PeerError):
            self._warn(error)
        elif error is not None:
            log.error("request_failed", peer=self.peer_host, exc_info=error)
        return error is None

    def _send(self, parts: Parts) -> None:
        if self._writing:
            self._outbox.add(parts)
            return
        if len(parts) == 1 and type(answer := parts[0]) is bytes:
            # Most answers are small, and most go in one call.
            try:
                sent = self._send_now(answer)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                self.close()
                return
            else:
                self.touched = True
            if sent == len(answer):
                return
            parts = (memoryview(answer)[sent:],)
        self._write(parts)

    def _write(self, parts: Parts = ()) -> None:
        """Hand the kernel as much as it takes; the rest waits until the socket is writable."""
        try:
            sent = self._outbox.write(parts)
        except OSError:
            self.close()
            return
        if sent:
            self.touched = True
        unsent = len(self._outbox) > 0
        if unsent or self._writing:
            self._writing = unsent
            self._watch()

    def _on_writable(self) -> None:
        self._write()
        if not self._reading or self._ending:
            self._serve()

    # -- closing

    def _end(self) -> None:
        """Read no more; close once what came is answered."""
        self._ending = True
        self._pause()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._ending and self.idle and not self._starting:
            self.close()
