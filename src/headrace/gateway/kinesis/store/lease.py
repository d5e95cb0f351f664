"""How old an instance's view of the streams may be when it vouches for a record.

An instance acknowledges a put, or returns records of an open shard, only if it had confirmed its
view less than `LEASE_SECONDS` before. The instance that closes a shard announces that first, and
waits `CLOSING_SECONDS` before it reads where the shard ends. So every acknowledged record lies
before that end. Decision 0033 has the argument.
"""

from typing import Final

LEASE_SECONDS: Final = 1.0
MARGIN_SECONDS: Final = 0.5
"""For clocks that do not run equally fast."""

CLOSING_SECONDS: Final = LEASE_SECONDS + MARGIN_SECONDS
