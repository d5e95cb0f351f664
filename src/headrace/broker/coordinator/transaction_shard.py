"""One partition of `__transaction_state`, and the I/O around what its state machine decides.

`transactions.registry.TransactionRegistry` decides; this file appends records, sends replies and
writes markers.

Rule 1: a change counts when its record is in the log; with group commit, when it is on disk. Only
then it is adopted, answered and followed by the next step. So a marker never comes before its
decision, the Complete record never before its markers, and records never before their partition is
in the transaction, whatever a power cut takes.
Rule 2: while a change waits for the disk its id is in `busy`, and requests for it wait too instead
of being refused. Without group commit nothing waits and every reply is immediate.
Rule 3: markers are appended here and now where this broker leads, and go to the other leaders by
WriteTxnMarkers. A partition that is gone needs none; for one that is offline, or has no leader, the
marker is retried until it is written. Only the cluster's store says that a partition is gone: this
broker may not serve the topic yet, when it starts, makes its logs, or has not read of its creation.
The store is not asked for a partition that this broker has read of: a reading holds up commands.
Rule 4: after an append or a sync that failed in an unknown way it is open what a restart will
read. The shard is lost: it changes nothing and answers nothing from then on. A full disk is not
such a failure: the log made sure that nothing was kept.
Rule 5: a shard that was lost because other replicas did not have its records in time, while this
broker goes on leading, is loaded again: the log has what counts. By itself, since transactions of
producers that are gone must end, too.
Rule 6: a shard is loaded when every record of its log is committed, not before. Otherwise another
broker may lead without the last ones: it must find no marker of a decision that it does not have,
and no record in a partition that it does not know to be in the transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import structlog

from headrace.broker.coordinator.coordinator_host import CoordinatorHost
from headrace.broker.coordinator.marker_writer import Marker, MarkerWriter, WrittenMarker
from headrace.broker.coordinator.stored_batch import stored_batches
from headrace.broker.coordinator.transaction_report import TransactionReport
from headrace.broker.replica.partition import Partition
from headrace.model.error import (
    CoordinatorFenced,
    DiskFull,
    HeadraceError,
    InvalidProducerEpoch,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    StorageError,
)
from headrace.model.ids import BrokerId, TopicPartition
from headrace.records.record import build_batch, iter_records
from headrace.transactions.effect import (
    Token,
    TransactionDelivery,
    TransactionEffects,
    WriteMarkers,
)
from headrace.transactions.record import Record
from headrace.transactions.registry import TransactionRegistry

log = structlog.get_logger(__name__)

# A marker or a record takes some 30 µs; very many of them must not stop the loop.
_MARKERS_PER_TURN = 100
_EFFECTS_PER_TURN = 100
_RELOAD_SECONDS = 1.0
# After a reading of the cluster's store that failed; the markers themselves are retried sooner.
_STORE_BACKOFF_MS = 1_000
# A load that takes longer waits for a replica, or for the end of one that is gone.
_SLOW_LOAD_SECONDS = 5.0

Decide: TypeAlias = Callable[[TransactionRegistry, Token, int], TransactionEffects]
"""Hands a request to a registry: (registry, token, now) -> effects."""


class TransactionShard:
    """Decides and appends for the transactional ids of one partition of `__transaction_state`.

    Threads: event loop only; replaying runs in a thread.

    Args:
        reload: loads this shard again, if it is still to be served here (rule 5).
    """

    __slots__ = (
        "_host",
        "_markers",
        "_read_after_ms",
        "_reload",
        "_report",
        "_timer",
        "_uncommitted",
        "_warned",
        "busy",
        "loading",
        "lost",
        "partition",
        "registry",
    )

    def __init__(
        self,
        host: CoordinatorHost,
        markers: MarkerWriter,
        report: TransactionReport,
        partition: Partition,
        registry: TransactionRegistry,
        reload: "Callable[[TransactionShard], None]",
    ) -> None:
        self.partition = partition
        self.registry = registry
        self.loading = True
        self.lost = False
        self.busy: dict[str, asyncio.Future[None]] = {}
        self._host = host
        self._markers = markers
        self._report = report
        self._reload = reload
        self._timer: asyncio.TimerHandle | None = None
        self._warned: set[int] = set()
        self._uncommitted = False
        self._read_after_ms = 0

    @property
    def _now_ms(self) -> int:
        return self._host.clock.monotonic_ms()

    @property
    def empty(self) -> bool:
        return self.partition.log.log_end_offset <= self.partition.log.log_start_offset

    async def load(self) -> None:
        """Replay the partition, and continue what was decided and not carried out (rule 6)."""
        partition = self.partition
        try:
            await self._when_committed()
            records = await self._host.in_thread(lambda: list(_records(partition)))
            due = self.registry.load(records, self._now_ms)
        except HeadraceError as error:
            log.error("transactions_not_loaded", shard=str(partition.name), reason=str(error))
            self._lose_after(error)
            return
        self.open(due)

    async def _when_committed(self) -> None:
        """Wait until every record of the log is committed, and say so when it takes long."""
        partition = self.partition
        warning = self._host.loop.call_later(_SLOW_LOAD_SECONDS, self._warn_of_wait)
        try:
            await self._host.when_safe(partition, partition.log.log_end_offset)
        finally:
            warning.cancel()

    def _warn_of_wait(self) -> None:
        partition = self.partition
        log.warning(
            "transactions_wait_for_replicas",
            shard=str(partition.name),
            isr=sorted(partition.state.isr),
            high_watermark=partition.log.high_watermark,
            log_end_offset=partition.log.log_end_offset,
        )

    def open(self, due: Sequence[TransactionEffects] = ()) -> None:
        """Serve requests from now on."""
        self.loading = False
        self._carry_out_all(due)

    def lose(self) -> None:
        """Serve nothing any more: the broker that loads the partition next reads what counts."""
        self.lost = True
        if self._timer is not None:
            self._timer.cancel()

    @property
    def reloadable(self) -> bool:
        """Whether only other replicas caused the loss, and have all records now (rule 5)."""
        partition = self.partition
        if not self.lost or not self._uncommitted or partition.resigned or partition.stranded:
            return False
        return partition.log.high_watermark >= partition.log.log_end_offset

    def hand_over(self, decide: Decide) -> "asyncio.Future[object]":
        """Let the registry decide. Without group commit the reply is done on return.

        A client that goes away cancels its own reply and nothing else.
        """
        reply: asyncio.Future[object] = self._host.loop.create_future()
        self._carry_out(decide(self.registry, reply, self._now_ms))
        self._schedule()
        return reply

    # -- records

    def _carry_out_all(self, due: Sequence[TransactionEffects]) -> None:
        """Carry out some effects now, the rest in later turns: there are many after a start, or
        when many ids expire at once."""
        if self.lost:
            return
        for effects in due[:_EFFECTS_PER_TURN]:
            self._carry_out(effects)
        self._schedule()
        later = due[_EFFECTS_PER_TURN:]
        if later:
            self._host.loop.call_soon(self._carry_out_all, later)

    def _carry_out(self, effects: TransactionEffects) -> None:
        """Append the records, adopt the state, and continue with what is due next."""
        if effects.records:
            self._append(effects)
            return
        _release(effects.replies)
        for markers in effects.markers:
            self._write_markers(markers, sorted(markers.partitions), failed=False)

    def _append(self, effects: TransactionEffects) -> None:
        try:
            batch = build_batch(effects.records, self._host.clock.wall_ms())
            appended = self.partition.append(batch, from_client=False, acks_all=True)
        except Exception as error:  # noqa: BLE001 - also a mistake of ours must leave no change open
            self._not_appended(effects, error)
            return
        written = [WrittenMarker(self.partition, appended.last_offset + 1)]
        self._when_synced(effects.transactional_id, written, partial(self._settle, effects))

    def _settle(self, effects: TransactionEffects, failure: HeadraceError | None) -> None:
        if failure is not None:
            self._not_appended(effects, failure)
            return
        if effects.fenced is not None:
            self._report.fenced(
                effects.fenced,
                timed_out=not effects.replies,
                wall_ms=self._host.clock.wall_ms(),
            )
        following = self.registry.adopt(effects, self._now_ms)
        _release(effects.replies)
        self._carry_out(following)

    def _not_appended(self, effects: TransactionEffects, error: Exception) -> None:
        ours = None if isinstance(error, HeadraceError) else error
        name = str(self.partition.name)
        log.error("transaction_not_appended", shard=name, reason=str(error), exc_info=ours)
        if not isinstance(error, DiskFull | NotEnoughReplicas):
            self._lose_after(error)
        _release(self.registry.reject(effects, self._now_ms).replies)

    def _lose_after(self, error: Exception) -> None:
        """Lose the shard, and load it again if only other replicas are the reason (rule 5)."""
        if self.lost:
            # The first failure counts: those that wait behind it only hear of the loss.
            return
        # A leader that was cut off does not lead for now, and may lead again in the same epoch.
        self._uncommitted = isinstance(error, NotEnoughReplicasAfterAppend | NotLeader)
        self.lose()
        if self._uncommitted:
            self._host.loop.call_later(_RELOAD_SECONDS, self._try_reload)

    def _try_reload(self) -> None:
        if self.reloadable:
            self._reload(self)
        elif not self.partition.resigned and not self.partition.log.closed:
            self._host.loop.call_later(_RELOAD_SECONDS, self._try_reload)

    def _when_synced(
        self,
        transactional_id: str,
        written: Iterable[WrittenMarker],
        then: Callable[[HeadraceError | None], None],
    ) -> None:
        """Call `then`, with an error if there is one: at once, or when the disk has the records.

        An id never waits twice at a time: one change of it is pending, or its markers are.
        """
        waits = [
            self._host.when_safe(partition, end)
            for partition, end in written
            if partition.waits_before_answer
        ]
        if not waits:
            then(None)
            return
        busy = self.busy[transactional_id] = self._host.loop.create_future()

        def synced(done: "asyncio.Future[list[object]]") -> None:
            del self.busy[transactional_id]
            then(self._failure_of(done.result()))
            self._schedule()
            busy.set_result(None)

        asyncio.gather(*waits, return_exceptions=True).add_done_callback(synced)

    def _failure_of(self, outcomes: Iterable[object]) -> HeadraceError | None:
        if self.lost:
            return StorageError(f"{self.partition.name} was lost while a change waited for it")
        for outcome in outcomes:
            if isinstance(outcome, HeadraceError):
                return outcome
            if isinstance(outcome, BaseException):
                return StorageError(f"cannot sync: {outcome}")
        return None

    # -- markers

    def _write_markers(
        self, markers: WriteMarkers, names: Sequence[TopicPartition], *, failed: bool
    ) -> None:
        """Write some markers now, the rest in later turns; retry what failed after the last."""
        if self.lost:
            return
        now, later = names[:_MARKERS_PER_TURN], names[_MARKERS_PER_TURN:]
        elsewhere = self._elsewhere(now)
        away = {name for found in elsewhere.values() for name in found}
        outcomes = {name: self._write_marker(markers, name) for name in now if name not in away}
        unknown = [
            name
            for name, outcome in outcomes.items()
            if outcome is None and not self._host.controller.knows(name)
        ]

        def go_on(failure: HeadraceError | None) -> None:
            if self.lost:
                return
            done = [name for name, outcome in outcomes.items() if outcome]
            missing = failed or failure is not None or len(done) < len(now)
            if failure is None:
                self._carry_out(self.registry.markers_written(markers, done, self._now_ms))
            if later:
                self._host.loop.call_soon(
                    partial(self._write_markers, markers, later, failed=missing)
                )
            elif missing:
                self.registry.markers_failed(markers, self._now_ms)
                self._schedule()
            else:
                self._warned.discard(markers.ending)

        written = [outcome for outcome in outcomes.values() if isinstance(outcome, WrittenMarker)]
        asked = [
            self._host.transaction_client.write_markers(leader, markers, found)
            for leader, found in elsewhere.items()
        ]
        if unknown and self._host.clock.monotonic_ms() >= self._read_after_ms:
            asked.append(self._gone(unknown))
        if not asked:
            self._when_synced(markers.transactional_id, written, go_on)
            return

        def answered(answers: Mapping[TopicPartition, bool]) -> None:
            outcomes.update(answers)
            self._when_synced(markers.transactional_id, written, go_on)

        self._await_answers(markers.transactional_id, asked, answered)

    def _elsewhere(self, names: Iterable[TopicPartition]) -> dict[BrokerId, list[TopicPartition]]:
        found: dict[BrokerId, list[TopicPartition]] = {}
        for name in names:
            leader = self._host.topics.leader_elsewhere(name)
            if leader is not None:
                found.setdefault(leader, []).append(name)
        return found

    async def _gone(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, bool]:
        """Return which of the partitions that this broker does not know exist no more (rule 3)."""
        try:
            topics = await self._host.controller.read_topics({name.topic for name in names})
        except HeadraceError:
            self._read_after_ms = self._host.clock.monotonic_ms() + _STORE_BACKOFF_MS
            return {}
        return {
            name: name.topic not in topics
            or not 0 <= name.partition < len(topics[name.topic].partitions)
            for name in names
        }

    def _await_answers(
        self,
        transactional_id: str,
        asked: Iterable[Awaitable[dict[TopicPartition, bool]]],
        then: Callable[[Mapping[TopicPartition, bool]], None],
    ) -> None:
        """Await the leaders that write the markers, and the store's word on partitions that are
        gone. Requests for the id wait meanwhile (rule 2)."""
        busy = self.busy[transactional_id] = self._host.loop.create_future()

        def answered(done: "asyncio.Future[list[dict[TopicPartition, bool]]]") -> None:
            del self.busy[transactional_id]
            answers: dict[TopicPartition, bool] = {}
            if not done.cancelled() and done.exception() is None:
                for answer in done.result():
                    answers.update(answer)
            if not self.lost:
                then(answers)
            busy.set_result(None)

        asyncio.gather(*asked).add_done_callback(answered)

    def _write_marker(
        self, markers: WriteMarkers, name: TopicPartition
    ) -> WrittenMarker | bool | None:
        """Return where the marker is; True when the partition needs none, False when it must be
        retried, None when this broker does not know the partition."""
        marker = Marker(
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            commit=markers.commit,
            coordinator_epoch=markers.coordinator_epoch,
            transaction_version=markers.client_version,
        )
        try:
            return self._markers.write(marker, name)
        except (InvalidProducerEpoch, CoordinatorFenced) as error:
            # A later epoch of this producer id has written there: a retry would fail, too.
            log.error("marker_refused", partition=str(name), reason=str(error))
            return True
        except HeadraceError as error:
            if markers.ending not in self._warned:
                self._warned.add(markers.ending)
                log.warning("marker_not_written", partition=str(name), reason=str(error))
            return False

    # -- time

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.lost:
            return
        wait_ms = max(1, self.registry.next_deadline_ms() - self._now_ms)
        self._timer = self._host.loop.call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._carry_out_all(self.registry.tick(self._now_ms))


def _release(replies: Iterable[TransactionDelivery]) -> None:
    for reply in replies:
        waiting = reply.token
        if isinstance(waiting, asyncio.Future) and not waiting.done():
            waiting.set_result(reply.answer)


def _records(partition: Partition) -> Iterator[Record]:
    for batch in stored_batches(partition):
        if not batch.is_control:
            for record in iter_records(batch):
                if record.key is not None:
                    yield record.key, record.value
