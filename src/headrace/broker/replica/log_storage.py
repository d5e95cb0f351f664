"""All log directories of a broker: which of them has a partition's log, and where a new one goes.

Rule 1: a log belongs to a topic by the topic's id, never by its name alone. A topic that was
deleted and created again has another id, and must not serve the records of the first one: not after
a crash in the deletion, and not when a directory was offline during it and has come back.
Rule 2: only a log whose topic this broker saw deleted, or whose replica it saw moved away, is
deleted. Any other log without a topic is a stray: it is renamed, and kept (`DepartedLogs`).
Rule 3: a log that is to be deleted is not here any more for those who ask, from `doom` on. A
replica that comes back before a thread has reached the log gets a new one, and copies its leader.
Rule 4: a log that is missing together with its directory is neither made nor led while this broker
counts as in sync for it (`MissingLogs`).

Making and deleting logs waits for the disk: call those in a thread.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Protocol
from uuid import UUID

import structlog

from headrace.broker.replica.log_moves import LogMoves
from headrace.broker.replica.missing_logs import MissingLogs
from headrace.cluster.topic import TopicRecord
from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import settle_half_moves, take_futures
from headrace.log.log_reach import LogReach
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import DiskFull, InvalidArgument, StorageError
from headrace.model.ids import BrokerId, TopicId, TopicPartition

log = structlog.get_logger(__name__)

# A client that may alter the cluster can choose for topics that will never exist.
_MOST_CHOSEN = 100_000

# A log, and the topic that it is deleted with.
Doomed = tuple[TopicPartition, TopicId]


class Compaction(Protocol):
    """The background compaction of the same directories."""

    def add(self, directory: LogDirectory) -> None:
        """Compact the logs of this directory, too."""

    def deleting(self, *partitions: TopicPartition) -> AbstractContextManager[None]:
        """Keep compaction off partitions while they are deleted, and forget them afterwards."""

    def moving(
        self, partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> AbstractContextManager[None]:
        """Keep compaction off a log while it goes on in another directory (`LogMoves`)."""


class LogStorage:
    """The log directories of a broker.

    Attributes:
        directories: those that are open, in the order of `log.dirs`; none before `add`.
        moves: the logs that move between them.
        missing: the logs that rule 4 is about.
    """

    def __init__(
        self, node_id: BrokerId, compaction: Compaction, moves: LogMoves | None = None
    ) -> None:
        """`moves` has threads of its own unless it is given."""
        self.directories: list[LogDirectory] = []
        self._node_id = node_id
        self._compaction = compaction
        self.moves = LogMoves(compaction) if moves is None else moves
        # Where logs go that are not made yet, if an administrator has chosen.
        self._chosen: dict[TopicPartition, LogDirectory] = {}
        # Logs to delete, and those of the round that runs now (rule 3). Only the loop changes them.
        self._doomed: dict[Doomed, None] = {}
        self._deleting: dict[Doomed, None] = {}
        # Those that no round could delete, because a disk was full.
        self._undeleted: dict[Doomed, None] = {}
        # Logs that could not be opened, for the same reason.
        self._unopened: dict[TopicPartition, None] = {}
        self.missing = MissingLogs(node_id)
        # Older copies of logs, which must not be served though they could not be renamed.
        self._stale: set[tuple[LogDirectory, TopicPartition]] = set()

    def add(self, directory: LogDirectory) -> None:
        """Use a directory that has been opened."""
        self.directories.append(directory)
        self._compaction.add(directory)

    @property
    def offline(self) -> list[LogDirectory]:
        """The directories that an I/O error took offline."""
        return [each for each in self.directories if each.offline is not None]

    @property
    def online(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.offline is None]

    def problems(self) -> list[str]:
        """Return one sentence for each thing that an administrator must look at."""
        problems = [
            f"log directory {directory.path} is offline: {directory.offline}"
            for directory in self.offline
        ]
        if self.missing:
            problems.append(
                "logs missing with their log directory, of which no other replica is in sync: "
                f"{len(self.missing)} (log_missing in the broker's log). Mount the directory and "
                "start again; if it is lost, stop this broker and run headrace cluster elect TOPIC "
                "--unclean"
            )
        return problems

    def set_missing_aside(self) -> None:
        """Rename the older logs in place of those that are missing: they are kept, not served."""
        for name, topic_id in self.missing:
            directory = self._directory_with(name, topic_id)
            if directory is not None and directory.offline is None:
                self._set_aside(directory, [name])

    def untrusted_ids(self) -> set[str]:
        """Return the ids of the directories that hold a log in place of one that is missing."""
        holders = (self._directory_with(*each) for each in self.missing)
        return {str(each.meta.directory_id) for each in holders if each is not None}

    def note_missing(
        self, topics: Mapping[str, TopicRecord], directory_ids: Collection[str]
    ) -> list[TopicPartition]:
        """Neither make nor lead the logs that are missing with a directory (rule 4), and return
        them.

        Args:
            directory_ids: the directories that this broker had when it was trusted.
        """

        def has_log(name: TopicPartition, topic_id: TopicId) -> bool:
            directory = self._directory_with(name, topic_id)
            return directory is not None and (
                directory.offline is not None or str(directory.meta.directory_id) in directory_ids
            )

        return self.missing.note(topics, has_log)

    def log_of(self, name: TopicPartition, topic_id: TopicId) -> PartitionLog | None:
        """Return a partition's log; None when its directory is offline, or when there is none that
        belongs to this topic (rule 1)."""
        directory = self._serving(name, topic_id)
        if directory is None:
            log.debug("partition_without_log", partition=str(name))  # it may be about to be made
            return None
        try:
            return directory.get(name)
        except InvalidArgument:
            # It has just moved to another directory, or is being deleted.
            moved = self._serving(name, topic_id)
            return None if moved in (None, directory) else self.log_of(name, topic_id)
        except StorageError as error:
            if isinstance(error, DiskFull):
                self._unopened[name] = None
            log.error("partition_offline", partition=str(name), reason=str(error))
            return None

    def holds(self, name: TopicPartition, topic_id: TopicId) -> bool:
        """Return whether a log of this topic is here, and stays."""
        return self._serving(name, topic_id) is not None

    def _serving(self, name: TopicPartition, topic_id: TopicId) -> LogDirectory | None:
        if self._doomed or self._deleting:
            key = (name, topic_id)
            if key in self._doomed or key in self._deleting:
                return None
        return self._directory_with(name, topic_id)

    def _directory_with(self, name: TopicPartition, topic_id: TopicId) -> LogDirectory | None:
        while True:
            moved = self.moves.ended
            for directory in self.directories:
                if (
                    name in directory
                    and (directory, name) not in self._stale
                    and _topic_id(directory, name) in (topic_id, _UNREADABLE)
                ):
                    return directory
            if moved == self.moves.ended:
                return None
            # It may have moved from a directory not looked at to one that was.

    def move(self, name: TopicPartition, topic_id: TopicId, target: LogDirectory) -> bool:
        """Begin to move a log to another directory. In a thread.

        Returns:
            False when there is no such log: it is made in this directory, if it is made later.

        Raises:
            StorageError: one of the two directories has failed, or the target is full.
            InvalidArgument: the log is being deleted, or has just moved.
        """
        if target.offline is not None:
            raise target.offline
        source = self._serving(name, topic_id)
        if source is None:
            self.choose(name, target)
            return False
        if source.offline is not None:
            raise source.offline
        stored = source.get(name)
        self._make_way(name, topic_id, target)
        self.moves.request(stored, self.directories, target)
        return True

    def _make_way(
        self, name: TopicPartition, topic_id: TopicId | None, target: LogDirectory
    ) -> None:
        """Set aside a log that is not served, and kept its name when its disk was full: another one
        gets that name, and is served.

        Raises:
            DiskFull: it keeps its name.
        """
        if name not in target:
            return
        stale = (target, name) in self._stale
        if stale or _topic_id(target, name) not in (topic_id, _UNREADABLE):
            self._set_aside(target, [name])
            self._forget_stale()
            if name in target:
                raise DiskFull(f"an older log of {name} could not be renamed: free some space")

    def choose(self, name: TopicPartition, target: LogDirectory) -> None:
        """Make a log in this directory when it is made; forgotten with a restart."""
        if len(self._chosen) < _MOST_CHOSEN:
            self._chosen[name] = target

    def lacks(self, record: TopicRecord) -> bool:
        """Return whether a log of this topic that belongs here is missing."""
        return any(
            self._serving(TopicPartition(record.name, index), record.topic_id) is None
            for index, partition in enumerate(record.partitions)
            if self._node_id in partition.replicas
        )

    def make(self, record: TopicRecord) -> None:
        """Create the logs of a topic that are missing; first set aside those that belong to an
        earlier topic of the same name.

        Raises:
            DiskFull: a disk has no room for them.
            StorageError: every log directory is offline.
        """
        missing = [
            index
            for index, partition in enumerate(record.partitions)
            if self._node_id in partition.replicas
            and self._directory_with(TopicPartition(record.name, index), record.topic_id) is None
            and not self.missing.forbid(
                TopicPartition(record.name, index), record.topic_id, partition
            )
        ]
        for directory in self.directories:
            names = (TopicPartition(record.name, index) for index in missing)
            strays = [name for name in names if name in directory]
            self._set_aside(directory, strays)
            if any(name in directory for name in strays):
                raise DiskFull("the logs of an earlier topic of this name could not be renamed")
        self._forget_stale()
        for directory, indexes in self._spread(record.name, missing):
            directory.create_all(record.name, indexes, record.topic_id)
        for index in missing:
            self._chosen.pop(TopicPartition(record.name, index), None)

    def sync_new(self) -> None:
        """Let threads make the logs durable that were made since the last call."""
        for directory in self.online:
            directory.sync_new()

    # -- deleting

    def doom(self, logs: Iterable[Doomed]) -> None:
        """Serve these logs no more; the next round deletes them, each once. On the loop."""
        self._doomed.update(dict.fromkeys(logs))

    @property
    def has_doomed(self) -> bool:
        return bool(self._doomed)

    def begin_round(self) -> list[Doomed]:
        """Return the logs that a thread must `delete` now. On the loop; `end_round` follows."""
        self._deleting, self._doomed = self._doomed, {}
        return list(self._deleting)

    def end_round(self) -> None:
        """Serve the logs that were made in the place of those that were deleted. On the loop."""
        self._deleting = {}

    def delete(self, logs: Iterable[Doomed]) -> None:
        """Delete logs of these topics; those of other topics with the same names stay.

        A directory that is offline keeps its files. They are strays when it comes back. For those
        on a full disk there is `doom_undeleted`.
        """
        doomed = list(logs)
        with self.moves.forbidden(*(name for name, _ in doomed)):
            self._delete(doomed)

    def _delete(self, doomed: list[Doomed]) -> None:
        for directory in self.directories:
            names = [
                name
                for name, topic_id in doomed
                if name in directory and _topic_id(directory, name) in (topic_id, _UNREADABLE)
            ]
            if not names:
                continue
            try:
                with self._compaction.deleting(*names):
                    directory.delete(*names)
            except StorageError as error:
                log.error("logs_not_deleted", count=len(names), reason=str(error))
                left = {name for name in names if name in directory}
                self._undeleted.update(dict.fromkeys(key for key in doomed if key[0] in left))

    def doom_undeleted(self, newest: Callable[[str], TopicRecord | None]) -> None:
        """Let the next round delete the logs that a full disk kept, unless their replicas are back.
        On the loop.

        Args:
            newest: the newest record of a topic, by its name.
        """
        if self._deleting:
            return  # a thread may find more of them; the next call sees to all
        undeleted, self._undeleted = self._undeleted, {}
        self.doom(key for key in undeleted if not self._wants(key, newest(key[0].topic)))

    def _wants(self, key: Doomed, record: TopicRecord | None) -> bool:
        name, topic_id = key
        return record is not None and record.topic_id == topic_id and self._is_replica(name, record)

    # -- strays

    def set_strays_aside(self, topics: Mapping[str, TopicRecord]) -> None:
        """Rename, at the start, the logs that no topic of the cluster accounts for (rule 2).

        When there is no topic at all, all logs keep their names: then the state is probably not
        that of this data, because `zookeeper.connect` names another root, or the directory of the
        broker's own store is missing.

        Of two logs of one partition the further one stays: a disk failed, the replica was moved
        away and copied to another disk, and the first one is back with what it had.
        """
        held = sum(directory.log_count for directory in self.directories)
        if not topics and held:
            log.error(
                "logs_without_topics",
                count=held,
                advice="the cluster's state knows no topic, so no log here is served, and none is "
                "touched: check zookeeper.connect, or log.dirs of a broker alone",
            )
            return
        unfinished = settle_half_moves(self.directories)
        strays: dict[LogDirectory, list[TopicPartition]] = {each: [] for each in self.online}
        homes: dict[TopicPartition, list[LogDirectory]] = {}
        for directory in strays:
            for name in directory.partitions:
                if self._belongs(directory, name, topics.get(name.topic)):
                    homes.setdefault(name, []).append(directory)
                else:
                    strays[directory].append(name)
        for name, found in homes.items():
            for stale in _stale_twins(name, found) if len(found) > 1 else ():
                strays[stale].append(name)
                self._stale.add((stale, name))
        for directory, names in strays.items():
            self._set_aside(directory, names)
        self._forget_stale()
        for name, target in [*unfinished, *take_futures(self.online)]:
            self._move_again(name, target)

    def _move_again(self, name: TopicPartition, target: LogDirectory) -> None:
        homes = (each for each in self.directories if name in each)
        source = next((each for each in homes if (each, name) not in self._stale), None)
        if source is None:
            return
        try:
            stored = source.get(name)
            self._make_way(name, source.topic_id(name), target)
            self.moves.request(stored, self.directories, target)
        except StorageError as error:
            log.error("log_move_not_begun", partition=str(name), reason=str(error))

    def open_logs(self, topics: Mapping[str, TopicRecord]) -> None:
        """Open, at the start, the logs of topics that have a replica here; those that do not open
        are reported when they are to be served."""
        for directory in self.online:
            directory.open_all(
                name
                for name in directory.partitions
                if self._is_replica(name, topics.get(name.topic))
            )

    def open_again(self) -> None:
        """Open the logs that did not open on a full disk, in a thread; they are served when their
        topics are applied again (`take_opened`)."""
        for directory in self.online:
            directory.open_all(name for name in tuple(self._unopened) if name in directory)

    def take_opened(self) -> set[str]:
        """Return the topics of logs that did not open before, and are open now. On the loop."""
        opened = [
            name for name in self._unopened if any(each.is_open(name) for each in self.online)
        ]
        for name in opened:
            del self._unopened[name]
        return {name.topic for name in opened}

    def _set_aside(self, directory: LogDirectory, strays: list[TopicPartition]) -> None:
        if not strays:
            return
        for name in strays:
            log.warning("stray_log", partition=str(name), path=str(directory.path))
        try:
            with self.moves.forbidden(*strays), self._compaction.deleting(*strays):
                directory.set_aside(*strays)
        except StorageError as error:
            log.error("strays_not_renamed", count=len(strays), reason=str(error))

    def _forget_stale(self) -> None:
        """Forget the older copies that are gone: a log may be made in their place."""
        self._stale = {each for each in self._stale if each[1] in each[0]}

    def _belongs(
        self, directory: LogDirectory, name: TopicPartition, topic: TopicRecord | None
    ) -> bool:
        if topic is None or not self._is_replica(name, topic):
            return False
        stored = _topic_id(directory, name)
        if stored is None:
            # Written by a Kafka before 2.8, or a crash came before the first records.
            with suppress(StorageError):  # written later, or the directory has logged why not
                directory.set_topic_id(name, topic.topic_id)
            return True
        return stored in (topic.topic_id, _UNREADABLE)

    def _is_replica(self, name: TopicPartition, topic: TopicRecord | None) -> bool:
        return (
            topic is not None
            and name.partition < len(topic.partitions)
            and self._node_id in topic.partitions[name.partition].replicas
        )

    def _spread(self, topic: str, indexes: Iterable[int]) -> list[tuple[LogDirectory, list[int]]]:
        """Give each new log to the directory that was chosen, or to the one that has the fewest."""
        shares: list[tuple[LogDirectory, list[int]]] = [(each, []) for each in self.online]
        if not shares:
            raise StorageError("every log directory is offline: nothing can be created")
        for index in indexes:
            chosen = self._chosen.get(TopicPartition(topic, index))
            open_ = [each for each in shares if each[0] is chosen] or shares
            _, share = min(open_, key=lambda each: each[0].log_count + len(each[1]))
            share.append(index)
        return shares


# Of which topic a log is cannot be read from a directory that is offline. Such a log is not served,
# and counts as present: the replica must not be created a second time.
_UNREADABLE = UUID(int=0)


def _topic_id(directory: LogDirectory, name: TopicPartition) -> UUID | None:
    try:
        return directory.topic_id(name)
    except StorageError:
        return _UNREADABLE


def _stale_twins(name: TopicPartition, found: list[LogDirectory]) -> list[LogDirectory]:
    """Return all but the directory whose log of this partition has the newest leader epoch, and
    of those the highest end."""
    ends = {directory: _end(directory, name) for directory in found}
    best = found[0]
    for each in found[1:]:
        if ends[each].is_beyond(ends[best]):
            best = each
    log.error(
        "partition_in_two_directories",
        partition=str(name),
        served=str(best.path),
        ends={str(directory.path): end for directory, end in ends.items()},
    )
    return [each for each in found if each is not best]


def _end(directory: LogDirectory, name: TopicPartition) -> LogReach:
    try:
        return LogReach.of(directory.get(name))
    except StorageError:
        return LogReach(-1, -1)
