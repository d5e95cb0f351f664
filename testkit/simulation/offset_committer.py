"""A group without members in the seam simulator, which commits offsets and must find them again."""

import asyncio
from uuid import UUID

from headrace.groups.offset.message import CommitReply, CommitRequest, OffsetToCommit
from headrace.model.ids import TopicPartition
from testkit.simulation.coordinator_call import ask_coordinator, coordinator_of
from testkit.simulation.seam_broker import TOPIC, SeamBroker
from testkit.simulation.seam_client import ClientHost
from testkit.simulation.virtual_loop import VirtualLoop

_PATIENCE_MS = 400
_PAUSE_MS = 120


class OffsetCommitter:
    """Commits one number after the other, each with the id of the topic that its coordinator knows.

    What must hold in the end: the group has the last number that was acknowledged for the topic
    that there is, or a later one that was sent; none of a topic that was deleted.
    """

    def __init__(self, host: ClientHost, number: int, loop: VirtualLoop) -> None:
        self._host = host
        self._name = f"g{number}"
        self._loop = loop
        self._where = TopicPartition(TOPIC, 0)
        self._sent: dict[int, UUID] = {}
        self._acknowledged: dict[UUID, int] = {}
        self._offset = 0
        self.busy = True

    def start(self) -> None:
        self._loop.run(lambda: self._loop.create_task(self._run()))

    async def _run(self) -> None:
        while not self._host.calm:
            await asyncio.sleep(self._host.random.randint(1, _PAUSE_MS) / 1000)
            await self._commit()
        self.busy = False

    async def _commit(self) -> None:
        self._offset += 1
        offset = self._offset
        reply = await ask_coordinator(
            self._host, self._loop, lambda peer: self._handle(peer, offset), _PATIENCE_MS
        )
        if reply is not None and reply.error is None and not reply.errors:
            topic_id = self._sent[offset]
            self._acknowledged[topic_id] = offset
            self._host.say(self._name, f"has committed {offset}")

    async def _handle(self, peer: SeamBroker, offset: int) -> CommitReply | None:
        """Do what the handler of OffsetCommit does: the topic is the one that the broker knows."""
        topic = peer.topics.by_name(TOPIC)
        if topic is None:
            return None
        self._sent[offset] = topic.topic_id
        wanted = OffsetToCommit(offset=offset, topic_id=topic.topic_id)
        return await peer.groups.handle(
            CommitRequest(group_id=self._name, offsets={self._where: wanted})
        )

    def problem(self) -> str | None:
        """Return what is wrong with the group's offset, once everything has come to its end."""
        coordinator = coordinator_of(self._host)
        if coordinator is None:
            return None if not self._acknowledged else f"{self._name} has no coordinator"
        topic = coordinator.topics.by_name(TOPIC)
        assert topic is not None
        found = self._found(coordinator)
        if found is None:
            return f"the offsets of {self._name} are not served"
        last = self._acknowledged.get(topic.topic_id, -1)
        if found < last:
            return f"{self._name} committed {last}, and {found} is left"
        if found >= 0 and self._sent[found] != topic.topic_id:
            return f"{self._name} finds {found}, which is of a topic that was deleted"
        return None

    def _found(self, coordinator: SeamBroker) -> int | None:
        """Return the group's offset; None while its shard is not served. The first look at a shard
        deletes offsets of topics that are gone."""
        found: list[int] = []

        async def fetch() -> None:
            registry = await coordinator.groups.registry(self._name)
            found.append(registry.fetch_offsets(self._name, [self._where])[self._where].offset)

        coordinator.loop.run(lambda: coordinator.loop.create_task(fetch()))
        return found[0] if found else None
