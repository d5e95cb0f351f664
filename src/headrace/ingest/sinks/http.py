"""The http sink: events in POST requests."""

import http.client
from urllib.parse import urlsplit

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.ingest.sink import Sink


class HttpSink(Sink):
    """Sends one event per request, and one request per transaction.

    An event is delivered when the server answers 2xx. With `rollback.CODE = false` (or
    `rollback.4XX`) an event is dropped after such an answer, without a retry.
    """

    BATCH_SETTING = None
    DEFAULT_BATCH_SIZE = 1
    SETTINGS = (
        text("endpoint", "The URL.", required=True),
        number("connectTimeout", "Timeout of a connection in milliseconds.", 5000, minimum=1),
        number("requestTimeout", "Timeout of an answer in milliseconds.", 5000, minimum=1),
        text("contentTypeHeader", "The Content-Type of events.", "text/plain"),
        text("acceptHeader", "The Accept header.", "text/plain"),
        flag("defaultRollback", "Retry after answers other than 2xx.", True),
        flag("defaultBackoff", "Ignored: retries always pause.", True),
        flag("defaultIncrementMetrics", "Ignored.", False),
        prefix("rollback", "defaultRollback of single codes."),
        prefix("backoff", "Ignored."),
        prefix("incrementMetrics", "Ignored."),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        parts = urlsplit(settings.text("endpoint"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise settings.wrong(
                "endpoint", f"endpoint {settings.text('endpoint')!r} is no http(s) address"
            )
        self._parts = parts
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._rollback = {
            code.upper(): written.lower() == "true"
            for code, written in settings.below("rollback").items()
        }
        self._connection: http.client.HTTPConnection | None = None

    def stop(self) -> None:
        self._disconnect()

    def deliver(self, batch: EventBatch) -> None:
        for body in batch.bodies:
            status = self._post(body)
            if self._must_retry(status):
                raise DeliveryFailed(f"{self.settings.text('endpoint')} answered {status}")

    def _must_retry(self, status: int) -> bool:
        for code in (str(status), f"{status // 100}XX"):
            if code in self._rollback:
                return self._rollback[code]
        return not 200 <= status < 300 and self.settings.flag("defaultRollback")

    def _post(self, body: bytes) -> int:
        headers = {
            "Content-Type": self.settings.text("contentTypeHeader"),
            "Accept": self.settings.text("acceptHeader"),
        }
        try:
            connection = self._connect()
            connection.request("POST", self._path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return int(answer.status)
        except (OSError, http.client.HTTPException) as error:
            self._disconnect()
            where = self.settings.text("endpoint")
            raise DeliveryFailed(f"cannot post to {where}: {error!r}") from error

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            assert self._parts.hostname is not None
            kind = (
                http.client.HTTPSConnection
                if self._parts.scheme == "https"
                else http.client.HTTPConnection
            )
            seconds = self.settings.number("connectTimeout") / 1000
            self._connection = kind(self._parts.hostname, self._parts.port, timeout=seconds)
            self._connection.connect()
            self._connection.sock.settimeout(self.settings.number("requestTimeout") / 1000)
            self.counters.add("ConnectionCreatedCount")
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self.counters.add("ConnectionClosedCount")
