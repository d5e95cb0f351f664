"""Parses syslog messages (RFC 3164, RFC 5424) into events."""

import datetime
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.ingest.event import EventBatch, Headers

# <priority>, a version, a time of either RFC or "-", a host or "-", the rest.
_MESSAGE: Final = re.compile(
    rb"<(\d{1,3})>(?:(\d{1,2}) )?"
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?|-"
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
    rb" (\S+) ?",
)
_PRIORITY: Final = re.compile(rb"<(\d{1,3})>")
_COUNTED: Final = re.compile(rb"(\d{1,7}) (?=<)")
_MONTHS = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_HIGHEST_PRIORITY = 191  # facility 23, severity 7
_CACHE_SIZE = 4096
_DAY = datetime.timedelta(days=1)

STATUS_HEADER = "flume.syslog.status"
FIELDS = ("priority", "version", "timestamp", "hostname")


class _Start(NamedTuple):
    """The parsed beginning of a message.

    Attributes:
        text: a message that starts with it has the same headers, and its body after `size` bytes.
            No message starts with an empty tuple.
        kept: the fields that stay in the body.
    """

    text: bytes | tuple[()]
    size: int
    headers: Headers
    kept: bytes


class SyslogParser:
    """Turns messages into headers and bodies.

    Headers are Flume's: Facility, Severity, priority, version, timestamp in milliseconds, host. The
    body is the rest, after the fields in `keep`. A text that is no syslog message becomes an event
    with the status Invalid.

    Messages that arrive together often begin with the same text, up to the host. Such a message
    gets the headers of the one before it and is not parsed again.

    Args:
        keep: names of `FIELDS`.
    """

    def __init__(self, keep: frozenset[str] = frozenset()) -> None:
        self._keep = keep
        self._starts: dict[bytes, _Start] = {}
        self._last = _Start((), 0, {}, b"")

    def parse(self, message: bytes) -> tuple[Headers, bytes]:
        """Return the headers and the body of one message.

        >>> SyslogParser().parse(b"<34>Oct 11 22:14:15 web1 su: failed")[1]
        b'su: failed'
        """
        batch = self.parse_all([message])
        return batch.headers[0], batch.bodies[0]

    def parse_all(self, messages: Iterable[bytes]) -> EventBatch:
        """Return an event per message."""
        all_headers: list[Headers] = []
        bodies: list[bytes] = []
        text, size, headers, kept = self._last
        for message in messages:
            if not message.startswith(text):
                start = self._start(message)
                if start is None:
                    own, body = self._without_fields(message)
                    all_headers.append(own)
                    bodies.append(body)
                    continue
                text, size, headers, kept = self._last = start
            all_headers.append(headers)
            bodies.append(kept + message[size:] if kept else message[size:])
        return EventBatch(bodies, all_headers)

    def _start(self, message: bytes) -> "_Start | None":
        """Return the parsed beginning of a message, from the cache if possible."""
        match = _MESSAGE.match(message)
        if match is None:
            return None
        text = match.group()
        start = self._starts.get(text)
        if start is None:
            key = match.groups(b"")
            kept = self._kept(key) if self._keep else b""
            # Without the space after it, a longer host name could start with this one.
            start = _Start(text if text.endswith(b" ") else (), len(text), self._make(*key), kept)
            if len(self._starts) >= _CACHE_SIZE:
                self._starts.clear()
            self._starts[text] = start
        return start

    def _make(self, priority: bytes, version: bytes, moment: bytes, host: bytes) -> Headers:
        headers = _priority_headers(priority)
        if version:
            headers["version"] = version.decode()
        if (milliseconds := timestamp_ms(moment)) is not None:
            headers["timestamp"] = str(milliseconds)
        if host != b"-":
            headers["host"] = host.decode("utf-8", "replace")
        return headers

    def _without_fields(self, message: bytes) -> tuple[Headers, bytes]:
        """Return an event of a message with a priority only, or of a text that is no message."""
        match = _PRIORITY.match(message)
        if match is None:
            return {"Facility": "0", "Severity": "0", STATUS_HEADER: "Invalid"}, message
        headers = _priority_headers(match.group(1))
        return headers, message if "priority" in self._keep else message[match.end() :]

    def _kept(self, key: tuple[bytes, ...]) -> bytes:
        """Return the fields that stay in the body."""
        priority, version, moment, host = key
        start = b"<%s>" % priority if "priority" in self._keep else b""
        if version and "version" in self._keep:
            start += version + b" "
        if "timestamp" in self._keep:
            start += moment + b" "
        if "hostname" in self._keep:
            start += host + b" "
        return start


def _priority_headers(priority: bytes) -> Headers:
    value = int(priority)
    headers = {
        "Facility": str(value >> 3),
        "Severity": str(value & 7),
        "priority": priority.decode(),
    }
    if value > _HIGHEST_PRIORITY:
        headers[STATUS_HEADER] = "Invalid"
    return headers


def timestamp_ms(written: bytes, today: datetime.date | None = None) -> int | None:
    """Return the milliseconds since 1970, or None if there is no time, or an impossible one.

    RFC 3164 has no year: the time is the nearest one in the past, as in Flume. A time without a
    zone is local.
    """
    try:
        if written[:1].isdigit():
            text = written.decode().replace("Z", "+00:00")
            return int(datetime.datetime.fromisoformat(_micro(text)).timestamp() * 1000)
        if written == b"-":
            return None
        month = _MONTHS.index(written[:3]) + 1
        day, hour, minute, second = (int(written[start : start + 2]) for start in (4, 7, 10, 13))
        day_of_today = datetime.date.today() if today is None else today
        moment = datetime.datetime(day_of_today.year, month, day, hour, minute, second)
        if moment.date() > day_of_today + _DAY:
            moment = moment.replace(year=moment.year - 1)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _micro(text: str) -> str:
    """Return a time with at most six digits after the second, as Python reads it."""
    return re.sub(r"(\.\d{6})\d+", r"\1", text)


class SyslogFraming:
    """Splits a TCP stream into messages: by line feeds, or by counted octets (RFC 6587) where a
    message begins with a count.

    A message longer than `limit` is split into several, as in Flume.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the finished messages."""
        data = self._rest + data if self._rest else data
        messages = data.split(b"\n")
        if any(map(bytes.isdigit, {message[:1] for message in messages})):
            return self._mixed(data)
        self._rest = messages.pop()
        return self._cut(messages, b"\r" in data)

    def _mixed(self, data: bytes) -> list[bytes]:
        messages: list[bytes] = []
        position = 0
        while position < len(data):
            counted = _COUNTED.match(data, position)
            if counted is not None and int(counted.group(1)) <= 64 * self._limit:
                end = counted.end() + int(counted.group(1))
                if end > len(data):
                    break
                messages.append(data[counted.end() : end].rstrip(b"\n"))
                position = end + (data[end : end + 1] == b"\n")
                continue
            end = data.find(b"\n", position)
            if end < 0:
                break
            messages.append(data[position:end])
            position = end + 1
        self._rest = data[position:]
        return self._cut(messages, b"\r" in data)

    def _cut(self, messages: list[bytes], returns: bool) -> list[bytes]:
        """Return the messages without empty ones and carriage returns, in pieces of at most
        `limit`."""
        limit = self._limit
        if len(self._rest) > 64 * limit:
            messages = [*messages, self._rest]
            self._rest = b""
        whole = messages
        if returns:
            whole = [message.rstrip(b"\r") for message in messages]
        if b"" in whole:
            whole = [message for message in whole if message]
        if not whole or max(map(len, whole)) <= limit:
            return whole
        pieces: list[bytes] = []
        for message in whole:
            pieces += (message[at : at + limit] for at in range(0, len(message), limit))
        return pieces

    def finish(self) -> list[bytes]:
        """Return the unfinished message when the stream has ended."""
        rest, self._rest = self._rest, b""
        return self._cut([rest], b"\r" in rest)


def kept_fields(written: str) -> frozenset[str]:
    """Return the fields that a setting names: `none`, `all` (or `--all--`), or some of `FIELDS`;
    true and false are Flume's older values.

    Raises:
        ValueError: a name is no field.
    """
    words = written.split()
    if len(words) == 1 and words[0].lower() in ("none", "false"):
        return frozenset()
    if len(words) == 1 and words[0].lower() in ("all", "--all--", "true"):
        return frozenset(FIELDS)
    for word in words:
        if word not in FIELDS:
            raise ValueError(f"{word!r} is no field: write none, all, or some of {FIELDS}")
    return frozenset(words)
