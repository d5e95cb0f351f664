"""One HTTP/1.1 connection that produces plain requests on a fast path.

uvicorn and h11 cost more than everything else that a small request needs. A request whose head is
plain, and that `FastProduce` takes, is served here; all other bytes go to `RestConnection`.

Rule 1: a request is taken only when uvicorn has none and h11 holds no byte, and until its response
is written nothing else is taken: requests are answered in their order.
Rule 2: to decline is to hand over all bytes of the request, as if they had come just now.
Rule 3: a body that is not complete within `_BODY_SECONDS` is declined: who sends slowly is bounded
where all are. Its bytes count against the budget of bodies as they come.
Rule 4: what follows a request before it is answered is held, at most one read, and not read on.
"""

import asyncio
from typing import Any, Final

import h11
import structlog

from headrace.gateway.http.byte_budget import Share
from headrace.gateway.rest.connection import RestConnection
from headrace.gateway.rest.fast_produce import (
    FastProduce,
    PlainRecords,
    ProducePlan,
    write_response,
)
from headrace.gateway.rest.produce.producer import Outcomes

log = structlog.get_logger()

_BODY_SECONDS: Final = 1.0


class FastConnection(RestConnection):
    """What uvicorn makes for each client. Its application has to be a `RestApp`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._fast: FastProduce = self.app.fast_produce
        self._plan: ProducePlan | None = None
        self._share: Share | None = None
        self._received: list[bytes] = []
        self._missing_bytes = 0
        self._body_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._plain: PlainRecords | None = None
        self._held = b""
        self._has_fed = False
        self._is_last = False
        self._is_gone = False

    def data_received(self, data: bytes) -> None:
        if self._plain is not None:
            self._held += data
            self.flow.pause_reading()
        elif self._received:
            self._collect(data)
        elif not self._take(data):
            self._has_fed = True
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_gone = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._held = b""
        if self._plain is None:  # records that are queued count until they are written
            self._release()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close when the request that runs is answered."""
        if self._plain is not None:
            self._is_last = True
            return
        if self._received:
            self._decline()
        super().shutdown()

    @property
    def idle_since(self) -> float | None:
        return None if self._plain is not None or self._received else super().idle_since

    def _take(self, data: bytes) -> bool:
        """Begin with a request; return False to leave it to uvicorn."""
        if self._has_fed and not self._is_h11_idle():
            return False
        plan = self._plan
        if plan is None or not data.startswith(plan.head.data):
            plan = self._plan = self._fast.plan(data)
        elif not self._fast.admits(plan):
            return False
        if plan is None or self.flow.write_paused or self._is_over_limit():
            return False
        self._has_fed = False
        self._taken += 1
        self._idle_since = None
        self._unset_keepalive_if_required()
        self._stop_head_timer()
        self._share = self._fast.share()
        self._missing_bytes = len(plan.head.data) + plan.head.body_bytes
        self._collect(data)
        return True

    def _is_h11_idle(self) -> bool:
        states = (self.conn.our_state, self.conn.their_state)
        return states == (h11.IDLE, h11.IDLE) and not self.conn.trailing_data[0]

    def _is_over_limit(self) -> bool:
        limit = self.limit_concurrency
        return limit is not None and max(len(self.connections), len(self.tasks)) >= limit

    def _collect(self, data: bytes) -> None:
        assert self._share is not None
        self._received.append(data)
        self._missing_bytes -= len(data)
        if self._missing_bytes < 0 or not self._share.take_now(len(data)):
            self._decline()
        elif not self._missing_bytes:
            self._start()
        elif self._body_timer is None:
            self._body_timer = self.loop.call_later(_BODY_SECONDS, self._decline)

    def _start(self) -> None:
        assert self._plan is not None
        received = self._received
        data = received[0] if len(received) == 1 else b"".join(received)
        self._received = [data]
        plain = self._fast.start(self._plan, data[len(self._plan.head.data) :])
        if plain is None:
            self._decline()
            return
        self._stop_body_timer()
        self._plain = plain
        plain.outcomes.add_done_callback(self._finish)

    def _finish(self, outcomes: "asyncio.Future[Outcomes]") -> None:
        plain, self._plain = self._plain, None
        assert plain is not None
        failed = outcomes.cancelled() or outcomes.exception() is not None
        if self._is_gone:
            self._release()
            return
        if failed:  # the proxy stops, and has queued none of them
            self._decline()
            return
        self._release()
        headers = self.server_state.default_headers
        try:
            response = write_response(headers, plain, close=self._is_last)
        except Exception:  # a connection without its response would wait for ever
            log.exception("rest_response_failed")
            self.abort()
            return
        self._transport.write(response)
        self._complete()

    def _complete(self) -> None:
        self.server_state.total_requests += 1
        if self._is_last:
            self._transport.close()
            return
        self._idle_since = self.loop.time()
        self._await_reading()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)
        self._go_on()

    def _close_if_idle(self) -> None:
        """Close if no request has come for long. One timer sees many requests: it looks again."""
        self._idle_timer = None
        if self._has_fed:  # uvicorn has a timer, too
            return
        now = self.loop.time()
        since = self.idle_since
        left = (now if since is None else since) + self.timeout_keep_alive - now
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._close_if_idle)
        else:
            self.timeout_keep_alive_handler()

    def _decline(self) -> None:
        """Let uvicorn serve what was received."""
        data = b"".join(self._received)
        self._release()
        self._has_fed = True
        super().data_received(data)
        if self._is_last:
            super().shutdown()
        self._go_on()

    def _go_on(self) -> None:
        """Read what the client sent meanwhile."""
        data, self._held = self._held, b""
        if data:
            self.flow.resume_reading()
            self.data_received(data)

    def _release(self) -> None:
        self._stop_body_timer()
        self._plain = None
        self._received = []
        if self._share is not None:
            self._share.give_back()
            self._share = None

    def _stop_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None
