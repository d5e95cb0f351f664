"""The lag of all groups of a cluster, poll after poll.

One poll (`LagWatch.look`) asks every coordinator for its groups and their committed offsets, the
leaders for their log ends, and reads the commits that were written since (`CommitFeed`). The first
poll also reads the last minutes of commits, so that a single one is enough for a status.

Where the commits cannot be read, a poll stands for a commit while the group has members or its
offset has moved since: STALL and STOP then mean nearly the same, and the first status needs ten
polls.
"""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from headrace.client.error import BrokerError
from headrace.client.group.group_admin import GroupAdmin, GroupListing
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LATEST, FoundOffset, list_offsets
from headrace.client.settings import ClientSettings
from headrace.lag.commit_feed import TOPIC, CommitFeed
from headrace.lag.commit_record import CommitRecord
from headrace.lag.end_pair import EndPair
from headrace.lag.past_end import past_ends
from headrace.lag.report import GroupLag, PartitionLag
from headrace.lag.status import Commit, group_status
from headrace.lag.window import CommitWindow
from headrace.model.clock import Clock, SystemClock
from headrace.model.ids import TopicPartition

LOOKBACK_MS: Final = 15 * 60 * 1000
_CATCH_UP_SECONDS: Final = 10.0
_WAIT_SECONDS: Final = 0.2
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")

Key = tuple[str, TopicPartition]


class LagWatch:
    """Keeps the last commits of every partition of every group. For one thread.

    Example:
        with ConnectionPool(settings) as pool:
            watch = LagWatch(settings)
            for group in watch.look(pool):
                print(group.group, group.lag, group.status)
            watch.close()
    """

    def __init__(
        self, settings: ClientSettings, clock: Clock | None = None, lookback_ms: int = LOOKBACK_MS
    ) -> None:
        self._clock = clock or SystemClock()
        self._feed = CommitFeed(settings, self._clock.wall_ms() - lookback_ms)
        self._windows: dict[Key, CommitWindow] = {}
        # Since when there has been something to read.
        self._behind: dict[Key, int] = {}
        self._ends = EndPair((0, {}), (0, {}))
        self._caught_up = False

    def look(
        self, pool: ConnectionPool, ends: Mapping[TopicPartition, int] | None = None
    ) -> list[GroupLag]:
        """Return every group as it is now, by name.

        Args:
            ends: log ends that are known already; the others are asked for.

        Raises:
            ClientError: the cluster does not answer.
        """
        admin = GroupAdmin(pool)
        groups = admin.list_groups()
        committed = {each.group: _offsets(admin, each.group) for each in groups}
        known = dict(ends or {})
        partitions = {each for offsets in committed.values() for each in offsets}
        known |= _ends(pool, partitions - known.keys())
        self._ends = EndPair(self._ends.now, (self._clock.wall_ms(), known))
        self._read_commits(pool, known)
        if not self._feed.reading:
            self._sample(groups, committed, known)
        present = {(group, each) for group, offsets in committed.items() for each in offsets}
        self._windows = {key: each for key, each in self._windows.items() if key in present}
        self._behind = {key: each for key, each in self._behind.items() if key in present}
        return [self._report(each, committed[each.group], known) for each in groups]

    def close(self) -> None:
        self._feed.close()

    def _read_commits(self, pool: ConnectionPool, ends: Mapping[TopicPartition, int]) -> None:
        if self._caught_up:
            self._note(self._feed.read())
            return
        backlog = self._feed.read(_WAIT_SECONDS)
        if not self._feed.reading:
            return
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        indexes = pool.metadata([TOPIC]).topics[TOPIC].partitions
        own = _ends(pool, {TopicPartition(TOPIC, index) for index in indexes}, read_committed=True)
        targets = {each.partition: end for each, end in own.items()}
        while not self._feed.caught_up(targets) and time.monotonic() < deadline:
            backlog += self._feed.read(_WAIT_SECONDS)
        self._caught_up = True
        self._note_backlog(pool, backlog, ends)

    def _note(self, commits: Iterable[CommitRecord]) -> None:
        for each in commits:
            key = (each.group, each.partition)
            if each.offset is None:
                self._windows.pop(key, None)
            else:
                end = self._ends.at(each.partition, each.at_ms)
                lag = 0 if end is None else max(end - each.offset, 0)
                window = self._windows.setdefault(key, CommitWindow())
                window.add(Commit(each.offset, each.at_ms, lag))

    def _note_backlog(
        self,
        pool: ConnectionPool,
        backlog: Iterable[CommitRecord],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Add commits from before the first poll: choose ten per partition, then their lags."""
        self._note(backlog)
        moments = [
            (partition, commit.at_ms)
            for (_, partition), window in self._windows.items()
            if partition in ends
            for commit in window.commits
        ]
        then = past_ends(pool, moments, ends)
        for key, window in self._windows.items():
            partition = key[1]
            if partition in ends:
                window.correct_lags(partial(_end_then, then, partition))
                self._behind[key] = then[partition, window.commits[-1].at_ms].timestamp_ms

    def _sample(
        self,
        groups: Iterable[GroupListing],
        committed: Mapping[str, Mapping[TopicPartition, int]],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        now_ms = self._clock.wall_ms()
        for group in groups:
            for partition, offset in committed[group.group].items():
                window = self._windows.setdefault((group.group, partition), CommitWindow())
                last = window.commits[-1].offset if window.commits else None
                if group.state not in _WITHOUT_MEMBERS or offset != last:
                    lag = max(ends.get(partition, offset) - offset, 0)
                    window.add(Commit(offset, now_ms, lag))

    def _report(
        self,
        group: GroupListing,
        committed: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> GroupLag:
        now_ms = self._clock.wall_ms()
        partitions = []
        for partition, offset in sorted(committed.items()):
            key = (group.group, partition)
            window = self._windows.get(key) or CommitWindow()
            end = ends.get(partition, -1)
            if end <= offset:
                self._behind.pop(key, None)
            status = window.status(
                lag_now=max(end - offset, 0),
                now_ms=now_ms,
                behind_since_ms=self._behind.setdefault(key, now_ms) if end > offset else 0,
            )
            partitions.append(PartitionLag(partition, offset, end, status, tuple(window.commits)))
        return GroupLag(
            group.group,
            group.state,
            group.type or group.protocol_type,
            group.broker,
            group_status(each.status for each in partitions),
            tuple(partitions),
        )


def _end_then(
    ends: Mapping[tuple[TopicPartition, int], FoundOffset], partition: TopicPartition, at_ms: int
) -> int:
    return ends[partition, at_ms].offset


def _offsets(admin: GroupAdmin, group: str) -> dict[TopicPartition, int]:
    """Return what a group has committed; nothing for one that is gone or may not be described."""
    try:
        return admin.offsets(group)
    except BrokerError:
        return {}


def _ends(
    pool: ConnectionPool, partitions: Iterable[TopicPartition], *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    times = dict.fromkeys(sorted(partitions), LATEST)
    offsets = list_offsets(pool, times, read_committed=read_committed) if times else {}
    return {
        each: answer.offset for each, answer in offsets.items() if isinstance(answer, FoundOffset)
    }
