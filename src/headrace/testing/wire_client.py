"""A client that sends exactly the request and version a test names, and reads its answer."""

import socket
import struct
from collections.abc import Mapping
from itertools import count
from types import TracebackType
from typing import Any

from headrace.wire.api import ApiKey
from headrace.wire.request import pack_request
from headrace.wire.response import parse_response

_SIZE = struct.Struct(">i")
_TIMEOUT_SECONDS = 30.0


class WireClient:
    """One blocking connection. Not for several threads.

    Example:
        with WireClient(broker.address) as client:
            client.ask(ApiKey.LIST_GROUPS, 4, {"states_filter": ["Stable"]}).groups
    """

    def __init__(self, address: str, client_id: str = "wire-client") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_SECONDS)
        self._client_id = client_id
        self._numbers = count(1)

    def ask(self, api: ApiKey, version: int, body: Mapping[str, Any]) -> Any:
        """Send one request and return its answer, in the shape of that version."""
        return self.receive(api, version, self.send(api, version, body))

    def send(self, api: ApiKey, version: int, body: Mapping[str, Any]) -> int:
        """Send without waiting; returns the number to `receive` by, in the order of sending."""
        number = next(self._numbers)
        self._socket.sendall(pack_request(api, version, number, self._client_id, body))
        return number

    def receive(self, api: ApiKey, version: int, number: int) -> Any:
        """The answer to what was sent as `number`, which must be the next to come."""
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        answered, body = parse_response(api, version, self._exactly(size))
        assert answered == number, f"answer {answered} came, {number} was due"
        return body

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionResetError(f"the broker closed after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def __enter__(self) -> "WireClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
