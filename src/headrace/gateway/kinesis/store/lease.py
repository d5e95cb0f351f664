"""How old an instance's view of the streams may be when it vouches for a record.

An instance acknowledges a put, or returns records of an open shard, only if it had confirmed its
view less than `LEASE_SECONDS` before. The instance that closes a shard announces that first, and
waits `CLOSING_SECONDS` before it looks where the shard ends. So every acknowledged record lies
before that end. Decision 0033 has the argument.
"""

import time
from typing import Final

LEASE_SECONDS: Final = 1.0
RENEW_SECONDS: Final = 0.5
"""The age at which a lease that is in use is renewed, so that no put waits for it."""

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
