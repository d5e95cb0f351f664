"""The way to every change of the cluster's state: commands for the controller of this broker.

Rule 1: one command runs at a time, in the controller's own thread, and is durable on return.
Rule 2: what a command changed is applied to this broker before the next command runs; so is what
others changed, and what a command that failed has learned. Only the logs of topics are made and
deleted later, in the background (`TopicApplier`): no command waits for the disk work of another.
Rule 3: a client that goes away cancels its wait, never a command that is under way: a topic must
not exist unserved.
Rule 4: what only reads waits for no command (`read`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar

import structlog

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.membership.metadata_applier import MetadataApplier
from headrace.broker.replica.topic_table import HostedTopic, TopicTable
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.rejection import Rejection
from headrace.cluster.state import ClusterState
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicDefaults, TopicPlan, TopicToCreate
from headrace.model.error import HeadraceError
from headrace.model.ids import BrokerId, TopicPartition

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

# So many logs are made in well under a tenth of a second.
_AWAITED_PARTITIONS = 100


class ControllerClient:
    """Runs commands of this broker's controller, one at a time, and applies what they changed.

    Threads: event loop only.

    Args:
        thread: the controller's; it runs one piece of work at a time.
    """

    def __init__(
        self,
        controller: Controller,
        thread: Executor,
        applier: MetadataApplier,
        *,
        settings: BrokerSettings,
        topics: TopicTable,
        members: Mapping[BrokerId, BrokerRecord],
    ) -> None:
        self._controller = controller
        self._thread = thread
        self._applier = applier
        self._settings = settings
        self._topics = topics
        self._members = members
        self._one_command = asyncio.Lock()
        # The loop holds tasks weakly; a command under way must not be collected.
        self._commands: set[asyncio.Task[Any]] = set()
        # The names of topics to read, and the command that will.
        self._reading: tuple[set[str], asyncio.Task[dict[str, TopicRecord]]] | None = None

    async def administer(self, command: Callable[[Controller], Result]) -> Result:
        """Run a command of the controller and apply what it changed (rules 1 to 3)."""
        return await self._to_the_end(self._administer(command))

    async def read(self, reading: Callable[[ClusterState], Result]) -> Result:
        """Read the cluster's state in a thread, while commands may run: a request that changes
        nothing does not wait for those that do.

        It sees every command that has returned, and perhaps a part of one that runs. `reading`
        keeps the thread rule of `ClusterState`.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, reading, self._controller.state)

    async def _administer(self, command: Callable[[Controller], Result]) -> Result:
        loop = asyncio.get_running_loop()
        async with self._one_command:
            try:
                return await loop.run_in_executor(self._thread, command, self._controller)
            finally:
                await self._applier.apply(self._controller.take_changes())

    async def _to_the_end(self, command: Coroutine[Any, Any, Result]) -> Result:
        """Run a command to its end even if the caller is cancelled (rule 3)."""
        task = asyncio.get_running_loop().create_task(command)
        self._commands.add(task)
        task.add_done_callback(self._command_ended)
        return await asyncio.shield(task)

    def _command_ended(self, task: "asyncio.Task[Any]") -> None:
        self._commands.discard(task)
        if not task.cancelled():
            # The caller may be gone, and asyncio logs an exception that is never looked at.
            task.exception()

    async def restore_topics(self) -> None:
        """Serve every topic, at the start.

        With no command in between: a topic that a command has changed since would be applied in
        the older state after the newer one.
        """
        async with self._one_command:
            await self._applier.restore_topics()

    async def apply_features(self) -> None:
        """Apply the finalized features between two commands (rule 1)."""
        async with self._one_command:
            self._applier.apply_features()

    # -- topics

    async def create_topics(
        self, topics: list[TopicToCreate], *, validate_only: bool = False
    ) -> TopicPlan:
        """Create topics, with the broker's defaults where a topic leaves something open."""
        defaults = TopicDefaults(
            partitions=self._settings.num_partitions,
            replication_factor=self._settings.default_replication_factor,
        )
        plan = await self.administer(
            lambda controller: controller.create_topics(
                topics, defaults=defaults, validate_only=validate_only
            )
        )
        await self.created(plan)
        return plan

    async def created(self, plan: TopicPlan) -> None:
        """Return when this broker serves what a plan has created, unless that is very much.

        Thousands of partitions take seconds. As with Apache Kafka, the response does not wait for
        them; the client's request for their metadata does (`served`).
        """
        records = (each for each in plan.outcomes.values() if isinstance(each, TopicRecord))
        if sum(len(record.partitions) for record in records) <= _AWAITED_PARTITIONS:
            await self.served(plan.outcomes)

    async def served(self, names: Iterable[str]) -> None:
        """Return when the logs of these topics are no longer being made."""
        await self._applier.topics.served(names)

    async def internal_topic(self, name: str) -> HostedTopic:
        """Return the topic of a coordinator, after creating it if it does not exist.

        Raises:
            HeadraceError: it cannot be created, or not yet. With fewer replicas than configured it
                would keep them for good, and lose groups or transactions with the next broker.
        """
        topic = self._topics.by_name(name)
        if topic is not None:
            return topic
        new = self._settings.internal_topic(name)
        running = len(self._members)
        if new.replication_factor > running:
            # Without a command: it would read the whole state again before it refuses.
            raise HeadraceError(
                f"{name} gets {new.replication_factor} replicas, and {running} brokers are running:"
                " start more brokers, or configure fewer replicas"
            )
        plan = await self.create_topics([new])
        outcome = plan.outcomes[name]
        topic = self._topics.by_name(name)
        if topic is None:
            reason = outcome.message if isinstance(outcome, Rejection) else "it is not served here"
            raise HeadraceError(f"cannot create {name}: {reason}")
        return topic

    def knows(self, name: TopicPartition) -> bool:
        """Return whether a partition exists, as far as this broker has read: it serves the topic,
        or will. Another broker may have deleted it; then the watch event is on the way."""
        topic = self._controller.state.topics.get(name.topic)
        return topic is not None and 0 <= name.partition < len(topic.partitions)

    async def read_topics(self, names: Iterable[str]) -> dict[str, TopicRecord]:
        """Return those of the topics that exist, as the cluster's store has them now.

        A topic that this broker does not serve may exist: it starts, the topic's logs are being
        made, or its watch event is on the way.

        Raises:
            StorageError: the store cannot be read.
        """
        wanted = set(names)
        if self._reading is None:
            # Many transactions ask at once after a start: one command reads for all of them.
            task = asyncio.get_running_loop().create_task(self._read_topics())
            self._commands.add(task)
            task.add_done_callback(self._command_ended)
            self._reading = (set(), task)
        asked, reading = self._reading
        asked |= wanted
        found = await asyncio.shield(reading)
        return {name: found[name] for name in wanted & found.keys()}

    async def _read_topics(self) -> dict[str, TopicRecord]:
        loop = asyncio.get_running_loop()
        async with self._one_command:
            assert self._reading is not None
            # Those that ask from now on need a later reading.
            (names, _), self._reading = self._reading, None
            try:
                return await loop.run_in_executor(self._thread, self._controller.read_topics, names)
            except HeadraceError as error:
                # Here: those who asked are many, and they all retry.
                log.warning("topics_not_read", topics=len(names), reason=str(error))
                raise
            finally:
                await self._applier.apply(self._controller.take_changes())
