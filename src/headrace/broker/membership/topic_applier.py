"""Serves the topics of the cluster's state, and makes and deletes their logs in the background.

Rule 1: nothing waits for the disk. A topic that is deleted is not served from this moment on; its
logs are deleted later. A topic whose logs are all here takes its new leaders at once.
Rule 2: a new topic is served when a thread has made its logs. Its newest record counts then,
whatever was changed meanwhile. A topic that is served already, and gets more logs, takes each
change at once where its logs are here: a leader that was replaced must not go on.
Rule 3: one round of disk work at a time: first deletions, then creations. So a topic that is
created again under its old name, and a replica that moved away and comes back, find the old logs
gone: a log counts as missing from the moment that it is to be deleted (`LogStorage`). A round takes
all that has come in: its checkpoints and syncs cost once per round, not once per partition.
Rule 4: one topic changes at a time, by a command or by a round that has made its logs. A large one
gives way to others on the loop, and must not meet its own next change.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

import structlog

from headrace.broker.config.internal_topic import TRANSACTION_STATE
from headrace.broker.loop_turn import LoopTurn
from headrace.broker.replica.log_storage import Doomed, LogStorage
from headrace.broker.replica.replica_roles import ReplicaRoles
from headrace.broker.replica.topic_table import TopicTable
from headrace.cluster.topic import TopicRecord
from headrace.model.error import HeadraceError, StorageError
from headrace.model.ids import TopicPartition

log = structlog.get_logger(__name__)

Result = TypeVar("Result")


class TopicTarget(Protocol):
    """The broker, as far as topics change it."""

    @property
    def topics(self) -> TopicTable: ...

    @property
    def storage(self) -> LogStorage: ...

    @property
    def roles(self) -> ReplicaRoles: ...

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run blocking work off the loop."""


class TopicApplier:
    """Makes changed topics take effect in this broker.

    Threads: event loop only; the storage works in a thread.

    Args:
        reconfigure: gives the logs and partitions of a topic its changed configuration.
    """

    def __init__(self, target: TopicTarget, reconfigure: Callable[[str], None]) -> None:
        self._target = target
        self._reconfigure = reconfigure
        # Topics whose logs are being made: the newest record of each.
        self._pending: dict[str, TopicRecord] = {}
        self._failed: set[str] = set()
        # Topics to apply again, because logs may be made or served now that could not be before.
        self._again: set[str] = set()
        self._changing = asyncio.Lock()  # rule 4; never held while a thread works
        self._working: asyncio.Task[None] | None = None
        self._served = asyncio.Condition()

    async def apply(self, record: TopicRecord) -> None:
        """Serve a topic as its record says, at once or as soon as its logs are made."""
        async with self._changing:
            await self._apply(record)

    async def remove(self, records: Iterable[TopicRecord]) -> None:
        """Stop serving topics that were deleted; their logs go in the background."""
        async with self._changing:
            await self._remove(list(records))

    def retry(self) -> None:
        """Delete, make and serve the logs that could not be, because a disk was full: there may be
        room now. It happens in the background."""
        self._target.storage.doom_undeleted(self._newest)
        self._again |= self._failed | self._target.storage.take_opened()
        self._failed.clear()
        self._start()

    async def resign_all(self) -> None:
        """Neither lead nor follow any partition: another process has this broker's id."""
        async with self._changing:
            await self._target.roles.resign_all()

    def registered(self) -> None:
        """Lead and follow what was left alone while this process was not registered."""
        self._again |= self._target.roles.take_left_alone()
        self._start()

    async def _apply(self, record: TopicRecord) -> None:
        hosted = self._target.topics.by_name(record.name)
        if hosted is not None and hosted.topic_id != record.topic_id:
            # Deleted and created again, and both arrived as one change.
            await self._remove([hosted.record])
            hosted = None
        waiting = self._pending.get(record.name)
        if waiting is not None and waiting.topic_id != record.topic_id:
            self._doom(waiting)
        if waiting is not None or self._target.storage.lacks(record):
            self._pending[record.name] = record
        if hosted is not None or record.name not in self._pending:
            await self._serve(record, None if hosted is None else hosted.record.configs)
        self._start()

    async def _remove(self, records: list[TopicRecord]) -> None:
        for record in records:
            waiting = self._pending.pop(record.name, None)
            if waiting is not None:
                self._doom(waiting)
        for hosted in await self._target.roles.remove([record.name for record in records]):
            self._doom(hosted)
        self._start()

    def _newest(self, name: str) -> TopicRecord | None:
        hosted = self._target.topics.by_name(name)
        return self._pending.get(name, None if hosted is None else hosted.record)

    async def served(self, names: Iterable[str]) -> None:
        """Return when the logs of these topics are no longer being made."""
        if not self._pending:
            return
        wanted = set(names)
        async with self._served:
            await self._served.wait_for(lambda: wanted.isdisjoint(self._pending))

    async def settle(self) -> None:
        """Return when no log is left to make or to delete."""
        while self._working is not None and not self._working.done():
            await asyncio.shield(self._working)

    def _doom(self, record: TopicRecord) -> None:
        self._target.storage.doom(
            (TopicPartition(record.name, index), record.topic_id)
            for index in range(len(record.partitions))
        )

    def _start(self) -> None:
        if self._idle:
            return
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work())

    @property
    def _idle(self) -> bool:
        return not self._pending and not self._again and not self._target.storage.has_doomed

    async def _work(self) -> None:
        storage = self._target.storage
        while not self._idle:
            while self._again:
                await self._apply_again(self._again.pop())
            doomed = storage.begin_round()
            # Transactions last: those that were decided write their markers into the others.
            records = sorted(
                self._pending.values(), key=lambda each: each.name == TRANSACTION_STATE
            )
            failed = await self._target.in_thread(
                lambda doomed=doomed, records=records: self._change_logs(doomed, records)  # type: ignore[misc]
            )
            storage.end_round()
            turn = LoopTurn()
            for record in records:
                await self._finish(record, failed=record.name in failed)
                await turn.pause_if_over()
            async with self._served:
                self._served.notify_all()
        # After the last round: syncs would hold up the creation of other logs.
        storage.sync_new()

    def _change_logs(self, doomed: list[Doomed], records: list[TopicRecord]) -> set[str]:
        """Delete and make logs, in a thread; return the topics of which some could not be made."""
        storage, failed = self._target.storage, set()
        try:
            storage.delete(doomed)
        except Exception as error:
            # Whatever it was: topics that wait to be served must not wait for ever.
            log.error("logs_not_deleted", exc_info=error)
        for record in records:
            try:
                storage.make(record)
            except HeadraceError as error:
                log.error("logs_not_made", topic=record.name, reason=str(error))
                failed.add(record.name)
            except Exception as error:
                log.error("logs_not_made", topic=record.name, exc_info=error)
                failed.add(record.name)
        return failed

    async def _apply_again(self, name: str) -> None:
        async with self._changing:
            hosted = self._target.topics.by_name(name)
            if hosted is not None:
                await self._apply(hosted.record)

    async def _finish(self, made: TopicRecord, *, failed: bool) -> None:
        """Serve a topic whose logs were made, unless it has changed so that others are missing."""
        async with self._changing:
            newest = self._pending.get(made.name)
            if newest is None or newest.topic_id != made.topic_id:
                return
            lacking = self._target.storage.lacks(newest)
            if lacking and not failed and newest is not made:
                return
            if lacking:
                self._failed.add(made.name)
            # The logs that were there before have the newest configuration already.
            await self._serve(newest, made.configs)
            del self._pending[made.name]  # after it: those who wait want all partitions

    async def _serve(self, record: TopicRecord, configured: Mapping[str, str] | None) -> None:
        """Serve a topic whose logs have the configuration `configured`; None if they are new.

        A large topic gives way to others, and is found by none of them before its last partition is
        opened: not by a change of the broker's settings either, which its first ones then lack.
        """
        changes = self._config_changes()
        try:
            unused = await self._target.roles.apply(record)
        except StorageError as error:
            log.error("topic_not_served", topic=record.name, reason=str(error))
            return
        except Exception as error:
            log.error("topic_not_served", topic=record.name, exc_info=error)
            return
        changed = configured is not None and configured != record.configs
        if changed or changes != self._config_changes():
            self._reconfigure(record.name)
        self._target.storage.doom((name, record.topic_id) for name in unused)
        self._start()

    def _config_changes(self) -> int:
        return sum(each.configs.changes for each in self._target.storage.directories)
