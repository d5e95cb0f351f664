"""One flow, from one cluster to another: finds topics, copies, waits when a cluster is away."""

import time
from collections.abc import Sequence
from threading import Event
from typing import Final

import structlog

from headrace.client.error import BrokerError, ClientError, ProducerFenced
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.group.member import GroupMember
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.transaction_calls import GroupMembership
from headrace.client.write.writer_transaction import WriterTransaction
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.process.copier import Copier
from headrace.mirror.process.figures import FlowFigures
from headrace.mirror.process.offset_syncs import OffsetSyncs
from headrace.mirror.process.position import position_group
from headrace.mirror.process.share import Share
from headrace.mirror.process.source_state import Stopped, StopReason
from headrace.mirror.process.target_writer import TIMEOUT_MS
from headrace.mirror.process.topic_plan import TopicPlan
from headrace.mirror.process.topic_sync import TopicSync
from headrace.mirror.process.transaction_limit import TransactionLimit
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

_log = structlog.get_logger(__name__)
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 15.0
_SESSION_TIMEOUT_MS: Final = 10_000
# A broker may not know a new topic yet; rights and configurations may have been changed since.
_WORTH_A_RETRY: Final = frozenset({StopReason.GONE, StopReason.DENIED, StopReason.REFUSED})


class FlowReplaced(ClientError):
    """Another process copies the flow now."""


class Flow:
    """Copies until it is stopped, whatever is away meanwhile. One thread runs it.

    Args:
        instance: the name of this process among several that share the flow; None if it is alone.

    Attributes:
        share: what this process copies at the moment; other threads may read it.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClientSettings,
        target: ClientSettings,
        *,
        flows: Sequence[FlowSettings],
        figures: FlowFigures,
        syncs: OffsetSyncs,
        instance: str | None = None,
    ) -> None:
        self.settings = settings
        self.share = Share.whole(TopicPlan(()))
        self._plan = TopicPlan(())
        self._source = source
        self._target = target
        self._flows = flows
        self._figures = figures
        self._syncs = syncs
        self._instance = instance
        self._stopped: dict[TopicPartition, Stopped] = {}
        self._limit = TransactionLimit()
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    @property
    def name(self) -> str:
        return self.settings.name

    def run(self, stop: Event) -> None:
        """Copy until `stop`.

        Raises:
            FlowReplaced: another process has taken the flow over.
        """
        while not stop.is_set():
            try:
                self._connected(stop)
            except FlowReplaced:
                raise
            except HeadraceError as error:
                self._figures.runs(False)
                _log.warning(
                    "mirror_flow_waiting",
                    flow=self.name,
                    error=str(error),
                    seconds=self._pause_seconds,
                )
                stop.wait(self._pause_seconds)
                self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    def _connected(self, stop: Event) -> None:
        """Find topics and copy them, again and again, until an error or `stop`."""
        with ConnectionPool(self._source) as source, ConnectionPool(self._target) as target:
            topics = TopicSync(self.settings, source, target, self._flows)
            self._plan = topics.refresh()
            # What is still wrong stops again; what was mended meanwhile goes on.
            self._stopped.clear()
            self._figures.stopped(self._stopped)
            self._be_alone(target)
            member = None
            if self._instance is not None:
                group = position_group(self.name)
                member = GroupMember(target, group, (), session_timeout_ms=_SESSION_TIMEOUT_MS)
            try:
                while not stop.is_set():
                    self.share = self._next_share(member)
                    self._copy(topics, member, stop)
            finally:
                if member is not None:
                    member.leave()

    def _be_alone(self, target: ConnectionPool) -> None:
        """Copy a flow either alone or as one of several instances: both at once would copy twice.

        Raises:
            ClientError: this process has no name as an instance, and others copy as instances.
        """
        group = position_group(self.name)
        if self._instance is not None:
            # A process that copies alone learns of it at its next write.
            WriterTransaction(target, group, TIMEOUT_MS).take_over()
            return
        described = GroupAdmin(target).describe(group)
        if not isinstance(described, BrokerError) and described.members:
            raise ClientError(
                f"instances copy {self.name}: give this process an --instance of its own, too"
            )

    def _next_share(self, member: GroupMember | None) -> Share:
        if member is None:
            return Share.whole(self._plan)
        member.topics = sorted(each.remote_name for each in self._plan.topics)
        assigned = set(member.join())
        return Share.assigned(
            self._plan, assigned, GroupMembership(member.member_id, member.generation)
        )

    def _copy(self, topics: TopicSync, member: GroupMember | None, stop: Event) -> None:
        """Copy the present share until there is another one."""
        interval = self.settings.seconds("refresh.topics")
        due = [time.monotonic() + interval] if interval is not None else []

        def ends() -> bool:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
            if stop.is_set() or (member is not None and not member.is_current()):
                return True
            if not due or time.monotonic() < due[0] or interval is None:
                return False
            due[0] = time.monotonic() + interval
            return self._changed(topics)

        transactional_id = position_group(self.name)
        if self._instance is not None:
            transactional_id += f"-{self._instance}"
        copier = Copier(
            self.name,
            self.share,
            self._source,
            self._target,
            transactional_id=transactional_id,
            figures=self._figures,
            syncs=self._syncs,
            stopped=self._stopped,
            limit=self._limit,
        )
        try:
            _log.info("mirror_flow_started", flow=self.name, partitions=len(self.share.pairs))
            copier.run(ends)
        except ProducerFenced as error:
            if not copier.writer.may_have_timed_out:
                raise FlowReplaced(
                    f"another process copies {self.name} now, so this one ends: run one process "
                    "per flow, or give each of several another --instance"
                ) from error
            raise
        finally:
            copier.close()

    def _changed(self, topics: TopicSync) -> bool:
        """Look for topics; return whether there is something else to copy now."""
        plan = topics.refresh()
        again = [
            partition
            for partition, stopped in self._stopped.items()
            if stopped.reason in _WORTH_A_RETRY
            or self.settings.policy.remote_topic(self.settings.source, partition.topic)
            in topics.created
        ]
        if plan == self._plan and not topics.created and not again:
            return False
        for partition in again:
            del self._stopped[partition]
        self._figures.stopped(self._stopped)
        self._plan = plan
        return True
