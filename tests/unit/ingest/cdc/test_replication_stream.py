"""The replication connection, without a server."""

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.ingest.cdc.postgres.replication_stream import PublicationMissing, ReplicationStream
from headrace.ingest.error import IngestError


class Server:
    """Sends messages, and then an error."""

    def __init__(self, messages: list[bytes], state: bytes = b"57P01") -> None:
        self._messages = messages
        self._state = state
        self.pgconn = self

    def exec_(self, command: bytes) -> Any:
        return SimpleNamespace(status=8)

    def get_copy_data(self, asynchronous: int) -> tuple[int, bytes]:
        if not self._messages:
            return -1, b""
        data = self._messages.pop(0)
        return len(data), data

    def get_result(self) -> Any:
        text = b'ERROR:  publication "shop" does not exist'
        return SimpleNamespace(error_message=text, error_field=lambda _: self._state)


def stream(server: Server) -> ReplicationStream:
    connection: Any = server
    made = ReplicationStream(connection)
    made.begin("slot", "shop", 0)
    return made


def change(size: int) -> bytes:
    return b"w" + struct.pack(">QQq", 1, 2, 3) + bytes(size)


def test_a_read_takes_some_megabytes_whatever_the_messages_are() -> None:
    made = stream(Server([change(1 << 20)] * 50))
    assert len(made.read(0).messages) == 4
    assert len(made.read(0).messages) == 4


def test_small_messages_are_counted() -> None:
    made = stream(Server([change(10)] * 5000))
    assert len(made.read(0).messages) == 2000


@pytest.mark.parametrize(("state", "missing"), [(b"42704", True), (b"57P01", False)])
def test_a_publication_that_did_not_exist_is_an_error_of_its_own(
    state: bytes, missing: bool
) -> None:
    with pytest.raises(IngestError, match="ended the stream") as raised:
        stream(Server([], state)).read(0)
    assert isinstance(raised.value, PublicationMissing) is missing
