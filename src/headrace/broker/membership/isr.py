"""Keeps the in-sync replicas of the partitions this broker leads: proposes, commits, withdraws.

Rule 1: a proposal counts from the moment it is made (`replication.state`), and until the cluster's
state has been read after its commit: a commit whose answer was lost may have been done.
Rule 2: one proposal a partition at a time; those of all partitions go in one commit.
Rule 3: nothing is given up. What was refused is proposed again if it still holds.
Rule 4: while the session with the cluster's store is over, a partition whose followers fetch no
more is stranded (`Partition`): they cannot be taken out of sync, and one of them may lead by now.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from headrace.broker.replica.partition import Partition
from headrace.cluster.controller import Controller
from headrace.cluster.partition_command import IsrProposal
from headrace.cluster.store import node_path
from headrace.cluster.topic import TopicRecord
from headrace.model.error import HeadraceError, StorageError
from headrace.model.ids import BrokerId, TopicId, TopicPartition

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 0.5


class IsrManager:
    """Lives on the event loop."""

    def __init__(self, broker: "Broker", max_lag_ms: int, joined: Callable[[], bool]) -> None:
        self._broker = broker
        self._is_joined = joined
        self._max_lag_ms = max_lag_ms
        self._proposed: dict[TopicPartition, Partition] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._checking = broker.loop.create_task(self._check_for_ever())

    def propose(self, partition: Partition, isr: frozenset[BrokerId]) -> None:
        if partition.state.proposed is not None or partition.resigned:
            return
        log.info(
            "in-sync replicas",
            partition=str(partition.name),
            proposed=sorted(isr),
            were=sorted(partition.state.isr),
        )
        partition.state.propose(isr)
        self._proposed[partition.name] = partition
        if self._flushing is None or self._flushing.done():
            self._flushing = self._broker.loop.create_task(self._flush())

    async def stop(self) -> None:
        tasks = [task for task in (self._checking, self._flushing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_for_ever(self) -> None:
        """Kafka looks as often: a follower is out after one and a half times its lag at most."""
        while True:
            await asyncio.sleep(self._max_lag_ms / 2000)
            try:
                self.check()
            except Exception as error:
                log.error("in-sync replicas could not be checked", exc_info=error)

    def check(self) -> None:
        """Also called when the session with the store has come back: rule 4 is over then."""
        now_ms = self._broker.clock.monotonic_ms()
        joined, stranded = self._is_joined(), False
        for partition in self._broker.topics.partitions():
            state = partition.state
            late = state.late(now_ms, self._max_lag_ms) if len(state.isr) > 1 else frozenset()
            partition.set_stranded(not joined and state.is_alone(now_ms, self._max_lag_ms))
            stranded = stranded or partition.stranded
            if late and state.proposed is None:
                self.propose(partition, state.shrunk(late))
        self._broker.cut_off = stranded

    async def _flush(self) -> None:
        while self._proposed:
            taken, self._proposed = self._proposed, {}
            proposals = [
                proposal
                for partition in taken.values()
                if (proposal := self._proposal(partition)) is not None
            ]
            await self._commit(proposals)
            # To its end, whatever goes wrong: a proposal that stays open would be the last one.
            await self._settle(list(taken.values()))

    def _proposal(self, partition: Partition) -> IsrProposal | None:
        topic = self._broker.topics.by_name(partition.name.topic)
        state = partition.state
        if topic is None or state.proposed is None or partition.resigned:
            return None
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
            await self._broker.administer(lambda controller: controller.alter_isr(proposals))
        except HeadraceError as error:
            log.warning("the in-sync replicas could not be changed", reason=str(error))
        except Exception as error:
            log.error("the in-sync replicas could not be changed", exc_info=error)

    async def _settle(self, partitions: list[Partition]) -> None:
        """Rule 1: read, and only then forget a proposal that was not taken."""
        open_ = [each for each in partitions if each.state.proposed is not None]
        while open_:
            paths = {node_path(TopicRecord.KIND, each.name.topic) for each in open_}

            def read(controller: Controller, paths: set[str] = paths) -> None:
                controller.catch_up(paths)

            try:
                await self._broker.administer(read)
            except StorageError as error:
                # It cannot be reached, or the session is over: as long as it takes.
                log.warning("the in-sync replicas could not be read yet", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            except Exception as error:
                log.error("the in-sync replicas could not be read yet", exc_info=error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for partition in open_:
                if partition.state.proposed is not None:
                    partition.withdraw()
            return
