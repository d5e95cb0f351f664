"""How old an instance's view of the streams may be when it vouches for a record.

An instance acknowledges a put, or returns records of an open shard, only if it had confirmed its
view less than `LEASE_SECONDS` before. The instance that closes a shard announces that first, and
waits `CLOSING_SECONDS` before it looks where the shard ends. So every acknowledged record lies
before that end. Decision 0033 has the argument.
"""

import time
from dataclasses import dataclass
from typing import Final

LEASE_SECONDS: Final = 1.0
RENEW_SECONDS: Final = 0.5
"""The age at which a lease that is in use is renewed, so that no put waits for it."""

WARM_SECONDS: Final = 10.0
"""How long a lease is renewed after its last use: a put every few seconds does not wait for one."""

MARGIN_SECONDS: Final = 0.5
"""For clocks that do not run equally fast."""

CLOSING_SECONDS: Final = LEASE_SECONDS + MARGIN_SECONDS

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_clock() -> float:
    """Return the seconds of the clock that leases are measured with.

    Unlike `time.monotonic` on Linux it runs on while the machine is suspended: a gateway that wakes
    up must know that its lease has ended.
    """
    return time.clock_gettime(_CLOCK)


@dataclass(slots=True)
class LeaseDemand:
    """When the next lease record is to be sent. Pure: times are those of `lease_clock`.

    Attributes:
        used: when a view was last asked for.
        wanted: a record is wanted that is sent at this moment or later.
        written: when the last record that a leader acknowledged was sent.
    """

    used: float = float("-inf")
    wanted: float = float("-inf")
    written: float = float("-inf")

    def seconds_to_wait(self, now: float) -> float | None:
        """Return how long to wait; 0 if a record is due, None until one is wanted."""
        if self.wanted > self.written:
            return 0.0
        if now - self.used >= WARM_SECONDS:
            return None
        return max(0.0, self.written + RENEW_SECONDS - now)
