"""How often a stream may be changed within 24 hours. Pure.

The times are part of the stream's state, so that all gateways count together.
"""

from collections.abc import Mapping
from typing import Final

from headrace.gateway.kinesis.error import limit_exceeded

DAY_MS: Final = 24 * 3_600_000
MOST: Final = {
    "StartStreamEncryption": 25,
    "StopStreamEncryption": 25,
    "UpdateShardCount": 10,
    "UpdateStreamMode": 2,
}
"""The service's defaults, per stream."""

Uses = Mapping[str, tuple[int, ...]]
"""When operations were used, in milliseconds."""


def used(uses: Uses, operation: str, stream: str, now_ms: int) -> Uses:
    """Return the uses with one more, without those that are a day old.

    Raises:
        ServiceError: there were too many.
    """
    recent = tuple(each for each in uses.get(operation, ()) if each > now_ms - DAY_MS)
    most = MOST[operation]
    if len(recent) >= most:
        raise limit_exceeded(
            f"{operation} can be used {most} times per rolling 24-hour period for stream {stream}."
        )
    return {**uses, operation: (*recent, now_ms)}
