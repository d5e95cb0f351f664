"""How far a partition's records are safe, as its leader sees it.

Theory of operation
-------------------
A record is committed when every in-sync replica has it. The high watermark is the first offset that
is not: the smallest log end among the in-sync replicas. The leader knows its own log end at once
and those of the followers from the offsets they fetch at. With one replica the rule gives the
leader's own log end, so a single broker runs through the same code and never waits.

The in-sync replicas stand in the cluster's state, which is changed by compare-and-set. Between its
proposal and the answer the leader does not know from which of the two sets a new leader would be
elected. So it counts both.

Rules
-----
Rule 1: the high watermark never goes back while this broker leads.
Rule 2: only in-sync replicas hold it back: those that the cluster's state names and, while a
        proposal is under way, those that are proposed. The leader is always in sync with itself.
Rule 3: a follower's fetch counts only in the leader epoch it was sent in.
Rule 4: with fewer in sync than min.insync.replicas, or than there are replicas if those are fewer,
        it stands still (KIP-966): no consumer reads what too few brokers have.
Rule 5: a follower joins when it has all that is committed and all that was there when this leader
        began (KAFKA-6361): below that, its log may differ from the leader's.
Rule 6: a follower is late when it was not at the log's end within replica.lag.time.max.ms, as seen
        at the leader: at the end when it fetched, or at what was the end at its fetch before.
"""

from collections.abc import Container, Iterable

from headrace.model.error import InvalidArgument
from headrace.model.ids import BrokerId, LeaderEpoch
from headrace.model.offset import HighWatermark, LogEndOffset

_UNKNOWN = -1


class _Follower:
    """What the leader knows of one follower."""

    __slots__ = ("broker_epoch", "caught_up_ms", "end", "fetched_end", "fetched_ms", "log_start")

    def __init__(self, caught_up_ms: int) -> None:
        self.end = _UNKNOWN
        self.log_start = _UNKNOWN
        self.broker_epoch = _UNKNOWN
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = caught_up_ms
        self.fetched_end = 0

    def fetched(self, offset: int, leader_end: int, now_ms: int, broker_epoch: int) -> None:
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self.fetched_end:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end = min(offset, leader_end)
        self.fetched_ms = now_ms
        self.fetched_end = leader_end
        self.broker_epoch = broker_epoch


class PartitionState:
    """A partition this broker leads, in one leader epoch.

    Invariant: high watermark <= log end of every replica that counts (rule 2).

    Attributes:
        alone: no other replica counts, so that the high watermark is the log end (the broker's
            fast path of Produce asks for it).

    Thread rule: the broker's loop only.
    """

    __slots__ = (
        "_counted",
        "_followers",
        "_high_watermark",
        "_isr",
        "_log_end",
        "_min_insync",
        "_proposed",
        "_start",
        "alone",
        "broker_id",
        "leader_epoch",
        "partition_epoch",
        "replicas",
    )

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        leader_epoch: LeaderEpoch,
        isr: Iterable[BrokerId],
        log_end: LogEndOffset,
        high_watermark: HighWatermark,
        replicas: Iterable[BrokerId] = (),
        partition_epoch: int = 0,
        min_insync: int = 1,
        now_ms: int = 0,
    ) -> None:
        """`high_watermark` is what this broker knew before it led: a lower bound."""
        if not 0 <= high_watermark <= log_end:
            raise InvalidArgument(
                f"a high watermark of {high_watermark} cannot be in a log that ends at {log_end}"
            )
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self._log_end = log_end
        self._start = log_end
        self._high_watermark = high_watermark
        self._min_insync = min_insync
        self._isr = frozenset(isr)
        self._proposed: frozenset[BrokerId] | None = None
        self.replicas = frozenset(replicas) | self._isr
        self._followers = {
            each: _Follower(now_ms if each in self._isr else -(2**62))
            for each in self.replicas - {broker_id}
        }
        self.set_isr(self._isr, partition_epoch)

    @property
    def isr(self) -> frozenset[BrokerId]:
        return self._isr

    @property
    def proposed(self) -> frozenset[BrokerId] | None:
        """The in-sync replicas that were proposed, while that is under way."""
        return self._proposed

    @property
    def high_watermark(self) -> HighWatermark:
        return self._high_watermark

    @property
    def log_end(self) -> LogEndOffset:
        return self._log_end

    @property
    def high_watermark_lags(self) -> bool:
        """Whether the high watermark is below where this leader began: the leader before may have
        sent readers a higher one (KIP-207)."""
        return self._high_watermark < self._start

    # -- what the cluster's state says

    def set_isr(self, isr: Iterable[BrokerId], partition_epoch: int | None = None) -> bool:
        """Apply who is in sync by the cluster's state. True when the high watermark moved."""
        self._isr = frozenset(isr)
        if self.broker_id not in self._isr:
            raise InvalidArgument(
                f"broker {self.broker_id} leads and is not among the in-sync {sorted(self._isr)}"
            )
        if partition_epoch is not None:
            self.partition_epoch = partition_epoch
        self._proposed = None
        return self._count()

    def set_replicas(self, replicas: Iterable[BrokerId], now_ms: int) -> bool:
        """Forget the replicas that left a moving partition, and expect the new ones. True when the
        high watermark moved.

        Those that are in sync stay: call `set_isr` first.
        """
        self.replicas = frozenset(replicas) | {self.broker_id}
        for gone in set(self._followers) - self.replicas:
            del self._followers[gone]
        for new in self.replicas - set(self._followers) - {self.broker_id}:
            self._followers[new] = _Follower(now_ms if new in self._isr else -(2**62))
        return self._count()

    def set_min_insync(self, min_insync: int) -> bool:
        """Apply a change of min.insync.replicas. True when the high watermark moved."""
        self._min_insync = min_insync
        return self._count()

    # -- what happens

    def appended(self, log_end: LogEndOffset) -> bool:
        """Note the new end of this leader's log. True when the high watermark moved."""
        if log_end < self._log_end:
            raise InvalidArgument(f"a leader's log cannot shrink from {self.log_end} to {log_end}")
        self._log_end = log_end
        if self.alone:
            moved = log_end > self._high_watermark
            # Calling a NewType would cost as much as all the rest.
            self._high_watermark = log_end  # type: ignore[assignment]
            return moved
        return self._advance()

    def follower_fetched(
        self,
        broker_id: BrokerId,
        fetch_offset: LogEndOffset,
        leader_epoch: LeaderEpoch,
        *,
        now_ms: int = 0,
        broker_epoch: int = -1,
    ) -> bool:
        """Note that a follower fetches at this offset, so that it has all before.

        True when the high watermark moved.
        """
        if leader_epoch != self.leader_epoch or broker_id == self.broker_id:
            return False
        follower = self._followers.get(broker_id)
        if follower is None:
            follower = self._followers[broker_id] = _Follower(now_ms)
        follower.fetched(fetch_offset, self._log_end, now_ms, broker_epoch)
        return self._advance()

    # -- what this leader would propose

    def propose(self, isr: Iterable[BrokerId]) -> None:
        """Count both sets from now on, until `set_isr` says which one holds."""
        self._proposed = frozenset(isr)
        self._count()

    def withdraw(self) -> bool:
        """Drop a proposal that was refused and can never be accepted any more. True when the high
        watermark moved."""
        self._proposed = None
        return self._count()

    def expanded(self, broker_id: BrokerId) -> frozenset[BrokerId]:
        """Return the in-sync replicas with this follower, once it may join (rule 5)."""
        follower = self._followers.get(broker_id)
        if follower is None or follower.end < max(self._high_watermark, self._start):
            return self._isr
        return self._isr | {broker_id}

    def shrunk(self, late: Iterable[BrokerId]) -> frozenset[BrokerId]:
        """Return the in-sync replicas without those that are late; the leader stays."""
        return (self._isr - frozenset(late)) | {self.broker_id}

    def late(self, now_ms: int, max_lag_ms: int) -> frozenset[BrokerId]:
        """Return the in-sync followers that have been behind the log's end for too long (rule
        6).
        """
        return frozenset(
            each
            for each in self._isr - {self.broker_id}
            if self._followers[each].end < self._log_end
            and now_ms - self._followers[each].caught_up_ms > max_lag_ms
        )

    def followers_are_silent(self, now_ms: int, max_lag_ms: int) -> bool:
        """Return whether there are in-sync followers and none of them has fetched for too long.

        It does not matter whether there was anything to fetch: they follow another leader, or
        cannot reach this one.
        """
        others = self._isr - {self.broker_id}
        return bool(others) and all(
            now_ms - self._followers[each].fetched_ms > max_lag_ms for each in others
        )

    def broker_epoch(self, broker_id: BrokerId) -> int:
        """Return the broker epoch a follower fetches with; -1 when it does not say."""
        follower = self._followers.get(broker_id)
        return _UNKNOWN if follower is None else follower.broker_epoch

    def follower_end(self, broker_id: BrokerId) -> int:
        """Return how far a follower has come in this epoch; -1 when it has not fetched in it."""
        follower = self._followers.get(broker_id)
        return _UNKNOWN if follower is None else follower.end

    # -- what DeleteRecords asks

    def set_follower_log_start(self, broker_id: BrokerId, log_start: int) -> bool:
        """Note where a follower's log starts, by its fetch; True when that has moved."""
        follower = self._followers.get(broker_id)
        if follower is None or follower.log_start == log_start:
            return False
        follower.log_start = log_start
        return True

    def low_watermark(self, log_start: int, alive: Container[BrokerId]) -> int:
        """Return the lowest log start among the replicas that are running: below it no record can
        be read from any of them. -1 while one of them has not said where its log starts.

        Args:
            log_start: this leader's own.
        """
        others = [
            follower.log_start
            for broker_id, follower in self._followers.items()
            if broker_id in self.replicas and broker_id in alive
        ]
        return min(log_start, *others) if others else log_start

    # -- what acks=all asks

    def is_committed(self, next_offset: int) -> bool:
        """Return whether every in-sync replica has all records below; acks=all waits for that."""
        return self._high_watermark >= next_offset

    def has_enough(self, min_insync_replicas: int) -> bool:
        """Return whether a write with acks=all may be appended at all. As in Kafka, a topic with
        fewer replicas than min.insync.replicas asks for needs all that it has, and no more.
        """
        return len(self._isr) >= min(min_insync_replicas, len(self.replicas))

    # -- the arithmetic

    def _count(self) -> bool:
        """Work out again which replicas count."""
        counted = self._isr if self._proposed is None else self._isr | self._proposed
        # One that left the replicas while it is proposed is counted, too, until `set_isr`.
        for each in counted - set(self._followers) - {self.broker_id}:
            self._followers[each] = _Follower(0)
        self.replicas |= self._isr
        self._counted = tuple(counted - {self.broker_id})
        self.alone = not self._counted and self._enough
        return self._advance()

    @property
    def _enough(self) -> bool:
        return len(self._isr) >= min(self._min_insync, len(self.replicas))

    def _advance(self) -> bool:
        """Move the high watermark, unless a replica that counts has not fetched in this epoch."""
        if not self._enough:
            return False
        lowest = int(self._log_end)
        followers = self._followers
        for each in self._counted:
            end = followers[each].end
            if end < lowest:
                lowest = end
        if lowest <= self._high_watermark:
            return False
        self._high_watermark = HighWatermark(lowest)
        return True
