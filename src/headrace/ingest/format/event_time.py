"""The time in a header of an event."""

from typing import Final

from headrace.ingest.event import Headers

# The end of the year 9999: a calendar, a database or a path cannot hold a later time.
_END_MS: Final = 253_402_300_800_000


def time_ms(headers: Headers, name: str = "timestamp") -> int | None:
    """Return the milliseconds since 1970 in a header, or None if it is missing or no such time.

    Headers come from outside: a wrong one must not stop a sink.

    >>> time_ms({"timestamp": "1000"}), time_ms({"timestamp": "9" * 30}), time_ms({})
    (1000, None, None)
    """
    written = headers.get(name, "")
    if not (written.isascii() and written.isdigit()) or len(written) > 18:
        return None
    value = int(written)
    return value if value < _END_MS else None
