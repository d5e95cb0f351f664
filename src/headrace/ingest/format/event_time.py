"""The time an event says it is from."""

from typing import Final

from headrace.ingest.event import Headers

# The end of the year 9999: what is later is no time that anybody means, and none that a calendar,
# a database or a path could hold.
_END_MS: Final = 253_402_300_800_000


def time_ms(headers: Headers, name: str = "timestamp") -> int | None:
    """Milliseconds since 1970, or None for a header that is not there or is no such time. Headers
    come from outside: whatever is in one must not hold up a sink.

    >>> time_ms({"timestamp": "1000"}), time_ms({"timestamp": "9" * 30}), time_ms({})
    (1000, None, None)
    """
    written = headers.get(name, "")
    if not (written.isascii() and written.isdigit()) or len(written) > 18:
        return None
    value = int(written)
    return value if value < _END_MS else None
