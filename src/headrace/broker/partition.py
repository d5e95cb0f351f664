"""One partition this broker leads: its log, its leader epoch, and who waits for more records.

Rule 1: `replication.state` says where the high watermark stands. With one replica that is the log
end, and it moves before the append is answered.
Rule 2: a waiter is told after every move of the high watermark or the last stable offset, on the
event loop, and takes itself off when it is done.
"""

from typing import Protocol, cast

from headrace.log.append import Appended
from headrace.log.filesystem import Bytes
from headrace.log.partition_log import PartitionLog
from headrace.model.error import NotEnoughReplicas
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition
from headrace.model.offset import LogEndOffset
from headrace.replication.state import PartitionState
from headrace.wire.error_code import ErrorCode

ALONE = BrokerId(0)


class Waiter(Protocol):
    """A request that waits for a partition to grow."""

    def grew(self, size_bytes: int) -> None:
        """The readable part of the partition grew by about so many bytes."""

    def finish(self) -> None:
        """Answer now, with whatever there is."""


class Partition:
    """All of it lives on the event loop; only the log's own background work does not."""

    __slots__ = ("_waiters", "leader_epoch", "log", "name", "state")

    def __init__(
        self,
        name: TopicPartition,
        log: PartitionLog,
        leader_epoch: LeaderEpoch,
        broker_id: BrokerId = ALONE,
    ) -> None:
        self.name = name
        self.log = log
        self.leader_epoch = leader_epoch
        self.state = PartitionState(
            broker_id=broker_id,
            leader_epoch=leader_epoch,
            isr=(broker_id,),
            log_end=log.log_end_offset,
            high_watermark=log.high_watermark,
        )
        self._waiters: set[Waiter] = set()
        # A checkpoint that a crash left is old; rule 1 holds from the first request on.
        log.set_high_watermark(self.state.high_watermark)

    @property
    def syncs_before_answer(self) -> bool:
        """Whether an append here counts only once it is on disk (flush.messages=1)."""
        return self.log.config.flush_messages == 1

    @property
    def answers_at_once(self) -> bool:
        """Whether an append is as safe as acks=all asks for the moment it is made: nobody else is
        in sync, min.insync.replicas asks for nobody else, and nobody waits for the disk."""
        config = self.log.config
        return self.state.alone and config.min_insync_replicas <= 1 and config.flush_messages != 1

    def append(
        self,
        records: Bytes,
        *,
        from_client: bool = True,
        strict_start: bool = False,
        acks_all: bool = False,
    ) -> Appended:
        """Append whole batches as the leader; `strict_start` as in `PartitionLog.append`.

        Raises:
            NotEnoughReplicas: with `acks_all`, fewer are in sync than min.insync.replicas asks for.
        """
        if acks_all and not self.state.has_enough(self.log.config.min_insync_replicas):
            raise NotEnoughReplicas(
                f"{self.name} has {len(self.state.isr)} replica in sync, and acks=all needs "
                f"min.insync.replicas ({self.log.config.min_insync_replicas})"
            )
        appended = self.log.append(
            records, self.leader_epoch, from_client=from_client, strict_start=strict_start
        )
        if not appended.duplicate:
            self._grew(appended)
        return appended

    def append_plain(self, records: memoryview) -> Appended | None:
        """`PartitionLog.append_plain`, for a client that waits for neither disk nor replicas."""
        state = self.state
        if not state.alone:
            return None
        appended = self.log.append_plain(records, self.leader_epoch, alone=True)
        if appended is not None:
            state.appended(cast(LogEndOffset, appended[1] + 1))
            if self._waiters:
                self._wake(appended.size_bytes)
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
        """End a producer's transaction here."""
        appended = self.log.append_marker(
            producer_id,
            producer_epoch,
            self.leader_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        self._grew(appended)
        return appended

    def check_epoch(self, claimed: int) -> ErrorCode:
        """Whether a client's idea of the leader epoch is right (KIP-320); -1 claims nothing."""
        if claimed < 0 or claimed == self.leader_epoch:
            return ErrorCode.none
        if claimed < self.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        return ErrorCode.unknown_leader_epoch

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` and where it ends, as OffsetForLeaderEpoch answers."""
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        found = self.log.epoch_end_offset(epoch)
        return found.epoch, found.end_offset

    def _grew(self, appended: Appended) -> None:
        if self.state.appended(LogEndOffset(appended.last_offset + 1)):
            self.log.set_high_watermark(self.state.high_watermark)
        if self._waiters:
            self._wake(appended.size_bytes)

    def _wake(self, size_bytes: int) -> None:
        for waiter in tuple(self._waiters):
            waiter.grew(size_bytes)

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def wake_all(self) -> None:
        """The partition goes away or changes leader: whoever waits must look again."""
        for waiter in tuple(self._waiters):
            waiter.grew(2**62)

    def release_all(self) -> None:
        """The broker stops: whoever waits is answered with what there is."""
        for waiter in tuple(self._waiters):
            waiter.finish()
