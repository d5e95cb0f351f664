"""How far a partition's records are safe, as its leader sees it.

Theory of operation
-------------------
A record is committed when every in-sync replica has it. The high watermark is the first offset that
is not: the smallest log end among the in-sync replicas. The leader knows its own log end at once
and those of the followers from the offsets they fetch at. With one replica the rule gives the
leader's own log end, so a single broker runs through the same code and never waits.

Rules
-----
Rule 1: the high watermark never goes back while this broker leads.
Rule 2: only in-sync replicas hold it back. The leader is always in sync with itself.
Rule 3: a follower's word counts only in the leader epoch it was given in.
Rule 4: what is in sync is decided by the controller; `shrunk` and `expanded` only say what this
        leader would propose.

This is the seam for more brokers: fetching, proposing and truncation come with them and live
outside; the arithmetic of the high watermark stays here.
"""

from collections.abc import Iterable

from headrace.model.error import InvalidArgument
from headrace.model.ids import BrokerId, LeaderEpoch
from headrace.model.offset import HighWatermark, LogEndOffset


class PartitionState:
    """A partition this broker leads, in one leader epoch.

    Invariant: high watermark <= log end of every in-sync replica.

    Attributes:
        alone: no other replica is in sync, so that the high watermark is the log end.

    Thread rule: the broker's loop only.
    """

    __slots__ = ("_ends", "_high_watermark", "_isr", "alone", "broker_id", "leader_epoch")

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        leader_epoch: LeaderEpoch,
        isr: Iterable[BrokerId],
        log_end: LogEndOffset,
        high_watermark: HighWatermark,
    ) -> None:
        """`high_watermark` is the one this broker knew before it led: a lower bound."""
        if not 0 <= high_watermark <= log_end:
            raise InvalidArgument(
                f"a high watermark of {high_watermark} cannot be in a log that ends at {log_end}"
            )
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self._ends: dict[BrokerId, LogEndOffset] = {broker_id: log_end}
        self._high_watermark = high_watermark
        self._isr: frozenset[BrokerId] = frozenset()
        self.set_isr(isr)

    @property
    def isr(self) -> frozenset[BrokerId]:
        return self._isr

    @property
    def high_watermark(self) -> HighWatermark:
        return self._high_watermark

    @property
    def log_end(self) -> LogEndOffset:
        return self._ends[self.broker_id]

    def set_isr(self, isr: Iterable[BrokerId]) -> bool:
        """The controller decided who is in sync. True when the high watermark moved."""
        self._isr = frozenset(isr)
        self.alone = len(self._isr) == 1
        if self.broker_id not in self._isr:
            raise InvalidArgument(
                f"broker {self.broker_id} leads and is not among the in-sync {sorted(self._isr)}"
            )
        return self._advance()

    def appended(self, log_end: LogEndOffset) -> bool:
        """This leader's log ends here now. True when the high watermark moved."""
        ends, leader = self._ends, self.broker_id
        if log_end < ends[leader]:
            raise InvalidArgument(f"a leader's log cannot shrink from {self.log_end} to {log_end}")
        ends[leader] = log_end
        return self._advance()

    def follower_fetched(
        self, broker_id: BrokerId, fetch_offset: LogEndOffset, leader_epoch: LeaderEpoch
    ) -> bool:
        """A follower asks for what comes at this offset, so it has all before. True when the high
        watermark moved."""
        if leader_epoch != self.leader_epoch or broker_id == self.broker_id:
            return False
        self._ends[broker_id] = min(fetch_offset, self.log_end)
        return self._advance()

    def is_committed(self, next_offset: int) -> bool:
        """Whether every in-sync replica has all records below; acks=all waits for that."""
        return self._high_watermark >= next_offset

    def has_enough(self, min_insync_replicas: int) -> bool:
        """Whether a write with acks=all may be taken at all."""
        return len(self._isr) >= min_insync_replicas

    def expanded(self, broker_id: BrokerId) -> frozenset[BrokerId]:
        """The in-sync replicas with this follower, once it has everything that is committed."""
        end = self._ends.get(broker_id, -1)
        return self._isr | {broker_id} if end >= self._high_watermark else self._isr

    def shrunk(self, late: Iterable[BrokerId]) -> frozenset[BrokerId]:
        """The in-sync replicas without those that are late; the leader stays."""
        return (self._isr - frozenset(late)) | {self.broker_id}

    def _advance(self) -> bool:
        """A replica in sync that was not heard of in this epoch holds everything back (rule 3)."""
        ends = self._ends
        if len(self._isr) == 1:
            lowest = int(ends[self.broker_id])
        else:
            lowest = min(ends.get(broker_id, self._high_watermark) for broker_id in self._isr)
        if lowest <= self._high_watermark:
            return False
        self._high_watermark = HighWatermark(lowest)
        return True
