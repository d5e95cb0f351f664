"""When to retry a request, and when to give up."""

import math
import time

from headrace.client.settings import ClientSettings
from headrace.wire.error_code import ErrorCode

_LONGEST_BACKOFF_SECONDS = 1.0

STALE_LEADER = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_id,
    }
)
"""The leader has moved, or is not ready yet: fetch metadata, then retry."""

STALE_COORDINATOR = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""The coordinator has moved, or is loading its log: find it, then retry."""


class Retry:
    """The attempts of one call: for default.api.timeout.ms in total, with growing pauses between.

    Args:
        most_seconds: a shorter limit than default.api.timeout.ms.
    """

    def __init__(self, settings: ClientSettings, most_seconds: float = math.inf) -> None:
        self._deadline = time.monotonic() + min(settings.api_timeout_ms / 1000, most_seconds)
        self._pause = settings.retry_backoff_ms / 1000

    @property
    def over(self) -> bool:
        """Whether the time is up, even for an attempt without a pause."""
        return time.monotonic() >= self._deadline

    def pause(self) -> bool:
        """Wait before the next attempt. Return False at once when no time is left for one."""
        if time.monotonic() + self._pause > self._deadline:
            return False
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_BACKOFF_SECONDS)
        return True
