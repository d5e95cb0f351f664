"""One connection to one broker: requests out, responses in, in order.

Rule 1: a connection that fails in the middle of a response is closed. The bytes that follow could
belong to any response.
Rule 2: the versions are negotiated first (ApiVersions, KIP-35). A broker that does not know our
version of ApiVersions responds in the layout of version 0; the client then retries with that
version (KIP-511).
Rule 3: responses are received in the order of their requests. A caller that waits for several
brokers at once polls their sockets and calls `try_finish`, which never waits.
"""

import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kio.index import load_response_schema

from headrace import __version__
from headrace.client.address import Address
from headrace.client.error import BrokerError, ConnectionLost, Unreachable, Unsupported
from headrace.client.network.inbox import Allocate, Inbox
from headrace.client.network.sasl import authenticate
from headrace.client.settings import ClientSettings, TlsSettings
from headrace.model.error import ConfigError
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error import MalformedResponse
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchRequest, pack_fetch_request
from headrace.wire.primitive import Frame
from headrace.wire.produce_request import ProduceRequest, pack_produce_request
from headrace.wire.request import pack_request
from headrace.wire.response import parse_response
from headrace.wire.upgrade import upgrade

_SHORTEST_WAIT_SECONDS: Final = 1.0
_SLOWEST_BYTES_PER_SECOND: Final = 65_536
"""A large response may take longer than request.timeout.ms if it arrives at least this fast."""
_COPIED_BYTES: Final = 128 << 10
MOST_SENT_BYTES: Final = 256 << 10

Body: TypeAlias = Mapping[str, Any] | ProduceRequest | FetchRequest


class PendingRequest(NamedTuple):
    """A request that the broker has not answered yet."""

    api: ApiKey
    version: int
    correlation_id: int
    deadline: float


class BrokerConnection:
    """A connected, authenticated socket. One thread at a time may use it.

    Example:
        connection = BrokerConnection(Address("127.0.0.1", 9092), ClientSettings.of({}))
        connection.call(ApiKey.LIST_GROUPS, {}).groups

    Args:
        allocate: allocates the buffers that responses are read into.

    Attributes:
        answered_at: when the last response came, by `time.monotonic`.

    Raises:
        Unreachable: no process listens at the address.
        ConnectionLost: the listener closed the connection, or is no Kafka broker.
        AuthenticationFailed: the broker refused the credentials.
    """

    def __init__(
        self, address: Address, settings: ClientSettings, allocate: Allocate = bytearray
    ) -> None:
        self.address = address
        self.settings = settings
        self._correlation_id = 0
        self._pending: deque[PendingRequest] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self._inbox = Inbox(address, allocate)
        self._socket = _connect(address, settings)
        self.closed = False
        self.answered_at = time.monotonic()
        self._login_expires = False
        try:
            self._agree_on_versions()
            if settings.sasl is not None:
                self._login_expires = authenticate(self.call, settings.sasl)
        except BaseException:
            self.close()
            raise

    def version(self, api: ApiKey, *, lowest: int = 0, highest: int | None = None) -> int:
        """Return the newest version of `api` that both sides speak, from `lowest` to `highest`.

        Raises:
            Unsupported: there is none.
        """
        ours = APIS[api]
        oldest, newest = self._versions.get(api, (0, -1))
        first, last = max(ours.lowest, lowest), ours.highest if highest is None else highest
        chosen = min(newest, last)
        if chosen < max(oldest, first):
            raise Unsupported(
                f"the broker at {self.address} does not serve {ours.name}"
                + (f" v{first} to v{last}" if newest >= 0 else "")
            )
        return chosen

    def serves(self, api: ApiKey) -> bool:
        """Return whether the broker serves a version of `api` that this client speaks."""
        try:
            self.version(api)
        except Unsupported:
            return False
        return True

    def call(
        self,
        api: ApiKey,
        body: Body,
        *,
        lowest: int = 0,
        highest: int | None = None,
        wait_ms: int = 0,
    ) -> Any:
        """Send a request and return the response, in the layout of its newest version."""
        return self.finish(self.begin(api, body, lowest=lowest, highest=highest, wait_ms=wait_ms))

    def begin(
        self,
        api: ApiKey,
        body: Body,
        *,
        lowest: int = 0,
        highest: int | None = None,
        wait_ms: int = 0,
    ) -> PendingRequest:
        """Send a request without waiting for the response.

        Args:
            wait_ms: how long the request lets the broker wait, on top of request.timeout.ms.
        """
        return self._send(api, self.version(api, lowest=lowest, highest=highest), body, wait_ms)

    def try_begin(
        self, api: ApiKey, body: Body, *, highest: int | None = None, wait_ms: int = 0
    ) -> tuple[PendingRequest, memoryview]:
        """Send the beginning of a request, as `try_send` does; return the rest as well, which
        `try_send` takes. The response can be waited for with `try_finish`."""
        pending, parts = self._prepare(api, self.version(api, highest=highest), body, wait_ms)
        self._pending.append(pending)
        return pending, self.try_send(memoryview(b"".join(parts)))

    def try_send(self, data: memoryview) -> memoryview:
        """Send what the socket takes at once of a request that has begun, and at most
        `MOST_SENT_BYTES`: to copy more would take too long. Return the rest.

        Raises:
            ConnectionLost: the connection is closed.
        """
        try:
            self._socket.settimeout(0)
            data = data[self._socket.send(data[:MOST_SENT_BYTES]) :]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except BaseException as error:
            self._broken(error)
            raise
        return data

    def send_only(self, api: ApiKey, body: Body, *, highest: int | None = None) -> None:
        """Send a request that the broker does not answer: Produce with acks=0."""
        self._send(api, self.version(api, highest=highest), body, 0)
        self._pending.pop()

    @property
    def in_flight(self) -> int:
        """How many requests the broker has not answered yet."""
        return len(self._pending)

    def deadline(self, pending: PendingRequest) -> float:
        """Return when to give up on a response. Bytes that have arrived of it extend the time."""
        return pending.deadline + self._inbox.filled_bytes / _SLOWEST_BYTES_PER_SECOND

    def fileno(self) -> int:
        """Return the descriptor to poll, or -1 once the connection is closed."""
        return self._socket.fileno()

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is between the socket and its reader: `poll` does not see all that it has."""
        return isinstance(self._socket, ssl.SSLSocket)

    @property
    def holds_bytes(self) -> bool:
        """Whether TLS has decrypted bytes already, which `poll` does not see in the socket."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def finish(self, pending: PendingRequest) -> Any:
        """Wait for the response to `pending`, which must be the oldest request in flight.

        Raises:
            ConnectionLost: no response came.
        """
        return _upgraded(pending, self._receive(pending))

    def try_finish(self, pending: PendingRequest) -> Any | None:
        """Return what `finish` returns, or None while the response has not arrived whole."""
        self._check_oldest(pending)
        try:
            self._socket.settimeout(0)
            while (frame := self._inbox.receive(self._socket)) is None:
                pass
            return _upgraded(pending, self._parse(pending, frame))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if time.monotonic() > self.deadline(pending):
                self._broken(TimeoutError())
            return None
        except BaseException as error:
            self._broken(error)
            raise

    @property
    def is_reusable(self) -> bool:
        """Whether another client could use the connection: nothing is in flight, and the login does
        not expire."""
        idle = not self._pending and not self._inbox.filled_bytes
        return idle and not self.closed and not self._login_expires

    def reuse_for(self, settings: ClientSettings, allocate: Allocate) -> None:
        """Become the connection of another client, which has the same login."""
        self.settings = settings
        self._inbox = Inbox(self.address, allocate)

    def answers(self, seconds: float) -> bool:
        """Ask the broker something, and return whether it answers in time."""
        wait_ms = round(seconds * 1000) - self.settings.request_timeout_ms
        try:
            self._receive(self._send(ApiKey.API_VERSIONS, 0, {}, wait_ms))
        except (ConnectionLost, MalformedResponse):
            return False
        return True

    def close(self) -> None:
        """Disconnect. Requests in flight are not answered any more."""
        self.closed = True
        self._socket.close()

    def _agree_on_versions(self) -> None:
        api = APIS[ApiKey.API_VERSIONS]
        body = {"client_software_name": "headrace", "client_software_version": __version__}
        answer: Any = None
        for version in (api.highest, 0):
            answer = self._receive(self._send(api.key, version, body, 0))
            if answer.error_code is not ErrorCode.unsupported_version:
                break
        if answer.error_code is not ErrorCode.none:
            raise BrokerError(answer.error_code)
        self._versions = {
            int(each.api_key): (int(each.min_version), int(each.max_version))
            for each in answer.api_keys
        }
        self.features = {
            each.name: int(each.max_version_level)
            for each in getattr(answer, "finalized_features", ())
        }

    def _prepare(
        self, api: ApiKey, version: int, body: Body, wait_ms: int
    ) -> tuple[PendingRequest, list[bytes | memoryview]]:
        """Return a request's bytes, and what its response will be known by."""
        self._correlation_id = self._correlation_id % 0x7FFF_FFFF + 1
        parts = _pack(api, version, self._correlation_id, self.settings.client_id, body)
        deadline = time.monotonic() + (self.settings.request_timeout_ms + wait_ms) / 1000
        return PendingRequest(api, version, self._correlation_id, deadline), parts

    def _send(self, api: ApiKey, version: int, body: Body, wait_ms: int) -> PendingRequest:
        pending, parts = self._prepare(api, version, body, wait_ms)
        try:
            self._socket.settimeout((self.settings.request_timeout_ms + wait_ms) / 1000)
            for part in _joined(parts):
                self._socket.sendall(part)
        except BaseException as error:
            self._broken(error)
            raise
        self._pending.append(pending)
        return pending

    def _receive(self, pending: PendingRequest) -> Any:
        self._check_oldest(pending)
        # A caller that comes after the deadline still gets a response that has arrived meanwhile.
        now = time.monotonic()
        patience = 0.0 if now < pending.deadline else now + _SHORTEST_WAIT_SECONDS
        try:
            frame = None
            while frame is None:
                left = max(self.deadline(pending), patience) - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
                frame = self._inbox.receive(self._socket)
            return self._parse(pending, frame)
        except BaseException as error:
            self._broken(error)
            raise

    def _check_oldest(self, pending: PendingRequest) -> None:
        assert self._pending, "no request is in flight"
        assert self._pending[0] is pending, "an older request is in flight"

    def _parse(self, pending: PendingRequest, frame: Frame) -> Any:
        self._pending.popleft()
        self.answered_at = time.monotonic()
        correlation_id, body = parse_response(pending.api, pending.version, frame)
        if correlation_id != pending.correlation_id:
            raise ConnectionLost(f"{self.address} answered another request than was asked")
        return body

    def _broken(self, error: BaseException) -> None:
        """Close, and raise an error of the operating system as a `ConnectionLost`."""
        self.close()
        if isinstance(error, TimeoutError):
            raise ConnectionLost(f"the broker at {self.address} did not answer in time") from error
        if isinstance(error, OSError):
            raise ConnectionLost(
                f"the connection to {self.address} was lost: {_reason(error)}"
            ) from error


def _joined(parts: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
    """Return the parts of a request, those of a small one as a whole: a system call for each costs
    more than to copy them."""
    if len(parts) > 1 and sum(map(len, parts)) <= _COPIED_BYTES:
        return [b"".join(parts)]
    return parts


def _upgraded(pending: PendingRequest, body: Any) -> Any:
    if pending.api in (ApiKey.PRODUCE, ApiKey.FETCH):
        return body
    return upgrade(body, _newest(pending.api, pending.version))


def _newest(api: ApiKey, version: int) -> type[Any]:
    """Return the class of the responses that `finish` returns.

    Where a version replaced names by topic ids, an older response keeps its own layout: it has no
    id that could be carried over.
    """
    highest = APIS[api].highest
    by_id = _FIRST_BY_ID.get(api)
    if by_id is not None and version < by_id:
        highest = by_id - 1
    newest: type[Any] = load_response_schema(api, highest)
    return newest


_FIRST_BY_ID: Final = {
    ApiKey.OFFSET_COMMIT: 10,
    ApiKey.OFFSET_FETCH: 10,
    ApiKey.ADD_PARTITIONS_TO_TXN: 4,  # from here on for brokers only, in another layout
}


def _pack(
    api: ApiKey, version: int, correlation_id: int, client_id: str, body: Body
) -> list[bytes | memoryview]:
    if isinstance(body, ProduceRequest):
        return pack_produce_request(version, correlation_id, client_id, body)
    if isinstance(body, FetchRequest):
        return [pack_fetch_request(version, correlation_id, client_id, body)]
    return [pack_request(api, version, correlation_id, client_id, body)]


def _connect(address: Address, settings: ClientSettings) -> socket.socket:
    try:
        plain = socket.create_connection(address, settings.connect_timeout_ms / 1000)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if settings.tls is None else _encrypted(plain, address, settings.tls)
    except ssl.SSLError as error:
        raise Unreachable(f"cannot reach {address} over TLS: {_reason(error)}") from error
    except OSError as error:
        raise Unreachable(f"cannot reach {address}: {_reason(error)}") from error


def _encrypted(plain: socket.socket, address: Address, tls: TlsSettings) -> socket.socket:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        context.check_hostname = tls.check_host
        if tls.certificate_file is not None:
            context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password)
    except (OSError, ssl.SSLError) as error:
        plain.close()
        raise ConfigError(
            f"the certificates of ssl.*.location cannot be loaded: {error}"
        ) from error
    return context.wrap_socket(plain, server_hostname=address.host)


def _reason(error: OSError) -> str:
    """Return the operating system's message, in lower case because it follows a colon."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
