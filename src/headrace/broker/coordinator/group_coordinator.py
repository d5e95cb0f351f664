"""Does the I/O for the group state machines: appends their records, then releases the replies.

One shard is one partition of `__consumer_offsets`. A broker coordinates the groups of the shards it
leads. `groups.registry.GroupRegistry` decides; this file appends, waits and replies.

Rule 1: a shard answers COORDINATOR_LOAD_IN_PROGRESS until its partition has been replayed; clients
retry that by themselves.
Rule 2: records are appended before their replies leave, and are by then with every replica in sync
and, with group commit, on disk.
A reply without records of its own waits as well, for those of members and assignments that
came before it or were found in the log. Else a member would own partitions in a generation that the
next coordinator has never heard of, and gives out again. And offsets are reported when they cannot
be lost any more (`read_when_safe`): else a consumer could go on behind records that the next
coordinator hands to another one again.
Rule 3: an append that failed is rejected, whatever the reason, so state and log never differ and
no event stays open. If a wait fails, this broker gives up the shard. If it takes longer than
`offsets.commit.timeout.ms`, the reply is COORDINATOR_NOT_AVAILABLE (`DelayedReplies`).
Rule 4: a client that goes away only cancels its own reply. A parked request stays parked, as in
Kafka: its member lives until its session or its join phase ends, and the reply is then dropped.
Rule 5: offsets of topics that are gone are deleted after a load: a consumer would go on with them
in a new topic of the same name. Only the cluster's store says which these are: this broker may not
know the newest topics yet. It is asked in the background. Until the deletions are in the log, a
fetch of such an offset is refused, and nothing else: a cut to the store must stop no group.
Rule 6: a request for a group that is loaded is decided before anything else happens on the loop.
The offsets of a transaction rely on it (rule 3 of `transaction_coordinator`).
Rule 7: a shard that is lost changes nothing any more. What works on a shard over several turns of
the loop looks at `GroupShard.lost` after each: this broker may lead the partition again by then, in
another shard, and would append to it what an outdated state has decided.
Rule 8: the time the groups see moves evenly, from the wall clock's value at the start; setting the
machine's clock must not end every session.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

import structlog

from headrace.broker.config.internal_topic import CONSUMER_OFFSETS
from headrace.broker.coordinator.broker_topics import BrokerTopics
from headrace.broker.coordinator.coordinator_host import CoordinatorHost
from headrace.broker.coordinator.delayed_replies import DelayedReplies
from headrace.broker.coordinator.group_batch import build_group_batches
from headrace.broker.coordinator.group_shard import GroupShard
from headrace.broker.limited_warning import LimitedWarning
from headrace.broker.replica.partition import Partition
from headrace.groups.config import GroupConfig
from headrace.groups.effect import Delivery, GroupEffects
from headrace.groups.error import GroupError, Refusal
from headrace.groups.primitive_codec import MalformedRecord
from headrace.groups.record import OffsetCommitRecord
from headrace.groups.registry import GroupRegistry
from headrace.groups.request import GroupReply, GroupRequest
from headrace.model.coordinator import coordinator_partition
from headrace.model.error import BatchTooLarge, HeadraceError, InvalidArgument, InvalidProducerEpoch
from headrace.model.ids import ProducerId, TopicId

log = structlog.get_logger(__name__)

# Groups checked for expiry per turn of the loop; each costs some microseconds.
_EXPIRIES_PER_TURN = 100
_RELOAD_SECONDS = 1.0

FoundT = TypeVar("FoundT")
ReplyT = TypeVar("ReplyT", bound=GroupReply)


class GroupCoordinator:
    """All shards of this broker. Lives on the event loop; only replaying runs in a thread."""

    def __init__(self, broker: CoordinatorHost, config: GroupConfig) -> None:
        self._broker = broker
        self._config = config
        self._topics = BrokerTopics(broker)
        self._shards: dict[int, GroupShard] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._expiry: asyncio.Task[None] | None = None
        self._stopped = False
        self._too_large = LimitedWarning(broker.loop.time, log)
        self._epoch_ms = broker.clock.wall_ms() - broker.clock.monotonic_ms()

    @property
    def _now_ms(self) -> int:
        return self._epoch_ms + self._broker.clock.monotonic_ms()

    def _wall_skew_ms(self) -> int:
        """Return how far the clock was set ahead, or the machine slept, since this broker began."""
        return self._broker.clock.wall_ms() - self._now_ms

    def load(self, partitions: Iterable[Partition]) -> None:
        """Begin to lead shards: replay their partitions in the background."""
        self._stopped = False
        for partition in partitions:
            index = partition.name.partition
            if index in self._shards:
                continue
            registry = GroupRegistry(self._config, self._topics, wall_skew_ms=self._wall_skew_ms)
            shard = GroupShard(partition, registry, self._replies(partition))
            self._shards[index] = shard
            if partition.log.log_end_offset > partition.log.log_start_offset:
                self._begin(self._load(shard))
            else:
                self._open(shard)

    def _replies(self, partition: Partition) -> DelayedReplies:
        return DelayedReplies(
            self._broker.loop,
            self._config.offsets_commit_timeout_ms / 1000,
            partial(self._broker.when_safe, partition),
            lambda: partition.safe_offset,
            self._release,
            partial(self._wait_failed, partition),
        )

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._broker.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _load(self, shard: GroupShard) -> None:
        """Replay a shard's partition in a thread.

        Markers of transactions may still be appended meanwhile. So it is done only when, here on
        the loop, nothing has come after what was replayed.
        """
        stored, at = shard.partition.log, 0
        try:
            while at < stored.log_end_offset and not shard.lost:
                at = await self._broker.in_thread(partial(shard.replay, at))
        except HeadraceError as error:
            if not shard.lost:
                log.error("groups_not_loaded", shard=str(shard.partition.name), reason=str(error))
                self._lose(shard)
            return
        if not shard.lost:
            self._open(shard)

    def _open(self, shard: GroupShard) -> None:
        shard.registry.start(self._now_ms)
        shard.loading = False
        shard.end = shard.partition.log.log_end_offset
        self._release_when_safe(shard, shard.end, GroupEffects())
        self._schedule(shard)

    def unload(self, index: int) -> None:
        """Give up a shard: another broker leads it from now on."""
        shard = self._shards.get(index)
        if shard is not None:
            self._lose(shard)

    def _reload(self, partition: Partition) -> None:
        """Load a lost shard again from its log, unless another broker leads it now."""
        if not partition.resigned and not partition.log.closed and not self._stopped:
            self.load([partition])

    def _lose(self, shard: GroupShard) -> None:
        """Stop serving a shard: every parked request is answered with NOT_COORDINATOR.

        While it loads nothing is parked, and its registry is the thread's that replays.
        """
        shard.lost = True
        shard.cancel_timer()
        index = shard.partition.name.partition
        if self._shards.get(index) is shard:
            del self._shards[index]
        shard.replies.close()
        if not shard.loading:
            self._release(shard.registry.unload())

    # -- requests

    async def handle(self, request: GroupRequest[ReplyT]) -> ReplyT:
        """Pass a request to the group's registry and wait for the reply.

        The reply refuses the request if this broker is not the coordinator or is still loading.
        """
        try:
            shard = await self.shard(request.group_id)
        except Refusal as refusal:
            return request.refused(refusal.error)
        reply: asyncio.Future[ReplyT] = self._broker.loop.create_future()
        self._carry_out(shard, shard.registry.handle(request, reply, self._now_ms))
        return await reply

    async def shard(self, group_id: str) -> GroupShard:
        """Return the loaded shard of a group; the first group creates the topic.

        Raises:
            Refusal: this broker is not the coordinator, or is still loading; or the id is longer
                than any record can hold.
        """
        try:
            topic = await self._broker.controller.internal_topic(CONSUMER_OFFSETS)
        except HeadraceError as error:
            raise Refusal(GroupError.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        try:
            index = coordinator_partition(group_id, len(topic.partitions))
        except InvalidArgument as error:
            raise Refusal(GroupError.INVALID_REQUEST, str(error)) from error
        shard = self._shards.get(index)
        if shard is None:
            raise Refusal(GroupError.NOT_COORDINATOR, f"group {group_id} is looked after elsewhere")
        if shard.loading:
            raise Refusal(
                GroupError.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id} is still being loaded"
            )
        if not shard.topics_checked:
            # Not earlier: nearly all topics are known only when requests come.
            shard.topics_checked = True
            if shard.registry.suspect_topics() and (shard.check is None or shard.check.done()):
                shard.check = self._begin(self._forget_stale(shard))
        return shard

    async def _forget_stale(self, shard: GroupShard) -> None:
        """Delete the offsets of topics that are gone (rule 5): when the store can be read, and the
        log can be written."""
        registry = shard.registry
        while not shard.lost and (names := registry.suspects):
            try:
                topics = await self._broker.controller.read_topics(names)
            except HeadraceError:
                await asyncio.sleep(_RELOAD_SECONDS)
                continue
            if not shard.lost:
                ids = {name: topics[name].topic_id if name in topics else None for name in names}
                if not self._carry_out(shard, registry.forget_stale(ids)):
                    await asyncio.sleep(_RELOAD_SECONDS)

    async def registry(self, group_id: str) -> GroupRegistry:
        """Return the registry of a group, for reading only; changes go through `handle`.

        Raises:
            Refusal: this broker is not the coordinator, or is still loading.
        """
        return (await self.shard(group_id)).registry

    async def read_when_safe(
        self, group_id: str, read: Callable[[GroupRegistry], FoundT]
    ) -> FoundT:
        """Read from the registry of a group, and return what was found when every replica in sync
        has it.

        Raises:
            Refusal: this broker is not the coordinator, or is still loading, or the replicas did
                not get it in time; or what `read` raises.
        """
        shard = await self.shard(group_id)
        found = read(shard.registry)
        end = shard.partition.log.log_end_offset
        if shard.partition.safe_offset >= end:
            return found
        safe: asyncio.Future[GroupReply] = self._broker.loop.create_future()
        self._release_when_safe(shard, end, GroupEffects(replies=[Delivery(safe, GroupReply())]))
        reply = await safe
        if reply.error is not None:
            raise Refusal(reply.error, f"what group {group_id} has committed is not safe yet")
        return found

    def registries(self) -> Iterator[GroupRegistry]:
        """Return the registries of all shards, for listings.

        Raises:
            Refusal: some are still being loaded, so a list would be incomplete.
        """
        if any(shard.loading for shard in self._shards.values()):
            raise Refusal(
                GroupError.COORDINATOR_LOAD_IN_PROGRESS, "some groups are still being loaded"
            )
        return (shard.registry for shard in self._shards.values())

    # -- events

    def transaction_ended(self, partition: int, producer_id: ProducerId, *, commit: bool) -> None:
        """Commit or drop the offsets of a transaction whose marker was appended to a shard."""
        shard = self._shards.get(partition)
        if shard is not None and not shard.loading:
            shard.registry.complete_transaction(producer_id, commit=commit)

    def topics_deleted(self, topics: Mapping[str, TopicId]) -> None:
        """Delete the offsets of deleted topics. Without its own topic there are no groups left."""
        if CONSUMER_OFFSETS in topics:
            self.stop()
        for shard in self._loaded():
            if not self._carry_out(shard, shard.registry.forget_topics(topics)):
                shard.topics_checked = False

    def expire(self) -> None:
        """Drop old offsets and empty groups; called every offsets.retention.check.interval.ms."""
        if self._expiry is None or self._expiry.done():
            self._expiry = self._begin(self._expire())

    async def _expire(self) -> None:
        looked_at = 0
        for shard in self._loaded():
            for group_id in shard.registry.group_ids():
                if shard.lost:
                    break
                self._carry_out(shard, shard.registry.expire(group_id, self._now_ms))
                looked_at += 1
                if looked_at % _EXPIRIES_PER_TURN == 0:
                    await asyncio.sleep(0)

    def stop(self) -> None:
        """Answer every parked request; the next coordinator goes on from the log."""
        self._stopped = True
        for shard in list(self._shards.values()):
            self._lose(shard)
        for task in self._tasks:
            task.cancel()

    def _loaded(self) -> list[GroupShard]:
        return [shard for shard in self._shards.values() if not shard.loading]

    # -- the seam to the log

    def _carry_out(self, shard: GroupShard, effects: GroupEffects) -> bool:
        """Append the records, and release the replies; return whether nothing was rejected."""
        end, wanted = None, effects
        if effects.records:
            try:
                end = self._append(shard, effects)
            except MalformedRecord:
                # A text in the request is longer than Kafka's records can hold.
                effects = shard.registry.reject(self._now_ms, GroupError.INVALID_REQUEST)
            except BatchTooLarge as error:
                self._too_large.warn(
                    "group_too_large",
                    shard=str(shard.partition.name),
                    group=effects.records[0].group,
                    reason=str(error),
                )
                effects = shard.registry.reject(self._now_ms, _too_large(effects))
            except InvalidProducerEpoch:
                # A transaction's offsets from a producer that a newer one has fenced.
                effects = shard.registry.reject(self._now_ms, GroupError.INVALID_PRODUCER_EPOCH)
            except HeadraceError as error:
                log.error("group_append_failed", shard=str(shard.partition.name), reason=str(error))
                effects = shard.registry.reject(self._now_ms)
            except BaseException:
                self._release(shard.registry.reject(self._now_ms))
                raise
            else:
                shard.registry.adopt()
                if not _only_offsets(effects):
                    shard.end = end
        if end is not None:
            self._release_when_safe(shard, end, effects)
        elif any(each.reply.error is None for each in effects.replies):
            self._release_when_safe(shard, shard.end, effects)
        else:
            self._release(effects)
        self._schedule(shard)
        return effects is wanted

    def _append(self, shard: GroupShard, effects: GroupEffects) -> int:
        max_bytes = shard.partition.log.config.max_message_bytes
        batches = build_group_batches(effects, self._broker.clock.wall_ms(), max_bytes)
        appended = shard.partition.append(batches, from_client=False, acks_all=True)
        return appended.last_offset + 1

    def _release_when_safe(self, shard: GroupShard, end: int, effects: GroupEffects) -> None:
        """Release replies when the records below `end` are safe (rule 2)."""
        if not shard.partition.waits_before_answer:
            shard.replies.mark_safe(end)
        shard.replies.add(end, effects)

    def _wait_failed(self, partition: Partition) -> None:
        shard = self._shards.get(partition.name.partition)
        if shard is not None and shard.partition is partition:
            self._lose(shard)
        self._broker.loop.call_later(_RELOAD_SECONDS, self._reload, partition)

    def _release(self, effects: GroupEffects) -> None:
        for each in effects.replies:
            waiting = each.token
            if isinstance(waiting, asyncio.Future) and not waiting.done():
                waiting.set_result(each.reply)

    def _schedule(self, shard: GroupShard) -> None:
        """Set the shard's timer. Deadlines mostly move later: then the earlier timer stays."""
        deadline_ms = shard.registry.deadline_ms()
        if deadline_ms is None or (shard.timer is not None and shard.timer_ms <= deadline_ms):
            return
        shard.cancel_timer()
        wait_ms = max(0, deadline_ms - self._now_ms)
        shard.timer = self._broker.loop.call_later(wait_ms / 1000, self._tick, shard)
        shard.timer_ms = deadline_ms

    def _tick(self, shard: GroupShard) -> None:
        shard.timer = None
        effects = shard.registry.tick(self._now_ms)
        if effects is None:
            self._schedule(shard)
        else:
            self._carry_out(shard, effects)


def _only_offsets(effects: GroupEffects) -> bool:
    return all(isinstance(each, OffsetCommitRecord) for each in effects.records)


def _too_large(effects: GroupEffects) -> GroupError:
    """Return what Kafka answers when records are larger than the topic allows."""
    if _only_offsets(effects):
        return GroupError.INVALID_COMMIT_OFFSET_SIZE
    return GroupError.UNKNOWN_SERVER_ERROR
