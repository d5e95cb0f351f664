"""One partition this broker leads: its log, its leader epoch, and the fetches that wait for more.

Rule 1: `replication.partition_state` moves the high watermark. With one replica that is the log
end, and it moves before the append is answered.
Rule 2: a waiter is called after every move of the high watermark or the last stable offset, on the
event loop, and removes itself when it is done. A follower's fetch waits for the log end instead.
Rule 3: a write with acks=all waits until the high watermark is past it. It ends with an error when
too few replicas are left in sync, or when this broker stops leading: the records may still be kept.
Rule 4: a leader that reaches neither the cluster's store nor any other that is in sync is
*stranded*: it can commit nothing, and cannot learn which broker leads instead. It takes no more
records, so that their producers turn to other brokers. It serves what is committed: it may still
lead.
"""

from collections import deque
from collections.abc import Container

from headrace.broker.metric import TopicTraffic
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.replica.claimed_epoch import epoch_error
from headrace.broker.replica.mirror_marker import mirror_marker_error
from headrace.broker.replica.waiter import RECHECK, Waiter
from headrace.cluster.topic import PartitionRecord
from headrace.log.filesystem import Bytes
from headrace.log.partition.appended import Appended
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import (
    DiskFull,
    HeadraceError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    ReadOnlyTopic,
)
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition
from headrace.model.offset import LogEndOffset
from headrace.records.batch import HEAD, LOG_OVERHEAD, MAGIC_AT, Batch
from headrace.replication.divergence import Divergence, compared
from headrace.replication.partition_state import PartitionState
from headrace.wire.error_code import ErrorCode

ALONE = BrokerId(0)
_TAIL_BYTES = 8 * 1024


class Partition:
    """Appends to and reads from the log of one partition that this broker leads.

    Threads: event loop only; the log has background work of its own.
    """

    __slots__ = (
        "_replica_waiters",
        "_start_waiters",
        "_uncommitted",
        "_waiters",
        "leader_epoch",
        "log",
        "name",
        "no_room",
        "resigned",
        "state",
        "stranded",
        "tail",
        "traffic",
    )

    def __init__(
        self,
        name: TopicPartition,
        log: PartitionLog,
        leader_epoch: LeaderEpoch,
        broker_id: BrokerId = ALONE,
        *,
        record: PartitionRecord | None = None,
        now_ms: int = 0,
        traffic: TopicTraffic | None = None,
    ) -> None:
        """`record` names the other replicas; without one there are none. `traffic` counts for the
        whole topic."""
        self.traffic = TopicTraffic() if traffic is None else traffic
        self.name = name
        self.log = log
        self.leader_epoch = leader_epoch
        self.resigned = False
        self.stranded = False
        # The disk was full at the last append: another broker's may not be.
        self.no_room = False
        self.state = PartitionState(
            broker_id=broker_id,
            leader_epoch=leader_epoch,
            isr=(broker_id,) if record is None else record.isr,
            replicas=() if record is None else record.replicas,
            partition_epoch=0 if record is None else record.partition_epoch,
            log_end=log.log_end_offset,
            high_watermark=log.high_watermark,
            min_insync=log.config.min_insync_replicas,
            now_ms=now_ms,
        )
        self._waiters: set[Waiter] = set()
        self._replica_waiters: set[Waiter] = set()
        self._uncommitted: deque[tuple[int, CallbackFuture[object]]] = deque()
        self._start_waiters: list[CallbackFuture[object]] = []
        # The last batch and its base offset, while it is small and not committed: followers that
        # are in step fetch it next, and need not wait for a read of the log.
        self.tail: tuple[int, bytes] | None = None
        # A checkpoint that a crash left is old; rule 1 holds from the first request on.
        log.set_high_watermark(self.state.high_watermark)

    @property
    def syncs_before_answer(self) -> bool:
        """Whether an append here counts only once it is on disk (flush.messages=1)."""
        return self.log.config.flush_messages == 1

    @property
    def safe_offset(self) -> int:
        """Below it every record is as safe as acks=all asks: with all replicas in sync, and on disk
        where the topic asks for that."""
        high_watermark = self.log.high_watermark
        if not self.syncs_before_answer:
            return high_watermark
        return min(high_watermark, self.log.synced_offset)

    @property
    def waits_before_answer(self) -> bool:
        """Whether an append counts only later: on disk, or with other replicas."""
        return not self.state.alone or self.log.config.flush_messages == 1

    def append(
        self,
        records: Bytes,
        *,
        from_client: bool = True,
        strict_start: bool = False,
        acks_all: bool = False,
        admitted: list[Batch] | None = None,
    ) -> Appended:
        """Append whole batches as the leader. The route of every append but `append_plain`.

        Args:
            strict_start, admitted: as in `PartitionLog.append`.

        Raises:
            NotEnoughReplicas: with `acks_all`, fewer are in sync than min.insync.replicas asks for.
            ReadOnlyTopic: a mirror topic.
        """
        self._check_leading()
        if self.log.config.headrace_mirror_link:
            raise ReadOnlyTopic(f"{self.name.topic} is a mirror: promote it before you write to it")
        if acks_all and not self.state.has_enough(self.log.config.min_insync_replicas):
            raise NotEnoughReplicas(
                f"{self.name} has {len(self.state.isr)} replica in sync, and acks=all needs "
                f"min.insync.replicas ({self.log.config.min_insync_replicas})"
            )
        try:
            appended = self.log.append(
                records,
                self.leader_epoch,
                from_client=from_client,
                strict_start=strict_start,
                admitted=admitted,
            )
        except DiskFull:
            self.no_room = True
            raise
        self.no_room = False
        if not appended.duplicate:
            self.tail = None
            self._grew(appended)
        return appended

    def append_plain(
        self, records: bytes | memoryview, *, acks_all: bool, joined: bool = False
    ) -> Appended | None:
        """Append one plain batch of a client (`PartitionLog.append_plain`), as `append` would.
        A transactional batch is taken only if the caller has `joined` its partition to it.
        None: nothing has happened. It is not plain, its answer must wait for the disk, or something
        is wrong: `append` then takes it, or raises the reason."""
        state, log = self.state, self.log
        try:
            if state.alone:
                appended = log.append_plain(records, self.leader_epoch, alone=True, joined=joined)
                if appended is not None:
                    self.no_room = False
                    state.appended(appended[1] + 1)  # type: ignore[arg-type]
                    if self._waiters or self._replica_waiters:
                        self._wake(appended.size_bytes)
                        self._wake_replicas(appended.size_bytes)
                return appended
            return self._append_copied(records, acks_all, joined)
        except HeadraceError:
            return None  # nothing of it is in the log; `append` fails in the same way

    def _append_copied(
        self, records: bytes | memoryview, acks_all: bool, joined: bool
    ) -> Appended | None:
        """Append a plain batch that other replicas must copy, and keep it as the tail for them."""
        if (
            self.resigned
            or self.stranded
            or self.log.config.flush_messages == 1
            or (acks_all and not self.state.has_enough(self.log.config.min_insync_replicas))
        ):
            return None
        appended = self.log.append_plain(records, self.leader_epoch, joined=joined)
        if appended is None:
            return None
        self.no_room = False
        base_offset, last_offset, _, _, _, size_bytes = appended
        if size_bytes <= _TAIL_BYTES:
            head = HEAD.pack(base_offset, size_bytes - LOG_OVERHEAD, self.leader_epoch)
            self.tail = (base_offset, head + records[MAGIC_AT:])
        else:
            self.tail = None
        if self.state.appended(last_offset + 1):  # type: ignore[arg-type]
            self._advanced(size_bytes)
        self._wake_replicas(size_bytes)
        return appended

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
    ) -> Appended:
        """End a producer's transaction here. No coordinator has one in a mirror topic."""
        self._check_leading()
        if self.log.config.headrace_mirror_link:
            raise mirror_marker_error(self.name, self.log, producer_id, producer_epoch)
        appended = self.log.append_marker(
            producer_id,
            producer_epoch,
            self.leader_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        self.tail = None
        self._grew(appended)
        return appended

    def abort_mirrored(self, producer_id: int, producer_epoch: int) -> Appended:
        """End the transaction of a source's producer in a mirror topic, and forget what is known of
        its other epochs."""
        self._check_leading()
        epoch = self.leader_epoch
        appended = self.log.append_marker(
            producer_id, producer_epoch, epoch, commit=False, coordinator_epoch=0, checked=False
        )
        self.tail = None
        self._grew(appended)
        return appended

    def append_mirrored(self, records: memoryview) -> Appended:
        """Append batches of a mirror topic's source: their offsets, and this leader's epoch.

        Raises:
            NotLeader: another broker leads, or the topic is no mirror any more.
        """
        self._check_leading()
        if not self.log.config.copies:
            raise NotLeader(f"{self.name.topic} is not copied any more")
        try:
            appended = self.log.append_as_follower(records)
        except DiskFull:
            self.no_room = True
            raise
        self.no_room = False
        self.tail = None
        if appended.size_bytes:
            self._grew(appended)
        return appended

    def _check_leading(self) -> None:
        if self.resigned or self.stranded:
            raise NotLeader(f"this broker does not lead {self.name} any more")

    def check_epoch(self, claimed: int) -> ErrorCode:
        """Return the error for the leader epoch a client claims (KIP-320); -1 claims nothing."""
        return epoch_error(self.leader_epoch, claimed)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch`, and where it ends (OffsetForLeaderEpoch)."""
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        end = self.log.epoch_end_offset(epoch)
        return end.epoch, end.end_offset

    def _grew(self, appended: Appended) -> None:
        if self.state.appended(LogEndOffset(appended.last_offset + 1)):
            self._advanced(appended.size_bytes)
        self._wake_replicas(appended.size_bytes)

    def _advanced(self, size_bytes: int) -> None:
        """Publish a high watermark that has moved: rules 2 and 3."""
        if self.resigned:
            # The log has another leader, or is led again, and its high watermark is not ours any
            # more: a proposal of before may be withdrawn much later.
            return
        high_watermark = self.state.high_watermark
        self.log.set_high_watermark(high_watermark)
        if self.state.is_committed(self.state.log_end):
            self.tail = None
        waiting = self._uncommitted
        while waiting and waiting[0][0] <= high_watermark:
            _, committed = waiting.popleft()
            if not committed.done():
                committed.set_result(None)
        if self._waiters:
            self._wake(size_bytes)

    # -- other replicas

    def when_committed(self, end: int) -> CallbackFuture[object]:
        """Return a future that is done once every replica in sync has all records below `end`.

        Raises (in the future):
            NotLeader, NotEnoughReplicasAfterAppend: rule 3.
        """
        committed: CallbackFuture[object] = CallbackFuture()
        if self.state.is_committed(end):
            committed.set_result(None)
        elif self.resigned:
            committed.set_exception(NotLeader(f"this broker does not lead {self.name} any more"))
        else:
            # Appends come in the order of offsets; only a duplicate may wait for an older one.
            at = len(self._uncommitted)
            while at and self._uncommitted[at - 1][0] > end:
                at -= 1
            self._uncommitted.insert(at, (end, committed))
        return committed

    def divergence(self, last_epoch: int, fetch_offset: int) -> Divergence | None:
        """Return where a follower's log differs from this one; None when it continues it."""
        if last_epoch < 0:
            return None
        # Also below the log start: a follower may have other records there than this log had.
        end = self.log.epochs.end_offset(last_epoch, self.log.log_end_offset)
        return compared(end, last_epoch, fetch_offset)

    def must_start_over(self, last_epoch: int, fetch_offset: int) -> bool:
        """Return whether a follower's log ends where this one starts, with an epoch that is not
        known here any more.

        It may have other records below than this log had, and would show them if it came to lead
        before it has deleted them.
        """
        entries = self.log.epochs.entries
        return (
            fetch_offset == self.log.log_start_offset
            and bool(entries)
            and 0 <= last_epoch < entries[0].epoch
        )

    def follower_fetched(
        self, broker_id: BrokerId, fetch_offset: int, *, now_ms: int, broker_epoch: int
    ) -> frozenset[BrokerId] | None:
        """Count everything below `fetch_offset` as copied.

        Returns:
            the in-sync replicas to propose; None when those of now stay.
        """
        state = self.state
        moved = state.follower_fetched(
            broker_id,
            LogEndOffset(fetch_offset),
            self.leader_epoch,
            now_ms=now_ms,
            broker_epoch=broker_epoch,
        )
        if moved:
            self._advanced(RECHECK)
        if broker_id in state.isr or state.proposed is not None:
            return None
        expanded = state.expanded(broker_id)
        return expanded if broker_id in expanded else None

    def follower_started(self, broker_id: BrokerId, log_start: int) -> None:
        """Note where a follower's log starts, which its fetch says."""
        if self.state.set_follower_log_start(broker_id, log_start) and self._start_waiters:
            self._end_start_waits()

    def low_watermark(self, alive: Container[BrokerId]) -> int:
        """Return the lowest log start among the replicas that are running; -1 if one is unknown."""
        return self.state.low_watermark(self.log.log_start_offset, alive)

    def announce_log_start(self) -> None:
        """Answer the fetches of followers that wait, so that they learn of a new log start."""
        for waiter in tuple(self._replica_waiters):
            waiter.finish()

    def when_log_start_moves(self) -> CallbackFuture[object]:
        """Return a future that is done when a follower's log start has moved, or when this broker
        stops leading."""
        moved: CallbackFuture[object] = CallbackFuture()
        if self.resigned:
            moved.set_result(None)
        else:
            self._start_waiters = [each for each in self._start_waiters if not each.done()]
            self._start_waiters.append(moved)
        return moved

    def _end_start_waits(self) -> None:
        waiting, self._start_waiters = self._start_waiters, []
        for moved in waiting:
            if not moved.done():
                moved.set_result(None)

    def apply_record(self, record: PartitionRecord, now_ms: int) -> None:
        """Adopt the replicas and the in-sync replicas of the cluster's state, in this epoch."""
        state = self.state
        if record.partition_epoch <= state.partition_epoch:
            return
        # First who is in sync: a replica that left both must not stay because of the old set.
        moved = state.set_isr(record.isr, record.partition_epoch)
        if frozenset(record.replicas) != state.replicas:
            moved = state.set_replicas(record.replicas, now_ms) or moved
        if moved:
            self._advanced(RECHECK)
        self._refuse_if_too_few()

    def apply_config(self) -> None:
        """Adopt min.insync.replicas, which may have changed: the topic's own, or a broker's."""
        if self.state.set_min_insync(self.log.config.min_insync_replicas):
            self._advanced(RECHECK)
        self._refuse_if_too_few()

    def withdraw(self) -> None:
        """Forget a proposal that the cluster's state will not adopt."""
        if self.state.withdraw():
            self._advanced(RECHECK)

    def set_stranded(self, stranded: bool) -> None:
        """Take no more records, or take them again (rule 4)."""
        if stranded == self.stranded:
            return
        self.stranded = stranded
        if stranded:
            self._fail_uncommitted(
                NotLeader(f"this broker is cut off, and may not lead {self.name}")
            )

    def resign(self) -> None:
        """Append nothing any more, and end every wait: another broker leads, or none does."""
        self.resigned = True
        self.state.alone = False
        self._fail_uncommitted(NotLeader(f"this broker does not lead {self.name} any more"))
        self._end_start_waits()
        self.wake_all()

    def _refuse_if_too_few(self) -> None:
        min_insync = self.log.config.min_insync_replicas
        if self._uncommitted and not self.state.has_enough(min_insync):
            self._fail_uncommitted(
                NotEnoughReplicasAfterAppend(
                    f"{self.name} has {len(self.state.isr)} replicas in sync since the records "
                    f"were appended, and acks=all needs min.insync.replicas ({min_insync})"
                )
            )

    def _fail_uncommitted(self, error: HeadraceError) -> None:
        waiting, self._uncommitted = self._uncommitted, deque()
        for _, committed in waiting:
            if not committed.done():
                committed.set_exception(error)

    # -- waiting

    def _wake(self, size_bytes: int) -> None:
        for waiter in tuple(self._waiters):
            waiter.grew(size_bytes)

    def _wake_replicas(self, size_bytes: int) -> None:
        for waiter in tuple(self._replica_waiters):
            waiter.grew(size_bytes)

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def add_replica_waiter(self, waiter: Waiter) -> None:
        self._replica_waiters.add(waiter)

    def remove_replica_waiter(self, waiter: Waiter) -> None:
        self._replica_waiters.discard(waiter)

    def wake_all(self) -> None:
        """Make every waiting fetch read again: the partition goes away or changes leader."""
        for waiter in (*self._waiters, *self._replica_waiters):
            waiter.grew(RECHECK)

    def release_all(self) -> None:
        """Answer every waiting fetch with what there is: the broker stops."""
        for waiter in (*self._waiters, *self._replica_waiters):
            waiter.finish()
