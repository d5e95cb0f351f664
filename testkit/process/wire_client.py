"""A client that sends exactly the request and version a test names, and reads its answer."""

import socket
import struct
from collections.abc import Mapping
from itertools import count
from types import TracebackType
from typing import Any

from headrace.wire.api import APIS, ApiKey
from headrace.wire.fetch_request import FetchRequest, pack_fetch_request
from headrace.wire.fetch_response import FetchResponse
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from headrace.wire.request import pack_request
from headrace.wire.response import parse_response

_SIZE = struct.Struct(">i")
_TIMEOUT_SECONDS = 90.0


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

    def send_bytes(self, content: bytes) -> None:
        """Send what is no request, or no whole one."""
        self._socket.sendall(content)

    def send_fetch(self, version: int, request: FetchRequest) -> int:
        number = next(self._numbers)
        self._socket.sendall(pack_fetch_request(version, number, self._client_id, request))
        return number

    def fetch(self, version: int, request: FetchRequest) -> FetchResponse:
        answer: FetchResponse = self.receive(
            ApiKey.FETCH, version, self.send_fetch(version, request)
        )
        return answer

    def send_produce(self, version: int, request: ProduceRequest) -> int:
        number = next(self._numbers)
        parts = pack_produce_request(version, number, self._client_id, request)
        self._socket.sendall(b"".join(parts))
        return number

    def produce(self, topic: str, records: bytes, partition: int = 0, acks: int = -1) -> Any:
        """Send records to one partition and return what the broker says about it."""
        produced = [ProduceTopic(topic, None, [ProducePartition(partition, memoryview(records))])]
        number = self.send_produce(9, ProduceRequest(None, acks, 30_000, produced))
        return self.receive(ApiKey.PRODUCE, 9, number).topics[0].partitions[0]

    def ended(self) -> bool:
        """Wait until the broker closes or sends something; return whether it closed."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def receive(self, api: ApiKey, version: int, number: int) -> Any:
        """Return the response to the request `number`, which must be the next to come."""
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


def versions(api: ApiKey) -> Any:
    """Return a mark that runs a test with every version of an API that the broker serves."""
    import pytest  # only tests call this, and only the dev extra brings pytest

    served = APIS[api]
    return pytest.mark.parametrize("version", range(served.lowest, served.highest + 1))
