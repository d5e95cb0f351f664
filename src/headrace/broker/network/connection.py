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
first; to them nothing is.
Rule 6: when a client goes away, waits end (a long poll), and work goes on (a topic that is being
created): a change is never half made because nobody listens any more.
"""

import asyncio
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

import structlog

from headrace.broker.config.listener import Listener
from headrace.broker.network.callback_future import Promise
from headrace.broker.network.limited_warning import Complaints
from headrace.broker.network.outbox import Outbox, Part, Parts
from headrace.broker.network.partial_requests import COUNTED_BYTES, UnfinishedRequests
from headrace.broker.network.poller import READ, WRITE, Poller
from headrace.model.error import PeerError
from headrace.wire.error import FrameTooLarge
from headrace.wire.framing import BufferPool, Frame, FrameSplitter

__all__ = ["Answer", "Connection", "Part", "Parts"]

log = structlog.get_logger(__name__)

Later: TypeAlias = "asyncio.Future[Parts | None] | Promise[Parts | None]"

Answer: TypeAlias = "Parts | Later | None"
"""Parts to send now, a promise of them, or None: no answer at all (acks=0).

A task is work, anything else that comes later only a wait (rule 6)."""

_LATER = (asyncio.Future, Promise)

_SMALL_BYTES = 8 * 1024
_MAX_HELD_BYTES = 64 * 1024
_MAX_HELD_PARTS = 1024
_MAX_PENDING_BYTES = 8 * 1024 * 1024
_REQUESTS_PER_TURN = 32
_PRODUCE_KEY = b"\x00\x00"
_HANG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class FetchLane(Protocol):
    """The short way of fetches that repeat themselves."""

    def serve(self, frame: Frame) -> "Answer":
        """None when this one must go the long way."""

    def close(self) -> None:
        """The client is gone."""


class Connection:
    """The socket of one client and the answers it still waits for. Lives on the event loop.

    Attributes:
        touched: the client has sent a whole request or taken bytes of an answer since `last_active`
            was set. Whoever wants to know the time asks `refresh`: a clock for each is too dear.
        last_active: when that was seen last.
        requests: how many whole requests it has sent.
        fetch_lane: the short way of its fetches, if it is a follower (`replica_lane`).
        lane_end: where the bytes of its Produce requests that are always the same end in a frame
            (`produce_lane`); 0 when it has sent none that could be repeated.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        poller: Poller,
        sock: socket.socket,
        peer_host: str,
        listener: Listener,
        pool: BufferPool,
        *,
        dispatch: "Callable[[Connection, Frame], Answer]",
        on_close: "Callable[[Connection], None]",
        complaints: Complaints,
        unfinished: UnfinishedRequests,
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
        self.lane_end = 0
        self.fetch_lane: FetchLane | None = None
        self.last_active = loop.time()
        self.touched = False
        self.requests = 0
        self._loop = loop
        self._poller = poller
        self._sock = sock
        self._recv = sock.recv
        self._fd = sock.fileno()
        self._splitter = FrameSplitter(pool, limit_bytes=max_request_bytes)
        self._dispatch = dispatch
        self._on_close = on_close
        self._complaints = complaints
        self._unfinished = unfinished
        self._counted = False  # whether a large request of ours is among the unfinished
        self._max_pending = max_pending
        self._waiting: deque[Frame] = deque()
        self._answers: deque[tuple[Answer, int]] = deque()  # with the size of the request
        self._pending_bytes = 0
        self._overlaps = False  # whether the last of those is for a Produce
        self._outbox = Outbox(sock)
        self._muted_until = 0.0
        self._reading = True
        self._writing = False
        self._scheduled = False
        self._starting = False
        self._ending = False
        self._closed = False
        poller.watch(self._fd, READ, self._on_ready)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def idle(self) -> bool:
        """Nothing is owed to this client: it may be closed without losing an answer."""
        return not self._answers and not self._outbox and not self._waiting

    @property
    def stalled(self) -> bool:
        """It has answers to read; whether it does, `last_active` says."""
        return len(self._outbox) > 0

    def refresh(self, now: float) -> float:
        """When the client was last active, as far as is known at the time `now`."""
        if self.touched:
            self.touched = False
            self.last_active = now
        return self.last_active

    def has_left(self) -> bool:
        """Whether the client hung up while nothing is read from it and it waits for an answer.

        While the connection is read the end of its stream says so at once; while it is not,
        nobody would notice before the answer, which a long poll may put off for days.
        """
        if self._reading or self._closed or not self._answers:
            return False
        poll = select.poll()
        poll.register(self._fd, _HANG_UP)
        return bool(poll.poll(0))

    def allow_requests_of(self, max_request_bytes: int) -> None:
        """Raise the size limit, once the client has authenticated."""
        self._splitter.limit_bytes = max_request_bytes

    def mute(self, duration_ms: int) -> None:
        """Start no request for so long; what is owed still goes out (KIP-219)."""
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
            self._count_unfinished(0)
        for answer, _ in self._answers:
            if isinstance(answer, _LATER) and not isinstance(answer, asyncio.Task):
                answer.cancel()
        if self.fetch_lane is not None:
            self.fetch_lane.close()
        self._answers.clear()
        self._outbox.clear()
        self._waiting.clear()
        self._on_close(self)

    def close_when_idle(self) -> None:
        """Take no further request, send what is owed, then close."""
        self._waiting.clear()
        self._end()

    def _watch(self) -> None:
        events = (READ if self._reading else 0) | (WRITE if self._writing else 0)
        self._poller.watch(self._fd, events, self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & READ:
            self._on_readable()
        if events & WRITE and not self._closed:
            self._on_writable()

    # -- in

    def _on_readable(self) -> None:
        """Small requests are received as bytes of their own, which they stay; large ones into a
        buffer, which they share."""
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
            self._complain(error)
            self._take(error.frames)
            self._end()
            return
        if frames:
            if self._counted:
                self._count_unfinished(0)
            self._take(frames)
        elif self._splitter.pending_bytes > COUNTED_BYTES:
            self._count_unfinished(self._splitter.pending_bytes)

    def _count_unfinished(self, size_bytes: int) -> None:
        self._counted = size_bytes > 0
        self._unfinished.note(self, size_bytes)

    def give_up(self, reason: str) -> None:
        """Close because the broker cannot wait for the rest of a request."""
        self._counted = False
        self._complain(PeerError(reason))
        self.close()

    def _take(self, frames: list[Frame]) -> None:
        self.requests += len(frames)
        self.touched = True
        if len(frames) != 1 or not self._is_free():
            self._waiting.extend(frames)
            self._serve()
            return
        # Most clients send one request and wait: it needs no queue.
        self._start(frames[0])
        if self._ending:
            self._close_if_done()

    def _is_free(self) -> bool:
        """Whether a request can be started without a look at the rules."""
        return not (self._waiting or self._answers or self._writing or self._muted_until > 0)

    def _serve(self) -> None:
        """Start requests as far as the rules allow; read on once none is left."""
        started = 0
        waiting = self._waiting
        while waiting and not self._closed:
            if not self._may_start(waiting[0]):
                # An answer, a writable socket or the end of the muting calls again.
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
            self._complain(error)
            self.close_when_idle()
            return
        finally:
            self._starting = False
        if self._closed or answer is None:
            return
        if not self._answers and not isinstance(answer, _LATER):
            if self._writing:
                self._outbox.add(answer)
            else:
                self._write(answer)
            return
        self._overlaps = frame[:2] == _PRODUCE_KEY
        self._answers.append((answer, len(frame)))
        self._pending_bytes += len(frame)
        if isinstance(answer, _LATER):
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

    def _complain(self, error: PeerError) -> None:
        self._complaints.warn("closing a connection", peer=self.peer_host, reason=str(error))

    # -- out

    def _on_answer(self, future: Later) -> None:
        if self._closed:
            if not future.cancelled():
                future.exception()  # looked at: nobody is left to be told
            return
        while self._answers:
            answer, size = self._answers[0]
            if isinstance(answer, _LATER):
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
        """Whether there is something to send; a failed request is owed nothing but the end."""
        if answer.cancelled():
            return False
        error = answer.exception()
        if isinstance(error, PeerError):
            self._complain(error)
        elif error is not None:
            log.error("a request failed", peer=self.peer_host, exc_info=error)
        return error is None

    def _send(self, parts: Parts) -> None:
        if self._writing:
            self._outbox.add(parts)
        else:
            self._write(parts)

    def _write(self, parts: Parts = ()) -> None:
        """Hand the kernel as much as it takes; the rest waits until the socket is writable."""
        try:
            if len(parts) == 1 and not self._writing and type(parts[0]) is bytes:
                # Most answers are small, and most go in one call.
                parts = self._send_at_once(parts[0])
                if not parts:
                    return
            sent = self._outbox.write(parts)
        except OSError:
            self.close()
            return
        if sent:
            self.touched = True
        wanted = len(self._outbox) > 0
        if wanted != self._writing:
            self._writing = wanted
            self._watch()

    def _send_at_once(self, answer: bytes) -> Parts:
        """What is left of it."""
        try:
            sent = self._sock.send(answer)
        except (BlockingIOError, InterruptedError):
            return (answer,)
        self.touched = True
        return () if sent == len(answer) else (memoryview(answer)[sent:],)

    def _on_writable(self) -> None:
        self._write()
        if not self._reading or self._ending:
            self._serve()

    # -- the end

    def _end(self) -> None:
        """Read no more; close once what came is answered."""
        self._ending = True
        self._pause()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._ending and self.idle and not self._starting:
            self.close()
