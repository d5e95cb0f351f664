"""A connection to a leader that an event loop waits for: without a thread, one request at a time.

Rule 1: the connection is opened elsewhere, in a thread. Here it only sends and receives.
Rule 2: TLS keeps bytes that no poll sees, so a connection with TLS is not for this class.
Rule 3: the loop watches the socket from a request until `forget`, or until the connection is
closed: the number of a closed socket may be another one's at once.
Rule 4: a broker that takes nothing, or answers nothing, costs no time of the loop. After the time
of a request it is given up, and so is the connection. So is one that answers before it has all.
"""

import asyncio
from typing import Any

from headrace.client.error import ConnectionLost
from headrace.client.network.connection import Body, BrokerConnection, PendingRequest
from headrace.wire.api import ApiKey


class LeaderConnection:
    """One `BrokerConnection` without TLS, for one event loop.

    Example:
        answer = await LeaderConnection(connection, loop).call(ApiKey.PRODUCE, request, highest=12)
    """

    def __init__(self, connection: BrokerConnection, loop: asyncio.AbstractEventLoop) -> None:
        assert not connection.is_encrypted
        self.connection = connection
        self._loop = loop
        self._descriptor = connection.fileno()
        self._is_watched = False
        self._pending: PendingRequest | None = None
        self._unsent = memoryview(b"")
        self._answer: asyncio.Future[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return not self.connection.closed

    async def call(self, api: ApiKey, body: Body, *, highest: int, wait_ms: int) -> Any:
        """Send a request, and return its response.

        Raises:
            ConnectionLost: no response came. The connection is closed.
        """
        assert self._answer is None, "a request is on its way"
        try:
            pending, unsent = self.connection.try_begin(api, body, highest=highest, wait_ms=wait_ms)
        except BaseException:
            self.forget()
            raise
        self._answer = self._loop.create_future()
        self._pending, self._unsent = pending, unsent
        if not self._is_watched:
            self._loop.add_reader(self._descriptor, self._receive)
            self._is_watched = True
        if unsent:
            self._loop.add_writer(self._descriptor, self._send)
        self._await_deadline()
        try:
            return await self._answer
        finally:
            self._answer = None
            if self._timer is not None:
                self._timer.cancel()

    def forget(self) -> None:
        """Watch the socket no longer, before a thread uses it. The next request does again."""
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)

    def _await_deadline(self) -> None:
        assert self._pending is not None
        # The time of the loop and that of the connection are both `time.monotonic`.
        self._timer = self._loop.call_at(self.connection.deadline(self._pending), self._give_up)

    def _give_up(self) -> None:
        if self._pending is None:  # the answer came in this turn of the loop
            return
        if self.connection.deadline(self._pending) > self._loop.time():  # some of it has come
            self._await_deadline()
            return
        address = self.connection.address
        self._fail(ConnectionLost(f"the broker at {address} did not answer in time"))

    def _send(self) -> None:
        try:
            self._unsent = self.connection.try_send(self._unsent)
        except Exception as error:  # noqa: BLE001, its caller raises it
            self._fail(error)
            return
        if not self._unsent:
            self._loop.remove_writer(self._descriptor)

    def _receive(self) -> None:
        """Take what has come: of a response, or the end of a connection that idles."""
        if self._pending is None:
            self._fail(ConnectionLost("the broker closed the connection"))
            return
        try:
            answer = self.connection.try_finish(self._pending)
        except Exception as error:  # noqa: BLE001, its caller raises it
            self._fail(error)
            return
        if answer is None:
            return
        if self._unsent:  # what is left of this request would be part of the next one
            address = self.connection.address
            self._fail(ConnectionLost(f"{address} answered a request before it had all of it"))
        else:
            self._pending = None
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(answer)

    def _fail(self, error: Exception) -> None:
        self.forget()
        self.connection.close()
        self._pending = None
        self._unsent = memoryview(b"")
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
