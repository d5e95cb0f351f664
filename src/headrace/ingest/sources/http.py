"""The http source: events in POST requests."""

import json
import time
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from headrace.ingest.config.java_class import simple_name
from headrace.ingest.error import ChannelError, IngestError, ProtocolError
from headrace.ingest.event import NO_HEADERS, EventBatch, Headers
from headrace.ingest.format.avro_event import MAX_HEADERS
from headrace.ingest.format.json_memory import memory_bytes, quick_memory_bytes
from headrace.ingest.network.byte_budget import ByteBudget
from headrace.ingest.network.tls import HTTP_TLS, server_tls
from headrace.ingest.settings import Settings, number, port, prefix, text
from headrace.ingest.source import Source
from headrace.telemetry.http_server import HttpHandler, HttpServer

_JSON = "JSONHandler"
_BLOB = "BlobHandler"
_LARGEST_BODY = 64 << 20
_MOST_BYTES = 256 << 20
_MOST_CONNECTIONS = 200
_RECEIVE_BYTES = 256 * 1024
# Small limits for bodies shall not refuse requests of a few events.
_LEAST_FOR_VALUES = 1 << 20
_CHARSETS = ("utf-8", "utf-16", "utf-32", "utf-16be", "utf-16le", "utf-32be", "utf-32le")


class HttpSource(Source):
    """Accepts POST requests; the events of one request are one transaction.

    It answers 200 when the events are in the channel, 400 when they cannot be read, and 503 when
    the channel is full, or it is busy with other requests, so that the client retries.

    Invariant: there are never more than `threads` connections, and never more than `maxBodyBytes`
    of their bodies in memory. A body that takes longer than `requestTimeout` is answered with 408.
    What JSON becomes takes at most twice `maxBodyBytes`, or twelve times `maxRequestBytes`: a
    request waits for room, and one that alone takes more is answered with 413.

    The JSON handler reads `[{"headers": {"k": "v"}, "body": "text"}, ...]`. The blob handler makes
    the whole body one event, and the parameters of the query its headers.
    """

    SETTINGS = (
        text("bind", "The address to listen on.", "0.0.0.0"),  # noqa: S104
        port("The port to listen on."),
        text("handler", "How to read a request: json or blob.", "json"),
        prefix("handler", "Parameters of the handler."),
        number("threads", "Most connections at once.", _MOST_CONNECTIONS, minimum=1),
        number("maxRequestBytes", "Largest request.", _LARGEST_BODY, minimum=1),
        number("maxBodyBytes", "Largest sum of requests at one time.", _MOST_BYTES, minimum=1),
        number("requestTimeout", "Milliseconds that a body may take.", 60_000, minimum=1),
        *HTTP_TLS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        written = settings.text("handler")
        kind = simple_name(written)
        self._is_json = kind.lower() in ("json", _JSON.lower())
        if self._is_json:
            self._read = read_json
        elif kind.lower() in ("blob", _BLOB.lower()):
            self._read = read_blob
        else:
            raise settings.wrong("handler", f"there is no handler {written!r}: write json or blob")
        self.max_bytes = settings.number("maxRequestBytes")
        self.request_seconds = settings.number("requestTimeout") / 1000
        most_bytes = max(self.max_bytes, settings.number("maxBodyBytes"))
        self.budget = ByteBudget(most_bytes)
        self._values = ByteBudget(max(_LEAST_FOR_VALUES, 2 * most_bytes, 12 * self.max_bytes))
        self._most = settings.number("threads")
        self._tls = server_tls(settings)
        self._address = (settings.text("bind"), settings.number("port"))
        self._server: HttpServer | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.port

    def start(self) -> None:
        owner = self

        class Handler(_SourceHandler):
            source = owner

        try:
            self._server = HttpServer(
                *self._address,
                Handler,
                name=f"source {self.name}",
                max_connections=self._most,
                tls=self._tls,
            )
        except OSError as error:
            raise IngestError(
                f"{self.name} cannot listen on {self._address[0]}:{self._address[1]}: "
                f"{error.strerror}"
            ) from error
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    def accept(self, body: bytes, query: str, content_type: str) -> None:
        """Deliver the events of a request.

        Raises:
            ProtocolError: the request cannot be read.
            RequestTooLarge: its events take too much memory.
            ChannelError: a channel has no room.
        """
        size = self._value_bytes(body, content_type) if self._is_json else 0
        with self._values.taken(size, self.request_seconds) as fits:
            if not fits:
                raise ChannelError("busy with other requests: try again")
            self._deliver(body, query, content_type)

    def _value_bytes(self, body: bytes, content_type: str) -> int:
        """Return how much memory the events of a JSON text take while they are read."""
        size = quick_memory_bytes(body)
        # In other charsets the bytes of a quotation mark are also those of other characters.
        if size > self._values.most_bytes and _charset(content_type) == "utf-8":
            size = memory_bytes(body)
        if size > self._values.most_bytes:
            raise RequestTooLarge("its events take too much memory: send fewer in one request")
        return size

    def _deliver(self, body: bytes, query: str, content_type: str) -> None:
        batch = self._read(body, query, content_type)
        self.counters.add("AppendBatchReceivedCount")
        if len(batch):
            self.deliver(batch)
        self.counters.add("AppendBatchAcceptedCount")


def read_json(body: bytes, query: str, content_type: str) -> EventBatch:
    """Read a list of objects with `headers` and `body`, in UTF-8, UTF-16 or UTF-32.

    Raises:
        ProtocolError: the body is no such list.
    """
    charset = _charset(content_type)
    if charset not in _CHARSETS:
        raise ProtocolError(f"the charset {charset!r} is not UTF-8, UTF-16 or UTF-32")
    try:
        rows = json.loads(body.decode(charset))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"the request is no JSON: {error}") from None
    if not isinstance(rows, list):
        raise ProtocolError("the request is no list of events: write [{headers, body}, ...]")
    all_headers: list[Headers] = []
    for index, row in enumerate(rows):
        headers, rows[index] = _event(index, row, charset)
        all_headers.append(headers)
    return EventBatch(rows, all_headers)


def _charset(content_type: str) -> str:
    charset = "utf-8"
    for part in content_type.lower().split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name == "charset":
            charset = value.strip('"')
    return charset


def _event(number: int, row: Any, charset: str) -> tuple[Headers, bytes]:
    if not isinstance(row, dict):
        raise ProtocolError(f"event {number} is no object")
    headers, body = row.get("headers") or NO_HEADERS, row.get("body")
    if not isinstance(headers, dict) or not all(isinstance(v, str) for v in headers.values()):
        raise ProtocolError(f"the headers of event {number} are no object of texts")
    if len(headers) > MAX_HEADERS:
        raise ProtocolError(f"event {number} has more than {MAX_HEADERS} headers")
    if not isinstance(body, str | None):
        raise ProtocolError(f"the body of event {number} is no text")
    try:
        for text in (*headers, *headers.values()):
            text.encode()
        return headers, (body or "").encode(charset)
    except UnicodeEncodeError:
        raise ProtocolError(f"event {number} has half a character in it") from None


def read_blob(body: bytes, query: str, content_type: str) -> EventBatch:
    """Read the whole body as one event.

    Raises:
        ProtocolError: the query has too many parameters.
    """
    try:
        headers = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=1000))
    except ValueError:
        raise ProtocolError("the query has more than 1000 parameters") from None
    return EventBatch([body], [headers])


class RequestTooLarge(IngestError):
    """A request that alone needs more memory than all requests together may use."""


class _SourceHandler(HttpHandler):
    source: HttpSource
    protocol_version = "HTTP/1.1"
    timeout = 60
    _body_read = False

    def do_POST(self) -> None:
        self._body_read = False
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._answer(411, "send a Content-Length")
            return
        if int(length) > self.source.max_bytes:
            self._answer(413, f"at most {self.source.max_bytes} bytes")
            return
        if self.source.stopping.is_set():
            self._answer(503, "the agent stops")
            return
        with self.source.budget.taken(int(length)) as fits:
            if fits:
                self._accept(int(length))
            else:
                self._answer(503, "busy with other requests: try again")

    def _accept(self, length: int) -> None:
        try:
            body = self._body(length)
        except TimeoutError:
            self._answer(408, "the request took too long")
            return
        if len(body) < length:
            self.close_connection = True  # the client is gone
            return
        self._body_read = True
        try:
            query = urlsplit(self.path).query
            self.source.accept(body, query, self.headers.get("Content-Type", ""))
        except ProtocolError as error:
            self._answer(400, str(error))
        except RequestTooLarge as error:
            self._answer(413, str(error))
        except ChannelError as error:
            self._answer(503, str(error))
        else:
            self._answer(200, "")

    def _body(self, length: int) -> bytes:
        """Return the body, or what the client sent of it before it closed the connection.

        Raises:
            TimeoutError: the client is too slow.
        """
        deadline = time.monotonic() + self.source.request_seconds
        body = bytearray()
        try:
            while len(body) < length:
                self.connection.settimeout(max(0.001, deadline - time.monotonic()))
                data = self.rfile.read1(min(_RECEIVE_BYTES, length - len(body)))
                if not data:
                    break
                body += data
                if time.monotonic() > deadline:
                    raise TimeoutError
        finally:
            self.connection.settimeout(self.timeout)
        return bytes(body)

    def do_GET(self) -> None:
        self._answer(405, "send events with POST")

    def _answer(self, status: int, message: str) -> None:
        data = f"{message}\n".encode() if message else b""
        # The body of these requests was not read, so the next request cannot be found.
        closing = status in (408, 411, 413) or (status == 503 and not self._body_read)
        self.reply(status, data, {"Connection": "close"} if closing else {})
