"""One link: the partitions copied from its source, each from the broker that leads it there.

The link asks the source who leads what, now and then, and at once when a fetch was refused.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol
from uuid import UUID

import structlog

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.mirror.mirror_fetcher import MirrorFetcher
from headrace.broker.mirror.mirror_follower import MirrorFollower, MirrorStopped, last_batch
from headrace.broker.mirror.source_cluster import SourceCluster, SourceTopic
from headrace.broker.peer.connection import PeerLost
from headrace.broker.replica.log_start_queue import LogStartQueue
from headrace.broker.replica.log_truncations import LogTruncations
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.replica_host import ReplicaHost
from headrace.broker.replica.replication_throttle import ReplicationThrottle
from headrace.model.clock import Clock
from headrace.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition

log = structlog.get_logger(__name__)

_REFRESH_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_LARGEST_RATE = 2**63 - 1


class MirrorHost(ReplicaHost, Protocol):
    """The broker, seen from its mirror links."""

    @property
    def clock(self) -> Clock: ...


class MirrorLink:
    """Copies the partitions that this broker leads of one link's mirror topics.

    Threads: event loop only; logs are read and their starts moved in the host's threads.
    """

    def __init__(
        self, name: str, host: MirrorHost, settings: BrokerSettings, source: SourceCluster
    ) -> None:
        self.name = name
        self._host = host
        self._settings = settings
        self._source = source
        self._throttle = ReplicationThrottle(host.clock, lambda: _LARGEST_RATE)
        self._truncations = LogTruncations(host.log_threads)
        self._log_starts = LogStartQueue(host.log_threads)
        self._wanted: dict[TopicPartition, Partition] = {}
        self._followers: dict[TopicPartition, MirrorFollower] = {}
        self._fetchers: dict[BrokerId, MirrorFetcher] = {}
        self._stopped: dict[TopicPartition, tuple[Partition, str]] = {}
        self._look_ups: dict[TopicPartition, asyncio.Task[None]] = {}
        self._said: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    # -- what is copied

    def set_partitions(self, partitions: Iterable[Partition]) -> None:
        """Copy these partitions, and no others."""
        self._wanted = {each.name: each for each in partitions}
        for name, follower in list(self._followers.items()):
            if self._wanted.get(name) is not follower.partition:
                self._leave(name)
        for name, (partition, _) in list(self._stopped.items()):
            if self._wanted.get(name) is not partition:
                del self._stopped[name]
        self._changed.set()

    def followers(self) -> Iterable[MirrorFollower]:
        return self._followers.values()

    def stopped(self) -> dict[TopicPartition, str]:
        """Return the partitions that are not copied any more, and why."""
        return {name: reason for name, (_, reason) in self._stopped.items()}

    async def close(self) -> None:
        self._task.cancel()
        tasks: list[asyncio.Task[None]] = [self._task, *self._look_ups.values()]
        for look_up in self._look_ups.values():
            look_up.cancel()
        tasks += [fetcher.stop() for fetcher in self._fetchers.values()]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._source.close()
        await self._log_starts.finished()

    # -- what fetchers report

    def lost(self) -> None:
        self._source.leader_was_wrong()
        self._changed.set()

    def stop(self, follower: MirrorFollower, reason: str) -> None:
        if self._followers.get(follower.name) is not follower:
            return
        follower.stopped = reason
        self._stop(follower.partition, reason)

    def _stop(self, partition: Partition, reason: str) -> None:
        log.error("mirror_stopped", link=self.name, partition=str(partition.name), reason=reason)
        self._leave(partition.name)
        self._stopped[partition.name] = partition, reason

    def out_of_range(self, follower: MirrorFollower) -> None:
        name = follower.name
        running = self._look_ups.get(name)
        if running is None or running.done():
            look_up = self._look_up(follower)
            self._look_ups[name] = asyncio.get_running_loop().create_task(look_up)

    async def _look_up(self, follower: MirrorFollower) -> None:
        """Decide what a fetch out of range means: the source deleted, or lost, records."""
        end, topic = follower.log.log_end_offset, self._topic_at_source(follower.partition)
        try:
            found = await self._source.offsets(
                follower.leader, follower.leader_epoch, topic, follower.name.partition
            )
            if self._followers.get(follower.name) is not follower:
                return
            if found.end < end:
                self.stop(
                    follower,
                    f"the source ends at offset {found.end}, and the mirror has records up to "
                    f"{end}: the source has lost them",
                )
            elif found.start > follower.next_offset:
                follower.skip_to(found.start)
        except MirrorStopped as error:
            self.stop(follower, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it was, the next fetch asks again
            self._say(str(follower.name), f"its offsets are not known: {error!r}")

    # -- leaders

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            seconds = _REFRESH_SECONDS
            try:
                if not await self._refresh():
                    seconds = _RETRY_SECONDS
            except PeerLost as error:
                self._say("source", str(error))
                seconds = _RETRY_SECONDS
            except Exception as error:
                log.error("mirror_link_failed", link=self.name, exc_info=error)
                seconds = _RETRY_SECONDS
            if self._changed.is_set():
                # Not more often, whatever is reported.
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    async def _refresh(self) -> bool:
        """Copy each partition from its present leader; return whether each has one."""
        wanted = [each for name, each in self._wanted.items() if name not in self._stopped]
        if not wanted:
            return True
        names = {self._topic_at_source(each) for each in wanted}
        topics = await self._source.topics(sorted(names))
        self._said.pop("source", None)
        complete = True
        for partition in wanted:
            name = self._topic_at_source(partition)
            topic = topics.get(name)
            if not isinstance(topic, SourceTopic):
                self._say(name, topic or "it is not there")
                complete = False
                continue
            self._said.pop(name, None)
            try:
                complete &= await self._place(partition, topic)
            except Exception as error:  # noqa: BLE001 - of this partition alone
                self._say(str(partition.name), repr(error))
                complete = False
        return complete

    async def _place(self, partition: Partition, topic: SourceTopic) -> bool:
        if self._wanted.get(partition.name) is not partition:
            return True
        expected = partition.log.config.headrace_mirror_topic_id
        if expected and UUID(expected) != topic.topic_id:
            self._stop(
                partition,
                f"the source's topic was deleted and created again: it has the id {topic.topic_id} "
                f"now, and the mirror is of {expected}",
            )
            return True
        at = topic.partitions.get(partition.name.partition)
        if at is None or at.leader < 0:
            return False
        known = self._followers.get(partition.name)
        if known is not None and known.topic_id != topic.topic_id:
            self._leave(partition.name)
            known = None
        if known is not None:
            if at.leader_epoch < known.leader_epoch:
                # The broker that was asked does not know of the last election yet.
                return False
            if (known.leader, known.leader_epoch) != at:
                self._remove(known)
                known.move(at.leader, LeaderEpoch(at.leader_epoch))
                self._add(known)
            return True
        loop = asyncio.get_running_loop()
        last = await loop.run_in_executor(self._host.log_threads, last_batch, partition.log)
        if self._wanted.get(partition.name) is not partition:
            return True
        follower = MirrorFollower(
            partition,
            TopicId(topic.topic_id),
            at.leader,
            LeaderEpoch(at.leader_epoch),
            self._log_starts,
            last,
        )
        self._followers[partition.name] = follower
        self._add(follower)
        return True

    def _add(self, follower: MirrorFollower) -> None:
        fetcher = self._fetchers.get(follower.leader)
        if fetcher is None:
            fetcher = self._fetchers[follower.leader] = MirrorFetcher(
                follower.leader,
                self._host,
                self._settings,
                self._source,
                self._throttle,
                self._truncations,
                self,
            )
        fetcher.add(follower)

    def _remove(self, follower: MirrorFollower) -> None:
        fetcher = self._fetchers.get(follower.leader)
        if fetcher is None:
            return
        fetcher.remove(follower.topic_id, follower.name.partition)
        if fetcher.idle:
            del self._fetchers[follower.leader]
            fetcher.stop()

    def _leave(self, name: TopicPartition) -> None:
        follower = self._followers.pop(name, None)
        if follower is not None:
            self._remove(follower)
        look_up = self._look_ups.pop(name, None)
        if look_up is not None:
            look_up.cancel()

    @staticmethod
    def _topic_at_source(partition: Partition) -> str:
        return partition.log.config.headrace_mirror_topic or partition.name.topic

    def _say(self, about: str, reason: str) -> None:
        """Log a reason once, until it is another one."""
        if self._said.get(about) != reason:
            self._said[about] = reason
            log.warning("mirror_waits", link=self.name, about=about, reason=reason)
