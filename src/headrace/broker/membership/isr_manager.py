"""Maintains the in-sync replicas of the partitions this broker leads: proposes, commits, withdraws.

Rule 1: a proposal counts from the moment it is made (`replication.partition_state`), and until the
cluster's state has been read after its commit: a commit whose response was lost may have been done.
Rule 2: one proposal per partition at a time; those of all partitions go in one commit.
Rule 3: a proposal that was refused is made again if it still holds. One that waited for the round
before it is looked at again: its follower may have started again since, without what it had.
Rule 4: while the session with the cluster's store is over, a partition whose followers fetch no
more is stranded (`Partition`): they cannot be removed from the in-sync replicas, and one of them
may lead by now.
"""

import asyncio
from typing import Protocol

import structlog

from headrace.broker.membership.member_host import MemberHost
from headrace.broker.replica.partition import Partition
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.partition_command import IsrProposal
from headrace.cluster.store import node_path
from headrace.cluster.topic import TopicRecord
from headrace.model.error import HeadraceError, StorageError
from headrace.model.ids import BrokerId, TopicId, TopicPartition

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 0.5
_EXAMPLES = 3


class Registration(Protocol):
    """This broker's registration with the cluster's store."""

    @property
    def joined(self) -> bool:
        """Whether the session with the store is alive, and the broker registered in it."""

    def set_stranded(self, stranded: bool) -> None:
        """Note whether some partition that this broker leads is stranded."""


class IsrManager:
    """Proposes and commits changes of the in-sync replicas. It proposes nothing by itself before
    `start`.

    Threads: event loop only.
    """

    def __init__(self, host: MemberHost, registration: Registration) -> None:
        self._host = host
        self._registration = registration
        self._max_lag_ms: int = host.settings["replica.lag.time.max.ms"]
        self._proposed: dict[TopicPartition, Partition] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look for followers that lag behind, again and again."""
        self._checking = self._host.loop.create_task(self._check_for_ever())

    def propose(self, partition: Partition, isr: frozenset[BrokerId]) -> None:
        """Let the cluster's state adopt these in-sync replicas; one proposal at a time (rule 2)."""
        if partition.state.proposed is not None or partition.resigned:
            return
        partition.state.propose(isr)
        self._proposed[partition.name] = partition
        if self._flushing is None or self._flushing.done():
            self._flushing = self._host.loop.create_task(self._flush())

    async def stop(self) -> None:
        tasks = [task for task in (self._checking, self._flushing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_for_ever(self) -> None:
        """Check as often as Kafka: a follower is out after at most one and a half times its lag."""
        while True:
            await asyncio.sleep(self._max_lag_ms / 2000)
            try:
                self.check()
            except Exception as error:
                log.error("isr_check_failed", exc_info=error)

    def check(self) -> None:
        """Propose to remove followers that lag, and find stranded partitions. `ClusterMember` also
        calls it when the session with the store has come back: rule 4 is over then."""
        now_ms = self._host.clock.monotonic_ms()
        joined, stranded = self._registration.joined, False
        for partition in self._host.topics.partitions():
            state = partition.state
            late = state.late(now_ms, self._max_lag_ms) if len(state.isr) > 1 else frozenset()
            partition.set_stranded(
                not joined and state.followers_are_silent(now_ms, self._max_lag_ms)
            )
            stranded = stranded or partition.stranded
            if late and state.proposed is None:
                self.propose(partition, state.shrunk(late))
        self._registration.set_stranded(stranded)

    async def _flush(self) -> None:
        while self._proposed:
            proposed, self._proposed = self._proposed, {}
            _log_round(list(proposed.values()))
            proposals = [
                proposal
                for partition in proposed.values()
                if (proposal := self._proposal(partition)) is not None
            ]
            await self._commit(proposals)
            # Whatever went wrong: a partition with an open proposal can make no other.
            await self._settle(list(proposed.values()))

    def _proposal(self, partition: Partition) -> IsrProposal | None:
        topic = self._host.topics.by_name(partition.name.topic)
        state = partition.state
        if topic is None or state.proposed is None or partition.resigned:
            return None
        if any(each not in state.expanded(each) for each in state.proposed - state.isr):
            return None  # rule 3; `_settle` withdraws it
        return IsrProposal(
            partition=partition.name,
            topic_id=TopicId(topic.topic_id),
            leader=state.broker_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr={
                each: -1 if each in state.isr else state.broker_epoch(each)
                for each in state.proposed
            },
        )

    async def _commit(self, proposals: list[IsrProposal]) -> None:
        if not proposals:
            return
        try:
            await self._host.controller.administer(
                lambda controller: controller.alter_isr(proposals)
            )
        except HeadraceError as error:
            log.warning("isr_not_changed", reason=str(error))
        except Exception as error:
            log.error("isr_not_changed", exc_info=error)

    async def _settle(self, partitions: list[Partition]) -> None:
        """Read the cluster's state, then withdraw a proposal that it did not adopt (rule 1)."""
        open_ = [each for each in partitions if each.state.proposed is not None]
        while open_:
            paths = {node_path(TopicRecord.KIND, each.name.topic) for each in open_}
            # A leader of this broker's id may be another process (`ReplicaRoles`, rule 4).
            paths.add(node_path(BrokerRecord.KIND, str(self._host.settings.node_id)))

            def read(controller: Controller, paths: set[str] = paths) -> None:
                controller.catch_up(paths)

            try:
                await self._host.controller.administer(read)
            except StorageError as error:
                # The store cannot be reached, or the session is over: retry until it can.
                log.warning("isr_not_read", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            except Exception as error:
                log.error("isr_not_read", exc_info=error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for partition in open_:
                if partition.state.proposed is not None:
                    partition.withdraw()
            return


def _log_round(partitions: list[Partition]) -> None:
    """Write one line per round, with a few of the partitions as examples: a broker that stops or
    starts changes the in-sync replicas of everything it has."""
    states = [each.state for each in partitions]
    shrunk = sum(1 for state in states if state.isr - (state.proposed or state.isr))
    examples = [
        f"{each.name} {sorted(each.state.isr)} -> {sorted(each.state.proposed or each.state.isr)}"
        for each in partitions[:_EXAMPLES]
    ]
    log.info(
        "isr_proposed",
        partitions=len(partitions),
        shrunk=shrunk,
        expanded=len(partitions) - shrunk,
        examples=", ".join(examples),
    )
