"""The replication connection: PostgreSQL's streaming protocol over libpq.

psycopg has no replication cursor, but its `pq` module has libpq's copy functions, and
START_REPLICATION answers with a copy in both directions.
"""

import select
import struct
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.ingest.cdc.postgres.lsn import format_lsn, parse_lsn
from headrace.ingest.error import IngestError, ProtocolError

if TYPE_CHECKING:
    import psycopg

_DATA: Final = struct.Struct(">QQq")
_KEEPALIVE: Final = struct.Struct(">QqB")
_STATUS: Final = struct.Struct(">cQQQqB")
_IS_DATA: Final = ord("w")
_IS_KEEPALIVE: Final = ord("k")
_EPOCH_US: Final = 946_684_800_000_000
_MESSAGES_PER_READ: Final = 2000
_BYTES_PER_READ: Final = 4 << 20
_UNDEFINED_OBJECT: Final = b"42704"
# libpq's code of the field with an error's SQLSTATE.
_SQLSTATE: Final = ord("C")


class PublicationMissing(IngestError):
    """The log has changes of a time in which the publication did not exist. PostgreSQL looks it up
    as it was then, so that they cannot be read, also when it exists by now."""


class NewSlot(NamedTuple):
    """A slot that was just created.

    Attributes:
        lsn: the stream begins here, and
        snapshot: this exported snapshot shows the tables as they were there. It can be imported
            until the connection does something else.
    """

    lsn: int
    snapshot: str


class StreamRead(NamedTuple):
    """What `read` got.

    Attributes:
        messages: the position and the bytes of each message of pgoutput.
        wal_end: the server has sent everything before this position; 0 if it did not say.
        reply: the server wants a status now.
    """

    messages: list[tuple[int, bytes]]
    wal_end: int
    reply: bool


class ReplicationStream:
    """A connection in replication mode.

    Threads: one at a time.
    """

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        self._pq = connection.pgconn
        self._received = 0
        self._publication = ""

    def create_slot(self, slot: str) -> NewSlot:
        """Create a slot and export the snapshot of its beginning. It waits for the end of every
        transaction that runs."""
        command = f"CREATE_REPLICATION_SLOT {_quoted(slot)} LOGICAL pgoutput EXPORT_SNAPSHOT"
        result = self._run(command)
        point, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        assert point is not None and snapshot is not None
        return NewSlot(parse_lsn(point.decode()), snapshot.decode())

    def begin(self, slot: str, publication: str, lsn: int) -> None:
        """Begin to stream.

        Raises:
            IngestError: the server refuses.
        """
        self._publication = publication
        names = _quoted(publication).replace("'", "''")
        self._run(
            f"START_REPLICATION SLOT {_quoted(slot)} LOGICAL {format_lsn(lsn)} "
            f"(proto_version '1', publication_names '{names}')"
        )
        self._received = lsn

    def read(self, seconds: float) -> StreamRead:
        """Return what arrived, at most some megabytes; wait up to `seconds` for the first message.

        Raises:
            PublicationMissing: the publication did not exist when something was changed.
            IngestError: the server ended the stream, or the connection broke.
        """
        messages: list[tuple[int, bytes]] = []
        wal_end, reply, size_bytes = 0, False, 0
        while len(messages) < _MESSAGES_PER_READ and size_bytes < _BYTES_PER_READ:
            size, data = self._pq.get_copy_data(1)
            if size == 0:
                if messages or wal_end or not self._wait(seconds):
                    break
                seconds = 0.0
                continue
            if size < 0:
                raise self._end()
            size_bytes += size
            if data[0] == _IS_DATA:
                start, end, _ = _DATA.unpack_from(data, 1)
                messages.append((start, bytes(data[25:])))
                self._received = max(self._received, end)
                wal_end = 0
            elif data[0] == _IS_KEEPALIVE:
                wal_end, _, wanted = _KEEPALIVE.unpack_from(data, 1)
                self._received = max(self._received, wal_end)
                reply = reply or bool(wanted)
            else:
                raise ProtocolError(f"PostgreSQL sent an unknown message {bytes(data[:1])!r}")
        return StreamRead(messages, wal_end, reply)

    def confirm(self, lsn: int) -> None:
        """Report that everything before `lsn` is safe: the server may forget it."""
        now = time.time_ns() // 1000 - _EPOCH_US
        written = max(self._received, lsn)
        self._pq.put_copy_data(_STATUS.pack(b"r", written, lsn, lsn, now, 0))
        while self._pq.flush():
            self._poll(select.POLLOUT, 5.0)

    def close(self) -> None:
        self._connection.close()

    def _wait(self, seconds: float) -> bool:
        """Wait for bytes, and take them in. Return whether there were any."""
        ready = self._poll(select.POLLIN, seconds)
        if ready:
            self._pq.consume_input()
        return ready

    def _poll(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._pq.socket, event)
        return bool(poll.poll(seconds * 1000))

    def _end(self) -> IngestError:
        result = self._pq.get_result()
        text = result.error_message if result is not None else self._pq.error_message
        message = text.decode("utf-8", "replace").strip() or "it shuts down"
        state = None if result is None else result.error_field(_SQLSTATE)
        if state == _UNDEFINED_OBJECT and self._publication in message:
            return PublicationMissing(f"PostgreSQL ended the stream: {message}")
        return IngestError(f"PostgreSQL ended the stream: {message}")

    def _run(self, command: str) -> Any:
        result = self._pq.exec_(command.encode())
        # 2: rows, 8: a copy in both directions
        if result.status not in (2, 8):
            reason = result.error_message.decode("utf-8", "replace").strip()
            raise IngestError(f"PostgreSQL refused {command.split(' LOGICAL')[0]}: {reason}")
        return result


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
