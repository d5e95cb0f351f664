"""The netcat source: lines over TCP, as `nc` sends them."""

import socket

from headrace.ingest.event import EventBatch
from headrace.ingest.format.line_buffer import LineBuffer
from headrace.ingest.settings import Settings, flag, number, text
from headrace.ingest.sources.listening import LISTENING, ListeningSource

_RECEIVE_BYTES = 256 * 1024


class NetcatSource(ListeningSource):
    """Each line is an event. Lines that are received together are one transaction, and each is
    answered with OK when it is in the channel.

    A line above `max-line-length` is answered with FAILED and ends the connection, as in Flume.
    While the channel is full the peer waits: no line is dropped.
    """

    SETTINGS = (
        *LISTENING,
        number("max-line-length", "Longest line in bytes.", 512, minimum=1),
        flag("ack-every-event", "Answer every line with OK.", True),
        text("encoding", "Ignored: bodies are bytes and stay unchanged.", "utf-8"),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._limit = settings.number("max-line-length")
        self._acknowledge = settings.flag("ack-every-event")

    def serve(self, connection: socket.socket) -> None:
        buffer = LineBuffer(self._limit)
        while data := connection.recv(_RECEIVE_BYTES):
            lines = buffer.feed(data)
            fitting = self._fitting(lines)
            if not self._deliver_lines(connection, lines[:fitting]):
                return
            if fitting < len(lines) or buffer.overlong:
                self.counters.add("EventReadFail")
                connection.sendall(
                    b"FAILED: Event exceeds the maximum length (%d chars, including newline)\n"
                    % self._limit
                )
                return
        if rest := buffer.take_rest():
            self._deliver_lines(connection, [rest])

    def _fitting(self, lines: list[bytes]) -> int:
        """Return how many lines come before the first one that is too long."""
        if not lines or max(map(len, lines)) <= self._limit:
            return len(lines)
        return next(row for row, line in enumerate(lines) if len(line) > self._limit)

    def _deliver_lines(self, connection: socket.socket, lines: list[bytes]) -> bool:
        if not lines:
            return True
        if not self.deliver_with_retries(EventBatch.plain(lines)):
            connection.sendall(b"FAILED: the agent stops\n")
            return False
        if self._acknowledge:
            connection.sendall(b"OK\n" * len(lines))
        return True
