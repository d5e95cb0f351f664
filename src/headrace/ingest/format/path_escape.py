"""Paths with escapes for headers, times and hosts: `/logs/%{host}/%Y-%m-%d`."""

import datetime
import re
import socket
import time
from typing import Final
from zoneinfo import ZoneInfo

from headrace.ingest.event import Headers
from headrace.ingest.format.event_time import time_ms

_ESCAPE: Final = re.compile(r"%\{([\w.-]+)\}|%\[(\w+)\]|%([a-zA-Z])|%%")
_STRFTIME: Final = dict(
    zip("aAbBcdDHIjmMpSyYz", ("%" + c for c in "aAbBcdDHIjmMpSyYz"), strict=True)
) | {"e": "%-d", "k": "%-H", "n": "%-m"}
_UNIT_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600}
# A file name has at most 255 bytes; this leaves some for the rest of the name.
_LONGEST_PART_BYTES: Final = 200
# What a header must not add to a path.
_UNSAFE: Final = re.compile(r"(^|/)\.\.(?=/|$)|\0")


class PathEscape:
    """Fills in a path from an event's headers.

    `%{name}` is a header, `%t` milliseconds, `%s` seconds; other letters are those of `date`, and
    `%[localhost]`, `%[IP]` and `%[FQDN]` are this machine. The time is the header `timestamp`, or
    now.

    A header cannot lead out of the directory: `..` between slashes becomes `_`.
    """

    def __init__(
        self,
        path: str,
        *,
        zone: ZoneInfo | None = None,
        local_time: bool = False,
        round_value: int = 0,
        round_unit: str = "second",
    ) -> None:
        self._path = path
        self._zone = zone
        self._local_time = local_time
        self._round_seconds = round_value * _UNIT_SECONDS[round_unit]
        self._host = socket.gethostname()

    @property
    def is_plain(self) -> bool:
        """Whether the path is the same for all events."""
        return "%" not in self._path

    def fill(self, headers: Headers) -> str:
        if self.is_plain:
            return self._path
        moment: datetime.datetime | None = None

        def replacement(match: re.Match[str]) -> str:
            nonlocal moment
            header, host, letter = match.groups()
            if header is not None:
                return _part(headers.get(header, ""))
            if host is not None:
                return self._machine(host)
            if letter is None:
                return "%"
            if moment is None:
                moment = self._moment(headers)
            return _time_part(letter, moment, match.group(0))

        return _ESCAPE.sub(replacement, self._path)

    def _moment(self, headers: Headers) -> datetime.datetime:
        written = None if self._local_time else time_ms(headers)
        seconds = time.time() if written is None else written / 1000
        if self._round_seconds:
            seconds -= seconds % self._round_seconds
        return datetime.datetime.fromtimestamp(seconds, self._zone).astimezone(self._zone)

    def _machine(self, word: str) -> str:
        match word.lower():
            case "localhost":
                return self._host
            case "fqdn":
                return socket.getfqdn()
            case "ip":
                try:
                    return socket.gethostbyname(self._host)
                except OSError:
                    return "127.0.0.1"
        return f"%[{word}]"


def _part(value: str) -> str:
    """Return a header as part of a path. Headers come from outside: the part has no `..`, nothing
    that a file system refuses, and fits into a file name."""
    cut = value.encode("utf-8", "replace")[:_LONGEST_PART_BYTES].decode("utf-8", "ignore")
    return _UNSAFE.sub(r"\1_", cut)


def _time_part(letter: str, moment: datetime.datetime, written: str) -> str:
    if letter == "t":
        return str(int(moment.timestamp() * 1000))
    if letter == "s":
        return str(int(moment.timestamp()))
    pattern = _STRFTIME.get(letter)
    return written if pattern is None else moment.strftime(pattern)
