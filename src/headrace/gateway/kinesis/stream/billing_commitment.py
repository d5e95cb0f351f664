"""The one setting of an account: the commitment to a minimum throughput.

At the service it is a price. Here nothing has a price, and it only unlocks warm throughput, as
there. It holds for a day at least: an end that is asked for earlier comes when the day is over.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

LEAST_MS: Final = 24 * 3_600_000


class CommitmentStatus(StrEnum):
    """The service's words."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"
    ENABLED_UNTIL_EARLIEST_ALLOWED_END = "ENABLED_UNTIL_EARLIEST_ALLOWED_END"


@dataclass(frozen=True, slots=True)
class BillingCommitment:
    """When the commitment began, and when it ends or ended."""

    started_ms: int | None = None
    ends_ms: int | None = None

    def status(self, now_ms: int) -> CommitmentStatus:
        if self.started_ms is None or (self.ends_ms is not None and self.ends_ms <= now_ms):
            return CommitmentStatus.DISABLED
        if self.ends_ms is not None:
            return CommitmentStatus.ENABLED_UNTIL_EARLIEST_ALLOWED_END
        return CommitmentStatus.ENABLED

    def is_enabled(self, now_ms: int) -> bool:
        return self.status(now_ms) is not CommitmentStatus.DISABLED

    @property
    def earliest_end_ms(self) -> int | None:
        return None if self.started_ms is None else self.started_ms + LEAST_MS

    def enabled(self, now_ms: int) -> "BillingCommitment":
        """Return the commitment, begun now unless it runs; an end that was asked for is undone."""
        return replace(self, ends_ms=None) if self.is_enabled(now_ms) else BillingCommitment(now_ms)

    def disabled(self, now_ms: int) -> "BillingCommitment":
        """Return the commitment with its end: now, or when its first day is over."""
        if self.status(now_ms) is not CommitmentStatus.ENABLED or self.earliest_end_ms is None:
            return self
        return replace(self, ends_ms=max(now_ms, self.earliest_end_ms))

    def as_json(self) -> dict[str, Any]:
        return {"started_ms": self.started_ms, "ends_ms": self.ends_ms}

    @classmethod
    def from_json(cls, raw: dict[str, Any] | None) -> "BillingCommitment":
        return cls() if raw is None else cls(raw.get("started_ms"), raw.get("ends_ms"))
