"""Calling a DRPC function from Python.

Theory of operation. One thread writes requests, all that wait at once. Another thread reads replies
and failures, beginning where the topics ended when the client was made, and completes the future of
the call that waits. Replies to other clients, and replies that come too late, are ignored.

When the brokers do not answer for as long as the client's settings allow, a thread fails the calls
that wait, and connects again until it succeeds. Until then calls are refused at once.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, Full, Queue
from types import TracebackType
from typing import Any, Literal, TypeVar

import pyarrow as pa

from headrace.client.error import ClientError
from headrace.client.read.read_range import LogEdge
from headrace.client.read.reader import Reader
from headrace.client.write.writer import Writer
from headrace.flow.drpc.function_topics import (
    MAX_ARGUMENT_BYTES,
    DrpcBusy,
    DrpcError,
    DrpcFailed,
    DrpcTimeout,
    FunctionTopics,
    new_request,
)

MOST_WAITING = 1_000
_AT_ONCE = 500
_POLL_SECONDS = 0.2
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0

_Opened = TypeVar("_Opened")
_Side = Literal["write", "read"]


class DrpcClient:
    """Calls one function, from any number of threads.

    Example:
        with DrpcClient("reach", brokers="127.0.0.1:9092") as reach:
            followers = int(reach.execute("https://example.com/1", timeout_seconds=10))

    Args:
        most_waiting: how many calls may wait at a time; further calls are refused.

    Raises:
        ClientError: no broker answers, or the function's topics do not exist.
    """

    def __init__(
        self,
        function: str,
        *,
        brokers: str,
        settings: Mapping[str, str] | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._topics = FunctionTopics(function)
        self._most = most_waiting
        self._waiting: dict[str, Future[str]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._problems: dict[_Side, ClientError] = {}
        self._queue: Queue[tuple[str, str]] = Queue(most_waiting)
        self._texts = {**(settings or {}), "bootstrap.servers": brokers}
        self._reader = self._open_reader()
        self._writer = self._open_writer()
        self._threads = [
            threading.Thread(target=each, name=f"drpc-{name}", daemon=True)
            for name, each in (("write", self._write), ("read", self._read))
        ]
        for each in self._threads:
            each.start()

    def execute(self, argument: str = "", *, timeout_seconds: float = 10.0) -> str:
        """Call the function and return its result.

        Raises:
            DrpcTimeout: no reply came in time; the function may still have seen the request.
            DrpcFailed: a bolt of the function raised.
            DrpcBusy: too many calls wait already.
            DrpcError: the argument is too long, or the topics cannot be reached.
        """
        size = len(argument.encode())
        if size > MAX_ARGUMENT_BYTES:
            raise DrpcError(
                f"the argument has {size:,} bytes: at most {MAX_ARGUMENT_BYTES:,} can be sent"
            )
        request = new_request(time.time_ns() // 1_000_000 + int(timeout_seconds * 1_000))
        answer = self._send(request, argument)
        try:
            return answer.result(timeout_seconds)
        except FutureTimeout:
            raise DrpcTimeout(
                f"{self._topics.function} did not answer in {timeout_seconds:g} s"
            ) from None
        finally:
            with self._lock:
                self._waiting.pop(request, None)

    def _send(self, request: str, argument: str) -> Future[str]:
        answer: Future[str] = Future()
        with self._lock:
            for problem in self._problems.values():
                raise DrpcError(f"{self._topics.function} cannot be reached: {problem}")
            if self._closed.is_set():
                raise DrpcError("the client is closed")
            if len(self._waiting) >= self._most:
                raise DrpcBusy(f"{self._most:,} calls of {self._topics.function} wait already")
            self._waiting[request] = answer
        try:
            self._queue.put_nowait((request, argument))
        except Full:
            with self._lock:
                del self._waiting[request]
            raise DrpcBusy(
                f"{self._most:,} calls of {self._topics.function} are not even sent"
            ) from None
        return answer

    def _open_reader(self) -> Reader:
        return Reader.of_topics(
            self._texts,
            self._topics.replies,
            self._topics.failures,
            start=LogEdge.LATEST,
            follow=True,
            read_committed=True,
            columns=["key", "value", "headers"],
            reset=LogEdge.LATEST,
        )

    def _open_writer(self) -> Writer:
        return Writer(self._texts, self._topics.requests, linger_ms=0)

    def _write(self) -> None:
        while not self._closed.is_set():
            try:
                requests = self._next_requests()
                if requests:
                    keys, values = zip(*requests, strict=True)
                    self._writer.write(pa.table({"key": keys, "value": values}))
                    self._writer.flush()
            except ClientError as error:
                self._fail("write", error)
                # The callers of what it holds have their answer.
                self._writer.abandon()
                self._writer = self._reopened("write", self._open_writer) or self._writer

    def _next_requests(self) -> list[tuple[str, str]]:
        try:
            requests = [self._queue.get(timeout=_POLL_SECONDS)]
        except Empty:
            return []
        while len(requests) < _AT_ONCE:
            try:
                requests.append(self._queue.get_nowait())
            except Empty:
                break
        return requests

    def _read(self) -> None:
        while not self._closed.is_set():
            try:
                chunk = self._reader.poll(_POLL_SECONDS)
            except ClientError as error:
                self._fail("read", error)
                self._reader.close()
                self._reader = self._reopened("read", self._open_reader) or self._reader
                continue
            if chunk is None:
                continue
            rows = chunk.columns.to_pylist()
            failed = chunk.partition.topic == self._topics.failures
            for row in rows:
                self._failure(row) if failed else self._reply(row)
        # `close` may have ended the one before.
        self._reader.close()

    def _reopened(self, side: _Side, open_again: Callable[[], _Opened]) -> _Opened | None:
        """Return a new connection when the brokers answer; None when the client is closed."""
        pause = _FIRST_PAUSE_SECONDS
        while not self._closed.wait(pause):
            try:
                opened = open_again()
            except ClientError as error:
                self._fail(side, error)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                with self._lock:
                    self._problems.pop(side, None)
                return opened
        return None

    def _reply(self, row: Mapping[str, Any]) -> None:
        answer = self._remove((row["key"] or b"").decode(errors="replace"))
        if answer is not None:
            answer.set_result((row["value"] or b"").decode(errors="replace"))

    def _failure(self, row: Mapping[str, Any]) -> None:
        """Fail the call of a dead letter: its value is the tuple, its headers have the error."""
        try:
            tuple_ = json.loads(row["value"] or b"{}")
        except (ValueError, RecursionError):
            return
        request = tuple_.get("request") if isinstance(tuple_, dict) else None
        answer = self._remove(request) if isinstance(request, str) else None
        if answer is not None:
            headers = {each["key"]: each["value"] or b"" for each in row["headers"] or ()}
            where = headers.get("component", b"a bolt").decode(errors="replace")
            why = headers.get("error", b"an error").decode(errors="replace")
            answer.set_exception(DrpcFailed(f"{where} of {self._topics.function}: {why}"))

    def _remove(self, request: str) -> "Future[str] | None":
        with self._lock:
            return self._waiting.pop(request, None)

    def _fail(self, side: _Side, error: ClientError) -> None:
        with self._lock:
            self._problems[side] = error
            left, self._waiting = self._waiting, {}
        for each in left.values():
            each.set_exception(DrpcError(f"{self._topics.function} cannot be reached: {error}"))

    def close(self) -> None:
        """Fail the calls that wait, and stop both threads."""
        self._closed.set()
        self._reader.close()
        for thread in self._threads:
            thread.join()
        self._writer.close()
        with self._lock:
            left, self._waiting = self._waiting, {}
        for each in left.values():
            each.set_exception(DrpcError("the client is closed"))

    def __enter__(self) -> "DrpcClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
